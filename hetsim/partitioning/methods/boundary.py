"""Merge method ``boundary``: OpenVINO's current HETERO, every edge between devices a boundary.

``groups_of`` has the phases. ``Cuts`` makes every edge between devices a boundary, and labels the
components of the other edges. ``_Reentry`` promotes edges of groups that their own data re-enters.
``_cut_cycles`` isolates nodes until no groups feed each other.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hetsim.core.process import collecting_put_off
from hetsim.errors import ModelError
from hetsim.graph.dag import Dag, joined
from hetsim.problem.groups import by_label
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem

Port = tuple[int, Hashable]
"""Source of an input: a node, and one of its outputs."""

Rank = tuple[bool, bool, bool, bool, int, int]
CLOSED, FROM_SOURCE, FROM_OP = range(3)


def merge(dag: Dag, device_of: Sequence[int]) -> list[int]:
    """Return a connected group label per node, for a graph of operations only.

    Complexity: near linear where groups are local; O(V) on a chain that changes device at
    every node.
    Source: OpenVINO 2026.4, HETERO plugin, subgraph collector, re-expressed. It keeps a bit
    set of all boundaries at every node, which makes it quadratic in the groups; here every
    group is worked off by itself.
    """
    return groups_of(Wiring.of_dag(dag), device_of).label


@collecting_put_off()
def merge_problem(
    problem: Problem, place: Sequence[int], device_of: Sequence[int], order: Sequence[int]
) -> list[int]:
    """Return the labels that OpenVINO gives, with model inputs, constants and outputs as nodes.

    An input or constant is on the first device in `order` with one of its readers, as in HETERO's
    query, and joins its readers on that device. So nodes of a group may be connected by an input or
    constant only. A node that reads a value at two ports reads it twice. `place` maps each node to
    the unit it is merged in; `device_of` and the labels are by unit; `order` has the devices by
    priority.
    """
    reads, makers, results = _reads_of(problem)
    asked = {p: at for at, p in enumerate(dict.fromkeys((*order, *device_of)))}
    device = list(device_of)
    ports: list[list[Port]] = [[] for _ in device_of]
    sources: dict[Hashable, int] = {}
    for node, values in enumerate(reads):
        unit = place[node]
        for value in values:
            if value in makers:
                source = place[makers[value]]
            else:
                source = sources.setdefault(value, len(device))
                if source == len(device):
                    device.append(device_of[unit])
                device[source] = min(device[source], device_of[unit], key=asked.__getitem__)
            if source != unit:
                ports[unit].append((source, value))
    put_out: list[Port] = [(place[makers[value]], value) for value in results]
    kinds = ["op"] * len(ports) + ["constant"] * len(sources) + ["result"] * len(put_out)
    ports += [[] for _ in sources]
    ports += [[port] for port in put_out]
    device += [device[unit] for unit, _ in put_out]
    read = {source for row in ports for source, _ in row}
    roots = [node for node, kind in enumerate(kinds) if kind == "result"]
    roots += [unit for unit in range(len(device_of)) if unit not in read]
    found = execution_order(ports, roots)
    at = {node: index for index, node in enumerate(found)}
    wiring = Wiring.of_ports(
        [[(at[source], value) for source, value in ports[node]] for node in found],
        [kinds[node] for node in found],
    )
    label = groups_of(wiring, [device[node] for node in found]).label
    return [label[at[unit]] for unit in range(len(device_of))]


def _reads_of(
    problem: Problem,
) -> tuple[list[list[Hashable]], Mapping[Any, int], list[Hashable]]:
    """Return the sources each node reads, by port; the producers; and the outputs for the caller.

    A problem without a model has no ports: its nodes read each value once.
    """
    reads: list[list[Hashable]] = [[] for _ in range(problem.n)]
    if problem.model is not None:
        graph = problem.model.graph
        for node in graph.nodes:
            reads[node.id] += [name for name in (*node.inputs, *node.captures) if name]
        makers = graph.producers()
        return reads, makers, [name for name in graph.outputs if name in makers]
    made: dict[Hashable, int] = {}
    results: list[Hashable] = []
    for index, value in enumerate(problem.values):
        for consumer in value.consumers:
            reads[consumer].append(index)
        if value.producer != GRAPH_INPUT:
            made[index] = value.producer
            results += [index] if value.is_output else []
    for constant in problem.constants:
        for consumer in constant.consumers:
            reads[consumer].append(constant.name)
    return reads, made, results


def execution_order(
    ports: Sequence[Sequence[Port]], roots: Sequence[int], names: Sequence[str] = ()
) -> list[int]:
    """Return `roots` and their predecessors in OpenVINO's order, sources first. O(V + E).

    Depth first, inputs by port, the last root first. Raises ModelError for a cycle.
    """
    order: dict[int, None] = {}
    opened: set[int] = set()
    pending = list(roots)
    while pending:
        node = pending[-1]
        waiting = [] if node in order else [u for u, _ in ports[node] if u not in order]
        if not waiting:
            order[pending.pop()] = None
        elif node in opened:
            called = names[node] if names else node
            raise ModelError("the node depends on itself", where=f"node '{called}'")
        else:
            opened.add(node)
            pending.extend(reversed(waiting))
    return list(order)


@collecting_put_off()
def groups_of(wiring: Wiring, device_of: Sequence[int]) -> Cuts:
    """Return the boundaries and the groups between them, by the whole rule."""
    cuts = Cuts(wiring, device_of)
    _Reentry(cuts).run()
    _cut_cycles(cuts)
    return cuts


@dataclass(frozen=True, slots=True)
class Wiring:
    """Graph in the form that the boundary method needs; node ids are a topological order.

    Attributes
    ----------
    inputs : tuple of tuple of int
        Source node of every input, by node, in port order.
    is_source : tuple of bool
        Whether the node is a parameter or a constant.
    sole : tuple of bool
        By input, node after node: whether no other input has the same source.
    op_readers : tuple of int
        Number of inputs that read the node, without results.
    """

    inputs: tuple[tuple[int, ...], ...]
    is_source: tuple[bool, ...]
    sole: tuple[bool, ...]
    op_readers: tuple[int, ...]

    @classmethod
    def of_dag(cls, dag: Dag) -> Wiring:
        """Return the wiring of a DAG of operations only: one port per edge, ascending. O(V + E)."""
        readers = tuple(map(len, dag.succs))
        sole = tuple(readers[source] == 1 for sources in dag.preds for source in sources)
        return cls(dag.preds, (False,) * dag.n, sole, readers)

    @classmethod
    def of_ports(cls, ports: Sequence[Sequence[Port]], kinds: Sequence[str]) -> Wiring:
        """Return the wiring of inputs and kinds: op, parameter, constant, result. O(V + E)."""
        readers = Counter(port for row in ports for port in row)
        op_readers = [0] * len(ports)
        for row, kind in zip(ports, kinds, strict=True):
            if kind != "result":
                for source, _ in row:
                    op_readers[source] += 1
        return cls(
            tuple(tuple(source for source, _ in row) for row in ports),
            tuple(kind in ("parameter", "constant") for kind in kinds),
            tuple(readers[port] == 1 for row in ports for port in row),
            tuple(op_readers),
        )

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.inputs)


class Cuts:
    """Boundary edges, and the group of every node: connected by the other edges.

    Edges only become boundaries, so groups only split; a split costs about the size of its smaller
    part, as only that part is relabelled.

    Attributes
    ----------
    ins, outs : list of list of (int, int)
        By node: (source, edge) in port order, (target, edge) ascending by target.
    cut : bytearray
        Whether the edge is a boundary.
    joined : list of dict of int to int
        By node: its edges that are not cut, with the node at the other end.
    label : list of int
        Group by node.
    """

    def __init__(self, wiring: Wiring, device_of: Sequence[int]) -> None:
        self.wiring = wiring
        self.ins: list[list[tuple[int, int]]] = [[] for _ in range(wiring.n)]
        self.outs: list[list[tuple[int, int]]] = [[] for _ in range(wiring.n)]
        self.joined: list[dict[int, int]] = [{} for _ in range(wiring.n)]
        self.cut = bytearray(sum(map(len, wiring.inputs)))
        edge = 0
        for target, sources in enumerate(wiring.inputs):
            for source in sources:
                self.ins[target].append((source, edge))
                self.outs[source].append((target, edge))
                if device_of[source] != device_of[target]:
                    self.cut[edge] = 1
                else:
                    self.joined[source][edge] = target
                    self.joined[target][edge] = source
                edge += 1
        inner = (
            (u, v) for v, near in enumerate(self.ins) for u, edge in near if not self.cut[edge]
        )
        self.label = joined(wiring.n, inner)
        self.fresh = wiring.n

    def promote(self, source: int, target: int, edge: int) -> None:
        """Make an edge a boundary; ``split`` must follow to update the groups."""
        self.cut[edge] = 1
        del self.joined[source][edge], self.joined[target][edge]

    def split(self, ends: Iterable[int]) -> list[list[int]]:
        """Relabel the group of `ends` after its edges were cut; return the parts that split off.

        One breadth-first search per end, advanced in turn; searches that meet are merged. A search
        without further nodes has found a part. The last one running keeps the label, and its
        remaining nodes are not visited.
        """
        owner = {node: _PartSearch(node) for node in ends}
        turns = deque(owner.values())
        running = len(turns)
        parts: list[list[int]] = []
        while running > 1:
            turn = search = turns.popleft()
            if search.into is not None:
                continue
            if not search.pending:
                parts.append(search.nodes)
                running -= 1
                continue
            for near in self.joined[search.pending.popleft()].values():
                met = owner.get(near)
                if met is None:
                    owner[near] = search
                    search.nodes.append(near)
                    search.pending.append(near)
                elif met is not search and (other := met.last()) is not search:
                    search = search.join(other)
                    running -= 1
            turns.append(turn)
        for nodes in parts:
            for node in nodes:
                self.label[node] = self.fresh
            self.fresh += 1
        return parts


class _PartSearch:
    """Search for one part of a group: nodes found, and frontier."""

    __slots__ = ("into", "nodes", "pending")

    def __init__(self, start: int) -> None:
        self.nodes = [start]
        self.pending = deque((start,))
        self.into: _PartSearch | None = None

    def last(self) -> _PartSearch:
        """Return the search that this one has been merged into."""
        found = self
        while found.into is not None:
            found = found.into
        return found

    def join(self, other: _PartSearch) -> _PartSearch:
        """Merge with another search; return the larger, which absorbs the other."""
        larger, smaller = (other, self) if len(other.nodes) > len(self.nodes) else (self, other)
        larger.nodes += smaller.nodes
        larger.pending += smaller.pending
        smaller.into = larger
        return larger


class _Reentry:
    """First rule: a group's own data must not re-enter it.

    Promotes edges to boundaries until no edge joins nodes that data re-enters with others.

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

    def __init__(self, cuts: Cuts) -> None:
        self.cuts = cuts
        self.settled = bytearray(cuts.wiring.n)
        self.openness = bytearray(cuts.wiring.n)
        self.unsettled_inputs = [
            sum(not cuts.cut[edge] for _, edge in inputs) for inputs in cuts.ins
        ]
        self.to_check: dict[int, list[int]] = {}
        self.undecided: dict[int, list[tuple[int, int, int]]] = {}
        self.waiting: dict[int, list[tuple[int, int, int]]] = {}
        self.watchers: dict[int, list[int]] = {}
        self.traced: dict[int, dict[int, int]] = {}
        self.lowest: dict[int, int] = {}

    def run(self) -> None:
        groups = by_label(self.cuts.label)
        for label, nodes in groups.items():
            self._enlist(label, nodes)
        pending = list(groups)
        while pending:
            label = pending.pop()
            while (parts := self._round(label)) is not None:
                pending.extend(self._moved(label, part) for part in parts)
            # A group unchanged in a round never changes again.
            self.traced.pop(label, None)

    def _enlist(self, label: int, nodes: list[int]) -> None:
        self.lowest[label] = min(nodes)
        self.traced[label] = {}
        self.to_check[label] = [
            node for node in nodes if not self.settled[node] and not self.unsettled_inputs[node]
        ]

    def _moved(self, old: int, part: list[int]) -> int:
        """Process a part that was split off; nodes traced to it must be examined again."""
        label = self.cuts.label[part[0]]
        self._enlist(label, part)
        for node in part:
            for watcher in self.watchers.pop(node, ()):
                if self.cuts.label[watcher] == old:
                    self.to_check.setdefault(old, []).append(watcher)
            for reader in (node, *(target for target, _ in self.cuts.outs[node])):
                if reader in self.waiting and self._entered(reader):
                    own = self.undecided.setdefault(self.cuts.label[reader], [])
                    own += self.waiting.pop(reader)
        return label

    def _round(self, label: int) -> list[list[int]] | None:
        """Promote once in a group; return the parts split off, or None if nothing is promoted."""
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
            if wiring.sole[edge] and not wiring.is_source[u] and self.openness[u] != FROM_OP:
                continue
            if self.openness[u] or self._entered(v):
                promoted.append((u, v, edge))
            elif wiring.is_source[u] and wiring.op_readers[u] == 1:
                # Only v is below u: they share no ancestor until data enters at v.
                self.waiting.setdefault(v, []).append((u, v, edge))
            elif self._share(u, v):
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
        """Settle every node of the group that is not re-entered; return the newly settled ones."""
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
        """Return a node of the group whose data re-enters at `node`, or -1."""
        cuts = self.cuts
        for source, edge in cuts.ins[node]:
            if cuts.cut[edge]:
                origin = source if cuts.label[source] == label else self._trace(source, label)
                if origin >= 0:
                    return origin
        return -1

    def _trace(self, start: int, label: int) -> int:
        """Return the nearest node of the group above a node outside it, or -1.

        Results are cached for all nodes visited. Groups shrink, so "none" stays valid, and an
        origin stays valid as long as it is in the group.
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
        """Return whether data of other groups enters at `node`."""
        cuts = self.cuts
        return any(
            cuts.cut[edge] and cuts.label[source] != cuts.label[node]
            for source, edge in cuts.ins[node]
        )

    def _share(self, u: int, v: int) -> bool:
        """Return whether an ancestor of u feeds an entered node above v, or feeds another group.

        Searches down from the ancestors and up from the entries, one node of each in turn, until
        they meet or one is exhausted.
        """
        cuts = self.cuts
        above = {u}
        pending = [u]
        while pending:
            for source, _ in cuts.ins[pending.pop()]:
                if source not in above:
                    above.add(source)
                    pending.append(source)
        entries: set[int] = set()
        seen = {v}
        pending = [v]
        while pending:
            node = pending.pop()
            if self._entered(node):
                entries.add(node)
                continue
            for source, edge in cuts.ins[node]:
                if cuts.cut[edge]:
                    entries.add(source)
                elif source not in seen:
                    seen.add(source)
                    pending.append(source)
        if not entries.isdisjoint(above):
            return True
        lowest, highest = min(above), max(entries, default=-1)
        down, up = list(above), list(entries)
        while down and up:
            for target, _ in cuts.outs[down.pop()]:
                if target in entries:
                    return True
                if target < highest and target not in above:
                    above.add(target)
                    down.append(target)
            for source, _ in cuts.ins[up.pop()]:
                if source in above:
                    return True
                if source > lowest and source not in entries:
                    entries.add(source)
                    up.append(source)
        return False


def _cut_cycles(cuts: Cuts) -> None:
    """Second rule: isolate nodes of interdependent groups until there are none.

    Isolating a node promotes all its inputs from its own group. The next node is, among those of
    all groups on a cycle of groups, the first by: data of another such group enters at it; one of
    its inputs in the group has more readers; none of them is a leaf of the graph; it is not a link
    of a chain; fewest inputs in the group; lowest node id.

    Complexity: O((V + E) log V) plus a search for one cycle of groups per isolated node, which
    visits few groups if cycles are short.
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
        # Removals only make ranks worse, so a rank that is still valid is the best.
        if rank == offered and _holds(cuts, groups, node, entered=not rank[0]):
            offer(_isolate(cuts, groups, node))
        else:
            offer([node])


