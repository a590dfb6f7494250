"""``hetsim inspect --lint``: what it prints, what ends it with exit code 5, and what it refuses."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

import hetsim
from cli_calls import call, record_of, told
from hetsim.reporting.tables.analysis import lint_record


@pytest.fixture
def words(model: Path, platform: Path) -> list[object]:
    return ["inspect", "--lint", model, "--platform", platform, "--strategy", "hetero:npu,cpu"]


def test_it_tells_what_python_tells(words: list[object], model: Path, platform: Path) -> None:
    problem = hetsim.Problem.of(hetsim.load_model(model), hetsim.load_platform(platform))
    found = hetsim.lint(problem, "hetero:npu,cpu", device="npu")
    record = record_of(*words, "--device", "npu")
    assert record["schema"] == "hetsim-lint/1"
    assert record["before_s"] == found.before_s
    both = {one["kind"]: one for one in (*record["findings"], *record["others"])}
    assert len(record["findings"]) == len(found.findings)
    assert [one["what"] for one in record["findings"]] == [one.what for one in found.findings]
    assert both["refused-op"]["change"]["takes"]["npu"] in (["compare"], ["choose"])
    assert both["refused-all"]["nodes"] == ["compare", "choose"]
    assert {*lint_record(found)} == {*record}
    table = call(*words).stdout
    assert "npu cannot run" in table
    assert f"{len(found.findings)} of " in table


def test_its_options_are_those_that_do_it(words: list[object], tmp_path: Path) -> None:
    record = record_of(*words)
    plain = ["simulate", *words[2:], "--samples", "0", "--json"]
    tried = set()
    for one in (*record["findings"], *record["others"]):
        change = one["change"]
        if change["takes"] or one["after_s"] is None:
            continue
        more = list(change["options"])
        if change["pins"]:
            affinity = tmp_path / f"pins{len(tried)}.json"
            affinity.write_text(json.dumps({"pins": change["pins"]}))
            more += ["--affinity", affinity]
        assert told(call(*plain, *more))["timeline"]["latency_s"] == one["after_s"]
        tried.add(one["kind"])
    assert {"precision", "to-and-fro"} <= tried


def test_it_fails_on_what_it_is_told_to(words: list[object]) -> None:
    record = record_of(*words, "--fail-on", "100%")
    best = record["findings"][0]
    assert 0 < best["gain"] < 1
    for limit in ("0.1%", "0.0001 ms"):
        result = call(*words, "--fail-on", limit)
        assert result.exit_code == 5
        assert f"--fail-on is {limit}: {best['what']}" in result.stderr
        assert "finding" in result.stdout
    assert call(*words, "--fail-on", "10s").exit_code == 0


def test_a_platform_that_cannot_run_it(model: Path) -> None:
    words = ["inspect", "--lint", model, "--platform", "intel-core-ultra-155h-npu"]
    record = record_of(*words)
    assert (record["before_s"], record["findings"][0]["gain_s"]) == (None, None)
    assert record["infeasible"]
    table = call(*words).stdout
    assert " it feasible." in table
    result = call(*words, "--fail-on", "50%")
    assert result.exit_code == 5
    assert "a change makes it run" in result.stderr


def test_what_is_to_be_copied_stands_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["inspect", "--lint", "zoo:squeezenet", "--platform", "rock-5b"]
    record = record_of(*words)
    options = [shlex.join(one["change"]["options"]) for one in record["findings"]]
    assert any("weights_on_chip" in one for one in options)
    for columns in ("80", "50"):
        monkeypatch.setenv("COLUMNS", columns)
        lines = call(*words).stdout.splitlines()
        for one in filter(None, options):
            assert [line for line in lines if line.endswith(one)]
