"""Quantized models: one integer kernel a unit, by closed forms; never dearer than in float32."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import hetsim
from datasheets import by_datasheet
from hetsim.graph.loading import model_of
from hetsim.graph.model import Model
from hetsim.graph.work import node_work
from hetsim.hardware.catalog import device_names
from hetsim.hardware.spec import DeviceSpec, Platform
from hetsim.partitioning.regions import annotate
from hetsim.placement.bounds.lower_bound import lower_bound
from hetsim.problem.problem import Problem
from loaded_devices import loaded_device
from onnx_builders import load, make_model, op, value
from quantizing import as_quantized
from sweeps import sweep

F32 = np.float32
PARTS = 6
"""Devices are taken each sixth, from each of the first six."""


def spec_of(name: str) -> DeviceSpec:
    return by_datasheet(loaded_device(name))


def integers_alone(spec: DeviceSpec) -> bool:
    return set(spec.flops_per_s) == {"int8"}


@cache
def fast() -> list[str]:
    """Devices that compute with integers of 8 bits, and slower with floats, too."""
    specs = {name: spec_of(name) for name in sorted(device_names())}
    return [
        name
        for name, spec in specs.items()
        if "int8" in spec.flops_per_s and not integers_alone(spec)
        if spec.flops_per_s["int8"] > spec.flops_per_s.get("float32", 0.0)
    ]


def alone(spec: DeviceSpec) -> Platform:
    return Platform("alone", {"d": spec}, (), "d", "here", "0")


def scale(name: str) -> dict[str, Any]:
    return {f"{name}_s": np.array(0.05, F32), f"{name}_z": np.array(3, np.uint8)}


def convert(kind: str, source: str, result: str, scales: str) -> onnx.NodeProto:
    return op(f"{kind}Linear", f"{source} {scales}_s {scales}_z", result)


def unit(*, quantized: bool = True, shared: bool = False) -> onnx.ModelProto:
    """A convolution and a Relu of 8-bit integers; perhaps without its end, or with two readers."""
    nodes = [
        convert("Dequantize", "x", "xf", "x"),
        op("DequantizeLinear", "w w_s w_z", "wf", axis=0),
        op("Conv", "xf wf b", "c", pads=[1, 1, 1, 1]),
        op("Relu", "c", "r"),
    ]
    outputs = [value("r")]
    if quantized:
        nodes.append(convert("Quantize", "r", "y", "y"))
        outputs = [value("y", None, "UINT8")]
    if shared:
        nodes += [op("MaxPool", "xf", "p", kernel_shape=[1, 1]), convert("Quantize", "p", "q", "x")]
        outputs.append(value("q", None, "UINT8"))
    return make_model(
        nodes,
        [value("x", (1, 8, 16, 16), "UINT8")],
        outputs,
        {
            **scale("x"), **scale("y"),
            "w": np.ones((16, 8, 3, 3), np.int8), "w_s": np.full(16, 0.1, F32),
            "w_z": np.zeros(16, np.int8), "b": np.ones(16, F32),
        },
    )  # fmt: skip


def problem_of(proto: onnx.ModelProto, folder: Path, spec: DeviceSpec) -> Problem:
    return Problem.of(load(proto, folder, canonical="none"), alone(spec))


def test_a_unit_is_one_integer_kernel(tmp_path: Path) -> None:
    model = load(unit(), tmp_path, canonical="none")
    assert len(fast()) > 60
    for name in fast():
        is_one_integer_kernel(name, model)


def is_one_integer_kernel(name: str, model: Model) -> None:
    spec = spec_of(name)
    (kernel,) = Problem.of(model, alone(spec)).fused
    assert kernel.nodes == (0, 1, 2, 3, 4), name
    out = 16 * 16 * 16
    flops = {"conv": 2 * out * 72 + out, "elementwise": out + (2 + 4) * out}
    compute_s = sum(
        n / (spec.flops_per_s["int8"] * spec.efficiency.get(kind, spec.efficiency["default"]))
        for kind, n in flops.items()
    )
    # The bias and the scales are floats, which some devices hold in two bytes.
    half = 2 if spec.execution_dtype else 4
    nbytes = 8 * 16 * 16 + out + (16 * 72 + 16) + half * 16 * 2
    memory_s = nbytes / (spec.bytes_per_s * spec.memory_efficiency)
    expected = spec.launch_s + max(compute_s, memory_s)
    assert kernel.seconds == pytest.approx(expected, rel=1e-12), name


def test_a_product_gives_its_floats_out_without_a_kernel_more(tmp_path: Path) -> None:
    problem = problem_of(unit(quantized=False), tmp_path, spec_of("nvidia-t4"))
    assert [kernel.nodes for kernel in problem.fused] == [(0, 1, 2, 3)]


def test_a_load_that_several_share_is_no_kernel(tmp_path: Path) -> None:
    problem = problem_of(unit(shared=True), tmp_path, spec_of("nvidia-t4"))
    assert problem.seconds[0, 0] == problem.seconds[1, 0] == 0
    assert sorted(kernel.nodes for kernel in problem.fused) == [(1, 2, 3, 4), (5, 6)]


def test_dequantized_weights_are_folded(tmp_path: Path) -> None:
    """Products in float, weights in integers: no time for them, and their bytes as stored."""
    stored = {
        "w": np.ones((64, 32), np.int8), "w_s": np.array(0.1, F32), "w_z": np.array(0, np.int8)
    }  # fmt: skip
    nodes = [
        op("DequantizeLinear", "w w_s w_z", "wf"),
        op("Transpose", "wf", "wt", perm=[1, 0]),
        op("MatMul", "x wt", "y"),
    ]
    model = load(
        make_model(nodes, [value("x", (4, 32))], [value("y")], stored), tmp_path, canonical="none"
    )
    works = [node_work(model.graph, node) for node in model.graph.nodes]
    assert [work.flops for work in works] == [0, 0, 2 * 4 * 32 * 64]
    assert (works[0].read_bytes, works[0].weight_bytes, works[0].write_bytes) == (0, 0, 0)
    assert works[2].weight_bytes == 64 * 32 + 4 + 1
    assert works[2].dtype == "float32"
    for name in device_names():
        spec = spec_of(name)
        problem = Problem.of(model, alone(spec))
        held = {each.name: (each.nbytes, each.consumers) for each in problem.constants}
        assert held["w"] == (64 * 32, (0, 1, 2)), name
        moving = [v.nbytes for v in problem.values if v.producer >= 0 and v.consumers]
        assert moving == [0, 0], name
        if integers_alone(spec) or "MatMul" not in (spec.support.ops or ["MatMul"]):
            assert not problem.supported[2, 0], name
            continue
        assert problem.seconds[0, 0] == problem.seconds[1, 0] == 0, name
        part = 0.5 if spec.execution_dtype else 1
        moved = part * 4 * (4 * 32 + 4 * 64) + 64 * 32 + 1 + 4 * part
        dtype = spec.execution_dtype.get("float32", "float32")
        rate = spec.flops_per_s[dtype] * spec.efficiency["matmul"]
        memory_s = moved / (spec.bytes_per_s * spec.memory_efficiency)
        expected = spec.launch_s + max(2 * 4 * 32 * 64 / rate, memory_s)
        assert problem.seconds[2, 0] == pytest.approx(expected, rel=2e-3), name


def test_int8_alone_takes_whole_units_and_says_why_not_the_rest(tmp_path: Path) -> None:
    spec = spec_of("google-edge-tpu")
    nodes = [
        *(convert("Dequantize", f"x{i}", f"f{i}", "x") for i in range(3)),
        op("Concat", "f0 f1 f2", "c", axis=1),
        convert("Quantize", "c", "y", "x"),
        convert("Dequantize", "y", "z", "x"),
        op("Erf", "z", "e"),
    ]
    proto = make_model(
        nodes, [value(f"x{i}", (1, 4), "UINT8") for i in range(3)], [value("e")], scale("x")
    )
    support = annotate(problem_of(proto, tmp_path, spec))
    assert [kernel.nodes for kernel in support.composites] == [(0, 1, 2, 3, 4)]
    problem = problem_of(proto, tmp_path, spec)
    assert "DequantizeLinear" in problem.refusals[0][5]
    assert "Erf" in problem.refusals[0][6]


def convolutions() -> onnx.ModelProto:
    """A residual block with several activations, pooling, a concatenation and a classifier."""
    rng = np.random.default_rng(1)
    weights = {
        "w0": rng.standard_normal((64, 3, 3, 3)), "b0": rng.standard_normal(64),
        "w1": rng.standard_normal((64, 64, 3, 3)), "w2": rng.standard_normal((64, 1, 3, 3)),
        "w3": rng.standard_normal((64, 128, 1, 1)), "w4": rng.standard_normal((64, 10)),
        "b4": rng.standard_normal(10),
    }  # fmt: skip
    nodes = [
        op("Conv", "x w0 b0", "a", strides=[2, 2], pads=[1, 1, 1, 1]), op("Relu", "a", "a1"),
        op("Conv", "a1 w1", "b", pads=[1, 1, 1, 1]), op("Add", "b a1", "b1"),
        op("Relu", "b1", "b2"), op("Conv", "b2 w2", "c", group=64, pads=[1, 1, 1, 1]),
        op("Sigmoid", "c", "s"), op("Mul", "c s", "c1"),
        op("MaxPool", "c1", "p", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        op("Concat", "p b2", "d", axis=1), op("Conv", "d w3", "e"),
        op("GlobalAveragePool", "e", "g"), op("Flatten", "g", "h"), op("Gemm", "h w4 b4", "i"),
        op("Softmax", "i", "y"),
    ]  # fmt: skip
    return make_model(
        nodes,
        [value("x", (1, 3, 192, 192))],
        [value("y", (1, 10))],
        {name: array.astype(F32) for name, array in weights.items()},
    )


def attention() -> onnx.ModelProto:
    """A transformer's block, one head."""
    rng = np.random.default_rng(2)
    made = {
        name: (rng.standard_normal(shape) * 0.1).astype(F32)
        for name, shape in {
            "wq": (512, 512), "wk": (512, 512), "wv": (512, 512), "wo": (512, 512),
            "w1": (512, 2048), "w2": (2048, 512), "b1": (2048,), "g": (512,), "b": (512,),
        }.items()
    }  # fmt: skip
    made["root"] = np.array(11.3, F32)
    nodes = [
        op("LayerNormalization", "x g b", "n"),
        *(op("MatMul", f"n w{k}", k) for k in "qkv"),
        op("Transpose", "k", "kt", perm=[0, 2, 1]), op("MatMul", "q kt", "qk"),
        op("Div", "qk root", "sc"), op("Softmax", "sc", "at"), op("MatMul", "at v", "av"),
        op("MatMul", "av wo", "o"), op("Add", "x o", "r"), op("LayerNormalization", "r g b", "m"),
        op("MatMul", "m w1", "u"), op("Add", "u b1", "u1"), op("Gelu", "u1", "u2"),
        op("MatMul", "u2 w2", "z"), op("Add", "r z", "y"),
    ]  # fmt: skip
    return make_model(nodes, [value("x", (1, 128, 512))], [value("y", (1, 128, 512))], made)


