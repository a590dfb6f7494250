"""Plans survive a round trip through JSON, and refuse what does not belong to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

import hetsim
from builders import problems
from hetsim.errors import PlanError
from hetsim.plans import Plan
from hetsim.problem import Problem


@settings(max_examples=50, deadline=None)
@given(problems(max_nodes=10))
def test_round_trip(problem: Problem) -> None:
    for strategy in ("hetero", "heft"):
        plan = hetsim.plan(problem, strategy)
        text = plan.to_json()
        back = Plan.from_json(text, problem)
        assert back.groups == plan.groups
        assert back.strategy == plan.strategy
        assert back.to_json() == text


def chain(seconds: float = 1.0) -> Problem:
    return Problem.from_arrays(
        [[seconds, 2.0], [1.0, 1.0]], edges=[(0, 1, 4)], devices=("cpu", "npu"), host=0
    )


def edited(**changes: Any) -> str:
    record = json.loads(hetsim.plan(chain(), "hetero").to_json())
    record.update(changes)
    return json.dumps(record)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "not JSON"),
        ("[]", "schema hetsim-plan/1"),
        (edited(schema="other"), "schema hetsim-plan/1"),
        (edited(groups=None), "wrong type"),
        (edited(problem={}), "lacks fields"),
        (edited(groups=[{"device": "cpu", "nodes": ["n9"]}]), "no node 'n9'"),
        (edited(groups=[{"device": "cpu", "nodes": ["n0"]}]), "'n1' is in no group"),
        (edited(groups=[{"device": "tpu", "nodes": ["n0", "n1"]}]), "unknown device 'tpu'"),
    ],
)
def test_broken_plans_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(PlanError, match=complaint):
        Plan.from_json(text, chain())


def test_a_plan_of_another_problem_is_refused() -> None:
    with pytest.raises(PlanError, match=r"another problem.*plan again"):
        Plan.from_json(edited(), chain(seconds=3.0))


def test_files(tmp_path: Path) -> None:
    plan = hetsim.plan(chain(), "heft")
    path = tmp_path / "plan.json"
    plan.save(path)
    assert hetsim.load_plan(path, plan.problem).groups == plan.groups
    assert [entry.name for entry in tmp_path.iterdir()] == ["plan.json"]
    with pytest.raises(PlanError, match="names no model"):
        hetsim.load_plan(path)
    with pytest.raises(PlanError, match="cannot read: No such file"):
        hetsim.load_plan(tmp_path / "none.json")
    with pytest.raises(PlanError, match="cannot write"):
        plan.save(tmp_path / "no" / "plan.json")
