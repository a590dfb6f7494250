"""No plan is below the bounds, whatever the problem has in it, and they are not far below."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from builders import CASES
from full_problems import every_plan, full_problems
from hetsim.errors import Infeasible, UsageError
from hetsim.placement.bounds.lower_bound import area_bound, critical_path_bound, lower_bound
from hetsim.placement.bounds.paths import Setting, heads, tails
from hetsim.placement.objective import measure
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from sweeps import examples


@examples(quick=30, full=120)
@examples(quick=30, full=120)
@given(full_problems())
def test_no_plan_there_is_goes_below_the_bounds(problem: Problem) -> None:
    latency, throughput = lower_bound(problem), lower_bound(problem, "throughput")
    assert max(critical_path_bound(problem), area_bound(problem)) * (1 - 1e-9) <= latency
    for plan in every_plan(problem):
        try:
            timeline = hetsim.simulate(plan)
        except Infeasible:
            continue
        assert latency <= timeline.latency_s
        assert throughput <= measure(plan, "throughput")


@examples(quick=15, full=60)
@given(full_problems(max_nodes=12, max_devices=3), st.randoms(use_true_random=False))
def test_random_plans_of_larger_problems_stay_above(problem: Problem, random: object) -> None:
    latency, throughput = lower_bound(problem), lower_bound(problem, "throughput")
    for _ in range(5):
        assignment = [
            random.choice(np.flatnonzero(row).tolist())  # type: ignore[attr-defined]
            for row in problem.supported
            if row.any()
        ]
        if len(assignment) < problem.n:
            return
        plan = Plan(problem, "any", hetsim.partition(problem, assignment=assignment).groups)
        assert latency <= hetsim.simulate(plan).latency_s
        assert throughput <= measure(plan, "throughput")


def random20() -> list[dict[str, object]]:
    folder = CASES / "placement" / "random20"
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def test_proven_optima() -> None:
    ratios = []
    for record in random20():
        problem = Problem.from_arrays(
            np.array(record["nodes"], dtype=float),
            edges=[tuple(edge) for edge in record["edges"]],  # type: ignore[attr-defined]
            latency_s=record["latency"],  # type: ignore[arg-type]
            bytes_per_s=record["bandwidth"],  # type: ignore[arg-type]
        )
        optimum = record["reference"]["optimum"]  # type: ignore[index]
        bound = lower_bound(problem)
        assert bound <= optimum
        ratios.append(bound / optimum)
    assert len(ratios) == 27
    assert np.mean(ratios) >= 0.84


def test_join_rule_counts_what_one_device_must_do_alone() -> None:
    # Two producers of 4 s each, far from every other device: 8 s on one of them before the join,
    # or 4 s and a transfer of 3 s.
    problem = Problem.from_arrays(
        [[4.0, 4.0], [4.0, 4.0], [1.0, 1.0]],
        tensors=[(0, 3, (2,)), (1, 3, (2,))],
        bytes_per_s=1.0,
    )
    setting = Setting.of(problem)
    assert heads(setting, setting.shares)[2].tolist() == [7.0, 7.0]
    assert critical_path_bound(problem) == 8.0
    dear = replace(problem, values=tuple(replace(value, nbytes=30) for value in problem.values))
    assert critical_path_bound(dear) == 9.0
    # The mirror image: a fork.
    fork = Problem.from_arrays(
        [[1.0, 1.0], [4.0, 4.0], [4.0, 4.0]], tensors=[(0, 30, (1, 2))], bytes_per_s=1.0
    )
    setting = Setting.of(fork)
    assert tails(setting, setting.shares)[0].tolist() == [8.0, 8.0]


def test_streams_of_one_device_share_what_comes_before_a_join() -> None:
    # Two producers of 4 s side by side on two streams, then 1 s; and the mirror image, a fork.
    for seconds, edges in (
        ([[4.0], [4.0], [1.0]], [(0, 2, 0), (1, 2, 0)]),
        ([[1.0], [4.0], [4.0]], [(0, 1, 0), (0, 2, 0)]),
    ):
        problem = Problem.from_arrays(seconds, edges, streams=[2])
        least = min(hetsim.simulate(plan).latency_s for plan in every_plan(problem))
        assert critical_path_bound(problem) == least == 5.0
        assert lower_bound(problem) <= 5.0
    # Three producers on two streams: 12 s of work take 6 s at the least.
    join = Problem.from_arrays([[4.0]] * 3 + [[1.0]], [(v, 3, 0) for v in range(3)], streams=[2])
    setting = Setting.of(join)
    assert heads(setting, setting.shares)[3].tolist() == [6.0]


def test_windows_see_what_neither_path_nor_area_sees() -> None:
    # Ten tasks of 1 s between a first and a last of 10 s that only one device runs fast.
    seconds = [[10.0, 100.0]] + [[1.0, 1.0]] * 10 + [[10.0, 100.0]]
    edges = [(0, v, 0) for v in range(1, 11)] + [(v, 11, 0) for v in range(1, 11)]
    problem = Problem.from_arrays(seconds, edges=edges)
    assert area_bound(problem) == pytest.approx(20.0, rel=0.3)
    assert critical_path_bound(problem) <= 22.0
    assert 24.9 <= lower_bound(problem) <= 25.0


def test_throughput_bound_is_the_balanced_load() -> None:
    assert lower_bound(Problem.from_arrays(np.ones((12, 3))), "throughput") == pytest.approx(4.0)


def test_edges_of_the_definition() -> None:
    assert lower_bound(Problem.from_arrays(np.zeros((0, 2)))) == 0.0
    assert lower_bound(Problem.from_arrays(np.zeros((3, 2)))) == 0.0
    assert lower_bound(Problem.from_arrays([[np.inf, np.inf]])) == np.inf
    with pytest.raises(UsageError, match="did you mean 'latency'"):
        lower_bound(Problem.from_arrays([[1.0]]), "latencies")  # type: ignore[arg-type]
