"""Earliest starts and least remainders of every node on every device, whatever the plan."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem

Floats = NDArray[np.float64]

WIDEST = 32
"""Neighbours of a node that the join rule weighs, those that end last."""


@dataclass(frozen=True, eq=False)
class Setting:
    """What the bounds know of a problem.

    Attributes
    ----------
    shares : float array [n, P]
        Least time of a node on a device: ``problem.least_seconds``; inf where not runnable.
    streams : tuple of int
    before, after : by node, tuple of (neighbour, bytes)
        Producers and readers, with the largest tensor between the two.
    latency_s, per_byte_s : float array [P, P]
        Of a transfer from row to column, staging included; inf on the diagonal.
    dispatch_s : float array [P]
    arrival_s, return_s : float array [n, P]
        When the inputs of the model that a node reads can be there and its subgraph started,
        and how long its outputs take to the host; 0 where there are none.
    """

    shares: Floats
    streams: tuple[int, ...]
    before: tuple[tuple[tuple[int, int], ...], ...]
    after: tuple[tuple[tuple[int, int], ...], ...]
    latency_s: Floats
    per_byte_s: Floats
    dispatch_s: Floats
    arrival_s: Floats
    return_s: Floats

    @classmethod
    def of(cls, problem: Problem) -> Setting:
        """Gather it. O(n P + E + P^2)."""
        count = len(problem.devices)
        latency_s = np.array([[route.latency_s for route in row] for row in problem.routes])
        per_byte_s = np.array([[1.0 / r.bytes_per_s for r in row] for row in problem.routes])
        fetch_s, store_s = np.zeros(count), np.zeros(count)
        if problem.staging is not None:
            fetch_s = np.array(problem.staging.fetch_s_per_byte)
            store_s = np.array(problem.staging.store_s_per_byte)
            per_byte_s = per_byte_s + store_s[:, None] + fetch_s[None, :]
        # Travel between a device and itself is free, for inputs and outputs too.
        np.fill_diagonal(latency_s, 0.0)
        np.fill_diagonal(per_byte_s, 0.0)
        dispatch_s = np.array(problem.dispatch_s)
        before: list[dict[int, int]] = [{} for _ in range(problem.n)]
        after: list[dict[int, int]] = [{} for _ in range(problem.n)]
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
            for v in value.consumers:
                before[v][u] = max(before[v].get(u, 0), value.nbytes)
                after[u][v] = max(after[u].get(v, 0), value.nbytes)
            if value.is_output and host is not None:
                travel = _to_and_from(problem, host, value.nbytes, inward=False)
                np.maximum(return_s[u], travel, out=return_s[u])
        np.fill_diagonal(latency_s, np.inf)
        return cls(
            shares=np.where(problem.runnable, problem.least_seconds, np.inf),
            streams=problem.streams,
            before=tuple(tuple(sorted(found.items())) for found in before),
            after=tuple(tuple(sorted(found.items())) for found in after),
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
        if problem.staging is not None:
            rates = problem.staging
            rate = rates.fetch_s_per_byte[p] if inward else rates.store_s_per_byte[p]
            found[p] += rate * nbytes
    return found


def heads(setting: Setting, shares: Floats) -> Floats:
    """Return [n, P]: the earliest start of node v if it runs on device p, in any plan.

    `shares` are those of `setting`, perhaps with inf where a device is ruled out.

    Why it holds. Take any plan as the clock plays it, and within each subgraph let its nodes
    run one after another in graph order behind the dispatch, each for its share. The shares of
    a subgraph's nodes add up to no more than its time: a fused kernel's shares sum to the
    kernel's time, and alone a node takes no less. So this is a schedule in which nodes are
    intervals on streams, disjoint on one stream, none ends later than its subgraph does, and:

    - v starts after each of its producers on its own device has ended;
    - if a producer u is on another device q, v's subgraph starts when the tensor that ended
      with u's subgraph at the earliest has travelled, so v starts no sooner than u's end +
      travel(q, p) + dispatch(p);
    - v starts no sooner than dispatch(p) after the arrival of the model's inputs that it reads.

    The join rule. For v on p, let A be its producers on p and B the others. Every u in B costs
    off(u) = min over q != p of end(u, q) + travel + dispatch. Those in A occupy p's streams
    before v, so for every r they end no sooner than r + (sum of shares of those in A with a
    head of at least r) / streams, nor than each one's own end. The larger A is, the larger this
    is; so if v starts before T, exactly those with off(u) > T need to be in A, and the least
    T is found among the producers sorted by off(u). A node with one producer waits for the
    smaller of off(u) and its end on p. By induction along the graph every entry is a lower
    bound, whichever devices the other nodes take.

    O(E (P^2 + d P)) for d neighbours a node.
    """
    enter_s = setting.latency_s + setting.dispatch_s[None, :]
    return sweep(
        range(len(shares)), setting.before, shares, setting.arrival_s, enter_s,
        setting.per_byte_s, setting.streams,
    )  # fmt: skip


def tails(setting: Setting, shares: Floats) -> Floats:
    """Return [n, P]: the least time from the end of node v on device p to the end of the request.

    The mirror image of ``heads``: a reader on another device q starts travel(p, q) +
    dispatch(q) later at the earliest; those on p share its streams after v.
    """
    enter_s = (setting.latency_s + setting.dispatch_s[None, :]).T
    return sweep(
        range(len(shares) - 1, -1, -1), setting.after, shares, setting.return_s,
        np.ascontiguousarray(enter_s), np.ascontiguousarray(setting.per_byte_s.T), setting.streams,
    )  # fmt: skip


def sweep(
    order: range,
    neighbours: tuple[tuple[tuple[int, int], ...], ...],
    shares: Floats,
    least: Floats,
    enter_s: Floats,
    per_byte_s: Floats,
    streams: tuple[int, ...],
) -> Floats:
    count = shares.shape[1]
    found = least.copy()
    ends = np.empty_like(found)
    table = shares.tolist()
    for node in order:
        near = neighbours[node]
        if near:
            away = [
                (ends[u][:, None] + enter_s + per_byte_s * nbytes).min(axis=0) for u, nbytes in near
            ]
            if len(near) == 1:
                np.maximum(found[node], np.minimum(away[0], ends[near[0][0]]), out=found[node])
            else:
                off = np.array(away)
                own = found[[u for u, _ in near]]
                done = ends[[u for u, _ in near]]
                for p in range(count):
                    joined = _join(
                        off[:, p].tolist(), own[:, p].tolist(), done[:, p].tolist(),
                        [table[u][p] for u, _ in near], streams[p],
                    )  # fmt: skip
                    if joined > found[node, p]:
                        found[node, p] = joined
        ends[node] = found[node] + shares[node]
    return found


def _join(
    off: list[float], start: list[float], done: list[float], share: list[float], width: int
) -> float:
    """Return the least time by which all neighbours can be there; see ``heads``."""
    rank = sorted(range(len(off)), key=lambda i: (-off[i], i))[:WIDEST]
    inside: list[int] = []
    best = off[rank[0]]
    for place, i in enumerate(rank):
        # All neighbours up to this one are on the device itself.
        inside.append(i)
        if done[i] == float("inf"):
            break
        work, occupied = 0.0, 0.0
        for k in sorted(inside, key=lambda k: -start[k]):
            work += share[k] / width
            occupied = max(occupied, start[k] + work, done[k])
        rest = off[rank[place + 1]] if place + 1 < len(rank) else 0.0
        if occupied >= best:
            break
        best = min(best, max(occupied, rest))
    return best
