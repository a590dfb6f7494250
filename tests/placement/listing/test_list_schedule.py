"""Nodes in order go to the same slots as they stand and compiled: gaps, ties and weights."""

from __future__ import annotations

import pytest
from hypothesis import given

from builders import problems
from hetsim.core import left_to_python
from hetsim.errors import OutOfMemory
from hetsim.placement.listing.list_schedule import Schedule
from hetsim.problem.problem import Problem
from placement_instances import constructive, model_like
from sweeps import examples


def told(problem: Problem, name: str) -> Schedule | str:
    """The schedule, or why there is none."""
    try:
        return constructive(name).schedule(problem)
    except OutOfMemory as error:
        return str(error)


@pytest.mark.group("machine_code")
@examples(quick=40, full=600)
@given(model_like(problems(max_nodes=14)))
def test_schedules_are_the_same_compiled(problem: Problem) -> None:
    for name in ("heft", "cpop", "peft"):
        plain = told(problem, name)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(left_to_python, "pays", lambda *_, **__: True)
            assert told(problem, name) == plain
