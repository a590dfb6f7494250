"""Canonical model: optimised offline, with known types, read as a Graph."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import onnx
from numpy.typing import NDArray

from hetsim.graph.canonical.folding import fold_constants, too_much
from hetsim.graph.canonical.half_precision import (
    Lowering,
    drop_inserted_casts,
    hide,
    lowered,
    lowering_of,
    mentions_half,
    show,
)
from hetsim.graph.canonical.inner_graphs import Inner, inner_graphs
from hetsim.graph.canonical.provenance import Operation, operations_of, trace
from hetsim.graph.graph import ControlFlow, Graph, Node, Tensor
from hetsim.graph.reading.extension import Custom, is_custom
from hetsim.graph.reading.onnx_runtime import optimise
from hetsim.graph.reading.onnx_types import Attributes, dtype_name, to_tensor
from hetsim.graph.reading.structure import (
    captures,
    constant_names,
    drop_inner_types,
    key_of,
    name_nodes,
    prune,
    sort_nodes,
    unshadow,
)
from hetsim.graph.shapes.inference import annotate, inferred
from hetsim.graph.shapes.observed import Observed, Shape
from hetsim.graph.shapes.open_shapes import shaped_by_data

T = TypeVar("T")
_NUMBERS = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16)

_SMALL_CONSTANT_ELEMENTS = 1024
_COMPARED_BYTES = 1024
_ROUNDS = 8
_AS_STORED = (
    {onnx.TensorProto.FLOAT: 4, onnx.TensorProto.DOUBLE: 8, onnx.TensorProto.INT32: 4,
     onnx.TensorProto.INT64: 8}
    if sys.byteorder == "little" else {}
)  # fmt: skip
"""Bytes per element, for types whose raw bytes are those of the array."""
_INTEGERS = (onnx.TensorProto.INT64, onnx.TensorProto.INT32, onnx.TensorProto.BOOL)


@dataclass(frozen=True, slots=True)
class Opened:
    """Regularised model of a file: its original nodes, and the declared types of its outputs.

    `runs` is False if ONNX Runtime is known to lack kernels for it.
    """

    proto: onnx.ModelProto
    nodes: tuple[onnx.NodeProto, ...]
    weights_dir: Path | None
    name: str
    source: str
    custom: Custom
    declared: Mapping[str, onnx.TypeProto]
    runs: bool = True


@dataclass(frozen=True, slots=True)
class Canonical:
    """Canonical model of a file, as ONNX and as a Graph."""

    proto: onnx.ModelProto
    graph: Graph
    folded: tuple[str, ...]
    lowering: Lowering | None = None

    def with_shapes(
        self, shapes: Mapping[str, Shape], custom: Custom, observed: Observed | None
    ) -> Graph:
        """Return the graph with `shapes` for values that the ONNX model leaves open."""
        origins = [node.origins for node in self.graph.nodes]
        with _filled(self.proto.graph, shapes):
            graph = _graph(self.proto, self.graph.name, origins, custom, observed)
        by_data = shaped_by_data(self.graph) & shapes.keys()
        marked = {name: replace(graph.tensors[name], measured=True) for name in by_data}
        return replace(graph, tensors={**graph.tensors, **marked})


def changed(made: Canonical, weights_dir: Path | None, where: str, custom: Custom) -> Canonical:
    """Return the canonical model rebuilt after a change within the nodes of its ONNX model."""
    proto = made.proto
    lowering = None
    if made.lowering is None:
        annotate(proto, weights_dir, {}, where, accepted=False, custom=custom)
    else:
        before = operations_of(proto.graph.node)
        run = lowered(proto, weights_dir, where, custom)
        annotate(proto, weights_dir, {}, where, accepted=True, custom=custom)
        lowering = lowering_of(proto.graph, run, before, weights_dir, where, custom)
    found = replace(made, lowering=lowering)
    return replace(found, graph=found.with_shapes({}, custom, None))


def canonicalise(file: Opened, level: str) -> Canonical:
    """Return the canonical form of a regularised model, which may be modified."""
    proto, weights_dir, where, custom = file.proto, file.weights_dir, file.source, file.custom
    originals = operations_of(file.nodes)
    stored = _contents(proto.graph)
    half = file.runs and mentions_half(proto)
    rewritten = level != "none"
    if rewritten:
        names = {op.name for op in originals}
        proto = _optimised(file, level, names if half else None)
        name_nodes(proto.graph.node, names)
        drop_inner_types(proto.graph)
        unshadow(proto.graph)
        sort_nodes(proto.graph, where)
    before = operations_of(proto.graph.node) if half else ()
    made = lowered(proto, weights_dir, where, custom) if half else None
    prune(proto)
    accepted = rewritten or half or not file.runs
    annotate(proto, weights_dir, file.declared, where, accepted=accepted, custom=custom)
    origins, folded = trace(
        originals,
        stored,
        operations_of(proto.graph.node),
        constant_names(proto.graph),
        [value.name for value in proto.graph.output],
    )
    if rewritten:
        _release_names(proto.graph.node, origins, {op.name for op in originals})
        origins = _sort_as_in_file(proto.graph, origins, originals, where)
    graph = _graph(proto, file.name, origins, custom, None)
    if made is None:
        return Canonical(proto, graph, folded)
    lowering = lowering_of(proto.graph, made, before, weights_dir, where, custom)
    return Canonical(proto, graph, folded, lowering)


def _optimised(file: Opened, level: str, half: Collection[str] | None) -> onnx.ModelProto:
    """Return the optimised model, without casts inserted for its 16-bit floats."""
    proto, weights_dir, where, custom = file.proto, file.weights_dir, file.source, file.custom
    fold_large = not too_much(proto)
    if half is None:
        made = optimise(proto, weights_dir, level, where, custom.libraries, fold_large)
    else:
        made = onnx.ModelProto()
        made.CopyFrom(proto)
        name_nodes(made.graph.node)
        # Hidden nodes may read constants, and are folded in the next pass.
        for _ in range(_ROUNDS):
            written = [name for node in made.graph.node for name in node.output if name]
            aside = hide(made.graph, inferred(made, written, custom))
            made = optimise(made, weights_dir, level, where, custom.libraries, fold_large)
            drop_inserted_casts(made.graph, half)
            show(made.graph, aside)
            stored = constant_names(made.graph)
            if not any(stored.keys() >= set(n.input)
                       for n in made.graph.node if n.name in aside.nodes):  # fmt: skip
                break
            drop_inner_types(made.graph)
            name_nodes(made.graph.node)
        sort_nodes(made.graph, where)
        fold_constants(made, weights_dir, where, custom)
    for node in made.graph.node:
        node.ClearField("doc_string")
    return made


def _release_names(
    nodes: Sequence[onnx.NodeProto], origins: Sequence[tuple[str, ...]], known: set[str]
) -> None:
    """Rename nodes to which folding gave the name of a file node that is not their origin."""
    for node, names in zip(nodes, origins, strict=True):
        if node.name in known and node.name not in names:
            node.name = ""
    name_nodes(nodes, known)


def _sort_as_in_file(
    graph: onnx.GraphProto,
    origins: Sequence[tuple[str, ...]],
    originals: Sequence[Operation],
    where: str,
) -> tuple[tuple[str, ...], ...]:
    """Order the nodes by the last original of each, as far as edges allow."""
    position = {op.name: i for i, op in enumerate(originals)}
    by_name = {node.name: names for node, names in zip(graph.node, origins, strict=True)}
    rank = [max(position[name] for name in names) for names in origins]
    sort_nodes(graph, where, rank)
    return tuple(by_name[node.name] for node in graph.node)


def _contents(graph: onnx.GraphProto) -> dict[str, bytes | None]:
    """Return the constants by name, with the contents of small ones, which optimisers may share."""
    found: dict[str, bytes | None] = dict.fromkeys(constant_names(graph))
    for tensor in graph.initializer:
        if (
            tensor.data_location != onnx.TensorProto.EXTERNAL
            and tensor.data_type != onnx.TensorProto.STRING
            and len(tensor.raw_data) <= _COMPARED_BYTES
            and math.prod(tensor.dims) <= _COMPARED_BYTES
        ):
            dims = list(tensor.dims)
            head = f"{tensor.data_type}:{dims}:".encode()
            content = tensor.raw_data
            if len(content) == math.prod(dims) * _AS_STORED.get(tensor.data_type, -1):
                found[tensor.name] = head + content
                continue
            # Broken tensors are reported by ONNX Runtime when it reads them.
            with suppress(Exception):
                found[tensor.name] = head + onnx.numpy_helper.to_array(tensor).tobytes()
    return found


@contextmanager
def _filled(graph: onnx.GraphProto, shapes: Mapping[str, Shape]) -> Iterator[None]:
    """Set the types of values to `shapes` within the context."""
    kept: list[tuple[onnx.ValueInfoProto, bytes]] = []
    for values in (graph.input, graph.value_info, graph.output):
        for value in values:
            if value.name in shapes:
                kept.append((value, value.type.SerializeToString()))
                element = value.type.tensor_type.elem_type
                kind = onnx.helper.make_tensor_type_proto(element, shapes[value.name])
                value.type.CopyFrom(kind)
    try:
        yield
    finally:
        for value, content in kept:
            value.type.ParseFromString(content)


def _graph(
    proto: onnx.ModelProto,
    name: str,
    origins: Sequence[tuple[str, ...]],
    custom: Custom,
    observed: Observed | None,
    path: str = "",
) -> Graph:
    """Return a typed model as a Graph; `path` is that of the node that contains it."""
    graph = proto.graph

    def inside(body: onnx.ModelProto, place: str) -> Graph:
        # Origins inside nodes are unknown.
        own = [(node.name,) for node in body.graph.node]
        return _graph(body, body.graph.name, own, custom, observed, place)

    shapes = {} if observed is None else observed.inner

    inner = inner_graphs(proto, custom.bodies, inside, shapes, path)
    nothing = Inner()
    tensors: dict[str, Tensor] = {}
    for values in (graph.input, graph.value_info, graph.output):
        for value in values:
            tensors[value.name] = to_tensor(value.name, value.type)
    for tensor in graph.initializer:
        kind = dtype_name(tensor.data_type)
        tensors[tensor.name] = Tensor(tensor.name, kind, tuple(tensor.dims))
    for sparse in graph.sparse_initializer:
        kind = dtype_name(sparse.values.data_type)
        tensors[sparse.values.name] = Tensor(sparse.values.name, kind, tuple(sparse.dims))
    functions = {key_of(function) for function in proto.functions}
    nodes = tuple(
        Node(
            id=i,
            name=node.name,
            op_type=node.op_type,
            domain=node.domain,
            inputs=tuple(node.input),
            outputs=tuple(node.output),
            captures=captures(node),
            attributes=Attributes(node),
            origins=origins[i],
            body=within.body,
            custom=is_custom(node, functions),
            whole=within.whole,
            branches=within.branches,
            held=(*within.held, *_listed(node)),
        )
        for i, node in enumerate(graph.node)
        for within in (inner.get(node.name, nothing),)
    )
    return Graph(
        name=name,
        nodes=nodes,
        tensors=tensors,
        inputs=tuple(value.name for value in graph.input),
        outputs=tuple(value.name for value in graph.output),
        constants=frozenset(constant_names(graph)),
        opsets={entry.domain: entry.version for entry in proto.opset_import},
        constant_values={
            name: tuple(array.ravel().tolist())
            for name, array in _arrays(graph, _INTEGERS, _SMALL_CONSTANT_ELEMENTS)
        },
        constant_numbers={
            name: float(array.ravel()[0])
            for name, array in _arrays(graph, _NUMBERS, 1)
            if array.size
        },
        seen=_seen(observed, path),
    )


def _arrays(
    graph: onnx.GraphProto, kinds: Collection[int], most: int
) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the constants of these types with at most `most` elements."""
    for tensor in graph.initializer:
        inline = tensor.data_location != onnx.TensorProto.EXTERNAL
        if inline and tensor.data_type in kinds and math.prod(tensor.dims) <= most:
            yield tensor.name, onnx.numpy_helper.to_array(tensor)


