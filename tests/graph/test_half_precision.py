"""16-bit floats: found wherever a model has them, and their casts nodes of the graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_builders import (
    assert_bitwise_equal,
    check_consistent,
    load,
    make_model,
    op,
    open_exactly,
    run_parts,
    value,
)

from hetsim.graph.half_precision import mentions_half

HALF = TensorProto.FLOAT16
CAST = [op("Cast", "x", "h", to=HALF), op("Cast", "h", "y", to=1)]


def body(nodes: list[onnx.NodeProto]) -> onnx.GraphProto:
    return helper.make_graph(nodes, "body", [], [value(nodes[-1].output[0], None)])


def with_function() -> onnx.ModelProto:
    imports = [helper.make_opsetid("", 20)]
    return make_model(
        [op("F", "x", "y", domain="my")],
        [value("x")],
        [value("y")],
        domains={"my": 1},
        functions=[helper.make_function("my", "F", ["x"], ["y"], CAST, imports)],
    )


def with_sequence() -> onnx.ModelProto:
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(HALF, None))
    return make_model(
        [op("SequenceLength", "s", "y")],
        [helper.make_value_info("s", kind)],
        [value("y", (), "INT64")],
    )


@pytest.mark.parametrize(
    "proto",
    [
        make_model([op("Neg", "x", "y")], [value("x", (1,), "FLOAT16")], [value("y", None, "")]),
        make_model([op("Cast", "k", "y", to=1)], [], [value("y")], {"k": np.ones(1, np.float16)}),
        make_model(CAST, [value("x")], [value("y")]),
        make_model(
            [op("RandomNormal", "", "y", dtype=HALF, shape=[1])], [], [value("y", None, "FLOAT16")]
        ),
        make_model(
            [op("ConstantOfShape", "s", "y", value=helper.make_tensor("", HALF, [1], [1.0]))],
            [value("s", (1,), "INT64")],
            [value("y", None, "FLOAT16")],
        ),
        make_model(
            [op("If", "c", "y", then_branch=body(CAST), else_branch=body([op("Neg", "x", "z")]))],
            [value("x"), value("c", (), "BOOL")],
            [value("y", None)],
        ),
        with_function(),
        with_sequence(),
    ],
    ids=["input", "constant", "cast", "dtype", "tensor", "body", "function", "sequence"],
)
def test_it_is_found_wherever_it_is(proto: onnx.ModelProto) -> None:
    assert mentions_half(proto)


def test_other_tens_are_no_type() -> None:
    proto = make_model(
        [op("Pad", "x p", "a"), op("LRN", "a", "b", size=10), op("Cast", "b", "y", to=1)],
        [value("x", (10, 10, 10, 10))],
        [value("y", None)],
        {"p": np.full(8, 10)},
    )
    assert not mentions_half(proto)


def test_the_casts_of_the_runtime_become_nodes(tmp_path: Path) -> None:
    """x @ w is not rounded before the softmax reads it: a cut between them must not round."""
    rng = np.random.default_rng(0)
    proto = make_model(
        [op("MatMul", "x w", "a", "mm"), op("Tanh", "a", "b", "tanh"), op("MatMul", "b w", "y")],
        [value("x", (16, 16), "FLOAT16")],
        [value("y", None, "FLOAT16")],
        {"w": rng.standard_normal((16, 16)).astype(np.float16)},
    )
    model = load(proto, tmp_path, canonical="none")
    check_consistent(model)
    kinds = [node.op_type for node in model.graph.nodes]
    assert [kind for kind in kinds if kind != "Cast"] == ["MatMul", "Tanh", "MatMul"]
    assert kinds.count("Cast") >= 2
    inner = model.graph.nodes[kinds.index("Tanh")].inputs[0]
    assert model.graph.tensors[inner].dtype == "float32"
    x = {"x": rng.standard_normal((16, 16)).astype(np.float16)}
    whole = dict(zip(["y"], open_exactly(proto, None).run(None, x), strict=True))
    alone = [[node.id] for node in model.graph.nodes]
    assert_bitwise_equal(run_parts(model, x, alone), whole)
