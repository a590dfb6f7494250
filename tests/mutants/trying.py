"""Tests run on a copy of the repository with one mistake in it, each time in a child process."""

from __future__ import annotations

import functools
import importlib
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any, Literal

import numpy
import pytest

from mutants.drawing import Mutant

Verdict = Literal["killed", "timed out", "survived"]

_BEFORE = (
    "click", "hypothesis.strategies", "ml_dtypes", "networkx", "numba", "numpy", "onnx.reference",
    "onnxruntime", "pydantic", "ray", "rich.table", "scipy.optimize", "scipy.sparse.csgraph",
    "scipy.stats", "yaml",
)  # fmt: skip
"""Imported once, before a child is made for each mistake: that takes longer than most tests."""

PRINTED = ".printed"
"""In the copy: what the last run of tests printed."""

_times: list[float] = []

_HANGS_BY = 3, 30
"""A test that takes longer than this, times the limit and seconds more, is taken to hang."""

_IDLE_S, _IDLE_CPU_S = 30, 0.3
"""Tests whose processes compute no longer than this in that time wait for what never comes."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of a mistake: by which test, and how many seconds of a processor it took."""

    mutant: Mutant
    verdict: Verdict
    seconds: float
    test: str = ""


@contextmanager
def copied(root: Path) -> Iterator[Path]:
    """A copy of the files that git knows or would take; gone at the end, whatever happens."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listed, cwd=root, check=True, capture_output=True, text=True).stdout
    with tempfile.TemporaryDirectory(prefix="hetsim-mutants-") as folder:
        for name in filter(None, names.split("\0")):
            if (root / name).is_file():
                place = Path(folder, name)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, place)
        yield Path(folder)


def prepare(copy: Path) -> None:
    """Have this process, and the children that it makes, import from the copy alone."""
    root = Path(__file__).parents[2]
    sys.path[:] = [str(copy), *(entry for entry in sys.path if Path(entry or ".") != root)]
    os.chdir(copy)
    for name in _BEFORE:
        importlib.import_module(name)


def tried(
    mutant: Mutant, tests: Sequence[str], copy: Path, limit_s: float, but: Collection[str] = ()
) -> Trial:
    """Run `tests` in this order on the mistake, until one fails or `limit_s` of CPU are over.

    Tests `but` are left out. A run that ends with an error of pytest's own was noticed by what
    its place names: no test, but ``pytest ended with 3``.
    """
    path = copy / mutant.path
    whole, since = path.read_text(), path.stat().st_mtime
    path.write_text(mutant.text)
    # Bytecode and machine code are kept by the time of their file: no two mistakes have the same.
    if mutant.text != whole:
        _times.append(since + 10 * (len(_times) + 1))
        os.utime(path, (_times[-1], _times[-1]))
    else:
        os.utime(path, (since, since))
    reader, writer = os.pipe()
    try:
        child = os.fork()
        if not child:
            os.close(reader)
            os.setpgid(0, 0)
            _print_to(copy / PRINTED)
            # A file that cannot be read is none to deselect tests of.
            given = [test for test in tests if test not in but]
            _child([*given, *(f"--deselect={test}" for test in but)], limit_s, writer)
        os.close(writer)
        try:
            said = _told(reader, child)
        except BaseException:
            os.killpg(child, signal.SIGKILL)
            raise
        _, status, used = os.wait4(child, 0)
    finally:
        path.write_text(whole)
        os.utime(path, (since, since))
    code = os.waitstatus_to_exitcode(status)
    if code > 0 and not said:
        said = f"pytest ended with {code}"
    # By a signal: a limit of time, or a crash, which is noticed just as well.
    verdict: Verdict = "killed" if said else "timed out" if code < 0 else "survived"
    return Trial(mutant, verdict, used.ru_utime + used.ru_stime, said)


def _told(reader: int, child: int) -> str:
    """The first line that a child writes until it ends; it is killed where nothing moves in it."""
    text, used_s, since = b"", 0.0, time.monotonic()
    with os.fdopen(reader, "rb", buffering=0) as told:
        while True:
            if select.select([told], [], [], 1.0)[0]:
                more = told.read(4096)
                if not more:
                    return text.decode().partition("\n")[0]
                text += more
            now_s = _computed_s(child)
            if abs(now_s - used_s) > _IDLE_CPU_S:
                used_s, since = now_s, time.monotonic()
            elif time.monotonic() - since > _IDLE_S:
                os.killpg(child, signal.SIGKILL)


def _computed_s(group: int) -> float:
    """Seconds of a processor that the processes of a group have used that are there still."""
    ticks = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # What follows the name: state, parent, group, ...; user and system time.
            fields = file.read_text().rpartition(")")[2].split()
            if int(fields[2]) == group:
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _print_to(path: Path) -> None:
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(file, stream)


def _child(tests: Sequence[str], limit_s: float, writer: int) -> None:
    code = 1
    try:
        _run_as_it_stands()
        times, more = _HANGS_BY
        hard = int(limit_s * times) + more
        resource.setrlimit(resource.RLIMIT_CPU, (hard, hard + 5))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # What pytest is told to run by name it would try as often as the sweep does.
        words = dict.fromkeys(test.partition("::")[0] for test in tests if test[:1] != "-")
        more = [test for test in tests if test.startswith("-")]
        only = frozenset(test for test in tests if "::" in test and test not in more)
        plugin = _Trying(limit_s, writer, only)
        code = int(pytest.main([*_OPTIONS, *words, *more], plugins=[plugin]))
    finally:
        os._exit(code)


def _run_as_it_stands() -> None:
    """Have functions that numba would compile called in plain Python: the same answers.

    For most mistakes the tests need less time so than it takes to make the machine code anew.
    """
    from hetsim.core import machine_code

    def uncompiled(
        function: Callable[..., Any], *parts: Callable[..., Any], **_: bool
    ) -> Callable[..., Any]:
        linked: dict[str, Any] = {}
        for part in (*parts, function):
            scope = {**part.__globals__, **linked}
            linked[part.__name__] = FunctionType(part.__code__, scope, part.__name__)

        @functools.wraps(function)
        def called(*arguments: Any) -> Any:
            # As in machine code, division by zero and overflows are no warnings.
            with numpy.errstate(all="ignore"):
                return linked[function.__name__](*arguments)

        vars(called).update(plain=function, loaded=False, kept=False)
        return called

    machine_code.machine_code = uncompiled


_OPTIONS = (
    "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist",
    "--hypothesis-seed=1", "-W", "ignore::pytest.PytestAssertRewriteWarning",
)  # fmt: skip


class _Trying:
    """Ends a run once its time is over, names what failed, and has properties not shrunk."""

    def __init__(self, limit_s: float, writer: int, only: frozenset[str]) -> None:
        self._limit_s = limit_s
        self._writer = writer
        self._only = only

    def pytest_configure(self, config: pytest.Config) -> None:
        from hypothesis import Phase, settings

        phases = (Phase.explicit, Phase.generate)
        here = settings(settings.get_profile("hetsim"), database=None, phases=phases)
        settings.register_profile("mutants", here)
        settings.load_profile("mutants")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if not _is_dear(item)]
        if self._only:
            items[:] = [item for item in items if item.nodeid in self._only]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            os.write(self._writer, report.nodeid.encode() + b"\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            os.write(self._writer, report.nodeid.encode() + b"\n")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        used = resource.getrusage(resource.RUSAGE_SELF)
        if used.ru_utime + used.ru_stime > self._limit_s:
            os._exit(0)
        return None


def _is_dear(item: pytest.Item) -> bool:
    """Whether a test starts a Ray or a browser."""
    called = getattr(item, "callspec", None)
    values = called.params.values() if called is not None else ()
    starts = any(isinstance(value, str) and value == "ray" for value in values)
    fixtures = getattr(item, "fixturenames", ())
    return starts or "ray_connection" in fixtures or "browser" in fixtures
