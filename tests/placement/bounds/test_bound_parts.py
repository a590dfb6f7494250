"""The parts of the bounds against what their docstrings say, counted in the plainest way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

from full_problems import full_problems
from hetsim.placement.bounds.area import balanced, balanced_weights, crowded, prices, within_memory
from hetsim.placement.bounds.paths import Setting, heads, tails
from hetsim.placement.footprint import Footprint
from hetsim.problem.parts import GRAPH_INPUT, Constant
from hetsim.problem.problem import Problem
from oracles.every_join import earliest
from oracles.every_plan import tight_problem
from sweeps import examples

INF = float("inf")
seeds = st.integers(0, 2**32 - 1)


def travel(problem: Problem, source: int, target: int, nbytes: int) -> float:
    """Seconds between two devices that are not the same, staging included."""
    seconds = problem.routes[source][target].seconds(nbytes)
    if problem.staging is not None:
        seconds += problem.staging.store_s_per_byte[source] * nbytes
        seconds += problem.staging.fetch_s_per_byte[target] * nbytes
    return seconds


def from_or_to_the_host(problem: Problem, v: int, p: int, *, inward: bool) -> float:
    """Until the model's inputs of a node are on a device, or its outputs on the host."""
    host, longest = problem.host, 0.0
    if host is None:
        return 0.0
    for value in problem.values:
        if inward:
            ours = value.producer == GRAPH_INPUT and v in value.consumers
        else:
            ours = value.producer == v and value.is_output
        if not ours:
            continue
        route = problem.routes[host][p] if inward else problem.routes[p][host]
        seconds = 0.0 if p == host else route.seconds(value.nbytes)
        if problem.staging is not None and problem.staging.ends:
            rates = problem.staging
            rate = rates.fetch_s_per_byte[p] if inward else rates.store_s_per_byte[p]
            seconds += rate * value.nbytes
        longest = max(longest, seconds)
    return longest


def every_choice(problem: Problem, *, forward: bool) -> NDArray[np.float64]:
    """Heads, or tails, by every set of neighbours that may be on the device itself."""
    n, count = problem.n, len(problem.devices)
    near: list[dict[int, int]] = [{} for _ in range(n)]
    for value in problem.values:
        for reader in value.consumers if value.producer != GRAPH_INPUT else ():
            v, u = (reader, value.producer) if forward else (value.producer, reader)
            near[v][u] = max(near[v].get(u, 0), value.nbytes)
    least = np.array(
        [
            [
                from_or_to_the_host(problem, v, p, inward=forward)
                + (problem.dispatch_s[p] if forward else 0.0)
                for p in range(count)
            ]
            for v in range(n)
        ]
    )

    def enter(q: int, p: int, nbytes: int) -> float:
        if forward:
            return travel(problem, q, p, nbytes) + problem.dispatch_s[p]
        return travel(problem, p, q, nbytes) + problem.dispatch_s[q]

    order = range(n) if forward else range(n - 1, -1, -1)
    share = np.where(problem.runnable, problem.least_seconds, INF)
    return earliest(order, near, share, least, enter, problem.streams)


@examples(quick=25, full=300)
@given(full_problems(max_nodes=6, max_devices=3), st.lists(st.integers(0, 5), max_size=3))
def test_heads_and_tails_are_the_least_over_all_sets_on_the_device(
    problem: Problem, easier: list[int]
) -> None:
    problem = replace(
        problem,
        least_s={v: (0.125,) * len(problem.devices) for v in easier if v < problem.n},
    )
    setting = Setting.of(problem)
    assert heads(setting, setting.shares) == pytest.approx(every_choice(problem, forward=True))
    assert tails(setting, setting.shares) == pytest.approx(every_choice(problem, forward=False))


def least_excess(
    shares: NDArray[np.float64],
    rows: list[tuple[NDArray[np.bool_], int, float, float]],
) -> float:
    """The least t for which fractional assignments keep each row: work at most room + slope t."""
    able = np.isfinite(shares)
    pairs = np.argwhere(able)
    work = np.zeros((len(rows), len(pairs) + 1))
    for r, (inside, device, slope, _) in enumerate(rows):
        for k, (v, p) in enumerate(pairs):
            work[r, k] = shares[v, p] if p == device and inside[v] else 0.0
        work[r, -1] = -slope
    once = np.zeros((len(shares), len(pairs) + 1))
    once[pairs[:, 0], np.arange(len(pairs))] = 1.0
    cost = np.zeros(len(pairs) + 1)
    cost[-1] = 1.0
    bounds = [(0.0, None)] * len(pairs) + [(None, None)]
    found = linprog(
        cost, A_ub=work, b_ub=[room for *_, room in rows], A_eq=once, b_eq=np.ones(len(shares)),
        bounds=bounds,
    )  # fmt: skip
    return float(found.fun) if found.status == 0 else INF


def times(draw: np.random.Generator, n: int, count: int) -> NDArray[np.float64]:
    shares = draw.integers(0, 16, (n, count)) / 4
    shares[:, 1:][draw.random((n, count - 1)) < 0.2] = INF
    return shares


