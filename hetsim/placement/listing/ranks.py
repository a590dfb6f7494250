"""Columns of a problem, and ranks and orders of its nodes, for list schedulers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from hetsim.graph.dag import Dag, Ints
from hetsim.problem.columns import travel_matrices
from hetsim.problem.parts import GRAPH_INPUT, Value
from hetsim.problem.problem import Problem

Floats = NDArray[np.float64]


class Columns(NamedTuple):
    """Read-only arrays of a problem; matrices are flat, by row."""

    seconds: Floats  # [n P]: Of nodes as a subgraph's members; inf where not supported alone
    # [n + 1]: Which values each node makes, their bytes, and whether the host awaits them
    made_at: Ints
    made_bytes: Floats
    leaves: Ints
    reader_at: Ints  # [made + 1]: The nodes that read each of these
    readers: Ints
    latency: Floats  # [P P]: Of routes; the diagonal is free
    bandwidth: Floats
    # [n P]: When the inputs of each node are on each device, and what its outputs take from there
    # to the host
    arrival: Floats
    back: Floats


_MADE: WeakKeyDictionary[Problem, Columns] = WeakKeyDictionary()


def columns_of(problem: Problem) -> Columns:
    """Return the columns. O(V P + E) the first time."""
    known = _MADE.get(problem)
    if known is None:
        known = _MADE[problem] = _columns(problem)
    return known


def _columns(problem: Problem) -> Columns:
    n, count, host = problem.n, len(problem.devices), problem.host
    values = problem.value_arrays
    latency_s, bytes_per_s = travel_matrices(problem)
    by_maker = np.argsort(values.producer, kind="stable")
    made = by_maker[np.searchsorted(values.producer[by_maker], 0) :]
    number = np.diff(values.readers.at)[made]
    reader_at = np.concatenate(([0], np.cumsum(number)))
    first = np.repeat(values.readers.at[made] - reader_at[:-1], number)
    arrival, back = np.zeros((2, n, count))
    if host is not None:
        given = np.flatnonzero(values.producer == GRAPH_INPUT)
        there = latency_s[host] + values.nbytes[given, None] / bytes_per_s[host]
        for value, row in zip(given.tolist(), there, strict=True):
            nodes = values.readers.node[values.readers.at[value] : values.readers.at[value + 1]]
            arrival[nodes] = np.maximum(arrival[nodes], row)
        out = made[values.leaves[made]]
        ways = latency_s[:, host] + values.nbytes[out, None] / bytes_per_s[:, host]
        np.maximum.at(back, values.producer[out], ways)
    made_by = np.bincount(values.producer[made], minlength=n)
    return Columns(
        seconds=np.where(problem.supported, problem.shared_seconds, np.inf).ravel(),
        made_at=np.concatenate(([0], np.cumsum(made_by))),
        made_bytes=values.nbytes[made],
        leaves=values.leaves[made].astype(np.int64),
        reader_at=reader_at,
        readers=values.readers.node[first + np.arange(reader_at[-1])],
        latency=latency_s.ravel(),
        bandwidth=bytes_per_s.ravel(),
        arrival=arrival.ravel(),
        back=back.ravel(),
    )


_VALUES: WeakKeyDictionary[Problem, list[list[Value]]] = WeakKeyDictionary()
"""By problem, as long as it is there: all schedules of it ask for the same."""


def mean_seconds(problem: Problem) -> list[float]:
    """Return each node's mean time over the devices that support it, 0 where none does."""
    supported = problem.supported
    weights = np.where(supported, problem.shared_seconds, 0.0)
    means: list[float] = (weights.sum(axis=1) / supported.sum(axis=1).clip(min=1)).tolist()
    return means


def mean_route(problem: Problem) -> tuple[float, float]:
    """Return the mean latency and the mean seconds a byte over pairs of distinct devices."""
    pairs = [route for p, row in enumerate(problem.routes) for q, route in enumerate(row) if p != q]
    count = max(len(pairs), 1)
    return (
        sum(route.latency_s for route in pairs) / count,
        sum(1.0 / route.bytes_per_s for route in pairs) / count,
    )


