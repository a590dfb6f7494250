"""Machine code places nodes as ``Listing`` does: slot by slot, gaps and ties included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given

from builders import problems
from hetsim.placement.listing import in_order
from hetsim.placement.listing.list_schedule import Schedule
from hetsim.placement.strategies import peft
from hetsim.problem.problem import Problem
from placement_instances import constructive, model_like
from sweeps import examples

pytestmark = pytest.mark.group("machine_code")


def both_ways(call: Callable[[], Schedule]) -> list[Schedule]:
    """What it gives by machine code, and by ``Listing``."""
    found = []
    for which in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(in_order, "pays", lambda _, way=which: way)
            patch.setattr(peft, "pays", lambda _, way=which: way)
            found.append(call())
    return found


@examples(quick=40, full=600)
@given(model_like(problems(max_nodes=14)))
def test_schedules_are_the_same(problem: Problem) -> None:
    problem = replace(problem, capacity_bytes=None)
    for name in ("heft", "cpop", "peft"):
        made, plain = both_ways(lambda name=name: constructive(name).schedule(problem))
        assert made == plain