@examples(quick=25, full=300)
@given(seeds)
def test_a_limit_is_refuted_where_no_assignment_keeps_all_windows(seed: int) -> None:
    draw = np.random.default_rng(seed)
    n, count = int(draw.integers(1, 8)), int(draw.integers(1, 4))
    shares = times(draw, n, count)
    streams = tuple(draw.integers(1, 3, count).tolist())
    head, tail = draw.integers(0, 8, (2, n, count)) / 4
    limit_s = float(np.where(np.isfinite(shares), head + shares + tail, 0.0).max() or 1.0)
    setting = replace(Setting.of(Problem.from_arrays(np.ones((n, count)))), streams=streams)
    rows = [
        ((head[:, p] >= a) & (tail[:, p] >= b), p, 1.0, streams[p] * (limit_s - a - b))
        for p in range(count)
        for a in {0.0, *head[:, p].tolist()}
        for b in {0.0, *tail[:, p].tolist()}
        if a + b < limit_s
    ]
    excess = least_excess(shares, rows) / limit_s
    if abs(excess) > 1e-6:
        assert crowded(setting, head, tail, shares, limit_s) == (excess > 0)


@examples(quick=15, full=200)
@given(seeds)
def test_the_area_bound_is_the_least_makespan_of_fractions(seed: int) -> None:
    draw = np.random.default_rng(seed)
    n, count = int(draw.integers(1, 9)), int(draw.integers(1, 4))
    shares = times(draw, n, count)
    streams = tuple(draw.integers(1, 3, count).tolist())
    everything = np.ones(n, dtype=bool)
    rows = [(everything, p, float(width), 0.0) for p, width in enumerate(streams)]
    assert balanced(shares, streams) == pytest.approx(least_excess(shares, rows), rel=1e-6)
    price = prices(shares, streams)
    assert (price >= 0).all()
    if price.any():
        assert float(price @ np.array(streams)) == pytest.approx(1.0)
    shares[int(draw.integers(n))] = INF
    assert balanced(shares, streams) == INF
    assert not prices(shares, streams).any()


def weighed(seed: int) -> Problem:
    """Nodes whose weights, some of them shared, nearly fill the devices."""
    draw = np.random.default_rng(seed)
    n, count = int(draw.integers(1, 8)), int(draw.integers(1, 4))
    constants = []
    for k in range(int(draw.integers(1, 6))):
        readers = draw.choice(n, int(draw.integers(1, min(n, 3) + 1)), replace=False)
        constants.append(
            Constant(f"w{k}", int(draw.integers(0, 9)), tuple(sorted(readers.tolist())))
        )
    total = sum(constant.nbytes for constant in constants)
    made = Problem.from_arrays(
        times(draw, n, count),
        [(u, u + 1, int(draw.integers(0, 3))) for u in range(n - 1)],
        streams=draw.integers(1, 3, count).tolist(),
        dispatch_s=0.5,
        host=0 if draw.random() < 0.5 else None,
    )
    capacity = [total + 8, *draw.integers(0, total + 4, count - 1).tolist()]
    return replace(made, constants=tuple(constants), capacity_bytes=tuple(capacity))


@examples(quick=15, full=200)
@given(seeds)
def test_weights_divide_the_work_as_fractions_do(seed: int) -> None:
    problem = weighed(seed)
    footprint, n = Footprint.of(problem), problem.n
    shares = np.where(problem.runnable, problem.least_seconds, INF)
    weight = np.zeros(n)
    for constant in problem.constants:
        weight[list(constant.consumers)] += constant.nbytes / len(constant.consumers)
    able, pairs = np.isfinite(shares), np.argwhere(np.isfinite(shares))
    count = len(problem.devices)
    table = np.zeros((2 * count, len(pairs) + 1))
    for k, (v, p) in enumerate(pairs):
        table[p, k], table[count + p, k] = shares[v, p], weight[v]
    table[:count, -1] = [-width for width in problem.streams]
    room = [a - b for a, b in zip(footprint.capacity, footprint.always, strict=True)]
    once = np.zeros((n, len(pairs) + 1))
    once[pairs[:, 0], np.arange(len(pairs))] = 1.0
    cost = np.zeros(len(pairs) + 1)
    cost[-1] = 1.0
    found = linprog(cost, A_ub=table, b_ub=[0.0] * count + room, A_eq=once, b_eq=np.ones(n))
    assert able.any(axis=1).all()
    assert found.status == 0
    everything = sum(constant.nbytes for constant in problem.constants)
    everything += sum(value.nbytes for value in problem.values)
    if weight.any() and everything > min(footprint.capacity):
        assert balanced_weights(problem, shares) == pytest.approx(found.fun, rel=1e-6, abs=1e-9)
    else:
        assert balanced_weights(problem, shares) == 0.0


@pytest.mark.parametrize("seed", range(60))
def test_memory_closes_the_devices_that_cannot_hold_a_node(seed: int) -> None:
    problem = tight_problem(seed)
    footprint = Footprint.of(problem)
    capacity, always = footprint.capacity, footprint.always
    held = [sum(problem.constants[c].nbytes for c in own) for own in problem.constants_of]
    open_to = np.array(
        [
            [
                bool(problem.runnable[v, p])
                and held[v] + max(footprint.beside[v][p], always[p]) <= capacity[p]
                for p in range(len(problem.devices))
            ]
            for v in range(problem.n)
        ]
    )
    room = [a - b for a, b in zip(capacity, always, strict=True)]
    weights = sum(constant.nbytes for constant in problem.constants)
    there = sum(left for left, used in zip(room, open_to.any(axis=0), strict=True) if used)
    found = within_memory(problem)
    if min(room) < 0 or weights > there:
        assert found is None
    else:
        assert found is not None
        assert found.runnable.tolist() == open_to.tolist()
    assert within_memory(replace(problem, capacity_bytes=None)) is not None
