"""Every verb that prices takes profiles, and its report says what is measured."""

from __future__ import annotations

import json
import re

import pytest

from cli_calls import call, ok, record_of, refused
from onnx_builders import save
from profile_builders import ort_profile, trt_profile, unit_model, written
from sweeps import sweep

LAYERS = {"conv1 + relu1": 0.5, "conv2 + relu2 + add": 0.7, "pool": 0.1, "mystery": 0.3}


@pytest.fixture
def words(tmp_path):
    """A model, a platform, and a profile of the npu."""
    path = save(unit_model(), tmp_path, "unit.onnx")
    profile = written(tmp_path, trt_profile(LAYERS), "npu.json")
    return [str(path), "--platform", "laptop", "--profile", f"npu={profile}"]


VERBS = [
    ["compare"], ["simulate"], ["partition"], ["partition", "--method", "all"],
    ["compare", "--explain"], ["run", "--executor", "threads"],
]  # fmt: skip


@sweep("verb", quick=VERBS[1::4], full=VERBS, ids=" ".join)
def test_every_verb_says_what_is_measured(words, verb):
    result = ok(verb[0], *words, *verb[1:])
    told = " ".join(result.stdout.split())
    assert re.search(r"measured npu: \d+ % of its time, 6 of 8 nodes", told)
    assert "cpu, gpu: modelled" in told
    assert "not matched npu: 300 us: mystery 300 us (no node has that name)" in told
    assert "its kernels take 1.60 ms, used 1.30 ms" in told
    if "all" in verb:
        return
    record = record_of(verb[0], *words, *verb[1:])["problem"]
    share = record["profiles"]["npu"]
    assert (share["measured_nodes"], share["nodes"]) == (6, 8)
    assert share["profile_s"] == pytest.approx(1.6e-3)
    assert share["by_name_s"] == pytest.approx(1.3e-3)
    assert [kernel["kernel"] for kernel in share["unmatched"]] == ["mystery"]
    assert len(share["sha256"]) == 64


def test_without_a_profile_reports_are_as_they_were(words):
    printed = " ".join(call("compare", *words[:3]).stdout.split())
    assert "measured npu" not in printed
    assert "not matched" not in printed
    assert record_of("simulate", *words[:3])["problem"]["profiles"] == {}


def test_a_saved_plan_takes_no_profile_but_its_own(words, tmp_path):
    out = tmp_path / "out"
    assert call("simulate", *words, "--out", out).exit_code == 0
    manifest = json.loads((out / "manifest.json").read_text())
    assert set(manifest["profiles"]) == {"npu"}
    again = ok("simulate", out / "plan.json")
    assert "6 of 8 nodes" in " ".join(again.stdout.split())
    refused(
        call("simulate", out / "plan.json", "--profile", "npu=x.json"),
        2,
        "--profile cannot go with a saved plan",
    )
    written(tmp_path, trt_profile({**LAYERS, "pool": 0.2}), "npu.json")
    refused(
        call("simulate", out / "plan.json"), 3, "the profile of npu changed since the plan was made"
    )


def test_a_compiled_plan_has_its_prices(words, tmp_path):
    folder = tmp_path / "compiled"
    assert call("compile", *words, "-o", folder).exit_code == 0
    refused(
        call("run", folder, "--executor", "threads", "--profile", "npu=x.json"),
        2,
        "--profile belongs to 'hetsim run MODEL'",
    )


def test_two_devices_have_a_profile_each(words, tmp_path):
    both = written(tmp_path, ort_profile([("conv1", 9, "Conv"), ("head", 9, "MatMul")]), "cpu.json")
    told = " ".join(call("simulate", *words, "--profile", f"cpu={both}").stdout.split())
    assert "cpu: " in told
    assert "gpu: modelled" in told
    assert "one run, the warm-up" in told
