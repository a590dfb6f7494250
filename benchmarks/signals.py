"""What is left of a command that a signal ends: processes and files, at random moments.

Each time ``hetsim run --report`` is started in folders of its own, and at a moment that is drawn
over what it takes undisturbed, from before Python is up to after the report, its processes get a
signal: all of them SIGINT and SIGHUP, as a terminal sends them, the command alone SIGTERM and
SIGKILL. No process and no file may be left that was not there before, but a whole report; the exit
code is the signal's, or 0; and no traceback is shown. After SIGKILL that holds once the same
command has run again. JSON lines on stdout, one a run and one a kind in sum; exit code 1 where
something was left:

    python benchmarks/signals.py [--runs N] [--seed S] [--executor NAME] [--signal NAME]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from marked import marked

MARK = "HETSIM_SIGNALS_RUN"
COMMAND = (
    "run", "zoo:squeezenet", "--platform", "rock-5b", "--samples", "0", "--report", "page.html",
)  # fmt: skip
SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGKILL")
OF_TERMINALS = ("SIGINT", "SIGHUP")
EXECUTORS = ("threads", "ray")
LIMIT_S = 300.0
"""For a command to end once it was told to."""

GRACE_S = 3.0
"""For processes that were killed to be gone from the table."""

BEFORE_PYTHON = "KeyboardInterrupt"
"""What the interpreter itself prints of a SIGINT before, or after, any code of hetsim's runs."""


