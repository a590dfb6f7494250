"""Structure of a DAG: adjacency, topological orders, reachability, contraction."""

from __future__ import annotations

import graphlib
import heapq
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from hetsim.errors import ModelError

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class NodeRows:
    """Lists of node ids by node: row v is ``node[at[v]:at[v + 1]]``; `at` is [n + 1]."""

    at: Ints
    node: Ints

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> NodeRows:
        """Return the concatenation of rows. Linear."""
        at = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(np.fromiter(map(len, rows), np.int64, len(rows)), out=at[1:])
        return cls(at, np.fromiter(chain.from_iterable(rows), np.int64, int(at[-1])))

    @classmethod
    def sorted_by(cls, n: int, owner: Ints, node: Ints) -> NodeRows:
        """Return every entry of `node` in the row of its `owner`, in the given order."""
        at = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(np.bincount(owner, minlength=n), out=at[1:])
        return cls(at, node[np.argsort(owner, kind="stable")])

    @property
    def owner(self) -> Ints:
        """Row of each entry of `node`."""
        return np.repeat(np.arange(len(self.at) - 1), np.diff(self.at))

    def mirrored(self) -> NodeRows:
        """Return the same rows with node v renumbered as n - 1 - v."""
        last = len(self.at) - 2
        return NodeRows(self.at[-1] - self.at[::-1], last - self.node[::-1])

    def tuples(self) -> tuple[tuple[int, ...], ...]:
        """Return the rows one by one."""
        flat = tuple(self.node.tolist())
        return tuple([flat[first:last] for first, last in pairwise(self.at.tolist())])


@dataclass(frozen=True)
class Dag:
    """DAG over nodes 0 .. n-1 in topological order; neighbours ascend, without duplicates."""

    preds: tuple[tuple[int, ...], ...]
    succs: tuple[tuple[int, ...], ...]

    @classmethod
    def from_arrays(cls, n: int, source: Ints, target: Ints) -> Dag:
        """Return the DAG of edges given as two arrays; see ``from_edges``."""
        wrong = np.flatnonzero((source < 0) | (source >= target) | (target >= n))
        if wrong.size:
            u, v = int(source[wrong[0]]), int(target[wrong[0]])
            raise ModelError(
                f"edge ({u}, {v}) does not ascend within 0 .. {n - 1}",
                hint="number the nodes in a topological order",
            )
        source, target = different_pairs(n, source, target)
        succs, preds = NodeRows.sorted_by(n, source, target), NodeRows.sorted_by(n, target, source)
        return cls._of_rows(preds, succs)

    @classmethod
    def _of_rows(cls, preds: NodeRows, succs: NodeRows) -> Dag:
        made = cls(preds.tuples(), succs.tuples())
        made.__dict__.update(pred_rows=preds, succ_rows=succs)
        return made

    @classmethod
    def from_edges(cls, n: int, edges: Iterable[tuple[int, int]]) -> Dag:
        """Return the DAG of edges (u, v), 0 <= u < v < n; ModelError for others. O(V + E log E)."""
        ends = np.array(list(edges), dtype=np.int64).reshape(-1, 2)
        return cls.from_arrays(n, ends[:, 0], ends[:, 1])

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.preds)

    @cached_property
    def pred_rows(self) -> NodeRows:
        """Read-only arrays of `preds`."""
        return NodeRows.of(self.preds)

    @cached_property
    def succ_rows(self) -> NodeRows:
        """Read-only arrays of `succs`."""
        return NodeRows.of(self.succs)

    @cached_property
    def _mirrored(self) -> Dag:
        return Dag._of_rows(self.succ_rows.mirrored(), self.pred_rows.mirrored())

    def mirrored(self) -> Dag:
        """Return the graph with reversed edges, with node v as n - 1 - v; cached. O(V + E)."""
        return self._mirrored

    @cached_property
    def parts(self) -> Sequence[tuple[int, ...]]:
        """Weakly connected parts by their first nodes; cached. O(V + E)."""
        nodes: dict[int, list[int]] = {}
        for node, first in enumerate(joined(self.n, self.edges())):
            nodes.setdefault(first, []).append(node)
        return [tuple(part) for part in nodes.values()]

    def edges(self) -> Iterable[tuple[int, int]]:
        """Yield every edge (u, v), ascending."""
        return ((u, v) for u, targets in enumerate(self.succs) for v in targets)


