"""Graphs inside nodes: function bodies and control-flow bodies, with their types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import onnx
import onnx.inliner

from hetsim.errors import HetsimError, OutOfRoom
from hetsim.graph.graph import Graph, Tensor
from hetsim.graph.reading.onnx_file import INLINE_BYTES
from hetsim.graph.reading.onnx_types import to_tensor
from hetsim.graph.reading.structure import (
    FunctionKey,
    constant_names,
    free_names,
    key_of,
    prune,
    regularise,
    stated_types,
)
from hetsim.graph.reading.structure import replace as replace_field
from hetsim.graph.shapes.inference import annotate, body_types
from hetsim.graph.work import key_of_op, ruled_ops
from hetsim.graph.work.control import CONTROL_FLOW

ToGraph = Callable[[onnx.ModelProto, str], Graph]
"""Function from a typed model, and the path of the node that contains it, to a Graph."""


@dataclass(frozen=True, slots=True)
class Inner:
    """Inner graph of one node; fields as in ``Node``."""

    body: Graph | None = None
    whole: bool = False
    branches: Mapping[str, Graph | None] = field(default_factory=dict)
    held: tuple[Tensor, ...] = ()


@dataclass(frozen=True, slots=True)
class _InnerScope:
    """Typed model, with the function that makes a Graph of a model inside it."""

    proto: onnx.ModelProto
    types: Mapping[str, onnx.TypeProto]
    stored: Mapping[str, onnx.TensorProto]
    functions: Mapping[FunctionKey, onnx.FunctionProto]
    to_graph: ToGraph
    shapes: Mapping[str, Mapping[str, tuple[int, ...]]]
    path: str
    known: dict[bytes, Graph | None]

    def type_of(self, name: str) -> onnx.TypeProto:
        tensor = self.stored.get(name)
        if tensor is not None:
            return onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
        return self.types[name]


def inner_graphs(
    proto: onnx.ModelProto,
    described: Mapping[FunctionKey, onnx.FunctionProto],
    to_graph: ToGraph,
    shapes: Mapping[str, Mapping[str, tuple[int, ...]]],
    path: str = "",
) -> dict[str, Inner]:
    """Return the inner graphs of the nodes of `proto`, by node name; None if types stay open.

    All values are typed. `described` are functions that describe operators of libraries, `shapes`
    as in ``Observed.inner``, `path` that of the containing node. O(calls with bodies).
    """
    types = stated_types(proto.graph.input, proto.graph.value_info, proto.graph.output)
    stored = {tensor.name: tensor for tensor in proto.graph.initializer}
    for sparse in proto.graph.sparse_initializer:
        # Operators read it as a dense tensor, of which only the type is needed here.
        name, kind = sparse.values.name, sparse.values.data_type
        stored[name] = onnx.TensorProto(
            name=name, data_type=kind, dims=sparse.dims, data_location=onnx.TensorProto.EXTERNAL
        )
    functions = {**described, **{key_of(function): function for function in proto.functions}}
    scope = _InnerScope(proto, types, stored, functions, to_graph, shapes, path, {})
    ruled = frozenset(ruled_ops())
    found: dict[str, Inner] = {}
    for node in proto.graph.node:
        if key_of_call(node) in functions:
            body, own = _body_of_call(scope, node, tuple(functions.values()))
            held = _held(node.name, "", body, own)
            inner = Inner(body, whole=key_of_call(node) in described, held=held)
        elif key_of_op(node.op_type, node.domain) in CONTROL_FLOW:
            inner = _controlled(scope, node)
        elif key_of_op(node.op_type, node.domain) not in ruled:
            inner = _defined(scope, node)
        else:
            continue
        found[node.name] = inner
    return found


def key_of_call(node: onnx.NodeProto) -> FunctionKey:
    """Return the key of the function that `node` would call."""
    return node.domain, node.op_type, node.overload


def _defined(scope: _InnerScope, node: onnx.NodeProto) -> Inner:
    """Return the inner graph of an operator without a rule, by the standard's function body."""
    held = tuple(
        tensor
        for attribute in node.attribute
        for tensor in _stored_in(attribute.g, f"{node.name}/{attribute.name}/")
    )
    versions = {entry.domain: entry.version for entry in scope.proto.opset_import}
    kinds = [scope.type_of(name) if name else onnx.TypeProto() for name in node.input]
    try:
        function = _standard_function(node, versions, kinds)
        if function is None:
            return Inner(held=held)
        body, _ = _body_of_call(scope, node, (function,))
    except (onnx.defs.SchemaError, RuntimeError, ValueError, TypeError, KeyError):
        return Inner(held=held)
    return Inner(body, whole=True, held=held)


