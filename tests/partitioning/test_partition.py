"""The validator objects to what it should, and to nothing else."""

from __future__ import annotations

import pytest

from hetsim.errors import PlanError
from hetsim.graph.dag import Dag, find_cycle, topological_order
from hetsim.problem.groups import Group
from hetsim.problem.problem import Problem
from hetsim.problem.validator import check, problems_of

DIAMOND = Dag.from_edges(4, [(0, 1), (0, 2), (1, 3), (2, 3)])


def groups(*parts: tuple[str, tuple[int, ...]]) -> tuple[Group, ...]:
    return tuple(Group(device, nodes) for device, nodes in parts)


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        (groups(("a", (0, 1, 2))), "node 3 is in no group"),
        (groups(("a", (0, 1, 2)), ("a", (2, 3))), "node 2 is in groups 0 and 1"),
        (groups(("a", (0, 1, 2, 3)), ("a", ())), "group 1 is empty"),
        (groups(("c", (0, 1, 2, 3))), "unknown device 'c'"),
        (groups(("a", (0, 2, 1, 3))), "graph order"),
        (groups(("a", (0, 1, 2, 3, 4))), "node 4, which does not exist"),
        (groups(("a", (-1, 0, 1, 2, 3))), "node -1, which does not exist"),
        (groups(("a", (0, 1, 3)), ("b", (2,))), "cycle: group 0 (a) > group 1 (b) > group 0 (a)"),
        (groups(("a", (3,)), ("a", (0, 1, 2))), "group 0 stands before group 1"),
    ],
)
def test_each_fault_is_named(parts: tuple[Group, ...], complaint: str) -> None:
    found = problems_of(DIAMOND, parts, ("a", "b"))
    assert any(complaint in text for text in found), found


def test_unsupported_and_unconnected() -> None:
    parts = groups(("a", (0, 1, 2, 3)))
    supported = [[True], [True], [False], [True]]
    assert problems_of(DIAMOND, parts, ("a",), supported, name=list("wxyz")) == [
        "'a' does not support 'y' (group 0)"
    ]
    arms = groups(("a", (0,)), ("a", (1, 2)), ("a", (3,)))
    assert problems_of(DIAMOND, arms, ("a",), connected=True) == ["group 1 is not connected"]


def test_check_counts_the_rest() -> None:
    problem = Problem.from_arrays([[1.0]] * 4)
    with pytest.raises(PlanError, match=r"here: not a valid partition: 'n0' .* \(and 3 more\)"):
        check(problem, (), where="here")


def test_a_composite_is_supported_whole_or_not_at_all() -> None:
    inf = float("inf")
    problem = Problem.from_arrays(
        [[inf, 1.0], [1.0, 1.0], [1.0, 1.0]],
        [(0, 1, 8), (1, 2, 8)],
        devices=("npu", "cpu"),
        composites=[(0, (0, 1), 0.5)],
    )
    check(problem, groups(("npu", (0, 1)), ("cpu", (2,))))
    with pytest.raises(PlanError, match="'npu' supports 'n0' only together with 'n1'"):
        check(problem, groups(("npu", (0,)), ("cpu", (1, 2))))
    check(problem, groups(("npu", (0,)), ("cpu", (1, 2))), supports=False)
    check(problem, groups(("cpu", (0,)), ("npu", (1, 2))))


def test_find_cycle_returns_a_closed_walk() -> None:
    succs = [[1], [2], [3, 4], [1], []]
    assert topological_order(succs) is None
    cycle = find_cycle(succs)
    assert sorted(cycle) == [1, 2, 3]
    assert all(b in succs[a] for a, b in zip(cycle, [*cycle[1:], cycle[0]], strict=True))