def different_pairs(n: int, u: Ints, v: Ints) -> tuple[Ints, Ints]:
    """Return the distinct pairs (u, v) of numbers below `n`, ascending. O(E log E)."""
    keys = np.sort(u * n + v)
    if keys.size:
        keys = keys[np.concatenate(([True], keys[1:] != keys[:-1]))]
    return np.divmod(keys, max(n, 1))


def joined(n: int, pairs: Iterable[tuple[int, int]]) -> list[int]:
    """Return by node 0 .. n - 1 the least node that `pairs` connect it to, even indirectly."""
    ends = np.array(list(pairs), dtype=np.int64).reshape(-1, 2)
    least: list[int] = least_joined(n, ends[:, 0], ends[:, 1]).tolist()
    return least


def least_joined(n: int, u: Ints, v: Ints) -> Ints:
    """Return ``joined`` of the pairs (u, v)."""
    root = np.arange(n)
    while True:
        a, b = root[u], root[v]
        apart = a != b
        if not apart.any():
            return root
        u, v = a[apart], b[apart]
        np.minimum.at(root, np.maximum(u, v), np.minimum(u, v))
        while not np.array_equal(above := root[root], root):
            root = above


def topological_order(
    succs: Sequence[Iterable[int]], key: Sequence[object] | None = None
) -> list[int] | None:
    """Return the least topological order by `key`, then node; None on a cycle. O(E + V log V)."""
    n = len(succs)
    if all(min(targets, default=n) > u for u, targets in enumerate(succs)) and (
        key is None or not any(other < one for one, other in pairwise(key))  # type: ignore[operator]
    ):
        return list(range(n))
    indegree = [0] * n
    for targets in succs:
        for v in targets:
            indegree[v] += 1
    rank: Sequence[object] = range(n) if key is None else key
    ready = [(rank[v], v) for v in range(n) if indegree[v] == 0]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, u = heapq.heappop(ready)
        order.append(u)
        for v in succs[u]:
            indegree[v] -= 1
            if indegree[v] == 0:
                heapq.heappush(ready, (rank[v], v))
    return order if len(order) == n else None


def find_cycle(succs: Sequence[Iterable[int]]) -> list[int]:
    """Return the nodes of one cycle in order, or an empty list without one. O(V + E)."""
    # The sorter gets successors as predecessors, so its cycle runs backwards.
    sorter = graphlib.TopologicalSorter(dict(enumerate(succs)))
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        backwards: list[int] = error.args[1]
        return backwards[:0:-1]
    return []