def made_by(problem: Problem) -> Sequence[Sequence[Value]]:
    """Return the values that each node makes, in the problem's order; cached. O(V + E)."""
    known = _VALUES.get(problem)
    if known is None:
        known = _VALUES[problem] = [[] for _ in range(problem.n)]
        for value in problem.values:
            if value.producer != GRAPH_INPUT:
                known[value.producer].append(value)
    return known


def upward_ranks(problem: Problem) -> list[float]:
    """Return the upward rank of each node in seconds: the mean length of its longest way out."""
    weights = mean_seconds(problem)
    latency_s, per_byte_s = mean_route(problem)
    made = made_by(problem)
    ranks = [0.0] * problem.n
    for node in range(problem.n - 1, -1, -1):
        tail = 0.0
        for value in made[node]:
            consumers = value.consumers
            if len(consumers) == 1:
                ahead = ranks[consumers[0]]
            else:
                ahead = max([ranks[v] for v in consumers]) if consumers else 0.0
            if consumers or problem.host is not None:
                ahead += latency_s + per_byte_s * value.nbytes
            if ahead > tail:
                tail = ahead
        ranks[node] = weights[node] + tail
    return ranks


def downward_ranks(problem: Problem) -> list[float]:
    """Return the downward rank of each node in seconds: its longest mean way in, without it."""
    weights = mean_seconds(problem)
    latency_s, per_byte_s = mean_route(problem)
    ranks = [0.0] * problem.n
    if problem.host is not None:
        for value in problem.values:
            if value.producer == GRAPH_INPUT:
                for v in value.consumers:
                    ranks[v] = max(ranks[v], latency_s + per_byte_s * value.nbytes)
    for node, values in enumerate(made_by(problem)):
        behind = ranks[node] + weights[node]
        for value in values:
            arrival = behind + latency_s + per_byte_s * value.nbytes
            for v in value.consumers:
                ranks[v] = max(ranks[v], arrival)
    return ranks


def static_levels(problem: Problem) -> tuple[list[float], list[float]]:
    """Return (static level, median time) by node in seconds."""
    table = np.where(problem.supported, problem.shared_seconds, np.nan)
    table[~problem.supported.any(axis=1)] = 0.0
    medians: list[float] = np.nanmedian(table, axis=1).tolist() if problem.n else []
    levels = [0.0] * problem.n
    for node in range(problem.n - 1, -1, -1):
        ahead = max((levels[v] for v in problem.dag.succs[node]), default=0.0)
        levels[node] = medians[node] + ahead
    return levels, medians


def rounded(ranks: Sequence[float]) -> list[float]:
    """Return `ranks` over the largest, to 12 digits."""
    top = max(ranks, default=0.0) or 1.0
    return [round(rank / top, 12) for rank in ranks]


def by_falling_rank(ranks: Sequence[float]) -> list[int]:
    """Return the nodes by falling rank, equal ones by id."""
    keys = [-rank for rank in rounded(ranks)]
    return sorted(range(len(keys)), key=keys.__getitem__)


def depth_first(before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]) -> list[int]:
    """Return a topological order that follows each path as far as possible. O(V + E)."""
    waits = [len(found) for found in before]
    stack = [v for v in range(len(before) - 1, -1, -1) if waits[v] == 0]
    order: list[int] = []
    while stack:
        node = stack.pop()
        order.append(node)
        for v in reversed(after[node]):
            waits[v] -= 1
            if waits[v] == 0:
                stack.append(v)
    return order


def orders_by_rule(dag: Dag) -> list[list[int]]:
    """Return initial topological orders: by id, and depth first from either end."""
    forth, back = depth_first(dag.preds, dag.succs), depth_first(dag.succs, dag.preds)
    return [list(range(dag.n)), forth, back[::-1]]
