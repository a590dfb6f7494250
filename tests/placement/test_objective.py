"""What a plan costs, and when memory counts, by the clock."""

from __future__ import annotations

from dataclasses import replace

import pytest

import hetsim
from hetsim.errors import OutOfMemory, UsageError
from hetsim.placement.feasibility import fitted
from hetsim.placement.objective import (
    bottleneck,
    check_room,
    latency_of,
    loads,
    max_load,
    memory_binds,
    seconds_a_request,
)
from hetsim.problem.groups import Group
from hetsim.problem.parts import Staging
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from three_nodes import three


def test_memory_binds_where_a_device_could_not_hold_everything() -> None:
    problem = three(weight_bytes=[9] * 3, capacity_bytes=[29, 40, 40])
    assert not memory_binds(problem)
    assert memory_binds(replace(problem, capacity_bytes=(40, 28, 40)))
    assert not memory_binds(replace(problem, capacity_bytes=None))


def test_what_a_plan_costs_is_what_the_clock_says() -> None:
    problem = three(contention="fifo", streams=[1, 2, 1])
    plan = Plan(problem, "x", (Group("a", (0,)), Group("b", (1,)), Group("c", (2,))))
    assert latency_of(plan) == hetsim.simulate(plan).latency_s == 3.5
    device_s, link_s = seconds_a_request(plan)
    assert device_s == [1.0, 0.5, 1.0]
    assert sorted(link_s)[-2:] == [0.25, 0.25]
    assert bottleneck(plan) == 1.0
    check_room(plan)
    weighed = three(weight_bytes=[9] * 3, capacity_bytes=[99, 8, 99])
    heavy = replace(plan, problem=weighed)
    with pytest.raises(OutOfMemory, match="device 'b'"):
        check_room(heavy)
    with pytest.raises(OutOfMemory, match="device 'b'"):
        latency_of(heavy)
    assert fitted(heavy).assignment[1] != 1


def staged() -> Problem:
    return Problem.from_arrays(
        [[1.0, 4.0], [2.0, 4.0], [3.0, 4.0]],
        tensors=[(0, 8, (1, 2)), (1, 4, (2,))],
        staging=Staging((0.5, 0.0), (0.25, 0.0)),
    )


def test_staged_tensors_are_paid_once_a_device() -> None:
    problem = staged()
    # d0 stores the tensor of node 0 once for both readers; d1 moves for nothing.
    assert loads(problem, (0, 1, 1))[0] == [1.0 + 8 * 0.25, 8.0]
    # d0 fetches both tensors.
    assert loads(problem, (1, 1, 0))[0] == [3.0 + (8 + 4) * 0.5, 8.0]
    assert max_load(problem, (0, 0, 0)) == 6.0
    # Not contiguous: node 1 reads one tensor from d0 and gives one back.
    assert loads(problem, (0, 1, 0))[0] == [4.0 + 8 * 0.25 + 4 * 0.5, 4.0]


def test_staging_is_checked_and_part_of_the_fingerprint() -> None:
    assert staged().fingerprint != Problem.from_arrays([[1.0, 4.0]]).fingerprint
    with pytest.raises(UsageError, match="1 entries for 3 nodes"):
        max_load(staged(), (0,))
