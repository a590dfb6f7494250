"""Which tests one process runs, where several share the work.

Tests that share what takes long to make, or that wait for the same kind of thing, are a group,
which one process runs; all others go to whichever process is free, the long ones first.
pytest-xdist's own groups are part of node ids, which pytest 9.2 does not let it change: here the
processes tell the groups in a file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

GROUPS = {"judged": "suite", "ray_connection": "ray"}
"""Fixtures that take long to make, and the group of the tests that use one."""

MARK = "group"
"""Marks a test with its group. That of all that start Rays of their own is ``own_ray``: one process
waits for them while the others compute. For each function that is compiled, ``machine_code`` has a
test that calls it: where no machine code is kept yet, one process makes it, and all find it."""

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


class Groups:
    """A plugin that tells a process's groups to the one that hands out the tests."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Put long tests first, so that no process is left with one, and tell the groups."""
        told = getattr(config, "workerinput", {}).get(_FILE)
        if told is None:
            return
        items.sort(key=lambda item: item.get_closest_marker("slow") is None)
        named = {item.nodeid: name for item in items if (name := group(item))}
        Path(told).write_text(json.dumps(named))

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Say where a process is to tell its groups."""
        node.workerinput[_FILE] = str(_told_by(node))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        """Hand out tests by these groups where ``--dist loadgroup`` asks for groups."""
        return _ByGroup(config, log) if config.getvalue("dist") == "loadgroup" else None


class _ByGroup(LoadScopeScheduling):
    """Hand out groups whole, the largest first, then the other tests one by one."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self._groups: dict[str, str] = {}

    def add_node_collection(self, node: Any, collection: Any) -> None:
        self._groups = json.loads(_told_by(node).read_text())
        super().add_node_collection(node, collection)

    def _split_scope(self, nodeid: str) -> str:
        return self._groups.get(nodeid, nodeid)


def _told_by(node: Any) -> Path:
    folder = node.config._tmp_path_factory.getbasetemp()
    return Path(folder) / f"groups-{node.gateway.id}.json"
