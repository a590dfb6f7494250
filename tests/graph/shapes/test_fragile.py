"""Operators whose inference ends the process where an input has no type do not get to it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import hetsim
from hetsim.graph.shapes.inference import FRAGILE, with_types
from onnx_builders import make_model, op, save, value

VERSIONS = {"": (9, 20, 22), "ai.onnx.ml": (1, 2, 4, 5)}
LABELS = {"keys_strings": ["a"], "values_int64s": [3]}


def of_no_type(op_type: str, domain: str, version: int) -> onnx.ModelProto:
    """The operator behind one that nobody knows, in the graph, a branch and a function."""
    unknown = op("Nobody", "x", "u", domain="nobody")
    node = op(op_type, "u", "y", domain=domain)
    inner = helper.make_graph([unknown, node], "inner", [], [value("y", None, "")])
    branch = op("If", "yes", "b", then_branch=inner, else_branch=inner)
    imports = [helper.make_opsetid(domain, version), helper.make_opsetid("nobody", 1)]
    imports += [helper.make_opsetid("", 20)] * bool(domain)
    function = helper.make_function("local", "F", ["x"], ["y"], [unknown, node], imports)
    proto = make_model(
        [unknown, node, branch, op("F", "x", "f", domain="local")],
        [value("x"), value("yes", (), "BOOL")],
        [value(name, None, "") for name in "ybf"],
        domains={"nobody": 1, "local": 1},
        functions=[function],
    )
    del proto.opset_import[:]
    proto.opset_import.extend([*imports, helper.make_opsetid("local", 1)])
    return proto


def infer_all() -> None:
    """Infer every one of them; the process ends where one of them is let through."""
    for domain, op_type in sorted(FRAGILE):
        for version in VERSIONS[domain]:
            proto = of_no_type(op_type, domain, version)
            typed = with_types(proto)
            assert [node.op_type for node in typed.graph.node] == ["Nobody", op_type, "If", "F"]
            assert list(typed.opset_import) == list(proto.opset_import)


def test_inference_outlives_them() -> None:
    # Where it did not, this process would not, either.
    code = "import test_fragile; test_fragile.infer_all()"
    here = Path(__file__)
    paths = [str(here.parent), str(here.parents[2] / "helpers"), str(here.parents[3])]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {paths}; {code}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("level", ["none", "basic"])
def test_a_model_that_has_one_behind_an_op_of_the_runtime_s_own_is_read(
    tmp_path: Path, level: str
) -> None:
    nodes = [
        op("FusedMatMul", "x w", "m", domain="com.microsoft", alpha=2.0),
        op("EyeLike", "m", "e"),
        op("Add", "e m", "y"),
        op("RegexFullMatch", "s", "r", pattern="a.*"),
        op("LabelEncoder", "s", "n", domain="ai.onnx.ml", **LABELS),
    ]
    proto = make_model(
        nodes,
        [value("x", (2, 3)), value("s", (4,), "STRING")],
        [value("y", None), value("r", None, "BOOL"), value("n", None, "INT64")],
        {"w": np.ones((3, 5), np.float32)},
        domains={"com.microsoft": 1, "ai.onnx.ml": 2},
    )
    graph = hetsim.load_model(save(proto, tmp_path), canonical=level).graph
    found = {name: graph.tensors[name] for name in "ern"}
    assert {name: (one.dtype, one.shape) for name, one in found.items()} == {
        "e": ("float32", (2, 5)),
        "r": ("bool", (4,)),
        "n": ("int64", (4,)),
    }


def test_types_that_nodes_tell_are_those_of_onnx() -> None:
    nodes = [
        op("EyeLike", "x", "a"),
        op("EyeLike", "x", "b", dtype=TensorProto.INT8),
        op("LabelEncoder", "s", "c", domain="ai.onnx.ml", keys_strings=["a"], values_floats=[1.0]),
        op("LabelEncoder", "s", "d", domain="ai.onnx.ml", keys_strings=["a"], values_strings=["b"]),
    ]
    proto = make_model(
        nodes,
        [value("x"), value("s", (4,), "STRING")],
        [value(name, None, "") for name in "abcd"],
        domains={"ai.onnx.ml": 2},
    )
    own = onnx.shape_inference.infer_shapes(proto)
    assert with_types(proto).graph.output == own.graph.output
