"""Tree ensembles: what is inferred of their outputs is what ONNX Runtime writes."""

from __future__ import annotations

import itertools
from unittest.mock import patch

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import hetsim
from hetsim.graph import preparation
from hetsim.graph.shapes import inference


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
        for name, value in zip([v.name for v in proto.graph.output], values, strict=True):
            tensor = found[name].tensor_type
            assert tuple(dim.dim_value for dim in tensor.shape.dim) == value.shape
            text = tensor.elem_type == TensorProto.STRING
            assert text == (value.dtype == object)
            if not text:
                assert helper.tensor_dtype_to_np_dtype(tensor.elem_type) == value.dtype


def test_no_session_is_opened_for_types_or_shapes() -> None:
    proto = ensemble(3, texts=False, classifier=True)
    with patch.object(inference, "probe_types") as probe:
        model = hetsim.model_of(proto, dims={"batch": 7})
    assert not probe.called
    assert model.observed is None
    assert model.graph.tensors["scores/0"].shape == (7, 3)


def test_a_large_ensemble_is_not_rewritten_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparation, "MANY_TREE_NODES", 3)
    proto = ensemble(3, texts=False, classifier=True)
    model = hetsim.model_of(proto, dims={"batch": 7})
    assert (
        model.unoptimised
        == "rewriting 3 nodes of trees costs more than it gives (--canonical basic does it)"
    )
    assert len(model.graph.nodes[0].attributes["nodes_treeids"]) == 3
    kept = hetsim.model_of(proto, dims={"batch": 7}, canonical="basic")
    for name in ("label", "scores"):
        assert model.graph.tensors[f"{name}/0"].shape == kept.graph.tensors[f"{name}/0"].shape
