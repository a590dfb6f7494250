"""Plans survive a round trip through JSON, and refuse what does not belong to them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import hetsim
from builders import problems
from hetsim.errors import PlanError
from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from sweeps import examples


@examples(quick=15, full=50)
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
        ("[]", "schema hetsim-plan/1"),
        (edited(schema="other"), "schema hetsim-plan/1 or hetsim-plan/2, but of 'other'"),
        (edited(groups=None), "wrong type"),
        (edited(problem={}), "lacks fields"),
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
    with pytest.raises(PlanError, match=r"none\.json: no such file"):
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


@examples(quick=15, full=50)
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
        ({"deal": [0, 1, 2]}, "names replica 2, but there are 2"),
        ({"deal": "01"}, "wrong type"),
        ({"deal": [0, True]}, "wrong type"),
        ({"deal": None}, "wrong type"),
    ],
)
def test_broken_deals_are_refused(changes: dict[str, Any], complaint: str) -> None:
    record = json.loads(two_replicas().to_json()) | changes
    with pytest.raises(PlanError, match=complaint):
        Plan.from_json(json.dumps(record), chain())


def test_broken_replicas_are_refused() -> None:
    record = json.loads(two_replicas().to_json())
    for group in record["groups"]:
        group["replica"] = 1 - group["replica"]
    with pytest.raises(PlanError, match="sorted by replica"):
        Plan.from_json(json.dumps(record), chain())
    record = json.loads(two_replicas().to_json())
    record["groups"][0]["nodes"] = ["n0"]
    with pytest.raises(PlanError, match="replica 0: not a valid partition: 'n1' is in no group"):
        Plan.from_json(json.dumps(record), chain())
    with pytest.raises(PlanError, match="no replica"):
        Plan.dealt((), (), strategy="manual")
    with pytest.raises(PlanError, match="different problems"):
        Plan.dealt([two_replicas().replicas[0] for _ in range(2)], (0, 1), strategy="manual")


@pytest.mark.parametrize("deal", [(0, 1), (1, 0, 1), (0, 0, 0, 1, 1)])
def test_requests_go_round_the_deal(deal: tuple[int, ...]) -> None:
    plan = replace(two_replicas(), deal=deal)
    plan.validate()
    whole = deal * 3
    assert tuple(plan.replica_of(request) for request in range(len(whole))) == whole
    assert plan.period == deal
    assert plan.shares == tuple(sum(each == index for each in deal) for index in range(2))
    assert plan.each_once.deal == (0, 1)
    assert plan.each_once.groups == plan.groups
    assert plan.offsets == (0, 1)
    (alone,) = plan.replicas[0].replicas
    assert (alone.period, alone.shares, alone.replica_of(7)) == ((0,), (1,), 0)
    assert (alone.offsets, alone.each_once.deal) == ((0,), ())


@pytest.mark.parametrize(
    "numbers",
    [[0, 0, 2], [1, 1, 2], [0, 2, 1], [0, -1, 0], [0, 1.0, 1], [0, None, 1], [0, True, 1]],
)
def test_groups_stand_replica_by_replica(numbers: list[Any]) -> None:
    """Each of three groups says a replica; these are counted from 0, and none is left out."""
    record = json.loads(two_replicas().to_json())
    record["groups"] = [{**record["groups"][0], "replica": number} for number in numbers]
    with pytest.raises(PlanError, match=r"sorted by replica|of the wrong type"):
        Plan.from_json(json.dumps(record), chain())
    record["groups"] = []
    with pytest.raises(PlanError, match="sorted by replica"):
        Plan.from_json(json.dumps(record), chain())


def test_a_plan_says_where_its_text_is_wrong() -> None:
    with pytest.raises(PlanError, match=r"^here:3: not JSON: .*; use a saved plan\.json"):
        Plan.from_json('{\n"schema":\n', chain(), where="here")
    unknown = edited(groups=[{"device": "cpu", "nodes": ["n0", "n11"]}])
    with pytest.raises(PlanError, match=r"^here: the problem has no node 'n11'; did you mean 'n1'"):
        Plan.from_json(unknown, chain(), where="here")


def test_the_assignment_is_of_the_groups_that_there_are() -> None:
    problem = chain()
    assert hetsim.plan(problem, "single:npu").assignment == (1, 1)
    whole = hetsim.plan(problem, "single:npu")
    part = replace(whole, groups=(Group("cpu", (1,)),))
    assert part.assignment == (-1, 0)
    assert part.devices_used == ("cpu",)
    assert replace(whole, groups=()).devices_used == ()


def test_what_a_saved_plan_says() -> None:
    """All of it, of a model on a platform of which something is supposed; twice the same text."""
    model = hetsim.load_model("zoo:squeezenet")
    platform = hetsim.what_if(hetsim.load_platform("laptop"), "npu.speed x2", without=["gpu"])
    problem = hetsim.Problem.of(
        model, platform, contention="none", execute={"npu": "int8"}, pessimistic=True
    )
    plan = replace(hetsim.plan(problem, "heft"), options={"b": "2", "a": "1"})
    record = json.loads(plan.to_json())
    groups = record.pop("groups")
    assert record == {
        "schema": "hetsim-plan/1",
        "problem": {"name": problem.name, "fingerprint": problem.fingerprint},
        "model": {
            "source": "zoo:squeezenet", "sha256": model.sha256, "canonical": model.canonical,
            "dims": dict(model.dims), "shapes": {k: list(s) for k, s in model.shapes.items()},
        },
        "platform": {
            "source": "laptop", "sha256": platform.sha256, "what_if": ["npu.speed x2"],
            "without": ["gpu"],
        },
        "contention": "none",
        "strategy": "heft",
        "options": {"a": "1", "b": "2"},
        "reason": plan.reason,
        "execute": {"npu": "int8"},
        "cost": problem.cost,
        "pessimistic": True,
    }  # fmt: skip
    assert list(record["options"]) == ["a", "b"]
    assert [entry["id"] for entry in groups] == list(range(len(plan.groups)))
    for entry, group in zip(groups, plan.groups, strict=True):
        assert entry["device"] == group.device
        assert entry["nodes"] == [problem.node_names[node] for node in group.nodes]
        named = [name for node in group.nodes for name in problem.origins[node]]
        assert sorted(entry["origins"]) == sorted(set(named))
        assert entry.keys() == {"id", "device", "nodes", "origins"}
    plain = json.loads(hetsim.plan(hetsim.Problem.of(model, platform), "heft").to_json())
    assert {"execute", "pessimistic", "profiles", "deal"}.isdisjoint(plain)
    assert json.loads(hetsim.plan(chain(), "heft").to_json())["model"] is None
    dealt = json.loads(two_replicas().to_json())
    assert (dealt["deal"], [g["replica"] for g in dealt["groups"]]) == ([1, 0, 1], [0, 1])
