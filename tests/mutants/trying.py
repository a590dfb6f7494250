"""Tests run on a copy of the repository with one mistake in it, each time in a child process."""

from __future__ import annotations

import importlib
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

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

_HANGS_BY = 3, 240
"""A test that takes longer than this, times the limit and seconds more, is taken to hang.

Machine code of the clock with failures takes a hundred seconds to be made anew."""


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
            _print_to(copy / PRINTED)
            _child([*tests, *(f"--deselect={test}" for test in but)], limit_s, writer)
        os.close(writer)
        with os.fdopen(reader) as told:
            said = next(iter(told.read().split("\n")))
        _, status, used = os.wait4(child, 0)
    finally:
        path.write_text(whole)
        os.utime(path, (since, since))
    code = os.waitstatus_to_exitcode(status)
    if code > 0 and not said:
        said = f"pytest ended with {code}"
    # By a signal: the limit of the processor's time, or a crash, which is noticed just as well.
    verdict: Verdict = "killed" if said else "timed out" if code < 0 else "survived"
    return Trial(mutant, verdict, used.ru_utime + used.ru_stime, said)


def _print_to(path: Path) -> None:
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(file, stream)


def _child(tests: Sequence[str], limit_s: float, writer: int) -> None:
    code = 1
    try:
        times, more = _HANGS_BY
        hard = int(limit_s * times) + more
        resource.setrlimit(resource.RLIMIT_CPU, (hard, hard + 5))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        code = int(pytest.main([*_OPTIONS, *tests], plugins=[_Trying(limit_s, writer)]))
    finally:
        os._exit(code)


_OPTIONS = (
    "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist",
    "--hypothesis-seed=1", "-W", "ignore::pytest.PytestAssertRewriteWarning",
)  # fmt: skip


class _Trying:
    """Ends a run once its time is over, names what failed, and has properties not shrunk."""

    def __init__(self, limit_s: float, writer: int) -> None:
        self._limit_s = limit_s
        self._writer = writer

    def pytest_configure(self, config: pytest.Config) -> None:
        from hypothesis import Phase, settings

        phases = (Phase.explicit, Phase.generate)
        here = settings(settings.get_profile("hetsim"), database=None, phases=phases)
        settings.register_profile("mutants", here)
        settings.load_profile("mutants")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if not _is_dear(item)]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            os.write(self._writer, report.nodeid.encode() + b"\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            os.write(self._writer, report.nodeid.encode() + b"\n")

    @pytest.hookimpl(trylast=True)
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
