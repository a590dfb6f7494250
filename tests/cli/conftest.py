"""A tiny model and platforms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from platforms import CPU_AND_NPU


def tiny_model(batch: int | str = 2) -> onnx.ModelProto:
    """x [batch, 8] -> MatMul -> Relu -> Where -> MatMul -> Softmax -> y [batch, 4]."""
    rng = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)

    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="[/bold]"),
        helper.make_node("Greater", ["b", "zero"], ["c"], name="compare"),
        helper.make_node("Where", ["c", "b", "a"], ["d"], name="choose"),
        helper.make_node("MatMul", ["d", "w2"], ["e"], name="second"),
        helper.make_node("Softmax", ["e"], ["y"], name="last"),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 4])],
        [weight("w1", 8, 16), weight("w2", 16, 4), weight("zero")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Path of the tiny model."""
    path = tmp_path / "tiny.onnx"
    onnx.save(tiny_model(), path)
    return path


@pytest.fixture
def dynamic_model(tmp_path: Path) -> Path:
    """Path of the tiny model with a symbolic batch."""
    path = tmp_path / "dynamic.onnx"
    onnx.save(tiny_model("batch"), path)
    return path


@pytest.fixture
def platform(tmp_path: Path) -> Path:
    """Path of a platform of a CPU and an NPU that lacks Greater and Where."""
    path = tmp_path / "pair.yaml"
    path.write_text(CPU_AND_NPU)
    return path
