"""Kernels of a profile matched to the nodes of a model: units, claims, positions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hetsim.cost.profiles.formats import TimedKernel
from hetsim.cost.profiles.names import Names
from hetsim.graph.dag import Dag, joined
from hetsim.graph.graph import Graph


@dataclass(slots=True)
class Claims:
    """State of matching kernels to nodes.

    `nodes` are nodes by kernel, `homes` kernels by node; `elsewhere` has nodes run by another unit,
    `folded` kernels of nodes of the file that are constants here.
    """

    graph: Graph
    dag: Dag
    classes: Sequence[str]
    kernels: Sequence[TimedKernel]
    nodes: list[list[int]]
    homes: list[list[int]]
    elsewhere: set[int]
    folded: set[int]

    def claim(self, kernel: int, nodes: Iterable[int]) -> None:
        """Assign nodes to a kernel."""
        for v in nodes:
            if v not in self.nodes[kernel]:
                self.nodes[kernel].append(v)
                self.homes[v].append(kernel)

    def free(self, v: int) -> bool:
        """Return whether no kernel has the node."""
        return not self.homes[v] and v not in self.elsewhere


def elements_of(graph: Graph, v: int) -> int | None:
    """Return the elements of a node's first output; None if open or data-dependent."""
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


def parts_of(dag: Dag, nodes: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the weakly connected parts of `nodes`, each ascending."""
    at = {v: index for index, v in enumerate(nodes)}
    roots = joined(len(nodes), ((at[v], at[w]) for v in nodes for w in dag.succs[v] if w in at))
    found: dict[int, list[int]] = {}
    for v, root in zip(nodes, roots, strict=True):
        found.setdefault(root, []).append(v)
    return [tuple(sorted(part)) for part in found.values()]


_OF_CPUS = frozenset(
    {"CPU", "CPUExecutionProvider", "XnnpackExecutionProvider", "DnnlExecutionProvider",
     "ACLExecutionProvider", "ArmNNExecutionProvider"}
)  # fmt: skip
_COPIES = frozenset({"MemcpyFromHost", "MemcpyToHost", "Memcpy"})
_COPY_NAME = re.compile(r"\[(HostToDevice|DeviceToHost)Copy\w*\]")
_CONVERSIONS = frozenset(
    {"ReorderInput", "ReorderOutput", "Reorder", "Reformat", "NoOp", "Reshape", "Transpose",
     "Permute", "Cast", "Convert", "Copy", "Identity", "Squeeze", "Unsqueeze", "Flatten"}
)  # fmt: skip
_OPAQUE = re.compile(
    r"__myl_|ForeignNode\[|TRTKernel_|ExecutionProvider_|DmlFusedNode|EPContext|EP-subgraph"
    r"|^subgraph_\d+|^CoreML_|^NNAPI"
)
_DENSE = (
    ("attention", "attention"), ("mha", "attention"), ("conv", "conv"), ("matmul", "matmul"),
    ("gemm", "matmul"), ("fullyconnected", "matmul"), ("innerproduct", "matmul"),
    ("lstm", "recurrent"), ("gru", "recurrent"), ("rnn", "recurrent"),
)  # fmt: skip

DENSE = frozenset({"attention", "conv", "matmul", "recurrent", "control_flow"})
"""Op classes of nodes that run within another's kernel only if that is stated."""

LIGHT = frozenset(
    {"elementwise", "transcendental", "data_movement", "normalization", "softmax", "quantize",
     "reduction", "gather_scatter"}
)  # fmt: skip
"""Op classes of nodes that runtimes fuse into a neighbour, or remove."""


def is_copy(kernel: TimedKernel) -> bool:
    """Return whether it moves a tensor between host and device, which links price."""
    return kernel.op in _COPIES or _COPY_NAME.search(kernel.name) is not None


def is_conversion(kernel: TimedKernel) -> bool:
    """Return whether it may be an inserted conversion of a layout or type."""
    return kernel.op in _CONVERSIONS


def is_opaque(kernel: TimedKernel) -> bool:
    """Return whether it is a compiled subgraph whose name identifies none of its nodes."""
    return _OPAQUE.search(kernel.name) is not None or _OPAQUE.search(kernel.op) is not None


def dense_class(kernel: TimedKernel) -> str | None:
    """Return the op class of the dense node in its op type; None without one."""
    low = kernel.op.lower().replace("_", "")
    return next((op_class for part, op_class in _DENSE if part in low), None)


def own(kernels: tuple[TimedKernel, ...], kind: str) -> tuple[bool, ...]:
    """Return for each kernel whether a device of `kind` ran it."""
    units = {kernel.unit for kernel in kernels if kernel.unit}
    if len(units) < 2:
        return (True,) * len(kernels)
    return tuple(
        not kernel.unit or (kernel.unit in _OF_CPUS) == (kind == "cpu") for kernel in kernels
    )


_TOKEN = re.compile(r"_token_\d+$")


def by_place(claims: Claims, own: Sequence[bool], *, sure: bool) -> set[int]:
    """Match unnamed kernels by their position; return them."""
    count = len(claims.kernels)
    named = [bool(nodes) for nodes in claims.nodes]
    lower, upper = _windows(claims, count)
    placed: set[int] = set()
    gap: list[int] = []
    for index in range(count + 1):
        if index < count and not named[index]:
            kernel = claims.kernels[index]
            # A kernel without node name and op may be anything.
            tells = is_opaque(kernel) or (sure and kernel.op != "")
            if own[index] and index not in claims.folded and tells:
                gap.append(index)
            continue
        if gap:
            first = gap[0]
            open_nodes = [
                v for v in range(len(lower)) if claims.free(v) and lower[v] < first < upper[v]
            ]
            placed.update(_fill(claims, gap, open_nodes, lower))
        gap = []
    return placed


def _windows(claims: Claims, count: int) -> tuple[list[int], list[int]]:
    """Return by node the last named kernel before it, and the first after it."""
    n = len(claims.graph.nodes)
    lower, upper = [-1] * n, [count] * n
    for v in range(n):
        for u in claims.dag.preds[v]:
            lower[v] = max(lower[v], *(claims.homes[u] or [lower[u]]))
    for v in reversed(range(n)):
        for u in claims.dag.succs[v]:
            upper[v] = min(upper[v], *(claims.homes[u] or [upper[u]]))
    return lower, upper


def _fill(
    claims: Claims, gap: Sequence[int], open_nodes: Sequence[int], lower: Sequence[int]
) -> list[int]:
    """Assign the parts of the graph that fit one gap to its kernels."""
    taken: set[int] = set()
    wanted: list[tuple[int, tuple[int, ...]]] = []
    for index in gap:
        kernel = claims.kernels[index]
        fit = [
            v for v in open_nodes
            if is_conversion(kernel) and v not in taken and _may_be(claims.graph, v, kernel)
        ]  # fmt: skip
        if fit:
            best = max(fit, key=lambda v: (lower[v], -v))
            taken.add(best)
            wanted.append((index, (best,)))
    open_nodes = [v for v in open_nodes if v not in taken]
    for index in gap:
        kernel = claims.kernels[index]
        if is_conversion(kernel):
            continue
        dense = dense_class(kernel)
        anything = is_opaque(kernel)
        alike = {v for v in open_nodes if claims.graph.nodes[v].op_type == kernel.op}
        allowed = [
            v for v in open_nodes
            if anything or claims.classes[v] in LIGHT or claims.classes[v] == dense
            or v in alike or (dense == "attention" and claims.classes[v] == "matmul")
        ]  # fmt: skip
        parts = parts_of(claims.dag, allowed)
        if dense is not None and not anything:
            parts = [part for part in parts if any(claims.classes[v] in DENSE for v in part)]
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
        claims.claim(index, part)
    return [index for index, _ in wanted]


def _may_be(graph: Graph, v: int, kernel: TimedKernel) -> bool:
    """Return whether a conversion may be node `v`, by op type, size and generated name."""
    node = graph.nodes[v]
    made_up = node.name not in node.origins
    same_stem = _TOKEN.sub("", node.name) == _TOKEN.sub("", kernel.name)
    return (
        node.op_type == kernel.op
        and _same_size(graph, v, kernel)
        and (same_stem if made_up else True)
    )


def _same_size(graph: Graph, v: int, kernel: TimedKernel) -> bool:
    """Return whether a node's first output has the kernel's number of elements, or is unknown."""
    return kernel.elements is None or elements_of(graph, v) in (None, kernel.elements)


_GATE = "QuickGelu"
"""Name of a kernel of ``x * sigmoid(a * x)``."""

_STEPS = 4
"""Maximum distance of a dense node before the node that its kernel is named after."""


@dataclass(slots=True)
class Matched:
    """Nodes of each kernel: `nodes` by kernel, ascending, empty without a match.

    `placed` are kernels matched by position, `folded` those of nodes that are constants here;
    `inside` are nodes that run within another's kernel.
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
    """Match `kernels` to the nodes of `graph`."""
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
            # Two nodes of one name in the file: the second is found by position.
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
    """Add the convolution or product run by a kernel that is named after a later node."""
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
    """Add the start of the gate that a kernel computes: the sigmoid before the named product."""
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
    """Return whether most named kernels name nodes of this model."""
    telling = [
        bool(claims.nodes[index]) or index in claims.folded
        for index, kernel in enumerate(claims.kernels)
        if own[index] and not is_conversion(kernel) and not is_opaque(kernel)
    ]
    return 2 * sum(telling) >= len(telling) > 0


def _with_next(claims: Claims, own: Sequence[bool]) -> None:
    """Count an inserted conversion to the kernel that runs next, else to the one before."""
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
    """Claim the nodes that ran within neighbouring kernels; return them."""
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
