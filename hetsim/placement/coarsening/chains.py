"""Chains of nodes that are joined into one task, because a split of them does not pay."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from operator import add

import numpy as np

from hetsim.graph.dag import joined
from hetsim.placement.listing.ranks import travel_matrices
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem


def contract_chains(problem: Problem, labels: Sequence[int], most_tasks: int) -> list[int]:
    """Join chains of `labels`' tasks, then neighbours until there are `most_tasks`.

    Parameters
    ----------
    problem : Problem
    labels : [n]
        The least node of each node's task; the tasks close no cycle.
    most_tasks : int

    Returns
    -------
    Labels of the same kind; coarser. O((V + E) P^2 + E log E).
    """
    state = _Tasks(problem, labels)
    for task in sorted(state.succs):
        while task in state.succs and len(state.succs[task]) == 1:
            (reader,) = state.succs[task]
            if len(state.preds[reader]) > 1 or not state.splits_in_vain(task, reader):
                break
            task = state.join(task, reader)
    if len(state.succs) > most_tasks:
        state.shrink(most_tasks)
    return joined(problem.n, state.pairs)


Seconds = tuple[float, ...]
"""By device."""


class _Tasks:
    """The graph of tasks: who feeds whom with how many bytes, and seconds by device."""

    def __init__(self, problem: Problem, labels: Sequence[int]) -> None:
        self.problem = problem
        self.pairs = [(label, v) for v, label in enumerate(labels)]
        self.latency_s, self.bytes_per_s = travel_matrices(problem)
        self._travel: dict[int, list[list[float]]] = {}
        members: dict[int, list[int]] = {}
        for v, label in enumerate(labels):
            members.setdefault(label, []).append(v)
        # Fused kernels that span tasks count in part: what is joined next would have them.
        shared = np.where(problem.supported, problem.shared_seconds, np.inf).tolist()
        # Tuples of floats: a few devices are too few for arrays to pay.
        self.seconds: dict[int, Seconds] = {
            label: tuple(shared[nodes[0]])
            if len(nodes) == 1
            else tuple(
                float(problem.compute_seconds(p, nodes)) for p in range(len(problem.devices))
            )
            for label, nodes in members.items()
        }
        succs: dict[int, dict[int, int]] = {label: {} for label in members}
        preds: dict[int, dict[int, int]] = {label: {} for label in members}
        for value in problem.values:
            if value.producer == GRAPH_INPUT:
                continue
            u, consumers = labels[value.producer], value.consumers
            fed = succs[u]
            readers = (
                (labels[consumers[0]],)
                if len(consumers) == 1
                else {labels[reader] for reader in consumers}
            )
            for v in readers:
                if v != u:
                    fed[v] = preds[v][u] = fed.get(v, 0) + value.nbytes
        self.succs, self.preds = succs, preds
        self._least: dict[int, float] = {}
        self._moved: dict[int, float] = {}
        self.gives = {labels[v.producer] for v in problem.values if v.is_output}

    def splits_in_vain(self, u: int, v: int) -> bool:
        """Whether u on p and v on q takes at least as long as both on p or both on q."""
        a, b = self.seconds[u], self.seconds[v]
        together = tuple(map(add, a, b))
        if u in self.gives or min(together) == np.inf:
            return False
        travel_s = self._entering(self.succs[u][v])
        able_b = [(q, time_s) for q, time_s in enumerate(b) if time_s != np.inf]
        return all(
            p == q or first_s + row[q] + second_s >= min(whole_s, together[q])
            for p, (first_s, row, whole_s) in enumerate(zip(a, travel_s, together, strict=True))
            if first_s != np.inf
            for q, second_s in able_b
        )

    def _entering(self, nbytes: int) -> list[list[float]]:
        """Seconds until a tensor has come from p and a subgraph is begun on q."""
        found = self._travel.get(nbytes)
        if found is None:
            moved = self.latency_s + nbytes / self.bytes_per_s
            found = self._travel[nbytes] = (moved + np.array(self.problem.dispatch_s)).tolist()
        return found

    def join(self, u: int, v: int) -> int:
        """Contract an edge that no other path goes beside; return the task's label."""
        keep, gone = min(u, v), max(u, v)
        self.pairs.append((keep, gone))
        self.seconds[keep] = tuple(map(add, self.seconds[u], self.seconds[v]))
        for rows, others in ((self.succs, self.preds), (self.preds, self.succs)):
            merged: dict[int, int] = {}
            for label in (u, v):
                for other, nbytes in rows[label].items():
                    if other not in (u, v):
                        merged[other] = merged.get(other, 0) + nbytes
                        others[other].pop(label)
            for other, nbytes in merged.items():
                others[other][keep] = nbytes
            rows.pop(gone)
            rows[keep] = merged
        self.seconds.pop(gone)
        if gone in self.gives:
            self.gives.add(keep)
        return keep

    def shrink(self, most_tasks: int) -> None:
        """Join along edges beside which there is no other path, least loss first.

        The loss of an edge is what its joined task costs more on its best device than its
        parts on theirs, less the transfer between them.
        """
        self._least = {label: min(row) for label, row in self.seconds.items()}
        edges = (self._edge(u, v) for u in sorted(self.succs) for v in self.succs[u])
        heap = [entry for entry in edges if entry is not None]
        heapq.heapify(heap)
        while heap and len(self.succs) > most_tasks:
            loss, u, v = heapq.heappop(heap)
            now = self._edge(u, v)
            if now is None:
                continue
            if now[0] > loss:
                heapq.heappush(heap, now)
                continue
            task = self.join(u, v)
            self._least[task] = min(self.seconds[task])
            for entry in self._edges(task):
                heapq.heappush(heap, entry)

    def _edges(self, task: int) -> list[tuple[float, int, int]]:
        found = [self._edge(task, v) for v in self.succs[task]]
        found += [self._edge(u, task) for u in self.preds[task]]
        return [entry for entry in found if entry is not None]

    def _edge(self, u: int, v: int) -> tuple[float, int, int] | None:
        fed = self.succs.get(u)
        nbytes = fed.get(v) if fed is not None else None
        if fed is None or nbytes is None or (len(fed) > 1 and len(self.preds[v]) > 1):
            return None
        whole = min(map(add, self.seconds[u], self.seconds[v]))
        if whole == np.inf:
            return None
        moved = self._moved.get(nbytes)
        if moved is None:
            moved = float((self.latency_s + nbytes / self.bytes_per_s).max())
            self._moved[nbytes] = moved
        # Small tasks first, so that none grows far beyond the rest.
        return (whole - self._least[u] - self._least[v] - moved + whole, u, v)
