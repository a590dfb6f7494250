"""Which tests one process runs, where several share the work.

Tests that share what takes long to make, or that wait for the same kind of thing, are a group,
which one process runs. All other tests go out by their files, for those of a file share what they
make, too: whole at first, in ever smaller parts towards the end, so that all processes end at once.
pytest-xdist's own groups are part of node ids, which pytest 9.2 does not let it change: here the
processes tell the groups in a file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from xdist.scheduler import LoadScopeScheduling

GROUPS = {"judged": "suite", "ray_connection": "ray", "browser": "browser"}
"""Fixtures that take long to make, and the group of the tests that use one. The first counts where
a test uses several: a second Ray is there sooner than the suite is judged again."""

MARK = "group"
"""Marks a test with its group. That of all that start Rays of their own is ``own_ray``: one process
waits for them while the others compute. For each function that is compiled, ``machine_code`` has a
test that calls it: where no machine code is kept yet, one process makes it, and all find it."""

FIRST = ("own_ray", "ray", "machine_code", "suite", "browser")
"""The groups in the order in which they go out, the longest first."""

SHORT_S = 0.1
"""Up to which what is made before a test, or goes after it, is not reported where it passes."""

_FILE = "hetsim_groups"


def group(item: pytest.Item) -> str | None:
    """The group that a test is in."""
    mark = item.get_closest_marker(MARK)
    if mark is not None:
        named: str = mark.args[0]
        return named
    used = set(getattr(item, "fixturenames", ()))
    # Such a fixture asks for a session where its parameter says so.
    if "executor" in used and getattr(item, "callspec").params.get("executor") == "ray":  # noqa: B009
        used.add("ray_connection")
    return next((name for fixture, name in GROUPS.items() if fixture in used), None)


def units(collection: Sequence[str], groups: Mapping[str, str], processes: int) -> dict[str, str]:
    """The unit in which each test goes out, by its node id.

    A group is one; else tests of a file that follow each other are, as far as they are no more
    than a quarter of what a process has before it when they go out.
    """
    found = {}
    alone = [node_id for node_id in collection if node_id not in groups]
    left = len(alone)
    for number, (name, those) in enumerate(groupby(alone, key=lambda each: each.split("::")[0])):
        one_file = list(those)
        while one_file:
            size = max(1, left // (4 * processes))
            part, one_file = one_file[:size], one_file[size:]
            found.update(dict.fromkeys(part, f"{name} {number} {left}"))
            left -= len(part)
    return {**found, **groups}


class Groups:
    """A plugin that tells a process's groups to the one that hands out the tests."""

    def __init__(self) -> None:
        self._named: dict[str, str] = {}
        self._ends: dict[str, Callable[[], None]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Put groups and long tests first, so that no process is left with one; tell the groups."""
        told = getattr(config, "workerinput", {}).get(_FILE)
        if told is None:
            return
        self._named = named = {item.nodeid: name for item in items if (name := group(item))}
        place = {name: number for number, name in enumerate(FIRST)}

        def turn(item: pytest.Item) -> tuple[int, bool]:
            name = named.get(item.nodeid)
            late = len(place) + (name is None)
            return place.get(name or "", late), item.get_closest_marker("slow") is None

        items.sort(key=turn)
        Path(told).write_text(json.dumps(named))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> bool | None:
        """Report to the process that hands out tests what it counts, not each step of each test."""
        if not hasattr(item.config, "workerinput"):
            return None
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            if report.when == "call" or not report.passed or report.duration > SHORT_S:
                item.ihook.pytest_runtest_logreport(report=report)
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: Any
    ) -> Generator[None, object, object]:
        """Note how to end what a group shares."""
        made = yield
        if fixturedef.argname in GROUPS:
            self._ends[GROUPS[fixturedef.argname]] = partial(fixturedef.finish, request)
        return made

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None]:
        """End what a group shares after its last test: an idle Ray takes 3 % of a processor."""
        yield
        name = self._named.get(item.nodeid, "")
        if nextitem is not None and self._named.get(nextitem.nodeid) != name:
            self._ends.pop(name, lambda: None)()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Say where a process is to tell its groups."""
        node.workerinput[_FILE] = str(_told_by(node))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        """Hand out tests by these groups where ``--dist loadgroup`` asks for groups."""
        return _ByGroup(config, log) if config.getvalue("dist") == "loadgroup" else None


class _ByGroup(LoadScopeScheduling):
    """Hand out groups, then the parts of files, in the order in which they were collected."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False
        self._groups: dict[str, str] = {}
        self._units: dict[str, str] = {}
        self._number: dict[str, int] = {}

    def add_node_collection(self, node: Any, collection: Any) -> None:
        self._groups = json.loads(_told_by(node).read_text())
        super().add_node_collection(node, collection)

    def schedule(self) -> None:
        if self.collection is None:
            # All processes have the same tests in the same order, else none is run.
            collection = next(iter(self.registered_collections.values()))
            self._units = units(collection, self._groups, len(self.nodes))
            self._number = {node_id: number for number, node_id in enumerate(collection)}
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        return self._units[nodeid]

    def _assign_work_unit(self, node: Any) -> None:
        # As in the base class, which looks for each test in the list of them all.
        unit, tests = self.workqueue.popitem(last=False)
        self.assigned_work.setdefault(node, {})[unit] = tests
        node.send_runtest_some([self._number[one] for one, ended in tests.items() if not ended])

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        # What has ended is forgotten: the base class would count it again after each test.
        node_id = self.registered_collections[node][item_index]
        unit = self._units[node_id]
        tests = self.assigned_work[node][unit]
        del tests[node_id]
        if not tests:
            del self.assigned_work[node][unit]
        self._reschedule(node)


def _told_by(node: Any) -> Path:
    folder = node.config._tmp_path_factory.getbasetemp()
    return Path(folder) / f"groups-{node.gateway.id}.json"
