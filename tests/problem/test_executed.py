"""As if in another precision: closed forms on small graphs, and what follows from them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from cost.test_quantized import NETWORKS, PARTS, alone, fast, quantized, spec_of
from hetsim.cost.prices import Prices
from hetsim.cost.registry import cost_model
from hetsim.device.registry import platform_devices
from hetsim.errors import InvalidInput, OutOfMemory, UsageError
from hetsim.graph.loading import model_of
from hetsim.graph.model import Model
from hetsim.hardware.catalog import device_names
from hetsim.hardware.spec import DeviceSpec
from hetsim.problem.parts import StorageWidth
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from onnx_builders import make_model, op, value
from oracles.every_plan import every_plan
from sweeps import sweep

F32 = np.float32
T4, TPU, NPU = map(spec_of, ("nvidia-t4", "google-edge-tpu", "rockchip-rk3588-npu"))
REQUANTIZE, SCALE = 4, 2


@cache
def network(name: str) -> Model:
    return model_of(NETWORKS[name](), canonical="none")


def of(model: Model, spec: DeviceSpec, precision: str | None = None) -> Problem:
    return Problem.of(model, alone(spec), execute={} if precision is None else {"d": precision})


def rate(spec: DeviceSpec, dtype: str, op_class: str) -> float:
    part = spec.efficiency.get(op_class, spec.efficiency["default"])
    return spec.flops_per_s[dtype] * part


def bandwidth(spec: DeviceSpec) -> float:
    return spec.bytes_per_s * spec.memory_efficiency


OUT = 16 * 16 * 16
IN = 8 * 16 * 16
WEIGHTS = 16 * 8 * 9 + 16
CONV = 2 * OUT * 72 + OUT


def residual(last: str = "Relu") -> Model:
    """Conv, Add, `last`: the sum is with an input of its own."""
    nodes = [
        op("Conv", "x w b", "c", pads=[1, 1, 1, 1]),
        op("Add", "c s", "a"),
        op(last, "a", "y"),
    ]
    made = make_model(
        nodes,
        [value("x", (1, 8, 16, 16)), value("s", (1, 16, 16, 16))],
        [value("y", (1, 16, 16, 16))],
        {"w": np.ones((16, 8, 3, 3), F32), "b": np.ones(16, F32)},
    )
    return model_of(made, canonical="none")


@pytest.mark.parametrize("spec", [T4, TPU], ids=["t4", "tpu"])
def test_a_convolution_is_an_integer_kernel_of_a_byte_an_element(spec: DeviceSpec) -> None:
    problem = of(residual(), spec, "int8")
    compute_s = (CONV + REQUANTIZE * OUT) / rate(spec, "int8", "conv")
    memory_s = (IN + WEIGHTS + OUT) / bandwidth(spec)
    expected = spec.launch_s + max(compute_s, memory_s)
    assert problem.seconds[0, 0] == pytest.approx(expected, rel=1e-12)
    compute_s = (1 + SCALE + REQUANTIZE) * OUT / rate(spec, "int8", "elementwise")
    expected = spec.launch_s + max(compute_s, 3 * OUT / bandwidth(spec))
    assert problem.seconds[1, 0] == pytest.approx(expected, rel=1e-12)


def test_a_declared_chain_that_begins_in_integers_is_an_integer_kernel() -> None:
    (kernel,) = of(residual(), T4, "int8").fused
    assert kernel.nodes == (0, 1, 2)
    compute_s = CONV / rate(T4, "int8", "conv")
    adding, clipping = 1 + SCALE, 1 + SCALE + REQUANTIZE
    compute_s += (adding + clipping) * OUT / rate(T4, "int8", "elementwise")
    moved_s = (IN + WEIGHTS + 2 * OUT) / bandwidth(T4)
    assert kernel.seconds == pytest.approx(T4.launch_s + max(compute_s, moved_s), rel=1e-12)


ALIKE = ("Sigmoid", "Mul", "MaxPool", "Concat", "GlobalAveragePool")


@sweep("part", quick=[3], full=range(PARTS))
def test_a_kernel_costs_what_it_does_in_the_model_that_is_quantized(part: int) -> None:
    """ONNX Runtime's tool makes the conversions; what is fused differs, so ops that are not."""
    names = [name for name in fast()[part::PARTS] if name != "rockchip-rk3588-npu"]
    assert len(names) > 10
    for name in names:
        costs_as_quantized(spec_of(name), name)


