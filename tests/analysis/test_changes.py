"""What could be changed about a plan: what is tried, how it is told, and what counts as a gain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import hetsim
from hetsim.analysis import explanation
from hetsim.analysis.explanation import Change, best_changes, explain
from hetsim.partitioning.groups import Group
from hetsim.placement.objective import measure
from hetsim.plans.plan import Plan
from hetsim.problem.problem import Problem

INF = math.inf


def chain(seconds: list[list[float]], sizes: list[int], names: str = "abc") -> Problem:
    edges = [(v, v + 1, nbytes) for v, nbytes in enumerate(sizes)]
    devices = tuple(names[: len(seconds[0])])
    return Problem.from_arrays(
        seconds, edges=edges, devices=devices, bytes_per_s=1.0, contention="fifo"
    )


def by_hand(problem: Problem, devices: str, strategy: str = "heft") -> Plan:
    groups = tuple(Group(name, (v,)) for v, name in enumerate(devices))
    return Plan(problem, strategy, groups)


def tried(plan: Plan, strategies: Sequence[str] = ("single", "heft")) -> tuple[list[str], int]:
    """What is told of, without its number, and how many are said to be tried."""
    told: list[str] = []
    found = explain(plan, strategies=strategies, tell=told.append)
    assert [text.partition(": ")[0] for text in told] == [
        f"{at + 1} of {len(told)}" for at in range(len(told))
    ]
    return [text.partition(": ")[2] for text in told], found.tried


def test_every_subgraph_of_the_path_is_tried_elsewhere_the_longest_first() -> None:
    problem = chain([[3.0, 1.0, 2.0], [5.0, 9.0, INF], [1.0, 2.0, 3.0]], [1, 1])
    told, count = tried(by_hand(problem, "bab"))
    moves = [text for text in told if text.startswith("move ")]
    assert moves == [
        "move g1 (1 node) from a to b", "move g2 (1 node) from b to a",
        "move g2 (1 node) from b to c", "move g0 (1 node) from b to a",
        "move g0 (1 node) from b to c",
    ]  # fmt: skip
    assert count == len(told)
    rest = told[len(moves) :]
    assert rest[:6] == [f"link {name}: bandwidth x2" for name in problem.link_names]
    assert rest[6:] == [
        *(f"{name}: kernels twice as fast" for name in "abc"), "c: support for Task (1 node)",
    ]  # fmt: skip


def test_twelve_subgraphs_are_moved_at_most() -> None:
    count = explanation.MOVES_TRIED + 3
    problem = chain([[1.0 + v, 1.5 + v] for v in range(count)], [1] * (count - 1))
    told, _ = tried(by_hand(problem, "ab" * (count // 2) + "a"))
    moved = [text.split()[1] for text in told if text.startswith("move ")]
    assert moved == [f"g{v}" for v in reversed(range(count))][: explanation.MOVES_TRIED]


def test_of_alike_devices_the_one_that_works_most_is_tried() -> None:
    problem = Problem.from_arrays(
        [[1.0, 1.0, 9.0]] * 3, edges=[(0, 1, 1), (1, 2, 1)], devices=("g.0", "g.1", "g.2"),
        bytes_per_s=1.0,
    )  # fmt: skip
    groups = (Group("g.0", (0,)), Group("g.1", (1, 2)))
    told, _ = tried(Plan(problem, "heft", groups))
    twice = [text.partition(":")[0] for text in told if "kernels" in text]
    # The third is called alike, but is another.
    assert twice == ["g.1", "g.2"]
    idle, _ = tried(Plan(problem, "heft", (Group("g.2", (0, 1, 2)),)))
    assert [text.partition(":")[0] for text in idle if "kernels" in text] == ["g.0", "g.2"]
    for other in ({"dispatch_s": (0.0, 1.0, 0.0)}, {"streams": (1, 2, 1)},
                  {"capacity_bytes": (10**6, 10**7, 10**6)}):  # fmt: skip
        unlike = replace(problem, **other)  # type: ignore[arg-type]
        told, _ = tried(Plan(unlike, "heft", groups))
        assert sum("kernels" in text for text in told) == 3


def test_eight_ops_are_supposed_to_be_taken_those_of_the_longest_nodes() -> None:
    count = explanation.OPS_TRIED + 2
    problem = chain([[1.0 + v % 5 + v / 100, INF] for v in range(count)], [1] * (count - 1), "ab")
    problem = replace(problem, op_types=tuple(f"Op{v}" for v in range(count)))
    told, _ = tried(Plan(problem, "heft", (Group("a", tuple(range(count))),)))
    ops = [text for text in told if "support for" in text]
    longest = sorted(range(count), key=lambda v: -problem.seconds[v, 0])[: explanation.OPS_TRIED]
    assert ops == [f"b: support for Op{v} (1 node)" for v in longest]
    two = replace(problem, op_types=("Same",) * count)
    told, _ = tried(Plan(two, "heft", (Group("a", tuple(range(count))),)))
    assert told[-1] == f"b: support for Same ({count} nodes)"


def test_gains_are_told_the_most_first_and_at_most_three() -> None:
    problem = chain([[8.0, 4.0], [8.0, 4.0]], [2])
    plan = by_hand(problem, "ab")
    found = explain(plan)
    cost_s = measure(plan, "latency")
    assert cost_s == 8.0 + 2.0 + 4.0
    assert [(one.kind, one.what, one.cost_s) for one in found.changes] == [
        ("device", "b: kernels twice as fast", 4.0),
        ("move", "move g0 (1 node) from a to b", 8.0),
        ("link", "link a>b: bandwidth x2", 8.0),
    ]  # fmt: skip
    assert [one.gain for one in found.changes] == [1 - 4 / 14, 1 - 8 / 14, 1 - 8 / 14]


def test_a_plan_that_keeps_its_subgraphs_is_told_by_its_own_name() -> None:
    """Where no strategy does better, what is gained is what the plan itself gains."""
    problem = chain([[4.0]], [])
    found = explain(by_hand(problem, "a", "exact"), strategies=("single",))
    (one,) = found.changes
    assert (one.kind, one.cost_s, one.gain, one.strategy) == ("device", 2.0, 0.5, "exact")
    assert found.tried == 1


def test_less_than_a_millionth_is_no_gain() -> None:
    for moved, gains in ((1.0 - 2e-6, True), (1.0 - 5e-7, False)):
        problem = Problem.from_arrays([[1.0, moved]], devices=("a", "b"))
        limited = Plan(problem, "single:a", (Group("a", (0,)),))
        steps = [("a", "g0", (0,), 1.0)]
        found, _ = best_changes(problem, limited, "latency", steps, 1.0, (), lambda text: None)
        assert any(one.kind == "move" for one in found) == gains


def test_limits_of_the_plan_hold_for_what_is_tried() -> None:
    problem = chain([[2.0, 1.0, 3.0]] * 3, [1, 1])
    for options, moves in (
        ({"pins": {"n0": "a", "n1": "b", "n2": "a"}}, 0), ({"max_devices": 2}, 4),
        ({}, 6),
    ):  # fmt: skip
        plan = hetsim.plan(problem, "heft", **options)  # type: ignore[arg-type]
        there = replace(by_hand(problem, "aba"), options=plan.options)
        told, _ = tried(there)
        assert sum(text.startswith("move ") for text in told) == moves, options


@pytest.mark.parametrize(("base", "dear"), [("heft", False), ("auto", True), ("single:a", False)])
def test_a_dear_strategy_plans_again_for_three(base: str, dear: bool) -> None:
    problem = chain([[4.0, 3.0], [4.0, 3.0]], [1])
    told, count = tried(Plan(problem, base, (Group("a", (0,)), Group("b", (1,)))))
    again = [text for text in told if text.endswith(f", by {base}")]
    assert len(again) == (explanation.AGAIN if dear else 0)
    assert count == len(told) - len(again)
    # Where it is asked for by name it plans for all of them, and none again.
    told, count = tried(Plan(problem, "auto", (Group("a", (0,)), Group("b", (1,)))), ("auto",))
    assert count == len(told)


def test_what_promises_most_is_what_the_kept_plan_or_the_quick_strategies_gain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An op that only the slow device takes: with it nothing goes to and fro."""
    problem = chain([[9.0, 1.0], [9.0, INF], [9.0, 1.0], [9.0, 1.0]], [1, 1, 1])
    plan = by_hand(problem, "babb", "auto")
    asked: list[Problem] = []

    def noted(made: Plan, changed: Problem) -> Plan:
        asked.append(changed)
        return hetsim.plan(changed, "heft")

    monkeypatch.setattr(explanation, "again", noted)
    found = explain(plan)
    assert len(asked) == explanation.AGAIN
    taken = [bool(np.isfinite(one.seconds).all()) for one in asked]
    faster = [one.seconds[0, 0] == 4.5 for one in asked]
    assert taken[0]
    assert any(faster)
    assert found.changes[0].kind == "op"
    assert found.changes[0] == Change(
        "op", "b: support for Task (1 node)", 4.0, 1 - 4 / measure(plan, "latency"),
        found.changes[0].strategy,
    )  # fmt: skip
