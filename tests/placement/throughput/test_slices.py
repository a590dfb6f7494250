"""Costs, orders and cuts for throughput, against brute force."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.graph.dag import depth_first
from hetsim.placement.throughput.costs import Costs, contract, costs_of
from hetsim.placement.throughput.search import cut_stages, cuts_by
from hetsim.placement.throughput.slices import cut, fastest_runs, fastest_staged_runs
from hetsim.problem.parts import Staging
from hetsim.problem.problem import Problem
from oracles.least_bottleneck import busiest
from sweeps import examples
from throughput_problems import kind_of, least_contiguous, serial_problem, small, stage_load

INF = float("inf")
seeds = st.integers(0, 10**6)


@examples(quick=60, full=600)
@given(seeds)
def test_stages_cost_what_the_clock_says_where_nothing_is_left_open(seed: int) -> None:
    """Staged tensors, no contention, or one way between two devices."""
    problem = small(seed, 6)
    staged = problem.staging is not None and problem.contention == "none"
    count = len(problem.devices)
    if not (staged or (problem.staging is None and (count == 2 or problem.contention == "none"))):
        return
    costs = costs_of(problem)
    kinds = kind_of(costs)
    rng = np.random.default_rng(seed)
    for _ in range(12):
        assignment = rng.integers(0, count, problem.n).tolist()
        load_s = max(
            stage_load(costs, kinds[p], {v for v, q in enumerate(assignment) if q == p})
            for p in set(assignment)
        )
        assert load_s == pytest.approx(busiest(problem, assignment, range(count)))


def with_idle(seed: int) -> Problem:
    """A small problem in which many nodes take no time."""
    problem, rng = small(seed, 5), np.random.default_rng(seed)
    seconds = problem.seconds.copy()
    seconds[rng.random(problem.n) < 0.5] = 0.0
    return replace(problem, seconds=seconds, fused=(), constants=(), capacity_bytes=None)


@examples(quick=15, full=300)
@given(seeds)
def test_joining_idle_nodes_loses_no_stages(seed: int) -> None:
    problem = with_idle(seed)
    costs = costs_of(problem)
    made = contract(costs)
    for size in range(1, made.costs.n + 1):
        for parts in itertools.combinations(range(made.costs.n), size):
            nodes = set(made.spread(parts))
            assert len(nodes) == sum(len(made.members[part]) for part in parts)
            for kind in range(len(costs.kinds)):
                load_s = stage_load(made.costs, kind, set(parts))
                assert load_s == pytest.approx(stage_load(costs, kind, nodes))
    assert least_contiguous(made.costs) == pytest.approx(least_contiguous(costs))


def segmentations(n: int, kinds: int) -> Iterator[list[tuple[int, int, int]]]:
    """Every way to cut n places into segments, each of a kind."""
    for size in range(1, n + 1):
        for borders in itertools.combinations(range(1, n), size - 1):
            ends = list(itertools.pairwise([0, *borders, n]))
            for chosen in itertools.product(range(kinds), repeat=size):
                yield [(*end, kind) for end, kind in zip(ends, chosen, strict=True)]


def within(segments: list[tuple[int, int, int]], costs: Costs) -> bool:
    used = Counter(kind for *_, kind in segments)
    return all(count <= len(costs.kinds[kind]) for kind, count in used.items())


def loads(segments: list[tuple[int, int, int]], order: list[int], costs: Costs) -> list[float]:
    return [stage_load(costs, kind, set(order[a:b])) for a, b, kind in segments]


@examples(quick=20, full=400)
@given(seeds)
def test_no_way_to_cut_an_order_is_better(seed: int) -> None:
    problem = small(seed, 5)
    costs = costs_of(problem)
    order = depth_first(problem.dag.preds, problem.dag.succs)
    least = min(
        (
            max(loads(segments, order, costs))
            for segments in segmentations(costs.n, len(costs.kinds))
            if within(segments, costs)
        ),
        default=INF,
    )
    found = cut(costs, order)
    if least == INF:
        assert found is None
        return
    assert found is not None
    assert found.least_s == pytest.approx(least)
    segments = list(found.segments)
    assert [a for a, _, _ in segments] == [0, *(b for _, b, _ in segments[:-1])]
    assert segments[-1][1] == costs.n
    assert within(segments, costs)
    assert max(loads(segments, order, costs)) == pytest.approx(least)
    # A ceiling may be met, not exceeded.
    assert cut(costs, order, None, least * (1 + 1e-12)) is not None
    assert cut(costs, order, None, least * (1 - 1e-9) - 1e-12) is None


@examples(quick=15, full=250)
@given(seeds)
def test_stages_that_are_cut_cover_all_and_no_worse_than_the_order_of_ids(seed: int) -> None:
    costs = costs_of(small(seed, 6))
    one, more = (cut_stages(costs, cuts_by(costs, 7), count) for count in (1, 9))
    if one is None:
        return
    assert more is not None
    for stages in (one, more):
        assert sorted(v for nodes, _ in stages for v in nodes) == list(range(costs.n))
        devices = [p for _, p in stages]
        assert len(set(devices)) == len(devices)
    kinds = kind_of(costs)
    worst = [max(stage_load(costs, kinds[p], set(nodes)) for nodes, p in s) for s in (one, more)]
    assert worst[1] <= worst[0] * (1 + 1e-12)
    # A search that goes on, or was further, says the same.
    begun = cuts_by(costs, 7)
    assert [cut_stages(costs, begun, count) for count in (1, 9, 1)] == [one, more, one]


def staged(seed: int) -> Problem:
    """A few nodes on up to three devices that hand tensors over by storing and fetching them."""
    rng = np.random.default_rng(seed)
    n, count = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    seconds = rng.integers(0, 12, (n, count)) / 4
    seconds[:, 1:][rng.random((n, count - 1)) < 0.2] = INF
    tensors = [
        (u, int(rng.integers(0, 9)), [v for v in range(u + 1, n) if rng.random() < 0.5])
        for u in range(n)
    ]
    weights = rng.integers(0, 5, n).tolist()
    total = sum(weights) + sum(nbytes for _, nbytes, _ in tensors)
    room = [total if rng.random() < 0.5 else int(rng.integers(total + 1)) for _ in range(count)]
    return Problem.from_arrays(
        seconds,
        tensors=tensors,
        staging=Staging(
            tuple((rng.integers(0, 3, count) / 8).tolist()),
            tuple((rng.integers(0, 3, count) / 8).tolist()),
        ),
        dispatch_s=(rng.integers(0, 3, count) / 4).tolist(),
        weight_bytes=weights,
        capacity_bytes=[total, *room[1:]],
        host=0 if rng.random() < 0.5 else None,
    )


@examples(quick=20, full=400)
@given(seeds)
def test_no_runs_of_staged_tensors_take_less(seed: int) -> None:
    """A kind that holds all constants may run often on its first device, others once a device."""
    problem = staged(seed)
    costs = costs_of(problem)
    order = list(range(problem.n))
    total = sum(nbytes for nbytes, _ in costs.constants)
    again = [bool(limit >= total) for limit in costs.capacity_bytes]
    least = INF
    for segments in segmentations(problem.n, len(costs.kinds)):
        used = Counter(kind for *_, kind in segments if not again[kind])
        if all(count <= len(costs.kinds[kind]) for kind, count in used.items()):
            least = min(least, sum(loads(segments, order, costs)))
    found = fastest_staged_runs(problem, order)
    if least == INF:
        assert found is None
        return
    assert found is not None
    kinds = kind_of(costs)
    runs = [(a, b, kinds[p]) for a, b, p in found]
    assert sum(loads(runs, order, costs)) == pytest.approx(least)
    assert [a for a, _, _ in runs] == [0, *(b for _, b, _ in runs[:-1])]
    once = [p for *_, p in found if not again[kinds[p]]]
    assert len(set(once)) == len(once)
    assert all(p == costs.kinds[kinds[p]][0] for *_, p in found if again[kinds[p]])


def serial_s(problem: Problem, device: tuple[int, ...]) -> float:
    """From the definition: a value moves once a change of device between its maker and readers."""
    total = problem.dispatch_s[device[0]]
    for at in range(1, problem.n):
        if device[at] != device[at - 1]:
            total += problem.dispatch_s[device[at]]
    for v, p in enumerate(device):
        total += float(problem.seconds[v, p])
    for value in problem.values:
        made, host = value.producer, problem.host
        if made < 0:
            if host is not None and device[value.consumers[0]] != host:
                total += problem.routes[host][device[value.consumers[0]]].seconds(value.nbytes)
            continue
        for at in range(made + 1, max(value.consumers, default=made) + 1):
            if device[at] != device[at - 1]:
                total += problem.routes[device[at - 1]][device[at]].seconds(value.nbytes)
        if value.is_output and host is not None and device[made] != host:
            total += problem.routes[device[made]][host].seconds(value.nbytes)
    return total


@examples(quick=30, full=300)
@given(st.integers(0, 10**6))
def test_no_devices_take_less_along_the_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 4))
    problem = replace(
        serial_problem(rng, count, 6), staging=None,
        dispatch_s=tuple((rng.integers(0, 4, count) / 8).tolist()),
    )  # fmt: skip
    runs = fastest_runs(problem, range(problem.n))
    assert runs is not None
    device = tuple(p for first, end, p in runs for _ in range(first, end))
    every = itertools.product(range(len(problem.devices)), repeat=problem.n)
    assert serial_s(problem, device) == min(serial_s(problem, one) for one in every)
