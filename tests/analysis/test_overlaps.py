"""Who is busy while whom: counted pair by pair of what a timeline shows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from builders import problems
from hetsim.analysis.sustaining import overlaps, shares_something, steady
from hetsim.problem.problem import Problem
from sweeps import examples


@examples(quick=20, full=200)
@given(problems(max_nodes=6), st.lists(st.integers(0, 12), min_size=1, max_size=5))
def test_tasks_beside_a_task_are_those_of_every_pair(problem: Problem, quarters: list[int]) -> None:
    arrivals_s = [quarter / 4 for quarter in sorted(quarters)]
    timeline = hetsim.simulate(hetsim.plan(problem, "hetero"), arrivals_s=arrivals_s)
    found = overlaps(problem, timeline)
    ran = [event for event in timeline.events if event.kind == "compute"]
    for p, name in enumerate(problem.devices):
        busy = sum(event.end_s - event.start_s for event in ran if event.device == name)
        for q, other in enumerate(problem.devices):
            together = sum(
                max(0.0, min(e.end_s, f.end_s) - max(e.start_s, f.start_s))
                for e in ran
                if e.device == name
                for f in ran
                if f.device == other and f is not e
            )
            assert found[p, q] == pytest.approx(together / busy if busy else 0.0, abs=1e-12)


def test_several_streams_of_a_device_are_beside_each_other() -> None:
    problem = Problem.from_arrays([[2.0, 9.0]], devices=("a", "b"), streams=[2, 1])
    plan = hetsim.plan(problem, "single:a")
    both = overlaps(problem, hetsim.simulate(plan, arrivals_s=(0.0, 1.0)))
    # From 1 to 2 both run: half of the time of each.
    assert both.tolist() == [[0.5, 0.0], [0.0, 0.0]]


def test_without_times_devices_are_beside_each_other_as_often_as_they_are_busy() -> None:
    found = steady(np.array([6.0, 2.0, 0.0]), 4.0, (2, 1, 3))
    # 1.5 of 2 streams, of which one is the task's own; another device's all count.
    assert found.tolist() == [[0.75, 0.5, 0.0], [1.5, 0.0, 0.0], [1.5, 0.5, 0.0]]
    assert not steady(np.zeros(2), 0.0, (1, 1)).any()


def test_a_platform_shares_what_it_states() -> None:
    read = hetsim.load_platform("laptop")
    assert not shares_something(None)
    for power_w, memories, shares in ((None, (), False), (9.0, (), True),
                                      (None, read.memories, True)):  # fmt: skip
        assert read.memories
        assert shares_something(replace(read, power_w=power_w, memories=memories)) == shares
