"""What ``explain`` names is what the clock says, and every change it offers holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

import hetsim
from builders import problems
from hetsim.analysis import explanation
from hetsim.analysis.explanation import Improvement, explain
from hetsim.analysis.what_if import link_names
from hetsim.placement.objective import measure
from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from sweeps import examples
from three_nodes import back_and_forth


def two_devices(*, nbytes: int = 8) -> Problem:
    """The second op is slow, and the tensor must go back."""
    problem = back_and_forth(tensors=[(0, nbytes, (1,)), (1, 8, (2,))])
    return replace(problem, op_types=("Conv", "Softmax", "Conv"))


def test_the_path_and_its_shares() -> None:
    problem = two_devices()
    groups = (Group("npu", (0,)), Group("cpu", (1,)), Group("npu", (2,)))
    found = explain(Plan(problem, "hetero", groups))
    assert [(step.where, step.seconds) for step in found.path] == [
        ("npu", 1.0), ("npu>cpu", 1.0), ("cpu", 6.0), ("cpu>npu", 1.0), ("npu", 1.0)
    ]  # fmt: skip
    assert found.cost_s == 10.0 == sum(found.shares.values())
    assert found.limited_by == "cpu"
    assert dict(found.shares) == {"cpu": 6.0, "npu": 2.0, "npu>cpu": 1.0, "cpu>npu": 1.0}
    best = found.changes[0]
    # Softmax on the npu: the least time elsewhere, 6 s, at the npu's usual quarter.
    assert (best.kind, best.cost_s) == ("op", 1.0 + 1.5 + 1.0)
    assert best.what == "npu: support for Softmax (1 node)"
    assert best.gain == pytest.approx(0.65)
    assert len(found.changes) == 3


def test_throughput_is_limited_by_the_largest_load() -> None:
    problem = two_devices(nbytes=56)
    groups = (Group("npu", (0,)), Group("cpu", (1,)), Group("npu", (2,)))
    found = explain(Plan(problem, "hetero", groups), objective="throughput")
    assert found.cost_s == 7.0
    assert found.limited_by == "npu>cpu"
    assert found.bound_s == pytest.approx(6.0)


def test_shares_of_many_requests_are_over_the_streams_of_a_device() -> None:
    # 12 s a request on three streams are 4 s; one stream of the other device takes 5 s.
    problem = Problem.from_arrays(
        [[12.0, np.inf], [np.inf, 5.0]],
        edges=[(0, 1, 8)],
        devices=("cpu", "npu"),
        bytes_per_s=8.0,
        contention="fifo",
        streams=[3, 1],
    )
    plan = Plan(problem, "hetero", (Group("cpu", (0,)), Group("npu", (1,))))
    found = explain(plan, objective="throughput")
    assert list(found.shares.items()) == [("npu", 5.0), ("cpu", 4.0), ("cpu>npu", 1.0)]
    assert found.cost_s == 5.0
    assert found.limited_by == "npu"
    # As many requests show: a device does them at its share each, and the largest paces all.
    long = hetsim.simulate(plan, 60)
    assert long.makespan_s == 12.0 + 1.0 + 5.0 * 60
    busy = {name: share / found.cost_s for name, share in found.shares.items()}
    for name, share in long.device_utilization.items():
        assert share * long.makespan_s / 60 == pytest.approx(busy[name] * 5.0)


@examples(quick=3, full=100)
@given(problems(max_nodes=7))
def test_every_change_saves_and_the_path_is_gapless(problem: Problem) -> None:
    plan = hetsim.plan(problem, "hetero")
    found = explain(plan)
    assert found.cost_s == hetsim.simulate(plan).latency_s
    assert found.bound_s <= found.cost_s
    assert len(found.changes) <= 3
    assert sum(step.seconds for step in found.path) == pytest.approx(found.cost_s)
    assert all(0 < change.gain <= 1 and change.cost_s < found.cost_s for change in found.changes)
    costs = [change.cost_s for change in found.changes]
    assert costs == sorted(costs)
    for change in found.changes:
        if change.kind == "link":
            name = change.what.removeprefix("link ").partition(":")[0]
            assert name in link_names(problem)


def without_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for throughput, and where subgraphs split tasks."""
    monkeypatch.setattr(explanation.WarmStart, "of", lambda plan, cost_s: None)


