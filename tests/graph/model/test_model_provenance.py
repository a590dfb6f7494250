"""Which original nodes a canonical node stands for, and that none is lost."""

from __future__ import annotations

import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.graph.loading import load_model
from hetsim.graph.zoo import models as zoo
from onnx_builders import check_consistent, load, make_model, op, run_whole, save, value
from sweeps import examples, sweep

FLOAT = np.float32
EACH_TIME = ("bert_small", "shufflenet", "squeezenet")
"""Attention, values that change places, and branches."""


def origins(proto: onnx.ModelProto, folder: Path, level: Any = "basic") -> dict[str, set[str]]:
    """Origins by name of the canonical node's first output, after the guarantee is checked."""
    model = load(proto, folder, canonical=level)
    check_consistent(model)
    return {node.outputs[0]: set(node.origins) for node in model.graph.nodes}


def test_conv_and_batch_normalization(tmp_path: Path) -> None:
    proto = make_model(
        [
            op("Conv", "x w", "c", "conv"),
            op("BatchNormalization", "c s b m v", "n", "bn"),
            op("Relu", "n", "y", "relu"),
        ],
        [value("x", (1, 2, 4, 4))],
        [value("y", None)],
        {
            "w": np.ones((3, 2, 1, 1), FLOAT),
            **{name: np.ones(3, FLOAT) for name in ("s", "b", "m", "v")},
        },
    )
    assert origins(proto, tmp_path) == {"n": {"conv", "bn"}, "y": {"relu"}}
    assert origins(proto, tmp_path, "none") == {"c": {"conv"}, "n": {"bn"}, "y": {"relu"}}
    model = load_model(tmp_path / "m.onnx")
    assert model.canonical_names("bn") == model.canonical_names("conv")
    assert model.folded == ()


def test_eliminated_nodes_stay_with_their_value(tmp_path: Path) -> None:
    proto = make_model(
        [
            op("Relu", "x", "a", "relu"),
            op("Identity", "a", "b", "same"),
            op("Dropout", "b", "c", "drop"),
            op("Neg", "c", "d", "neg"),
            op("Abs", "b", "e", "abs"),
            op("Add", "d e", "f", "add"),
            op("Identity", "f", "y", "last"),
        ],
        [value("x")],
        [value("y")],
    )
    assert origins(proto, tmp_path) == {
        "a": {"relu", "same", "drop"},
        "d": {"neg"},
        "e": {"abs"},
        "y": {"add", "last"},
    }


def test_twins_stay_with_the_one_that_is_left(tmp_path: Path) -> None:
    proto = make_model(
        [
            op("Mul", "x k", "a", "one"),
            op("Mul", "x k2", "b", "two"),
            op("Exp", "a", "c", "up"),
            op("Exp", "b", "d", "up2"),
            op("Neg", "b", "e", "neg"),
            op("Sum", "c d e", "y", "sum"),
        ],
        [value("x")],
        [value("y", None)],
        {"k": np.array([2], FLOAT), "k2": np.array([2], FLOAT)},
    )
    found = origins(proto, tmp_path)
    assert sorted(map(sorted, found.values())) == [
        ["neg"], ["one", "two"], ["sum"], ["up", "up2"],
    ]  # fmt: skip


def test_constants_are_folded(tmp_path: Path) -> None:
    proto = make_model(
        [
            op("Constant", "", "k", "const", value_floats=[1.0, 2.0, 3.0]),
            op("Neg", "k", "nk", "neg"),
            op("Shape", "x", "sh", "shape"),
            op("Slice", "sh zero one", "first", "slice"),
            op("Concat", "first rest", "target", "concat", axis=0),
            op("Add", "x nk", "a", "add"),
            op("Reshape", "a target", "y", "reshape"),
        ],
        [value("x")],
        [value("y", None)],
        {"zero": np.array([0]), "one": np.array([1]), "rest": np.array([3, 1])},
    )
    assert origins(proto, tmp_path) == {"a": {"add"}, "y": {"reshape"}}
    assert load_model(tmp_path / "m.onnx").folded == ("const", "neg", "shape", "slice", "concat")
    plain = origins(proto, tmp_path, "none")
    assert plain["nk"] == {"neg"}
    assert plain["target"] == {"concat"}
    assert load_model(tmp_path / "m.onnx", canonical="none").folded == ("const",)


