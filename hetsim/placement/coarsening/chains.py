"""Chains of nodes that are joined into one task, because a split of them does not pay."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from operator import add

import numpy as np
from numpy.typing import NDArray

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


class _Tasks:
    """The graph of tasks: who feeds whom with how many bytes, and seconds by device."""

    def __init__(self, problem: Problem, labels: Sequence[int]) -> None:
        self.problem = problem
        self.pairs = [(label, v) for v, label in enumerate(labels)]
        self.latency_s, self.bytes_per_s = travel_matrices(problem)
        count = len(problem.devices)
        self.entering_s = np.broadcast_to(np.array(problem.dispatch_s), (count, count))
        members: dict[int, list[int]] = {}
        for v, label in enumerate(labels):
            members.setdefault(label, []).append(v)
        # Fused kernels that span tasks count in part: what is joined next would have them.
        shared = np.where(problem.supported, problem.shared_seconds, np.inf)
        self.seconds: dict[int, NDArray[np.float64]] = {
            label: shared[nodes[0]]
            if len(nodes) == 1
            else np.array([sum(s for _, s in problem.kernels(p, nodes)) for p in range(count)])
            for label, nodes in members.items()
        }
        self.succs: dict[int, dict[int, int]] = {label: {} for label in members}
        self.preds: dict[int, dict[int, int]] = {label: {} for label in members}
        for value in problem.values:
            if value.producer == GRAPH_INPUT:
                continue
            u = labels[value.producer]
            for v in {labels[reader] for reader in value.consumers} - {u}:
                self.succs[u][v] = self.succs[u].get(v, 0) + value.nbytes
                self.preds[v][u] = self.succs[u][v]
        self._shares: dict[int, tuple[float, ...]] = {}
        self._least: dict[int, float] = {}
        self._moved: dict[int, float] = {}
        self.gives = {labels[v.producer] for v in problem.values if v.is_output}

    def splits_in_vain(self, u: int, v: int) -> bool:
        """Whether u on p and v on q takes at least as long as both on p or both on q."""
        a, b = self.seconds[u], self.seconds[v]
        able_a, able_b = np.isfinite(a), np.isfinite(b)
        if not (able_a & able_b).any() or u in self.gives:
            return False
        together = a + b
        travel = self.latency_s + self.succs[u][v] / self.bytes_per_s + self.entering_s
        split = a[:, None] + travel + b[None, :]
        least = np.minimum(together[:, None], together[None, :])
        np.fill_diagonal(split, np.inf)
        return bool((split >= least)[np.ix_(able_a, able_b)].all())

    def join(self, u: int, v: int) -> int:
        """Contract an edge that no other path goes beside; return the task's label."""
        keep, gone = min(u, v), max(u, v)
        self.pairs.append((keep, gone))
        self.seconds[keep] = self.seconds[u] + self.seconds[v]
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
        # Tuples of floats: a few devices are too few for arrays to pay.
        self._shares = {label: tuple(row.tolist()) for label, row in self.seconds.items()}
        self._least = {label: min(row) for label, row in self._shares.items()}
        heap = [entry for u in sorted(self.succs) for entry in self._edges(u)]
        heapq.heapify(heap)
        while heap and len(self.succs) > most_tasks:
            loss, u, v = heapq.heappop(heap)
            now = self._edge(u, v)
            if now is None:
                continue
            if now[0] > loss:
                heapq.heappush(heap, now)
                continue
            together = tuple(map(add, self._shares[u], self._shares[v]))
            task = self.join(u, v)
            self._shares[task], self._least[task] = together, min(together)
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
        whole = min(map(add, self._shares[u], self._shares[v]))
        if whole == np.inf:
            return None
        moved = self._moved.get(nbytes)
        if moved is None:
            moved = float((self.latency_s + nbytes / self.bytes_per_s).max())
            self._moved[nbytes] = moved
        # Small tasks first, so that none grows far beyond the rest.
        return (whole - self._least[u] - self._least[v] - moved + whole, u, v)