def test_a_dear_strategy_plans_for_what_promises_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four devices all but one are idle: two alike, and one too slow to matter."""
    problem = Problem.from_arrays(
        [[8.0, 2.0, 2.0, 90.0]] * 4,
        edges=[(v, v + 1, 8) for v in range(3)],
        devices=("cpu", "gpu.0", "gpu.1", "dsp"),
        bytes_per_s=8.0,
        contention="fifo",
    )
    plan = hetsim.plan(problem, "auto")
    asked: list[Problem] = []

    def counted(made: Plan, changed: Problem) -> Plan:
        asked.append(changed)
        return hetsim.plan(changed, made.strategy)

    monkeypatch.setattr(explanation, "again", counted)
    without_search(monkeypatch)
    told: list[str] = []
    found = explain(plan, tell=told.append)
    assert len(asked) == explanation.AGAIN
    best = found.changes[0]
    (used,) = plan.devices_used
    assert (best.what, best.cost_s) == (f"{used}: kernels twice as fast", 4.0)
    # The one whose change helps is among those asked; of alike devices one is tried.
    assert any((changed.seconds[:, problem.devices.index(used)] == 1.0).all() for changed in asked)
    assert sum("gpu." in text and "kernels" in text and "by auto" not in text for text in told) == 1
    total = int(told[0].split()[2].rstrip(":"))
    assert [text.partition(":")[0] for text in told] == [
        f"{at} of {total}" for at in range(1, total + 1)
    ]
    assert found.tried == total - explanation.AGAIN


def test_replicas_are_explained_by_their_deal() -> None:
    problem = hetsim.Problem.from_arrays([[1.0, 3.0]], devices=("a", "b"))
    plan = hetsim.plan(problem, "multi")
    assert plan.shares == (3, 1)
    found = hetsim.explain(plan, objective="throughput")
    assert found.cost_s == pytest.approx(0.75)
    assert found.shares == pytest.approx({"a": 0.75, "b": 0.75})
    assert found.bound_s <= found.cost_s
    assert found.changes
    assert all(change.cost_s < found.cost_s for change in found.changes)


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
def test_a_dear_strategy_plans_again_for_three(
    base: str, dear: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_search(monkeypatch)
    problem = chain([[4.0, 3.0], [4.0, 3.0]], [1])
    told, count = tried(Plan(problem, base, (Group("a", (0,)), Group("b", (1,)))))
    again = [text for text in told if text.endswith(f", by {base}")]
    assert len(again) == (explanation.AGAIN if dear else 0)
    assert count == len(told) - len(again)
    # Where it is asked for by name it plans for all of them, and none again.
    told, count = tried(Plan(problem, "auto", (Group("a", (0,)), Group("b", (1,)))), ("auto",))
    assert count == len(told)


def test_where_a_search_goes_on_from_the_plan_no_dear_strategy_plans_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Four tasks for two devices, of which the plan uses one: twice as fast, the other has two."""
    monkeypatch.setattr(explanation, "again", None)
    problem = Problem.from_arrays([[4.0, 8.0]] * 4, devices=("a", "b"))
    found = explain(by_hand(problem, "aaaa", "exact"), strategies=())
    costs = {one.what: (one.cost_s, one.strategy) for one in found.changes}
    # As it is the search makes 12 of 16 seconds; what it gains without a change does not count.
    assert costs["b: kernels twice as fast"] == (pytest.approx(8.0 * 16 / 12), "local-search")
    assert costs["a: kernels twice as fast"][0] <= 8.0


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
    without_search(monkeypatch)
    found = explain(plan)
    assert len(asked) == explanation.AGAIN
    taken = [bool(np.isfinite(one.seconds).all()) for one in asked]
    faster = [one.seconds[0, 0] == 4.5 for one in asked]
    assert taken[0]
    assert any(faster)
    assert found.changes[0].kind == "op"
    assert found.changes[0] == Improvement(
        "op", "b: support for Task (1 node)", 4.0, 1 - 4 / measure(plan, "latency"),
        found.changes[0].strategy,
    )  # fmt: skip
