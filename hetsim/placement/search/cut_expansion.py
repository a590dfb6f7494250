"""One move of ``mincut``: which nodes shall change to a device together, as a minimum cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetsim.placement.search.minimum_cut import source_side
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem

BITS = 30
"""Bits of a capacity: the maximum flow counts in 32-bit integers."""

Matrix = list[list[float]]

HOST = -1
"""Stands for the host among producers and readers."""


@dataclass(frozen=True, eq=False)
class Terms:
    """What the total is made of.

    Attributes
    ----------
    seconds : float array [n, P]
        Alone or as its share of a fused kernel; inf where not supported alone.
    values : tuple of (producer, readers, matrix)
        Node ids or HOST; the rows of the matrix [P, P] are the time of one transfer.
    host : int
        -1 where there is none.
    """

    seconds: NDArray[np.float64]
    values: tuple[tuple[int, tuple[int, ...], Matrix], ...]
    host: int

    @classmethod
    def of(cls, problem: Problem) -> Terms:
        """Gather them. O(n P + values P^2)."""
        latency_s = np.array([[route.latency_s for route in row] for row in problem.routes])
        per_byte_s = np.array([[1.0 / r.bytes_per_s for r in row] for row in problem.routes])
        if problem.staging is not None:
            per_byte_s = (
                per_byte_s
                + np.array(problem.staging.store_s_per_byte)[:, None]
                + np.array(problem.staging.fetch_s_per_byte)[None, :]
            )
        values: list[tuple[int, tuple[int, ...], Matrix]] = []
        kept: dict[int, Matrix] = {}
        for value in problem.values:
            producer = HOST if value.producer == GRAPH_INPUT else value.producer
            if producer == HOST and problem.host is None:
                continue
            returns = value.is_output and problem.host is not None and producer != HOST
            readers = (*value.consumers, HOST) if returns else value.consumers
            if readers:
                if value.nbytes not in kept:
                    matrix = latency_s + per_byte_s * value.nbytes
                    np.fill_diagonal(matrix, 0.0)
                    kept[value.nbytes] = matrix.tolist()
                values.append((producer, readers, kept[value.nbytes]))
        return cls(
            seconds=np.where(problem.supported, problem.shared_seconds, np.inf),
            values=tuple(values),
            host=-1 if problem.host is None else problem.host,
        )

    def total(self, assignment: Sequence[int]) -> float:
        """Return the serial latency of an assignment. O(n + E)."""
        found = float(self.seconds[np.arange(len(assignment)), list(assignment)].sum())
        for producer, readers, matrix in self.values:
            source = self.host if producer == HOST else assignment[producer]
            targets = {self.host if v == HOST else assignment[v] for v in readers}
            row = matrix[source]
            found += sum([row[target] for target in sorted(targets)])
        return found


class _Network:
    """Edges with capacities between nodes 0 (keeps its device), 1 (changes), 2 ..."""

    KEEP, CHANGE = 0, 1

    def __init__(self, n: int) -> None:
        self.size = 2 + n
        self.tails: list[int] = []
        self.heads: list[int] = []
        self.capacities: list[float] = []

    def add(self, tail: int, head: int, capacity: float) -> None:
        """Cost `capacity` where `tail` keeps and `head` changes."""
        if capacity > 0 and tail != head:
            self.tails.append(tail)
            self.heads.append(head)
            self.capacities.append(capacity)

    def any_changes(self, first: int, others: Sequence[int], cost: float) -> None:
        """Cost `cost` once where `first` keeps and any of `others` changes."""
        if len(others) == 1:
            self.add(first, others[0], cost)
        elif cost > 0 and others:
            middle = self.size
            self.size += 1
            self.add(first, middle, cost)
            for other in others:
                self.add(middle, other, float("inf"))

    def any_keeps(self, others: Sequence[int], last: int, cost: float) -> None:
        """Cost `cost` once where any of `others` keeps and `last` changes."""
        if len(others) == 1:
            self.add(others[0], last, cost)
        elif cost > 0 and others:
            middle = self.size
            self.size += 1
            self.add(middle, last, cost)
            for other in others:
                self.add(other, middle, float("inf"))

    def cut(self) -> NDArray[np.bool_]:
        """Return which nodes keep, in a minimum cut."""
        raw = np.array(self.capacities, dtype=np.float64)
        finite = np.isfinite(raw)
        whole = float(raw[finite].sum())
        # A power of two, so that times with few bits stay exact.
        power = BITS - 1 - int(np.ceil(np.log2(whole))) if whole > 0 else 0
        scaled = np.full(len(raw), 2**BITS, dtype=np.int64)
        scaled[finite] = np.rint(np.ldexp(raw[finite], power)).astype(np.int64)
        return source_side(
            self.size, np.array(self.tails), np.array(self.heads), scaled, self.KEEP, self.CHANGE
        )


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
    network = _Network(n)
    moving = [device != target for device in assignment]

    def place(v: int) -> int:
        # The host and the nodes that are on the target already have no choice.
        if v == HOST:
            return network.CHANGE if terms.host == target else network.KEEP
        return 2 + v if moving[v] else network.CHANGE

    def device(v: int) -> int:
        return terms.host if v == HOST else assignment[v]

    for v, row in enumerate(terms.seconds.tolist()):
        if moving[v]:
            network.add(2 + v, network.CHANGE, row[assignment[v]])
            network.add(network.KEEP, 2 + v, row[target])
    for producer, readers, matrix in terms.values:
        home = device(producer)
        u = place(producer)
        by_device: dict[int, list[int]] = {}
        for v in readers:
            by_device.setdefault(device(v), []).append(place(v))
        if home != target:
            free = [v for v in sorted({place(v) for v in readers}) if v != u]
            if network.CHANGE in free:
                free = [network.CHANGE]
            network.any_changes(u, [v for v in free if v != network.KEEP], matrix[home][target])
        for q in sorted(by_device):
            if q == target:
                continue
            keepers = sorted(set(by_device[q]))
            if network.KEEP in keepers:
                keepers = [network.KEEP]
            changed = matrix[target][q]
            kept = matrix[home][q] if home != target else changed
            network.any_keeps(keepers, network.CHANGE, kept)
            if changed > kept:
                network.any_keeps([v for v in keepers if v != u], u, changed - kept)
    keeps = network.cut()
    return [target if not moving[v] or not keeps[2 + v] else assignment[v] for v in range(n)]


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
