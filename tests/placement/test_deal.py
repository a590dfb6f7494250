"""Deals: the best of their period by brute force, kept by the clock, and never below the bound."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from builders import problems
from hetsim.placement.bounds.lower_bound import lower_bound
from hetsim.placement.objective import bottleneck, check_room, loads, measure
from hetsim.placement.replicas import (
    SLACK,
    best_counts,
    bottleneck_of_shares,
    counts_of_period,
    dealt_out,
    loads_of,
    spread,
)
from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from oracles.clock_plans import dealt_plans
from sweeps import examples

TABLES = st.integers(1, 4).flatmap(
    lambda resources: st.lists(
        st.lists(st.integers(0, 9), min_size=resources, max_size=resources), min_size=1, max_size=4
    )
)


def compositions(period: int, parts: int) -> list[tuple[int, ...]]:
    return [c for c in itertools.product(range(period + 1), repeat=parts) if sum(c) == period]


def busiest(table: Sequence[Sequence[float]], counts: Sequence[int]) -> float:
    return float((np.array(counts) @ np.array(table, dtype=float)).max())


@examples(quick=50, full=150)
@given(TABLES, st.integers(1, 6))
def test_no_counts_of_the_period_are_better(table: list[list[int]], period: int) -> None:
    found = counts_of_period(np.array(table, dtype=float), period)
    assert sum(found) == period
    assert busiest(table, found) == min(
        busiest(table, counts) for counts in compositions(period, len(table))
    )


@examples(quick=15, full=60)
@given(TABLES)
def test_no_short_period_is_better(table: list[list[int]]) -> None:
    counts = best_counts(table)
    found = busiest(table, counts) / sum(counts)
    for period in range(1, 7):
        for other in compositions(period, len(table)):
            assert found <= busiest(table, other) / period * (1 + SLACK) + 1e-12
    if found > 0:
        assert found >= bottleneck_of_shares(np.array(table, dtype=float)) * (1 - 1e-9)


def test_unlike_devices_get_three_to_one() -> None:
    assert best_counts([[1.0, 0.0], [0.0, 3.0]]) == (3, 1)
    assert spread((3, 1)) == (0, 0, 1, 0)
    assert best_counts([[1.0, 0.0], [0.0, 1.0]]) == (1, 1)
    assert best_counts([[1.0, 0.0], [0.0, 10_000.0]]) == (1, 0)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5))
def test_a_deal_is_spread_evenly(counts: list[int]) -> None:
    deal = spread(counts)
    assert Counter(deal) == Counter(dict(enumerate(counts)))
    for end in range(len(deal)):
        for index, count in enumerate(counts):
            assert abs(deal[:end].count(index) - count * end / len(deal)) < len(counts)


@examples(quick=30, full=80)
@given(problems(max_nodes=4))
def test_no_deal_among_any_templates_is_below_the_bound(problem: Problem) -> None:
    """Every assignment is a template; the linear program deals among all of them."""
    able = [np.flatnonzero(row).tolist() for row in problem.supported]
    table = []
    for assignment in itertools.product(*able):
        found = loads(problem, assignment)
        table.append([*found.devices, *found.links])
    least = bottleneck_of_shares(np.array(table)) if np.any(table) else 0.0
    assert lower_bound(problem, "throughput") <= least * (1 + 1e-9)


def test_a_node_on_two_devices_takes_less_than_on_either() -> None:
    one = Problem.from_arrays([[8.0, 6.0]], streams=[2, 1])
    assert lower_bound(one, "throughput") == pytest.approx(2.4)
    alone = [Plan(one, device, (Group(device, (0,)),)) for device in one.devices]
    dealt = dealt_out(alone, strategy="both", reason="")
    assert dealt.shares == (3, 2)
    assert bottleneck(dealt) == pytest.approx(2.4)


@examples(quick=30, full=100)
@given(dealt_plans(), st.integers(1, 3))
def test_the_clock_spends_what_the_closed_form_says(plan: Plan, periods: int) -> None:
    problem = plan.problem
    requests = periods * len(plan.period)
    timeline = hetsim.simulate(plan, requests, trace=False)
    summed = np.zeros(len(problem.devices) + len(problem.link_names))
    for share, replica in zip(plan.shares, plan.replicas, strict=True):
        summed += (
            share * np.array([*loads_of(replica), *[0.0] * len(problem.link_names)])[: len(summed)]
        )
    busy = [
        seconds / width
        for seconds, width in zip(timeline.device_busy_s.values(), problem.streams, strict=True)
    ]
    assert busy == pytest.approx((periods * summed[: len(busy)]).tolist())
    assert bottleneck(plan) == pytest.approx(summed.max(initial=0.0) / len(plan.period))
    assert timeline.makespan_s >= requests * bottleneck(plan) * (1 - 1e-12)


@pytest.mark.parametrize("contention", ["fifo", "none"])
@pytest.mark.parametrize("seconds", [(2.0, 2.0), (1.0, 3.0), (2.0, 3.0)])
def test_the_clocks_rate_tends_to_the_bottleneck(
    seconds: tuple[float, float], contention: str
) -> None:
    problem = Problem.from_arrays(
        [[9.0, *seconds]],
        tensors=[(-1, 1, (0,)), (0, 1, ())],
        devices=("host", "a", "b"),
        latency_s=0.25,
        host=0,
        contention=contention,  # type: ignore[arg-type]
    )
    alone = [Plan(problem, name, (Group(name, (0,)),)) for name in ("a", "b")]
    plan = dealt_out(alone, strategy="both", reason="")
    cost_s = bottleneck(plan)
    assert cost_s == pytest.approx(1 / sum(1 / s for s in seconds))
    requests = 100 * len(plan.period)
    # All but the way in and out of the last requests.
    over_s = hetsim.simulate(plan, requests, trace=False).makespan_s - requests * cost_s
    assert 0 <= over_s <= 10 * sum(seconds)


def test_memory_holds_one_request_of_each_replica_at_once() -> None:
    """Two replicas on two streams of one device: weights once, what is between nodes twice."""
    problem = Problem.from_arrays(
        [[1.0], [1.0]], edges=[(0, 1, 10)], streams=[2], weight_bytes=[3, 4], host=0
    )
    one = Plan(problem, "manual", (Group("d0", (0,)), Group("d0", (1,))))
    for capacity, fits in ((27, True), (26, False)):
        tight = dataclasses.replace(problem, capacity_bytes=(capacity,))
        mine = dataclasses.replace(one, problem=tight)
        check_room(mine)
        both = Plan.dealt([mine, mine], (0, 1, 1), strategy="manual")
        if fits:
            check_room(both)
            assert measure(both, "throughput") == 1.0
            continue
        with pytest.raises(hetsim.OutOfMemory, match="device 'd0'"):
            check_room(both)
        with pytest.raises(hetsim.OutOfMemory, match="device 'd0'"):
            measure(both, "throughput")
