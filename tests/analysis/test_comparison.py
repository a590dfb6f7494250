"""Every figure of a comparison against its definition, and what it says where there is none."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from builders import problems
from hetsim.analysis.comparison import DEFAULT_STRATEGIES, Comparison, Row, compare
from hetsim.errors import (
    Infeasible,
    InvalidInput,
    ObjectiveMissed,
    OutOfMemory,
    UnsupportedNode,
    UsageError,
)
from hetsim.partitioning.affinity import Affinity
from hetsim.placement.bounds.lower_bound import lower_bound
from hetsim.placement.objective import Objective, bottleneck, kept_s, seconds_a_request
from hetsim.placement.registry import option_types
from hetsim.problem.parts import Slowdown
from hetsim.problem.problem import Problem
from hetsim.problem.timeline import Timeline
from sweeps import examples

INF = math.inf


def cost(problem: Problem, strategy: str, objective: Objective) -> float | None:
    """What a strategy's plan costs by the clock; None where it makes none."""
    takes = objective != "latency" and "objective" in option_types(strategy)
    more: Any = {"objective": objective} if takes else {}
    try:
        plan = hetsim.plan(problem, strategy, **more)
        return hetsim.simulate(plan).latency_s if objective == "latency" else kept_s(plan)
    except Infeasible:
        return None


def check(found: Comparison) -> None:
    """Rows by cost; speed-ups, gaps and the ceiling are quotients of costs."""
    problem, objective = found.problem, found.objective
    alone = {name: cost(problem, f"single:{name}", objective) for name in problem.devices}
    assert found.single_s == {name: s for name, s in alone.items() if s is not None}
    best = min(found.single_s.values(), default=None)
    if best is None:
        assert found.best_single is None
    else:
        assert found.best_single is not None
        assert found.single_s[found.best_single] == best
        first = next(name for name in problem.devices if found.single_s.get(name) == best)
        assert found.best_single == first
    assert found.bound_s == lower_bound(problem, objective)
    if found.best_single is None or not found.bound_s:
        assert found.ceiling is None
    else:
        assert best is not None
        assert found.ceiling == best / found.bound_s
    costs = [INF if row.cost_s is None else row.cost_s for row in found.rows]
    assert costs == sorted(costs)
    for row in found.rows:
        assert row.cost_s == cost(problem, row.strategy, objective)
        assert row.feasible == (row.cost_s is not None) == (row.reason is None)
        if row.cost_s is None:
            assert (row.speedup_over, row.speedup_over_best_single, row.gap) == ({}, None, None)
            assert (row.latency_s, row.groups, row.bottleneck_s) == (None, 0, None)
            assert str(row.refusal) == row.reason
            assert found.busy(row) == {}
            continue
        assert row.plan is not None
        assert row.groups == len(row.plan.groups)

        def over(seconds: float, cost_s: float = row.cost_s) -> float:
            if cost_s > 0:
                return seconds / cost_s
            return 1.0 if seconds == 0 else INF

        assert row.speedup_over == {name: over(s) for name, s in found.single_s.items()}
        assert row.speedup_over_best_single == (None if best is None else over(best))
        assert row.gap == (row.cost_s / found.bound_s - 1.0 if found.bound_s else None)
        assert row.timeline is not None
        assert row.latency_s == row.timeline.latency_s
        if objective == "latency":
            assert row.bottleneck_s is None
            assert found.busy(row) == {
                name: pytest.approx(_computing(row.timeline, name), abs=1e-9)
                for name in problem.devices
            }
        else:
            assert row.bottleneck_s == bottleneck(row.plan) <= row.cost_s
            load_s, _ = seconds_a_request(row.plan)
            shares = [min(s / row.cost_s, 1.0) if row.cost_s else 0.0 for s in load_s]
            assert found.busy(row) == dict(zip(problem.devices, shares, strict=True))


@examples(quick=3, full=150)
@given(problems(max_nodes=6), st.sampled_from(["latency", "throughput"]))
def test_every_figure_is_what_the_plans_cost(problem: Problem, objective: Objective) -> None:
    names = ["single", "hetero", "heft", "multi"]
    found = compare(problem, names, objective=objective, samples=0)
    check(found)
    asked = {f"single:{name}" for name in problem.devices} | {"hetero", "heft", "multi"}
    assert {row.strategy for row in found.rows} == asked
    assert (found.draws, found.draw_seed, found.sustained) == (0, 0, False)
    assert (found.copies is None) or objective == "throughput"