NETWORKS = {"convolutions": convolutions, "attention": attention}
FORMS = ("qdq", "qdq per channel", "qdq int16", "qoperator")


@cache
def quantized(network: str, form: str) -> onnx.ModelProto:
    """The network as ONNX Runtime's own tools quantize it, by two draws."""
    proto = NETWORKS[network]()
    rng = np.random.default_rng(0)
    shapes = {
        v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in proto.graph.input
    }
    feeds = [
        {name: rng.standard_normal(shape).astype(F32) for name, shape in shapes.items()}
        for _ in range(2)
    ]
    return as_quantized(proto, form, feeds)


def cases() -> Iterator[tuple[str, str, str]]:
    for network in NETWORKS:
        for form in FORMS:
            yield network, form, "basic"
        for level in ("none", "extended"):
            yield network, "qdq", level
    # Ranges found in a run take a pass of their own, which convolutions do not make good.
    yield "attention", "dynamic", "basic"


def each_time() -> Iterator[tuple[str, str, str]]:
    """Convolutions in every form and at every level, attention where it differs."""
    for network, form, level in cases():
        if form in ("qdq", "qoperator", "dynamic") and level == "basic":
            yield network, form, level


SIXTHS = [(*case, part) for case in cases() for part in range(PARTS)]
"""Every case on every sixth device, from each of the first six."""


