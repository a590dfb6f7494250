"""``ideal-dp`` gives the published optima, and what brute force finds."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from hetsim.errors import Infeasible, UsageError
from hetsim.placement.objective import bottleneck, max_load
from hetsim.placement.strategies.ideal_dp import IdealDp, _search, ideals
from hetsim.placement.throughput.costs import Costs, costs_of
from hetsim.placement.throughput.stage_moves import Layout
from hetsim.problem.parts import Constant, Staging
from hetsim.problem.problem import Problem
from oracles.least_bottleneck import acyclic, busiest
from sweeps import examples, sweep
from tarnawski import paper_max_load, read
from throughput_problems import small, stage_load

INF = float("inf")
seeds = st.integers(0, 10**6)

PUBLISHED = {
    "throughput-layer-bert24_inference": 17.790,
    "throughput-layer-gnmt_inference": 32.911,
    "throughput-layer-resnet50_inference": 33.775,
    "throughput-op-bert_l-3_inference": 27.919,
}


def least_contiguous(costs: Costs) -> float:
    """Of all assignments to devices that do not feed each other in a circle."""
    kinds = [kind for kind, devices in enumerate(costs.kinds) for _ in devices]
    found = INF
    for assignment in itertools.product(range(len(kinds)), repeat=costs.n):
        edges = {(assignment[u], assignment[v]) for u, v in costs.dag.edges()}
        left = set(assignment)
        while free := {p for p in left if not any(q == p != o and o in left for o, q in edges)}:
            left -= free
        if not left:
            sets = {p: {v for v, q in enumerate(assignment) if q == p} for p in set(assignment)}
            found = min(found, max(stage_load(costs, kinds[p], on) for p, on in sets.items()))
    return found


@pytest.mark.group("machine_code")
@examples(quick=20, full=200)
@given(seeds)
def test_the_ideals_give_the_least_of_all_contiguous_stages(seed: int) -> None:
    costs = costs_of(small(seed, 5))
    least = least_contiguous(costs)
    bound_s, stages, why = IdealDp()._dynamic(costs, None)
    assert why == ""
    if stages is None:
        assert least == bound_s == INF
        return
    assert bound_s == pytest.approx(least)
    kind_of = {p: k for k, devices in enumerate(costs.kinds) for p in devices}
    assert sorted(v for nodes, _ in stages for v in nodes) == list(range(costs.n))
    assert len({p for _, p in stages}) == len(stages)
    met = max(stage_load(costs, kind_of[p], set(nodes)) for nodes, p in stages)
    assert met == pytest.approx(least)
    # What is known already is not looked for: nothing below it, nothing to show.
    known = Layout((), (), least * (1 - 1e-6))
    if least > 0:
        assert IdealDp()._dynamic(costs, known)[:2] == (known.load_s, None)


@pytest.mark.group("machine_code")
@sweep("name", quick=list(PUBLISHED)[:2], full=PUBLISHED)
def test_published_optima(name: str) -> None:
    workload = read(name)
    plan = hetsim.plan(workload.problem, "ideal-dp", required=True)
    reached = paper_max_load(workload.record, workload.spread(plan.assignment))
    assert reached == pytest.approx(PUBLISHED[name], abs=1e-3)
    assert max_load(workload.problem, plan.assignment) == pytest.approx(reached, abs=1e-4)
    assert len(plan.groups) == len(plan.devices_used)
    assert hetsim.lower_bound(workload.problem, "throughput") <= reached


@sweep("seed", quick=range(0, 40, 5), full=range(40))
def test_with_a_host_and_shared_weights_it_equals_brute_force(seed: int) -> None:
    """Inputs, outputs, values that are both, and weights that several nodes read."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 6))
    tensors = [(-1, int(rng.integers(1, 5)), [int(v) for v in range(n) if rng.random() < 0.5])]
    tensors += [
        (u, int(rng.integers(1, 5)), [v for v in range(u + 1, n) if rng.random() < 0.4])
        for u in range(n)
    ]
    problem = Problem.from_arrays(
        rng.integers(0, 5, (n, 2))[:, [0, 0, 1]] / 4.0,
        tensors=[entry for entry in tensors if entry[0] >= 0 or entry[2]],
        weight_bytes=[0] * n,
        capacity_bytes=[4900, 4900, 7900],
        host=int(rng.integers(3)),
        dispatch_s=0.125,
        streams=[2, 2, 1],
        staging=Staging((0.25, 0.25, 0.0), (0.125, 0.125, 0.5)),
    )
    values = tuple(replace(v, is_output=v.is_output or rng.random() < 0.3) for v in problem.values)
    weights = tuple(
        Constant(f"c{k}", int(rng.integers(1, 4)) * 1000, readers)
        for k in range(3)
        if (readers := tuple(v for v in range(n) if rng.random() < 0.5))
    )
    problem = replace(problem, values=values, constants=weights)
    best = min(
        busiest(problem, assignment, range(3))
        for assignment in itertools.product(range(3), repeat=n)
        if acyclic(problem, assignment)
    )
    if best == float("inf"):
        with pytest.raises(Infeasible):
            hetsim.plan(problem, "ideal-dp")
        return
    # No search of moves or assignments lends a hand: the table of ideals alone.
    costs = costs_of(problem)
    lattice = ideals(costs.dag, 1000)
    assert lattice is not None
    _, least_s, stages = _search(costs, lattice, float("inf"), 10**6)
    assert least_s == best
    assert stages is not None
    owner = [device for v in range(n) for nodes, device in stages if v in nodes]
    assert busiest(problem, owner, range(3)) == best
    assert bottleneck(hetsim.plan(problem, "ideal-dp", required=True)) == best


@pytest.mark.group("machine_code")
def test_a_search_that_is_cut_short_says_so() -> None:
    # Thirteen nodes on three devices: five on one of them, where the area bound says 13 / 3.
    problem = Problem.from_arrays(
        np.ones((13, 3)), tensors=[(0, 1, range(1, 13))], staging=Staging((0.0,) * 3, (0.0,) * 3)
    )
    for options in ({"max_ideals": 10, "steps": 10}, {"budget": 10, "steps": 10}):
        plan = hetsim.plan(problem, "ideal-dp", **options)
        assert plan.reason.startswith("not proven least: at most 15.38% above")
        assert "; more than 10" in plan.reason
        assert max_load(problem, plan.assignment) == 5.0
        with pytest.raises(UsageError, match="more than 10"):
            hetsim.plan(problem, "ideal-dp", required=True, **options)
    for options in ({"max_ideals": 10}, {"steps": 10}):
        reason = hetsim.plan(problem, "ideal-dp", required=True, **options).reason
        assert reason == "least bottleneck of all contiguous stages"