def test_equal_rows_stand_in_the_order_asked_for_and_once_each() -> None:
    problem = Problem.from_arrays([[1.0, 1.0, 2.0]], devices=("a", "b", "c"))
    found = compare(problem, ["heft", "single", "heft", "single:b"], samples=0)
    assert [row.strategy for row in found.rows] == ["heft", "single:a", "single:b", "single:c"]
    assert found.best_single == "a"
    swapped = compare(problem, ["single:b", "single"], samples=0)
    assert [row.strategy for row in swapped.rows] == ["single:b", "single:a", "single:c"]
    # Devices alone count for speed-ups, whether asked for or not.
    alone = compare(problem, ["single:c"], samples=0)
    assert [row.strategy for row in alone.rows] == ["single:c"]
    assert alone.rows[0].speedup_over == {"a": 0.5, "b": 0.5, "c": 1.0}


def _computing(timeline: Timeline, device: str) -> float:
    """Share of the makespan in which the device computes, told by who runs between two moments."""
    spans = [
        (e.start_s, e.end_s) for e in timeline.events if e.kind == "compute" and e.device == device
    ]
    moments = sorted({moment for span in spans for moment in span})
    runs = [b - a for a, b in pairwise(moments) if any(s <= a and b <= e for s, e in spans)]
    return sum(runs) / timeline.makespan_s if timeline.makespan_s else 0.0


@pytest.mark.parametrize("objective", ["latency", "throughput"])
def test_without_names_the_usual_ones_are_compared(objective: Objective) -> None:
    problem = Problem.from_arrays([[1.0, 3.0]], devices=("a", "b"))
    found = compare(problem, objective=objective, samples=0)
    usual = {"single:a", "single:b", *DEFAULT_STRATEGIES[objective]} - {"single"}
    assert {row.strategy for row in found.rows} == usual
    assert ("multi" in usual) == (objective == "throughput")
    if objective == "throughput":
        # Three requests on the one for each on the other: 3 s for four.
        assert found.copies is not None
        assert found.copies.cost_s == 0.75
        one = compare(Problem.from_arrays([[1.0]]), objective=objective, samples=0)
        assert one.copies is None


def test_what_takes_no_time_is_as_fast_as_anything() -> None:
    problem = Problem.from_arrays([[0.0, 2.0]], devices=("a", "b"))
    for objective in ("latency", "throughput"):
        found = compare(problem, ["single"], objective=objective, samples=0)  # type: ignore[arg-type]
        first, second = found.rows
        assert first.speedup_over == {"a": 1.0, "b": INF}
        assert (first.gap, found.ceiling, second.speedup_over) == (None, None, {"a": 0.0, "b": 1.0})
        assert set(found.busy(first).values()) == {0.0}


def nowhere(**more: Any) -> Problem:
    """The first node runs on one device, the second on the other alone."""
    return Problem.from_arrays([[1.0, INF], [INF, 1.0]], devices=("a", "b"), **more)


def test_rows_without_a_plan_stand_last_with_their_reason() -> None:
    found = compare(nowhere(edges=[(0, 1, 8)]), ["single", "heft"], samples=0)
    assert [row.strategy for row in found.rows] == ["heft", "single:a", "single:b"]
    assert (found.best_single, found.single_s, found.ceiling) == (None, {}, None)
    assert found.rows[0].speedup_over_best_single is None
    assert found.require() is found.rows[0]
    alone = compare(nowhere(), ["single"], samples=0)
    with pytest.raises(UnsupportedNode) as caught:
        alone.require()
    said = str(caught.value)
    for name in "ab":
        assert f"single:{name}: " in said
    under = compare(nowhere(), ["single", "heft"], samples=0, max_devices=1)
    assert all("(under the pins, exclusions and memory given)" in str(r.reason) for r in under.rows)
    assert not any("(under" in str(row.reason) for row in alone.rows)


def test_one_reason_of_several_is_told_once_with_all_that_have_it() -> None:
    def without(name: str, why: str, error: Infeasible) -> Row:
        return Row(name, None, None, why, {}, None, None, None, refusal=error)

    full, lacking = OutOfMemory("full"), UnsupportedNode("lacks")
    rows = (without("a", "full", full), without("b", "lacks", lacking), without("c", "full", full))
    found = Comparison(nowhere(), rows, None, None, {})
    with pytest.raises(Infeasible, match=r"no strategy found .*: a, c: full; b: lacks") as caught:
        found.require()
    assert not isinstance(caught.value, OutOfMemory | UnsupportedNode)
    # Where all have one reason the error is of that kind.
    with pytest.raises(OutOfMemory, match="a, c: full"):
        Comparison(nowhere(), rows[::2], None, None, {}).require()


def test_the_best_row_meets_a_target_or_says_by_how_much_it_does_not() -> None:
    found = compare(Problem.from_arrays([[2.0, 3.0]], devices=("a", "b")), ["single"], samples=0)
    assert found.require(2.0) is found.require() is found.rows[0]
    with pytest.raises(ObjectiveMissed, match=r"plan 'single:a': .*\(2x\)"):
        found.require(1.0)
    with pytest.raises(InvalidInput):
        found.require(0.0)


