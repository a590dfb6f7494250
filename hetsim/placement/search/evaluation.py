"""A quick estimate of what the clock would say, for searches that ask thousands of times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hetsim.partitioning.groups import Group
from hetsim.placement.coarsening.tasks import pays_to_coarsen
from hetsim.placement.listing.ranks import travel_matrices
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem

Rows = list[list[float]]
"""Seconds of a transfer by source and target device."""


@dataclass(slots=True)
class Draft:
    """A plan in the making: cheap to change.

    Attributes
    ----------
    order : list of int
        The nodes in a topological order.
    device : list of int
        By node.
    cut : list of bool
        By node: whether it opens a subgraph even where it could join one.
    """

    order: list[int]
    device: list[int]
    cut: list[bool]

    def copy(self) -> Draft:
        """Return a draft of its own."""
        return Draft(list(self.order), list(self.device), list(self.cut))


def draft_of(problem: Problem, groups: Sequence[Group]) -> Draft:
    """Return the draft whose subgraphs are `groups`, which stand in execution order."""
    index_of = {name: index for index, name in enumerate(problem.devices)}
    device, cut = [0] * problem.n, [False] * problem.n
    for group in groups:
        for v in group.nodes:
            device[v] = index_of[group.device]
        cut[group.nodes[0]] = True
    return Draft([v for group in groups for v in group.nodes], device, cut)


def estimates_groups(problem: Problem) -> bool:
    """Whether drafts are estimated by subgraphs; else every node is one, and links are free."""
    return pays_to_coarsen(problem) or problem.contention == "fifo"


class Estimator:
    """What the latency of drafts of one problem is, in seconds.

    Without contention, spanning kernels and streams it is what the clock says, but for
    rounding. With contention a link serves the subgraphs in plan order, where the clock
    serves them by time; a kernel fused across nodes counts as its parts.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.grouped = estimates_groups(problem)
        self._seconds: Rows = np.where(problem.supported, problem.shared_seconds, np.inf).tolist()
        self._preds = problem.dag.preds
        latency_s, bytes_per_s = travel_matrices(problem)
        kept: dict[int, Rows] = {}
        self._reads: list[list[tuple[int, int, Rows]]] = [[] for _ in range(problem.n)]
        self._given: list[list[int]] = [[] for _ in range(problem.n)]
        self._outputs: list[tuple[int, int, Rows]] = []
        self._inputs: list[list[float]] = [[0.0] * len(problem.devices) for _ in range(problem.n)]
        host = problem.host
        self._made: list[list[tuple[int, tuple[int, ...], Rows, bool]]] = [
            [] for _ in range(problem.n + 1)
        ]
        for index, value in enumerate(problem.values):
            if value.nbytes not in kept:
                kept[value.nbytes] = (latency_s + value.nbytes / bytes_per_s).tolist()
            rows = kept[value.nbytes]
            leaves = value.is_output and host is not None
            if value.producer == GRAPH_INPUT and host is None:
                continue
            self._made[value.producer].append((index, value.consumers, rows, leaves))
            if value.producer == GRAPH_INPUT:
                for v in value.consumers:
                    assert host is not None
                    self._given[v].append(index)
                    self._inputs[v] = list(map(max, self._inputs[v], rows[host]))
                continue
            for v in value.consumers:
                self._reads[v].append((index, value.producer, rows))
            if leaves:
                self._outputs.append((index, value.producer, rows))
        self._resources = [
            [route.resources if problem.contention == "fifo" else () for route in row]
            for row in problem.routes
        ]

    def cost(self, draft: Draft) -> float:
        """Return the estimate; inf where a device does not support its node. O(V + E)."""
        if not self.grouped:
            return self._nodes(draft)
        label, members = self.runs(draft)
        return self._latency(draft, label, members)

    def groups(self, draft: Draft) -> tuple[Group, ...]:
        """Return the subgraphs of a draft, in execution order. O(V + E)."""
        members = self.runs(draft)[1] if self.grouped else [[v] for v in draft.order]
        devices = self.problem.devices
        return tuple(
            Group(devices[draft.device[nodes[0]]], tuple(sorted(nodes))) for nodes in members
        )

    def runs(self, draft: Draft) -> tuple[list[int], list[list[int]]]:
        """Return each node's subgraph and the nodes of each.

        A node joins its device's last one unless it is cut off or fed by a later one, so
        that every edge leads from an earlier subgraph to the same or a later one.
        """
        label = [-1] * len(draft.order)
        members: list[list[int]] = []
        last = [-1] * len(self.problem.devices)
        preds, device, cut = self._preds, draft.device, draft.cut
        for v in draft.order:
            p = device[v]
            run = last[p]
            if run >= 0 and not cut[v]:
                for u in preds[v]:
                    if label[u] > run:
                        run = -1
                        break
            else:
                run = -1
            if run < 0:
                run = last[p] = len(members)
                members.append([])
            members[run].append(v)
            label[v] = run
        return label, members

    def _nodes(self, draft: Draft) -> float:
        """The latency where every node is a subgraph, and links and dispatch are free."""
        device, seconds, reads, inputs = draft.device, self._seconds, self._reads, self._inputs
        ends = [0.0] * len(device)
        free = [[0.0] * streams for streams in self.problem.streams]
        turn = [0.0] * len(free)
        for v in draft.order:
            p = device[v]
            start = inputs[v][p]
            for _, u, rows in reads[v]:
                there = ends[u] + rows[device[u]][p]
                if there > start:
                    start = there
            lane = free[p]
            if len(lane) == 1:
                if lane[0] > start:
                    start = lane[0]
                ends[v] = lane[0] = start + seconds[v][p]
            else:
                # A device starts its subgraphs in plan order.
                at = lane.index(min(lane))
                start = turn[p] = max(start, lane[at], turn[p])
                ends[v] = lane[at] = start + seconds[v][p]
        return self._finish(draft, max(ends, default=0.0), ends)

    def _finish(self, draft: Draft, latest: float, ends: list[float]) -> float:
        host = self.problem.host
        if host is not None:
            for _, u, rows in self._outputs:
                there = ends[u] + rows[draft.device[u]][host]
                if there > latest:
                    latest = there
        return latest

    def _latency(self, draft: Draft, label: list[int], members: list[list[int]]) -> float:
        problem, device, seconds = self.problem, draft.device, self._seconds
        host, count = problem.host, len(problem.devices)
        fifo, dispatch_s = problem.contention == "fifo", problem.dispatch_s
        reads, inputs, given, made = self._reads, self._inputs, self._given, self._made
        busy_until = [0.0] * len(problem.link_names)
        arrival: dict[int, float] = {}
        latest = 0.0
        if fifo and host is not None:
            self._send(draft, GRAPH_INPUT, host, 0.0, busy_until, arrival)
        free = [[0.0] * streams for streams in problem.streams]
        turn = [0.0] * count
        ends = [0.0] * len(members)
        for g, nodes in enumerate(members):
            p = device[nodes[0]]
            start = 0.0
            total = dispatch_s[p]
            for v in nodes:
                total += seconds[v][p]
                if not fifo and inputs[v][p] > start:
                    start = inputs[v][p]
                for index, u, rows in reads[v]:
                    own = label[u]
                    if own == g:
                        continue
                    q = device[u]
                    if q == p:
                        there = ends[own]
                    elif fifo:
                        there = arrival[index * count + p]
                    else:
                        there = ends[own] + rows[q][p]
                    if there > start:
                        start = there
            if fifo and host is not None and p != host:
                for v in nodes:
                    for index in given[v]:
                        there = arrival[index * count + p]
                        if there > start:
                            start = there
            lane = free[p]
            at = lane.index(min(lane)) if len(lane) > 1 else 0
            start = turn[p] = max(start, lane[at], turn[p])
            end = ends[g] = lane[at] = start + total
            if end > latest:
                latest = end
            if fifo:
                for v in nodes:
                    if made[v]:
                        sent = self._send(draft, v, p, end, busy_until, arrival)
                        if sent > latest:
                            latest = sent
        if fifo:
            return latest
        return self._finish(draft, latest, [ends[own] for own in label])

    def _send(
        self,
        draft: Draft,
        producer: int,
        source: int,
        when: float,
        busy_until: list[float],
        arrival: dict[int, float],
    ) -> float:
        """Queue what a node or the host sends; return when the last of it arrives."""
        host, device, count = self.problem.host, draft.device, len(self.problem.devices)
        last = 0.0
        for index, consumers, rows, leaves in self._made[producer]:
            if len(consumers) == 1 and not leaves:
                # Most values; a set takes longer.
                targets = [device[consumers[0]]]
            else:
                others = {device[v] for v in consumers}
                if leaves and host is not None:
                    others.add(host)
                targets = sorted(others)
            for target in targets:
                if target == source:
                    continue
                start = when
                held = self._resources[source][target]
                for link in held:
                    if busy_until[link] > start:
                        start = busy_until[link]
                end = start + rows[source][target]
                for link in held:
                    busy_until[link] = end
                arrival[index * count + target] = end
                if end > last:
                    last = end
        return last