def _seen(observed: Observed | None, path: str) -> ControlFlow | None:
    """Return the observations of control flow directly below `path`, by name, or None."""
    if observed is None:
        return None
    # For a body that runs many times, the most frequent or mean observation counts.
    loops = any(f"{place}/body/" in path for place in observed.trips)
    # Branches taken on random inputs are not representative; numbers of turns are to some extent.
    branches = _below(observed.branches, path) if observed.given else {}
    return ControlFlow(branches, _below(observed.trips, path), observed.given and not loops)


def _below(found: Mapping[str, T], path: str) -> dict[str, T]:
    return {name.removeprefix(path): it for name, it in found.items() if name.startswith(path)}


def _listed(node: onnx.NodeProto) -> tuple[Tensor, ...]:
    """Return the number lists stored as attributes of an ``ai.onnx.ml`` op: trees, coefficients."""
    if node.domain != "ai.onnx.ml":
        return ()
    kinds = {onnx.AttributeProto.FLOATS: "float32", onnx.AttributeProto.INTS: "int64"}
    found: list[Tensor] = []
    for attribute in node.attribute:
        name = f"{node.name}/{attribute.name}"
        if attribute.type in kinds:
            size = len(attribute.floats) + len(attribute.ints)
            found.append(Tensor(name, kinds[attribute.type], (size,)))
        elif attribute.type == onnx.AttributeProto.TENSOR:
            kind = onnx.helper.make_tensor_type_proto(attribute.t.data_type, attribute.t.dims)
            found.append(to_tensor(name, kind))
    return tuple(found)
