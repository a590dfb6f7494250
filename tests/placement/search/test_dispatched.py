"""Plays of assignments: what the clock says of their plans, the same by machine code."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from builders import problems
from hetsim.placement.priced_start import _owned
from hetsim.placement.search.dispatched import AssignmentPlayer
from hetsim.placement.search.drafts import asked_of, estimates_groups
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from placement_instances import model_like
from sweeps import examples


@pytest.mark.group("machine_code")
@examples(quick=12, full=100)
@given(model_like(problems(max_nodes=12)), st.integers(0, 999), st.integers(1, 4), st.booleans())
def test_the_plan_is_valid_and_without_contention_takes_as_long_as_played(
    problem: Problem, seed: int, most: int, contended: bool
) -> None:
    problem = replace(problem, capacity_bytes=None)
    if not contended:
        problem = replace(problem, contention="none")
    rng = np.random.default_rng(seed)
    able = [np.flatnonzero(row) for row in problem.supported]
    device = np.array([rng.choice(row) for row in able], dtype=np.int64)
    urgency = rng.uniform(size=problem.n)
    told = []
    for arrays in (False, True):
        asked = asked_of(problem, grouped=estimates_groups(problem), binds=False, arrays=arrays)
        play = AssignmentPlayer(problem, asked, arrays=arrays)
        play(device, urgency, 1)
        ended, order, cut = play(device, urgency, most)
        told.append((ended, order.tolist(), cut.tolist()))
    assert told[0] == told[1]
    plan = Plan(problem, "played", _owned(device, order, cut).groups(problem))
    plan.validate()
    if not contended and not problem.fused and problem.staging is None:
        assert hetsim.simulate(plan).latency_s == pytest.approx(ended, rel=1e-9)