def _standard_function(
    node: onnx.NodeProto, versions: Mapping[str, int], kinds: Sequence[onnx.TypeProto]
) -> onnx.FunctionProto | None:
    version = versions.get(node.domain, 1)
    # The stubs lack the functions of schemas.
    schema: Any = onnx.defs.get_schema(node.op_type, version, node.domain)
    if schema.has_function:
        function = onnx.FunctionProto()
        function.CopyFrom(schema.function_body)
        for entry in function.opset_import:
            # It holds for later versions up to that of the schema, which is the requested one.
            entry.version = versions.get(entry.domain, entry.version)
    elif schema.has_context_dependent_function:
        content = schema.get_context_dependent_function(
            node.SerializeToString(), [kind.SerializeToString() for kind in kinds]
        )
        function = onnx.FunctionProto.FromString(content)
    else:
        return None
    function.domain, function.name, function.overload = node.domain, node.op_type, node.overload
    return function


def _body_of_call(
    scope: _InnerScope, node: onnx.NodeProto, functions: Sequence[onnx.FunctionProto]
) -> tuple[Graph | None, tuple[str, ...]]:
    """Return the graph of a call, and its constants that belong to the function."""
    call, given = _call(scope, node)
    key = call.SerializeToString(deterministic=True)
    if key not in scope.known:
        call.functions.extend(functions)
        imported = {entry.domain for entry in call.opset_import}
        for function in functions:
            for entry in function.opset_import:
                if entry.domain not in imported:
                    imported.add(entry.domain)
                    call.opset_import.add(domain=entry.domain, version=entry.version)
        try:
            flat = onnx.inliner.inline_local_functions(call)
        except (ValueError, RuntimeError, onnx.checker.ValidationError):
            scope.known[key] = None
        else:
            # Calls stay if operator set versions conflict.
            stays = key_of_call(node) in map(key_of_call, flat.graph.node)
            path = f"{scope.path}{node.name}/"
            scope.known[key] = None if stays else _typed(flat, scope, path, given)
    body = scope.known[key]
    own = () if body is None else tuple(sorted(body.constants - given))
    return body, own


def _call(scope: _InnerScope, node: onnx.NodeProto) -> tuple[onnx.ModelProto, frozenset[str]]:
    """Return a model of the one node, with values named by position; and the constants of it."""
    call = onnx.ModelProto(ir_version=scope.proto.ir_version)
    call.opset_import.extend(scope.proto.opset_import)
    graph = call.graph
    graph.name = "body"
    own = graph.node.add()
    own.CopyFrom(node)
    own.name = "call"
    constants = set()
    for port, name in enumerate(node.input):
        if not name:
            continue
        own.input[port] = f"in{port}"
        if name in scope.stored:
            constants.add(f"in{port}")
        _give(scope, graph, name, f"in{port}")
    for port, name in enumerate(node.output):
        if name:
            own.output[port] = f"out{port}"
            graph.output.add(name=f"out{port}").type.CopyFrom(scope.types[name])
    return call, frozenset(constants)


def _give(scope: _InnerScope, graph: onnx.GraphProto, name: str, known_as: str) -> None:
    """Add an outer value to `graph`: small constants with content, all others by type."""
    tensor = scope.stored.get(name)
    if tensor is not None and not _is_heavy(tensor):
        graph.initializer.add().CopyFrom(tensor)
        graph.initializer[-1].name = known_as
    else:
        graph.input.add(name=known_as).type.CopyFrom(scope.type_of(name))


def _is_heavy(tensor: onnx.TensorProto) -> bool:
    return tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.ByteSize() > INLINE_BYTES


def _controlled(scope: _InnerScope, node: onnx.NodeProto) -> Inner:
    """Return the graphs among the attributes of a control-flow node."""
    branches: dict[str, Graph | None] = {}
    held: list[Tensor] = []
    for attribute in node.attribute:
        if not attribute.HasField("g"):
            continue
        outer = tuple(dict.fromkeys(free_names(attribute.g)))
        given = frozenset(name for name in outer if name in scope.stored)
        graph = _branch(scope, node, attribute, outer, {})
        seen = scope.shapes.get(f"{scope.path}{node.name}/{attribute.name}", {})
        if graph is not None and node.op_type == "Loop" and seen:
            grown = _grown(node, graph, seen)
            # A value that grows from turn to turn has its largest observed size.
            graph = _branch(scope, node, attribute, outer, grown) if grown else graph
        branches[attribute.name] = graph
        if graph is None:
            held += _stored_in(attribute.g, f"{node.name}/{attribute.name}/")
        else:
            own = tuple(sorted(graph.constants - given))
            held += _held(node.name, f"{attribute.name}/", graph, own)
    return Inner(None, False, branches, tuple(held))


