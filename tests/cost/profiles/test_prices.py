"""Prices from profiles: times of kernels spread over their nodes, and what is not measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hetsim
from hetsim.cost.prices import Fused
from hetsim.cost.profiles.formats import Profile, TimedKernel
from hetsim.cost.profiles.prices import MOST_FUSED, MeasuredShare, ProfiledTimes, with_profile
from hetsim.errors import InvalidInput
from matched_kernels import model as made_of
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


def test_what_is_of_another_model_or_shape_is_refused(model: hetsim.Model, tmp_path: Path) -> None:
    others = ort_profile([("a", 1.0, "Conv"), ("ReorderInput", 1.0, "ReorderInput")])
    with pytest.raises(InvalidInput, match="none of its 2 kernels is named"):
        priced(model, tmp_path, others)
    rows = [
        ort_event(name, 10, 20 * at, output_type_shape=[{"float": [8, 4, 8, 8]}])
        for at, name in enumerate(("conv1", "relu1", "conv2"))
    ]
    with pytest.raises(InvalidInput, match="shapes differ: 3 of 3 kernels, 'conv1' first"):
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
    with pytest.raises(InvalidInput, match="supports none of the nodes"):
        priced(model, tmp_path, ort_profile(EACH), "tpu", "edge-tpu")


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


INF = np.inf
FOUR = made_of(
    op("Exp", "x", "a", "a"), op("MaxPool", "a", "b", "b", kernel_shape=[1, 1]),
    op("Sin", "b", "c", "c"), op("MaxPool", "c", "y", "d", kernel_shape=[1, 1]),
)  # fmt: skip
"""Four nodes; a pool is none that runs within another's kernel."""


def kernel(name: str, took_s: float, op: str = "", unit: str = "", **more: Any) -> TimedKernel:
    return TimedKernel(name, took_s, took_s, took_s, op, unit, **more)


def with_times(
    *kernels: TimedKernel,
    seconds: tuple[float, ...] = (1.0, 2.0, 3.0, 4.0),
    least: tuple[float, ...] | None = None,
    fused: tuple[Fused, ...] = (),
    kind: str = "npu",
    ordered: bool = True,
) -> ProfiledTimes:
    profile = Profile("f", "profile.json", "0", kernels, 1, "", ordered)
    times = np.array(seconds)
    return with_profile(profile, FOUR, kind, times, np.array(least or seconds), fused)


def test_a_kernel_is_spread_by_what_its_nodes_would_take_alone() -> None:
    found = with_times(kernel("a", 9.0), kernel("b + c", 10.0))
    assert found.seconds.tolist() == [9.0, 4.0, 6.0, 4.0]
    assert found.fused == (Fused((1, 2), 10.0),)
    assert found.share.measured == (True, True, True, False)
    assert (found.share.measured_s, found.share.modelled_s) == (19.0, 4.0)
    assert (found.share.nodes, found.share.by_name_s, found.share.by_place_s) == (4, 19.0, 0.0)
    # What would take no time takes equal parts; what the device does not take has none.
    even = with_times(kernel("a + b", 8.0), seconds=(0.0, 0.0, 1.0, 1.0))
    assert even.seconds.tolist() == [4.0, 4.0, 1.0, 1.0]
    lacking = with_times(kernel("a + b + c", 8.0), seconds=(1.0, INF, 3.0, 4.0))
    assert lacking.seconds.tolist() == [2.0, INF, 6.0, 4.0]
    assert (lacking.fused, lacking.share.nodes) == ((), 3)
    assert lacking.share.measured == (True, False, True, False)


