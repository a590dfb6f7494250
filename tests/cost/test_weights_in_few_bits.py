"""Weights stored in 4 or 8 bits, and models in types that ONNX Runtime's CPU has no kernels for."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import hetsim
from hetsim.errors import HetsimError
from hetsim.hardware.catalog import load_platform
from hetsim.problem.problem import Problem
from onnx_builders import make_model, value
from sweeps import sweep

GPUS = ("nvidia-t4", "nvidia-a100-sxm4-80g", "nvidia-rtx-4090")
WIDE = 2048
BLOCK = 32
FLOATS = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16}
NUMPY = {"float32": np.float32, "float16": np.float16}


def stored(name: str, kind: int, shape: tuple[int, ...], nbytes: int) -> onnx.TensorProto:
    return helper.make_tensor(name, kind, shape, bytes(nbytes), raw=True)


def model(
    kind: int, rows: int, nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto]
) -> onnx.ModelProto:
    name = TensorProto.DataType.Name(kind)
    ends = ([value(end, (1, rows, WIDE), name)] for end in "xy")
    proto = make_model(nodes, *ends, opset=23, ir=11, domains={"com.microsoft": 1})
    proto.graph.initializer.extend(weights)
    return proto


def dense(kind: int, rows: int) -> onnx.ModelProto:
    width = 4 if kind == TensorProto.FLOAT else 2
    weights = [stored("w", kind, (WIDE, WIDE), width * WIDE * WIDE)]
    return model(kind, rows, [helper.make_node("MatMul", ["x", "w"], ["y"])], weights)


def packed(dtype: str, rows: int, bits: int) -> onnx.ModelProto:
    """A MatMulNBits."""
    blocks = WIDE // BLOCK
    node = helper.make_node(
        "MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft",
        K=WIDE, N=WIDE, bits=bits, block_size=BLOCK,
    )  # fmt: skip
    weights = [
        numpy_helper.from_array(np.zeros((WIDE, blocks, BLOCK * bits // 8), np.uint8), "w"),
        numpy_helper.from_array(np.ones(WIDE * blocks, NUMPY[dtype]), "s"),
    ]
    return model(FLOATS[dtype], rows, [node], weights)


def dequantized(dtype: str, rows: int, kind: int) -> onnx.ModelProto:
    """A product with stored integers, or 8-bit floats, behind a DequantizeLinear."""
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "s"], ["w"], axis=0, block_size=BLOCK),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    each = 2 if kind in (TensorProto.INT4, TensorProto.UINT4) else 1
    weights = [
        stored("q", kind, (WIDE, WIDE), WIDE * WIDE // each),
        numpy_helper.from_array(np.ones((WIDE // BLOCK, WIDE), NUMPY[dtype]), "s"),
    ]
    return model(FLOATS[dtype], rows, nodes, weights)


def seconds(proto: onnx.ModelProto, folder: Path, device: str) -> float:
    path = folder / "model.onnx"
    onnx.save(proto, path)
    problem = Problem.of(hetsim.load_model(path), load_platform(device))
    assert not problem.unsupported(0, range(problem.n))
    return problem.compute_seconds(0, range(problem.n))


FORMS = {
    "MatMulNBits": lambda dtype, rows: packed(dtype, rows, 4),
    "int4": lambda dtype, rows: dequantized(dtype, rows, TensorProto.INT4),
    "uint4": lambda dtype, rows: dequantized(dtype, rows, TensorProto.UINT4),
}


@sweep("device, form", quick=[*zip(GPUS, FORMS, strict=False)][:1], full=product(GPUS, FORMS))
def test_a_product_of_one_row_takes_by_the_bits_of_its_weights(
    device: str, form: str, tmp_path: Path
) -> None:
    for dtype, kind in FLOATS.items():
        wide = seconds(dense(kind, 1), tmp_path, device)
        eight = seconds(packed(dtype, 1, 8), tmp_path, device)
        four = seconds(FORMS[form](dtype, 1), tmp_path, device)
        assert four < eight < wide
        assert four < 0.5 * wide


@sweep("device", quick=GPUS[:1], full=GPUS)
def test_a_product_of_many_rows_takes_by_the_type_that_it_is_computed_in(
    device: str, tmp_path: Path
) -> None:
    for dtype, kind in FLOATS.items():
        wide = seconds(dense(kind, 4096), tmp_path, device)
        assert 0.7 * wide < seconds(packed(dtype, 4096, 4), tmp_path, device) <= wide


KINDS = ("FLOAT8E4M3FN", "FLOAT8E5M2", "INT8")


@sweep("device, kind", quick=zip(GPUS, KINDS, strict=True), full=product(GPUS, KINDS))
def test_stored_floats_of_eight_bits_are_read_as_integers_are(
    kind: str, device: str, tmp_path: Path
) -> None:
    proto = dequantized("float16", 1, getattr(TensorProto, kind))
    eight = seconds(packed("float16", 1, 8), tmp_path, device)
    assert seconds(proto, tmp_path, device) == pytest.approx(eight, rel=1e-6)


def test_a_model_in_bfloat16_is_priced_and_refused_where_it_has_to_run(tmp_path: Path) -> None:
    half = seconds(dense(TensorProto.FLOAT16, 64), tmp_path, "nvidia-a100-sxm4-80g")
    brain = seconds(dense(TensorProto.BFLOAT16, 64), tmp_path, "nvidia-a100-sxm4-80g")
    assert brain == pytest.approx(half, rel=0.05)
    found = hetsim.load_model(tmp_path / "model.onnx")
    assert found.unoptimised is not None
    assert "no CPU kernel for MatMul" in found.unoptimised
    problem = Problem.of(found, load_platform("nvidia-a100-sxm4-80g"))
    with pytest.raises(HetsimError, match="implementation for MatMul"):
        hetsim.run(hetsim.plan(problem, "single"), executor="threads")