def _branch(
    scope: _InnerScope,
    node: onnx.NodeProto,
    attribute: onnx.AttributeProto,
    outer: Sequence[str],
    grown: Mapping[int, tuple[int, ...]],
) -> Graph | None:
    """Return the Graph of an attribute that reads `outer` values; `grown` are input shapes."""
    branch = onnx.ModelProto(ir_version=scope.proto.ir_version)
    branch.opset_import.extend(scope.proto.opset_import)
    branch.functions.extend(scope.proto.functions)
    branch.graph.CopyFrom(attribute.g)
    try:
        _type_inputs(scope, node, branch.graph)
        for place, shape in grown.items():
            kind = branch.graph.input[place].type
            element = kind.tensor_type.elem_type
            kind.CopyFrom(onnx.helper.make_tensor_type_proto(element, shape))
        for name in outer:
            _give(scope, branch.graph, name, name)
    except KeyError:
        # A value of unknown type: an outer one that only ONNX Runtime knows.
        return None
    given = frozenset(name for name in outer if name in scope.stored)
    return _typed(branch, scope, f"{scope.path}{node.name}/{attribute.name}/", given)


def _grown(
    node: onnx.NodeProto, body: Graph, seen: Mapping[str, tuple[int, ...]]
) -> dict[int, tuple[int, ...]]:
    """Return by input of a Loop body the observed shape of its growing loop-carried value."""
    found: dict[int, tuple[int, ...]] = {}
    for place, after in enumerate(body.outputs[1 : max(1, len(node.input) - 1)], start=2):
        before = body.tensors[body.inputs[place]]
        if before.shape != body.tensors[after].shape and after in seen:
            found[place] = seen[after]
    return found


def _type_inputs(scope: _InnerScope, node: onnx.NodeProto, graph: onnx.GraphProto) -> None:
    """Set the types of body inputs to those of their initial values, in place."""
    kinds = [scope.type_of(name) if name else None for name in node.input]
    version = next((e.version for e in scope.proto.opset_import if not e.domain), 1)
    for value, kind in zip(graph.input, body_types(node, kinds, version), strict=False):
        if kind is not None:
            value.type.CopyFrom(kind)


def _typed(
    proto: onnx.ModelProto, scope: _InnerScope, path: str, given: frozenset[str]
) -> Graph | None:
    """Return the Graph of a model inside a node; `given` are outer constants."""
    try:
        regularise(proto, "body")
        prune(proto)
        heavy = [tensor for tensor in proto.graph.initializer if _is_heavy(tensor)]
        for tensor in heavy:
            # Types are inferred on copies and by sessions, without weights.
            kind = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
            proto.graph.input.add(name=tensor.name).type.CopyFrom(kind)
        light = [tensor for tensor in proto.graph.initializer if not _is_heavy(tensor)]
        names = frozenset(tensor.name for tensor in heavy)
        replace_field(proto.graph.initializer, light)
        annotate(proto, None, {}, "body", accepted=True)
        _fill(proto.graph, scope.shapes.get(path.removesuffix("/"), {}))
        graph = scope.to_graph(proto, path)
    except OutOfRoom:
        raise
    except (HetsimError, ValueError, RuntimeError, KeyError, onnx.checker.ValidationError):
        return None
    constants = graph.constants | names | given
    inputs = tuple(name for name in graph.inputs if name not in constants)
    return replace(graph, inputs=inputs, constants=constants & graph.tensors.keys())


def _fill(graph: onnx.GraphProto, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Set the observed shapes of values that inference leaves open, in place."""
    for value in (*graph.value_info, *graph.output):
        kind = value.type.tensor_type
        if value.name in shapes and value.type.HasField("tensor_type"):
            dims = [dim.dim_value for dim in kind.shape.dim if dim.HasField("dim_value")]
            if not kind.HasField("shape") or len(dims) < len(kind.shape.dim):
                del kind.shape.dim[:]
                kind.shape.SetInParent()
                for size in shapes[value.name]:
                    kind.shape.dim.add(dim_value=size)


def _held(node: str, place: str, graph: Graph | None, own: Sequence[str]) -> tuple[Tensor, ...]:
    if graph is None:
        return ()
    tensors = [graph.tensors[name] for name in own]
    tensors += [tensor for inner in graph.nodes for tensor in inner.held]
    return tuple(replace(tensor, name=f"{node}/{place}{tensor.name}") for tensor in tensors)


def _stored_in(graph: onnx.GraphProto, prefix: str) -> list[Tensor]:
    """Return the constants of a body without a Graph."""
    found: list[Tensor] = []
    for tensor in graph.initializer:
        kind = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
        found.append(to_tensor(f"{prefix}{tensor.name}", kind))
    taken = constant_names(graph)
    for node in graph.node:
        for attribute in node.attribute:
            if (
                attribute.HasField("t")
                and node.op_type == "Constant"
                and node.output[0] not in taken
            ):
                kind = onnx.helper.make_tensor_type_proto(attribute.t.data_type, attribute.t.dims)
                found.append(to_tensor(f"{prefix}{node.output[0]}", kind))
            elif attribute.HasField("g"):
                found += _stored_in(attribute.g, f"{prefix}{node.name}/{attribute.name}/")
    return found
