"""One move of ``mincut``: which nodes shall change to a device together, as a minimum cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.graph.dag import Ints
from hetsim.placement.search.cut_kernel import (
    CHANGE,
    HOST,
    KEEP,
    compiled_layout,
    lay_out,
    layout_pays,
)
from hetsim.placement.search.minimum_cut import source_side
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem

BITS = 30
"""Bits of a capacity: the maximum flow counts in 32-bit integers."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Terms:
    """What the total is made of.

    Attributes
    ----------
    seconds : float array [n, P]
        Alone or as its share of a fused kernel; inf where not supported alone.
    producer : int array [values]
        Node ids, or HOST.
    reader_at, readers : int array [values + 1], [reads]
        By value the nodes that read it, ascending, then HOST where it returns there.
    size : int array [values]
    travel : float array [sizes, P, P]
        ``travel[size[value], p, q]`` is the time of one transfer.
    host : int
        -1 where there is none.
    """

    seconds: Floats
    producer: Ints
    reader_at: Ints
    readers: Ints
    size: Ints
    travel: Floats
    host: int

    @classmethod
    def of(cls, problem: Problem) -> Terms:
        """Gather them. O(n P + values + sizes P^2)."""
        latency_s = np.array([[route.latency_s for route in row] for row in problem.routes])
        per_byte_s = np.array([[1.0 / r.bytes_per_s for r in row] for row in problem.routes])
        if problem.staging is not None:
            per_byte_s = (
                per_byte_s
                + np.array(problem.staging.store_s_per_byte)[:, None]
                + np.array(problem.staging.fetch_s_per_byte)[None, :]
            )
        values, host = problem.value_arrays, problem.host
        given = values.producer == GRAPH_INPUT
        returns = values.leaves & ~given & (host is not None)
        number = np.diff(values.readers.at) + returns
        taken = (number > 0) & ~(given & (host is None))
        reader_at = np.concatenate(([0], np.cumsum(number[taken])))
        readers = np.full(reader_at[-1], HOST, dtype=np.int64)
        # HOST stands last; where it does not, there is a node.
        by_node = np.ones(len(readers), dtype=np.bool_)
        by_node[reader_at[1:][returns[taken]] - 1] = False
        readers[by_node] = values.readers.node[taken[values.readers.owner]]
        sizes, size = np.unique(values.nbytes[taken], return_inverse=True)
        travel = latency_s + per_byte_s * sizes[:, None, None]
        own = np.arange(len(problem.devices))
        travel[:, own, own] = 0.0
        return cls(
            seconds=np.where(problem.supported, problem.shared_seconds, np.inf),
            producer=np.where(given, HOST, values.producer)[taken],
            reader_at=reader_at,
            readers=readers,
            size=size,
            travel=travel,
            host=-1 if host is None else host,
        )

    def total(self, assignment: Sequence[int]) -> float:
        """Return the serial latency of an assignment. O(n + values P + reads)."""
        n, count = self.seconds.shape
        # HOST is the last.
        place = np.append(np.asarray(assignment, dtype=np.int64), self.host)
        values = len(self.producer)
        there = np.zeros((values, count), dtype=np.bool_)
        there[np.repeat(np.arange(values), np.diff(self.reader_at)), place[self.readers]] = True
        ways = self.travel[self.size, place[self.producer]]
        moved = np.zeros(values)
        for p in range(count):
            moved += np.where(there[:, p], ways[:, p], 0.0)
        own = float(self.seconds[np.arange(n), place[:n]].sum())
        return float(np.cumsum(np.append(own, moved))[-1])


