"""Conversions at the ends of quantized models on devices that compute no floats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from cost.test_quantized import convert, scale
from hetsim.hardware.catalog import load_device, load_platform
from hetsim.placement.planning import plan
from hetsim.problem.problem import Problem
from hetsim.reporting.tables.question import question
from hetsim.simulation.simulate import simulate
from onnx_builders import load, make_model, op, value

F32 = np.float32
INTEGERS_ALONE = ("google-edge-tpu", "hailo-8", "qualcomm-qcs6490-npu")


def qdq(*, first: str = "", view: bool = False) -> onnx.ModelProto:
    """A convolution between floats at both ends; perhaps with an op of floats before it."""
    source = "x"
    nodes = []
    if first:
        nodes.append(op(first, "x", "x0"))
        source = "x0"
    nodes += [
        convert("Quantize", source, "xq", "x"),
        convert("Dequantize", "xq", "xf", "x"),
        op("DequantizeLinear", "w w_s w_z", "wf", axis=0),
        op("DequantizeLinear", "b b_s b_z", "bf", axis=0),
        op("Conv", "xf wf bf", "c", pads=[1, 1, 1, 1]),
        op("Relu", "c", "r"),
        convert("Quantize", "r", "rq", "y"),
        convert("Dequantize", "rq", "rf" if view else "y", "y"),
    ]
    if view:
        nodes.append(op("Flatten", "rf", "y"))
    shape = (1, 16 * 16 * 16) if view else (1, 16, 16, 16)
    return make_model(
        nodes,
        [value("x", (1, 8, 16, 16))],
        [value("y", shape)],
        {
            **scale("x"), **scale("y"),
            "w": np.ones((16, 8, 3, 3), np.int8), "w_s": np.full(16, 0.1, F32),
            "w_z": np.zeros(16, np.int8), "b": np.ones(16, np.int32),
            "b_s": np.full(16, 0.005, F32), "b_z": np.zeros(16, np.int32),
        },
    )  # fmt: skip


@pytest.mark.parametrize("view", [False, True], ids=["plain", "through a view"])
@pytest.mark.parametrize("name", INTEGERS_ALONE)
def test_a_device_of_integers_takes_a_model_between_conversions(
    name: str, view: bool, tmp_path: Path
) -> None:
    model = load(qdq(view=view), tmp_path, canonical="none")
    platform = load_platform(name)
    problem = Problem.of(model, platform)
    ends = [v for v, node in enumerate(model.graph.nodes)
            if node.writes[0] == "xq" or node.reads[0] == "rq"]  # fmt: skip
    assert len(ends) == 2
    assert problem.seconds[ends, 0].tolist() == [0.0, 0.0]
    assert simulate(plan(problem, "single")).latency_s > 0
    rows = dict(question(problem))
    assert "leaves to it" in rows["host runs"]


def test_a_device_that_computes_floats_converts_itself(tmp_path: Path) -> None:
    model = load(qdq(), tmp_path, canonical="none")
    assert "float16" in load_device("snapdragon-8-gen-3-npu").flops_per_s
    problem = Problem.of(model, load_platform("snapdragon-8-gen-3-npu"))
    assert "host runs" not in dict(question(problem))
