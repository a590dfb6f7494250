"""The process in which cases are played: it may die, and is watched by the one that started it.

``python -m fuzz.worker ROOT CASES ANSWERS``: takes cases as JSON lines from the file descriptor
CASES, and tells on ANSWERS what it is about to call and what came of it.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from fuzz.judging import Call, fault_of, shown
from fuzz.kept import MADE, files_of, read_words

if TYPE_CHECKING:
    from fuzz.kinds.registry import Write

CASE, TEMP = "case", "temp"


def main(root: Path, cases: int, answers: int) -> None:
    """Play the cases that come until none comes."""
    worker = Worker(root)
    with os.fdopen(cases) as asked, os.fdopen(answers, "w") as told:
        print(json.dumps({"ready": os.getpid()}), file=told, flush=True)
        for line in asked:
            for record in worker.answers(json.loads(line)):
                told.write(json.dumps(record) + "\n")
                told.flush()


class Worker:
    """A folder for cases, an empty one for temporary files, and what is printed."""

    def __init__(self, root: Path) -> None:
        self._case, self._temp = root / CASE, root / TEMP
        self._originals = root / "originals"
        self._temp.mkdir(exist_ok=True)
        os.environ["TMPDIR"] = str(self._temp)
        tempfile.tempdir = None
        self._out = self._stream(root / "stdout", 1)
        self._err = self._stream(root / "stderr", 2)
        self._writes: dict[str, Write] = {}
        warnings.simplefilter("always")
        # Imported once all streams are what it will print to.
        from hetsim.cli.main import main as program

        self._program: Any = program

    @staticmethod
    def _stream(path: Path, number: int) -> BinaryIO:
        stream = path.open("w+b", buffering=0)
        os.dup2(stream.fileno(), number)
        # What a call prints begins at the beginning: see `_printed`.
        return stream

    def answers(self, asked: dict[str, Any]) -> Any:
        """Yield what is about to be done, and what came of it, of one case."""
        yield {"began": "the case is written"}
        words = self._written(asked)
        (self._case.parent / "words.json").write_text(json.dumps(words))
        os.chdir(self._case)
        before = files_of(self._case)
        for line in words:
            yield {"began": line}
            yield {"ended": asdict(self._call(tuple(line), before))}
        os.chdir(self._case.parent)
        yield {"over": len(words)}

    def _written(self, asked: dict[str, Any]) -> list[list[str]]:
        shutil.rmtree(self._case, ignore_errors=True)
        if "folder" in asked:
            folder = Path(asked["folder"])
            shutil.copytree(folder, self._case)
            return read_words(folder)
        self._case.mkdir()
        kind, seed, number = asked["kind"], asked["seed"], asked["number"]
        if kind not in self._writes:
            from fuzz.kinds.registry import KINDS

            originals = self._originals / kind
            shutil.rmtree(originals, ignore_errors=True)
            originals.mkdir(parents=True)
            os.chdir(originals)
            self._writes[kind] = KINDS[kind](originals)
        rng = random.Random(f"{kind} {seed} {number}")
        words = [list(line) for line in self._writes[kind](rng, self._case)]
        most = asked["verbs"]
        return words if most is None else rng.sample(words, min(most, len(words)))

    def _call(self, words: tuple[str, ...], before: set[str]) -> Call:
        Path("/proc/self/clear_refs").write_text("5")
        for number in (1, 2):
            os.ftruncate(number, 0)
            os.lseek(number, 0, os.SEEK_SET)
        began = time.process_time()
        code: int | None = None
        try:
            self._program.main(list(words))
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0
        except BaseException as error:  # that one came this far is the fault
            os.write(2, f"{type(error).__name__}: {error}\n".encode(errors="replace"))
        seconds = time.process_time() - began
        sys.stdout.flush()
        sys.stderr.flush()
        self._out.seek(0)
        self._err.seek(0)
        out, err = self._out.read(), self._err.read()
        found = fault_of(code, out, err, self._left(before), before)
        return Call(words, code, found, shown(err), seconds, _peak_bytes())

    def _left(self, before: set[str]) -> list[str]:
        """Temporary files, files beside the case's and processes that a call left."""
        left = [f"$TMPDIR/{entry.name}" for entry in self._temp.iterdir()]
        for entry in self._temp.iterdir():
            shutil.rmtree(entry, ignore_errors=True) if entry.is_dir() else entry.unlink()
        new = files_of(self._case) - before
        left += sorted(name for name in new if not name.startswith(MADE))
        for name in new:
            (self._case / name).unlink()
        for entry in self._case.iterdir():
            if entry.name.startswith(MADE) and entry.is_dir():
                shutil.rmtree(entry)
        return [*left, *map(_end, _children())]


def _children() -> list[int]:
    """Ids of the processes that this one has started and not waited for."""
    found: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # a thread may end meanwhile
            found += map(int, (task / "children").read_text().split())
    return found


def _end(process: int) -> str:
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return f"process {process}"


def _peak_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


if __name__ == "__main__":
    gc.set_threshold(50_000, 50, 50)
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
