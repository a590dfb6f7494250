"""Exit codes of questions that are answered: well, not at all, or not as wished."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import hetsim
from cli_calls import call

ASKED = "{model} --platform {platform}"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (f"simulate {ASKED}", 0, ""),
        (f"run {ASKED} --executor threads --timeout 1us", 1, "did not answer"),
        (f"simulate {ASKED} --target 1e-6ms", 5, "misses the target"),
        (f"compare {ASKED} --target 1e-6ms", 5, "misses the target of 1.00 ns"),
        (f"compare {ASKED} --objective throughput --target 1e-6ms", 5, "throughput .* misses"),
    ],
)
def test_an_exit_code_is_reached(
    model: Path, platform: Path, words: str, code: int, says: str
) -> None:
    """2, 3 and 4 are in test_refusals.py, 6 is an undecided rate's."""
    result = call(*words.format(model=model, platform=platform).split())
    assert result.exit_code == code, result.stderr
    assert (result.stderr != "") == (code != 0)
    assert re.search(says, result.stderr)


def test_a_missed_target_leaves_the_answer(model: Path, platform: Path) -> None:
    result = call("compare", model, "--platform", platform, "--target", "1e-6ms", "--json")
    assert result.exit_code == 5
    record = json.loads(result.stdout)
    assert record["target_s"] == pytest.approx(1e-9)
    assert record["rows"]


def test_what_the_best_plan_misses_is_in_the_error(model: Path, platform: Path) -> None:
    problem = hetsim.Problem.of(hetsim.load_model(model), hetsim.load_platform(platform))
    table = hetsim.compare(problem, ["single", "heft"])
    best = table.rows[0].cost_s
    assert table.require() is table.require(best) is table.rows[0]
    with pytest.raises(hetsim.errors.ObjectiveMissed) as caught:
        table.require(best / 2)
    assert (caught.value.target_s, caught.value.reached_s) == (best / 2, best)
    assert caught.value.objective == "latency"
    with pytest.raises(hetsim.errors.InvalidInput, match="target_s"):
        table.require(0.0)
    none = hetsim.compare(problem, ["single:npu"])
    with pytest.raises(hetsim.errors.UnsupportedNode) as refused:
        none.require(best)
    assert refused.value.devices == ("npu",)
    assert set(refused.value.ops) == {"Greater", "Where"}