@dataclass
class Place:
    """Folders in which a command finds all that it may write to."""

    folder: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __post_init__(self) -> None:
        for name in ("cache", "home", "tmp", "work"):
            (self.folder / name).mkdir()

    def start(self, executor: str) -> subprocess.Popen[str]:
        """Start the command, as a terminal would, in a session of its own."""
        plain = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        interpreter = [sys.executable, "-c", INTERRUPTIBLE, sys.executable, "-m", "hetsim"]
        return subprocess.Popen(
            [*interpreter, *COMMAND, "--executor", executor],
            cwd=self.folder / "work",
            env=plain
            | {
                "HETSIM_CACHE_DIR": str(self.folder / "cache"),
                "HOME": str(self.folder / "home"),
                "XDG_CACHE_HOME": str(self.folder / "home"),
                "TMPDIR": str(self.folder / "tmp"),
                MARK: self.mark,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def files(self) -> set[str]:
        """Every file and folder, without the report."""
        found = {str(path.relative_to(self.folder)) for path in self.folder.rglob("*")}
        return found - {"work/page.html"}

    def processes(self) -> list[str]:
        """Every living process that has inherited the mark."""
        return [f"{pid} {words}" for pid, words in marked(MARK, self.mark)]


INTERRUPTIBLE = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""A shell lets what it starts in the background ignore SIGINT, this program's commands too."""


def left_after(place: Place, before: set[str]) -> dict[str, list[str]]:
    """Processes and files that are there and were not before."""
    ends = time.monotonic() + GRACE_S
    while (processes := place.processes()) and time.monotonic() < ends:
        time.sleep(0.05)
    return {"processes": processes, "files": sorted(place.files() - before)}


def whole(page: Path) -> bool:
    """Whether a report is absent, or there to its end."""
    return not page.exists() or page.read_text(encoding="utf-8").rstrip().endswith("</html>")


def struck(place: Place, executor: str, name: str, moment_s: float) -> dict[str, Any]:
    """Run the command, send it a signal at `moment_s`, and say what came of it."""
    number = signal.Signals[name]
    before = place.files()
    child = place.start(executor)
    try:
        child.wait(moment_s)
        ended_before = True
    except subprocess.TimeoutExpired:
        ended_before = False
        if name in OF_TERMINALS:
            os.killpg(child.pid, number)
        else:
            child.send_signal(number)
    sent = time.monotonic()
    hung = False
    try:
        _, stderr = child.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        hung = True
        os.killpg(child.pid, signal.SIGKILL)
        _, stderr = child.communicate()
    took_s = time.monotonic() - sent
    left = left_after(place, before)
    row: dict[str, Any] = {
        "executor": executor,
        "signal": name,
        "moment_s": round(moment_s, 3),
        "ended_before": ended_before,
        "exit_code": child.returncode,
        "ended_in_s": round(took_s, 2),
        "left": left,
    }
    complaints = []
    if hung:
        complaints.append(f"it did not end within {LIMIT_S:g} s")
    codes = {0} if ended_before else {0, -number, 128 + number}
    if child.returncode not in codes:
        complaints.append(f"exit code {child.returncode}")
    if "Traceback" in stderr and BEFORE_PYTHON not in stderr.strip().splitlines()[-1]:
        complaints.append("a traceback")
    if not whole(place.folder / "work" / "page.html"):
        complaints.append("half a report")
    (place.folder / "work" / "page.html").unlink(missing_ok=True)
    if name == "SIGKILL":
        again = place.start(executor)
        _, said = again.communicate(timeout=LIMIT_S)
        (place.folder / "work" / "page.html").unlink(missing_ok=True)
        row["left_by_the_next"] = left = left_after(place, before)
        if again.returncode != 0:
            complaints.append(f"the next ends with {again.returncode}: {said}")
    complaints += [f"left: {what}" for kind in ("processes", "files") for what in left[kind]]
    row["complaints"] = complaints
    if complaints:
        row["stderr"] = stderr[-2000:]
    return row


def undisturbed_s(place: Place, executor: str) -> float:
    """What the command takes when nobody ends it: the second time, with its cache warm."""
    seconds = 0.0
    for _ in range(2):
        began = time.monotonic()
        child = place.start(executor)
        _, stderr = child.communicate(timeout=LIMIT_S)
        seconds = time.monotonic() - began
        if child.returncode != 0:
            raise SystemExit(f"the command does not run: {stderr}")
        (place.folder / "work" / "page.html").unlink()
    return seconds


def main() -> int:
    """Play all kinds; return 1 where something was left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--executor", choices=EXECUTORS, action="append")
    parser.add_argument("--signal", choices=SIGNALS, action="append")
    given = parser.parse_args()
    wrong = 0
    for executor in given.executor or EXECUTORS:
        # Short, for the paths of Ray's sockets.
        with tempfile.TemporaryDirectory(prefix="ht", dir="/tmp") as folder:
            place = Place(Path(folder))
            span_s = undisturbed_s(place, executor)
            for name in given.signal or SIGNALS:
                random_moments = random.Random(f"{given.seed} {executor} {name}")
                rows = []
                for _ in range(given.runs):
                    row = struck(place, executor, name, random_moments.uniform(0.0, span_s))
                    rows.append(row)
                    print(json.dumps(row), flush=True)
                complained = sum(bool(row["complaints"]) for row in rows)
                wrong += complained
                print(json.dumps(in_sum(executor, name, span_s, rows, complained)), flush=True)
    return 1 if wrong else 0


def in_sum(
    executor: str, name: str, span_s: float, rows: list[dict[str, Any]], complained: int
) -> dict[str, Any]:
    """Count what was left over all runs of a kind."""
    return {
        "executor": executor,
        "signal": name,
        "runs": len(rows),
        "undisturbed_s": round(span_s, 2),
        "while_it_ran": sum(not row["ended_before"] for row in rows),
        "left_processes": sum(len(row["left"]["processes"]) for row in rows),
        "left_files": sum(len(row["left"]["files"]) for row in rows),
        "left_by_the_next": sum(
            len(row["left_by_the_next"][kind])
            for row in rows
            if "left_by_the_next" in row
            for kind in ("processes", "files")
        ),
        "slowest_end_s": max(row["ended_in_s"] for row in rows),
        "runs_with_complaints": complained,
    }


if __name__ == "__main__":
    sys.exit(main())
