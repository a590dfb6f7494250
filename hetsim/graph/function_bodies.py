"""What a call of a function stands for: its body as a graph, with the shapes of that call."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx
import onnx.inliner

from hetsim.errors import ModelError
from hetsim.graph.extension import FunctionKey, key_of
from hetsim.graph.graph import Graph

ToGraph = Callable[[onnx.ModelProto], Graph]


def function_bodies(
    proto: onnx.ModelProto,
    described: Mapping[FunctionKey, onnx.FunctionProto],
    to_graph: ToGraph,
) -> dict[str, Graph]:
    """Return the graph behind every node of `proto` that calls a function, by node name.

    Parameters
    ----------
    proto : onnx.ModelProto
        All its values are typed.
    described : mapping
        Functions that say what operators of libraries do, besides those of the model.
    to_graph : callable
        Makes a Graph of a typed model.

    A call whose inner types cannot be inferred has no entry. O(calls with their bodies):
    calls that differ in names alone are worked out once.
    """
    functions = {**described, **{key_of(function): function for function in proto.functions}}
    if not functions:
        return {}
    types = {
        value.name: value.type
        for values in (proto.graph.input, proto.graph.value_info, proto.graph.output)
        for value in values
    }
    stored = {tensor.name: tensor for tensor in proto.graph.initializer}
    known: dict[bytes, Graph | None] = {}
    found: dict[str, Graph] = {}
    for node in proto.graph.node:
        if (node.domain, node.op_type, node.overload) not in functions:
            continue
        call = _call(proto, node, types, stored)
        key = call.SerializeToString(deterministic=True)
        if key not in known:
            call.functions.extend(functions.values())
            known[key] = _body(call, to_graph)
        body = known[key]
        if body is not None:
            found[node.name] = body
    return found


def _call(
    proto: onnx.ModelProto,
    node: onnx.NodeProto,
    types: Mapping[str, onnx.TypeProto],
    stored: Mapping[str, onnx.TensorProto],
) -> onnx.ModelProto:
    """A model of the one node, its values named by position."""
    call = onnx.ModelProto(ir_version=proto.ir_version)
    call.opset_import.extend(proto.opset_import)
    graph = call.graph
    graph.name = "body"
    own = graph.node.add()
    own.CopyFrom(node)
    own.name = "call"
    for port, name in enumerate(node.input):
        if not name:
            continue
        own.input[port] = f"in{port}"
        tensor = stored.get(name)
        if tensor is not None and tensor.data_location != onnx.TensorProto.EXTERNAL:
            graph.initializer.add().CopyFrom(tensor)
            graph.initializer[-1].name = f"in{port}"
        elif tensor is not None:
            value = onnx.helper.make_tensor_value_info(f"in{port}", tensor.data_type, tensor.dims)
            graph.input.append(value)
        else:
            graph.input.add(name=f"in{port}").type.CopyFrom(types[name])
    for port, name in enumerate(node.output):
        if name:
            own.output[port] = f"out{port}"
            graph.output.add(name=f"out{port}").type.CopyFrom(types[name])
    return call


def _body(call: onnx.ModelProto, to_graph: ToGraph) -> Graph | None:
    from hetsim.graph.inference import annotate
    from hetsim.graph.structure import regularise

    try:
        flat = onnx.inliner.inline_local_functions(call)
        regularise(flat, "body")
        annotate(flat, None, {}, "body", accepted=True)
    except (ModelError, ValueError, RuntimeError, onnx.checker.ValidationError):
        return None
    return to_graph(flat)