def costs_as_quantized(spec: DeviceSpec, name: str) -> None:
    asked = of(network("convolutions"), spec, "int8")
    made = of(model_of(quantized("convolutions", "qdq"), canonical="none"), spec)
    kernels = made.kernels(0, range(made.n))
    for kind in ALIKE:
        (took_s,) = (s for nodes, s in kernels if kind in {made.op_types[v] for v in nodes})
        (own,) = (v for v in range(asked.n) if asked.op_types[v] == kind)
        assert asked.seconds[own, 0] == pytest.approx(took_s, rel=1e-9), (name, kind)


def test_a_cut_converts_what_crosses_and_a_whole_network_nothing() -> None:
    problem = of(residual(), T4, "int8")
    assert problem.staging is not None
    moved = 1 + 1 / 4
    to_int8 = max(REQUANTIZE / 4 / rate(T4, "float32", "quantize"), moved / bandwidth(T4))
    back = max(SCALE / 4 / rate(T4, "float32", "quantize"), moved / bandwidth(T4))
    assert problem.staging.fetch_s_per_byte == (pytest.approx(to_int8, rel=1e-12),)
    assert problem.staging.store_s_per_byte == (pytest.approx(back, rel=1e-12),)
    (kernel,) = problem.fused
    whole = T4.dispatch_s + kernel.seconds
    assert problem.group_seconds(0, range(3)) == pytest.approx(whole, rel=1e-12)
    first, last = (
        T4.dispatch_s + float(problem.seconds[list(own), 0].sum()) for own in ([0, 1], [2])
    )
    joined = next((k.seconds for k in problem.fused if k.nodes == (0, 1)), None)
    assert joined is None
    assert problem.group_seconds(0, (0, 1)) == pytest.approx(first + 4 * OUT * back, rel=1e-12)
    assert problem.group_seconds(0, (2,)) == pytest.approx(last + 4 * OUT * to_int8, rel=1e-12)
    # What crosses, crosses in the model's own types, whoever makes it.
    assert [v.nbytes for v in problem.values] == [v.nbytes for v in of(residual(), T4).values]


def test_what_has_no_integer_kernel_is_computed_in_floats_between_conversions() -> None:
    model = residual("Erf")
    problem = of(model, T4, "int8")
    erf = of(model, T4).seconds[2, 0] - T4.launch_s
    converted_s = (SCALE + REQUANTIZE) * OUT / rate(T4, "float32", "quantize")
    moved_s = 2 * 4 * OUT / bandwidth(T4)
    took = problem.seconds[2, 0] - T4.launch_s
    assert erf <= took <= erf + converted_s * (1 + 1e-12)
    assert took >= max(moved_s, converted_s) * (1 - 1e-12)


def test_a_device_of_integers_alone_refuses_what_it_has_no_kernel_for() -> None:
    model = residual("Erf")
    assert not of(model, TPU).runnable.any()
    problem = of(model, TPU, "int8")
    assert problem.runnable[:, 0].tolist() == [True, True, False]
    assert problem.refusals[0][2] == "op Erf"
    everything = replace(TPU, support=replace(TPU.support, ops=None))
    reason = of(model, everything, "int8").refusals[0][2]
    assert reason == "op Erf has no integer kernel, and it computes no floats"


def test_rules_are_asked_of_the_types_that_the_device_holds() -> None:
    model = residual()
    rule = replace(T4.support, dtypes=frozenset({"int8", "int32"}), max_tensor_bytes=OUT)
    spec = replace(T4, support=rule)
    assert of(model, spec, "int8").runnable.all()
    assert of(model, spec).refusals[0][0] == "float32 tensor 'x'"
    assert of(model, spec, "float16").refusals[0][0] == "float16 tensor 'x'"
    small = replace(spec, support=replace(rule, max_tensor_bytes=OUT - 1))
    assert "4.00 KiB of tensor 'c'" in of(model, small, "int8").refusals[0][0]


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_half_precision_is_the_device_that_computes_so_by_itself(name: str) -> None:
    asked = of(network(name), T4, "float16")
    native = of(network(name), replace(T4, execution_dtype={"float32": "float16"}))
    assert asked.seconds.tolist() == native.seconds.tolist()
    assert asked.fused == native.fused
    assert asked.staging is None
    assert asked.held_bytes(0, 1000) == 500
    assert asked.executed == {"d": "float16"}


