"""``--inject``: what a failure costs, in virtual time and for real."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_calls import Cli


def test_simulate_tells_the_cost(cli: Cli, model: Path, platform: Path, tmp_path: Path) -> None:
    words = ["simulate", model, "--platform", platform, "--strategy", "hetero:npu,cpu"]
    calm = json.loads(cli(*words, "--json").stdout)
    assert "failures" not in calm
    failing = [*words, "--inject", "kill npu at 1us"]
    result = cli(*failing, "--json", "--trace", tmp_path / "trace.json")
    assert result.exit_code == 0, result.stderr
    record = json.loads(result.stdout)
    assert [entry["kind"] for entry in record["failures"]["injected"]] == ["kill"]
    assert record["failures"]["makespan_without_s"] == calm["timeline"]["makespan_s"]
    assert record["timeline"]["critical_path"] is None
    drawn = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert "failure" in {entry.get("cat") for entry in drawn}
    assert "without the failures at" in cli(*failing).stdout


def test_several_failures_and_a_device_that_comes_back(
    cli: Cli, model: Path, platform: Path
) -> None:
    words = ["simulate", model, "--platform", platform, "--strategy", "hetero:npu,cpu"]
    result = cli(
        *words, "--requests", "20", "--json",
        "--inject", "kill npu at 1us for 1ms, kill cpu at 2us for 5us",
        "--inject", "hang npu at 2ms for 1us",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)["failures"]["injected"]
    assert [(entry["device"], entry["kind"]) for entry in found][:2] == [
        ("npu", "kill"), ("cpu", "kill"),
    ]  # fmt: skip
    assert found[0]["until_s"] == pytest.approx(1.001e-3)


def test_no_device_is_left(cli: Cli, model: Path, platform: Path) -> None:
    words = ["simulate", model, "--platform", platform, "--strategy", "hetero:npu,cpu"]
    result = cli(*words, "--inject", "kill cpu at 0s")
    assert result.exit_code == 4
    assert "no remaining device can run it" in result.stderr


def test_text_that_is_no_failure(cli: Cli, model: Path, platform: Path) -> None:
    for verb in ("simulate", "run"):
        result = cli(verb, model, "--platform", platform, "--inject", "kill npu at noon")
        assert result.exit_code == 2
        assert "--inject 'kill npu at noon': 'noon' is not a time" in result.stderr
    unknown = cli("simulate", model, "--platform", platform, "--inject", "kill gpu at 1s")
    assert unknown.exit_code == 2
    assert "there is no device 'gpu' to fail" in unknown.stderr
    words = ("--platform", platform, "--inject", "kill npu at 1s", "--sensitivities")
    assert "leave --inject out" in cli("simulate", model, *words).stderr


def test_a_real_run_gets_over_it(cli: Cli, model: Path, platform: Path) -> None:
    words = ["run", model, "--platform", platform, "--strategy", "hetero:npu,cpu"]
    result = cli(*words, "--executor", "threads", "--inject", "kill npu at 0s")
    assert result.exit_code == 0, result.stderr
    assert "outputs bitwise equal to the whole model: yes" in result.stdout
    assert "80 % interval" not in result.stdout
    assert "npu: died at" in result.stderr
    assert "replanned in" in result.stderr


def test_a_run_of_replicas_states_no_interval(cli: Cli) -> None:
    words = ["run", "zoo:squeezenet", "--platform", "rock-5b", "--executor", "threads", "--json"]
    assert json.loads(cli(*words, "--strategy", "multi").stdout)["sure"] is None
    assert json.loads(cli(*words, "--strategy", "heft").stdout)["sure"] is not None
