"""Large models: the same graph by quicker ways, told where it is not rewritten, and in parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import hetsim
from cli_calls import call
from hetsim.errors import ModelError
from hetsim.graph import preparation
from hetsim.graph.model import Model
from hetsim.graph.reading import onnx_runtime
from hetsim.graph.shapes import inference

SIDE = 160
LAYERS = 4
"""Of which each has a weight that is put aside, and one that is folded."""


def layers(count: int = LAYERS, last: str = "Relu") -> onnx.ModelProto:
    """MatMul by a turned weight, Add and Relu in turn."""
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []
    drawn = np.random.Generator(np.random.SFC64(1))
    value = "x"
    for i in range(count):
        for name, shape in ((f"w{i}", (SIDE, SIDE)), (f"t{i}", (SIDE, SIDE)), (f"b{i}", (SIDE,))):
            array = drawn.random(shape, dtype=np.float32)
            weights.append(onnx.numpy_helper.from_array(array, name))
        kind = last if i == count - 1 else "Relu"
        nodes += [
            onnx.helper.make_node("MatMul", [value, f"w{i}"], [f"m{i}"], f"product{i}"),
            onnx.helper.make_node("Transpose", [f"t{i}"], [f"u{i}"], f"turn{i}", perm=[1, 0]),
            onnx.helper.make_node("MatMul", [f"m{i}", f"u{i}"], [f"n{i}"], f"second{i}"),
            onnx.helper.make_node("Add", [f"n{i}", f"b{i}"], [f"a{i}"], f"sum{i}"),
            onnx.helper.make_node(kind, [f"a{i}"], [f"r{i}"], f"last{i}"),
        ]
        value = f"r{i}"
    kind = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        nodes,
        "layers",
        [onnx.helper.make_tensor_value_info("x", kind, [8, SIDE])],
        [onnx.helper.make_tensor_value_info(value, kind, [8, SIDE])],
        weights,
    )
    opset = [onnx.helper.make_opsetid("", 17)]
    return onnx.helper.make_model(graph, opset_imports=opset, ir_version=8)


def content(model: Model) -> bytes:
    return model.proto.SerializeToString(deterministic=True)


@pytest.mark.parametrize("level", ["none", "basic", "extended"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_weights_put_aside_give_the_same_model(
    monkeypatch: pytest.MonkeyPatch, level: str, dtype: type
) -> None:
    proto = layers()
    if dtype == np.float16:
        for tensor in proto.graph.initializer:
            array = onnx.numpy_helper.to_array(tensor).astype(dtype)
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
        for value in (*proto.graph.input, *proto.graph.output):
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    whole = hetsim.model_of(proto, canonical=level)
    put: list[int] = []
    real = onnx_runtime.put_aside

    def seen(given: onnx.ModelProto, *rest: Any) -> Any:
        left, kept = real(given, *rest)
        put.append(len(kept))
        assert left.ByteSize() < given.ByteSize() / 4
        return left, kept

    monkeypatch.setattr(onnx_runtime, "PAYS_BYTES", 1)
    monkeypatch.setattr(onnx_runtime, "LARGE_BYTES", 2**15)
    monkeypatch.setattr(onnx_runtime, "put_aside", seen)
    apart = hetsim.model_of(proto, canonical=level)
    assert put
    assert max(put) == 2 * LAYERS
    assert content(apart) == content(whole)
    assert apart.weights_dir is None
    assert apart.graph == whole.graph
    assert apart.folded == whole.folded


def test_without_room_for_weights_a_model_is_checked_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(onnx_runtime, "PAYS_BYTES", 1)
    monkeypatch.setattr(onnx_runtime, "put_aside", full)
    assert len(hetsim.model_of(layers(), canonical="none").graph.nodes) == 5 * LAYERS
    with pytest.raises(ModelError, match="axis"):
        hetsim.model_of(layers(last="Concat"), canonical="none")


def test_a_graph_too_large_to_be_rewritten_is_left_and_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nodes = 5 * LAYERS
    assert hetsim.model_of(layers()).canonical == "basic"
    monkeypatch.setattr(preparation, "MOST_REWRITTEN", nodes - 1)
    left = hetsim.model_of(layers())
    assert left.canonical == "none"
    assert left.unoptimised == (
        f"rewriting {nodes} nodes costs more than it gives (--canonical basic does it)"
    )
    assert content(left) == content(hetsim.model_of(layers(), canonical="none"))
    asked = hetsim.model_of(layers(), canonical="basic")
    assert (asked.canonical, asked.unoptimised) == ("basic", None)
    assert len(asked.graph.nodes) < nodes
    path = tmp_path / "layers.onnx"
    onnx.save(layers(), str(path))
    for words in (["compare", str(path), "--platform", "edge-tpu", "--strategy", "heft"],
                  ["inspect", str(path)]):  # fmt: skip
        told = " ".join(call(*words).stdout.split())
        assert f"as in the file: rewriting {nodes} nodes costs more than it gives" in told
    assert "as in the file" not in call("inspect", str(path), "--canonical", "none").stdout


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Models are checked by three nodes at a time; how many nodes each session had."""
    asked: list[int] = []
    real = onnx_runtime.probe_types

    def counted(proto: onnx.ModelProto, *rest: object) -> dict[str, onnx.TypeProto]:
        asked.append(len(proto.graph.node))
        return real(proto, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(inference, "PARTS_FROM", 6)
    monkeypatch.setattr(inference, "PART", 3)
    monkeypatch.setattr(inference, "probe_types", counted)
    return asked


def test_large_graphs_are_checked_in_parts(in_parts: list[int]) -> None:
    model = hetsim.model_of(layers(), canonical="none")
    assert in_parts == [3] * 6 + [2]
    assert len(model.graph.nodes) == 5 * LAYERS


def test_what_one_part_has_wrong_is_named(in_parts: list[int]) -> None:
    proto = layers()
    proto.graph.node[12].attribute.append(onnx.helper.make_attribute("unheard", 1))
    with pytest.raises(ModelError, match="unheard") as raised:
        hetsim.model_of(proto, canonical="none")
    assert proto.graph.node[12].name in str(raised.value)
    assert 1 < len(in_parts) < 7
