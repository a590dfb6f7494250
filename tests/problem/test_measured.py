"""Measurements of networks by the user: the posterior, and what it does to a problem."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hetsim
from hetsim.errors import InvalidInput, PlanError, UsageError
from hetsim.hardware.measurement import Measurement
from hetsim.hardware.what_if import what_if
from hetsim.problem.measured import OF_DEVICE, doubts, posterior
from hetsim.problem.parts import PROFILED_SD, Z80
from hetsim.problem.problem import Problem
from hetsim.problem.repriced import repriced
from hetsim.reporting.formatting import percent
from hetsim.reporting.tables.question import evidence_text, measured_rows
from onnx_builders import make_model, op, save, value
from profile_builders import trt_profile, unit_model, written


def test_one_measurement_of_the_network_itself_has_the_closed_form() -> None:
    found = posterior(np.array([0.4]), np.array([[0.25]]), np.array([0.25]), 0.25, 0.05)
    assert found.mean == pytest.approx(0.4 * 0.25 / (0.25 + 0.05**2))
    assert found.variance == pytest.approx(1 / (1 / 0.25 + 1 / 0.05**2))


def test_many_independent_networks_give_the_mean_factor() -> None:
    rng = np.random.default_rng(0)
    device, network, count = 0.4, 0.2, 400
    residuals = 0.7 + network * rng.standard_normal(count)
    among = device**2 + network**2 * np.eye(count)
    found = posterior(residuals, among, np.full(count, device**2), device**2 + network**2, 0.05)
    assert found.mean == pytest.approx(residuals.mean(), rel=0.01)
    assert found.variance == pytest.approx(network**2, rel=0.01)


@pytest.mark.parametrize("ratio", [1.1, 1.5, 2.0, 10.0])
def test_an_interval_holds_measurements_that_contradict_each_other(ratio: float) -> None:
    half, prior, noise = math.log(ratio) / 2, 0.25, 0.05
    among, towards = np.full((2, 2), prior), np.full(2, prior)
    found = posterior(np.array([-half, half]), among, towards, prior, noise)
    assert found.mean == pytest.approx(0.0)
    if ratio == 1.1:
        assert found.variance == pytest.approx(1 / (1 / prior + 2 / noise**2))
    else:
        assert Z80 * math.sqrt(found.variance) > min(half, 0.9 * Z80 * math.sqrt(prior))


def test_what_is_left_out_is_predicted_by_the_others() -> None:
    rng = np.random.default_rng(1)
    among = 0.3 + 0.1 * np.eye(5)
    residuals = 0.3 * rng.standard_normal(5)
    whole = posterior(residuals, among, among[0], 0.4, 0.05)
    for k in range(5):
        others = [i for i in range(5) if i != k]
        by_others = posterior(
            residuals[others], among[np.ix_(others, others)], among[k, others], 0.4, 0.05
        )
        assert whole.left_out[k] == pytest.approx(residuals[k] - by_others.mean)


@pytest.fixture(scope="module")
def model() -> hetsim.Model:
    return hetsim.load_model("zoo:resnet18")


@pytest.fixture(scope="module")
def platform() -> hetsim.Platform:
    return hetsim.load_platform("rock-5b")


@pytest.fixture(scope="module")
def plain(model: hetsim.Model, platform: hetsim.Platform) -> Problem:
    return Problem.of(model, platform)


def alone_s(problem: Problem, device: str) -> float:
    return problem.group_seconds(problem.device_index(device), range(problem.n))


def test_the_model_itself_measured_is_priced_as_measured(
    model: hetsim.Model, platform: hetsim.Platform, plain: Problem
) -> None:
    was_s = alone_s(plain, "gpu")
    problem = Problem.of(model, platform, measured={"gpu": f"{model.source}:{1.7 * was_s}s"})
    before, after = (each.evidence[each.device_index("gpu")] for each in (plain, problem))
    variance = before.sd**2
    shrunk = variance / (variance + PROFILED_SD**2)
    assert alone_s(problem, "gpu") == pytest.approx(was_s * 1.7**shrunk)
    assert after.sd == pytest.approx(PROFILED_SD, rel=0.02)
    assert after.common < after.sd
    assert after.of != before.of
    # A part of the model is as unsure as it was.
    assert after.by_kernel * after.sd**2 == pytest.approx(before.by_kernel * before.sd**2)
    others = [p for p, name in enumerate(plain.devices) if name != "gpu"]
    assert (problem.seconds[:, others] == plain.seconds[:, others]).all()
    assert [problem.evidence[p] for p in others] == [plain.evidence[p] for p in others]


def test_networks_move_a_device_of_the_datasheet_by_one_factor() -> None:
    model = hetsim.load_model("zoo:resnet18")
    spec = hetsim.load_device("nvidia-l4")
    bare = replace(spec, kernels={}, runtimes={}, runtime="")
    alone = hetsim.Platform("bare", {"gpu": bare}, (), "gpu", "", "")
    names = ("zoo:resnet50", "zoo:squeezenet", "zoo:mobilenet_v2")
    predicted = [Problem.of(hetsim.load_model(name), alone) for name in names]
    took = [f"{n}:{2 * alone_s(p, 'gpu')}s" for n, p in zip(names, predicted, strict=True)]
    plain = Problem.of(model, alone)
    sds, factors = [plain.evidence[0].sd], []
    for count in (1, 2, 3):
        problem = Problem.of(model, alone, measured={"gpu": took[:count]})
        sds.append(problem.evidence[0].sd)
        factors.append(problem.measured["gpu"].factor)
        assert problem.dispatch_s[0] == pytest.approx(plain.dispatch_s[0] * factors[-1])
        assert problem.seconds[0, 0] == pytest.approx(plain.seconds[0, 0] * factors[-1])
    assert sds == sorted(sds, reverse=True)
    variance = plain.evidence[0].sd ** 2
    device = min(OF_DEVICE * variance, plain.evidence[0].own ** 2)
    for count, factor in enumerate(factors, start=1):
        weight = device / (device + (variance - device + PROFILED_SD**2) / count)
        assert math.log(factor) == pytest.approx(weight * math.log(2))
    half = Problem.of(model, alone, measured={"gpu": took[:1]}, execute={"gpu": "float16"})
    assert half.measured["gpu"].measurements[0].precision == "float16"
    other = Problem.of(
        model, alone, measured={"gpu": f"{took[0]}:float32"}, execute={"gpu": "float16"}
    )
    # By one factor across precisions, which have less in common.
    assert 1 < other.measured["gpu"].factor < factors[0]
    assert half.evidence[0].sd < other.evidence[0].sd < plain.evidence[0].sd


def test_the_line_of_a_device_says_what_was_measured(
    model: hetsim.Model, platform: hetsim.Platform
) -> None:
    given = {"gpu": ["zoo:resnet50:100ms", "zoo:squeezenet:10ms"]}
    problem = Problem.of(model, platform, measured=given)
    here = problem.measured["gpu"]
    off = " and ".join(percent(abs(1 / ratio - 1)) for ratio in here.left_out)
    told = f"gpu: 2 networks, factor {here.factor:.2f}; left out one by one: off by {off}"
    assert measured_rows(problem) == [("measured by you", told)]
    text = evidence_text(problem.evidence[problem.device_index("gpu")])
    assert text.endswith(", corrected by your measurements")
    assert doubts(problem.measured) == ()
    far = Problem.of(model, platform, measured={"gpu": "zoo:squeezenet:10s"})
    [doubt] = doubts(far.measured)
    assert "measurement zoo:squeezenet:10.0s of 'gpu' is 1266 times the predicted time" in doubt
    assert "check its unit and batch size" in doubt


def test_a_plan_keeps_its_measurements(
    model: hetsim.Model, platform: hetsim.Platform, plain: Problem, tmp_path: Path
) -> None:
    proto = make_model(
        [op("Conv", "x w", "a"), op("Relu", "a", "y")],
        [value("x", (1, 3, 64, 64))],
        [value("y", (1, 8, 62, 62))],
        {"w": np.ones((8, 3, 3, 3), np.float32)},
    )
    own = save(proto, tmp_path, "own.onnx")
    problem = Problem.of(model, platform, measured={"gpu": [f"{own}:2ms"]})
    plan = hetsim.plan(problem, "single:gpu")
    plan.save(tmp_path / "plan.json")
    again = hetsim.load_plan(tmp_path / "plan.json")
    assert again.problem.fingerprint == problem.fingerprint
    assert again.problem.measured == problem.measured
    assert repriced(problem, platform).fingerprint == problem.fingerprint
    assert "measured" not in json.loads(hetsim.plan(plain, "single:gpu").to_json())
    save(make_model([op("Relu", "x", "y")], [value("x")], [value("y")]), tmp_path, "own.onnx")
    with pytest.raises(PlanError, match="the measured networks of gpu changed"):
        hetsim.load_plan(tmp_path / "plan.json")


def test_a_supposed_change_is_beside_the_measured_factor(
    model: hetsim.Model, platform: hetsim.Platform, plain: Problem
) -> None:
    """The networks ran on the device as it is: a twice as fast one is twice as fast."""
    measured = {"gpu": "zoo:resnet50:100ms"}
    problem = Problem.of(model, platform, measured=measured)
    faster = repriced(problem, what_if(platform, "gpu.speed x2"))
    assert faster.measured["gpu"].factor == pytest.approx(problem.measured["gpu"].factor, rel=0.01)
    assert alone_s(faster, "gpu") < 0.6 * alone_s(problem, "gpu")


def test_what_cannot_be_taken_is_refused(
    model: hetsim.Model, platform: hetsim.Platform, tmp_path: Path
) -> None:
    def refused(measured: dict[str, str | Measurement], match: str) -> None:
        with pytest.raises(UsageError, match=match):
            Problem.of(model, platform, measured=measured)

    refused({"gpv": "zoo:resnet18:4ms"}, "no device 'gpv'")
    refused({"gpu": "zoo:resnet18:4.1"}, "the time '4.1' has no unit; write 4.1ms")
    refused({"gpu": "zoo:resnet18:4ms:bfloat16"}, "no peak rate for bfloat16")
    refused({"npu": "zoo:gpt2_6layer:4ms"}, "cannot run|open dimensions")
    refused({"cpu": "no.csv"}, "no such file")
    with pytest.raises(UsageError, match="with 1 and 4 threads"):
        Problem.of(
            model,
            platform,
            measured={"cpu": ["zoo:resnet18:4ms:threads=1", "zoo:squeezenet:4ms:threads=4"]},
        )
    small = hetsim.load_model(save(unit_model(), tmp_path))
    profile = written(tmp_path, trt_profile({"conv1 + relu1": 0.5, "head": 0.25}))
    with pytest.raises(UsageError, match="has a profile and measurements"):
        Problem.of(
            small, platform, profiles={"npu": profile}, measured={"npu": f"{small.source}:1ms"}
        )
    open_model = make_model([op("Relu", "x", "y")], [value("x", ("n", "m"))], [value("y", None)])
    path = save(open_model, tmp_path, "open.onnx")
    with pytest.raises(InvalidInput, match="open dimensions: m"):
        Problem.of(model, platform, measured={"cpu": f"{path}:1ms"})
