"""16-bit floats: found wherever a model has them, and their casts nodes of the graph."""

from __future__ import annotations

from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import hetsim
from datasheets import by_datasheet
from hetsim.backend import Split, SplitModel
from hetsim.device.kernels.onnx_runtime import CompiledSubgraph
from hetsim.execution.run import run_whole
from hetsim.graph.canonical.half_precision import mentions_half
from hetsim.graph.extract import runnable
from hetsim.graph.loading import model_of
from hetsim.hardware.catalog import device_names
from hetsim.hardware.spec import Platform
from hetsim.problem.problem import Problem
from loaded_devices import loaded_device
from onnx_builders import (
    assert_bitwise_equal,
    check_consistent,
    load,
    make_model,
    op,
    open_exactly,
    value,
)
from sweeps import sweep

HALF = TensorProto.FLOAT16
CAST = [op("Cast", "x", "h", to=HALF), op("Cast", "h", "y", to=1)]


def body(nodes: list[onnx.NodeProto]) -> onnx.GraphProto:
    return helper.make_graph(nodes, "body", [], [value(nodes[-1].output[0], None)])


def with_function() -> onnx.ModelProto:
    imports = [helper.make_opsetid("", 20)]
    return make_model(
        [op("F", "x", "y", domain="my")],
        [value("x")],
        [value("y")],
        domains={"my": 1},
        functions=[helper.make_function("my", "F", ["x"], ["y"], CAST, imports)],
    )


def with_sequence() -> onnx.ModelProto:
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(HALF, None))
    return make_model(
        [op("SequenceLength", "s", "y")],
        [helper.make_value_info("s", kind)],
        [value("y", (), "INT64")],
    )


@pytest.mark.parametrize(
    "proto",
    [
        make_model([op("Neg", "x", "y")], [value("x", (1,), "FLOAT16")], [value("y", None, "")]),
        make_model([op("Cast", "k", "y", to=1)], [], [value("y")], {"k": np.ones(1, np.float16)}),
        make_model(CAST, [value("x")], [value("y")]),
        make_model(
            [op("RandomNormal", "", "y", dtype=HALF, shape=[1])], [], [value("y", None, "FLOAT16")]
        ),
        make_model(
            [op("ConstantOfShape", "s", "y", value=helper.make_tensor("", HALF, [1], [1.0]))],
            [value("s", (1,), "INT64")],
            [value("y", None, "FLOAT16")],
        ),
        make_model(
            [op("If", "c", "y", then_branch=body(CAST), else_branch=body([op("Neg", "x", "z")]))],
            [value("x"), value("c", (), "BOOL")],
            [value("y", None)],
        ),
        with_function(),
        with_sequence(),
    ],
    ids=["input", "constant", "cast", "dtype", "tensor", "body", "function", "sequence"],
)
def test_it_is_found_wherever_it_is(proto: onnx.ModelProto) -> None:
    assert mentions_half(proto)


def test_other_tens_are_no_type() -> None:
    proto = make_model(
        [op("Pad", "x p", "a"), op("LRN", "a", "b", size=10), op("Cast", "b", "y", to=1)],
        [value("x", (10, 10, 10, 10))],
        [value("y", None)],
        {"p": np.full(8, 10)},
    )
    assert not mentions_half(proto)


def test_the_casts_of_the_runtime_are_no_nodes(tmp_path: Path) -> None:
    """x @ w is not rounded before the softmax reads it: a cut between them must not round."""
    rng = np.random.default_rng(0)
    proto = make_model(
        [op("MatMul", "x w", "a", "mm"), op("Tanh", "a", "b", "tanh"), op("MatMul", "b w", "y")],
        [value("x", (16, 16), "FLOAT16")],
        [value("y", None, "FLOAT16")],
        {"w": rng.standard_normal((16, 16)).astype(np.float16)},
    )
    model = load(proto, tmp_path, canonical="none")
    check_consistent(model)
    assert [node.op_type for node in model.graph.nodes] == ["MatMul", "Tanh", "MatMul"]
    assert {tensor.dtype for tensor in model.graph.tensors.values()} == {"float16"}
    first = runnable(model, [0])
    assert [node.op_type for node in first.proto.graph.node].count("Cast") == 2
    assert first.proto.graph.output[0].type.tensor_type.elem_type == TensorProto.FLOAT
    x = {"x": rng.standard_normal((16, 16)).astype(np.float16)}
    whole = dict(zip(["y"], open_exactly(proto, None).run(None, x), strict=True))
    values: dict[str, object] = dict(x)
    for v in range(3):
        part = runnable(model, [v])
        found = CompiledSubgraph(part.proto.SerializeToString(), None, part.outputs)
        values.update(found.run(values))
    assert_bitwise_equal({"y": values["y"]}, whole)
    assert_bitwise_equal(run_whole(model, x), whole)


