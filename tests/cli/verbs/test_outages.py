"""``--survive`` and ``--availability``: what is shown, kept, refused, and the exit codes."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from cli_calls import call
from deployments import model_at

WORDS = ("--strategy", "single:npu", "--rate", 3000, "--slo", "p90=1s", "--requests", 4000)


@pytest.fixture
def model(tmp_path: Path) -> str:
    return model_at(tmp_path, 1, 64)


def answer(*words: object) -> tuple[int, dict[str, Any]]:
    result = call(*words, "--json")
    assert result.stdout, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return result.exit_code, found


def test_survive_and_availability_of_one_plan(model: str, platform: Path, tmp_path: Path) -> None:
    words = ("simulate", model, "--platform", platform, *WORDS, "--survive", 1)
    more = ("--availability", "99.9%", "--available", "*=0.99", "--available", "npu=0.9")
    code, found = answer(*words, *more, "--out", tmp_path / "out")
    assert code == 0
    survived, available = found["survive"], found["availability"]
    assert (survived["answer"], survived["most"], survived["unused"]) == ("meets", 1, ["cpu"])
    assert survived["worst"] == ["npu"]
    # Without the NPU the CPU does it.
    assert available["low"]["exact"] == available["high"]["exact"] == str(1 - Fraction(1, 1000))
    assert available["answer"] == "meets"
    assert sum(Fraction(one["chance"]["exact"]) for one in available["states"]) == 1
    assert available["missed_minutes_a_month"] == [43.83, 43.83]
    kept = json.loads((tmp_path / "out" / "result.json").read_text())
    assert kept["survive"] == survived
    shown = call(*words, *more)
    assert (
        "The objectives hold with any one device lost; worst case without npu: meets"
        in shown.stdout
    )
    assert "The objectives hold 99.900 % of the time and fail 43.8 minutes a month" in shown.stdout
    assert "No model runs on cpu" in shown.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--availability", "0.9999", "--available", "*=0.9"), "0.9999 of the time: without cpu"),
        (("--survive", "2"), "without cpu, npu: node 'MatMul_0' (MatMul): no remaining device"),
    ],
)
def test_what_no_plan_can_hold(
    words: tuple[str, ...], said: str, model: str, platform: Path
) -> None:
    result = call("simulate", model, "--platform", platform, *WORDS, *words)
    assert (result.exit_code, result.stderr.count("\n")) == (4, 1)
    assert said in result.stderr


def test_mean_times_say_how_often_devices_are_up(model: str, platform: Path) -> None:
    times = ("--mtbf", "99h", "--mttr", "1h", "--availability", 0.999)
    code, found = answer("simulate", model, "--platform", platform, *WORDS, *times)
    assert (code, found.get("failures")) == (0, None)
    assert found["availability"]["low"]["exact"] == str(1 - Fraction(1, 10**4))


def test_the_highest_rate_is_the_least_of_those_without_each(model: str, platform: Path) -> None:
    words = f"simulate --max-rate {model} --platform {platform} --slo p90=1s --requests 20000"
    code, found = answer(*words.split(), "--strategy", "single:npu", "--survive", 1)
    [row] = found["rows"]
    assert code == 0
    assert sorted(one["without"] for one in row["losses"]) == [[], ["npu"]]
    assert row["highest_per_s"] == min(one["highest_per_s"] for one in row["losses"])
