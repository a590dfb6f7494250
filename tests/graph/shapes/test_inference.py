"""Types of operators that ONNX's inference does not survive, or does not know."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import hetsim
from hetsim.graph import preparation
from hetsim.graph.shapes import inference
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


@pytest.mark.sweep
def test_inference_outlives_them() -> None:
    # Where it did not, this process would not, either.
    code = "import test_inference; test_inference.infer_all()"
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


def ensemble(
    columns: int, *, texts: bool, classifier: bool, kind: int = TensorProto.FLOAT, opset: int = 3
) -> onnx.ModelProto:
    """One tree of three nodes; every leaf has a weight for every column."""
    leaves = range(1, 3)
    pairs = list(itertools.product(leaves, range(columns)))
    role = "class" if classifier else "target"
    attributes = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [1, 0, 0],
        "nodes_values": [0.5, 0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        f"{role}_treeids": [0] * len(pairs),
        f"{role}_nodeids": [leaf for leaf, _ in pairs],
        f"{role}_ids": [column for _, column in pairs],
        f"{role}_weights": [0.1 * leaf + column for leaf, column in pairs],
    }
    if not classifier:
        attributes["n_targets"] = columns
    elif texts:
        attributes["classlabels_strings"] = [f"c{column}" for column in range(columns)]
    else:
        attributes["classlabels_int64s"] = list(range(columns))
    outputs = ["label", "scores"] if classifier else ["scores"]
    node = helper.make_node(
        "TreeEnsembleClassifier" if classifier else "TreeEnsembleRegressor",
        ["x"],
        outputs,
        "trees",
        domain="ai.onnx.ml",
        **attributes,
    )
    after = [helper.make_node("Identity", [name], [f"{name}/0"]) for name in outputs]
    graph = helper.make_graph(
        [node, *after],
        "trees",
        [helper.make_tensor_value_info("x", kind, ["batch", 4])],
        [onnx.ValueInfoProto(name=f"{name}/0") for name in outputs],
    )
    standard = 15 if opset == 3 else 9
    sets = [helper.make_opsetid("ai.onnx.ml", opset), helper.make_opsetid("", standard)]
    return helper.make_model(graph, opset_imports=sets, ir_version=8)


FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE)
# A classifier of one class makes ONNX Runtime 1.31 abort the process, and it has regressors of
# floats alone.
KNOWN = [
    *itertools.product((2, 3, 5), [True], [True, False], (*FLOATS, TensorProto.INT64)),
    *itertools.product((1, 2, 5), [False], [False], FLOATS),
]


@pytest.mark.parametrize(("columns", "classifier", "texts", "kind"), KNOWN)
@pytest.mark.parametrize("opset", [1, 3])
def test_types_are_what_the_runtime_writes(
    columns: int, classifier: bool, texts: bool, kind: int, opset: int
) -> None:
    proto = ensemble(columns, texts=texts, classifier=classifier, kind=kind, opset=opset)
    written = [name for node in proto.graph.node for name in node.output]
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    for batch in (1, 3):
        proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = batch
        found = inference.inferred(proto, written, inference.NONE)
        session = onnxruntime.InferenceSession(
            proto.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        values = session.run(None, {"x": np.zeros((batch, 4), dtype)})
        for name, array in zip([v.name for v in proto.graph.output], values, strict=True):
            tensor = found[name].tensor_type
            assert tuple(dim.dim_value for dim in tensor.shape.dim) == array.shape
            text = tensor.elem_type == TensorProto.STRING
            assert text == (array.dtype == object)
            if not text:
                assert helper.tensor_dtype_to_np_dtype(tensor.elem_type) == array.dtype


def test_no_session_is_opened_for_types_or_shapes() -> None:
    proto = ensemble(3, texts=False, classifier=True)
    with patch.object(inference, "probe_types") as probe:
        model = hetsim.model_of(proto, dims={"batch": 7})
    assert not probe.called
    assert model.observed is None
    assert model.graph.tensors["scores/0"].shape == (7, 3)


def test_a_large_ensemble_is_neither_built_nor_rewritten_unless_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    proto = ensemble(3, texts=False, classifier=True)
    for module in (preparation, inference):
        monkeypatch.setattr(module, "MANY_TREE_NODES", 3)
    built = []
    session = onnxruntime.InferenceSession

    def opened(content: bytes, *rest: object, **more: object) -> onnxruntime.InferenceSession:
        built.append(inference.tree_nodes(onnx.ModelProto.FromString(content).graph.node))
        return session(content, *rest, **more)

    monkeypatch.setattr(onnxruntime, "InferenceSession", opened)
    model = hetsim.model_of(proto, dims={"batch": 7})
    assert built
    assert max(built) == 0
    assert (
        model.unoptimised
        == "rewriting 3 nodes of trees takes more time than it saves (--canonical basic does it)"
    )
    assert len(model.graph.nodes[0].attributes["nodes_treeids"]) == 3
    kept = hetsim.model_of(proto, dims={"batch": 7}, canonical="basic")
    for name in ("label", "scores"):
        assert model.graph.tensors[f"{name}/0"].shape == kept.graph.tensors[f"{name}/0"].shape
