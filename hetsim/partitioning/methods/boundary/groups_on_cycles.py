"""Which groups of the boundary method may lie on cycles of groups, while groups split."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


class GroupGraph:
    """The groups that may lie on cycles of groups, with the number of edges between them.

    Groups only ever split, so no group comes to be on a cycle, and no two groups come to be
    on one together: what is once separated stays separated.

    Attributes
    ----------
    succs, preds : dict of int to dict of int to int
        Edges to and from each group, those of the same region alone. A group found to be on
        no cycle is struck out.
    region : dict of int to int
        Groups of different regions are on no cycle together.
    """

    def __init__(self, edges: Iterable[tuple[int, int]]) -> None:
        self.succs: dict[int, dict[int, int]] = {}
        self.preds: dict[int, dict[int, int]] = {}
        self.region: dict[int, int] = {}
        self._regions = 0
        self._cycle_of: dict[int, list[int]] = {}
        for source, target in edges:
            self.enter((source, target), 0)
            self.add(source, target)
        self._separate(list(self.succs), self.succs)

    def enter(self, labels: Iterable[int], region: int) -> None:
        """Keep groups that are new as well, without edges yet."""
        for label in labels:
            if label not in self.region:
                self.region[label] = region
                self.succs[label] = {}
                self.preds[label] = {}

    def add(self, source: int, target: int) -> None:
        """Count an edge; one within a group or between regions is left out."""
        if source != target and self.region.get(source, -1) == self.region.get(target, -2):
            count = self.succs[source].get(target, 0) + 1
            self.succs[source][target] = self.preds[target][source] = count

    def drop(self, source: int, target: int) -> None:
        """Take back what ``add`` counted."""
        if source != target and self.region.get(source, -1) == self.region.get(target, -2):
            count = self.succs[source][target] - 1
            if count:
                self.succs[source][target] = self.preds[target][source] = count
            else:
                del self.succs[source][target], self.preds[target][source]

    def on_cycle(self, label: int) -> bool:
        """Whether the group is on a cycle; where it is not, it is struck out."""
        if label not in self.region:
            return False
        if self._closed(self._cycle_of.get(label, [])):
            return True
        cycle = self._cycle(label)
        self._cycle_of.update(dict.fromkeys(cycle, cycle))
        return bool(cycle)

    def _closed(self, cycle: list[int]) -> bool:
        """Whether a cycle found before still is one; splits may have left it whole."""
        last = cycle[-1] if cycle else -1
        for label in cycle:
            if label not in self.succs.get(last, ()):
                return False
            last = label
        return bool(cycle)

    def _cycle(self, label: int) -> list[int]:
        """The groups of a short cycle through `label`; empty, and `label` struck out, if none.

        Searches along the edges and against them from `label`, one edge of each in turn, until
        one meets what the other has seen, or has nowhere to go. So a group with thousands of
        edges costs no more than the other side. What is one edge away counts as seen.

        A search that fails has found the smaller side of its region, and separates it: that
        pays for it, as every edge is on a smaller side O(log E) times.
        """
        after: dict[int, int] = {label: label}
        before: dict[int, int] = {label: label}
        ahead, behind = _search(self.succs, after), _search(self.preds, before)
        while True:
            last, target = next(ahead, (label, -1))
            if target < 0:
                self._separate(list(after), self.succs)
                return []
            if target in before:
                return [label, *reversed(_way(after, last)), *_way(before, target)]
            if target in self.preds[label]:
                return [label, *reversed(_way(after, last)), target]
            first, source = next(behind, (label, -1))
            if source < 0:
                self._separate(list(before), self.preds)
                return []
            if source in after:
                return [label, *reversed(_way(after, source)), *_way(before, first)]
            if source in self.succs[label]:
                return [label, source, *_way(before, first)]

    def _separate(self, labels: Sequence[int], near: dict[int, dict[int, int]]) -> None:
        """Give each cyclic part of `labels`, which `near` does not leave, a region of its own."""
        kept: list[int] = []
        for part in mutual({label: near[label] for label in labels}):
            self._regions += 1
            self.region.update(dict.fromkeys(part, self._regions))
            kept += part
        for label in set(labels).difference(kept):
            self._part(label, self.succs.pop(label), self.preds.pop(label))
            del self.region[label]
        for label in kept:
            region = self.region[label]
            self._part(
                label,
                [other for other in self.succs[label] if self.region[other] != region],
                [other for other in self.preds[label] if self.region[other] != region],
            )

    def _part(self, label: int, targets: Iterable[int], sources: Iterable[int]) -> None:
        """Forget the edges of a group to `targets` and from `sources`."""
        for target in targets:
            self.succs.get(label, {}).pop(target, None)
            del self.preds[target][label]
        for source in sources:
            self.preds.get(label, {}).pop(source, None)
            del self.succs[source][label]


def _search(near: dict[int, dict[int, int]], origin: dict[int, int]) -> Iterator[tuple[int, int]]:
    """Yield every edge seen from what `origin` holds, breadth first; keep whence each was found."""
    reached = list(origin)
    for group in reached:
        for found in near[group]:
            yield group, found
            if found not in origin:
                origin[found] = group
                reached.append(found)


def _way(origin: dict[int, int], group: int) -> list[int]:
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
