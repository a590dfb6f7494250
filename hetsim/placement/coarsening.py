"""Coarsening: nodes that belong together are merged into one task."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import add

import numpy as np

from hetsim.core import deadline
from hetsim.graph.dag import Contraction, joined
from hetsim.problem.coarse import Coarse, contracted
from hetsim.problem.columns import travel_matrices
from hetsim.problem.groups import by_label, order_groups
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem


def contract_chains(problem: Problem, labels: Sequence[int], most_tasks: int) -> list[int]:
    """Merge chains of the tasks in `labels`, then neighbours until `most_tasks` are left."""
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


WIDE = 256
"""Number of neighbours above which a merge no longer reprices all edges of a task."""
CLOSE = 1e-9
"""Relative tolerance of a loss that is summed in another order."""

Seconds = tuple[float, ...]
"""Seconds by device."""
Entry = tuple[float, int, int]
"""Loss of an edge, and its ends."""


class _Tasks:
    """Graph of tasks: edges with their bytes, and seconds of each task by device."""

    def __init__(self, problem: Problem, labels: Sequence[int]) -> None:
        self.problem = problem
        self.pairs = [(label, v) for v, label in enumerate(labels)]
        self.latency_s, self.bytes_per_s = travel_matrices(problem)
        self._travel: dict[int, list[list[float]]] = {}
        members = by_label(labels)
        # Fused kernels that span tasks count in part, as later merges may complete them.
        shared = np.where(problem.supported, problem.shared_seconds, np.inf).tolist()
        # Tuples of floats: with few devices, arrays do not pay off.
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
        self._heap: list[Entry] = []
        # Edges of wide tasks, by loss minus their own seconds; and the one in the main heap.
        self._own: dict[int, list[Entry]] = {}
        self._offered: dict[int, Entry | None] = {}
        self.gives = {labels[v.producer] for v in problem.values if v.is_output}

    def splits_in_vain(self, u: int, v: int) -> bool:
        """Return whether u and v on any two devices take at least as long as both on one."""
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
        """Return seconds [p][q] to transfer `nbytes` from p to q and start a subgraph on q."""
        found = self._travel.get(nbytes)
        if found is None:
            moved = self.latency_s + nbytes / self.bytes_per_s
            found = self._travel[nbytes] = (moved + np.array(self.problem.dispatch_s)).tolist()
        return found

    def join(self, u: int, v: int) -> int:
        """Contract an edge that no other path bypasses; return the merged task's label."""
        keep, gone = min(u, v), max(u, v)
        width = self._width(gone)
        if width > self._width(keep) and (width > WIDE or gone in self._own):
            keep, gone = gone, keep
        self.pairs.append((keep, gone))
        self.seconds[keep] = tuple(map(add, self.seconds[u], self.seconds[v]))
        for rows, others in ((self.succs, self.preds), (self.preds, self.succs)):
            kept = rows[keep]
            kept.pop(gone, None)
            for other, nbytes in rows.pop(gone).items():
                if other != keep:
                    back = others[other]
                    back.pop(gone)
                    kept[other] = back[keep] = kept.get(other, 0) + nbytes
        self.seconds.pop(gone)
        if gone in self.gives:
            self.gives.add(keep)
        return keep

    def shrink(self, most_tasks: int) -> None:
        """Contract edges that no other path bypasses, in ascending order of loss."""
        self._least = {label: min(row) for label, row in self.seconds.items()}
        self._own = {label: [] for label in self.succs if self._width(label) > WIDE}
        self._put((u, v) for u in sorted(self.succs) for v in self.succs[u])
        while self._heap and len(self.succs) > most_tasks:
            deadline.check()
            entry = heapq.heappop(self._heap)
            _, u, v = entry
            wide = [task for task in (u, v) if task in self._own]
            if wide and all(self._offered.get(task) != entry for task in wide):
                continue
            # An edge that was repriced has a newer entry of its own.
            if self._edge(u, v) != entry:
                for task in wide:
                    self._offer(task)
                continue
            rows = {task: (self.succs[task], self.preds[task]) for task in (u, v)}
            keep = self.join(u, v)
            gone = u + v - keep
            self._least[keep] = min(self.seconds[keep])
            self._own.pop(gone, None)
            self._offered.pop(gone, None)
            after, before = self.succs[keep], self.preds[keep]
            if keep in self._own:
                readers, feeders = ([w for w in row if w != keep] for row in rows[gone])
                # The last remaining neighbour may now be the only reader or producer.
                readers += after if len(after) == 1 else ()
                feeders += before if len(before) == 1 else ()
            else:
                readers, feeders = list(after), list(before)
                if self._width(keep) > WIDE:
                    self._own[keep] = []
            self._put(chain(((keep, w) for w in readers), ((w, keep) for w in feeders)))
            if keep in self._own:
                self._offer(keep)

    def _width(self, task: int) -> int:
        return len(self.succs[task]) + len(self.preds[task])

    def _put(self, edges: Iterable[tuple[int, int]]) -> None:
        """Price edges; the edges of a wide task enter its own heap, which exposes its minimum."""
        touched: dict[int, None] = {}
        for u, v in edges:
            entry = self._edge(u, v)
            if entry is None:
                continue
            wide = u if u in self._own else v
            if wide in self._own:
                heapq.heappush(self._own[wide], (entry[0] - self._least[wide], u, v))
                touched[wide] = None
            else:
                heapq.heappush(self._heap, entry)
        for wide in touched:
            self._offer(wide)

    def _offer(self, wide: int) -> None:
        """Push the edge of least loss of a wide task to the main heap, if it is not there yet."""
        own, best = self._own[wide], None
        while own:
            loss, u, v = own[0]
            best = self._edge(u, v)
            if best is None:
                heapq.heappop(own)
                continue
            now = best[0] - self._least[wide]
            if now - loss <= CLOSE * abs(best[0]):
                break
            heapq.heapreplace(own, (now, u, v))
        if best != self._offered.get(wide):
            self._offered[wide] = best
            if best is not None:
                heapq.heappush(self._heap, best)

    def _edge(self, u: int, v: int) -> Entry | None:
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
        # Small tasks first, so that none grows far beyond the others.
        return (whole - self._least[u] - self._least[v] - moved + whole, u, v)