def network(*, half: bool) -> onnx.ModelProto:
    """float32 outside; casts in the middle, a constant's cast, and what an optimiser fuses."""
    rng = np.random.default_rng(0)
    kind = np.float16 if half else np.float32
    weights = {
        "w": rng.standard_normal((8, 3, 3, 3)), "s": rng.random(8), "b": rng.random(8),
        "m": rng.random(8), "v": rng.random(8) + 1, "g": rng.standard_normal((8, 8, 1, 1)),
        "f": rng.standard_normal((16, 32)),
    }  # fmt: skip
    stored = {name: array.astype(kind) for name, array in weights.items()}
    stored["k"] = np.full((1, 8, 1, 1), 0.5, np.float32)

    def cast(source: str, result: str, name: str, to: int) -> list[onnx.NodeProto]:
        return (
            [op("Cast", source, result, name, to=to)]
            if half
            else [op("Identity", source, result, name)]
        )

    nodes = [
        *cast("x", "xh", "in", HALF), op("Conv", "xh w", "c", "conv", pads=[1, 1, 1, 1]),
        op("BatchNormalization", "c s b m v", "n", "norm"), op("Relu", "n", "r", "relu"),
        *cast("k", "kh", "constant", HALF), op("Mul", "r kh", "u", "mul"),
        op("Identity", "u", "i", "same"), op("Transpose", "i", "t", "turn", perm=[0, 1, 3, 2]),
        op("Conv", "t g", "d", "conv2"), *cast("d", "e", "out of", 1), op("Exp", "e", "o", "exp"),
        *cast("o", "p", "into", HALF), op("Tanh", "p", "q", "tanh"),
        op("MatMul", "q f", "z", "product"), *cast("z", "y", "out", 1),
    ]  # fmt: skip
    return make_model(nodes, [value("x", (1, 3, 16, 16))], [value("y", None)], stored)


@pytest.mark.parametrize("level", ["none", "basic", "extended"])
def test_optimised_graphs_hold_the_models_casts_and_no_others(level: str, tmp_path: Path) -> None:
    model = load(network(half=True), tmp_path, canonical=level)
    check_consistent(model)
    casts = [node.name for node in model.graph.nodes if node.op_type == "Cast"]
    assert casts == ["in", *(["constant"] if level == "none" else []), "out of", "into", "out"]
    kinds = {node.name: model.graph.tensors[node.outputs[0]].dtype for node in model.graph.nodes}
    assert kinds["exp"] == "float32"
    assert kinds["tanh"] == kinds["relu" if level != "extended" else "tanh"] == "float16"
    assert "norm" not in kinds or level == "none"
    weights = {model.graph.tensors[name].dtype for name in model.graph.constants}
    assert weights <= ({"float16", "float32"} if level == "none" else {"float16"})
    x = {"x": np.random.default_rng(1).standard_normal((1, 3, 16, 16)).astype(np.float32)}
    whole = run_whole(model, x)
    if level == "none":
        plain = open_exactly(network(half=True), None).run(None, x)
        assert_bitwise_equal(whole, dict(zip(["y"], plain, strict=True)))
    for seed in range(4):
        for how in (Split(seed=seed), Split(cuts=3, seed=seed)):
            assert_bitwise_equal(
                dict(zip(["y"], SplitModel(model, how).run(x), strict=True)), whole
            )


@cache
def model_at(level: str, *, half: bool) -> hetsim.Model:
    return model_of(network(half=half), canonical=level)  # type: ignore[arg-type]


@sweep(
    "name, level",
    quick=[(name, "basic") for name in device_names()[::9]],
    full=product(device_names(), ["none", "basic"]),
)
def test_half_precision_is_never_dearer_where_it_is_faster(name: str, level: str) -> None:
    spec = by_datasheet(loaded_device(name))
    if set(spec.flops_per_s) == {"int8"}:
        return
    platform = Platform("alone", {"d": spec}, (), "d", "here", "0")
    took, bounds = [], []
    for half in (False, True):
        problem = Problem.of(model_at(level, half=half), platform)
        if not problem.runnable.all():
            # Some take no Exp, or no MatMul: then they say so.
            lacking = np.flatnonzero(~problem.runnable.all(axis=1))
            assert all(problem.refusals[0][v] for v in lacking.tolist())
            return
        plan = hetsim.plan(problem, "single", device="d")
        took.append(hetsim.simulate(plan).latency_s)
        bounds.append(hetsim.lower_bound(problem))
    if "float16" in spec.flops_per_s:
        assert took[1] <= took[0]
        assert bounds[1] <= bounds[0]
    else:
        assert took[1] >= took[0]


@pytest.mark.parametrize("other", [HALF, TensorProto.BFLOAT16])
def test_a_function_that_is_one_cast_makes_its_own_output(other: int) -> None:
    """CastLike of an input: its body is a Cast, which is not one that the runtime inserts."""
    x, like, y = value("x"), value("like", (1,), TensorProto.DataType.Name(other)), value("y")
    y.type.tensor_type.elem_type = other
    model = model_of(make_model([op("CastLike", "x like", "y")], [x, like], [y]), canonical="none")
    part = runnable(model, [0])
    assert part.outputs == ("y",)


def test_an_output_of_a_function_may_be_unread() -> None:
    nodes = [op("Sigmoid", "x", "y"), op("Identity", "x", "z")]
    function = helper.make_function(
        "my", "F", ["x"], ["y", "z"], nodes, [helper.make_opsetid("", 20)]
    )
    call = helper.make_node("F", ["a"], ["x", ""], domain="my")
    proto = make_model(
        [call, *CAST], [value("a")], [value("y")], domains={"my": 1}, functions=[function]
    )
    model = model_of(proto, canonical="none")
    given = {"a": np.float32([[1.0001, -2.0, 3.0]] * 2)}
    outputs = SplitModel(model, Split(devices=2, assignment=[0, 1, 0])).run(given)
    assert_bitwise_equal(dict(zip(["y"], outputs, strict=True)), run_whole(model, given))
