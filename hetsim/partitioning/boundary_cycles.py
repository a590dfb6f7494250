"""Second rule of the boundary method: groups that feed each other are split until none do."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from hetsim.partitioning.boundary_cuts import Cuts

Rank = tuple[bool, bool, bool, bool, int, int]


def cut_cycles(cuts: Cuts) -> None:
    """Isolate nodes of mutually dependent groups, one at a time, until no two groups are.

    To isolate a node is to promote all its inputs from its own group. The next node is,
    among those of all groups that lie on a cycle of groups, the first by: data of another
    such group enters at it; one of its inputs in the group has more readers; none of them
    is a leaf of the graph; it is not a link of a chain; fewest inputs in the group; lowest
    node id.

    Complexity: O((V + E) log V) and, for every node isolated, a search for one cycle of
    groups; a search that finds none is paid for by the groups that it strikes out.
    """
    label = cuts.label
    groups = GroupGraph()
    for node, targets in enumerate(cuts.outs):
        for target, _ in targets:
            groups.add(label[node], label[target])
    groups.strike_out_all()
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
    ends = [node]
    for source, edge in cuts.ins[node]:
        if not cuts.cut[edge]:
            cuts.cut[edge] = 1
            ends.append(source)
    moved = {member for part in cuts.split(ends) for member in part}
    if not moved:
        return ()
    groups.enter({cuts.label[member] for member in moved})
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


class GroupGraph:
    """The groups that may lie on cycles of groups, with the number of edges between them.

    Attributes
    ----------
    succs, preds : dict of int to dict of int to int
        Edges to and from each group. A group found to be on no cycle is struck out, when
        someone asks for it or all at once; no group ever comes to be on a cycle by a split.
    """

    def __init__(self) -> None:
        self.succs: dict[int, dict[int, int]] = {}
        self.preds: dict[int, dict[int, int]] = {}
        self._complete = False
        self._cycle_of: dict[int, list[int]] = {}
        self._spent = 0

    def add(self, source: int, target: int) -> None:
        """Count an edge; one within a group or beside the groups kept is left out."""
        if not self._complete:
            for label in (source, target):
                self.succs.setdefault(label, {})
                self.preds.setdefault(label, {})
        if source != target and source in self.succs and target in self.succs:
            count = self.succs[source].get(target, 0) + 1
            self.succs[source][target] = self.preds[target][source] = count

    def drop(self, source: int, target: int) -> None:
        """Take back what ``add`` counted."""
        if source != target and source in self.succs and target in self.succs:
            count = self.succs[source][target] - 1
            if count:
                self.succs[source][target] = self.preds[target][source] = count
            else:
                del self.succs[source][target], self.preds[target][source]

    def enter(self, labels: Iterable[int]) -> None:
        """Keep new groups as well, without edges yet."""
        for label in labels:
            self.succs[label] = {}
            self.preds[label] = {}

    def on_cycle(self, label: int) -> bool:
        """Whether the group is on a cycle; where it is not, it is struck out."""
        if label not in self.succs:
            return False
        if self._closed(self._cycle_of.get(label, [])):
            return True
        cycle = self._cycle(label)
        self._cycle_of.update(dict.fromkeys(cycle, cycle))
        if not cycle:
            self._strike_out(label)
            if self._spent > len(self.succs):
                self.strike_out_all()
        return bool(cycle)

    def _closed(self, cycle: list[int]) -> bool:
        """Whether a cycle found before still is one; splits may have left it whole."""
        last = cycle[-1] if cycle else -1
        for label in cycle:
            if label not in self.succs.get(last, ()):
                return False
            last = label
        return bool(cycle)

    def strike_out_all(self) -> None:
        """Strike out every group that is on no cycle. O(V + E)."""
        self._complete = True
        self._spent = 0
        kept = {label for region in mutual(self.succs) for label in region}
        for label in [label for label in self.succs if label not in kept]:
            self._strike_out(label)

    def _strike_out(self, label: int) -> None:
        for target in self.succs.pop(label):
            del self.preds[target][label]
        for source in self.preds.pop(label):
            del self.succs[source][label]

    def _cycle(self, label: int) -> list[int]:
        """The groups of a short cycle through `label`, empty where there is none.

        Searches along the edges and against them from `label`: the side with fewer edges to
        look at goes on, until one meets what the other has seen, or has nowhere to go.
        """
        after: dict[int, int] = {label: label}
        before: dict[int, int] = {label: label}
        ahead, behind = [label], [label]
        while ahead and behind:
            forward = _width(self.succs, ahead) <= _width(self.preds, behind)
            seen, other = (after, before) if forward else (before, after)
            near = self.succs if forward else self.preds
            front: list[int] = []
            for group in ahead if forward else behind:
                for found in near[group]:
                    if found in other:
                        return [
                            label,
                            *reversed(_walk(after, group if forward else found)),
                            *_walk(before, found if forward else group),
                        ]
                    if found not in seen:
                        seen[found] = group
                        front.append(found)
            if forward:
                ahead = front
            else:
                behind = front
        self._spent += len(after) + len(before)
        return []


def _width(near: dict[int, dict[int, int]], front: list[int]) -> int:
    return sum(len(near[group]) for group in front)


def _walk(origin: dict[int, int], group: int) -> list[int]:
    """The way back from `group` to where the search began, without the beginning."""
    way: list[int] = []
    while origin[group] != group:
        way.append(group)
        group = origin[group]
    return way


def mutual(succs: dict[int, dict[int, int]]) -> list[list[int]]:
    """Strongly connected components of two nodes or more. O(V + E).

    Source: R. Tarjan, Depth-first search and linear graph algorithms, SIAM J. Comput. 1(2),
    1972, with the recursion unrolled.
    """
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    open_nodes: list[int] = []
    is_open: set[int] = set()
    found: list[list[int]] = []
    for root in succs:
        if root in number:
            continue
        path = [root]
        pending = [iter(succs[root])]
        number[root] = low[root] = len(number)
        open_nodes.append(root)
        is_open.add(root)
        while path:
            node = path[-1]
            for target in pending[-1]:
                if target not in number:
                    number[target] = low[target] = len(number)
                    open_nodes.append(target)
                    is_open.add(target)
                    path.append(target)
                    pending.append(iter(succs[target]))
                    break
                if target in is_open:
                    low[node] = min(low[node], number[target])
            else:
                path.pop()
                pending.pop()
                if path:
                    low[path[-1]] = min(low[path[-1]], low[node])
                if low[node] == number[node]:
                    component = [open_nodes.pop()]
                    while component[-1] != node:
                        component.append(open_nodes.pop())
                    is_open.difference_update(component)
                    if len(component) > 1:
                        found.append(component)
    return found
