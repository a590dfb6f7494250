"""Every exit code is reached by a question that deserves it, and by no error of another class."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import hetsim
from cli_calls import Cli


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("simulate {model} --platform {platform}", 0, ""),
        (
            "run {model} --platform {platform} --executor threads --timeout 1us",
            1,
            "did not answer",
        ),
        ("simulate {model} --platform {platform} --strategy hefd", 2, "did you mean 'heft'"),
        ("simulate {model} --platform none.yaml", 2, "none.yaml"),
        ("simulate {model} --platform {platform} --strategy single:npu", 4, "does not support"),
        (
            'simulate {model} --platform {platform} --set capacity_bytes={{"cpu":1,"npu":1}}',
            4,
            "1 bytes",
        ),
        ("simulate {model} --platform {platform} --target 1e-6ms", 5, "misses the target"),
        (
            "compare {model} --platform {platform} --target 1e-6ms",
            5,
            "misses the target of 1.00 ns",
        ),
        (
            "compare {model} --platform {platform} --objective throughput --target 1e-6ms",
            5,
            "throughput .* a request misses",
        ),
    ],
)
def test_an_exit_code_is_reached(
    cli: Cli, model: Path, platform: Path, words: str, code: int, says: str
) -> None:
    result = cli(*words.format(model=model, platform=platform).split())
    assert result.exit_code == code, result.stderr
    assert (result.stderr != "") == (code != 0)

    assert re.search(says, result.stderr)


def test_a_missed_target_leaves_the_answer(cli: Cli, model: Path, platform: Path) -> None:
    result = cli("compare", model, "--platform", platform, "--target", "1e-6ms", "--json")
    assert result.exit_code == 5
    record = json.loads(result.stdout)
    assert record["target_s"] == pytest.approx(1e-9)
    assert record["rows"]


def test_what_the_best_plan_misses_is_in_the_error(model: Path, platform: Path) -> None:
    problem = hetsim.Problem.of(hetsim.load_model(model), hetsim.load_platform(platform))
    table = hetsim.compare(problem, ["single", "heft"])
    best = table.rows[0].cost_s
    assert best is not None
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
