"""Plans for the devices that are left."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from builders import problems
from hetsim.errors import Infeasible, UnsupportedNode
from hetsim.placement.planning import replan, without
from hetsim.problem.problem import Problem
from sweeps import examples


@examples(quick=25, full=60)
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


def test_a_plan_that_insists_on_a_lost_device_gives_way() -> None:
    problem = Problem.from_arrays(np.array([[1.0, 2.0], [1.0, 2.0]]), edges=[(0, 1, 8)])
    planned = hetsim.plan(problem, "single:d0")
    assert planned.devices_used == ("d0",)
    assert replan(planned, ["d0"]).devices_used == ("d1",)


def test_composites_of_a_lost_device_are_lost_with_it() -> None:
    inf = float("inf")
    problem = Problem.from_arrays(
        np.array([[2.0, inf], [2.0, inf]]), edges=[(0, 1, 8)], composites=[(1, (0, 1), 1.0)]
    )
    assert without(problem, ["d1"]).fused == ()
    assert without(problem, ["d0"]).fused == problem.fused
    with pytest.raises(UnsupportedNode, match="'d0', 'd1' being lost") as caught:
        without(problem, ["d1", "d0"])
    assert caught.value.where == "node 'n0'"


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
    listed = hetsim.plan(
        problem, "hetero", priority=("a",), exclude=(hetsim.Exclusion("b", ("Task",)),)
    )
    assert replan(listed, ["a"]).assignment == (2, 2, 2)
