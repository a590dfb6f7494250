"""Plans survive a round trip through JSON, and refuse what does not belong to them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

import hetsim
from builders import problems
from hetsim.errors import PlanError
from hetsim.plans.plan import Plan
from hetsim.problem.problem import Problem


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


def two_replicas() -> Plan:
    problem = chain()
    return Plan.dealt(
        (hetsim.plan(problem, "single:cpu"), hetsim.plan(problem, "hetero:npu,cpu")),
        (1, 0, 1),
        strategy="manual",
    )


@settings(max_examples=50, deadline=None)
@given(problems(max_nodes=10))
def test_replicas_survive_a_round_trip(problem: Problem) -> None:
    replicas = [hetsim.plan(problem, strategy) for strategy in ("hetero", "heft", "hetero")]
    plan = Plan.dealt(replicas, (2, 0, 1, 2), strategy="manual", reason="by hand")
    plan.validate()
    text = plan.to_json()
    back = Plan.from_json(text, problem)
    assert (back.groups, back.sizes, back.deal) == (plan.groups, plan.sizes, plan.deal)
    assert back.to_json() == text
    assert [one.groups for one in back.replicas] == [one.groups for one in replicas]


def test_one_replica_is_written_as_ever() -> None:
    problem = chain()
    alone = hetsim.plan(problem, "single:cpu")
    dealt = Plan.dealt((alone,), (0,), strategy="single:cpu", reason=alone.reason)
    assert dealt.to_json() == alone.to_json()
    assert json.loads(alone.to_json())["schema"] == "hetsim-plan/1"
    assert json.loads(two_replicas().to_json())["schema"] == "hetsim-plan/2"


def test_a_replicated_plan_has_no_one_assignment() -> None:
    plan = two_replicas()
    assert [one.assignment for one in plan.replicas] == [(0, 0), (1, 1)]
    assert plan.devices_used == ("cpu", "npu")
    with pytest.raises(PlanError, match=r"plan\.replicas"):
        _ = plan.assignment


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"deal": [0, 0]}, "gives replica 1 no request"),
        ({"deal": [0, 1, 2]}, "names replica 2, and there are 2"),
        ({"deal": "01"}, "wrong type"),
        ({"deal": [0, True]}, "wrong type"),
        ({"deal": None}, "wrong type"),
    ],
)
def test_broken_deals_are_refused(changes: dict[str, Any], complaint: str) -> None:
    record = json.loads(two_replicas().to_json()) | changes
    with pytest.raises(PlanError, match=complaint):
        Plan.from_json(json.dumps(record), chain())


@pytest.mark.parametrize("sizes", [(1,), (1, 1, 1), (2, 1), (1, 0)])
def test_sizes_of_replicas_are_those_of_all_groups(sizes: tuple[int, ...]) -> None:
    plan = replace(two_replicas(), sizes=sizes, deal=tuple(range(len(sizes))))
    with pytest.raises(PlanError, match=f"{len(sizes)} replicas of {sum(sizes)} groups, .* has 2"):
        plan.check_deal("here")


def test_broken_replicas_are_refused() -> None:
    record = json.loads(two_replicas().to_json())
    for group in record["groups"]:
        group["replica"] = 1 - group["replica"]
    with pytest.raises(PlanError, match="replica by replica"):
        Plan.from_json(json.dumps(record), chain())
    record = json.loads(two_replicas().to_json())
    record["groups"][0]["nodes"] = ["n0"]
    with pytest.raises(PlanError, match="replica 0: not a valid partition: 'n1' is in no group"):
        Plan.from_json(json.dumps(record), chain())
    with pytest.raises(PlanError, match="no replica"):
        Plan.dealt((), (), strategy="manual")
    with pytest.raises(PlanError, match="different problems"):
        Plan.dealt([two_replicas().replicas[0] for _ in range(2)], (0, 1), strategy="manual")
