"""``--inject``: what a failure costs, in virtual time and for real."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_calls import call, ok, record_of


def test_simulate_tells_the_cost(model: Path, platform: Path, tmp_path: Path) -> None:
    words = ["simulate", model, "--platform", platform, "--strategy", "hetero:npu,cpu"]
    calm = record_of(*words)
    assert "failures" not in calm
    failing = [*words, "--inject", "kill npu at 1us"]
    record = record_of(*failing, "--trace", tmp_path / "trace.json")
    assert [entry["kind"] for entry in record["failures"]["injected"]] == ["kill"]
    assert record["failures"]["makespan_without_s"] == calm["timeline"]["makespan_s"]
    assert record["timeline"]["critical_path"] is None
    drawn = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert "failure" in {entry.get("cat") for entry in drawn}
    assert "without the failures at" in call(*failing).stdout


def test_several_failures_and_a_device_that_comes_back(model: Path, platform: Path) -> None:
    words = ["simulate", model, "--platform", platform, "--strategy", "hetero:npu,cpu"]
    result = ok(
        *words, "--requests", "20", "--json",
        "--inject", "kill npu at 1us for 1ms, kill cpu at 2us for 5us",
        "--inject", "hang npu at 2ms for 1us",
    )  # fmt: skip
    found = json.loads(result.stdout)["failures"]["injected"]
    assert [(entry["device"], entry["kind"]) for entry in found][:2] == [
        ("npu", "kill"), ("cpu", "kill"),
    ]  # fmt: skip
    assert found[0]["until_s"] == pytest.approx(1.001e-3)


def test_a_real_run_gets_over_it(model: Path, platform: Path) -> None:
    words = ["run", model, "--platform", platform, "--strategy", "hetero:npu,cpu"]
    result = ok(*words, "--executor", "threads", "--inject", "kill npu at 0s")
    assert "outputs bitwise equal to the whole model: yes" in result.stdout
    assert "80 % interval" not in result.stdout
    assert "npu: died at" in result.stderr
    assert "replanned in" in result.stderr


def test_a_run_of_replicas_states_no_interval() -> None:
    words = ["run", "zoo:squeezenet", "--platform", "rock-5b", "--executor", "threads", "--json"]
    assert json.loads(call(*words, "--strategy", "multi").stdout)["sure"] is None
    assert json.loads(call(*words, "--strategy", "heft").stdout)["sure"] is not None
