"""The explanation as text and as a record."""

from __future__ import annotations

import io
import json

import numpy as np

import hetsim
from cli_calls import ok, record_of
from hetsim.analysis.explanation import explain
from hetsim.problem.problem import Problem
from hetsim.reporting.console import console
from hetsim.reporting.tables.analysis import STEPS_SHOWN, explanation_record, explanation_report


def shown(problem: Problem, strategy: str) -> str:
    stream = io.StringIO()
    console(stream).print(explanation_report(explain(hetsim.plan(problem, strategy))))
    return stream.getvalue()


def alternating() -> Problem:
    seconds = [[1.0, np.inf] if v % 2 else [np.inf, 1.0] for v in range(20)]
    return Problem.from_arrays(
        seconds, edges=[(v, v + 1, 2) for v in range(19)], devices=("cpu", "npu"), bytes_per_s=4.0
    )


def test_long_paths_are_cut_to_the_longest_steps() -> None:
    text = shown(alternating(), "hetero")
    steps = [line for line in text.splitlines() if " node, n" in line]
    assert len(steps) == STEPS_SHOWN
    assert "27 shorter steps take 17.5 s in total" in text
    assert "bottleneck" in text
    assert "most helpful changes" in text


def test_nothing_to_gain_is_said() -> None:
    text = shown(Problem.from_arrays(np.zeros((2, 1))), "single")
    assert "No simulated change helps" in text


def test_record_is_json_and_names_nodes() -> None:
    problem = alternating()
    found = explain(hetsim.plan(problem, "hetero"))
    record = json.loads(json.dumps(explanation_record(found)))
    assert record["cost_s"] == 20 + 19 * 0.5
    assert record["critical_path"][0]["nodes"] == ["n0"]
    assert record["limited_by"] in ("cpu", "npu")
    assert [change["cost_s"] for change in record["changes"]] == sorted(
        change["cost_s"] for change in record["changes"]
    )


def test_the_flag_adds_it_to_text_and_json() -> None:
    question = (
        "compare",
        "zoo:squeezenet",
        "--platform",
        "laptop",
        "--strategy",
        "heft",
        "--explain",
    )
    assert "bottleneck" in ok(*question).stdout
    record = record_of(*question, "--objective", "throughput")
    assert record["objective"] == record["explanation"]["objective"] == "throughput"
    assert record["rows"][0]["cost_s"] == record["explanation"]["cost_s"]
