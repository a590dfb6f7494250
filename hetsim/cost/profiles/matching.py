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

from collections.abc import Sequence
from dataclasses import dataclass, field

from hetsim.cost.profiles.claims import Claims, parts_of
from hetsim.cost.profiles.names import Names
from hetsim.cost.profiles.places import by_place
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

_GATE = "QuickGelu"
"""A kernel of ``x * sigmoid(a * x)``."""

_STEPS = 4
"""How far before the node that its kernel is named after a dense one stands, at most."""


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
    claims = Claims(
        graph,
        Dag.from_edges(len(graph.nodes), graph.edges()),
        classes,
        kernels,
        [[] for _ in kernels],
        [[] for _ in graph.nodes],
        set(),
        set(),
    )
    _by_name(claims, names, own)
    for index in range(len(kernels)):
        _with_dense(claims, index)
        _with_gate(claims, index)
    placed: set[int] = set()
    if ordered:
        placed = by_place(claims, own, sure=_speaks_of_this(claims, own))
    inside = _inside(claims)
    if ordered:
        _with_next(claims, own)
    nodes = [tuple(sorted(claimed)) for claimed in claims.nodes]
    return Matched(nodes, placed, inside, claims.folded)


def _by_name(claims: Claims, names: Names, own: Sequence[bool]) -> None:
    ranges: list[tuple[int, tuple[int, int]]] = []
    seen: dict[str, int] = {}
    for index, kernel in enumerate(claims.kernels):
        spoken = names.spoken(kernel.name, op=kernel.op, index=kernel.index)
        if spoken is None:
            continue
        if not own[index]:
            claims.elsewhere.update(spoken.nodes)
        elif spoken.between is not None:
            ranges.append((index, spoken.between))
        elif (
            spoken.exact
            and kernel.index is not None
            and seen.setdefault(kernel.name, index) != index
        ):
            # Two nodes of one name in the file: the second is told by its place.
            continue
        else:
            claims.claim(index, spoken.nodes)
            if not spoken.nodes:
                claims.folded.add(index)
    for index, (first, last) in ranges:
        claims.claim(
            index,
            (
                node.id
                for node in claims.graph.nodes
                if claims.free(node.id)
                and any(first <= names.places[name] <= last for name in node.origins)
            ),
        )


def _with_dense(claims: Claims, index: int) -> None:
    """Add the convolution or product that a kernel runs, where it is named after what follows."""
    wanted = dense_class(claims.kernels[index])
    claimed = claims.nodes[index]
    if wanted is None or not claimed or any(claims.classes[v] in DENSE for v in claimed):
        return
    ways: list[tuple[int, ...]] = [(v,) for v in sorted(claimed)]
    for _ in range(_STEPS):
        further: list[tuple[int, ...]] = []
        for way in ways:
            for u in claims.dag.preds[way[-1]]:
                alone = set(claims.dag.succs[u]) <= {*way, *claimed}
                if not claims.free(u) or not alone:
                    continue
                if claims.classes[u] == wanted:
                    claims.claim(index, (*way, u))
                    return
                if claims.classes[u] in LIGHT:
                    further.append((*way, u))
        ways = further


def _with_gate(claims: Claims, index: int) -> None:
    """Add what opens the gate that a kernel is: the sigmoid before the product of its name."""
    if claims.kernels[index].op != _GATE:
        return
    open_ = list(claims.nodes[index])
    while open_:
        v = open_.pop()
        for u in claims.dag.preds[v]:
            alone = set(claims.dag.succs[u]) <= {*claims.nodes[index]}
            if claims.free(u) and alone and claims.graph.nodes[u].op_type in ("Sigmoid", "Mul"):
                claims.claim(index, (u,))
                open_.append(u)


def _speaks_of_this(claims: Claims, own: Sequence[bool]) -> bool:
    """Whether most kernels that have names of their own name nodes of this model.

    A few are alike in many models: places mean nothing then.
    """
    telling = [
        bool(claims.nodes[index]) or index in claims.folded
        for index, kernel in enumerate(claims.kernels)
        if own[index] and not is_conversion(kernel) and not is_opaque(kernel)
    ]
    return 2 * sum(telling) >= len(telling) > 0


def _with_next(claims: Claims, own: Sequence[bool]) -> None:
    """Count a conversion that is no node to the kernel that runs next, the last to the one before.

    The kernel gets the nodes of that one: its time is spread over them.
    """
    originally = [bool(claimed) for claimed in claims.nodes]
    following: list[int | None] = [None] * len(claims.kernels)
    after: int | None = None
    for index in reversed(range(len(claims.kernels))):
        following[index] = after
        if originally[index] and own[index]:
            after = index
    before: int | None = None
    for index, kernel in enumerate(claims.kernels):
        if originally[index]:
            before = index if own[index] else before
        elif own[index] and is_conversion(kernel):
            host = following[index] if following[index] is not None else before
            if host is not None:
                claims.claim(index, list(claims.nodes[host]))


def _inside(claims: Claims) -> set[int]:
    """Claim what ran within the kernels of its neighbours; return it."""
    free = [v for v in range(len(claims.graph.nodes)) if claims.free(v)]
    outputs = set(claims.graph.outputs)
    found: set[int] = set()
    for part in parts_of(claims.dag, free):
        if not all(claims.classes[v] in LIGHT for v in part):
            continue
        around = {u for v in part for u in (*claims.dag.preds[v], *claims.dag.succs[v])} - {*part}
        if not around or any(not claims.homes[u] for u in around):
            continue
        open_ends = any(
            not claims.dag.preds[v] or not outputs.isdisjoint(claims.graph.nodes[v].writes)
            for v in part
        )
        if open_ends and any(
            claims.classes[v] not in ("elementwise", "transcendental", "data_movement")
            for v in part
        ):
            continue
        for v in part:
            made_by = [k for u in claims.dag.preds[v] for k in claims.homes[u]]
            if made_by:
                claims.claim(max(made_by), (v,))
        for v in reversed(part):
            read_by = [k for u in claims.dag.succs[v] for k in claims.homes[u]]
            if read_by and claims.free(v):
                claims.claim(min(read_by), (v,))
        found.update(v for v in part if not claims.free(v))
    return found
