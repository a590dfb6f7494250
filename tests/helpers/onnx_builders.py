"""Small ONNX models for tests, and the session in which parts and wholes are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper

from hetsim.graph.extract import extract
from hetsim.graph.loading import load_model
from hetsim.graph.model import Model

Shape = Sequence[int | str | None] | None


def value(name: str, shape: Shape = (2, 3), dtype: str = "FLOAT") -> onnx.ValueInfoProto:
    """A typed input or output; a dtype of "" gives one without a type."""
    if not dtype:
        return onnx.ValueInfoProto(name=name)
    return helper.make_tensor_value_info(name, getattr(onnx.TensorProto, dtype), shape)


def op(
    op_type: str, inputs: str, outputs: str, name: str = "", **attributes: Any
) -> onnx.NodeProto:
    """A node; values are separated by spaces, and ``-`` is an absent one."""
    reads = ["" if part == "-" else part for part in inputs.split()]
    writes = ["" if part == "-" else part for part in outputs.split()]
    return helper.make_node(op_type, reads, writes, name=name, **attributes)


def make_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    constants: Mapping[str, Any] | None = None,
    *,
    opset: int = 20,
    ir: int = 9,
    domains: Mapping[str, int] | None = None,
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    """A model with constants from arrays."""
    graph = helper.make_graph(
        list(nodes),
        "test",
        list(inputs),
        list(outputs),
        [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()],
    )
    imports = [helper.make_opsetid("", opset)]
    imports += [helper.make_opsetid(domain, v) for domain, v in (domains or {}).items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir, functions=list(functions))


def save(proto: onnx.ModelProto, folder: Path, name: str = "m.onnx") -> Path:
    """Write the model as it is, without any check."""
    path = folder / name
    path.write_bytes(proto.SerializeToString())
    return path


def open_exactly(proto: onnx.ModelProto, weights_dir: Path | None) -> ort.InferenceSession:
    """A session whose bits depend on nothing but the graph."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.disable_prepacking", "1")
    if weights_dir is not None:
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", str(weights_dir)
        )
    return ort.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def run_whole(model: Model, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Outputs of the canonical model in one session."""
    session = open_exactly(model.proto, model.weights_dir)
    return dict(zip(model.graph.outputs, session.run(None, dict(inputs)), strict=True))


def run_parts(
    model: Model, inputs: Mapping[str, Any], parts: Sequence[Sequence[int]]
) -> dict[str, Any]:
    """Values of the model run part by part, outputs that belong to no node left out."""
    values: dict[str, Any] = dict(inputs)
    for nodes in parts:
        part = extract(model, nodes)
        session = open_exactly(part.proto, model.weights_dir)
        feeds = {name: values[name] for name in part.inputs}
        values.update(zip(part.outputs, session.run(list(part.outputs), feeds), strict=True))
    return {name: values[name] for name in model.graph.outputs if name in values}


def bits(value: Any) -> Any:
    """Something that is equal for two values exactly where their bits are."""
    if isinstance(value, list):
        return [bits(entry) for entry in value]
    if isinstance(value, dict):
        return {key: bits(entry) for key, entry in value.items()}
    if value is None or isinstance(value, str | int | float):
        return value
    if value.dtype == object:
        return value.tolist()
    return value.dtype.str, value.shape, value.tobytes()


def assert_bitwise_equal(one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    """Same names, same bits."""
    assert one.keys() == other.keys()
    for name in one:
        assert bits(one[name]) == bits(other[name]), name


def load(proto: onnx.ModelProto, folder: Path, **options: Any) -> Model:
    """The model, through a file in `folder`."""
    return load_model(save(proto, folder), **options)


def check_consistent(model: Model) -> None:
    """What every Model promises of its Graph and its ModelProto."""
    graph, stored = model.graph, model.proto.graph
    assert [node.id for node in graph.nodes] == list(range(len(graph.nodes)))
    assert [node.name for node in graph.nodes] == [node.name for node in stored.node]
    assert len({node.name for node in graph.nodes}) == len(graph.nodes)
    known = {*graph.inputs, *graph.constants}
    for node, proto in zip(graph.nodes, stored.node, strict=True):
        assert node.inputs == tuple(proto.input)
        assert set(node.reads) <= known, node.name
        known.update(node.writes)
        assert node.origins
        assert len(set(node.origins)) == len(node.origins)
    assert known == set(graph.tensors)
    assert set(graph.outputs) <= known
    claimed = {name for node in graph.nodes for name in node.origins}
    assert claimed | set(model.folded) == set(model.original_nodes)
    assert not claimed & set(model.folded)
    for name in model.original_nodes:
        for canonical in model.canonical_names(name):
            assert name in next(n.origins for n in graph.nodes if n.name == canonical)


def function_model() -> onnx.ModelProto:
    """A call of a function that calls another."""
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("my", 1)]
    inner = helper.make_function("my", "Half", ["a"], ["b"], [op("Neg", "a", "b")], imports)
    outer = helper.make_function(
        "my", "Twice", ["a"], ["c"], [op("Half", "a", "b", domain="my"), op("Relu", "b", "c")],
        imports,
    )  # fmt: skip
    return make_model(
        [op("Twice", "x", "h", "call", domain="my"), op("Exp", "h", "y", "exp")],
        [value("x")],
        [value("y", None)],
        domains={"my": 1},
        functions=[inner, outer],
    )


WIDE = 64
"""Weights of WIDE x WIDE are no small constants: their contents are not looked at."""


def _product(name: str, columns: int) -> onnx.GraphProto:
    """A branch that multiplies the outer `x` by weights of its own."""
    weights = np.ones((WIDE, columns), np.float32)
    return helper.make_graph(
        [op("MatMul", "x w", f"{name}_p"), op("ReduceMax", f"{name}_p", f"{name}_out", axes=[1])],
        name,
        [],
        [value(f"{name}_out", None)],
        [onnx.numpy_helper.from_array(weights, "w")],
    )


def if_model(dear: int = WIDE, cheap: int = WIDE // 2) -> onnx.ModelProto:
    """A choice between two products of different width, by an input."""
    node = op(
        "If", "c", "y", "choice", then_branch=_product("t", dear), else_branch=_product("e", cheap)
    )
    return make_model(
        [node], [value("c", [], "BOOL"), value("x", [2, WIDE])], [value("y", [2, 1])], opset=17
    )


def texts_model() -> onnx.ModelProto:
    """A product, and texts of which nobody knows how long they are."""
    nodes = [
        op("MatMul", "x w", "y"),
        op("StringConcat", "t t", "u", name="twice"),
    ]
    return make_model(
        nodes,
        [value("x", [8, 8]), value("t", [3], "STRING")],
        [value("y", [8, 8]), value("u", [3], "STRING")],
        {"w": np.ones((8, 8), np.float32)},
    )