@pytest.mark.parametrize("level", ["none", "basic", "extended"])
def test_what_no_output_depends_on_vanishes(tmp_path: Path, level: Any) -> None:
    proto = make_model(
        [
            op("Relu", "x", "a", "relu"),
            op("Dropout", "a rate train", "y mask", "drop"),
            op("Neg", "mask_", "dead2", "dead2"),
            op("Cast", "x", "mask_", "dead", to=onnx.TensorProto.FLOAT16),
            op("TopK", "x one", "v i", "topk"),
            op("Relu", "v", "z", "relu2"),
        ],
        [value("x")],
        [value("y"), value("z", None)],
        {"rate": np.array(0.5, FLOAT), "train": np.array(True), "one": np.array([1])},
    )
    found = origins(proto, tmp_path, level)
    assert set().union(*found.values()) == {"relu", "drop", "topk", "relu2"}
    model = load_model(tmp_path / "m.onnx", canonical=level)
    assert set(model.folded) == {"dead", "dead2"}
    # The mask is optional and nobody reads it; the indices are not optional.
    assert "mask" not in model.graph.tensors
    assert "i" in model.graph.tensors


@sweep(
    "name, level",
    quick=[(name, "basic") for name in EACH_TIME],
    full=product(zoo.names(), ["none", "basic", "extended"]),
)
def test_every_zoo_model(name: str, level: Any) -> None:
    model = load_model(f"zoo:{name}", canonical=level)
    check_consistent(model)
    for tensor in model.graph.tensors.values():
        assert all(isinstance(dim, int) and dim > 0 for dim in tensor.static_shape), tensor
    file = onnx.load(zoo.materialise(name), load_external_data=False)
    op_types = {node.name: node.op_type for node in file.graph.node if node.name}
    for node in model.graph.nodes:
        if op_types.get(node.name) == node.op_type:
            assert node.name in node.origins


UNARY = ("Relu", "Neg", "Abs", "Identity", "Dropout", "Tanh")
BINARY = ("Add", "Mul", "Sub")


@st.composite
def elementwise_models(draw: st.DrawFn) -> onnx.ModelProto:
    """Random DAGs with twins, identities, constants, shared values and dead ends."""
    values = ["x", "w", "k", "k2"]
    nodes = []
    for i in range(draw(st.integers(1, 12))):
        if draw(st.booleans()):
            kind, reads = draw(st.sampled_from(UNARY)), [draw(st.sampled_from(values))]
        else:
            kind = draw(st.sampled_from(BINARY))
            reads = [draw(st.sampled_from(values)) for _ in range(2)]
        nodes.append(op(kind, " ".join(reads), f"v{i}", f"n{i}"))
        values.append(f"v{i}")
    outputs = draw(
        st.lists(st.sampled_from([f"v{i}" for i in range(len(nodes))]), unique=True, min_size=1)
    )
    return make_model(
        nodes,
        [value("x"), value("w")],
        [value(name) for name in outputs],
        {"k": np.full((2, 3), 2, FLOAT), "k2": np.full((2, 3), 2, FLOAT)},
    )


@examples(quick=15, full=150)
@given(elementwise_models())
def test_the_guarantee_holds_on_random_graphs(proto: onnx.ModelProto) -> None:
    reads = {node.name: node for node in proto.graph.node}
    x = {name: np.linspace(-2, 3, 6, dtype=FLOAT).reshape(2, 3) for name in ("x", "w")}
    with tempfile.TemporaryDirectory() as folder:
        path = save(proto, Path(folder))
        plain = load_model(path, canonical="none")
        model = load_model(path)
    check_consistent(plain)
    check_consistent(model)
    assert all(node.origins == (node.name,) for node in plain.graph.nodes)
    for node in model.graph.nodes:
        # These graphs are only thinned out: every node that is left has its own among its origins.
        assert node.op_type in {reads[name].op_type for name in node.origins}
    one, two = run_whole(plain, x), run_whole(model, x)
    for name in one:
        np.testing.assert_allclose(one[name], two[name], rtol=1e-5, atol=1e-6)
