"""One group grown from a root, node by node, without self-references."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from hetsim.graph.dag import Dag

Action = Literal["select", "merge", "fail", "rollback"]
"""What a step of a growth did to its node."""


@dataclass(frozen=True, slots=True)
class PathNodes:
    """What every node of an id range reaches, and what reaches it, within that range.

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

    def nodes(self, bits: int) -> tuple[int, ...]:
        """List the nodes of a set, ascending. O(r)."""
        return tuple(self.low + k for k in range(bits.bit_length()) if bits >> k & 1)


@dataclass(slots=True)
class Growth:
    """A group under construction, and what was decided on the way.

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
        """The path nodes of all pairs of members, as a set of bits, members included."""
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
        """Note that `node` can never be added; outside the range it can be on no path."""
        if self.paths.low <= node <= self.paths.high:
            self.rejected |= 1 << (node - self.paths.low)


Watch = Callable[[Action, int, Growth], None]
"""Called after every step with what was done, to which node, and the state it left."""


def neighbours(dag: Dag) -> list[tuple[int, ...]]:
    """Return the nodes adjacent to each, in the order of trying: consumers, then producers."""
    return [succs + preds for succs, preds in zip(dag.succs, dag.preds, strict=True)]


def grow(
    around: Sequence[tuple[int, ...]],
    paths: PathNodes,
    root: int,
    free: Sequence[int],
    watch: Watch | None = None,
) -> Growth:
    """Grow a group from `root` until no adjacent node is left to try.

    The next node tried is a neighbour of the newest member that still has an untried one.
    A node that is not free fails, and is rejected. A rejected node on a path between two
    members is a self-reference: the last member is then taken out and rejected, as often
    as it takes. At the end no node at all is left between members: each path that leaves
    the group does so through an adjacent node, which is a rejected one.

    Members leave in the reverse order of joining, so the sets of nodes after and before
    the members are stacks, and a check is one intersection of three sets.

    Parameters
    ----------
    around : sequence of tuple of int
        As ``neighbours`` gives it.
    paths : PathNodes
        Over a range that holds every free node that `root` is connected with.
    free : sequence of bool
        By node: whether it may join.
    watch : callable, optional
        See ``Watch``.

    Complexity: O(s r / 64) for s nodes and edges touched and a range of r nodes.
    """
    growth = Growth(paths, [])
    growth.push(root)
    if watch is not None:
        watch("select", root, growth)
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
        if watch is not None:
            watch("merge" if free[node] else "fail", node, growth)
        while growth.between & growth.rejected:
            last = growth.pop()
            if active[-1] == last:
                active.pop()
            if watch is not None:
                watch("rollback", last, growth)
    return growth