def _rank(cuts: Cuts, groups: GroupGraph, node: int) -> Rank | None:
    """Return the rank, smaller first; None if the node is on no cycle or has no input."""
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
    """Return whether the node's group is on a cycle and, if `entered`, on one entering at it."""
    label = cuts.label[node]
    if not groups.on_cycle(label):
        return False
    others = [cuts.label[source] for source, edge in cuts.ins[node] if cuts.cut[edge]]
    return not entered or any(groups.on_cycle(other) for other in others if other != label)


def _isolate(cuts: Cuts, groups: GroupGraph, node: int) -> Iterable[int]:
    """Promote the node's inputs from its group; return the nodes whose rank may improve."""
    old = cuts.label[node]
    inner = [(source, edge) for source, edge in cuts.ins[node] if not cuts.cut[edge]]
    for source, edge in inner:
        cuts.promote(source, node, edge)
    parts = cuts.split([node, *(source for source, _ in inner)])
    groups.enter(cuts.label[part[0]] for part in parts)
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


class GroupGraph:
    """Groups that may lie on cycles of groups, with the number of edges between each two.

    Groups only split, so none becomes part of a cycle: one found to be on none is removed, and so
    are those that then have no edges on one side.
    """

    def __init__(self, edges: Iterable[tuple[int, int]]) -> None:
        self.succs: dict[int, dict[int, int]] = {}
        self.preds: dict[int, dict[int, int]] = {}
        self._cycle_of: dict[int, list[int]] = {}
        for source, target in edges:
            self.enter((source, target))
            self.add(source, target)
        for label in list(self.succs):
            if label in self.succs and not (self.succs[label] and self.preds[label]):
                self._strike(label)

    def enter(self, labels: Iterable[int]) -> None:
        """Add new groups without edges."""
        for label in labels:
            self.succs.setdefault(label, {})
            self.preds.setdefault(label, {})

    def add(self, source: int, target: int) -> None:
        """Count an edge; edges within a group, or at a removed group, do not count."""
        if source != target and source in self.succs and target in self.succs:
            count = self.succs[source].get(target, 0) + 1
            self.succs[source][target] = self.preds[target][source] = count

    def drop(self, source: int, target: int) -> None:
        """Undo ``add``."""
        count = self.succs.get(source, {}).get(target, 0) - 1
        if count > 0:
            self.succs[source][target] = self.preds[target][source] = count
        elif not count:
            del self.succs[source][target], self.preds[target][source]

    def on_cycle(self, label: int) -> bool:
        """Return whether the group is on a cycle; otherwise remove it."""
        if label not in self.succs:
            return False
        # A cycle found earlier may still exist after splits.
        known = self._cycle_of.get(label, [])
        if known and all(
            b in self.succs.get(a, ()) for a, b in zip(known, known[1:] + known[:1], strict=True)
        ):
            return True
        cycle = self._cycle(label)
        self._cycle_of.update(dict.fromkeys(cycle, cycle))
        return bool(cycle)

    def _strike(self, label: int) -> None:
        pending = [label]
        while pending:
            label = pending.pop()
            for near, other in ((self.succs, self.preds), (self.preds, self.succs)):
                for neighbour in near.pop(label, ()):
                    del other[neighbour][label]
                    if not other[neighbour]:
                        pending.append(neighbour)

    def _separate(
        self, part: dict[int, int], near: dict[int, dict[int, int]], far: dict[int, dict[int, int]]
    ) -> None:
        """Remove the edges between `part`, which no edge of `near` leaves, and the rest.

        Its first group is on no cycle. It is the smaller searched side, which pays for it, as every
        edge is on a smaller side O(log E) times.
        """
        outer = [(label, other) for label in part for other in far[label] if other not in part]
        for label, other in outer:
            del far[label][other], near[other][label]
        for _, other in outer:
            if not near.get(other, True):
                self._strike(other)
        self._strike(next(iter(part)))

    def _cycle(self, label: int) -> list[int]:
        """Return the groups of a short cycle through `label`; empty if there is none.

        Searches forwards and backwards from `label`, one edge of each in turn, until they meet or
        one is exhausted. So a group with thousands of edges costs no more than the other side.
        Groups one edge away count as visited.
        """
        after: dict[int, int] = {label: label}
        before: dict[int, int] = {label: label}
        ahead, behind = _search(self.succs, after), _search(self.preds, before)
        while True:
            last, target = next(ahead, (label, -1))
            if target < 0:
                self._separate(after, self.succs, self.preds)
                return []
            if target in before:
                return [label, *reversed(_way(after, last)), *_way(before, target)]
            if target in self.preds[label]:
                return [label, *reversed(_way(after, last)), target]
            first, source = next(behind, (label, -1))
            if source < 0:
                self._separate(before, self.preds, self.succs)
                return []
            if source in after:
                return [label, *reversed(_way(after, source)), *_way(before, first)]
            if source in self.succs[label]:
                return [label, source, *_way(before, first)]


def _search(near: dict[int, dict[int, int]], origin: dict[int, int]) -> Iterator[tuple[int, int]]:
    """Yield edges visited breadth first from the keys of `origin`, which records predecessors."""
    reached = list(origin)
    for group in reached:
        for found in near[group]:
            yield group, found
            if found not in origin:
                origin[found] = group
                reached.append(found)


def _way(origin: dict[int, int], group: int) -> list[int]:
    """Return the path back from `group` to the start of the search, without the start."""
    way: list[int] = []
    while origin[group] != group:
        way.append(group)
        group = origin[group]
    return way
