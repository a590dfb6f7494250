"""What schedulers on arrays ask of a problem; made once, for all that schedule it."""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from hetsim.graph.dag import Ints
from hetsim.placement.listing.ranks import travel_matrices
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem

Floats = NDArray[np.float64]


class Columns(NamedTuple):
    """Arrays that are not to be written to; matrices lie flat, by row.

    Attributes
    ----------
    seconds : [n P]
        Of nodes as a subgraph's members; inf where not supported alone.
    made_at, made_bytes, leaves : [n + 1], [made], [made]
        Which values each node makes, their bytes, and whether the host awaits them.
    reader_at, readers : [made + 1], [reads]
        The nodes that read each of these.
    latency, bandwidth : [P P]
        Of routes; the diagonal is free.
    arrival, back : [n P]
        When the inputs of each node are on each device, and what its outputs take from there to
        the host.
    """

    seconds: Floats
    made_at: Ints
    made_bytes: Floats
    leaves: Ints
    reader_at: Ints
    readers: Ints
    latency: Floats
    bandwidth: Floats
    arrival: Floats
    back: Floats


_MADE: WeakKeyDictionary[Problem, Columns] = WeakKeyDictionary()


def columns_of(problem: Problem) -> Columns:
    """Return them. O(V P + E) the first time."""
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
