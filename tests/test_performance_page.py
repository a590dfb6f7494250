"""The page of how time grows is made of the lines that benchmarks printed."""

from __future__ import annotations

import json
import math
import runpy
from pathlib import Path
from typing import Any

import hetsim

ROOT = Path(__file__).parents[1]
PAGE = runpy.run_path(str(ROOT / "benchmarks" / "document_of_performance.py"))


def lines() -> list[dict[str, Any]]:
    text = (ROOT / "data" / "performance.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_the_page_is_made_of_the_lines() -> None:
    assert (ROOT / "docs" / "performance.md").read_text() == PAGE["document"](lines())


def test_answers_beside_each_other_are_of_the_same_question() -> None:
    told = lines()
    traces = [one for one in told if one["benchmark"] == "traces" and "sha256" in one]
    by_events: dict[int, set[str]] = {}
    for one in traces:
        by_events.setdefault(one["events"], set()).add(one["sha256"])
    assert {len(digests) for digests in by_events.values()} == {1}
    grown = [one for one in told if "exponent" in one]
    assert len(grown) >= 12
    for one in grown:
        own = [
            other["cpu_s"]
            for other in told
            if (other.get("method"), other.get("shape")) == (one["method"], one["shape"])
            and other.get("verb") == "partition"
            and "nodes" in other
        ]
        assert math.isclose(math.log10(own[-1] / own[0]) / 2, one["exponent"], abs_tol=0.1)


def test_every_method_and_strategy_has_its_growth() -> None:
    told = {one["verb"] for one in lines() if one["benchmark"] == "growth"}
    assert {f"partition {info.name}" for info in hetsim.methods()} <= told
    assert {f"plan {info.name}" for info in hetsim.strategies()} <= told
