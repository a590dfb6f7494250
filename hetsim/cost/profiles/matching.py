"""Kernels of a profile matched to the nodes of a graph.

1. By name, where a name speaks of nodes (``hetsim.cost.profiles.names``); a convolution or
   product that a kernel says it runs, and that only feeds the node it is named after, is part
   of it.
2. By place: a kernel of a known op type whose name speaks of no node
   (``SkipLayerNormalization``), or a compiled subgraph, runs what no name claims, and what must
   run after all that ran before it and before all that ran after it. Of several such parts of
   the graph it gets the one that became ready last.
3. Inside: a node without a kernel of its own, of a kind that runtimes fuse or remove, with
   measured neighbours on all sides, ran within the kernel of its neighbour.
4. A conversion of layout or type that is no node belongs to the kernel that runs next.

What is left has no measured time, and kernels that are left match no node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hetsim.cost.profiles.names import Names
from hetsim.cost.profiles.record import TimedKernel
from hetsim.cost.profiles.units import (
    DENSE,
    LIGHT,
    dense_class,
    is_conversion,
    is_opaque,
)
from hetsim.graph.dag import Dag
from hetsim.graph.graph import Graph

_TOKEN = re.compile(r"_token_\d+$")
_STEPS = 4
"""Nodes between a dense one and the node that its kernel is named after, at most."""


@dataclass(slots=True)
class Matched:
    """Which nodes each kernel ran.

    Attributes
    ----------
    nodes : list of tuple of int
        By kernel, ascending; empty where it matches none.
    placed : set of int
        Kernels that were matched by their place.
    inside : set of int
        Nodes that run within another's kernel.
    folded : set of int
        Kernels of nodes of the file that are constants here.
    """

    nodes: list[tuple[int, ...]]
    placed: set[int] = field(default_factory=set)
    inside: set[int] = field(default_factory=set)
    folded: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _State:
    """What is known while kernels are matched."""

    graph: Graph
    dag: Dag
    classes: Sequence[str]
    kernels: Sequence[TimedKernel]
    claims: list[list[int]]
    homes: list[list[int]]
    elsewhere: set[int]
    folded: set[int]

    def claim(self, kernel: int, nodes: Iterable[int]) -> None:
        """Give nodes to a kernel."""
        for v in nodes:
            if v not in self.claims[kernel]:
                self.claims[kernel].append(v)
                self.homes[v].append(kernel)

    def free(self, v: int) -> bool:
        """Whether no kernel has the node."""
        return not self.homes[v] and v not in self.elsewhere


def match(
    graph: Graph,
    classes: Sequence[str],
    names: Names,
    kernels: Sequence[TimedKernel],
    own: Sequence[bool],
    *,
    ordered: bool,
) -> Matched:
    """Match `kernels` to the nodes of `graph`.

    Parameters
    ----------
    graph : Graph
    classes : sequence of str
        Op class by node.
    names : Names
        Of the model that the graph is of.
    kernels : sequence of TimedKernel
    own : sequence of bool
        By kernel: whether the device itself ran it. Others only say what ran elsewhere.
    ordered : bool
        Whether the kernels stand in the order of a run; else none is matched by its place.

    Complexity: O(V + E) a gap between named kernels with unnamed ones in it, O(V + E + K) else.
    """
    state = _State(
        graph,
        Dag.from_edges(len(graph.nodes), graph.edges()),
        classes,
        kernels,
        [[] for _ in kernels],
        [[] for _ in graph.nodes],
        set(),
        set(),
    )
    _by_name(state, names, own)
    for index in range(len(kernels)):
        _with_dense(state, index)
    placed: set[int] = set()
    if ordered:
        placed = _by_place(state, own, sure=_speaks_of_this(state, own))
    inside = _inside(state)
    if ordered:
        _with_next(state, own)
    nodes = [tuple(sorted(claimed)) for claimed in state.claims]
    return Matched(nodes, placed, inside, state.folded)


def _by_name(state: _State, names: Names, own: Sequence[bool]) -> None:
    ranges: list[tuple[int, tuple[int, int]]] = []
    seen: dict[str, int] = {}
    for index, kernel in enumerate(state.kernels):
        spoken = names.spoken(kernel.name, op=kernel.op, index=kernel.index)
        if spoken is None:
            continue
        if not own[index]:
            state.elsewhere.update(spoken.nodes)
        elif spoken.between is not None:
            ranges.append((index, spoken.between))
        elif spoken.exact and seen.setdefault(kernel.name, index) != index:
            # Two nodes of one name in the file: the second is told by its place.
            continue
        else:
            state.claim(index, spoken.nodes)
            if not spoken.nodes:
                state.folded.add(index)
    for index, (first, last) in ranges:
        state.claim(
            index,
            (
                node.id
                for node in state.graph.nodes
                if state.free(node.id)
                and any(first <= names.places[name] <= last for name in node.origins)
            ),
        )


def _with_dense(state: _State, index: int) -> None:
    """Add the convolution or product that a kernel runs, where it is named after what follows."""
    wanted = dense_class(state.kernels[index])
    claimed = state.claims[index]
    if wanted is None or not claimed or any(state.classes[v] in DENSE for v in claimed):
        return
    ways: list[tuple[int, ...]] = [(v,) for v in sorted(claimed)]
    for _ in range(_STEPS):
        further: list[tuple[int, ...]] = []
        for way in ways:
            for u in state.dag.preds[way[-1]]:
                alone = set(state.dag.succs[u]) <= {*way, *claimed}
                if not state.free(u) or not alone:
                    continue
                if state.classes[u] == wanted:
                    state.claim(index, (*way, u))
                    return
                if state.classes[u] in LIGHT:
                    further.append((*way, u))
        ways = further


def _speaks_of_this(state: _State, own: Sequence[bool]) -> bool:
    """Whether most kernels that have names of their own name nodes of this model.

    A few are alike in many models: places mean nothing then.
    """
    telling = [
        bool(state.claims[index]) or index in state.folded
        for index, kernel in enumerate(state.kernels)
        if own[index] and not is_conversion(kernel) and not is_opaque(kernel)
    ]
    return 2 * sum(telling) >= len(telling) > 0


def _by_place(state: _State, own: Sequence[bool], *, sure: bool) -> set[int]:
    """Match kernels without a name by where they stand; return them.

    `sure`: the profile is of this model; else only compiled subgraphs are taken to be.
    """
    count = len(state.kernels)
    named = [bool(nodes) for nodes in state.claims]
    lower, upper = _windows(state, count)
    placed: set[int] = set()
    gap: list[int] = []
    for index in range(count + 1):
        if index < count and not named[index]:
            kernel = state.kernels[index]
            # What says neither a node nor an op may be anything.
            tells = is_opaque(kernel) or (sure and kernel.op != "")
            if own[index] and index not in state.folded and tells:
                gap.append(index)
            continue
        if gap:
            first = gap[0]
            open_nodes = [
                v for v in range(len(lower)) if state.free(v) and lower[v] < first < upper[v]
            ]
            placed.update(_fill(state, gap, open_nodes, lower))
        gap = []
    return placed


def _windows(state: _State, count: int) -> tuple[list[int], list[int]]:
    """By node: the last named kernel that must come before it, and the first one after it."""
    n = len(state.graph.nodes)
    lower, upper = [-1] * n, [count] * n
    for v in range(n):
        for u in state.dag.preds[v]:
            lower[v] = max(lower[v], *(state.homes[u] or [lower[u]]))
    for v in reversed(range(n)):
        for u in state.dag.succs[v]:
            upper[v] = min(upper[v], *(state.homes[u] or [upper[u]]))
    return lower, upper


def _fill(
    state: _State, gap: Sequence[int], open_nodes: Sequence[int], lower: Sequence[int]
) -> list[int]:
    """Give the kernels of one gap the parts of the graph that fit there."""
    taken: set[int] = set()
    wanted: list[tuple[int, tuple[int, ...]]] = []
    for index in gap:
        kernel = state.kernels[index]
        fit = [
            v for v in open_nodes
            if is_conversion(kernel) and v not in taken and _may_be(state.graph, v, kernel)
        ]  # fmt: skip
        if fit:
            best = max(fit, key=lambda v: (lower[v], -v))
            taken.add(best)
            wanted.append((index, (best,)))
    open_nodes = [v for v in open_nodes if v not in taken]
    for index in gap:
        kernel = state.kernels[index]
        if is_conversion(kernel):
            continue
        dense = dense_class(kernel)
        anything = is_opaque(kernel)
        alike = {v for v in open_nodes if state.graph.nodes[v].op_type == kernel.op}
        allowed = [
            v for v in open_nodes
            if anything or state.classes[v] in LIGHT or state.classes[v] == dense
            or v in alike or (dense == "attention" and state.classes[v] == "matmul")
        ]  # fmt: skip
        parts = _parts(state.dag, allowed)
        if dense is not None and not anything:
            parts = [part for part in parts if any(state.classes[v] in DENSE for v in part)]
        if parts:
            best_part = max(
                parts,
                key=lambda part: (
                    not alike.isdisjoint(part),
                    taken.isdisjoint(part),
                    max(lower[v] for v in part),
                    -part[0],
                ),
            )
            taken.update(best_part)
            wanted.append((index, best_part))
    for index, part in wanted:
        state.claim(index, part)
    return [index for index, _ in wanted]


def _may_be(graph: Graph, v: int, kernel: TimedKernel) -> bool:
    """Whether a conversion may be node `v`: op type, size, and the stem of a name made up."""
    node = graph.nodes[v]
    made_up = node.name not in node.origins
    same_stem = _TOKEN.sub("", node.name) == _TOKEN.sub("", kernel.name)
    return (
        node.op_type == kernel.op
        and _same_size(graph, v, kernel)
        and (same_stem if made_up else True)
    )


def _same_size(graph: Graph, v: int, kernel: TimedKernel) -> bool:
    """Whether a node's first output has as many elements as the kernel's, where both are known."""
    return kernel.elements is None or elements_of(graph, v) in (None, kernel.elements)


def elements_of(graph: Graph, v: int) -> int | None:
    """Elements of the first output of a node; None where they are open or depend on data."""
    writes = graph.nodes[v].writes
    tensor = graph.tensors[writes[0]] if writes else None
    if tensor is None or tensor.measured or tensor.shape is None:
        return None
    count = 1
    for dim in tensor.shape:
        if not isinstance(dim, int):
            return None
        count *= dim
    return count


def _parts(dag: Dag, nodes: Sequence[int]) -> list[tuple[int, ...]]:
    """The weakly connected parts that `nodes` alone make, each ascending."""
    left = set(nodes)
    found: list[tuple[int, ...]] = []
    for v in nodes:
        if v not in left:
            continue
        left.discard(v)
        part, stack = [v], [v]
        while stack:
            u = stack.pop()
            for w in (*dag.preds[u], *dag.succs[u]):
                if w in left:
                    left.discard(w)
                    part.append(w)
                    stack.append(w)
        found.append(tuple(sorted(part)))
    return found


def _with_next(state: _State, own: Sequence[bool]) -> None:
    """Count a conversion that is no node to the kernel that runs next, the last to the one before.

    The kernel gets the nodes of that one: its time is spread over them.
    """
    originally = [bool(claimed) for claimed in state.claims]
    following: list[int | None] = [None] * len(state.kernels)
    after: int | None = None
    for index in reversed(range(len(state.kernels))):
        following[index] = after
        if originally[index] and own[index]:
            after = index
    before: int | None = None
    for index, kernel in enumerate(state.kernels):
        if originally[index]:
            before = index if own[index] else before
        elif own[index] and is_conversion(kernel):
            host = following[index] if following[index] is not None else before
            if host is not None:
                state.claim(index, list(state.claims[host]))


def _inside(state: _State) -> set[int]:
    """Claim what ran within the kernels of its neighbours; return it."""
    free = [v for v in range(len(state.graph.nodes)) if state.free(v)]
    outputs = set(state.graph.outputs)
    found: set[int] = set()
    for part in _parts(state.dag, free):
        if not all(state.classes[v] in LIGHT for v in part):
            continue
        around = {u for v in part for u in (*state.dag.preds[v], *state.dag.succs[v])} - {*part}
        if not around or any(not state.homes[u] for u in around):
            continue
        open_ends = any(
            not state.dag.preds[v] or not outputs.isdisjoint(state.graph.nodes[v].writes)
            for v in part
        )
        if open_ends and any(
            state.classes[v] not in ("elementwise", "transcendental", "data_movement") for v in part
        ):
            continue
        for v in part:
            made_by = [k for u in state.dag.preds[v] for k in state.homes[u]]
            if made_by:
                state.claim(max(made_by), (v,))
        for v in reversed(part):
            read_by = [k for u in state.dag.succs[v] for k in state.homes[u]]
            if read_by and state.free(v):
                state.claim(min(read_by), (v,))
        found.update(v for v in part if not state.free(v))
    return found