@sweep("part", quick=[0], full=range(PARTS))
def test_a_narrower_rate_is_never_dearer(part: int) -> None:
    """Every product and every whole network; a normalization in floats converts besides."""
    tried = 0
    for name in sorted(device_names())[part::PARTS]:
        spec = spec_of(name)
        for precision in ("float16", "bfloat16", "int8"):
            # Without dot products of bytes a narrower type is no faster, and conversions cost.
            faster = spec.flops_per_s.get(precision, 0.0) > spec.flops_per_s.get("float32", 0.0)
            if faster and precision != spec.execution_dtype.get("float32"):
                is_never_dearer(spec, name, precision)
                tried += 1
    assert tried > 10


def is_never_dearer(spec: DeviceSpec, name: str, precision: str) -> None:
    for model in map(network, sorted(NETWORKS)):
        before, after = of(model, spec), of(model, spec, precision)
        ops = [node.op_type for node in model.graph.nodes]
        for v, kind in enumerate(ops):
            if before.supported[v, 0] and kind != "LayerNormalization":
                assert after.supported[v, 0], (name, kind, precision)
                assert after.seconds[v, 0] <= before.seconds[v, 0], (name, kind, precision)
        if before.runnable.all():
            took = [p.group_seconds(0, range(p.n)) for p in (before, after)]
            assert took[1] <= took[0], (name, precision)
        held = after.held_bytes(0, after.capacity_bytes[0])  # type: ignore[index]
        assert held <= spec.memory_bytes, (name, precision)


EXECUTED = [
    ("laptop", {"npu": "int8", "gpu": "float16"}),
    ("laptop", {"cpu": "int8", "npu": "int8", "gpu": "int8"}),
    ("rock-5b", {"npu": "int8", "gpu": "int8", "cpu": "float16"}),
    ("edge-tpu", {"tpu": "int8"}),
]


@sweep("platform, execute", quick=EXECUTED[:1], full=EXECUTED)
def test_bounds_stay_below_every_plan_and_plans_obey_the_rules(
    platform: str, execute: dict[str, str]
) -> None:
    hardware = hetsim.load_platform(platform)
    for model in map(network, sorted(NETWORKS)):
        problem = Problem.of(model, hardware, execute=execute)
        bound_s = hetsim.lower_bound(problem)
        assert bound_s > 0
        table = hetsim.compare(
            problem,
            ["single", "hetero", "heft", "cpop", "peft", "mincut", "chain-dp", "local-search"],
        )
        for row in table.rows:
            if row.plan is None:
                continue
            row.plan.validate()
            timeline = hetsim.simulate(row.plan, requests=2)
            hetsim.check_timeline(problem, row.plan, timeline)
            alone_s = hetsim.simulate(row.plan).latency_s
            assert bound_s <= alone_s * (1 + 1e-12), row.strategy
        load = hetsim.plan(problem, "ideal-dp")
        check = hetsim.simulate(load, requests=3)
        hetsim.check_timeline(problem, load, check)


@pytest.mark.parametrize(
    ("platform", "execute"),
    [
        ("edge-tpu", {"tpu": "int8"}),
        ("laptop", {"npu": "int8", "cpu": "int8"}),
        ("laptop", {"cpu": "int8", "gpu": "float16"}),
    ],
)
def test_the_bound_is_below_every_plan_there_is(platform: str, execute: dict[str, str]) -> None:
    problem = Problem.of(residual("Erf"), hetsim.load_platform(platform), execute=execute)
    latencies = [
        hetsim.simulate(Plan(problem, "any", groups)).latency_s for groups in every_plan(problem)
    ]
    best_s = min(latencies)
    assert 0 < hetsim.lower_bound(problem) <= best_s * (1 + 1e-12)
    exact_s = hetsim.simulate(hetsim.plan(problem, "exact")).latency_s
    assert exact_s == pytest.approx(best_s, rel=1e-6)


WIDTHS = st.sampled_from([(32, 8), (32, 16), (16, 8), (64, 16), (16, 32)])
BYTES = st.integers(0, 1 << 40)


