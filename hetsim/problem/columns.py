"""Columns of a problem: its times, values and routes as arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from hetsim.graph.dag import Ints
from hetsim.problem.parts import GRAPH_INPUT, Value
from hetsim.problem.problem import Problem


def travel_matrices(problem: Problem) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (latency_s, bytes_per_s) of every route as arrays [P, P]; the diagonal is free."""
    latency_s = np.array([[route.latency_s for route in row] for row in problem.routes])
    bytes_per_s = np.array([[route.bytes_per_s for route in row] for row in problem.routes])
    np.fill_diagonal(latency_s, 0.0)
    np.fill_diagonal(bytes_per_s, np.inf)
    return latency_s, bytes_per_s


def transfer_costs(problem: Problem) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (latency_s, seconds per byte) [P, P], staging included; the diagonal is free."""
    latency_s, bytes_per_s = travel_matrices(problem)
    per_byte_s = 1.0 / bytes_per_s
    if problem.staging is not None:
        store_s, fetch_s = problem.staging.store_s_per_byte, problem.staging.fetch_s_per_byte
        per_byte_s = per_byte_s + np.array(store_s)[:, None] + np.array(fetch_s)[None, :]
        np.fill_diagonal(per_byte_s, 0.0)
    return latency_s, per_byte_s


Floats = NDArray[np.float64]


class Columns(NamedTuple):
    """Read-only arrays of a problem; matrices are flat, row by row."""

    seconds: Floats  # [n P]: Seconds of nodes within a subgraph; inf if not supported individually
    # [n + 1]: Values that each node produces, their bytes, and whether the host awaits them
    made_at: Ints
    made_bytes: Floats
    leaves: Ints
    reader_at: Ints  # [produced + 1]: Readers of each of these values
    readers: Ints
    latency: Floats  # [P P]: Route costs; the diagonal is free
    bandwidth: Floats
    # [n P]: Arrival of the inputs of each node on each device, and seconds of its outputs from
    # there to the host
    arrival: Floats
    back: Floats


T = TypeVar("T")


def cached(make: Callable[[Problem], T]) -> Callable[[Problem], T]:
    """Cache the results of a function of a problem for the lifetime of the problem."""
    known: WeakKeyDictionary[Problem, T] = WeakKeyDictionary()

    @wraps(make)
    def found(problem: Problem) -> T:
        if problem not in known:
            known[problem] = make(problem)
        return known[problem]

    return found


@cached
def columns_of(problem: Problem) -> Columns:
    """Return the columns of a problem, cached. O(V P + E)."""
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


@cached
def made_by(problem: Problem) -> Sequence[Sequence[Value]]:
    """Return the values that each node produces, in the problem's order, cached. O(V + E)."""
    made: list[list[Value]] = [[] for _ in range(problem.n)]
    for value in problem.values:
        if value.producer != GRAPH_INPUT:
            made[value.producer].append(value)
    return made
