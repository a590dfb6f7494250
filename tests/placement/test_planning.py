"""The verb itself, limits and wishes, and plans for the devices that are left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from builders import problems
from hetsim.errors import Infeasible, InvalidInput, OutOfMemory, UnsupportedNode, UsageError
from hetsim.partitioning.affinity import Affinity, Exclusion
from hetsim.placement.constraints import Constrained
from hetsim.placement.planning import for_objective, replan, under, without
from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from sweeps import examples
from three_nodes import three


@pytest.mark.parametrize("strategy", [entry.name for entry in hetsim.strategies()])
def test_what_has_no_node_has_an_empty_plan(strategy: str) -> None:
    for count in (1, 2, 3):
        empty = Problem.from_arrays(np.zeros((0, count)), capacity_bytes=[9] * count)
        plan = hetsim.plan(empty, strategy)
        assert [one.groups for one in plan.replicas] == [()] * len(plan.replicas)
        assert hetsim.simulate(plan).latency_s == 0.0


def test_limits_hold_for_strategies_that_know_nothing_of_them() -> None:
    problem = three()
    alone = under(Constrained(pins={"n1": "b"}), problem, "single")
    assert alone.devices_used == ("b",)
    assert alone.problem is problem
    assert under(Constrained(max_devices=1), problem, "single").devices_used == ("a",)
    # What the strategy knows it is given; what it has not is left out.
    made = under(Constrained(max_devices=2), problem, "heft", moves=9)
    assert len(made.devices_used) <= 2
    assert made.options == {"max_devices": "2"}
    assert under(Constrained(), problem, "local-search", moves=9).options == {"moves": "9"}
    weighed = three(weight_bytes=[9] * 3, capacity_bytes=[99] * 3)
    assert under(Constrained(capacity_bytes={"a": 20}), weighed, "single").devices_used == ("b",)
    with pytest.raises(OutOfMemory):
        under(Constrained(capacity_bytes={"a": 20, "b": 20, "c": 20}), weighed, "single")


def test_a_plan_on_more_devices_than_allowed_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from hetsim.placement import planning

    apart = Plan(three(), "x", (Group("a", (0,)), Group("b", (1,)), Group("c", (2,))))
    monkeypatch.setattr(planning, "option_types", lambda strategy: {})
    monkeypatch.setattr(planning, "plan", lambda *_, **__: apart)
    match = "'theirs' does not support max_devices 2, and uses a, b, c"
    with pytest.raises(Infeasible, match=match):
        under(Constrained(max_devices=2), three(), "theirs")
    assert under(Constrained(max_devices=3), three(), "theirs").groups == apart.groups


def test_the_reason_says_how_many_nodes_are_not_priced() -> None:
    problem = three()
    assert "for priced nodes only" not in hetsim.plan(problem, "heft").reason
    one = hetsim.plan(replace(problem, unpriced={1: "no rule"}), "heft")
    assert one.reason.endswith("; for priced nodes only: 1 node is not priced")
    two = hetsim.plan(replace(problem, unpriced={1: "no rule", 2: "none"}), "heft")
    assert two.reason.endswith("; for priced nodes only: 2 nodes are not priced")


def test_objectives_go_to_strategies_that_have_a_choice() -> None:
    assert for_objective("auto", "throughput") == {"objective": "throughput"}
    assert for_objective("heft", "latency") == {}
    assert for_objective("hetero", "throughput") == {}
    with pytest.raises(UsageError, match="'heft' plans for latency, not for throughput") as caught:
        for_objective("heft", "throughput")
    assert "multi" in str(caught.value)
    assert "cpop" not in str(caught.value)


def test_memory_given_replaces_that_of_the_problem() -> None:
    problem = three(weight_bytes=[9] * 3, capacity_bytes=[20, 30, 40])
    limits = Constrained(capacity_bytes={"c": 25})
    assert limits.narrow(problem).capacity_bytes == (20, 30, 25)
    assert Constrained().narrow(problem) is problem
    bare = replace(problem, capacity_bytes=None)
    every = Constrained(capacity_bytes={"a": 1, "b": 2, "c": 0})
    assert every.narrow(bare).capacity_bytes == (1, 2, 0)
    with pytest.raises(UsageError, match="instance has no memory capacities, and b is given none"):
        Constrained(capacity_bytes={"a": 1, "c": 2}).narrow(bare)
    for broken in (True, -1, 1.5):
        with pytest.raises(InvalidInput, match=r"bytes of memory") as caught:
            Constrained(capacity_bytes={"b": broken}).narrow(problem)  # type: ignore[dict-item]
        assert caught.value.where == "device 'b'"
    assert limits.given() == {"capacity_bytes": {"c": 25}}


def test_devices_are_closed_by_what_their_loss_costs() -> None:
    # Without the last device 2 s more, without another 3 s.
    seconds = [[1.0, 4.0, 4.0], [4.0, 1.0, 4.0], [4.0, 4.0, 3.0]]
    problem = Problem.from_arrays(seconds, [(0, 1, 0), (1, 2, 0)], devices=("a", "b", "c"))
    made = hetsim.plan(problem, "heft", max_devices=2)
    assert made.assignment[:2] == (0, 1)
    assert made.devices_used == ("a", "b")
    assert made.reason.endswith(", with c closed one after another")
    assert hetsim.plan(problem, "heft", max_devices=3).devices_used == ("a", "b", "c")


@examples(quick=15, full=60)
@given(problems(), st.sampled_from(["heft", "hetero", "single"]), st.data())
def test_a_new_plan_is_valid_and_uses_no_lost_device(
    problem: Problem, strategy: str, data: st.DataObject
) -> None:
    planned = hetsim.plan(problem, strategy)
    lost = data.draw(st.lists(st.sampled_from(problem.devices), unique=True, min_size=1))
    try:
        left = without(problem, lost)
    except UnsupportedNode:
        usable = [p for p, name in enumerate(problem.devices) if name not in lost]
        assert not problem.supported[:, usable].any(axis=1).all()
        with pytest.raises(Infeasible):
            replan(planned, lost)
        return
    again = replan(planned, lost)
    again.validate()
    assert not set(again.devices_used) & set(lost)
    assert again.problem.devices == problem.devices
    assert left.values == problem.values


def test_options_hold_for_the_new_plan_but_for_pins_to_what_is_lost() -> None:
    seconds = np.array([[1.0, 2.0, 9.0]] * 3)
    problem = Problem.from_arrays(seconds, edges=[(0, 1, 8), (1, 2, 8)], devices=("a", "b", "c"))
    planned = hetsim.plan(problem, "heft", pins={"n0": "a", "n1": "c"})
    assert planned.assignment == (0, 2, 0)
    again = replan(planned, ["a"])
    assert again.assignment == (1, 2, 1)
    assert again.options == {"pins": '{"n1":"c"}'}
    assert replan(planned, ["a", "c"]).assignment == (1, 1, 1)
    # What a plan of an unknown strategy asked for cannot be held to.
    unknown = replace(planned, strategy="theirs", options={"pins": "[1"})
    assert replan(unknown, ["a"]).strategy == "heft"
    # Where the strategy itself has to give way its constraints stay.
    listed = hetsim.plan(problem, "hetero", priority=("a",), exclude=(Exclusion("b", ("Task",)),))
    assert replan(listed, ["a"]).assignment == (2, 2, 2)


PROBLEM = Problem.from_arrays(
    np.array([[4.0, 1.0, 2.0]] * 4),
    [(0, 1, 4), (0, 2, 4), (1, 3, 4), (2, 3, 4)],
    devices=("cpu", "gpu", "npu"),
    host=0,
)
PINS = {"n0": "npu"}
EXCLUDE = (Exclusion("gpu", nodes=("n1",)),)
WISHES = Affinity(PINS, EXCLUDE)
ASKED: dict[str, Any] = {"pins": PINS, "exclude": EXCLUDE}


def test_an_affinity_is_its_pins_and_exclusions_in_every_verb() -> None:
    parts = [hetsim.partition(PROBLEM, **asked) for asked in (ASKED, {"affinity": WISHES})]
    assert parts[0].groups == parts[1].groups
    for strategy in ("heft", "auto"):
        plans = [hetsim.plan(PROBLEM, strategy, **a) for a in (ASKED, {"affinity": WISHES})]
        assert plans[0].to_json() == plans[1].to_json()
        assert plans[0].assignment[0] == 2
        assert plans[0].assignment[1] != 1
    bounds = [hetsim.lower_bound(PROBLEM, **asked) for asked in (ASKED, {"affinity": WISHES})]
    assert bounds[0] == bounds[1]
    tables = [hetsim.compare(PROBLEM, ["heft"], **asked) for asked in (ASKED, {"affinity": WISHES})]
    assert tables[0].bound_s == tables[1].bound_s == bounds[0]
    texts = [[row.plan.to_json() for row in table.rows if row.plan] for table in tables]
    assert texts[0] == texts[1]


def test_a_default_is_what_exclusions_without_a_device_spare() -> None:
    spared = Affinity(exclude=(Exclusion(nodes=("n2",)),), default="npu")
    assert hetsim.plan(PROBLEM, "heft", affinity=spared).assignment[2] == 2
    assert hetsim.plan(PROBLEM, "heft", exclude=spared.exclude).assignment[2] == 0


def test_what_is_said_twice_is_refused() -> None:
    for verb in (
        hetsim.partition,
        hetsim.plan,
        hetsim.lower_bound,
        lambda problem, **asked: hetsim.compare(problem, ["heft"], **asked),
    ):
        for name in ASKED:
            with pytest.raises(UsageError, match=f"both 'affinity' and '{name}' set {name}"):
                verb(PROBLEM, affinity=WISHES, **{name: ASKED[name]})
        with pytest.raises(InvalidInput, match="no node 'none'"):
            verb(PROBLEM, affinity=Affinity({"none": "cpu"}))
    with pytest.raises(UsageError, match="pins cannot change a given assignment"):
        hetsim.partition(PROBLEM, assignment=[0] * 4, pins=PINS)


def test_an_objective_is_what_a_strategy_plans_for() -> None:
    for strategy in ("auto", "chain-dp", "local-search"):
        made = hetsim.plan(PROBLEM, strategy, objective="throughput")
        assert made.options == {"objective": "throughput"}
    # These plan for one objective, or weigh none: nothing is to be chosen.
    for strategy, objective in (
        ("heft", "latency"),
        ("multi", "throughput"),
        ("hetero", "latency"),
    ):
        made = hetsim.plan(PROBLEM, strategy, objective=objective)  # type: ignore[arg-type]
        assert made.to_json() == hetsim.plan(PROBLEM, strategy).to_json()
    with pytest.raises(UsageError, match=r"'heft' plans for latency, not for throughput.*auto"):
        hetsim.plan(PROBLEM, "heft", objective="throughput")
    with pytest.raises(UsageError, match="'slice' plans for throughput, not for latency"):
        hetsim.plan(PROBLEM, "slice", objective="latency")
    with pytest.raises(UsageError, match="no objective 'speed'"):
        hetsim.plan(PROBLEM, "auto", objective="speed")  # type: ignore[arg-type]
