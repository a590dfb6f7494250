"""The verb itself, limits that a strategy knows nothing of, and problems with fewer choices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import hetsim
from hetsim.errors import Infeasible, InvalidInput, OutOfMemory, UsageError
from hetsim.placement.constraints import (
    Constrained,
)
from hetsim.placement.objective import max_load
from hetsim.placement.planning import for_objective, under
from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
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
    match = "'theirs' knows nothing of max_devices 2, and runs on a, b, c"
    with pytest.raises(Infeasible, match=match):
        under(Constrained(max_devices=2), three(), "theirs")
    assert under(Constrained(max_devices=3), three(), "theirs").groups == apart.groups


def test_the_reason_says_how_many_nodes_are_not_priced() -> None:
    problem = three()
    assert "of what is priced" not in hetsim.plan(problem, "heft").reason
    one = hetsim.plan(replace(problem, unpriced={1: "no rule"}), "heft")
    assert one.reason.endswith("; of what is priced: 1 node is not")
    two = hetsim.plan(replace(problem, unpriced={1: "no rule", 2: "none"}), "heft")
    assert two.reason.endswith("; of what is priced: 2 nodes are not")


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
    with pytest.raises(UsageError, match="instance has no memory capacities, and b gets none"):
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


def test_what_is_no_problem_is_told_at_the_door() -> None:
    problem = three()
    verbs: list[Any] = [hetsim.plan, hetsim.lower_bound, lambda given: max_load(given, (0, 1, 2))]
    for verb in verbs:
        for given in ("model.onnx", None, 3):
            with pytest.raises(InvalidInput, match=r"problem is .*, not a Problem"):
                verb(given)
    with pytest.raises(InvalidInput, match="strategy is 3, not a text"):
        hetsim.plan(problem, 3)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="objective is 3, not a text"):
        hetsim.plan(problem, "auto", objective=3)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="objective is 3, not a text"):
        hetsim.lower_bound(problem, 3)  # type: ignore[arg-type]
    for verb in (hetsim.plan, hetsim.lower_bound):
        with pytest.raises(InvalidInput, match=r"affinity is .*, not an? Affinity"):
            verb(problem, affinity={"n0": "a"})
    with pytest.raises(InvalidInput, match="assignment is '012'"):
        max_load(problem, "012")  # type: ignore[arg-type]
    for broken in ((0, 1), (0, 1, 2, 0), (0, 1, 3), (0, 1, -1)):
        with pytest.raises(UsageError, match="give a device index for every node"):
            max_load(problem, broken)
