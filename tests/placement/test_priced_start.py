"""Lists both ways: schedules, the same by machine code, and better where prices matter."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from builders import problems
from hetsim.placement import priced_start as module
from hetsim.placement.initial_plans import prepared, starts_that_fit
from hetsim.placement.listing.list_schedule import Listing
from hetsim.placement.listing.ranks import by_falling_rank, upward_ranks
from hetsim.placement.objective import measure
from hetsim.placement.priced_start import ArraySchedule, BothWays, priced_start
from hetsim.problem.columns import travel_matrices
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem
from placement_instances import RANDOM20, case, model_like, rows
from sweeps import examples, sweep

PASSES = 3


def is_a_schedule(problem: Problem, made: ArraySchedule) -> None:
    """By the definition: inputs are there, streams run one node at a time, devices take nodes."""
    latency_s, bytes_per_s = travel_matrices(problem)
    host = problem.host
    for v, p in enumerate(made.device):
        assert problem.supported[v, p]
        took = made.start_s[v] + problem.shared_seconds[v, p]
        assert made.end_s[v] == pytest.approx(took, rel=1e-12)
    for value in problem.values:
        u = value.producer
        if u == GRAPH_INPUT and host is None:
            continue
        source = host if u == GRAPH_INPUT else made.device[u]
        there = 0.0 if u == GRAPH_INPUT else made.end_s[u]
        assert source is not None
        for v in value.consumers:
            p = made.device[v]
            arrives = there + latency_s[source, p] + value.nbytes / bytes_per_s[source, p]
            assert made.start_s[v] >= arrives * (1 - 1e-12)
    for p, streams in enumerate(problem.streams):
        own = [v for v, q in enumerate(made.device) if p == q]
        times = sorted((t, step) for v in own for t, step in edges_of(made, v))
        at_once = np.cumsum([step for _, step in times])
        assert not len(times) or at_once.max() <= streams


def edges_of(made: ArraySchedule, v: int) -> list[tuple[float, int]]:
    """When a node that lasts begins and ends, so that ends come first."""
    begin, end = made.start_s[v], made.end_s[v]
    return [(begin, 1), (end, -1)] if end > begin else []


@pytest.mark.group("machine_code")
@examples(quick=8, full=60)
@given(
    model_like(problems(max_nodes=12)),
    st.sampled_from([0.0, 0.7, 30.0]),
    st.sampled_from([1.0, 3.0]),
)
def test_each_is_a_schedule_and_machine_code_makes_the_same(
    problem: Problem, price: float, stretch: float
) -> None:
    told = list(BothWays(problem).schedules(price, stretch, PASSES))
    again = list(BothWays(problem, compiled=True).schedules(price, stretch, PASSES))
    for one, other in zip(told, again, strict=True):
        assert [np.array(part).tolist() for part in one] == [
            np.array(part).tolist() for part in other
        ]
    assert len(told) == PASSES + 1
    for made in told:
        is_a_schedule(problem, made)
        places = {v: k for k, v in enumerate(made.order.tolist())}
        assert all(places[u] < places[v] for u, v in problem.dag.edges())


@pytest.mark.parametrize("name", RANDOM20[::3])
def test_without_a_price_the_first_is_what_a_listing_makes(name: str) -> None:
    problem, optimum = case(name)
    listing = Listing(problem)
    for v in by_falling_rank(upward_ranks(problem)):
        listing.place(v, listing.best(v))
    first, *others = BothWays(problem).schedules(0.0, 1.0, PASSES)
    assert first.end_s.max() == pytest.approx(listing.schedule().makespan_s, rel=1e-12)
    assert all(made.latest_s >= optimum * (1 - 1e-12) for made in others)


def test_at_a_high_price_each_node_is_where_it_takes_least() -> None:
    seconds = [[1.0, 2.0], [3.0, 1.0], [1.0, 5.0], [2.0, 1.0]]
    problem = Problem.from_arrays(seconds, edges=[(0, 1, 4), (2, 3, 4)], latency_s=9.0)
    for made in BothWays(problem).schedules(1e6, 1.0, PASSES):
        assert made.device.tolist() == [0, 1, 0, 1]


def test_a_backward_pass_closes_gaps() -> None:
    """On one device nothing is left between nodes, and the makespan is what they take."""
    problem = Problem.from_arrays([[2.0]] * 6, edges=[(v, w, 1) for v, w in pairwise(range(6))])
    for made in BothWays(problem).schedules(0.5, 1.0, PASSES):
        assert made.latest_s == 12.0


WITH_LINKS: dict[str, Any] = {"dispatch_s": 0.7, "contention": "fifo", "host": 0}


@pytest.mark.group("machine_code")
@pytest.mark.parametrize("options", [{}, WITH_LINKS])
@sweep("seed", quick=[0], full=range(2))
def test_it_is_a_plan_with_its_cost_the_same_by_machine_code(
    options: dict[str, Any], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = rows(120, seed, reach=20, **options)
    coarse = prepared(problem)
    told: list[Any] = []
    for compiled in (True, False):
        monkeypatch.setattr(module, "compiles", lambda *_, compiled=compiled, **__: compiled)
        start = priced_start(coarse)
        assert start is not None
        start.plan.validate()
        assert start.plan.groups == coarse.spread(start.groups)
        assert start.cost == measure(start.plan, "latency") >= hetsim.lower_bound(problem)
        told.append(start.groups)
    assert told[0] == told[1]


@pytest.mark.parametrize("options", [{}, WITH_LINKS])
def test_it_is_better_than_lists_without_a_price(options: dict[str, Any]) -> None:
    """That is so on all of these; nothing promises it."""
    for seed in range(3):
        coarse = prepared(rows(200, seed, reach=20, **options))
        priced = priced_start(coarse)
        assert priced is not None
        assert priced.cost < starts_that_fit(coarse, "latency")[1][0].cost


def test_where_a_node_runs_on_no_device_alone_there_is_none() -> None:
    problem = rows(20, 0)
    seconds = problem.seconds.copy()
    seconds[0] = np.inf
    lacking = replace(problem, seconds=seconds)
    assert priced_start(replace(prepared(problem), problem=lacking)) is None