def test_options_are_of_some_strategy_or_of_all() -> None:
    problem = Problem.from_arrays([[1.0, 2.0]] * 2, devices=("a", "b"))
    with pytest.raises(UsageError, match="no strategy to compare"):
        compare(problem, [])
    with pytest.raises(UsageError, match="no strategy here has an option 'seeed'"):
        compare(problem, ["heft"], seeed=1)
    for options in ({"pins": {"n0": "b"}}, {"affinity": Affinity({"n0": "b"})}):
        found = compare(problem, ["heft", "single"], samples=0, **options)  # type: ignore[arg-type]
        assert found.rows[0].plan is not None
        assert found.rows[0].plan.devices_used in (("b",), ("a", "b"))
        (a,) = [row for row in found.rows if row.strategy == "single:a"]
        assert a.cost_s is None
        assert found.bound_s == lower_bound(problem, pins={"n0": "b"}) > lower_bound(problem)


def row(cost_s: float | None, bottleneck_s: float | None) -> Row:
    return Row("s", None, None, None, {}, None, None, cost_s, bottleneck_s)


@pytest.mark.parametrize(
    ("cost_s", "bottleneck_s", "lags"),
    [(1.0, 1.0, False), (1.02, 1.0, False), (1.04, 1.0, True), (1.0, None, False),
     (0.0, 0.0, False), (1e-9, 0.0, True), (None, None, False), (1.0, 0.5, True)],
)  # fmt: skip
def test_a_plan_lags_that_the_clock_keeps_up_more_slowly(
    cost_s: float | None, bottleneck_s: float | None, lags: bool
) -> None:
    assert row(cost_s, bottleneck_s).lags == lags


def test_slower_devices_are_busy_for_longer() -> None:
    problem = Problem.from_arrays([[1.0, INF], [INF, 4.0]], edges=[(0, 1, 0)], devices=("a", "b"))
    found = compare(problem, ["heft"], objective="throughput", samples=0)
    (only,) = found.rows
    assert found.busy(only) == {"a": 0.25, "b": 1.0}
    slower = replace(only, slower=Slowdown(1.0, (2.0, 1.0)))
    assert found.busy(slower) == {"a": 0.5, "b": 1.0}
    assert found.busy(replace(only, slower=Slowdown(1.0, (9.0, 1.0)))) == {"a": 1.0, "b": 1.0}


def test_a_period_of_a_deal_is_played_at_its_rate() -> None:
    """Three requests on the one for each on the other; for latency one request is."""
    problem = Problem.from_arrays([[1.0, 3.0]] * 2, edges=[(0, 1, 8)], devices=("a", "b"))
    (only,) = compare(problem, ["multi"], objective="throughput", samples=0).rows
    assert only.plan is not None
    assert only.timeline is not None
    assert only.plan.shares == (3, 1)
    assert only.cost_s == bottleneck(only.plan) == 1.5
    arrived = [1.5 * turn for turn in range(4)]
    expected = hetsim.simulate(only.plan, arrivals_s=arrived)
    assert only.timeline.latencies_s == expected.latencies_s
    assert only.timeline.makespan_s == expected.makespan_s
    (alone,) = compare(problem, ["heft"], samples=0).rows
    assert alone.timeline is not None
    assert len(alone.timeline.latencies_s) == 1


def test_what_is_reported_of_a_stream_is_what_the_clock_keeps() -> None:
    """All inputs cross the only link first; until then the second device has nothing to do."""
    made = Problem.from_arrays(
        [[INF, 1.9], [1.9, INF]],
        tensors=[(-1, 1, (0,)), (0, 1, (1,)), (1, 0, ())],
        devices=("a", "b"),
        host=0,
        bytes_per_s=1.0,
        contention="fifo",
    )
    bus = tuple(
        tuple(replace(route, resources=(0,) if p != q else ()) for q, route in enumerate(row))
        for p, row in enumerate(made.routes)
    )
    problem = replace(made, routes=bus, link_names=("bus",))
    table = compare(problem, ["heft", "auto"], objective="throughput", samples=0)
    assert table.bound_s is not None
    for row in table.rows:
        assert row.plan is not None
        # The bus is busy for 2 s of each request, and 1.9 s pass after the last input.
        assert row.bottleneck_s == pytest.approx(2.0)
        assert row.cost_s == pytest.approx(2.9)
        assert row.lags
        assert row.gap == pytest.approx(2.9 / table.bound_s - 1.0)
        ends = [hetsim.simulate(row.plan, n, trace=False).makespan_s for n in (100, 200)]
        assert row.cost_s == pytest.approx((ends[1] - ends[0]) / 100)
