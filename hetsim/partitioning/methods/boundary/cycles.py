"""Second rule of the boundary method: groups that feed each other are split until none do."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from hetsim.partitioning.methods.boundary.cuts import Cuts
from hetsim.partitioning.methods.boundary.groups_on_cycles import GroupGraph

Rank = tuple[bool, bool, bool, bool, int, int]


def cut_cycles(cuts: Cuts) -> None:
    """Isolate nodes of mutually dependent groups, one at a time, until no two groups are.

    To isolate a node is to promote all its inputs from its own group. The next node is,
    among those of all groups that lie on a cycle of groups, the first by: data of another
    such group enters at it; one of its inputs in the group has more readers; none of them
    is a leaf of the graph; it is not a link of a chain; fewest inputs in the group; lowest
    node id.

    Complexity: O((V + E) log V) and, for every node isolated, a search for one cycle of
    groups, which looks at few of them where cycles are short.
    """
    label = cuts.label
    groups = GroupGraph(
        (label[node], label[target])
        for node, targets in enumerate(cuts.outs)
        for target, _ in targets
    )
    heap: list[Rank] = []

    def offer(nodes: Iterable[int]) -> None:
        for node in nodes:
            rank = _rank(cuts, groups, node)
            if rank is not None:
                heapq.heappush(heap, rank)

    offer(node for node in range(len(label)) if label[node] in groups.succs)
    while heap:
        offered = heapq.heappop(heap)
        node = offered[-1]
        rank = _rank(cuts, groups, node)
        if rank is None or rank < offered:
            continue
        # What is struck out makes ranks worse, never better: one that still holds is the best.
        if rank == offered and _holds(cuts, groups, node, entered=not rank[0]):
            offer(_isolate(cuts, groups, node))
        else:
            offer([node])


def _rank(cuts: Cuts, groups: GroupGraph, node: int) -> Rank | None:
    """Smaller is isolated sooner; None where the node is on no cycle, or has no input."""
    wiring = cuts.wiring
    label = cuts.label[node]
    if label not in groups.succs:
        return None
    entered = shared = leaf = False
    count = 0
    for source, edge in cuts.ins[node]:
        if cuts.cut[edge]:
            other = cuts.label[source]
            entered = entered or (other != label and other in groups.succs)
        else:
            count += 1
            shared = shared or wiring.op_readers[source] > 1
            leaf = leaf or (
                wiring.op_readers[source] == 1
                and not wiring.is_source[source]
                and all(wiring.is_source[above] for above in wiring.inputs[source])
            )
    if not count:
        return None
    chain = count == 1 and wiring.op_readers[node] <= 1
    return (not entered, not shared, leaf, chain, count, node)


def _holds(cuts: Cuts, groups: GroupGraph, node: int, *, entered: bool) -> bool:
    """Whether the node's group is on a cycle and, if asked, one that enters it at the node."""
    label = cuts.label[node]
    if not groups.on_cycle(label):
        return False
    others = [cuts.label[source] for source, edge in cuts.ins[node] if cuts.cut[edge]]
    return not entered or any(groups.on_cycle(other) for other in others if other != label)


def _isolate(cuts: Cuts, groups: GroupGraph, node: int) -> Iterable[int]:
    """Promote the node's inputs from its group; return the nodes whose rank may be better."""
    old = cuts.label[node]
    inner = [(source, edge) for source, edge in cuts.ins[node] if not cuts.cut[edge]]
    for source, edge in inner:
        cuts.promote(source, node, edge)
    parts = cuts.split([node, *(source for source, _ in inner)])
    groups.enter((cuts.label[part[0]] for part in parts), groups.region[old])
    moved = {member for part in parts for member in part}
    affected = dict.fromkeys(moved)
    for member in moved:
        into = cuts.label[member]
        for source, _ in cuts.ins[member]:
            groups.drop(old if source in moved else cuts.label[source], old)
            groups.add(cuts.label[source], into)
        for target, _ in cuts.outs[member]:
            affected[target] = None
            if target not in moved:
                groups.drop(old, cuts.label[target])
                groups.add(into, cuts.label[target])
    return affected
