"""A problem as a plain record: each entry is what was asked, by name."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path

import pytest

import hetsim
from hetsim.graph.loading import model_of
from hetsim.hardware.kin import Likely
from hetsim.problem.parts import Z80, Evidence
from hetsim.problem.problem import Problem
from hetsim.problem.record import (
    evidence_record,
    measured_record,
    problem_record,
    supposed_record,
    unpriced_record,
)
from profile_builders import trt_profile, unit_model, written


def test_a_problem_of_arrays_has_no_model_and_no_platform() -> None:
    problem = Problem.from_arrays([[1.0, 2.0]] * 3, devices=("cpu", "npu"), host=1, name="mine")
    assert problem_record(problem) == {
        "name": "mine", "fingerprint": problem.fingerprint, "model": None, "platform": None,
        "nodes": 3, "devices": ["cpu", "npu"], "host": "npu", "contention": problem.contention,
        "execute": {}, "cost": None, "pessimistic": False, "unpriced": {}, "unsized": {},
        "profiles": {}, "figures": None,
    }  # fmt: skip
    free = replace(problem, host=None, unpriced={2: "a loop", 0: "a text"}, unsized={1: "why"})
    record = problem_record(free)
    assert record["host"] is None
    assert list(record["unpriced"].items()) == [("n0", "a text"), ("n2", "a loop")]
    assert record["unsized"] == {"n1": "why"}
    assert unpriced_record(free) == record["unpriced"]


def test_a_problem_of_a_model_says_which_and_what_its_figures_rest_on() -> None:
    model = hetsim.load_model("zoo:squeezenet")
    platform = hetsim.what_if(hetsim.load_platform("laptop"), "npu.speed x2", without=["gpu"])
    problem = Problem.of(model, platform, execute={"npu": "int8"}, pessimistic=True)
    record = problem_record(problem)
    assert record["model"] == {
        "name": model.name, "source": model.source, "sha256": model.sha256,
        "canonical": model.canonical, "dims": dict(model.dims),
        "shapes": {name: list(shape) for name, shape in model.shapes.items()}, "frozen": [],
        "observed": None,
    }  # fmt: skip
    assert record["platform"] == {
        "name": platform.name, "source": "laptop", "sha256": platform.sha256,
        "what_if": ["npu.speed x2"], "without": ["gpu"],
    }  # fmt: skip
    assert (record["execute"], record["pessimistic"]) == ({"npu": "int8"}, True)
    assert (record["cost"], record["nodes"]) == (problem.cost, problem.n)
    assert record["figures"]["weakest"] == "what if"
    assert list(record["figures"]["devices"]) == list(problem.devices)
    assert list(record["figures"]["links"]) == [link.name for link in platform.links]
    assert json.loads(json.dumps(record)) == record
    # Though no device is other than it was: something is taken away.
    less = hetsim.what_if(hetsim.load_platform("laptop"), without=["gpu"])
    assert problem_record(Problem.of(model, less))["figures"]["weakest"] == "what if"
    plain = hetsim.load_platform("laptop")
    figures = problem_record(Problem.of(model, plain))["figures"]
    assert figures["weakest"] != "what if"
    assert supposed_record(plain) == {}


def test_evidence_says_how_far_times_may_be_off() -> None:
    plain = evidence_record(Evidence("a", "chip", "datasheet", 0.5))
    assert plain == {
        "of": "chip", "status": "datasheet", "precision": None, "runtime": None, "kin": None,
        "sd": 0.5, "common_sd": 0.0, "within_80": math.exp(Z80 * 0.5), "measured_share": 0.0,
        "floors": {}, "rests_on": None, "likely": None, "error": None,
    }  # fmt: skip
    spec = hetsim.load_device("nvidia-t4")
    error = next(iter(spec.kernels.values())).errors[0]
    likely = Likely(0.1, 0.2, 0.3, 0.05, True, ("resnet", "vgg"))
    full = replace(
        Evidence("a", "chip", "what if", 0.5, 0.25, "kin", "int8", error, "TensorRT", 0.75),
        likely=likely, before="fitted",
    )  # fmt: skip
    record = evidence_record(full)
    assert record["before"] == "fitted"
    assert (record["precision"], record["runtime"], record["kin"]) == ("int8", "TensorRT", "kin")
    assert (record["common_sd"], record["measured_share"]) == (0.25, 0.75)
    assert record["likely"] == {
        "factor": math.exp(0.1), "sd": 0.2, "usual_sd": 0.3, "same": True,
        "networks": ["resnet", "vgg"],
    }  # fmt: skip
    assert record["error"] == asdict(error)


def test_a_profile_says_what_of_the_prices_it_gave(tmp_path: Path) -> None:
    model = model_of(unit_model(), name="unit")
    profile = written(tmp_path, trt_profile({"conv1 + relu1": 0.5, "head": 0.25, "other": 0.125}))
    problem = Problem.of(model, hetsim.load_platform("laptop"), profiles={"npu": profile})
    share = problem.profiles["npu"]
    (record,) = measured_record(problem).values()
    assert record["measured_nodes"] == len([one for one in share.measured if one])
    assert record["nodes"] == share.nodes
    assert record["measured_share"] == pytest.approx(
        record["measured_s"] / (record["measured_s"] + record["modelled_s"])
    )
    assert record["unmatched"] == [
        {"kernel": one.name, "seconds": one.seconds, "why": one.why} for one in share.unmatched
    ]
    assert [one["kernel"] for one in record["unmatched"]] == ["other"]
    assert record["unmatched_s"] == pytest.approx(sum(one.seconds for one in share.unmatched))
    for name in ("format", "source", "sha256", "runs", "rule"):
        assert record[name] == getattr(share.profile, name)
    assert (record["profile_s"], record["between_s"]) == (
        share.profile.total_s, share.profile.between_s,
    )  # fmt: skip
    assert measured_record(Problem.of(model, hetsim.load_platform("laptop"))) == {}
