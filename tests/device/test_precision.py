"""Arithmetic in another precision: what numpy's rounding gives, in parts and as a whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

import hetsim
from builders import BOX
from hetsim.device.kernels.precision import check_rounding, rounded
from hetsim.errors import ModelError, UsageError
from hetsim.execution.run import run
from hetsim.graph.inputs.samples import random_inputs
from hetsim.hardware.spec import SupportRule
from hetsim.problem.problem import Problem
from onnx_builders import load, make_model, op, open_exactly, value
from oracles.rounded_nodes import compute
from sweeps import sweep

Array = NDArray[Any]
HALF = {"float32": "float16"}


def to_half(array: Array) -> Array:
    return array.astype(np.float16).astype(np.float32)


@sweep("name", quick=["bert_small"], full=["resnet50", "bert_small"])
def test_a_half_precision_device_rounds_as_numpy_does(name: str) -> None:
    model = hetsim.load_model(f"zoo:{name}")
    problem = Problem.of(model, hetsim.load_platform("laptop"))
    done = run(hetsim.plan(problem, "single:gpu"), executor="threads", precision="device")
    wanted = compute(model, random_inputs(model), to_half)
    assert done.bitwise_equal
    for output, array in wanted.items():
        assert array.tobytes() == done.outputs[output].tobytes()
    exact = run(hetsim.plan(problem, "single:gpu"), executor="threads")
    assert exact.deviations == ()
    for deviation in done.deviations:
        a = done.outputs[deviation.output].astype(np.float64)
        b = exact.outputs[deviation.output].astype(np.float64)
        assert deviation.max_abs == np.abs(a - b).max() > 0
        assert deviation.max_rel == deviation.max_abs / np.abs(b).max() < 0.05
        assert deviation.lost == 0


@pytest.mark.parametrize("strategy", ["hetero", "heft", "single:cpu"])
def test_parts_give_the_bits_of_the_whole(strategy: str) -> None:
    model = hetsim.load_model("zoo:squeezenet")
    problem = Problem.of(model, hetsim.load_platform(BOX))
    done = run(hetsim.plan(problem, strategy), executor="threads", precision="device")
    assert done.bitwise_equal
    # The host computes in float32: with nothing elsewhere, nothing deviates.
    assert (done.deviations[0].max_abs == 0) == (strategy == "single:cpu")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_operator_sets_without_round_give_the_numbers_of_those_with(dtype: str) -> None:
    """All quarters up to 127 among them: what is halfway goes to the even number."""
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x = np.arange(-508, 509).astype(dtype) / 4
    found = []
    for opset in (9, 20):
        typed = [onnx.helper.make_tensor_value_info(name, kind, x.shape) for name in "xy"]
        proto = make_model([op("Identity", "x", "y")], typed[:1], typed[1:], opset=opset, ir=4)
        made = rounded(proto, [{dtype: "int8"}], {"x": dtype, "y": dtype})
        onnx.checker.check_model(made, full_check=True)
        assert ("Round" in {node.op_type for node in made.graph.node}) == (opset == 20)
        found.append(open_exactly(made, None).run(None, {"x": x})[0])
    assert np.array_equal(*found)
    assert np.array_equal(found[0], np.round(x))


def test_bodies_are_rounded_node_by_node(tmp_path: Path) -> None:
    third = np.float32(1 / 3)
    then = onnx.helper.make_graph(
        [op("Mul", "x c", "m"), op("Add", "m c", "t")], "then", [], [value("t")]
    )
    other = onnx.helper.make_graph([op("Identity", "x", "e")], "else", [], [value("e")])
    branch = onnx.helper.make_node("If", ["yes"], ["y"], then_branch=then, else_branch=other)
    proto = make_model([branch], [value("x"), value("yes", (), "BOOL")], [value("y")], {"c": third})
    model = load(proto, tmp_path, canonical="none")
    session = open_exactly(rounded(model.proto, [HALF], model.graph.dtypes), None)
    x = np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3)
    found = session.run(None, {"x": x, "yes": np.array(True)})[0]
    c = to_half(third)
    assert found.tobytes() == to_half(to_half(to_half(x) * c) + c).tobytes()


@pytest.mark.parametrize(
    ("rounding", "says"),
    [
        ({"flaot32": "float16"}, "did you mean 'float32'"),
        ({"float32": "int4"}, "float32 cannot be computed in int4"),
        ({"int64": "int8"}, "int64 cannot be computed in int8"),
    ],
)
def test_roundings_that_do_not_exist(rounding: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        check_rounding(rounding, "device 'npu'")


UP = {"float16": "float32"}


def half_model() -> onnx.ModelProto:
    """A float16 graph: a sum that loses much in float16, a cast, and a branch."""
    rng = np.random.default_rng(5)
    weights = rng.standard_normal((64, 32)).astype(np.float16)
    branch = onnx.helper.make_graph(
        [op("Softmax", "a", "t")], "then", [], [value("t", (8, 32), "FLOAT16")]
    )
    other = onnx.helper.make_graph(
        [op("Neg", "a", "e")], "else", [], [value("e", (8, 32), "FLOAT16")]
    )
    proto = make_model(
        [
            op("MatMul", "x w", "a"),
            op("If", "flag", "b", then_branch=branch, else_branch=other),
            op("Cast", "b", "c", to=onnx.TensorProto.FLOAT),
            op("ReduceMean", "b axes", "d"),
        ],
        [value("x", (8, 64), "FLOAT16"), value("flag", (), "BOOL")],
        [value("c", (8, 32)), value("d", (1, 32), "FLOAT16")],
        {"w": weights, "axes": np.array([0])},
    )
    return onnx.shape_inference.infer_shapes(proto)


def test_a_float16_graph_on_a_device_without_float16() -> None:
    proto = half_model()
    dtypes = {"x": "float16", "w": "float16", "a": "float16", "b": "float16", "c": "float32",
              "d": "float16", "flag": "bool", "axes": "int64"}  # fmt: skip
    made = rounded(proto, [UP] * len(proto.graph.node), dtypes)
    onnx.checker.check_model(made, full_check=True)
    weights = onnx.numpy_helper.to_array(proto.graph.initializer[0]).astype(np.float32)
    x = np.random.default_rng(6).standard_normal((8, 64)).astype(np.float16)
    for flag in (True, False):
        session = open_exactly(made, None)
        c, d = session.run(["c", "d"], {"x": x, "flag": np.array(flag)})
        # Every node in float32, and what it writes as float16.
        a = (x.astype(np.float32) @ weights).astype(np.float16).astype(np.float32)
        b = -a
        if flag:
            raised = np.exp(a - a.max(axis=1, keepdims=True))
            b = raised / raised.sum(axis=1, keepdims=True)
        b = b.astype(np.float16)
        assert (c.dtype, d.dtype) == (np.float32, np.float16)
        np.testing.assert_allclose(c, b.astype(np.float32), rtol=2e-3, atol=1e-7)
        mean = b.astype(np.float32).mean(axis=0, keepdims=True)
        np.testing.assert_allclose(d.astype(np.float32), mean, rtol=4e-3, atol=1e-4)


def test_an_operator_set_without_bfloat16_is_refused_by_name() -> None:
    shapes = [value(name, (2, 4)) for name in "xy"]
    proto = make_model([op("Relu", "x", "y")], shapes[:1], shapes[1:], opset=12)
    with pytest.raises(ModelError, match="operator set 12 cannot round values to bfloat16"):
        rounded(proto, [{"float32": "bfloat16"}], {"x": "float32", "y": "float32"})


def test_factors_of_sizes_are_not_rounded() -> None:
    factors = np.array([1, 1, 3, 3], np.float32)
    proto = make_model(
        [op("Resize", "x - factors", "y")], [value("x", (1, 1, 2, 2))], [value("y", (1, 1, 6, 6))],
        {"factors": factors},
    )  # fmt: skip
    made = rounded(proto, [{"float32": "int8"}], dict.fromkeys(("x", "y", "factors"), "float32"))
    x = np.ones((1, 1, 2, 2), np.float32)
    assert open_exactly(made, None).run(None, {"x": x})[0].shape == (1, 1, 6, 6)


def test_a_sequence_keeps_the_type_of_the_graph() -> None:
    half = onnx.TensorProto.FLOAT16
    made = onnx.helper.make_tensor_sequence_value_info("s", half, None)
    proto = make_model([op("SplitToSequence", "x", "s")], [value("x", (2, 4), "FLOAT16")], [made])
    session = open_exactly(rounded(proto, [UP], {"x": "float16", "s": "sequence"}), None)
    [[first, _]] = session.run(None, {"x": np.ones((2, 4), np.float16)})
    assert first.dtype == np.float16


def test_a_wider_type_gives_the_same_bits_in_parts_and_as_a_whole(tmp_path: Path) -> None:
    model = load(half_model(), tmp_path)
    platform = hetsim.load_platform("laptop")
    devices = {
        name: replace(
            spec,
            execution_dtype=UP,
            flops_per_s={"float32": 1e12},
            support=SupportRule(),
        )
        for name, spec in platform.devices.items()
    }
    problem = Problem.of(model, replace(platform, devices=devices))
    count = len(problem.devices)
    groups = tuple(hetsim.Group(problem.devices[v % count], (v,)) for v in range(problem.n))
    done = run(hetsim.Plan(problem, "alone", groups), executor="threads", precision="device")
    assert done.bitwise_equal
    assert {deviation.output for deviation in done.deviations} == {"c", "d"}


@pytest.mark.parametrize(
    ("platform", "execute"), [("rock-5b", {}), ("pi-5-hailo-8", {"npu": "int8"})]
)
def test_float16_graphs_are_rounded_as_onnx_runtime_expands_them(
    platform: str, execute: dict[str, str], tmp_path: Path
) -> None:
    half = [value(name, (2, 4), "FLOAT16") for name in "xy"]
    nodes = [op("Gelu", "x", "a"), op("Softmax", "a", "b"), op("Relu", "b", "y")]
    model = load(make_model(nodes, half[:1], half[1:]), tmp_path)
    problem = Problem.of(model, hetsim.load_platform(platform), execute=execute)
    plan = hetsim.plan(problem, "hetero:npu,cpu")
    assert "npu" in plan.devices_used
    assert run(plan, executor="threads", precision="device").bitwise_equal


def test_a_rounding_between_devices_is_not_merged_away(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float16)
    shapes = [value(name, (8, 8), "FLOAT16") for name in "xy"]
    nodes = [op("MatMul", "x w", "a"), op("Transpose", "a", "y")]
    model = load(make_model(nodes, shapes[:1], shapes[1:], {"w": weights}), tmp_path)
    platform = hetsim.load_platform("pi-5-hailo-8")
    problem = Problem.of(model, platform, execute={"npu": "int8"})
    plan = hetsim.Plan(problem, "by hand", (hetsim.Group("cpu", (0,)), hetsim.Group("npu", (1,))))
    assert run(plan, executor="threads", precision="device", seed=1).bitwise_equal
