"""Measured prices: what is matched, how it is spread, what stays modelled, and what is told."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hetsim
from hetsim.cost.profiles.formats import Profile
from hetsim.cost.profiles.prices import MeasuredShare
from hetsim.errors import InvalidInput, UsageError
from odd_graphs import loops_within_branches
from onnx_builders import make_model, op, save, value
from profile_builders import (
    ai_hub_profile,
    openvino_table,
    ort_event,
    ort_profile,
    ort_run,
    trt_profile,
    unit_model,
    written,
)

NAMES = ("conv1", "relu1", "conv2", "relu2", "add", "pool", "flat", "head")
EACH = [(name, 10.0 * (at + 1), "") for at, name in enumerate(NAMES)]


@pytest.fixture
def model(tmp_path: Path) -> hetsim.Model:
    return hetsim.load_model(save(unit_model(), tmp_path, "unit.onnx"))


def priced(
    model: hetsim.Model, folder: Path, content: Any, device: str = "npu", platform: str = "laptop"
) -> tuple[hetsim.Problem, MeasuredShare]:
    path = written(folder, content)
    problem = hetsim.Problem.of(model, hetsim.load_platform(platform), profiles={device: path})
    return problem, problem.profiles[problem.devices[problem.device_index(device)]]


def alone(problem: hetsim.Problem, device: str) -> dict[str, float]:
    column = problem.seconds[:, problem.device_index(device)]
    return dict(zip(problem.node_names, column.tolist(), strict=True))


def modelled(model: hetsim.Model, platform: str = "laptop") -> hetsim.Problem:
    return hetsim.Problem.of(model, hetsim.load_platform(platform))


def test_every_node_has_the_time_of_its_kernel(model: hetsim.Model, tmp_path: Path) -> None:
    problem, share = priced(model, tmp_path, ort_profile(EACH), "cpu")
    assert alone(problem, "cpu") == pytest.approx({name: us * 1e-6 for name, us, _ in EACH})
    assert (share.share, sum(share.measured), share.nodes) == (1.0, 8, 8)
    assert share.measured_s == pytest.approx(share.profile.total_s)
    assert not share.unmatched
    # What the model fuses ran apart, and the other devices are as they were.
    assert not [kernel for kernel in problem.fused if kernel.device == 0]
    before = modelled(model)
    np.testing.assert_array_equal(problem.seconds[:, 1:], before.seconds[:, 1:])
    assert [k for k in before.fused if k.device] == [k for k in problem.fused if k.device]
    assert problem.fingerprint != before.fingerprint


FUSED: Mapping[str, Any] = {
    "tensorrt": trt_profile({"conv1 + relu1": 0.5, "conv2 + PWN(relu2, add)": 0.7, "pool": 0.1,
                             "flat": 0.0, "head": 0.2}),
    "ranges": trt_profile({"{ForeignNode[conv1...relu1]}": 0.5, "fused_conv2_relu2_add": 0.7,
                           "pool": 0.1, "flat": 0.0, "head": 0.2}),
    "values": ort_profile([("r1_nchwc", 500, "Conv"), ("ReorderInput", 100, "ReorderInput"),
                           ("conv2", 600, "FusedConv"), ("pool", 100, ""),
                           ("flat", 0, "Flatten"), ("head", 200, "MatMul")]),
    "openvino": openvino_table([[
        ("conv1/WithoutBiases", "EXECUTED", "Convolution", 0.5), ("relu1", "NOT_RUN", "Relu", 0),
        ("conv2", "EXECUTED", "Convolution", 0.7), ("relu2", "OPTIMIZED_OUT", "Relu", 0.0),
        ("add", "NOT_RUN", "Add", 0.0), ("pool", "EXECUTED", "ReduceMean", 0.1),
        ("flat", "EXECUTED", "Reshape", 0.0), ("head", "EXECUTED", "MatMul", 0.2)]]),
    "ai hub": ai_hub_profile([
        {"name": name, "type": kind, "compute_unit": "NPU", "execution_time": us}
        for name, kind, us in (("conv1_relu1", "Conv2d", 500), ("conv2", "Conv2d", 700),
                               ("pool", "Pool", 100), ("head", "FullyConnected", 200))], 1600),
}  # fmt: skip


@pytest.mark.parametrize("kind", FUSED)
def test_a_fused_kernel_is_one_and_a_cut_leaves_each_node_its_share(
    model: hetsim.Model, tmp_path: Path, kind: str
) -> None:
    problem, share = priced(model, tmp_path, FUSED[kind])
    npu = problem.device_index("npu")
    assert share.share == pytest.approx(1.0)
    assert share.measured_s == pytest.approx(1.5e-3) == share.profile.total_s
    ids = {name: v for v, name in enumerate(problem.node_names)}
    units = [[ids["conv1"], ids["relu1"]], [ids["conv2"], ids["relu2"], ids["add"]]]
    weights = modelled(model).seconds[:, npu]
    for unit, whole_s in zip(units, (0.5e-3, 0.7e-3), strict=True):
        launched = problem.kernels(npu, unit)
        assert sum(seconds for _, seconds in launched) == pytest.approx(whole_s)
        assert [members for members, _ in launched] == [tuple(unit)]
        parts = [problem.kernels(npu, [v])[0][1] for v in unit]
        assert sum(parts) == pytest.approx(whole_s)
        shares = weights[unit] / weights[unit].sum()
        np.testing.assert_allclose(parts, whole_s * shares, rtol=1e-9)


def test_what_no_kernel_names_is_modelled(model: hetsim.Model, tmp_path: Path) -> None:
    problem, share = priced(model, tmp_path, trt_profile({"conv1": 0.5, "relu1": 0.1}))
    before = modelled(model)
    npu = problem.device_index("npu")
    assert [name for name, is_so in zip(problem.node_names, share.measured, strict=True) if is_so]
    assert sum(share.measured) == 2
    np.testing.assert_array_equal(problem.seconds[2:, npu], before.seconds[2:, npu])
    assert share.measured_s == pytest.approx(0.6e-3)
    assert share.modelled_s == pytest.approx(float(before.shared_seconds[2:, npu].sum()))
    assert share.share == pytest.approx(share.measured_s / (share.measured_s + share.modelled_s))


def test_a_kernel_that_matches_no_node_is_told(model: hetsim.Model, tmp_path: Path) -> None:
    rows = trt_profile({**{name: us / 1e3 for name, us, _ in EACH}, "mystery": 0.4, "m2": 0.1})
    problem, share = priced(model, tmp_path, rows)
    assert [(k.name, k.why) for k in share.unmatched] == [
        ("mystery", "no node of that name"),
        ("m2", "no node of that name"),
    ]
    assert share.unmatched_s == pytest.approx(0.5e-3)
    used = share.by_name_s + share.by_place_s
    assert share.profile.total_s == pytest.approx(used + share.unmatched_s)
    record = hetsim.compare(problem, ["single"])
    assert record.problem.profiles == problem.profiles


def test_a_kernel_without_a_name_goes_to_its_place(tmp_path: Path) -> None:
    weights = {"w": np.ones((4, 4), np.float32), "s": np.ones(4, np.float32)}
    nodes = [
        op("MatMul", "x w", "a", "first"),
        op("Add", "a x", "b", "skip"),
        op("LayerNormalization", "b s", "c", "norm"),
        op("MatMul", "c w", "d", "second"),
        op("Tanh", "d", "e", "squash"),
        op("MatMul", "e w", "y", "third"),
    ]
    proto = make_model(nodes, [value("x", (1, 2, 4))], [value("y", (1, 2, 4))], weights)
    model = hetsim.load_model(save(proto, tmp_path, "place.onnx"))
    rows = ort_profile(
        [
            ("first", 10, "MatMul"),
            ("SkipLayerNormalization_token_5", 30, "SkipLayerNormalization"),
            ("gemm_input_reshape_token_1", 3, "Reshape"),
            ("second", 20, "MatMul"),
            ("third", 40, "MatMul"),
        ]
    )
    problem, share = priced(model, tmp_path, rows, "cpu")
    times = alone(problem, "cpu")
    assert times["skip"] + times["norm"] == pytest.approx(30e-6)
    assert share.by_place_s == pytest.approx(30e-6)
    # The conversion is at the expense of what it is for, tanh within what made its input.
    assert times["second"] + times["squash"] == pytest.approx(23e-6)
    assert times["third"] == pytest.approx(40e-6)
    assert (share.inside, share.unmatched) == (1, ())


def test_compiled_parts_without_names_cover_what_nothing_names(
    model: hetsim.Model, tmp_path: Path
) -> None:
    rows = trt_profile(
        {"conv1 + relu1": 0.5, "__myl_ConvReluAdd_myl0_1": 0.6, "__myl_Mean_myl0_2": 0.1,
         "head": 0.2}
    )  # fmt: skip
    problem, share = priced(model, tmp_path, rows)
    assert share.share == pytest.approx(1.0)
    assert share.by_place_s == pytest.approx(0.7e-3)
    assert problem.group_seconds(2, range(problem.n)) == pytest.approx(
        1.4e-3 + problem.dispatch_s[2]
    )


def test_each_unit_has_its_own_part_of_a_profile(model: hetsim.Model, tmp_path: Path) -> None:
    cuda = "CUDAExecutionProvider"
    rows = [
        ort_event("Memcpy", 100, 0, "MemcpyFromHost", cuda),
        *(ort_event(name, 10, 200 + 20 * at, "", cuda) for at, name in enumerate(NAMES[:6])),
        ort_event("flat", 50, 400, "Flatten"),
        ort_event("head", 60, 500, "MatMul"),
        ort_run(0, 600),
    ]
    problem, share = priced(model, tmp_path, rows, "gpu")
    assert [*share.measured] == [True] * 6 + [False] * 2
    assert share.elsewhere_s == pytest.approx(110e-6)
    assert share.moved_s == pytest.approx(100e-6)
    problem, share = priced(model, tmp_path, rows, "cpu")
    assert [*share.measured] == [False] * 6 + [True] * 2
    assert alone(problem, "cpu")["head"] == pytest.approx(60e-6)


def test_one_name_twice_adds_up(model: hetsim.Model, tmp_path: Path) -> None:
    rows = [*trt_profile({"conv1": 0.5, "head": 0.1}), *trt_profile({"conv1": 0.25})[1:]]
    problem, share = priced(model, tmp_path, rows)
    assert alone(problem, "npu")["conv1"] == pytest.approx(0.75e-3)
    assert (share.unmatched, share.by_name_s) == ((), pytest.approx(0.85e-3))


def test_a_dense_kernel_that_nothing_names_is_not_spread_over_its_neighbours(
    model: hetsim.Model, tmp_path: Path
) -> None:
    layers = {"conv1": 0.5, "relu1": 0.1, "xyz": 0.9, "add": 0.1, "pool": 0.1, "flat": 0.0}
    _, share = priced(model, tmp_path, trt_profile({**layers, "head": 0.1}))
    assert [kernel.name for kernel in share.unmatched] == ["xyz"]
    assert [*share.measured] == [True, True, False, False, True, True, True, True]
    # Where it says that it is a convolution, it is the one that must have run there.
    ops = {"xyz": "Conv"}
    rows = ort_profile([(name, ms * 1e3, ops.get(name, "")) for name, ms in layers.items()])
    problem, share = priced(model, tmp_path, rows)
    times = alone(problem, "npu")
    assert share.unmatched == ()
    assert times["conv2"] + times["relu2"] == pytest.approx(0.9e-3)


def test_two_nodes_of_one_name_are_two_kernels(tmp_path: Path) -> None:
    nodes = [op("Tanh", "x", "a", "same"), op("Exp", "a", "b", "same"), op("Sin", "b", "y", "z")]
    path = save(make_model(nodes, [value("x")], [value("y")]), tmp_path, "twice.onnx")
    model = hetsim.load_model(path)
    rows = [
        ort_event("same", 10, 0, "Tanh", node_index="0"),
        ort_event("same", 20, 20, "Exp", node_index="1"),
        ort_event("z", 30, 50, "Sin", node_index="2"),
    ]
    problem, share = priced(model, tmp_path, rows, "cpu")
    assert problem.seconds[:, 0].tolist() == pytest.approx([10e-6, 20e-6, 30e-6])
    assert share.share == 1.0


def test_what_data_decide_stays_a_part(tmp_path: Path) -> None:
    proto, _ = loops_within_branches()
    model = hetsim.load_model(save(proto, tmp_path, "odd.onnx"))
    before = modelled(model)
    decided = sorted(before.least_s)
    assert decided
    rows = ort_profile([(name, 50.0, "") for name in before.node_names])
    problem, share = priced(model, tmp_path, rows, "cpu")
    for v in decided:
        part = before.least_s[v][0] / before.seconds[v, 0]
        assert problem.least_s[v][0] == pytest.approx(part * problem.seconds[v, 0])
    assert share.share == 1.0


@pytest.mark.parametrize("strategy", ["single:npu", "heft", "exact"])
def test_no_plan_is_below_the_bound(model: hetsim.Model, tmp_path: Path, strategy: str) -> None:
    problem, _ = priced(model, tmp_path, FUSED["tensorrt"])
    bound = hetsim.lower_bound(problem)
    assert 0 < bound <= hetsim.simulate(hetsim.plan(problem, strategy)).latency_s * (1 + 1e-12)


def test_like_devices_share_a_profile(model: hetsim.Model, tmp_path: Path) -> None:
    path = written(tmp_path, FUSED["tensorrt"])
    platform = hetsim.load_platform("gpu-server-8")
    problem = hetsim.Problem.of(model, platform, profiles={"gpu": path})
    assert sorted(problem.profiles) == [f"gpu.{k}" for k in range(8)]
    plan = hetsim.plan(problem, "single:gpu.0")
    plan.save(tmp_path / "plan.json")
    assert hetsim.load_plan(tmp_path / "plan.json").problem.profiles == problem.profiles
    with pytest.raises(UsageError, match=r"'gpu\.3' has two profiles"):
        hetsim.Problem.of(model, platform, profiles={"gpu": path, "gpu.3": path})
    with pytest.raises(UsageError, match="no device 'npu'"):
        hetsim.Problem.of(model, platform, profiles={"npu": path})


def test_what_is_of_another_model_or_shape_is_refused(model: hetsim.Model, tmp_path: Path) -> None:
    others = ort_profile([("a", 1.0, "Conv"), ("ReorderInput", 1.0, "ReorderInput")])
    with pytest.raises(InvalidInput, match="none of its 2 kernels has a name"):
        priced(model, tmp_path, others)
    rows = [
        ort_event(name, 10, 20 * at, output_type_shape=[{"float": [8, 4, 8, 8]}])
        for at, name in enumerate(("conv1", "relu1", "conv2"))
    ]
    with pytest.raises(InvalidInput, match="other shapes: 3 of 3 kernels, 'conv1' first"):
        priced(model, tmp_path, rows)
    for row in rows[:2]:
        row["args"]["output_type_shape"] = [{"float": [1, 4, 8, 8]}]
    assert sum(priced(model, tmp_path, rows)[1].measured) >= 3
    of_gpu = [
        {"name": "conv1", "compute_unit": "CPU", "execution_time": 1},
        {"name": "nothing", "compute_unit": "CPU2", "execution_time": 1},
    ]
    with pytest.raises(InvalidInput, match="none of its"):
        priced(model, tmp_path, ai_hub_profile(of_gpu[1:], 10))


def test_a_device_that_takes_no_node_of_it_says_so(model: hetsim.Model, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="can run none of the nodes"):
        priced(model, tmp_path, ort_profile(EACH), "tpu", "edge-tpu")


def test_the_same_profile_gives_the_same_prices(model: hetsim.Model, tmp_path: Path) -> None:
    first, _ = priced(model, tmp_path, FUSED["values"])
    second, _ = priced(model, tmp_path, FUSED["values"])
    assert first.fingerprint == second.fingerprint


def test_a_share_is_of_all_that_is_timed_and_of_no_time_all_or_nothing() -> None:
    nothing = Profile("f", "s", "0", (), 1, "")
    for timed, rest, measured, share in (
        (3.0, 1.0, (True, False), 0.75),
        (0.0, 2.0, (False, False), 0.0),
        (0.0, 0.0, (False, True), 1.0),
        (0.0, 0.0, (False, False), 0.0),
    ):
        found = MeasuredShare(nothing, measured, 2, timed, rest, 0.0, 0.0, 0, (), 0.0, 0.0)
        assert found.share == share
