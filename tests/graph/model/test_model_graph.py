"""The canonical graph: constants, captures, functions, types, at every level."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from onnx_builders import (
    assert_bitwise_equal,
    check_consistent,
    function_model,
    load,
    make_model,
    op,
    open_exactly,
    run_whole,
    value,
)


@pytest.mark.parametrize("level", ["none", "basic", "extended"])
def test_constants_are_apart(tmp_path: Path, level: str) -> None:
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("sv", onnx.TensorProto.FLOAT, [2], [1.0, 2.0]),
        helper.make_tensor("si", onnx.TensorProto.INT64, [2], [0, 4]),
        [2, 3],
    )
    proto = make_model(
        [
            op("Constant", "", "one", value=helper.make_tensor("", 1, [1], [3.0])),
            op("Constant", "", "f", value_float=2.0),
            op("Constant", "", "fs", value_floats=[1.0, 2.0, 3.0]),
            op("Constant", "", "shape", value_ints=[3, 2]),
            op("Constant", "", "sp", sparse_value=sparse),
            op("Constant", "", "k", value_int=1),
            op("Add", "x one", "a"),
            op("Mul", "a f", "b"),
            op("Mul", "b fs", "c"),
            op("Add", "c sp", "d"),
            op("Add", "d w", "e"),
            op("Reshape", "e shape", "g"),
            op("Gather", "g k", "y"),
        ],
        [value("x"), value("w")],
        [value("y", None)],
        {"w": np.full((2, 3), 0.5, np.float32), "unused": np.ones(3, np.float32)},
        ir=3,
    )
    model = load(proto, tmp_path, canonical=level)
    check_consistent(model)
    assert model.graph.inputs == ("x",)
    assert "w" in model.graph.constants
    assert "unused" not in model.graph.tensors
    assert not [node for node in model.graph.nodes if node.op_type == "Constant"]
    constants = {f"Constant_{i}" for i in range(6)}
    assert set(model.folded) >= constants
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    dense = np.array([[1, 0, 0], [0, 2, 0]], np.float32)
    expected = (((x + 3) * 2) * np.array([1, 2, 3], np.float32) + dense + 0.5).reshape(3, 2)[1]
    np.testing.assert_array_equal(run_whole(model, {"x": x})["y"], expected)
    if level == "none":
        assert model.graph.constant_values["shape"] == (3, 2)
        assert model.graph.constant_values["k"] == (1,)
        assert model.graph.tensors["sp"].shape == (2, 3)
        assert constants == set(model.folded)


def test_string_constants(tmp_path: Path) -> None:
    proto = make_model(
        [
            op("Constant", "", "words", value_strings=[b"a", b"b"]),
            op("Constant", "", "word", value_string=b"a"),
            op("Equal", "x words", "p"),
            op("Equal", "x word", "q"),
            op("Or", "p q", "y"),
        ],
        [value("x", (2,), "STRING")],
        [value("y", (2,), "BOOL")],
    )
    model = load(proto, tmp_path)
    check_consistent(model)
    assert model.graph.tensors["words"].dtype == "string"
    answer = run_whole(model, {"x": np.array(["c", "b"], dtype=object)})["y"]
    assert answer.tolist() == [False, True]


def test_constant_values_are_small_integers_only(tmp_path: Path) -> None:
    proto = make_model(
        [op("Gather", "t i", "h"), op("Gather", "big h", "y")],
        [value("t", (5,), "INT64")],
        [value("y", None, "INT64")],
        {"i": np.array([[1, 2]], np.int32), "big": np.arange(2000)},
    )
    model = load(proto, tmp_path, canonical="none")
    assert model.graph.constant_values == {"i": (1, 2)}


def branch(nodes: list[onnx.NodeProto], output: str, **constants: Any) -> onnx.GraphProto:
    return helper.make_graph(
        nodes,
        "body",
        [],
        [value(output, None)],
        [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )


def test_captures_with_nesting_and_shadowing(tmp_path: Path) -> None:
    inner = branch([op("Add", "deep t", "iy")], "iy")
    then = branch(
        [
            op("Relu", "outer", "t"),
            op("If", "c", "ty", then_branch=inner, else_branch=branch([op("Neg", "t", "e")], "e")),
        ],
        "ty",
    )
    # `own` is defined in this body and nowhere else; `w` is a constant of the outer graph.
    other = branch(
        [op("Add", "own w", "o1"), op("Mul", "o1 outer", "ey")], "ey", own=np.ones(1, np.float32)
    )
    proto = make_model(
        [
            op("Relu", "x", "outer", "first"),
            op("Neg", "x", "deep", "second"),
            op("If", "c", "y", "if", then_branch=then, else_branch=other),
        ],
        [value("x"), value("c", (), "BOOL")],
        [value("y", None)],
        {"w": np.ones(1, np.float32)},
    )
    for level in ("none", "basic"):
        model = load(proto, tmp_path, canonical=level)
        check_consistent(model)
        node = next(node for node in model.graph.nodes if node.name == "if")
        assert node.id == 2
        # The optimiser folds `own + w` inside the body.
        assert node.captures == {"none": ("w", "outer", "deep"), "basic": ("outer", "deep")}[level]
        assert ("w" in model.graph.constants) == (level == "none")


def test_a_constant_condition_is_inlined_and_traced(tmp_path: Path) -> None:
    bodies = {
        "then_branch": branch([op("Relu", "x", "u"), op("Abs", "u", "t")], "t"),
        "else_branch": branch([op("Neg", "x", "e")], "e"),
    }
    proto = make_model(
        [op("If", "c", "h", "if", **bodies), op("Exp", "h", "y", "exp")],
        [value("x")],
        [value("y", None)],
        {"c": np.array(True)},
    )
    model = load(proto, tmp_path)
    check_consistent(model)
    assert [node.op_type for node in model.graph.nodes] == ["Relu", "Abs", "Exp"]
    assert [node.origins for node in model.graph.nodes] == [("if",), ("if",), ("exp",)]


def test_functions_are_calls_at_none_and_inlined_above(tmp_path: Path) -> None:
    plain = load(function_model(), tmp_path, canonical="none")
    check_consistent(plain)
    assert [(n.domain, n.op_type) for n in plain.graph.nodes] == [("my", "Twice"), ("", "Exp")]
    assert plain.graph.tensors["h"].shape == (2, 3)
    assert plain.graph.opsets == {"": 20, "my": 1}
    basic = load(function_model(), tmp_path)
    check_consistent(basic)
    assert [n.op_type for n in basic.graph.nodes] == ["Neg", "Relu", "Exp"]
    assert [n.origins for n in basic.graph.nodes] == [("call",), ("call",), ("exp",)]
    x = {"x": np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)}
    assert_bitwise_equal(run_whole(plain, x), run_whole(basic, x))


def test_what_onnx_runtime_saves_with_a_name_twice_is_made_readable(tmp_path: Path) -> None:
    # It computes these in single precision, and names its casts alike in the graph and its bodies.
    branches = [
        onnx.helper.make_graph(
            [op(kind, "a", "b")], kind, [], [value("b", (4, 4), dtype="FLOAT16")]
        )
        for kind in ("Softmax", "Neg")
    ]
    proto = make_model(
        [
            op("MatMul", "x x", "a"),
            op("If", "flag", "y", then_branch=branches[0], else_branch=branches[1]),
        ],
        [value("x", (4, 4), dtype="FLOAT16"), value("flag", (), dtype="BOOL")],
        [value("y", (4, 4), dtype="FLOAT16")],
    )
    model = load(proto, tmp_path)
    x = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float16)
    for flag in (True, False):
        given = {"x": x, "flag": np.array(flag)}
        wanted = open_exactly(proto, None).run(None, given)
        found = open_exactly(model.proto, None).run(None, given)
        assert wanted[0].tobytes() == found[0].tobytes()
