"""What a device supports: rules with reasons, and patterns taken whole or not at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import hetsim
from builders import CASES
from hetsim.cost.prices import Prices
from hetsim.cost.registry import cost_model
from hetsim.device.device import SimulatedDevice, Support
from hetsim.graph.graph import Graph, Node, Tensor
from hetsim.graph.patterns.parser import parse_pattern
from hetsim.hardware.catalog import device_names
from hetsim.hardware.spec import DeviceSpec, SupportRule
from hetsim.problem.problem import Problem
from loaded_devices import loaded_device
from onnx_builders import if_model, load, make_model, op, value

NPU = hetsim.load_device(CASES / "box" / "npu.yaml")
GELU = "Mul(Mul($x, Add(Erf(Div($x, const)), const)), const)"

PLATFORM = f"""\
host: cpu
devices:
  cpu: rockchip-rk3588-cpu
  npu: {{device: {CASES / "box" / "npu.yaml"}, overrides: {{patterns: {{gelu: "{GELU}"}}}}}}
links:
  - {{between: [cpu, npu], latency_us: 20, bandwidth_gbytes_s: 3}}
"""


def gelu_model(
    *, outputs: tuple[str, ...] = ("y",), shape: tuple[int, ...] = (2, 8)
) -> onnx.ModelProto:
    """Relu, a Gelu written out in five ops, of which the NPU takes Erf and Div not alone, Relu."""
    nodes = [
        op("Relu", "x", "a", "before"),
        op("Div", "a root", "b", "div"),
        op("Erf", "b", "c", "erf"),
        op("Add", "c one", "d", "add"),
        op("Mul", "a d", "e", "mul"),
        op("Mul", "e half", "f", "scale"),
        op("Relu", "f", "y", "after"),
    ]
    constants = {
        "root": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5),
    }  # fmt: skip
    return make_model(
        nodes, [value("x", shape)], [value(name, shape) for name in outputs], constants
    )


def asked(spec: DeviceSpec, proto: onnx.ModelProto, folder: Path) -> Support:
    return SimulatedDevice("npu", spec).query_model(load(proto, folder, canonical="none").graph)


WITH_GELU = replace(NPU, patterns=(parse_pattern("gelu", GELU),))


def test_a_composite_is_taken_where_its_members_are_not(tmp_path: Path) -> None:
    support = asked(WITH_GELU, gelu_model(), tmp_path)
    assert [match.nodes for match in support.composites] == [(1, 2, 3, 4, 5)]
    assert support.supported == (True, False, False, True, True, True, True)
    assert all(support.taken)
    assert support.reasons == {
        1: "op Div; taken only as a part of pattern 'gelu'",
        2: "op Erf; taken only as a part of pattern 'gelu'",
    }


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (SupportRule(opset=(7, 13)), "operator set 20 (it takes 7 to 13)"),
        (SupportRule(opset=(21, 30)), "operator set 20 (it takes 21 to 30)"),
        (SupportRule(max_rank=3), "rank 4 of tensor 'x' (it takes 3)"),
        (SupportRule(max_tensor_bytes=1023), "1.00 KiB of tensor 'x' (it takes 1023 B)"),
        (SupportRule(max_tensor_bytes=1024), None),
        (
            SupportRule(attributes={"Conv": {"group": (1,)}}),
            "attribute group = 2 of Conv (it takes 1)",
        ),
        (
            SupportRule(attributes={"Conv": {"auto_pad": ("VALID", "SAME_UPPER")}}),
            "attribute auto_pad = NOTSET of Conv (it takes VALID, SAME_UPPER)",
        ),
        (SupportRule(attributes={"Conv": {"pads": ((0, 0, 0, 0),)}}), None),
        (SupportRule(attributes={"Conv": {"strides": ((2, 2), (1, 1))}}), None),
        (SupportRule(attributes={"Relu": {"group": (1,)}}), None),
        (SupportRule(opset=(20, 20), max_rank=4), None),
    ],
)
def test_a_rule_names_what_it_refuses(
    rule: SupportRule, reason: str | None, tmp_path: Path
) -> None:
    conv = op("Conv", "x w", "y", "conv", group=2, strides=[2, 2])
    proto = make_model(
        [conv],
        [value("x", (1, 4, 8, 8))],
        [value("y", (1, 4, 3, 3))],
        {"w": np.ones((4, 2, 3, 3), np.float32)},
    )
    support = asked(replace(NPU, support=rule), proto, tmp_path)
    assert support.reasons.get(0) == reason


def test_a_platform_with_a_pattern_end_to_end(tmp_path: Path) -> None:
    path = tmp_path / "box.yaml"
    path.write_text(PLATFORM)
    model = load(gelu_model(shape=(64, 512)), tmp_path, canonical="none")
    problem = Problem.of(model, hetsim.load_platform(path))
    assert [kernel.pattern for kernel in problem.composites] == ["gelu"]
    whole = hetsim.partition(problem)
    assert [(g.device, len(g.nodes)) for g in whole.groups] == [("npu", 7)]
    # One member on the host, and the device gives the whole pattern up.
    broken = hetsim.partition(problem, affinity=hetsim.Affinity({"add": "cpu"}))
    assert broken.notes == ("npu: pattern 'gelu' at 'div' was dropped: 'add' went to cpu",)
    found = {v: group.device for group in broken.groups for v in group.nodes}
    assert [found[v] for v in range(7)] == ["npu", "cpu", "cpu", "cpu", "npu", "npu", "npu"]
    assert broken.left[2] == (
        "npu: op Erf; taken only as a part of pattern 'gelu'; "
        "npu: pattern 'gelu' was dropped: 'add' went to cpu"
    )
    for strategy in ("hetero", "heft", "single:npu"):
        run = hetsim.run(hetsim.plan(problem, strategy), executor="threads")
        assert run.bitwise_equal
    # As one kernel it pays one launch and moves its inner values nowhere.
    kernel = problem.composites[0]
    assert problem.kernels(1, range(7))[1] == (kernel.nodes, kernel.seconds)
    assert kernel.seconds < 5 * float(problem.seconds[3, 1])
    bound = hetsim.lower_bound(problem)
    assert bound <= hetsim.simulate(hetsim.plan(problem, "hetero")).latency_s


FOREIGN = (
    "com.microsoft.nchwc:Conv",
    "com.microsoft:MatMulNBits",
    "ai.onnx.ml:LinearClassifier",
    "acme.example:Conv",
)


@pytest.mark.parametrize("key", FOREIGN)
def test_ops_of_other_domains_are_taken_where_they_are_named(key: str) -> None:
    """Which ops of ONNX a device refuses says nothing of others; kernels of CPUs are known."""
    domain, op_type = key.split(":")
    node = Node(0, "n", op_type, domain, ("x",), ("y",))
    kinds = {value: Tensor(value, "float32", (1, 8)) for value in "xy"}
    graph = Graph("g", (node,), kinds, ("x",), ("y",), frozenset(), {"": 20, domain: 1})
    for name in device_names():
        spec = loaded_device(name)
        reasons = SimulatedDevice("d", spec).query_model(graph).reasons
        if spec.kind == "cpu" or key in (spec.support.foreign or ()):
            assert reasons == {}, name
            assert spec.kind == "cpu" or (spec.kind, key) == ("gpu", "com.microsoft:MatMulNBits")
        else:
            assert reasons == {0: f"op {key}"}, name


def test_control_flow_is_taken_where_all_that_it_may_run_is(tmp_path: Path) -> None:
    ops = frozenset({"If", "MatMul", "ReduceMax"})
    takes = replace(NPU, support=SupportRule(ops=ops))
    lacks = replace(NPU, support=SupportRule(ops=ops - {"ReduceMax"}))
    assert asked(takes, if_model(), tmp_path).supported == (True,)
    assert asked(lacks, if_model(), tmp_path).reasons[0] == "op ReduceMax in else_branch of If"
    except_one = replace(NPU, support=SupportRule(except_ops=frozenset({"MatMul"})))
    assert "op MatMul in else_branch of If" in asked(except_one, if_model(), tmp_path).reasons[0]


def test_a_function_is_taken_where_its_body_is_but_for_patterns(tmp_path: Path) -> None:
    plain = gelu_model()
    constants = [
        onnx.helper.make_node("Constant", [], [tensor.name], value=tensor)
        for tensor in plain.graph.initializer
    ]
    function = onnx.helper.make_function(
        "own", "Whole", ["x"], ["y"], [*constants, *plain.graph.node],
        [onnx.helper.make_opsetid("", 20)],
    )  # fmt: skip
    call = make_model(
        [op("Whole", "x", "y", domain="own")],
        [value("x", (2, 8))],
        [value("y", (2, 8))],
        domains={"own": 1},
        functions=[function],
    )
    takes = replace(WITH_GELU, custom_ops=("function",))
    assert asked(takes, call, tmp_path).supported == (True,)
    lacks = replace(NPU, custom_ops=("function",))
    assert asked(lacks, call, tmp_path).reasons[0] == "op Div in the body of own:Whole"
    model = load(call, tmp_path, canonical="none")
    split = load(plain, tmp_path, canonical="none").graph
    prices = Prices(takes, cost_model("roofline"))
    support = SimulatedDevice("npu", takes).query_model(split)
    (kernel,) = (k for k in prices.fused(split, support, [1.0] * 7, {}) if k.pattern)
    around = sum(prices.node(split, split.nodes[v])[0] for v in (0, 6))
    alone = prices.node(model.graph, model.graph.nodes[0])[0]
    assert alone == pytest.approx(around + kernel.seconds)


def test_a_quantized_sum_of_an_open_shape_is_asked_for(tmp_path: Path) -> None:
    proto = make_model(
        [
            op("DequantizeLinear", "w scale zero", "wf"),
            op("Add", "x wf", "h"),
            op("QuantizeLinear", "h scale zero", "q"),
            op("MatMulInteger", "q w", "i"),
            op("Cast", "i", "f", to=onnx.TensorProto.FLOAT),
            op("Mul", "x scale", "s"),
            op("Mul", "f s", "y"),
        ],
        [value("x", ("n", 4))],
        [value("y", ("n", 4))],
        {
            "w": np.ones((4, 4), np.int8),
            "scale": np.float32(0.5),
            "zero": np.int8(0),
        },
    )
    reasons = asked(SPEC, proto, tmp_path).reasons
    assert reasons[1] == "dynamic shape of tensor 'x'"


SPEC = hetsim.load_device("rockchip-rk3588-npu")


def test_housekeeping_alone_is_left_to_the_host() -> None:
    nodes = (
        Node(0, "first", "Identity", "", ("x",), ("a",), origins=("first",)),
        Node(1, "erf", "Erf", "", ("a",), ("b",), origins=("erf",)),
        Node(2, "second", "Identity", "", ("b",), ("c",), origins=("second",)),
        Node(3, "relu", "Relu", "", ("c",), ("d",), origins=("relu",)),
    )
    tensors = {name: Tensor(name, "float32", (2,)) for name in "xabcd"}
    graph = Graph("g", nodes, tensors, ("x",), ("d",), frozenset(), {"": 20})
    support = SimulatedDevice("npu", SPEC).query_model(graph)
    assert support.supported == (False, False, True, True)
    assert support.reasons[0] == "no node that computes is joined to it there"
    cpu = hetsim.load_device("rockchip-rk3588-cpu")
    assert all(SimulatedDevice("cpu", cpu).query_model(graph).supported)
