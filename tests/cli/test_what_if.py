"""``--what-if`` and ``--without``: every report says what is supposed, and shows what is beside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hetsim
from cli_calls import PRICING_VERBS, call, ok, record_of, refused
from hetsim.errors import PlanError, WorkloadError
from sweeps import sweep

LAPTOP = ("--platform", "laptop")
WIDER = ("--what-if", "link cpu-npu.bandwidth x2", "--without", "gpu")
SAID = "what if link cpu-npu.bandwidth x2; without gpu"


EMULATED = ("run", "--executor", "threads", "--emulate", "--time-scale", "100")


@sweep("verb", quick=PRICING_VERBS[::3], full=[*PRICING_VERBS, EMULATED], ids=" ".join)
def test_every_report_says_what_is_supposed(model: Path, verb: tuple[str, ...]) -> None:
    shown = ok(verb[0], model, *verb[1:], *LAPTOP, *WIDER)
    assert SAID in " ".join(shown.stdout.split())
    record = record_of(verb[0], model, *verb[1:], *LAPTOP, *WIDER)
    platform = record if verb == ("inspect",) else record.get("problem", record)["platform"]
    assert platform["what_if"] == ["link cpu-npu.bandwidth x2"]
    assert platform["without"] == ["gpu"]
    if "figures" in record.get("problem", record):
        assert record.get("problem", record)["figures"]["weakest"] == "what if"
    plain = record_of(verb[0], model, *verb[1:], *LAPTOP)
    assert "what_if" not in json.dumps(plain)


def test_the_answer_as_it_is_stands_beside(model: Path) -> None:
    words = ("simulate", model, *LAPTOP, "--strategy", "single:cpu", "--samples", "0")
    faster = (*words, "--what-if", "cpu.speed x2")
    record = record_of(*faster)
    found = record["what_if"]
    was = record_of(*words)["timeline"]["latency_s"]
    assert found["as_it_is"]["cost_s"] == was
    assert found["supposed"]["cost_s"] == record["timeline"]["latency_s"] < was
    assert found["plan_kept"]["cost_s"] == found["supposed"]["cost_s"]
    assert found["change"] == found["supposed"]["cost_s"] / was - 1
    assert found["moved"] == []
    text = " ".join(call(*faster).stdout.split())
    assert "With cpu.speed x2, the latency goes from" in text
    assert "The plan stays the same." in text


def test_a_comparison_stands_beside_and_says_what_moved(model: Path) -> None:
    words = ("compare", model, *LAPTOP, "--strategy", "single", "--samples", "0")
    record = record_of(*words, "--what-if", "cpu.speed x1000")
    found = record["what_if"]
    plain = record_of(*words)
    assert found["as_it_is"]["cost_s"] == plain["rows"][0]["latency_s"]
    assert found["as_it_is"]["lower_bound_s"] == plain["lower_bound_s"]
    assert found["supposed"]["cost_s"] == record["rows"][0]["latency_s"]
    if found["as_it_is"]["strategy"] != found["supposed"]["strategy"]:
        assert "strategy" in found["moved"]


def test_what_changes_nothing_is_said(model: Path) -> None:
    shown = call("simulate", model, *LAPTOP, "--samples", "0", "--what-if", "npu.memory x1",
                "--what-if", "npu.efficiency.conv /2")  # fmt: skip
    assert "'npu.memory x1' changes nothing" in shown.stderr
    text = " ".join(shown.stdout.split())
    assert "the latency stays" in text
    assert "'npu.efficiency.conv /2' does not affect this answer." in text


def test_what_is_left_out_is_told_as_such(model: Path) -> None:
    words = ("simulate", model, *LAPTOP, "--without", "npu", "--samples", 0)
    assert "\nWithout npu, the latency " in call(*words).stdout
    assert "\nWithout npu, p99 " in call(*words[:-2], "--rate", 5, "--requests", 20).stdout


def test_a_platform_on_which_only_the_supposed_has_a_plan(model: Path) -> None:
    words = ("simulate", model, *LAPTOP, "--strategy", "single:gpu", "--samples", "0")
    small = ("--what-if", "gpu.memory =1B")
    assert call(*words, *small).exit_code == 4
    refused(call(*words, "--without", "gpu"), 2, "no device 'gpu'")


def test_a_saved_plan_says_of_what_it_is(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "kept"
    assert call("simulate", model, *LAPTOP, *WIDER, "--out", out).exit_code == 0
    record = json.loads((out / "plan.json").read_text())
    assert record["platform"]["what_if"] == ["link cpu-npu.bandwidth x2"]
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["platform"]["without"] == ["gpu"]
    plan = hetsim.load_plan(out / "plan.json")
    platform = plan.problem.platform
    assert platform is not None
    assert str(platform.supposed) == "link cpu-npu.bandwidth x2; without gpu"
    assert plan.to_json() == (out / "plan.json").read_text()
    again = call("simulate", out / "plan.json")
    assert SAID in " ".join(again.stdout.split())
    del record["platform"]["what_if"]
    (out / "plan.json").write_text(json.dumps(record))
    with pytest.raises(PlanError, match="made for another problem"):
        hetsim.load_plan(out / "plan.json")
    record["platform"]["what_if"] = [3]
    (out / "plan.json").write_text(json.dumps(record))
    with pytest.raises(PlanError, match="platform entry lacks fields"):
        hetsim.load_plan(out / "plan.json")


def test_under_load_both_answers_have_the_same_arrivals(model: Path) -> None:
    words = ("simulate", model, *LAPTOP, "--rate", "1000", "--requests", "500",
             "--strategy", "single:cpu", "--slo", "p99=1ms")  # fmt: skip
    record = record_of(*words, "--what-if", "cpu.speed /2")
    plain = record_of(*words)
    found = record["what_if"]
    assert found["changes"] == ["cpu.speed /2"]
    was, now = found["as_it_is"]["streams"][0], found["supposed"]["streams"][0]
    assert was["mean_s"] == plain["streams"][0]["latency_mean_s"] < now["mean_s"]
    assert now["mean_s"] == record["streams"][0]["latency_mean_s"]
    text = " ".join(call(*words, "--what-if", "cpu.speed /2").stdout.split())
    assert "what if cpu.speed /2" in text
    assert "With cpu.speed /2, p99 goes from" in text


def test_what_is_overloaded_has_no_figure_that_changes_could_move(model: Path) -> None:
    words = ("simulate", model, *LAPTOP, "--strategy", "single:cpu", "--rate", 1e6)
    shown = ok(*words, "--requests", 500, "--what-if", "cpu.speed /2", "--sensitivities").stdout
    assert "The p99 of requests is undefined" in shown
    rows = [line.split()[:4] for line in shown.splitlines()]
    assert all([name, *"---"] in rows for name in ("p99", "mean"))


def test_a_plan_of_another_state_of_the_platform_is_not_served(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "kept"
    assert call("simulate", model, *LAPTOP, *WIDER, "--out", out).exit_code == 0
    deployment = tmp_path / "d.yaml"
    deployment.write_text(f"models: [{{model: {model}, instances: [{{plan: {out}/plan.json}}]}}]\n")
    shown = call("simulate", model, *LAPTOP, "--rate", "10", "--requests", "50",
                "--deployment", deployment)  # fmt: skip
    assert shown.exit_code == WorkloadError.exit_code
    assert "the plan belongs to another platform" in shown.stderr


@sweep(
    "words",
    quick=[("simulate",)],
    full=[("simulate",), ("compare", "--strategy", "heft"),
          ("simulate", "--rate", "1000", "--requests", "300")],
    ids=" ".join,
)  # fmt: skip
def test_what_would_move_an_answer(model: Path, words: tuple[str, ...]) -> None:
    load = () if "--rate" in words else ("--samples", "0")
    asked = (words[0], model, *words[1:], *load, *LAPTOP, "--sensitivities")
    (found,) = record_of(*asked)["sensitivities"]
    assert len(found["changes"]) == 3 + 2 * 3
    text = " ".join(call(*asked).stdout.split())
    assert f"effect on {found['figure']} plan kept replanned" in text


def test_a_saved_plan_is_kept_as_it_is(model: Path, platform: Path, tmp_path: Path) -> None:
    words = ("simulate", model, "--platform", platform, "--strategy", "single:cpu")
    assert call(*words, "--out", tmp_path / "kept").exit_code == 0
    plan = tmp_path / "kept" / "plan.json"
    was, then = (
        record_of("simulate", plan),
        record_of("simulate", plan, "--what-if", "cpu.speed x2"),
    )
    anew = record_of(*words, "--what-if", "cpu.speed x2")
    assert then["timeline"] == anew["timeline"]
    assert then["timeline"]["latency_s"] < was["timeline"]["latency_s"]
    assert then["what_if"]["as_it_is"]["cost_s"] == was["timeline"]["latency_s"]