class Contraction:
    """Graph in which disjoint node sets are contracted, acyclic at every step.

    A set is represented by its least node; a node in no set by itself. Each has a position in a
    topological order of the contracted graph, which `add` maintains: searches stay between the
    first and last positions of the given nodes.

    Source: D. J. Pearce, P. H. J. Kelly, A dynamic topological sort algorithm for directed acyclic
    graphs, ACM JEA 11, 2006; there edges are inserted, here sets are contracted.
    """

    def __init__(self, dag: Dag) -> None:
        self._dag = dag
        self._head = list(range(dag.n))
        self._position = list(range(dag.n))
        self._sets: dict[int, tuple[int, ...]] = {}
        self._taken: set[int] = set()

    def taken(self, node: int) -> bool:
        """Return whether the node is in a set that was added."""
        return node in self._taken

    def cycle(self, nodes: Sequence[int]) -> tuple[int, ...]:
        """Return a path that leaves `nodes`, none of them taken, and returns, or ().

        It starts and ends in `nodes` and names the nodes where it enters and leaves sets:
        neighbours are an edge or lie in one set. O(edges reached between the positions of `nodes`).
        """
        members = set(nodes)
        if len(members) < 2:
            return ()
        head, position, succs = self._head, self._position, self._dag.succs
        limit = max(position[node] for node in members)
        entered: dict[int, tuple[int, int]] = {}
        pending: deque[int] = deque()
        for node in sorted(members):
            for target in succs[node]:
                first = head[target]
                if target not in members and first not in entered and position[first] < limit:
                    entered[first] = (node, target)
                    pending.append(first)
        while pending:
            for node in self._fellows(pending.popleft()):
                for target in succs[node]:
                    if target in members:
                        return self._path(entered, members, node, target)
                    first = head[target]
                    if first not in entered and position[first] < limit:
                        entered[first] = (node, target)
                        pending.append(first)
        return ()

    def add(self, nodes: Sequence[int]) -> None:
        """Contract a set for which `cycle` found none; ValueError for a node in another set.

        O(edges reached, forwards and backwards, between the positions of `nodes`).
        """
        members = tuple(sorted(set(nodes)))
        if not members:
            return
        again = next((node for node in members if node in self._taken), None)
        if again is not None:
            raise ValueError(f"node {again} is in a set already")
        position = self._position
        old = [position[node] for node in members]
        after = self._reached(members, min(old), max(old), self._dag.succs)
        before = self._reached(members, min(old), max(old), self._dag.preds)
        slots = sorted([*old, *(position[first] for first in (*before, *after))])
        # Predecessors only move down and successors only up, so the order with everything in
        # between holds; the remaining slots stay empty.
        for slot, first in zip(slots, before, strict=False):
            position[first] = slot
        for slot, first in zip(reversed(slots), reversed(after), strict=False):
            position[first] = slot
        position[members[0]] = slots[len(before)]
        for node in members:
            self._head[node] = members[0]
        self._sets[members[0]] = members
        self._taken.update(members)

    def _fellows(self, first: int) -> tuple[int, ...]:
        return self._sets.get(first, (first,))

    def _reached(
        self, members: tuple[int, ...], low: int, high: int, edges: Sequence[Sequence[int]]
    ) -> list[int]:
        """Return, by position, nodes that `edges` reach from the members between two positions."""
        head, position = self._head, self._position
        seen = set(members)
        found: list[int] = []
        pending = list(members)
        while pending:
            for node in self._fellows(pending.pop()):
                for target in edges[node]:
                    first = head[target]
                    if first not in seen and low < position[first] < high:
                        seen.add(first)
                        found.append(first)
                        pending.append(first)
        return sorted(found, key=position.__getitem__)

    def _path(
        self, entered: dict[int, tuple[int, int]], members: set[int], last: int, target: int
    ) -> tuple[int, ...]:
        path = [target, last]
        while path[-1] not in members:
            source, entry = entered[self._head[path[-1]]]
            if entry != path[-1]:
                path.append(entry)
            path.append(source)
        return tuple(reversed(path))


def depth_first(before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]) -> list[int]:
    """Return a topological order that follows each path as far as possible. O(V + E)."""
    waits = [len(found) for found in before]
    stack = [v for v in range(len(before) - 1, -1, -1) if waits[v] == 0]
    order: list[int] = []
    while stack:
        node = stack.pop()
        order.append(node)
        for v in reversed(after[node]):
            waits[v] -= 1
            if waits[v] == 0:
                stack.append(v)
    return order


def orders_by_rule(dag: Dag) -> list[list[int]]:
    """Return initial topological orders: by id, and depth first from either end."""
    forth, back = depth_first(dag.preds, dag.succs), depth_first(dag.succs, dag.preds)
    return [list(range(dag.n)), forth, back[::-1]]