MOST_TASKS = 400
"""Number of tasks above which neighbours are merged even if a split between them could pay."""


def pays_to_coarsen(problem: Problem) -> bool:
    """Return whether the problem has dispatch overhead or fused kernels, as models do."""
    return bool(problem.fused) or any(problem.dispatch_s)


def coarsen(problem: Problem, most_tasks: int = MOST_TASKS, *, joins_apart: bool = False) -> Coarse:
    """Return a problem in which nodes that no strategy would split are merged into tasks.

    Members of kernels and composites are merged first, then chains for which no split between two
    devices is faster; above `most_tasks`, further neighbours, largest tensors first. Plans cost the
    same on tasks and nodes; memory inside a task is ignored. O((V + E) P^2 + V log V).

    With `joins_apart`, a kernel that fuses the sum of two branches with the end of one becomes two
    tasks, so that the other branch, e.g. a residual shortcut, can run on another device.

    Source: multilevel partitioning, G. Karypis, V. Kumar, SIAM J. Sci. Comput. 20(1), 1998.
    """
    kernels = _joined_kernels(problem)
    if joins_apart:
        kernels = _cut_at_joins(problem, kernels)
    return _joined_to(problem, kernels, most_tasks)


def fewer(coarse: Coarse, most_tasks: int) -> Coarse:
    """Merge tasks of `coarse` until there are at most `most_tasks`. O((V + E) P^2 + V log V)."""
    first = [nodes[0] for nodes in coarse.members]
    return _joined_to(coarse.fine, [first[task] for task in coarse.task_of], most_tasks)


def _joined_to(problem: Problem, labels: Sequence[int], most_tasks: int) -> Coarse:
    parts = order_groups(problem.dag, contract_chains(problem, labels, most_tasks))
    if parts is None:
        raise AssertionError("coarsening closed a cycle")
    return contracted(problem, tuple(parts))


LOSS = 1.02
"""Ratio of least work or longest path, tasks to nodes, from which nodes are searched instead."""


def loses(coarse: Coarse) -> bool:
    """Return whether tasks take clearly longer than their nodes run individually. O(V P + E).

    Merged nodes cannot each run on their fastest device, nor on several at once.
    """
    fine = coarse.fine
    if coarse.problem is fine or fine.fused or not fine.supported.any(axis=1).all():
        return False
    (work_s, path_s), (of_tasks_s, along_s) = map(_least_work, (fine, coarse.problem))
    return of_tasks_s > work_s * LOSS or along_s > max(path_s, work_s) * LOSS


def _least_work(problem: Problem) -> tuple[float, float]:
    """Return the least seconds of all nodes over all streams, and of the longest path."""
    seconds = np.where(problem.supported, problem.shared_seconds, np.inf).min(axis=1)
    level: list[float] = seconds.tolist()
    for v in range(problem.n - 1, -1, -1):
        level[v] += max((level[w] for w in problem.dag.succs[v]), default=0.0)
    return float(seconds.sum()) / sum(problem.streams), max(level, default=0.0)


def _joined_kernels(problem: Problem) -> list[int]:
    """Return a label by node that joins fused kernels which can be contracted together."""
    n = problem.n
    if not problem.fused:
        return list(range(n))
    roots = joined(n, ((k.nodes[0], v) for k in problem.fused for v in k.nodes[1:]))
    # Try large unions first; if one fails, try its kernels individually.
    wanted = [tuple(nodes) for nodes in by_label(roots).values() if len(nodes) > 1]
    alone = sorted(problem.fused, key=lambda k: (not k.pattern, -len(k.nodes), k.nodes, k.device))
    state = Contraction(problem.dag)
    labels = list(range(n))
    for nodes in [*wanted, *(kernel.nodes for kernel in alone)]:
        if any(state.taken(v) for v in nodes) or not _runs_whole(problem, nodes):
            continue
        if not state.cycle(nodes):
            state.add(nodes)
            for v in nodes:
                labels[v] = nodes[0]
    return labels


def _cut_at_joins(problem: Problem, labels: Sequence[int]) -> list[int]:
    """Split labelled kernels before the first node that another branch feeds as well."""
    found = list(labels)
    for label, nodes in by_label(labels).items():
        late: set[int] = set()
        for v in nodes:
            fed = [labels[u] == label for u in problem.dag.preds[v]]
            if (any(fed) and not all(fed)) or not late.isdisjoint(problem.dag.preds[v]):
                late.add(v)
        early = [v for v in nodes if v not in late]
        behind = sorted(late)
        if early and behind and _runs_whole(problem, early) and _runs_whole(problem, behind):
            for v in behind:
                found[v] = behind[0]
            for v in early:
                found[v] = early[0]
    return found


def _runs_whole(problem: Problem, nodes: Sequence[int]) -> bool:
    """Return whether merging `nodes` keeps all devices common to them, composites included."""
    mask = problem.runnable[list(nodes)]
    whole = [not problem.unsupported(device, nodes) for device in range(len(problem.devices))]
    return any(whole) and bool((mask.all(axis=0) == np.array(whole)).all())
