"""What is told of how often intervals hold, and what verdicts are worth, is what was measured."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENT = runpy.run_path(str(ROOT / "benchmarks" / "document_of_confidence.py"))


@pytest.fixture(scope="module")
def lines() -> list[dict[str, Any]]:
    text = (ROOT / "data" / "confidence.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_the_document_is_made_of_the_lines(lines: list[dict[str, Any]]) -> None:
    assert (ROOT / "docs" / "confidence.md").read_text() == DOCUMENT["document"](lines)


def test_intervals_hold_the_truth_in_93_to_97_of_100(lines: list[dict[str, Any]]) -> None:
    """Over 400 seeds, or, where chance may have made what these say, over 2,000."""
    told = [one for one in lines if one["kind"] in ("law", "other")]
    assert len({one["law"] for one in told}) >= 14
    assert all(one["seeds"] == 400 for one in told)
    assert not [one for one in told if DOCUMENT["outside_still"](one)]


def test_of_300_verdicts_none_in_a_hundred_is_a_false_meets_and_few_are_undecided(
    lines: list[dict[str, Any]],
) -> None:
    told = [one for one in lines if one["kind"] == "verdict"]
    assert len(told) == 300
    assert sum(one["answer"] == "meets" and one["factor"] < 1 for one in told) <= 3
    assert sum(one["answer"] == "misses" and one["factor"] > 1 for one in told) <= 3
    assert sum(one["answer"] == "undecided" for one in told) <= 30
    assert max(one["cpu_s"] for one in told) <= 5
