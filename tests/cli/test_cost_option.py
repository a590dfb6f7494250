"""``--cost``: by which cost model a problem is priced, in every verb that prices."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_calls import call, record_of
from figure_builders import figured_card
from hetsim.cost import DEFAULT_COST
from sweeps import sweep


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """A model and a platform of one device with figures of its kernels."""
    return ["zoo:squeezenet", "--platform", str(figured_card(tmp_path))]


@sweep("verb", quick=["simulate"], full=["simulate", "compare", "partition"])
def test_every_verb_that_prices_takes_it_and_says_it(words: list[str], verb: str) -> None:
    found = {}
    for cost in ("fitted", "roofline", None):
        given = [] if cost is None else ["--cost", cost]
        record = record_of(verb, *words, *given)
        assert record.get("problem", record)["cost"] == (cost or DEFAULT_COST)
        found[cost] = record.get("problem", record)["fingerprint"]
    assert found["fitted"] != found["roofline"]
    assert found[None] == found[DEFAULT_COST]


def test_a_saved_plan_has_its_own(words: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert call("simulate", *words, "--cost", "fitted", "--out", out).exit_code == 0
    plan = out / "plan.json"
    assert json.loads(plan.read_text())["cost"] == "fitted"
    assert call("simulate", plan).exit_code == 0
