"""What makes plans fit the memory, step by step, against sets of nodes counted anew."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.errors import Infeasible
from hetsim.placement.fitting import (
    plan_that_fits,
    relieved,
    spilled,
    squeezed,
)
from hetsim.placement.footprint import (
    Footprint,
    excess,
    overfull,
)
from hetsim.placement.grouping import groupings
from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from oracles.every_plan import every_plan, tight_problem
from sweeps import examples

seeds = st.integers(0, 10**6)


def lies(problem: Problem, footprint: Footprint, nodes: set[int], p: int) -> int:
    """Bytes that lie on a device with these nodes at least: weights, and what one needs beside."""
    weights = sum(c.nbytes for c in problem.constants if nodes & set(c.consumers))
    return weights + max([footprint.always[p], *(footprint.beside[v][p] for v in nodes)])


def drawn(seed: int) -> tuple[Problem, Footprint, list[int]]:
    """A problem whose memory hardly suffices, and devices that take its nodes."""
    problem, random = tight_problem(seed, most_nodes=8), Random(seed)
    devices = [random.choice(np.flatnonzero(row).tolist()) for row in problem.supported]
    return problem, Footprint.of(problem), devices


@examples(quick=20, full=600)
@given(seeds)
def test_no_plan_holds_less_than_its_footprint(seed: int) -> None:
    problem = tight_problem(seed, most_nodes=3)
    footprint = Footprint.of(problem)
    for groups in every_plan(replace(problem, capacity_bytes=None)):
        plan = Plan(problem, "any", groups)
        peaks = excess(plan).peaks
        for p in range(len(problem.devices)):
            there = {v for v, q in enumerate(plan.assignment) if q == p}
            assert peaks[p] >= lies(problem, footprint, there, p)
        capacity = problem.capacity_bytes
        assert capacity is not None
        assert overfull(footprint, plan.assignment) == [
            max(
                0,
                lies(problem, footprint, {v for v, q in enumerate(plan.assignment) if q == p}, p)
                - c,
            )
            for p, c in enumerate(capacity)
        ]


@examples(quick=8, full=250)
@given(seeds)
def test_squeezing_ends_where_all_fits_and_never_makes_it_worse(seed: int) -> None:
    problem, _, devices = drawn(seed)
    groups = tuple(Group(problem.devices[p], (v,)) for v, p in enumerate(devices))
    before = excess(Plan(problem, "drawn", groups))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hetsim.placement.fitting.PLAYS", 60)
        moved, over = squeezed(problem, groups, seed)
        assert (moved, over) == squeezed(problem, groups, seed)
    assert over.total <= before.total
    assert over == excess(Plan(problem, "squeezed", moved))
    if before.total == 0:
        assert moved == groups


def test_squeezing_finds_the_cut_by_which_it_fits() -> None:
    # Both weights fit neither device with both tensors; apart, each has room for its own.
    problem = Problem.from_arrays(
        [[1.0, 2.0]] * 4,
        [(0, 1, 4), (2, 3, 4)],
        weight_bytes=[3] * 4,
        capacity_bytes=[11, 11],
        dispatch_s=0.5,
    )
    together = (Group("d0", (0, 1, 2, 3)),)
    assert excess(Plan(problem, "one", together)).total > 0
    moved, over = squeezed(problem, together)
    assert over.total == 0
    assert excess(Plan(problem, "two", moved)).total == 0


@examples(quick=6, full=100)
@given(seeds)
def test_of_what_fits_near_a_plan_the_quickest_is_taken(seed: int) -> None:
    problem, footprint, devices = drawn(seed)
    groups = tuple(Group(problem.devices[p], (v,)) for v, p in enumerate(devices))
    near = Plan(problem, "near", groups)
    found = [devices, relieved(footprint, devices), spilled(footprint, devices)]
    quickest = float("inf")
    for assignment in found:
        if assignment is None:
            continue
        layouts = [groups] if assignment == devices else []
        layouts += [made for _, made in groupings(problem, assignment, range(problem.n))]
        for made in layouts:
            over = excess(Plan(problem, "near", made))
            if over.total == 0:
                quickest = min(quickest, over.latency_s)
    try:
        plan = plan_that_fits(problem, (near,))
    except Infeasible:
        assert quickest == float("inf")
        return
    over = excess(plan)
    assert over.total == 0
    assert over.latency_s <= quickest
