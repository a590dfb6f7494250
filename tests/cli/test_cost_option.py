"""``--cost``: by which cost model a problem is priced, in every verb that prices."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from cli_calls import call, record_of
from figure_builders import kernels_block
from hetsim.cost import DEFAULT_COST
from hetsim.hardware.files.catalog_files import catalog_folder
from sweeps import sweep


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """A model and a platform of one device with figures of its kernels."""
    own = yaml.safe_load((catalog_folder() / "nvidia-t4.yaml").read_text("utf-8"))
    own["kernels"] = {"float32": kernels_block()}
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump({"host": "card", "devices": {"card": {"device": own}}}), "utf-8")
    return ["zoo:squeezenet", "--platform", str(path)]


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
