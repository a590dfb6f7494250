"""No plan is below the bounds, whatever the problem has in it, and they are not far below."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hetsim
from builders import CASES, dags
from hetsim.errors import Infeasible, UsageError
from hetsim.partitioning.groups import as_groups, order_groups
from hetsim.placement.bounds.lower_bound import area_bound, critical_path_bound, lower_bound
from hetsim.placement.bounds.paths import Setting, heads, tails
from hetsim.placement.objective import measure
from hetsim.plans.plan import Plan
from hetsim.problem.parts import FusedKernel, Staging
from hetsim.problem.problem import Problem


@st.composite
def full_problems(draw: st.DrawFn, max_nodes: int = 5, max_devices: int = 2) -> Problem:
    """Dispatch, streams, host transfers, staging, fused kernels and composites, all at once."""
    dag = draw(dags(max_nodes))
    count = draw(st.integers(1, max_devices))
    eighths = st.integers(0, 24).map(lambda k: k / 8)
    seconds = np.array([[draw(eighths) for _ in range(count)] for _ in range(dag.n)])
    for v, p in itertools.product(range(dag.n), range(1, count)):
        if draw(st.integers(0, 4)) == 0:
            seconds[v, p] = np.inf
    tensors: list[tuple[int, int, tuple[int, ...]]] = [
        (u, draw(st.integers(0, 16)), dag.succs[u]) for u in range(dag.n)
    ]
    sources = tuple(v for v in range(dag.n) if not dag.preds[v])
    tensors.append((-1, draw(st.integers(0, 16)), sources))
    rates = st.tuples(*[st.sampled_from([0.0, 0.125]) for _ in range(count)])
    problem = Problem.from_arrays(
        seconds,
        tensors=tensors,
        latency_s=draw(eighths),
        bytes_per_s=draw(st.sampled_from([1.0, 4.0, 16.0])),
        dispatch_s=[draw(eighths) for _ in range(count)],
        streams=[draw(st.integers(1, 2)) for _ in range(count)],
        host=draw(st.sampled_from([None, 0])),
        contention=draw(st.sampled_from(["none", "fifo"])),
        staging=draw(st.none() | st.builds(Staging, rates, rates)),
    )
    # Two neighbours with nothing between them may run as one kernel, even where one may not.
    fused: list[FusedKernel] = []
    for p in range(count):
        taken: set[int] = set()
        for u in range(dag.n):
            if len(dag.succs[u]) == 1 and not {u, dag.succs[u][0]} & taken and draw(st.booleans()):
                nodes = (u, dag.succs[u][0])
                taken.update(nodes)
                fused.append(
                    FusedKernel(p, nodes, draw(eighths), draw(st.sampled_from(["", "ab"])))
                )
    return replace(problem, fused=tuple(fused))


def every_plan(problem: Problem) -> list[Plan]:
    """Every assignment in four groupings, where a device can run it."""
    found = []
    choices = [np.flatnonzero(row).tolist() for row in problem.runnable]
    for assignment in itertools.product(*choices):
        kernel_of = list(range(problem.n))
        for kernel in problem.fused:
            if all(assignment[v] == kernel.device for v in kernel.nodes):
                for v in kernel.nodes:
                    kernel_of[v] = kernel_of[kernel.nodes[0]]
        whole = [problem.n + p for p in assignment]
        levels: list[int] = []
        for v in range(problem.n):
            levels.append(
                max(
                    (levels[u] + (assignment[u] != assignment[v]) for u in problem.dag.preds[v]),
                    default=0,
                )
            )
        staged = [
            level * len(problem.devices) + p for level, p in zip(levels, assignment, strict=True)
        ]
        for labels in (list(range(problem.n)), kernel_of, whole, staged):
            parts = order_groups(problem.dag, labels)
            if parts is not None:
                found.append(Plan(problem, "any", as_groups(parts, assignment, problem.devices)))
    return found


@settings(max_examples=120, deadline=None)
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


@settings(max_examples=60, deadline=None)
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
