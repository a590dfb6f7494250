"""An NPU whose runtime leaves some ops to the cores, as a plan on the clock."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import numpy_helper

import hetsim
from catalog.measured import precision_of
from hetsim.hardware.spec import Platform
from mixed_rows.networks import Networks, Row, network_of
from mixed_rows.platforms import platform_of


def products_by_channel(proto: onnx.ModelProto) -> list[str]:
    """Return the MatMul nodes with stored weights.

    ONNX Runtime's QNN provider takes weights that are quantized by channel in convolutions alone
    (github microsoft/onnxruntime, pull request 20154): each such product is two nodes of its CPU
    provider, which dequantizes the weights and multiplies in floats.
    """
    stored = {tensor.name for tensor in proto.graph.initializer}
    found = []
    for node in proto.graph.node:
        if node.op_type in ("Constant", "ConstantOfShape") or (
            node.op_type in ("Transpose", "Reshape") and node.input[0] in stored
        ):
            stored.update(node.output)
        if node.op_type == "MatMul" and node.input[1] in stored:
            found.append(node.name)
    return found


def stored_elements(proto: onnx.ModelProto, names: list[str]) -> int:
    """Return how many weights nodes of a file read, each as often as it is read."""
    sizes = {tensor.name: math.prod(tensor.dims) for tensor in proto.graph.initializer}
    values = {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer if len(t.dims) == 1}
    for node in proto.graph.node:
        if node.op_type == "ConstantOfShape" and node.input[0] in values:
            sizes[node.output[0]] = math.prod(values[node.input[0]].tolist())
        elif node.op_type in ("Transpose", "Reshape") and node.input[0] in sizes:
            sizes[node.output[0]] = sizes[node.input[0]]
    wanted = set(names)
    return sum(
        sizes[name]
        for node in proto.graph.node
        if node.name in wanted
        for name in node.input
        if name in sizes
    )


def by_datasheet(platform: Platform, device: str) -> Platform:
    """Return the platform with a device priced by its datasheet.

    Its figures are of ncnn, which says nothing of how ONNX Runtime multiplies matrices.
    """
    spec = dataclasses.replace(platform.devices[device], kernels={})
    return dataclasses.replace(platform, devices={**platform.devices, device: spec})


def normalizations(proto: onnx.ModelProto) -> list[str]:
    """Return the LayerNormalization nodes, ten ops of a TensorFlow Lite file each."""
    return [node.name for node in proto.graph.node if node.op_type == "LayerNormalization"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a runtime's NPU delegate leaves to others.

    Attributes
    ----------
    nodes : function
        Of the network's file: the names of these nodes.
    ops : int
        So many ops of the runtime each.
    cores : str
        Precision in which the cores compute them.
    """

    nodes: Callable[[onnx.ModelProto], list[str]]
    ops: int
    cores: str


DEQUANTIZE_S = 1.24e-9
"""Of a weight that is quantized by column, on one core: ONNX Runtime 1.31 on an AMD Zen 5, a scalar
loop of one thread (github microsoft/onnxruntime, issue 24124). It is run at every inference."""

FALLBACK = ("npu+cpu", "npu+gpu+cpu")


def refused_by(row: Row) -> Refusal | None:
    """Return what the runtime of a row refuses; None where that is not known."""
    runtime, precision = row["runtime"], precision_of(row["precision"])
    if runtime.startswith("ONNX Runtime") and precision in ("int8", "w8a16"):
        return Refusal(products_by_channel, 2, "float32")
    if runtime.startswith("TFLite") and row["unit"] == "npu+gpu+cpu" and precision == "int8":
        return Refusal(normalizations, 10, "int8")
    return None


def fallback_s(
    row: Row, networks: Networks, cost: str, without: Collection[str]
) -> tuple[float, dict[str, Any]]:
    """Return the latency where the NPU has all but what its runtime refuses, and how it came."""
    platform, refusal = platform_of(row["chip"]), refused_by(row)
    assert platform is not None
    assert refusal is not None
    file = network_of(row)
    refused = [] if "fallback" in without else refusal.nodes(networks.proto(file))
    stored = stored_elements(networks.proto(file), refused) if refusal.cores == "float32" else 0
    if refusal.cores == "float32" and "datasheet" not in without:
        platform = by_datasheet(platform, "cpu")
    execute = {"npu": "int8"} | ({"cpu": "int8"} if refusal.cores == "int8" else {})
    problem = hetsim.Problem.of(networks.load(file), platform, cost=cost, execute=execute)
    wishes = hetsim.Affinity(pins=dict.fromkeys(refused, "cpu"))
    plan = hetsim.plan(problem, "hetero:npu,cpu", affinity=wishes)
    spent = hetsim.simulate(plan)
    count = refusal.ops * len(refused)
    layers = row["layers"]
    dequantized_s = 0.0 if "dequantizing" in without else stored * DEQUANTIZE_S
    return spent.latency_s + dequantized_s, {
        "ops_on_others": {"measured": layers["total"] - layers["npu"], "by_rule": count},
        "subgraphs": dict(Counter(group.device for group in plan.groups)),
        "busy_ms": {name: round(1e3 * s, 3) for name, s in spent.device_busy_s.items() if s},
        "transfer_ms": round(1e3 * spent.transfer_s, 3),
        "dequantized_ms": round(1e3 * dequantized_s, 3),
    }