def expand(terms: Terms, assignment: Sequence[int], target: int) -> list[int]:
    """Return the assignment after the best change of any set of nodes to device `target`.

    A node on the source's side of the cut keeps its device, one on the sink's side changes. A
    tensor from u on p to readers that keep q costs matrix[p, q] or, if u changes,
    matrix[target, q]; where the former is larger it is charged in both cases, since costs of
    two nodes that both keep have no cut: never too low, and right where nothing changes. On two
    devices with all nodes on the other one there is no such q, and the cut is the best
    assignment of all.

    Capacities are rounded to multiples of a power of two, about 2^-29 of their sum: sums of
    times that are such multiples are exact, and any other is off by at most half of one a term.

    Complexity: one maximum flow on n + 2 values nodes (Dinic).
    """
    n = len(assignment)
    nodes, tails, heads, capacities = _network(terms, assignment, target)
    finite = np.isfinite(capacities)
    whole = float(capacities[finite].sum())
    # A power of two, so that times with few bits stay exact.
    power = BITS - 1 - int(np.ceil(np.log2(whole))) if whole > 0 else 0
    scaled = np.full(len(capacities), 2**BITS, dtype=np.int64)
    scaled[finite] = np.rint(np.ldexp(capacities[finite], power)).astype(np.int64)
    keeps = source_side(nodes, tails, heads, scaled, KEEP, CHANGE)
    before = np.asarray(assignment, dtype=np.int64)
    stays = (before == target) | ~keeps[2 : 2 + n]
    after: list[int] = np.where(stays, target, before).tolist()
    return after


def _network(
    terms: Terms, assignment: Sequence[int], target: int
) -> tuple[int, Ints, Ints, Floats]:
    """How many nodes it has; of its arcs tail, head and capacity."""
    n, count = terms.seconds.shape
    size = len(terms.producer) + len(terms.readers) + n
    most = 2 * n + 3 * len(terms.producer) + 5 * len(terms.readers)
    columns = (
        np.asarray(assignment, dtype=np.int64), terms.seconds.ravel(),
        terms.producer, terms.reader_at, terms.readers, terms.size, terms.travel.ravel(),
        np.zeros(count, np.int64), np.empty(most, np.int64), np.empty(most, np.int64),
        np.empty(most), np.zeros(1, np.int64),
    )  # fmt: skip
    if layout_pays(size):
        arcs = compiled_layout()(count, terms.host, target, *columns)
        found: Any = columns
    else:
        found = [column.tolist() for column in columns]
        arcs = lay_out(count, terms.host, target, *found)
    *_, tails, heads, capacities, nodes = found
    return (
        int(nodes[0]),
        np.asarray(tails[:arcs], dtype=np.int64),
        np.asarray(heads[:arcs], dtype=np.int64),
        np.asarray(capacities[:arcs], dtype=np.float64),
    )


def serial_latency(problem: Problem, assignment: Sequence[int]) -> float:
    """Return the total that ``mincut`` minimizes, in seconds; inf where unsupported. O(V + E)."""
    return Terms.of(problem).total(assignment)


def least_serial(problem: Problem, rounds: int = 10) -> list[int]:
    """Return the assignment, device index by node, with the least ``serial_latency`` found."""
    terms = Terms.of(problem)
    n, count = terms.seconds.shape
    if count == 1 or n == 0:
        return [0] * n
    if count == 2:
        return expand(terms, [0] * n, 1)
    # Alike in every process: the first of equal totals stays.
    starts = [[device] * n for device in range(count)]
    starts.append([int(device) for device in terms.seconds.argmin(axis=1)])
    totals = [terms.total(start) for start in starts]
    best = min(range(len(starts)), key=lambda index: (totals[index], index))
    assignment, total = starts[best], totals[best]
    # From the same assignment a device was tried in vain once: it would be so again.
    in_vain: set[int] = set()
    for _ in range(rounds):
        before = total
        for target in range(count):
            if target in in_vain:
                continue
            moved = expand(terms, assignment, target)
            reached = terms.total(moved) if moved != assignment else total
            if reached < total:
                assignment, total = moved, reached
                in_vain.clear()
            else:
                in_vain.add(target)
        if not total < before * (1.0 - 1e-12):
            break
    if not np.isfinite(total):
        raise AssertionError("a supported node was left on a device that does not support it")
    return assignment
