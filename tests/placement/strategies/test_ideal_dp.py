"""``ideal-dp`` gives the published optima, and what brute force finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from hetsim.errors import UsageError
from hetsim.placement.objective import max_load
from hetsim.placement.strategies.ideal_dp import IdealDp
from hetsim.placement.throughput.costs import costs_of
from hetsim.placement.throughput.stage_moves import StageLayout
from hetsim.problem.parts import Staging
from hetsim.problem.problem import Problem
from sweeps import examples, sweep
from tarnawski import paper_max_load, read
from throughput_problems import kind_of, least_contiguous, small, stage_load

INF = float("inf")
seeds = st.integers(0, 10**6)

PUBLISHED = {
    "throughput-layer-bert24_inference": 17.790,
    "throughput-layer-gnmt_inference": 32.911,
    "throughput-layer-resnet50_inference": 33.775,
    "throughput-op-bert_l-3_inference": 27.919,
}


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
    kinds = kind_of(costs)
    assert sorted(v for nodes, _ in stages for v in nodes) == list(range(costs.n))
    assert len({p for _, p in stages}) == len(stages)
    met = max(stage_load(costs, kinds[p], set(nodes)) for nodes, p in stages)
    assert met == pytest.approx(least)
    # What is known already is not looked for: nothing below it, nothing to show.
    known = StageLayout((), (), least * (1 - 1e-6))
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
