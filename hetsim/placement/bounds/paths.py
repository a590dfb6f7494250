"""Earliest starts and least remainders of every node on every device, over all plans."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetsim.core.machine_code import machine_code
from hetsim.problem.columns import transfer_costs
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem

Floats = NDArray[np.float64]

WIDEST = 32
"""Maximum number of neighbours of a node that the join rule considers, those that end last."""

Array = Any

INFINITY = float("inf")

COMPILE_FROM = 3000
"""Number of nodes from which the sweep runs as machine code."""


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Producers or readers of every node, with the bytes of the largest tensor between the two."""

    at: NDArray[np.int64]  # [n + 1]: Offset of each node's neighbours
    node: NDArray[np.int64]  # [E]: Neighbours in ascending order of node
    nbytes: Floats  # [E]

    @classmethod
    def of(
        cls, n: int, own: NDArray[np.int64], other: NDArray[np.int64], nbytes: Floats
    ) -> Neighbours:
        """Return the neighbours of each node without duplicates. O(E log E)."""
        order = np.lexsort((other, own))
        own, other, nbytes = own[order], other[order], nbytes[order]
        first = np.ones(len(own), dtype=bool)
        first[1:] = (own[1:] != own[:-1]) | (other[1:] != other[:-1])
        begin = np.flatnonzero(first)
        largest = np.maximum.reduceat(nbytes, begin) if len(begin) else nbytes
        at = np.searchsorted(own[begin], np.arange(n + 1))
        return cls(at, other[begin], largest)

    @cached_property
    def rows(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Neighbours by node, as (neighbour, bytes)."""
        at, pairs = (
            self.at.tolist(),
            list(zip(self.node.tolist(), map(int, self.nbytes.tolist()), strict=True)),
        )
        return tuple(tuple(pairs[i:j]) for i, j in pairwise(at))


@dataclass(frozen=True, eq=False)
class BoundInputs:
    """Inputs of the lower bounds of a problem."""

    # [n, P]: Least time of a node on a device: ``problem.least_seconds``; inf where not runnable
    shares: Floats
    # [n, P]: The same with its fused kernel split, and the number of that kernel, or -1
    alone_s: Floats
    kernel: NDArray[np.int64]
    streams: tuple[int, ...]
    before: Neighbours  # Producers and readers
    after: Neighbours
    # [P, P]: Seconds of a transfer from row to column, staging included; inf on the diagonal
    latency_s: Floats
    per_byte_s: Floats
    dispatch_s: Floats  # [P]
    # [n, P]: Earliest time at which a node's model inputs have arrived and its subgraph is started,
    # and the time to return its outputs to the host; 0 where it has none
    arrival_s: Floats
    return_s: Floats

    @classmethod
    def of(cls, problem: Problem) -> BoundInputs:
        """Return the inputs of a problem's bounds. O(n P + E + P^2)."""
        count = len(problem.devices)
        latency_s, per_byte_s = transfer_costs(problem)
        dispatch_s = np.array(problem.dispatch_s)
        producers: list[int] = []
        readers: list[int] = []
        nbytes: list[int] = []
        arrival_s = np.broadcast_to(dispatch_s, (problem.n, count)).copy()
        return_s = np.zeros((problem.n, count))
        host = problem.host
        for value in problem.values:
            if value.producer == GRAPH_INPUT:
                if host is not None:
                    travel = _to_and_from(problem, host, value.nbytes, inward=True)
                    for v in value.consumers:
                        np.maximum(arrival_s[v], travel + dispatch_s, out=arrival_s[v])
                continue
            u = value.producer
            readers += value.consumers
            producers += [u] * len(value.consumers)
            nbytes += [value.nbytes] * len(value.consumers)
            if value.is_output and host is not None:
                travel = _to_and_from(problem, host, value.nbytes, inward=False)
                np.maximum(return_s[u], travel, out=return_s[u])
        np.fill_diagonal(latency_s, np.inf)
        from_, to = np.array(producers, dtype=np.int64), np.array(readers, dtype=np.int64)
        moved = np.array(nbytes, dtype=np.float64)
        shares = np.where(problem.runnable, problem.least_seconds, np.inf)
        alone_s, kernel = shares.copy(), np.full(shares.shape, -1)
        for number, fused in enumerate(problem.fused):
            nodes = [v for v in fused.nodes if v not in problem.least_s]
            alone_s[nodes, fused.device] = problem.seconds[nodes, fused.device]
            kernel[list(fused.nodes), fused.device] = number
        return cls(
            shares=shares,
            alone_s=np.where(problem.runnable, alone_s, np.inf),
            kernel=kernel,
            streams=problem.streams,
            before=Neighbours.of(problem.n, to, from_, moved),
            after=Neighbours.of(problem.n, from_, to, moved),
            latency_s=latency_s,
            per_byte_s=per_byte_s,
            dispatch_s=dispatch_s,
            arrival_s=arrival_s,
            return_s=return_s,
        )


def _to_and_from(problem: Problem, host: int, nbytes: int, *, inward: bool) -> Floats:
    found = np.zeros(len(problem.devices))
    for p in range(len(found)):
        if p != host:
            route = problem.routes[host][p] if inward else problem.routes[p][host]
            found[p] = route.seconds(nbytes)
        if problem.staging is not None and problem.staging.ends:
            rates = problem.staging
            rate = rates.fetch_s_per_byte[p] if inward else rates.store_s_per_byte[p]
            found[p] += rate * nbytes
    return found


def heads(setting: BoundInputs, shares: Floats) -> Floats:
    """Return [n, P]: the earliest start of node v if it runs on device p, in any plan.

    `shares` are those of `setting`, with inf where a device is ruled out. Decision 9 has the proof
    and the join rule. Complexity: O(E (P^2 + d P)) for d neighbours per node.
    """
    enter_s = setting.latency_s + setting.dispatch_s[None, :]
    order = np.arange(len(shares))
    return _swept(
        order, setting.before, shares, setting.arrival_s, enter_s, setting.per_byte_s,
        setting.streams,
    )  # fmt: skip


def tails(setting: BoundInputs, shares: Floats) -> Floats:
    """Return [n, P]: the least time from the end of node v on device p to the request's end."""
    enter_s = (setting.latency_s + setting.dispatch_s[None, :]).T
    order = np.arange(len(shares) - 1, -1, -1)
    return _swept(
        order, setting.after, shares, setting.return_s, enter_s, setting.per_byte_s.T,
        setting.streams,
    )  # fmt: skip


def _swept(
    order: NDArray[np.int64],
    near: Neighbours,
    shares: Floats,
    least: Floats,
    enter_s: Floats,
    per_byte_s: Floats,
    streams: tuple[int, ...],
) -> Floats:
    """Return [n, P]: the result of ``sweep_nodes``, in machine code for many nodes."""
    compiled = len(order) >= COMPILE_FROM
    starts = (shares.ravel(), least.flatten(), np.zeros(least.size))
    sweep = sweep_of(near, enter_s, per_byte_s, streams, starts, arrays=compiled)
    (_compiled_sweep if compiled else sweep_nodes)(order if compiled else order.tolist(), sweep)
    return np.asarray(sweep.found).reshape(least.shape)


class Sweep(NamedTuple):
    """State of a sweep in one direction, as lists or arrays; matrices are flat, row by row.

    The states of several cases follow one another.
    """

    near_at: Array  # As in ``Neighbours``: the nodes that a node waits for
    near: Array
    nbytes: Array
    enter: Array  # [P P]: Seconds of a transfer plus subgraph start, and seconds per byte
    per_byte: Array
    streams: Array  # [P]
    off: Array  # Scratch arrays by neighbour of a node
    rank: Array
    inside: Array
    shares: Array  # [n P]: Seconds of nodes; inf where a device is ruled out
    found: Array  # [n P]: Starts and ends of nodes
    ends: Array


def sweep_of(
    near: Neighbours,
    enter_s: Floats,
    per_byte_s: Floats,
    streams: tuple[int, ...],
    starts: tuple[Any, Any, Any],
    *,
    arrays: bool,
) -> Sweep:
    """Return a sweep whose last three fields are `starts`, as arrays or as lists."""
    most = max(int(np.diff(near.at).max(initial=0)), 1)
    columns = [
        near.at, near.node, near.nbytes, enter_s.ravel(), per_byte_s.ravel(), np.array(streams),
        np.empty(most), *np.empty((2, most), dtype=np.int64), *starts,
    ]  # fmt: skip
    return Sweep._make(
        part.tolist() if not arrays and isinstance(part, np.ndarray) else part for part in columns
    )


def sweep_nodes(order: Array, sweep: Sweep) -> None:
    """Compute the starts of ``heads`` in the given order, from the lower limits in `found`."""
    for node in order:
        start_of(sweep, 0, node)


def start_of(sweep: Sweep, base: int, node: int) -> bool:
    """Raise the starts and ends of a node by the join rule; return whether an end was raised.

    The current case begins at index `base`. A node with an infinite end keeps its start and end.
    """
    near, shares, found, ends = sweep.near, sweep.shares, sweep.found, sweep.ends
    off, rank, inside, streams = sweep.off, sweep.rank, sweep.inside, sweep.streams
    count = len(streams)
    own = base + node * count
    first, size = sweep.near_at[node], sweep.near_at[node + 1] - sweep.near_at[node]
    for p in range(count):
        if ends[own + p] == INFINITY:
            continue
        at = base + p
        for i in range(size):
            u, moved, least = near[first + i], sweep.nbytes[first + i], INFINITY
            row = base + u * count
            for q in range(count):
                arrived = ends[row + q]
                if arrived < least:
                    way = q * count + p
                    arrived += sweep.enter[way] + sweep.per_byte[way] * moved
                    least = min(least, arrived)
            off[i] = least
        joined = found[own + p]
        if size == 1:
            joined = min(off[0], ends[at + near[first] * count])
        elif size > 1:
            # Neighbours that end last, by insertion sort; the first of equal ones wins.
            kept = 0
            for i in range(size):
                k = min(kept, WIDEST - 1)
                if kept == WIDEST and off[i] <= off[rank[k]]:
                    continue
                while k > 0 and off[rank[k - 1]] < off[i]:
                    rank[k] = rank[k - 1]
                    k -= 1
                rank[k] = i
                kept = min(kept + 1, WIDEST)
            joined = off[rank[0]]
            for place in range(kept):
                i = rank[place]
                u = at + near[first + i] * count
                k = place
                while k > 0 and found[at + near[first + inside[k - 1]] * count] < found[u]:
                    inside[k] = inside[k - 1]
                    k -= 1
                inside[k] = i
                if ends[u] == INFINITY:
                    break
                work, occupied = 0.0, 0.0
                for k in range(place + 1):
                    w = at + near[first + inside[k]] * count
                    work += shares[w] / streams[p]
                    occupied = max(occupied, max(found[w] + work, ends[w]))
                if occupied >= joined:
                    break
                rest = off[rank[place + 1]] if place + 1 < kept else 0.0
                joined = min(joined, max(occupied, rest))
        found[own + p] = max(found[own + p], joined)
    raised = False
    for k in range(own, own + count):
        end = found[k] + shares[k]
        raised = raised or end > ends[k]
        ends[k] = end
    return raised


_compiled_sweep = machine_code(sweep_nodes, start_of, inline=True)
