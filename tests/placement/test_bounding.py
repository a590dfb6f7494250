"""A bound under constraints is below every plan that obeys them, and not below that without."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from full_problems import every_plan, full_problems
from hetsim.errors import Infeasible, UnsupportedNode
from hetsim.partitioning.affinity.affinity import Exclusion
from hetsim.placement.bounds.lower_bound import bound_of, lower_bound, path_bound_of, quick_bound_of
from hetsim.placement.constraints import Constrained, without_devices
from hetsim.placement.objective import measure
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from oracles.every_plan import every_plan as every_order
from oracles.every_plan import tight_problem
from sweeps import examples


@st.composite
def constraints(draw: st.DrawFn, problem: Problem) -> Constrained:
    nodes, devices = st.sampled_from(problem.node_names), st.sampled_from(problem.devices)
    pins: dict[str, str] = {}
    exclude: list[Exclusion] = []
    if problem.n:
        for node in draw(st.lists(nodes, max_size=2, unique=True)):
            pins[node] = draw(devices)
        spared = draw(st.lists(nodes, max_size=2, unique=True))
        exclude += [Exclusion(draw(devices), nodes=(node,)) for node in spared]
    most = draw(st.none() | st.integers(1, 3))
    return Constrained(pins, tuple(exclude), most)


def obeys(plan: Plan, limits: Constrained) -> bool:
    problem = plan.problem
    on = {problem.node_names[v]: problem.devices[p] for v, p in enumerate(plan.assignment)}
    few = limits.max_devices is None or len(plan.devices_used) <= limits.max_devices
    return (
        few
        and all(on[node] == device for node, device in limits.pins.items())
        and not any(
            on[node] == wish.device and limits.pins.get(node) != wish.device
            for wish in limits.exclude
            for node in wish.nodes
        )
    )


@examples(quick=30, full=150)
@given(full_problems(max_devices=3, max_nodes=5))
def test_a_plan_that_is_known_changes_no_bound(problem: Problem) -> None:
    known = []
    for plan in every_plan(problem):
        with suppress(Infeasible):
            known.append(measure(plan, "latency"))
    bound_s = bound_of(problem)
    if known:
        assert bound_of(problem, met_s=min(known)) == bound_s
        assert bound_of(problem, met_s=max(known)) == bound_s
    assert path_bound_of(problem) <= bound_s


@examples(quick=20, full=50)
@given(st.data())
def test_no_plan_that_obeys_goes_below(data: st.DataObject) -> None:
    problem = data.draw(full_problems(max_devices=3, max_nodes=4))
    limits = data.draw(constraints(problem))
    for objective in ("latency", "throughput"):
        try:
            bound = lower_bound(problem, objective, **limits.given())
        except UnsupportedNode:
            bound = np.inf
        assert bound >= lower_bound(problem, objective)
        for plan in every_plan(problem):
            if not obeys(plan, limits):
                continue
            try:
                assert bound <= measure(plan, objective)
            except Infeasible:
                continue


@pytest.mark.parametrize("seed", range(40))
def test_no_plan_that_fits_goes_below_the_bounds_with_memory(seed: int) -> None:
    problem = tight_problem(seed, most_nodes=4)
    latency, throughput = lower_bound(problem), lower_bound(problem, "throughput")
    ample = replace(problem, capacity_bytes=None)
    given = dict(zip(problem.devices, problem.capacity_bytes or (), strict=True))
    assert lower_bound(ample, capacity_bytes=given) == latency >= lower_bound(ample)
    assert throughput >= lower_bound(ample, "throughput")
    assert quick_bound_of(problem, "latency") <= latency
    for groups in every_order(problem):
        plan = Plan(problem, "any", groups)
        try:
            cost_s = measure(plan, "latency")
        except Infeasible:
            continue
        assert latency <= cost_s
        assert throughput <= measure(plan, "throughput")


def sharing(**more: object) -> Problem:
    """Four nodes side by side that take 1 s on the quick device and 4 s on the other."""
    return Problem.from_arrays(
        np.array([[4.0, 1.0]] * 4), devices=("cpu", "gpu"), weight_bytes=[10] * 4, **more
    )


def test_memory_divides_the_work() -> None:
    roomy = sharing(capacity_bytes=[100, 100])
    assert 16 / 5 <= lower_bound(roomy) <= 4.0
    # Two of the four fit the gpu: the cpu has the others, one after another.
    tight = sharing(capacity_bytes=[100, 20])
    assert lower_bound(tight) == pytest.approx(8.0)
    assert lower_bound(roomy, capacity_bytes={"gpu": 20}) == pytest.approx(8.0)
    assert lower_bound(tight, capacity_bytes={"gpu": 100}) == lower_bound(roomy)
    assert lower_bound(tight, "throughput") == pytest.approx(8.0)
    # Nothing fits the gpu, and then nothing fits anywhere.
    assert lower_bound(roomy, capacity_bytes={"gpu": 9}) == pytest.approx(16.0)
    assert lower_bound(roomy, capacity_bytes={"gpu": 9, "cpu": 39}) == np.inf
    assert lower_bound(roomy, capacity_bytes={"gpu": 9, "cpu": 9}) == np.inf


def test_pins_exclusions_and_numbers_of_devices_are_felt() -> None:
    problem = sharing()
    names = problem.node_names
    assert lower_bound(problem, pins={names[0]: "cpu", names[1]: "cpu"}) == pytest.approx(8.0)
    assert lower_bound(problem, exclude=[Exclusion("gpu", nodes=names)]) == pytest.approx(16.0)
    assert lower_bound(problem, max_devices=1) == pytest.approx(4.0)
    assert lower_bound(problem, max_devices=2) == lower_bound(problem)
    both = lower_bound(problem, max_devices=1, pins={names[0]: "cpu"})
    assert both == pytest.approx(16.0)
    apart = {names[0]: "cpu", names[1]: "gpu"}
    assert lower_bound(problem, max_devices=1, pins=apart) == np.inf


def test_alike_devices_are_weighed_once() -> None:
    count = 5
    rng = np.random.default_rng(0)
    own = rng.integers(1, 9, size=(6, 1)).astype(float)
    seconds = np.hstack([own * 3, np.repeat(own, count - 1, axis=1)])
    edges = [(0, 3, 4), (1, 3, 4), (2, 4, 4), (3, 5, 4)]
    problem = Problem.from_arrays(seconds, edges, latency_s=0.5, bytes_per_s=8.0, host=0)
    for most in (1, 2, 3):
        # Of all choices the least: without a look at which of them are the same.
        least = min(
            bound_of(without_devices(problem, tuple(set(range(count)) - set(chosen))))
            for chosen in combinations(range(count), most)
        )
        assert lower_bound(problem, max_devices=most) == max(least, lower_bound(problem))


def test_too_many_choices_are_left_out_of_account() -> None:
    rng = np.random.default_rng(1)
    problem = Problem.from_arrays(rng.integers(1, 9, size=(4, 12)).astype(float))
    assert lower_bound(problem, max_devices=6) == lower_bound(problem)


def test_compare_and_explain_state_the_bound_of_what_is_asked() -> None:
    problem = Problem.from_arrays(
        np.array([[4.0, 1.0, 2.0]] * 6), devices=("cpu", "gpu", "npu"), host=0
    )
    asked = {"max_devices": 1, "pins": {"n0": "npu"}}
    found = hetsim.compare(problem, ["heft", "auto"], **asked)
    assert found.bound_s == lower_bound(problem, **asked) > lower_bound(problem)
    assert all(row.gap is None or row.gap >= 0 for row in found.rows)
    plan = found.rows[0].plan
    assert plan is not None
    assert hetsim.explain(plan).bound_s == found.bound_s