def test_measured_kernels_replace_those_of_the_model_but_composites() -> None:
    chain, pattern = Fused((0, 1), 2.5), Fused((0, 1), 2.0, "p")
    untouched = with_times(kernel("c", 5.0), kernel("d", 5.0), fused=(chain,), ordered=False)
    assert untouched.fused == (chain,)
    # A measured member takes the fusion apart.
    ran = kernel("a", 1.0), kernel("b", 5.0)
    assert with_times(*ran, fused=(Fused((1, 2), 2.5),)).fused == ()
    # A composite keeps its nodes: the measured one, and its part of what the model says.
    kept = with_times(*ran, fused=(Fused((1, 2), 2.0, "p"),))
    assert kept.seconds.tolist() == [1.0, 5.0, 3.0, 4.0]
    (one,) = kept.fused
    assert (one.nodes, one.pattern) == ((1, 2), "p")
    assert one.seconds == pytest.approx(5.0 + 2.0 * 3 / 5)
    whole = with_times(kernel("a + b", 6.0), fused=(pattern,))
    assert whole.fused == (Fused((0, 1), 6.0, "p"),)
    # A node that runs within the composite alone has what is left of it.
    within = with_times(
        kernel("a + b", 6.0), seconds=(1.0, INF, 1.0, 1.0), fused=(Fused((0, 1), 4.0, "p"),)
    )
    (one,) = within.fused
    assert one.seconds == pytest.approx(6.0)
    assert within.seconds.tolist()[:2] == [pytest.approx(6.0 * 1 / 4), INF]


def test_up_to_sixteen_nodes_are_one_kernel_and_what_has_a_place_is_none() -> None:
    for count in (MOST_FUSED, MOST_FUSED + 1):
        nodes = [op("Sin", f"v{k}" if k else "x", f"v{k + 1}", f"n{k}") for k in range(count)]
        long = made_of(*nodes, outputs=f"v{count}")
        told = Profile("f", "s", "0", (kernel(f"{{ForeignNode[n0...n{count - 1}]}}", 3.0),), 1, "")
        times = np.ones(count)
        found = with_profile(told, long, "npu", times, times, ())
        assert len(found.fused) == (count == MOST_FUSED)
        assert found.seconds.sum() == pytest.approx(3.0)
    placed = with_times(kernel("a", 1.0), kernel("__myl_Something", 6.0), kernel("d", 1.0))
    assert placed.fused == ()
    assert (placed.share.by_place_s, placed.share.by_name_s) == (6.0, 2.0)


def test_what_has_no_node_is_told_with_why_the_dearest_first() -> None:
    found = with_times(
        kernel("a", 1.0), kernel("mystery", 2.0), kernel("b", 5.0), kernel("other", 7.0),
        kernel("another", 2.0), kernel("copy", 3.0, "MemcpyToHost"),
        seconds=(1.0, INF, 3.0, 4.0), ordered=False,
    )  # fmt: skip
    assert [(one.name, one.seconds, one.why) for one in found.share.unmatched] == [
        ("other", 7.0, "no node has that name"), ("b", 5.0, "the device does not support it"),
        ("another", 2.0, "no node has that name"), ("mystery", 2.0, "no node has that name"),
    ]  # fmt: skip
    assert (found.share.moved_s, found.share.unmatched_s) == (3.0, 16.0)
    assert (found.share.inside, found.share.elsewhere_s) == (0, 0.0)


@pytest.mark.parametrize(
    ("sizes", "refused"),
    [((36, 36, 36), False), ((36, 36, 7), False), ((36, 7, None), False), ((36, 7, 7), True),
     ((7, None, None), True), ((None, None, None), False)],
)  # fmt: skip
def test_most_of_the_sizes_that_are_told_must_be_those_of_the_model(
    sizes: tuple[int | None, ...], refused: bool
) -> None:
    kernels = [kernel(name, 1.0, elements=size) for name, size in zip("abc", sizes, strict=True)]
    if not refused:
        assert with_times(*kernels).share.measured[:3] == (True, True, True)
        return
    other = next(name for name, size in zip("abc", sizes, strict=True) if size == 7)
    known = sum(size is not None for size in sizes)
    with pytest.raises(InvalidInput, match=f"of {known} kernels, '{other}' first"):
        with_times(*kernels)