@sweep("network, form, level, part", quick=[(*case, 0) for case in each_time()][::4], full=SIXTHS)
def test_integers_are_never_dearer_than_float32(
    network: str, form: str, level: str, part: int
) -> None:
    plain = model_of(NETWORKS[network](), canonical=level)  # type: ignore[arg-type]
    small = model_of(quantized(network, form), canonical=level)  # type: ignore[arg-type]
    compared = 0
    for name in fast()[part::PARTS]:
        spec = spec_of(name)
        if form == "dynamic":
            # A kernel that finds a scale at run time costs a launch; what it saves grows with the
            # product, and these products are small.
            spec = replace(spec, launch_s=0.0)
        platform = alone(spec)
        before, after = (Problem.of(model, platform) for model in (plain, small))
        if not (before.runnable.all() and after.runnable.all()):
            continue
        rates = spec.flops_per_s
        faster = rates.get("float16", 0.0) > rates.get("float32", 0.0)
        if form == "qdq int16" and (spec.execution_dtype or not faster):
            continue  # Nothing there is faster for 16 bits than for 32.
        compared += 1
        took = [
            hetsim.simulate(hetsim.plan(p, "single", device="d")).latency_s for p in (before, after)
        ]
        assert took[1] <= took[0], name
        assert lower_bound(after) <= lower_bound(before), name
    assert compared >= 2
