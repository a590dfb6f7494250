"""What several processes need as they collect the same tests is made once.

Where no bytecode is kept yet, to rewrite and compile all files takes longer than to import them:
each process begins with other files, and finds those that others have compiled by then.
"""

from __future__ import annotations

import fcntl
import gc
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

_FILE = "hetsim_collected"


class Collecting:
    """A plugin by which processes that collect side by side share what that takes."""

    def __init__(self, config: pytest.Config) -> None:
        told: dict[str, Any] = getattr(config, "workerinput", {})
        self._file = told.get(_FILE)
        self._number = int(told.get("workerid", "gw0").removeprefix("gw"))
        self._processes = int(told.get("workercount", 1))

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Say which file is there once a process has collected all tests."""
        folder = node.config._tmp_path_factory.getbasetemp()
        node.workerinput[_FILE] = str(Path(folder) / "collected")

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        """Collect no garbage meanwhile, nor look through what is made: nearly all of it stays."""
        gc.disable()
        try:
            return (yield)
        finally:
            gc.freeze()
            gc.set_threshold(50_000, 20, 50)  # as the command line does, which many tests call
            gc.enable()

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Begin with other folders and files than the other processes do."""
        report = yield
        if self._file and isinstance(collector, pytest.Directory):
            found = list(report.result)
            start = turn([_files(each.path) for each in found], self._number, self._processes)
            report.result = found[start:] + found[:start]
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None]:
        """Put tests in the order of all processes; let one prepare first what hypothesis keeps."""
        if self._file is None:
            return (yield)
        parts = {item.path: item.path.parts for item in items}
        items.sort(key=lambda item: parts[item.path])
        with open(self._file, "a+") as lines:
            fcntl.flock(lines, fcntl.LOCK_EX)
            lines.seek(0)
            if lines.read():
                fcntl.flock(lines, fcntl.LOCK_UN)
            yield
            lines.write("once\n")


def turn(weights: Sequence[int], number: int, processes: int) -> int:
    """With which of things of these weights the process of this number begins, from 0.

    It is the one that holds the process's share of the way, the first process's being its start.
    """
    before = 0
    for place, weight in enumerate(weights):
        before += weight
        if before * processes > number * sum(weights):
            return place
    return 0


def _files(path: Path) -> int:
    return sum(1 for _ in path.rglob("test_*.py")) if path.is_dir() else 1
