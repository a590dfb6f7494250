"""Merge method ``greedy``: largest group first, each grown with rollback."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hetsim.graph.dag import Dag
from hetsim.partitioning.scans import Split, repair


@dataclass(frozen=True, slots=True)
class GreedyResult:
    """Groups of the published method, made acyclic.

    Attributes
    ----------
    labels : tuple of int
        The first node of each node's group.
    repaired : tuple of Split
        Groups of the published method that depended on each other and were split;
        empty where the published result could stay as it was.
    """

    labels: tuple[int, ...]
    repaired: tuple[Split, ...]


def merge(dag: Dag, device_of: Sequence[int]) -> list[int]:
    """Label every node with a connected group; see ``solve``."""
    return list(solve(dag, device_of).labels)


def merge_with_notes(dag: Dag, device_of: Sequence[int]) -> tuple[list[int], tuple[str, ...]]:
    """Labels as from ``merge``, and errors of the published method, if any."""
    result = solve(dag, device_of)
    if not result.repaired:
        return list(result.labels), ()
    count = len(result.repaired)
    return list(result.labels), (
        f"{count} group{'s' * (count > 1)} of the published method depended on each other in a "
        f"circle and {'were' if count > 1 else 'was'} split",
    )


def solve(dag: Dag, device_of: Sequence[int]) -> GreedyResult:
    """Select groups as OpenVINO's first HETERO plugin did, device by device.

    From every possible root, a node of the device in no group yet nor in a candidate of
    this round, a candidate is grown (``grow``); the largest (ties: the first) becomes
    a group, and all is repeated with the nodes that remain. Adjacent nodes are tried in
    this order, which the source leaves open and its example follows: those of the newest
    member first, its consumers before its producers, each in graph order.

    The source checks every group for paths that leave and re-enter it, but two groups
    may still feed each other: ``repair`` splits such groups, and the result names them.

    The same groups come out with less work. What is grown from a root depends only on
    the remaining nodes connected with it: so each connected part is solved by itself, with
    rounds of its own, and a candidate is grown again only after one of the nodes that were
    ever its members has been taken.

    Complexity: O(V E) steps at most, each on sets of r bits, where r is the range of ids of
    a connected part; near linear where parts are small. O(r^2) bits of memory. Quadratic where
    one value has many readers that are also joined by other paths, on devices in no order: the
    readers are one connected part while the node of that value is free, each round takes one
    group out of it, and which candidates the next round has depends on all that are left, since
    what an earlier root covers is no root.
    Source: hetero plugin design overview, OpenVINO, `Subgraphs selection`.
    """
    around = neighbours(dag)
    labels = [-1] * dag.n
    for device in sorted(set(device_of)):
        free = bytearray(other == device for other in device_of)
        for group in _grown(dag, around, free):
            first = min(group)
            for node in group:
                labels[node] = first
    fixed, splits = repair(dag, labels)
    return GreedyResult(tuple(fixed), splits)


def _grown(
    dag: Dag, around: Sequence[tuple[int, ...]], free: bytearray
) -> Iterator[tuple[int, ...]]:
    """Yield the groups that the free nodes fall into."""
    candidates: dict[int, tuple[int, ...]] = {}
    roots_of: dict[int, list[int]] = {}
    nodes = [node for node, is_free in enumerate(free) if is_free]
    pending: list[tuple[list[int], PathNodes | None]] = [
        (part, None) for part in _connected(around, nodes, free)
    ]
    while pending:
        part, paths = pending.pop()
        if _is_undisturbed(around, part, free):
            yield tuple(part)
            continue
        if paths is None or 2 * (part[-1] - part[0]) < paths.high - paths.low:
            paths = PathNodes.of(dag, part[0], part[-1])
        best: tuple[int, ...] = ()
        covered: set[int] = set()
        for root in part:
            if root in covered:
                continue
            if root not in candidates:
                growth = grow(around, paths, root, free)
                candidates[root] = tuple(growth.members)
                for node in growth.merged:
                    roots_of.setdefault(node, []).append(root)
            covered.update(candidates[root])
            if len(candidates[root]) > len(best):
                best = candidates[root]
        yield best
        for node in best:
            free[node] = False
            for root in roots_of.pop(node):
                candidates.pop(root, None)
        rest = [node for node in part if free[node]]
        pending.extend((piece, paths) for piece in _connected(around, rest, free))


def _is_undisturbed(
    around: Sequence[tuple[int, ...]], part: Sequence[int], free: bytearray
) -> bool:
    """Whether no node that fails can be on a path within the part: its growth is all of it."""
    low, high = part[0], part[-1]
    return all(free[other] or not low < other < high for node in part for other in around[node])


def _connected(
    around: Sequence[tuple[int, ...]], nodes: Sequence[int], free: bytearray
) -> list[list[int]]:
    """Sort free nodes, given ascending, into connected parts, each ascending."""
    seen: set[int] = set()
    parts: list[list[int]] = []
    for root in nodes:
        if root in seen:
            continue
        seen.add(root)
        part = [root]
        for node in part:
            for other in around[node]:
                if free[other] and other not in seen:
                    seen.add(other)
                    part.append(other)
        parts.append(sorted(part))
    return parts


@dataclass(frozen=True, slots=True)
class PathNodes:
    """Descendants and ancestors of every node of an id range, within that range.

    Attributes
    ----------
    low, high : int
        The range, both ends included. Ids are a topological order: a path between two of
        its nodes cannot leave it.
    down, up : tuple of int
        By ``node - low``: the set of nodes after it and before it, bit ``k`` for node
        ``low + k``.
    """

    low: int
    high: int
    down: tuple[int, ...]
    up: tuple[int, ...]

    @classmethod
    def of(cls, dag: Dag, low: int, high: int) -> PathNodes:
        """Close the edges of a range transitively. O(E r / 64) time, O(r^2) bits for r nodes."""
        count = high - low + 1
        down = [0] * count
        up = [0] * count
        for k in reversed(range(count)):
            for target in dag.succs[low + k]:
                if target <= high:
                    down[k] |= down[target - low] | 1 << (target - low)
        for k in range(count):
            for source in dag.preds[low + k]:
                if source >= low:
                    up[k] |= up[source - low] | 1 << (source - low)
        return cls(low, high, tuple(down), tuple(up))


@dataclass(slots=True)
class Growth:
    """Group under construction, with the decisions so far.

    Attributes
    ----------
    members : list of int
        The group, in the order of merging.
    rejected : int
        Nodes of the range that can never be added, as a set of bits.
    merged : list of int
        Every node that was a member at some time.
    """

    paths: PathNodes
    members: list[int]
    rejected: int = 0
    merged: list[int] = field(default_factory=list)
    after: list[int] = field(default_factory=list)
    before: list[int] = field(default_factory=list)

    @property
    def between(self) -> int:
        """Nodes on paths between members, as a set of bits, members included."""
        return self.after[-1] & self.before[-1]

    def push(self, node: int) -> None:
        """Add a member."""
        k = node - self.paths.low
        self.members.append(node)
        self.merged.append(node)
        self.after.append(self.after[-1] | self.paths.down[k] if self.after else self.paths.down[k])
        self.before.append(self.before[-1] | self.paths.up[k] if self.before else self.paths.up[k])

    def pop(self) -> int:
        """Remove the last member and reject it."""
        node = self.members.pop()
        self.after.pop()
        self.before.pop()
        self.reject(node)
        return node

    def reject(self, node: int) -> None:
        """Note that `node` can never be added; outside the range it is on no path."""
        if self.paths.low <= node <= self.paths.high:
            self.rejected |= 1 << (node - self.paths.low)


def neighbours(dag: Dag) -> list[tuple[int, ...]]:
    """Return the nodes adjacent to each, in the order of trying: consumers, then producers."""
    return [succs + preds for succs, preds in zip(dag.succs, dag.preds, strict=True)]


def grow(
    around: Sequence[tuple[int, ...]],
    paths: PathNodes,
    root: int,
    free: Sequence[int],
) -> Growth:
    """Grow a group from `root` until no adjacent node is left to try.

    The next node tried is a neighbour of the newest member that still has an untried one.
    A node that is not free fails, and is rejected. A rejected node on a path between two
    members is a self-reference: the last member is then taken out and rejected, as often
    as it takes. At the end no node at all is left between members: each path that leaves
    the group does so through an adjacent node, which is a rejected one.

    Members leave in the reverse order of joining, so the sets of nodes after and before
    the members are stacks, and a check is one intersection of three sets.

    Complexity: O(s r / 64) for s nodes and edges touched and a range of r nodes.
    """
    growth = Growth(paths, [])
    growth.push(root)
    tried = {root}
    untried = {root: iter(around[root])}
    active = [root]
    while active:
        for node in untried[active[-1]]:
            if node not in tried:
                break
        else:
            del untried[active.pop()]
            continue
        tried.add(node)
        if free[node]:
            growth.push(node)
            active.append(node)
            untried[node] = iter(around[node])
        else:
            growth.reject(node)
        while growth.between & growth.rejected:
            last = growth.pop()
            if active[-1] == last:
                active.pop()
    return growth
