"""First rule of the boundary method: a group's own data does not come back into it."""

from __future__ import annotations

from hetsim.partitioning.methods.boundary.cuts import Cuts

CLOSED, FROM_SOURCE, FROM_OP = range(3)


def cut_reentry(cuts: Cuts) -> None:
    """Promote edges to boundaries until no edge joins what data re-enters with what it does not.

    A node of a group is *re-entered* where a boundary edge that leaves a node of the group
    is on a path to it. In every round, each edge (u, v) inside a group is promoted where v
    is re-entered and u is not, and

    - u and v share an ancestor in the group that data leaves from, or that feeds a node
      above v at which data of other groups enters; and
    - u is not a leaf, that is a node with one reader whose ancestors in the group read
      nothing from outside but parameters and constants.

    What is promoted in a group depends on that group alone, so groups are worked off one by
    one. Within a group the nodes that are not re-entered are *settled* once and for all, in
    topological order; only the first node that stands behind them is looked at, and it is
    looked at again only when the node that its re-entry was traced to has left the group.

    Complexity: near linear where groups are local; no bound better than rounds * (V + E).
    """
    _Reentry(cuts).run()


class _Reentry:
    """Progress of the rule over all groups."""

    def __init__(self, cuts: Cuts) -> None:
        self.cuts = cuts
        self.settled = bytearray(cuts.wiring.n)
        self.openness = bytearray(cuts.wiring.n)
        self.unsettled_inputs = [
            sum(not cuts.cut[edge] for _, edge in inputs) for inputs in cuts.ins
        ]
        self.to_check: dict[int, list[int]] = {}
        self.undecided: dict[int, list[tuple[int, int, int]]] = {}
        self.watchers: dict[int, list[int]] = {}
        self.traced: dict[int, dict[int, int]] = {}
        self.lowest: dict[int, int] = {}

    def run(self) -> None:
        groups = self.cuts.by_label()
        for label, nodes in groups.items():
            self._enlist(label, nodes)
        pending = list(groups)
        while pending:
            label = pending.pop()
            while (parts := self._round(label)) is not None:
                pending.extend(self._moved(label, part) for part in parts)
            # A group that has passed a round unchanged never changes again.
            self.traced.pop(label, None)

    def _enlist(self, label: int, nodes: list[int]) -> None:
        self.lowest[label] = min(nodes)
        self.traced[label] = {}
        self.to_check[label] = [
            node for node in nodes if not self.settled[node] and not self.unsettled_inputs[node]
        ]

    def _moved(self, old: int, part: list[int]) -> int:
        """Take up a part that was split off; whoever was traced to it must be looked at again."""
        label = self.cuts.label[part[0]]
        self._enlist(label, part)
        for node in part:
            for watcher in self.watchers.pop(node, ()):
                if self.cuts.label[watcher] == old:
                    self.to_check.setdefault(old, []).append(watcher)
        return label

    def _round(self, label: int) -> list[list[int]] | None:
        """Promote once in a group; return the parts split off, None where nothing is promoted."""
        cuts = self.cuts
        edges = self.undecided.pop(label, [])
        for node in self._settle(label):
            edges += [(node, target, edge) for target, edge in cuts.outs[node]]
        promoted: list[tuple[int, int, int]] = []
        undecided: list[tuple[int, int, int]] = []
        for u, v, edge in edges:
            if cuts.cut[edge] or self.settled[v]:
                continue
            wiring = cuts.wiring
            if wiring.readers[u] == 1 and not wiring.is_source[u] and self.openness[u] != FROM_OP:
                continue
            if self.openness[u] or self._entered(v) or self._share(u, v):
                promoted.append((u, v, edge))
            else:
                undecided.append((u, v, edge))
        if not promoted:
            return None
        for u, v, edge in promoted:
            cuts.promote(u, v, edge)
        parts = cuts.split([node for u, v, _ in promoted for node in (u, v)])
        for u, v, edge in undecided:
            self.undecided.setdefault(cuts.label[u], []).append((u, v, edge))
        return parts

    def _settle(self, label: int) -> list[int]:
        """Settle every node of the group that is not re-entered; return those new to it."""
        cuts, settled = self.cuts, self.settled
        new: list[int] = []
        pending = self.to_check.pop(label, [])
        while pending:
            node = pending.pop()
            if settled[node]:
                continue
            origin = self._origin(node, label)
            if origin >= 0:
                self.watchers.setdefault(origin, []).append(node)
                continue
            settled[node] = 1
            new.append(node)
            for source, edge in cuts.ins[node]:
                if not cuts.cut[edge]:
                    kind = self.openness[source]
                else:
                    kind = FROM_SOURCE if cuts.wiring.is_source[source] else FROM_OP
                self.openness[node] = max(self.openness[node], kind)
            for target, edge in cuts.outs[node]:
                if not cuts.cut[edge]:
                    self.unsettled_inputs[target] -= 1
                    if not self.unsettled_inputs[target]:
                        pending.append(target)
        return new

    def _origin(self, node: int, label: int) -> int:
        """A node of the group whose data comes back at `node`, -1 where there is none."""
        cuts = self.cuts
        for source, edge in cuts.ins[node]:
            if cuts.cut[edge]:
                origin = source if cuts.label[source] == label else self._trace(source, label)
                if origin >= 0:
                    return origin
        return -1

    def _trace(self, start: int, label: int) -> int:
        """The nearest node of the group found above a node outside it, -1 where there is none.

        Answers are kept for all nodes passed. Groups shrink: "none" stays right, an origin
        stays right as long as it is in the group.
        """
        label_of, ins = self.cuts.label, self.cuts.ins
        known, lowest = self.traced[label], self.lowest[label]
        path = [start]
        pending = [iter(ins[start])]
        while path:
            for source, _ in pending[-1]:
                if source < lowest:
                    continue
                origin = source if label_of[source] == label else known.get(source, -2)
                if origin >= 0 and label_of[origin] == label:
                    known.update(dict.fromkeys(path, origin))
                    return origin
                if origin != -1:
                    path.append(source)
                    pending.append(iter(ins[source]))
                    break
            else:
                known[path.pop()] = -1
                pending.pop()
        return -1

    def _entered(self, node: int) -> bool:
        """Whether data of other groups enters at `node`."""
        cuts = self.cuts
        return any(
            cuts.cut[edge] and cuts.label[source] != cuts.label[node]
            for source, edge in cuts.ins[node]
        )

    def _share(self, u: int, v: int) -> bool:
        """Whether an ancestor of u feeds a node above v that is entered, or that data leaves."""
        cuts = self.cuts
        above = {u}
        pending = [u]
        while pending:
            for source, _ in cuts.ins[pending.pop()]:
                if source not in above:
                    above.add(source)
                    pending.append(source)
        lowest = min(above)
        gates: list[int] = []
        seen = {v}
        pending = [v]
        while pending:
            node = pending.pop()
            if self._entered(node):
                gates.append(node)
                continue
            for source, edge in cuts.ins[node]:
                if cuts.cut[edge]:
                    gates.append(source)
                elif source not in seen:
                    seen.add(source)
                    pending.append(source)
        reached = set(gates)
        while gates:
            node = gates.pop()
            if node in above:
                return True
            for source, _ in cuts.ins[node]:
                if source >= lowest and source not in reached:
                    reached.add(source)
                    gates.append(source)
        return False
