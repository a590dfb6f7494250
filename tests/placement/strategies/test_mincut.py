"""``mincut`` is exact on two devices, and never worse than a device alone on more."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import hetsim
from hetsim.errors import OutOfMemory, UsageError
from hetsim.partitioning.minimum_cut import least_serial, serial_latency
from hetsim.placement.footprint import GAP, Footprint, least_total
from hetsim.problem.parts import StoredConstant
from hetsim.problem.problem import Problem
from sweeps import sweep
from throughput_problems import serial_problem


def every_assignment(problem: Problem) -> list[tuple[int, ...]]:
    return list(itertools.product(range(len(problem.devices)), repeat=problem.n))


def every_total(problem: Problem) -> list[float]:
    """The serial latency of every assignment, counted from the records alone."""
    found = []
    for assignment in every_assignment(problem):
        total = sum(float(problem.seconds[v, p]) for v, p in enumerate(assignment))
        for value in problem.values:
            source = problem.host if value.producer < 0 else assignment[value.producer]
            if source is None:
                continue
            targets = {assignment[v] for v in value.consumers}
            if value.is_output and problem.host is not None:
                targets.add(problem.host)
            for target in targets - {source}:
                total += problem.routes[source][target].seconds(value.nbytes)
                if problem.staging is not None:
                    total += value.nbytes * problem.staging.store_s_per_byte[source]
                    total += value.nbytes * problem.staging.fetch_s_per_byte[target]
        found.append(total)
    return found


@sweep("count", quick=[100], full=[100, 500])
def test_two_devices_equal_brute_force(count: int) -> None:
    rng = np.random.default_rng(20260)
    for number in range(count):
        problem = serial_problem(rng, 2, 12 if number % 10 == 0 else 8)
        best = min(every_total(problem))
        assert serial_latency(problem, least_serial(problem)) == best


@sweep("seed", quick=range(0, 60, 4), full=range(60))
def test_memory_is_kept_at_the_least_total_within_the_gap(seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = serial_problem(rng, 2, 6)
    nodes = range(drawn.n)
    constants = tuple(
        StoredConstant(
            f"w{k}", int(rng.integers(0, 99)), tuple(v for v in nodes if rng.random() < 0.4)
        )
        for k in range(4)
    )
    total = sum(constant.nbytes for constant in constants)
    room = [*rng.integers(total // 3, total + 1, 2).tolist()]
    problem = replace(drawn, constants=constants, capacity_bytes=tuple(room))
    footprint = Footprint.of(problem)
    fitting = [
        serial_s
        for serial_s, assignment in zip(
            every_total(problem), every_assignment(problem), strict=True
        )
        if serial_s < np.inf
        and all(footprint.beside[v][p] <= room[p] for v, p in enumerate(assignment))
        and all(
            sum(w.nbytes for w in constants if any(assignment[v] == p for v in w.consumers))
            <= room[p]
            for p in range(2)
        )
    ]
    try:
        found = least_total(problem, footprint, problem.runnable)
    except OutOfMemory:
        assert not fitting
        return
    assert found is not None
    assert min(fitting) <= serial_latency(problem, found) <= min(fitting) * (1.0 + GAP) + 1e-9
    assert serial_latency(problem, found) in fitting


def test_half_of_a_model_leaves_its_fastest_device_for_the_next_one() -> None:
    """On a CPU sixty times as slow, what a list schedule puts there takes nearly all the time."""
    problem = Problem.from_arrays(
        [[60.0, 1.0, 1.5]] * 12,
        [(v, v + 1, 1) for v in range(11)],
        devices=("cpu", "gpu", "npu"),
        weight_bytes=[10] * 12,
        capacity_bytes=[200, 75, 75],
        dispatch_s=0.1,
    )
    plan = hetsim.plan(problem, "mincut")
    assert len(plan.groups) == 2
    assert plan.devices_used == ("gpu", "npu")
    assert hetsim.simulate(plan).latency_s < 16.0
    assert hetsim.simulate(hetsim.plan(problem, "local-search")).latency_s < 16.0


def test_expansion_on_three_devices_is_near_the_best_and_below_every_start() -> None:
    rng = np.random.default_rng(7)
    ratios = []
    for _ in range(40):
        problem = serial_problem(rng, 3, 6)
        totals = every_total(problem)
        reached = serial_latency(problem, least_serial(problem))
        assert reached in totals
        alone = [serial_latency(problem, [p] * problem.n) for p in range(3)]
        assert reached <= min(alone)
        ratios.append(reached / min(totals) if min(totals) > 0 else 1.0)
    assert np.mean(ratios) <= 1.02
    assert max(ratios) <= 1.5


def test_rounds_must_be_one_or_more() -> None:
    with pytest.raises(UsageError, match="0 rounds"):
        hetsim.plan(Problem.from_arrays([[1.0, 2.0]]), "mincut", rounds=0)