@given(WIDTHS, BYTES, BYTES, st.floats(0, 1))
def test_memory_holds_what_it_says_it_holds(
    widths: tuple[int, int], capacity: int, kept: int, part: float
) -> None:
    """Of any tensors, at most `kept` of them as wide as stated, what fits fits the device."""
    wide, bits = widths
    held = StorageWidth.within(capacity, wide, bits, kept)
    stated = held.room(capacity)
    as_stated = min(round(part * kept), kept, stated) if wide > bits else 0
    true_bytes = as_stated + -(-(stated - as_stated) * bits // wide)
    assert true_bytes <= held.nbytes(stated) <= capacity or held == StorageWidth()
    assert held == StorageWidth() or held.room(capacity) > capacity or wide < bits
    if wide > bits:
        assert held.room(capacity) >= capacity
    if not kept and wide > bits and capacity:
        assert stated == capacity * wide // bits


def test_weights_fit_as_integers_that_do_not_fit_as_floats() -> None:
    model = residual()
    floats = hetsim.simulate(hetsim.plan(of(model, T4), "single:d")).peak_memory_bytes["d"]
    tight = replace(T4, memory_bytes=floats // 2)
    with pytest.raises(OutOfMemory):
        hetsim.plan(of(model, tight), "single:d")
    plan = hetsim.plan(of(model, tight, "int8"), "single:d")
    timeline = hetsim.simulate(plan)
    assert timeline.weight_bytes == {"d": WEIGHTS}
    assert timeline.peak_memory_bytes == {"d": floats // 4}
    tighter = replace(T4, memory_bytes=floats // 4 - 1)
    with pytest.raises(OutOfMemory) as caught:
        hetsim.plan(of(model, tighter, "int8"), "single:d")
    assert caught.value.held_bytes == tighter.memory_bytes
    assert caught.value.needed_bytes == floats // 4
    # A user's limit is in bytes of the device, too.
    hetsim.plan(of(model, T4, "int8"), "heft", capacity_bytes={"d": floats // 4})
    with pytest.raises(OutOfMemory):
        hetsim.plan(of(model, T4, "int8"), "heft", capacity_bytes={"d": WEIGHTS + IN})


@pytest.mark.parametrize(
    ("execute", "says"),
    [
        ({"e": "int8"}, "no device 'e' on platform 'alone' to execute in int8"),
        ({"d": "int4"}, "models cannot be executed in 'int4'; did you mean 'int8'?"),
        ({"d": "bfloat16"}, "no peak rate for bfloat16 (nvidia-t4 has"),
        ({"d": "float8e4m3fn"}, "models cannot be executed in 'float8e4m3fn'"),
    ],
)
def test_what_cannot_be_is_refused(execute: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        Problem.of(residual(), alone(T4), execute=execute)
    assert says in str(caught.value)


def test_a_device_without_integer_kernels_is_refused() -> None:
    with pytest.raises(UsageError, match="it computes no op in integers"):
        of(residual(), replace(T4, quantized=frozenset()), "int8")


def test_a_wrong_argument_is_refused() -> None:
    with pytest.raises(InvalidInput, match="execute"):
        Problem.of(residual(), alone(T4), execute={"d": 8})  # type: ignore[dict-item]


def test_all_of_a_kind_go_by_one_name() -> None:
    platform = hetsim.load_platform("dual-gpu")
    numbered = [name for name in platform.devices if name.startswith("gpu.")]
    assert len(numbered) > 1
    problem = Problem.of(residual(), platform, execute={"gpu": "int8"})
    assert problem.executed == dict.fromkeys(numbered, "int8")


def test_branches_are_priced_as_if_too() -> None:
    from onnx import TensorProto, helper

    def branch(kind: str) -> Any:
        made = helper.make_tensor_value_info(kind, TensorProto.FLOAT, None)
        return helper.make_graph([op(kind, "x", kind)], kind, [], [made])

    node = op("If", "k", "y", then_branch=branch("Relu"), else_branch=branch("Erf"))
    proto = make_model([node], [value("k", (), "BOOL"), value("x", (64, 64))], [value("y")])
    cpu = replace(spec_of("intel-core-ultra-155h-cpu"), launch_s=0.0)
    before, after = (of(model_of(proto, canonical="none"), cpu, p) for p in (None, "int8"))
    # Data decide: the bound counts the cheaper, which is an integer kernel now.
    assert after.least_s[0][0] < before.least_s[0][0]


def test_a_run_computes_the_model_as_it_is_or_rounded_to_what_it_was_asked_in() -> None:
    problem = Problem.of(residual(), hetsim.load_platform("edge-tpu"), execute={"tpu": "int8"})
    plan = hetsim.plan(problem, "single:tpu")
    plain = hetsim.run(plan, executor="threads")
    assert plain.bitwise_equal
    rounded = hetsim.run(plan, executor="threads", precision="device")
    assert rounded.bitwise_equal
    assert max(found.max_rel for found in rounded.deviations) > 1e-3


def kept_bytes(made: Any, precision: str) -> StorageWidth:
    """How a T4 holds the tensors of a model that it executes in another precision."""
    (held,) = of(model_of(made, canonical="none"), T4, precision).held or (StorageWidth(),)
    return held


def test_what_is_no_float_and_what_no_integer_kernel_touches_is_kept_as_it_is() -> None:
    """A convolution in integers, a Tan in floats behind it, then a Gather by numbers of 8 bytes."""
    assert "Conv" in T4.quantized
    assert "Tan" not in T4.quantized
    assert "Gather" in T4.quantized
    nodes = [
        op("Conv", "x w", "c"), op("Tan", "c", "t"), op("Conv", "t v", "d"),
        op("Gather", "d i", "y"),
    ]  # fmt: skip
    inputs = [value("x", (1, 2, 4, 4)), value("i", (3,), "INT64")]
    weights = {"w": np.ones((2, 2, 1, 1), F32), "v": np.ones((5, 2, 1, 1), F32)}
    made = make_model(nodes, inputs, [value("y", None)], weights)
    # Tan reads c and writes t, 32 numbers each; Gather reads three of i.
    assert kept_bytes(made, "int8") == StorageWidth(32, 8, 4 * (32 + 32) + 8 * 3)
    assert kept_bytes(made, "float16") == StorageWidth(32, 16, 8 * 3)
    # Nothing but numbers that are no floats: nothing is held otherwise.
    whole = make_model([op("Abs", "i", "y")], [value("i", (3,), "INT64")],
                       [value("y", (3,), "INT64")])  # fmt: skip
    assert kept_bytes(whole, "int8") == kept_bytes(whole, "float16") == StorageWidth()


def test_of_several_float_types_the_one_that_gains_least_counts() -> None:
    nodes = [op("Cast", "x", "h", to=10), op("Neg", "h", "y")]
    made = make_model(nodes, [value("x", (64,))], [value("y", (64,), "FLOAT16")])
    wider = replace(T4, quantized=T4.quantized | {"Cast", "Neg"})
    assert of(model_of(made, canonical="none"), wider, "int8").held == (StorageWidth(16, 8, 0),)
    assert kept_bytes(made, "float16") == StorageWidth(16, 16, 0)


def test_only_a_model_in_floats_is_asked_about_in_int8() -> None:
    """Of one that says itself what is in integers, the platform's own int8 is left out."""
    model = model_of(quantized("convolutions", "qdq"), canonical="none")
    own = replace(alone(T4), devices={"d": replace(T4, executes="int8")})
    assert Problem.of(model, own).executed == {}
    assert Problem.of(model, own).fingerprint == of(model, T4).fingerprint
    assert Problem.of(residual(), own).executed == {"d": "int8"}
    with pytest.raises(InvalidInput, match="the model is quantized already"):
        Problem.of(model, own, execute={"d": "int8"})
    several = hetsim.load_platform("laptop")
    said = {"npu": "int8", "gpu": "float16", "cpu": None}
    devices = {name: replace(spec, executes=said[name]) for name, spec in several.devices.items()}
    assert Problem.of(model, replace(several, devices=devices)).executed == {"gpu": "float16"}
    # What is asked of another precision is asked, and what the platform says of int8 still is not.
    assert Problem.of(model, own, execute={"d": "float16"}).executed == {"d": "float16"}


def test_a_load_that_kernels_share_is_counted_in_them_and_not_by_itself() -> None:
    """Each of its readers converts as it loads, at the least too."""
    model = model_of(quantized("attention", "qdq"), canonical="none")
    platform = alone(T4)
    problem = Problem.of(model, platform, cost="roofline")
    (device,) = platform_devices(platform, model.extensions).values()
    prices = Prices(device.spec, cost_model("roofline"))
    loads = prices.loads(model.graph, device.query_model(model.graph))
    nodes = [node for node in model.graph.nodes if node.id in loads]
    assert {node.op_type for node in nodes} == {"DequantizeLinear", "LayerNormalization"}
    for node in nodes:
        took_s = loads[node.id]
        assert (took_s == 0.0) == (node.op_type == "DequantizeLinear")
        assert problem.seconds[node.id, 0] == took_s
    assert any(prices.node(model.graph, node)[0] != loads[node.id] for node in nodes)
    assert problem.least_s == {}
