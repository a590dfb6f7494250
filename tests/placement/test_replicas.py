"""Deals and replicas: the best of their period by brute force, and kept by the clock."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from hetsim.errors import Infeasible, OutOfMemory
from hetsim.partitioning.minimum_cut import serial_latency
from hetsim.placement.initial_plans import whole_models
from hetsim.placement.objective import bottleneck, check_room, kept_s, loads, measure
from hetsim.placement.replicas import (
    SLACK,
    best_counts,
    cheapest,
    counts_of_period,
    fits,
    fitting,
    loads_of,
    on_sets,
    priced,
    replicated,
    shares_of,
    spread,
    with_columns,
)
from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from oracles.clock_plans import dealt_plans
from sweeps import examples
from throughput_problems import small

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
        assert found >= shares_of(np.array(table, dtype=float))[0] * (1 - 1e-9)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5))
def test_a_deal_is_spread_evenly(counts: list[int]) -> None:
    deal = spread(counts)
    assert Counter(deal) == Counter(dict(enumerate(counts)))
    for end in range(len(deal)):
        for index, count in enumerate(counts):
            assert abs(deal[:end].count(index) - count * end / len(deal)) < len(counts)


@examples(quick=15, full=100)
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


def test_memory_holds_one_request_of_each_replica_at_once() -> None:
    """Two replicas on two streams of one device: weights once, what is between nodes twice."""
    problem = Problem.from_arrays(
        [[1.0], [1.0]], edges=[(0, 1, 10)], streams=[2], weight_bytes=[3, 4], host=0
    )
    one = Plan(problem, "manual", (Group("d0", (0,)), Group("d0", (1,))))
    for capacity, roomy in ((27, True), (26, False)):
        tight = dataclasses.replace(problem, capacity_bytes=(capacity,))
        mine = dataclasses.replace(one, problem=tight)
        check_room(mine)
        both = Plan.dealt([mine, mine], (0, 1, 1), strategy="manual")
        if roomy:
            check_room(both)
            assert measure(both, "throughput") == 1.0
            continue
        with pytest.raises(hetsim.errors.OutOfMemory, match="device 'd0'"):
            check_room(both)
        with pytest.raises(hetsim.errors.OutOfMemory, match="device 'd0'"):
            measure(both, "throughput")


seeds = st.integers(0, 10**6)


@examples(quick=20, full=400)
@given(seeds)
def test_shares_and_prices_prove_each_other(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 9, (int(rng.integers(1, 5)), int(rng.integers(1, 5)))).astype(float)
    least, share, price = shares_of(table)
    assert (share >= 0).all()
    assert (price >= 0).all()
    assert share.sum() == pytest.approx(1.0)
    assert price.sum() == pytest.approx(1.0)
    # No resource has more, and at these prices no replica costs less.
    assert (share @ table).max() == pytest.approx(least, abs=1e-9)
    if least > 0:
        assert (table @ price).min() == pytest.approx(least)
    assert shares_of(table)[0] == least


@examples(quick=20, full=400)
@given(seeds)
def test_a_priced_problem_costs_what_its_loads_do(seed: int) -> None:
    """Serial latency at prices is the sum over devices and links of price times load."""
    problem = small(seed, 6)
    if problem.staging is not None or problem.contention == "none":
        return
    problem = replace(problem, fused=(), dispatch_s=(0.0,) * len(problem.devices))
    if not problem.supported.any(axis=1).all():
        return
    rng = np.random.default_rng(seed)
    price = rng.random(len(problem.devices) + len(problem.link_names))
    price[rng.random(len(price)) < 0.3] = 0.0
    made = priced(problem, price)
    for _ in range(6):
        assignment = [int(rng.choice(np.flatnonzero(row))) for row in problem.supported]
        found = loads(problem, assignment)
        expected = float(price @ np.array([*found[0], *found[1]]))
        assert serial_latency(made, assignment) == pytest.approx(expected)


def farm(gpus: int = 4, **given: Any) -> Problem:
    """A slow host and like devices; four nodes in a row."""
    asked: dict[str, Any] = {
        "edges": [(v, v + 1, 4) for v in range(3)],
        "devices": ("cpu", *(f"gpu.{k}" for k in range(gpus))),
        "host": 0,
        "bytes_per_s": 64.0,
        "contention": "fifo",
    }
    return Problem.from_arrays([[40.0] + [1.0] * gpus] * 4, **{**asked, **given})


@examples(quick=6, full=120)
@given(seeds)
def test_columns_never_make_the_mixture_worse(seed: int) -> None:
    problem = replace(small(seed, 5), capacity_bytes=None)
    copies, _ = whole_models(problem, range(len(problem.devices)))
    if not copies:
        return
    before = shares_of(np.array([loads_of(plan) for plan in copies]))[0]
    made = with_columns(problem, copies)
    assert made
    after = shares_of(np.array([loads_of(plan) for plan in made]))[0]
    assert after <= before * (1 + 1e-9)
    for plan in made:
        plan.validate()
    price = shares_of(np.array([loads_of(plan) for plan in made]))[2]
    for plan in cheapest(problem, price):
        plan.validate()
    # What the best of all assignments costs at these prices, by the cut or by runs.
    assert all(fits(plan) for plan in made)


def test_plans_for_prices_mix_devices_that_no_copy_would() -> None:
    # Each device is quick at one of two nodes: apart they take 1 s, whole copies 5 s each.
    problem = Problem.from_arrays([[1.0, 9.0], [9.0, 1.0]], [(0, 1, 0)])
    copies, _ = whole_models(problem, range(2))
    assert shares_of(np.array([loads_of(plan) for plan in copies]))[0] == 5.0
    made = with_columns(problem, copies)
    assert shares_of(np.array([loads_of(plan) for plan in made]))[0] == 1.0
    assert [plan.assignment for plan in made] == [(0, 1)]
    # One replica alone is no mixture.
    found = replicated(problem, copies)
    assert found is not None
    assert found.cost == 5.0
    assert replicated(problem, copies[:1], search=False) is not None
    lone = Problem.from_arrays([[1.0, np.inf], [1.0, 1.0]], [(0, 1, 0)])
    assert replicated(lone, [], search=False) is None


def test_a_simpler_way_stays_unless_another_saves_more() -> None:
    # Copies carry all that can be carried: a mixture of the same plans saves nothing.
    alike = Problem.from_arrays([[1.0, 1.0]] * 2, [(0, 1, 0)])
    copies, _ = whole_models(alike, range(2))
    for search in (False, True):
        found = replicated(alike, copies, search=search)
        assert found is not None
        assert found.plan.reason.startswith("a copy of the whole model on each of")
        assert found.cost == 1.0
    # The second and third are quick at one node each: beside a copy on the first, they split.
    apart = Problem.from_arrays([[1.0, 1.0, 9.0], [1.0, 9.0, 1.0]], [(0, 1, 0)])
    copies, _ = whole_models(apart, range(3))
    found = replicated(apart, copies)
    assert found is not None
    assert found.plan.reason.startswith("plans side by side: ")
    # A copy takes 2 s of the first, a split 1 s of the others: three requests in 2 s.
    assert found.cost == pytest.approx(2 / 3)


def test_as_many_copies_as_memory_holds_at_once_and_the_idlest_goes_first() -> None:
    # Inputs wait on the host for every copy: it has room for two of the three.
    problem = Problem.from_arrays(
        [[90.0, 1.0, 2.0, 4.0]],
        tensors=[(-1, 10, (0,)), (0, 1, ())],
        devices=("cpu", "a", "b", "c"),
        latency_s=0.5,
        host=0,
        capacity_bytes=[25, 99, 99, 99],
    )
    copies, _ = whole_models(problem, range(1, 4))
    made = fitting(copies, strategy="copies", what="copies on")
    assert [one.devices_used for one in made.replicas] == [("a",), ("b",)]
    assert made.shares == (2, 1)
    assert made.reason == "copies on a (2), b (1) of every 3 requests"
    assert made.strategy == "copies"
    alone = fitting(copies[:1], strategy="copies", what="copies on")
    assert alone.reason == "copies on a"
    none = replace(problem, capacity_bytes=(9, 99, 99, 99))
    with pytest.raises(OutOfMemory):
        fitting([replace(plan, problem=none) for plan in copies], strategy="x", what="")


@examples(quick=2, full=60)
@given(seeds)
def test_what_is_kept_up_is_what_the_clock_plays_in_the_long_run(seed: int) -> None:
    problem = replace(small(seed, 4), capacity_bytes=None)
    copies, _ = whole_models(problem, range(len(problem.devices)))
    if not copies:
        return
    plan = fitting(copies, strategy="copies", what="")
    requests = 100 * len(plan.period)
    try:
        ends = [
            hetsim.simulate(plan, count, trace=False).makespan_s
            for count in (requests, 2 * requests)
        ]
    except Infeasible:
        return
    rate_s = (ends[1] - ends[0]) / requests
    assert kept_s(plan) == pytest.approx(rate_s, rel=0.02, abs=1e-9)
    assert kept_s(plan) >= measure(plan, "throughput")


def test_sets_of_like_devices_share_a_plan_where_one_cannot_run_all() -> None:
    tight = farm(5, weight_bytes=[10] * 4, capacity_bytes=[10, *[29] * 5])
    found = on_sets(tight, [])
    # Of five two at a time, one is left over; of sizes that give as many sets the largest.
    assert [size for size, _ in found] == [2]
    ((_, members),) = found
    assert [plan.devices_used for plan in members] == [("gpu.0", "gpu.1"), ("gpu.2", "gpu.3")]
    for plan in members:
        plan.validate()
        assert measure(plan, "throughput") == pytest.approx(measure(members[0], "throughput"))
    # Three are too few for two sets, and those that run all alone need none.
    assert on_sets(farm(3, weight_bytes=[10] * 4, capacity_bytes=[10, *[29] * 3]), []) == []
    roomy = farm(4)
    copies, refused = whole_models(roomy, range(5))
    assert refused == []
    assert on_sets(roomy, copies) == []
    # Copies elsewhere stand beside the sets.
    host = farm(4, weight_bytes=[10] * 4, capacity_bytes=[99, *[29] * 4])
    copies, refused = whole_models(host, range(5))
    assert [plan.devices_used for plan in copies] == [("cpu",)]
    assert len(refused) == 4
    assert all(isinstance(error, OutOfMemory) for error in refused)
    ((_, members),) = on_sets(host, copies)
    assert members[-1] is copies[0]
