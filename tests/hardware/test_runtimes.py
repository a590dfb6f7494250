"""Devices by the figures of the runtime that the user names."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import hetsim
from cli_calls import call, record_of, refused
from hetsim.errors import PlatformError, UsageError
from hetsim.hardware.catalog import device_names, load_device, load_platform
from hetsim.hardware.files.runtimes import (
    by_runtime,
    every_runtime,
    runtimes_by_factor,
    runtimes_of,
)


def alone_s(runtime: dict[str, str] | None) -> float:
    platform = load_platform("nvidia-rtx-3090", runtime)
    problem = hetsim.Problem.of(
        hetsim.load_model("zoo:squeezenet"), platform, execute={"gpu": "float16"}
    )
    return hetsim.simulate(hetsim.plan(problem, "single")).latency_s


def test_figures_of_a_device_are_those_of_one_runtime() -> None:
    """Five cards had float16 by ncnn on Vulkan beside float32 by TensorRT."""
    assert load_device("nvidia-rtx-3090").runtimes
    for name in device_names():
        spec = load_device(name)
        assert bool(spec.kernels) == bool(spec.runtime)
        assert spec.runtime not in spec.runtimes
        for kernels in (spec.kernels, *spec.runtimes.values()):
            vulkan = {figures.kin.startswith("ncnn") for figures in kernels.values()}
            assert len(vulkan) <= 1, name


def test_another_runtime_is_named_by_device_or_for_all() -> None:
    first, other = alone_s(None), alone_s({"gpu": "ncnn"})
    assert other > 1.5 * first
    assert alone_s({"*": "ncnn"}) == other
    assert alone_s({"gpu": "tensorrt"}) == first
    spec = by_runtime(load_device("nvidia-rtx-3090"), "ncnn", "")
    assert runtimes_of(spec) == ("ncnn", "tensorrt")
    assert by_runtime(spec, "tensorrt", "") == load_device("nvidia-rtx-3090")


@pytest.mark.parametrize(
    ("runtime", "told"),
    [
        ({"gpu": "vulkan"}, "no figures for runtime 'vulkan'"),
        ({"npu": "ncnn"}, "no device 'npu'"),
        ({"*": "vulkan"}, "no device of platform 'nvidia-rtx-3090'"),
    ],
)
def test_what_is_not_there_is_said(runtime: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        load_platform("nvidia-rtx-3090", runtime)


def test_a_runtime_that_was_not_measured_takes_the_nearest_by_a_factor() -> None:
    spec = load_device("rockchip-rk3588-cpu")
    assert "pytorch" in runtimes_by_factor(spec)
    by = by_runtime(spec, "torch", "")
    assert by.runtime == "pytorch"
    assert by_runtime(by, "ncnn", "") == spec
    figures = by.kernels["float16"]
    assert figures.factor is not None
    assert figures.factor.base == "ncnn"
    assert figures.factor.chips >= 2
    model = hetsim.load_model("zoo:resnet50")
    own, other = (
        hetsim.Problem.of(
            model, load_platform("rockchip-rk3588-cpu", runtime), execute={"cpu": "float16"}
        )
        for runtime in (None, {"cpu": "pytorch"})
    )
    ratio = other.seconds.sum() / own.seconds.sum()
    assert ratio == pytest.approx(figures.factor.factor)
    (before,), (after,) = own.evidence, other.evidence
    assert after.status == "derived"
    assert after.runtime == str(figures.factor)
    assert after.sd == pytest.approx(math.hypot(before.sd, figures.factor.sd))


def test_every_runtime_that_a_device_lists_is_taken_and_given_back() -> None:
    for name in device_names():
        spec = load_device(name)
        for runtime in every_runtime(spec):
            by = by_runtime(spec, runtime, name)
            assert by.runtime == runtime
            assert by.kernels
            assert by_runtime(by, spec.runtime, name) == spec


def test_a_framework_adds_a_launch_to_every_kernel_of_a_gpu() -> None:
    spec = load_device("nvidia-t4")
    figures, own = by_runtime(spec, "pytorch", "").kernels["float32"], spec.kernels["float32"]
    assert figures.factor is not None
    launch_s, factor = figures.factor.launch_s, figures.factor.factor
    assert launch_s > 0
    first, second = figures.value("launch_us"), own.value("launch_us")
    assert first == pytest.approx(second * factor + launch_s)
    first *= figures.value("launch_other")
    assert first == pytest.approx(second * own.value("launch_other") * factor + launch_s)


def test_a_runtime_that_ran_beside_none_of_the_device_is_an_error_with_a_list() -> None:
    with pytest.raises(UsageError, match="no chip ran it beside openvino on a gpu") as raised:
        by_runtime(load_device("intel-core-ultra-155h-igpu"), "pytorch", "")
    assert raised.value.hint == "measured: openvino"


def test_a_precision_that_a_runtime_did_not_measure_is_derived_and_less_sure() -> None:
    platform = load_platform("rockchip-rk3588-cpu")
    model = hetsim.load_model("zoo:squeezenet")
    (own,), (derived,) = (
        hetsim.Problem.of(model, platform, execute={"cpu": precision}).evidence
        for precision in ("float16", "float32")
    )
    assert derived.status == "derived"
    assert derived.sd > own.sd + 0.1


def test_a_saved_plan_is_read_back_by_its_runtime(tmp_path: Path) -> None:
    platform = load_platform("nvidia-rtx-3090", {"gpu": "ncnn"})
    problem = hetsim.Problem.of(hetsim.load_model("zoo:squeezenet"), platform)
    plan = hetsim.plan(problem, "single")
    plan.save(tmp_path / "plan.json")
    again = hetsim.load_plan(tmp_path / "plan.json")
    assert again.problem.platform is not None
    assert again.problem.platform.runtime == {"gpu": "ncnn"}
    assert hetsim.simulate(again).latency_s == hetsim.simulate(plan).latency_s


def test_the_command_line_takes_a_runtime() -> None:
    asked = ("simulate", "zoo:squeezenet", "--platform", "nvidia-rtx-3090")
    first = record_of(*asked, "--execute", "gpu=float16")
    other = record_of(*asked, "--execute", "gpu=float16", "--runtime", "ncnn")
    assert other["problem"]["platform"]["runtime"] == {"*": "ncnn"}
    assert other["timeline"]["latency_mean_s"] > 1.5 * first["timeline"]["latency_mean_s"]
    refused(call(*asked, "--runtime", "gpu=vulkan"), 2, "tensorrt")


def test_a_platform_file_names_a_runtime(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    text = "host: gpu\ndevices:\n  gpu: {device: nvidia-rtx-3090, runtime: RUNTIME}\n"
    path.write_text(text.replace("RUNTIME", "ncnn"), encoding="utf-8")
    assert load_platform(path).devices["gpu"].runtime == "ncnn"
    path.write_text(text.replace("RUNTIME", "vulkan"), encoding="utf-8")
    with pytest.raises(PlatformError, match=r"devices\.gpu\.runtime"):
        load_platform(path)


def test_linear_layers_in_integers_are_left_to_the_cores_by_onnxruntime_on_hexagon() -> None:
    """ViT w8a8 took 141 ms there, 72 of 1,302 ops on the cores: TensorFlow Lite 8 ms, all on it."""
    model = hetsim.load_model("zoo:vit_base")
    by_tflite, by_onnxruntime = (
        hetsim.Problem.of(
            model,
            load_platform("snapdragon-laptop", {"npu": runtime}),
            execute={"npu": "int8", "cpu": "int8"},
        )
        for runtime in ("tflite", "onnxruntime")
    )
    npu = by_tflite.devices.index("npu")
    refused = by_onnxruntime.refusals[npu].keys() - by_tflite.refusals[npu].keys()
    assert len(refused) == 6 * 12
    assert {by_onnxruntime.op_types[v] for v in refused} <= {"Gemm", "MatMul"}
    floats = hetsim.Problem.of(model, load_platform("snapdragon-laptop", {"npu": "onnxruntime"}))
    assert not floats.refusals[npu].keys() & refused
