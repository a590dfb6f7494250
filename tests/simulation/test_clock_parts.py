"""The clock's parts: its heaps, room for requests, and what it does with contradictory orders."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from hetsim.errors import PlanError
from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.runs import play
from hetsim.simulation.clock.templates import PlanTasks, tasks_of_plan, template_of
from oracles.clock_plans import Stage, tandem


@pytest.mark.parametrize("machine_code", [False, True])
def test_subgraphs_that_wait_for_each_other_are_an_error(machine_code: bool) -> None:
    problem = Problem.from_arrays([[1.0], [1.0]], edges=[(0, 1, 0)])
    template = template_of(Plan(problem, "manual", (Group("d0", (0,)), Group("d0", (1,)))), "fifo")
    backwards = PlanTasks(template.plan, (dataclasses.replace(template, predecessors=((1,), ())),))
    with pytest.raises(PlanError, match="plan 'manual': its subgraphs wait for each other"):
        play(backwards, np.zeros(3), traced=True, machine_code=machine_code)


@pytest.mark.parametrize("requests", [1, 15, 16, 17, 100])
@pytest.mark.parametrize("contention", ["fifo", "none"])
def test_state_grows_with_the_requests_in_flight(requests: int, contention: str) -> None:
    """A burst on one slow link: the last tensor arrives after all before it."""
    problem = Problem.from_arrays([[0.0, 1.0], [1.0, 0.0]], edges=[(0, 1, 2)], bytes_per_s=1.0)
    plan = Plan(problem, "manual", (Group("d0", (0,)), Group("d1", (1,))))
    template = tasks_of_plan(plan, "fifo" if contention == "fifo" else "none")
    for machine_code in (False, True):
        recording = play(template, np.zeros(requests), traced=True, machine_code=machine_code)
        waits = np.arange(requests) if contention == "fifo" else np.zeros(requests)
        assert recording.finish.tolist() == (2 * waits + 2).tolist()
        assert sorted(recording.sequence.ravel().tolist()) == list(range(3 * requests))


@pytest.mark.parametrize("machine_code", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_state_grows_while_requests_end(seed: int, machine_code: bool) -> None:
    """A tandem that falls behind, by Friedman: what is in flight begins anywhere in the state."""
    stages = [Stage(1.5, 0.25), Stage(2.0, 0.5), Stage(0.5, 2.25)]
    gaps = np.random.default_rng(seed).integers(0, 30, 400) / 8
    arrival = np.cumsum(gaps)
    wait = 0.0
    expected = []
    for gap, came in zip(gaps.tolist(), arrival.tolist(), strict=True):
        wait = max(0.0, wait + 2.25 - gap) if expected else 0.0
        expected.append(came + wait + 7.125)
    recording = play(
        tasks_of_plan(tandem(stages, 0.125), "fifo"),
        arrival,
        traced=False,
        machine_code=machine_code,
    )
    assert recording.finish.tolist() == expected
