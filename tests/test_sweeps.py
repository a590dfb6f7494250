"""Every test of the sweep runs in one share, and no test is left out unsaid."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summary import SUMMARY
from sweeps import Sweeps, examples, place

IDS = [f"tests/{name}.py::test_it[{number}]" for name in "ab" for number in range(40)]
IDS_OF_MORE = [f"tests/a.py::over_0[{case}]" for case in range(2)]


def selected(
    option: str, *, named: bool = False, alone: bool = False
) -> tuple[list[str], list[str], list[str]]:
    """Node ids kept and left out, and what is told, where every odd case is of the sweep."""
    left: list[Any] = []
    config: Any = SimpleNamespace(
        stash={SUMMARY: {}},
        hook=SimpleNamespace(pytest_deselected=lambda items: left.extend(items)),
    )
    items: list[Any] = [
        SimpleNamespace(
            nodeid=node_id,
            get_closest_marker=lambda name, odd=number % 2: (odd and name == "sweep") or None,
        )
        for number, node_id in enumerate(IDS)
    ]
    Sweeps(option, named=named, alone=alone).pytest_collection_modifyitems(config, items)
    ids = [[item.nodeid for item in each] for each in (items, left)]
    return ids[0], ids[1], config.stash[SUMMARY]["sweep"]


def test_shares_are_a_partition_of_the_sweep() -> None:
    kept = [selected(f"{number}/7")[0] for number in range(1, 8)]
    for node_id in IDS[::2]:
        assert all(node_id in each for each in kept)
    for node_id in IDS[1::2]:
        assert sum(node_id in each for each in kept) == 1


def test_none_all_and_tests_that_are_named() -> None:
    assert selected("none")[:2] == (IDS[::2], IDS[1::2])
    assert selected("all")[:2] == (IDS, [])
    assert selected("none", named=True)[:2] == (IDS, [])


def test_the_sweep_alone_is_all_that_does_not_run_each_time() -> None:
    each_time = set(selected("none")[0])
    for number in range(1, 8):
        both, more = selected(f"{number}/7")[0], selected(f"{number}/7", alone=True)[0]
        assert more == [node_id for node_id in both if node_id not in each_time]
    assert selected("all", alone=True)[0] == IDS[1::2]
    assert selected("none", named=True, alone=True)[0] == IDS


@pytest.mark.parametrize(("option", "kept"), [("all", 2), ("1/1", 2), ("none", 0)])
def test_the_sweep_alone_has_properties_that_it_tries_more_often(option: str, kept: int) -> None:
    marks = [examples(quick=3, full=8).mark, examples(quick=3, full=3).mark, None]
    items: list[Any] = [
        SimpleNamespace(
            nodeid=f"tests/a.py::over_{number}[{case}]",
            obj=given(st.integers())(lambda number: None),
            get_closest_marker=lambda name, mark=mark: mark if name == "examples" else None,
        )
        for number, mark in enumerate(marks)
        for case in range(2)
    ]
    config: Any = SimpleNamespace(
        stash={SUMMARY: {}}, hook=SimpleNamespace(pytest_deselected=lambda items: None)
    )
    Sweeps(option, named=False, alone=True).pytest_collection_modifyitems(config, items)
    assert [item.nodeid for item in items] == IDS_OF_MORE[:kept]


def test_what_is_left_out_is_told_by_file() -> None:
    kept, left, told = selected("2/3")
    assert left
    assert len(kept) + len(left) == len(IDS)
    assert told[0] == (
        f"share 2/3: {40 - len(left)} of 40 tests of the sweep selected, {len(left)} left out; "
        "0 properties tried on fewer examples"
    )
    counts = {name: sum(name in node_id for node_id in left) for name in ("tests/a", "tests/b")}
    assert told[1:] == [f"    {name}.py: {count} left out" for name, count in counts.items()]


def test_a_share_is_the_same_everywhere() -> None:
    assert [place(node_id, 7) for node_id in IDS[:8]] == [3, 1, 7, 6, 6, 6, 3, 4]


@pytest.mark.parametrize(
    ("option", "named", "tried"), [("none", False, 3), ("none", True, 8), ("all", False, 8)]
)
def test_a_property_is_tried_less_each_time(option: str, named: bool, tried: int) -> None:
    seen = []

    @given(st.integers())
    def over(number: int) -> None:
        seen.append(number)

    mark = examples(quick=3, full=8).mark
    items: list[Any] = [
        SimpleNamespace(
            nodeid=f"tests/a.py::over[{case}]",
            obj=over,
            get_closest_marker=lambda name: mark if name == "examples" else None,
        )
        for case in range(2)
    ]
    config: Any = SimpleNamespace(stash={SUMMARY: {}})
    Sweeps(option, named=named).pytest_collection_modifyitems(config, items)
    over()
    assert len(seen) == tried
    last = "    tests/a.py: 1 on fewer examples"
    assert config.stash[SUMMARY].get("sweep", [""])[-1] == (last if tried == 3 else "")


@pytest.mark.parametrize(
    ("option", "named", "made"),
    [("none", False, [0, 1, 2, 4, 5]), ("none", True, range(6)), ("2/3", False, range(6))],
)
def test_cases_that_are_left_out_are_not_made_and_counted(
    option: str, named: bool, made: Sequence[int]
) -> None:
    """But for a function that the sweep alone runs: pytest would make one without a case."""
    kinds = [
        (),
        (),
        (pytest.mark.slow.mark,),
        (pytest.mark.sweep.mark,),
        *[(pytest.mark.sweep.mark,)] * 2,
    ]
    calls = [SimpleNamespace(number=number, marks=marks) for number, marks in enumerate(kinds)]
    functions: list[Any] = [
        SimpleNamespace(_calls=some, definition=SimpleNamespace(nodeid=f"tests/a.py::test_{k}"))
        for k, some in enumerate((calls[:4], calls[4:]))
    ]
    plugin = Sweeps(option, named=named)
    for one in functions:
        list(plugin.pytest_generate_tests(one))
    assert [call.number for one in functions for call in one._calls] == [*made]
    config: Any = SimpleNamespace(stash={SUMMARY: {}})
    plugin.pytest_collection_modifyitems(config, [])
    told = config.stash[SUMMARY].get("sweep", [])
    assert told[1:] == (["    tests/a.py: 1 left out"] if len(made) < len(calls) else [])
