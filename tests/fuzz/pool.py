"""A process that plays cases, watched: ended where it hangs, begun anew where it died."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from fuzz.judging import NBYTES, SECONDS, WAITS, Call, shown

_LOOKED_S = 0.05
_TESTS = Path(__file__).parents[1]


class Pool:
    """One process at a time; what it does lies below `root`.

    Parameters
    ----------
    root : Path
        A folder that is this pool's alone.
    seconds, nbytes : float, int
        What a call may take, of a processor and of memory.
    program : tuple of str
        What Python runs as the worker.
    """

    def __init__(
        self,
        root: Path,
        *,
        seconds: float = SECONDS,
        nbytes: int = NBYTES,
        program: tuple[str, ...] = ("-m", "fuzz.worker"),
    ) -> None:
        self.root = root
        self._program = program
        self._seconds, self._nbytes = seconds, nbytes
        self._process: subprocess.Popen[bytes] | None = None
        self._to = self._from = -1
        self._read = b""

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._end()

    @property
    def case(self) -> Path:
        """The files of the last case."""
        return self.root / "case"

    def words(self) -> list[list[str]]:
        """The command lines of the last case."""
        words: list[list[str]] = json.loads((self.root / "words.json").read_text())
        return words

    def play(self, asked: Mapping[str, Any]) -> Iterator[Call]:
        """Yield what came of each call of a case."""
        if self._process is None:
            self._start()
        (self.root / "words.json").write_text("[]")
        os.write(self._to, json.dumps(asked).encode() + b"\n")
        words: tuple[str, ...] = ()
        while True:
            told = self._told(self._seconds)
            if isinstance(told, str):
                err = (self.root / "stderr").read_bytes()
                yield Call(words or ("write",), None, told, f"{shown(err)}\n{told}", self._seconds)
                self._end()
                return
            if "began" in told:
                words = tuple(told["began"]) if isinstance(told["began"], list) else ()
            elif "ended" in told:
                call = Call(**{**told["ended"], "words": words})
                if call.peak_bytes > self._nbytes:
                    call = Call(
                        words, call.code, "memory", call.said, call.seconds, call.peak_bytes
                    )
                yield call
            else:
                return

    def _start(self) -> None:
        asked, self._to = os.pipe()
        self._from, answers = os.pipe()
        self.root.mkdir(parents=True, exist_ok=True)
        paths = [str(_TESTS), str(_TESTS / "helpers"), str(_TESTS.parent)]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
        environ.pop("COLUMNS", None)
        self._process = subprocess.Popen(
            [sys.executable, *self._program, str(self.root), str(asked), str(answers)],
            pass_fds=(asked, answers),
            env=environ,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(asked)
        os.close(answers)
        self._read = b""
        if isinstance(why := self._told(SECONDS), str):
            raise RuntimeError(f"the worker does not start: {why}")

    def _told(self, seconds: float) -> dict[str, Any] | str:
        """The next thing it says, or why it says nothing more within so many seconds."""
        assert self._process is not None
        began, began_cpu = time.monotonic(), self._used_s()
        while b"\n" not in self._read:
            ready, _, _ = select.select([self._from], [], [], _LOOKED_S)
            if ready:
                more = os.read(self._from, 2**16)
                if not more:
                    code = self._process.wait()
                    return signal.Signals(-code).name if code < 0 else f"ended with {code}"
                self._read += more
            # Memory first: taking it takes time as well.
            elif self._held_bytes() > self._nbytes:
                return "memory"
            elif self._used_s() - began_cpu > seconds:
                return "hang"
            elif time.monotonic() - began > WAITS * seconds:
                return "wait without end"
        line, _, self._read = self._read.partition(b"\n")
        told: dict[str, Any] = json.loads(line)
        return told

    def _held_bytes(self) -> int:
        assert self._process is not None
        try:
            held = Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]
        except OSError:
            return 0
        return int(held) * os.sysconf("SC_PAGE_SIZE")

    def _used_s(self) -> float:
        """Seconds of processors that it has used."""
        assert self._process is not None
        try:
            words = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def _end(self) -> None:
        if self._process is None:
            return
        os.close(self._to)
        os.close(self._from)
        # Its children are in its group, even where it is gone.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None
