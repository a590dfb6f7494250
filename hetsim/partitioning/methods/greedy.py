"""Merge method ``greedy``: largest group first, each grown with rollback."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hetsim.graph.dag import Dag
from hetsim.partitioning.scans import SplitGroup, repair


def merge(dag: Dag, device_of: Sequence[int]) -> list[int]:
    """Return a connected group label per node; see ``solve``."""
    return solve(dag, device_of)[0]


def merge_with_notes(dag: Dag, device_of: Sequence[int]) -> tuple[list[int], tuple[str, ...]]:
    """Return the labels of ``merge``, and notes on errors of the published method."""
    labels, splits = solve(dag, device_of)
    if not splits:
        return labels, ()
    count = len(splits)
    return labels, (
        f"{count} group{'s' * (count > 1)} of the published method depended on each other in a "
        f"circle and {'were' if count > 1 else 'was'} split",
    )


def solve(dag: Dag, device_of: Sequence[int]) -> tuple[list[int], tuple[SplitGroup, ...]]:
    """Return groups selected as OpenVINO's first HETERO plugin did, device by device.

    From every possible root, a node of the device in no group yet nor in a candidate of
    this round, a candidate is grown (``grow``); the largest (ties: the first) becomes
    a group, and all is repeated with the nodes that remain. Adjacent nodes are tried in
    this order, which the source leaves open and its example follows: those of the newest
    member first, its consumers before its producers, each in graph order.

    The source checks every group for paths that leave and re-enter it, but two groups
    may still feed each other: ``repair`` splits such groups. Returned are the first node of
    each node's group, and the groups that were split.

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
    return repair(dag, labels)


def _grown(
    dag: Dag, around: Sequence[tuple[int, ...]], free: bytearray
) -> Iterator[tuple[int, ...]]:
    """Yield the groups into which the free nodes are divided."""
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
                candidates[root], merged = grow(around, paths, root, free)
                for node in merged:
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
    """Return whether no failing node can be on a path within the part, so it grows completely."""
    low, high = part[0], part[-1]
    return all(free[other] or not low < other < high for node in part for other in around[node])


def _connected(
    around: Sequence[tuple[int, ...]], nodes: Sequence[int], free: bytearray
) -> list[list[int]]:
    """Return the connected parts of ascending free nodes, each ascending."""
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
        Inclusive range. Ids are a topological order, so a path between two of its nodes cannot
        leave it.
    down, up : tuple of int
        By ``node - low``: the sets of nodes after and before it, bit ``k`` for node ``low + k``.
    """

    low: int
    high: int
    down: tuple[int, ...]
    up: tuple[int, ...]

    @classmethod
    def of(cls, dag: Dag, low: int, high: int) -> PathNodes:
        """Return the transitive closure of a range of r nodes. O(E r / 64) time, O(r^2) bits."""
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


def neighbours(dag: Dag) -> list[tuple[int, ...]]:
    """Return the adjacent nodes of each node in order of trial: consumers, then producers."""
    return [succs + preds for succs, preds in zip(dag.succs, dag.preds, strict=True)]


def grow(
    around: Sequence[tuple[int, ...]],
    paths: PathNodes,
    root: int,
    free: Sequence[int],
) -> tuple[tuple[int, ...], list[int]]:
    """Return a group grown from `root` until no adjacent node is left to try.

    Returns its members, and every node that was a member at some time.

    The next candidate is a neighbour of the newest member with an untried one. A node that is not
    free is rejected. A rejected node on a path between two members is a self-reference: the last
    member is then removed and rejected, repeatedly if necessary. In the end no node is between
    members: each path that leaves the group does so through an adjacent node, which was rejected.

    Members leave in reverse order of joining, so the sets of nodes after and before the members are
    stacks, and a check is one intersection of three sets.

    Complexity: O(s r / 64) for s nodes and edges touched and a range of r nodes.
    """
    members: list[int] = []
    merged: list[int] = []
    after, before, rejected = [0], [0], 0

    def join(node: int) -> None:
        members.append(node)
        merged.append(node)
        after.append(after[-1] | paths.down[node - paths.low])
        before.append(before[-1] | paths.up[node - paths.low])

    join(root)
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
            join(node)
            active.append(node)
            untried[node] = iter(around[node])
        elif paths.low <= node <= paths.high:
            # A node outside the range is on no path.
            rejected |= 1 << (node - paths.low)
        while after[-1] & before[-1] & rejected:
            last = members.pop()
            after.pop()
            before.pop()
            rejected |= 1 << (last - paths.low)
            if active[-1] == last:
                active.pop()
    return tuple(members), merged
