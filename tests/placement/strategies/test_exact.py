"""Strategy exact: proofs against every order and assignment, and interrupts."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from full_problems import every_plan, full_problems
from hetsim.core import deadline
from hetsim.errors import Infeasible, OutOfMemory
from hetsim.placement.listing.list_schedule import Schedule
from hetsim.placement.strategies.exact import _laid_out, _reason, load_cp_model, solve_makespan
from hetsim.problem.coarse import uncoarsened
from hetsim.problem.groups import as_groups, order_groups
from hetsim.problem.parts import StoredConstant
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from oracles.every_plan import every_plan as every_order
from oracles.every_plan import tight_problem
from sweeps import examples, sweep

seeds = st.integers(0, 10**6)
INF = float("inf")


def drawn(seed: int) -> Problem:
    """Up to four nodes with a host, streams and weights; tensors take time, and no room."""
    rng = np.random.default_rng(seed)
    n, count = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    seconds = rng.integers(0, 12, (n, count)) / 4
    seconds[:, 1:][rng.random((n, count - 1)) < 0.2] = INF
    tensors: list[tuple[int, int, list[int]]] = [
        (u, 0, [v for v in range(u + 1, n) if rng.random() < 0.5]) for u in range(n)
    ]
    if rng.random() < 0.7:
        tensors.append((-1, 0, sorted({0, int(rng.integers(n))})))
    problem = Problem.from_arrays(
        seconds,
        tensors=tensors,
        latency_s=rng.integers(0, 8, (count, count)) / 4,
        streams=rng.integers(1, 3, count).tolist(),
        host=0 if rng.random() < 0.7 else None,
        contention="none",
    )
    if rng.random() < 0.6:
        constants = tuple(
            StoredConstant(
                f"w{v}", int(rng.integers(1, 9)), tuple(sorted({v, int(rng.integers(n))}))
            )
            for v in range(n)
        )
        total = sum(c.nbytes for c in constants)
        room = (total, *(int(rng.integers(0, total + 1)) for _ in range(count - 1)))
        problem = replace(problem, constants=constants, capacity_bytes=room)
    return problem


def every_assignment(problem: Problem) -> dict[tuple[int, ...], float]:
    """The least latency by assignment, each node a subgraph, in any order."""
    found: dict[tuple[int, ...], float] = {}
    able = [np.flatnonzero(row).tolist() for row in problem.supported]
    for order in itertools.permutations(range(problem.n)):
        ranks = [float(order.index(v)) for v in range(problem.n)]
        parts = order_groups(problem.dag, range(problem.n), ranks)
        assert parts is not None
        if [nodes[0] for nodes in parts] != list(order):
            continue
        for assignment in itertools.product(*able):
            plan = Plan(problem, "any", as_groups(parts, assignment, problem.devices))
            try:
                latency_s = hetsim.simulate(plan, trace=False).latency_s
            except Infeasible:
                continue
            found[assignment] = min(found.get(assignment, INF), latency_s)
    return found


@examples(quick=5, full=150)
@given(seeds)
def test_the_least_of_all_orders_and_assignments_is_found_and_proven(seed: int) -> None:
    problem = drawn(seed)
    known = every_assignment(problem)
    least = min(known.values())
    horizon_s = max(least, 0.25) * 2
    proof = solve_makespan(problem, horizon_s, None, 0.0, 60.0)
    assert proof.optimal
    assert not proof.infeasible
    assert proof.bound_s == pytest.approx(least)
    made = proof.schedule
    assert made is not None
    # A hint, and a bound that is known, change nothing of what is proven.
    hint = Schedule(made.assignment, made.start_s, made.end_s)
    again = solve_makespan(problem, max(least, 0.25), hint, least, 60.0)
    assert again.bound_s == pytest.approx(least)
    for v, p in enumerate(made.assignment):
        assert made.end_s[v] == pytest.approx(made.start_s[v] + problem.seconds[v, p])
    # Forbidden one after another, each assignment makes way for the next best.
    forbidden: list[tuple[int, ...]] = []
    for _ in range(3):
        left = {a: s for a, s in known.items() if a not in forbidden}
        proof = solve_makespan(problem, 100.0, None, 0.0, 60.0, (), forbidden)
        if not left:
            assert proof.infeasible
            assert proof.schedule is None
            break
        assert proof.schedule is not None
        assert proof.schedule.assignment not in forbidden
        assert proof.bound_s == pytest.approx(min(left.values()))
        forbidden.append(proof.schedule.assignment)


@examples(quick=4, full=100)
@given(full_problems(max_nodes=4))
def test_no_plan_of_any_kind_is_below_what_is_proven(problem: Problem) -> None:
    if not problem.supported.any(axis=1).all():
        return
    problem = replace(problem, fused=(), staging=None)
    latencies = [hetsim.simulate(plan, trace=False).latency_s for plan in every_plan(problem)]
    proof = solve_makespan(problem, min(latencies), None, 0.0, 60.0)
    assert not proof.infeasible
    assert proof.bound_s <= min(latencies) * (1 + 1e-9)


def test_reasons_say_what_is_proven_of_whom() -> None:
    assert _reason(2.0, 2.0, 1.0, None) == "proven optimal"
    assert _reason(2.0, 2.0, 1.0, 7) == "proven optimal among plans that keep 7 tasks whole"
    assert _reason(2.0, 2.0, 1.0, 1) == "proven optimal among plans that keep 1 task whole"
    rounded = _reason(2.0001, 2.0, 1.0, None)
    assert rounded == "proven optimal, except for rounding to the solver's clock (1e-04)"
    assert _reason(2.0, 1.6, 1.0, None) == "optimality gap at most 25.0%"
    told = _reason(2.0, 1.6, 1.25, 7)
    whole = "optimality gap at most 25.0% among plans that keep 7 tasks whole"
    assert told == f"{whole}, and at most 60.0% above any plan"
    assert _reason(2.0, 1.6, 0.0, 7) == whole
    assert _reason(2.0, 0.0, 0.0, None) == "nothing proven"


@sweep("seed", quick=range(2), full=range(60))
def test_what_is_proven_is_so_where_memory_is_tight(seed: int) -> None:
    problem = tight_problem(seed, most_nodes=4)
    free = (0.0,) * len(problem.devices)
    problem = replace(problem, contention="none", dispatch_s=free)
    least = float("inf")
    for groups in every_order(problem):
        try:
            latency_s = hetsim.simulate(Plan(problem, "any", groups), trace=False).latency_s
        except Infeasible:
            continue
        least = min(least, latency_s)
    try:
        plan = hetsim.plan(problem, "exact")
    except OutOfMemory:
        assert least == float("inf")
        return
    cost_s = hetsim.simulate(plan).latency_s
    if plan.reason == "proven optimal":
        assert cost_s == pytest.approx(least)
    elif plan.reason.startswith("at most"):
        stated = plan.reason.partition("at most ")[2].partition("%")[0]
        assert cost_s <= least * (1 + float(stated) / 100 + 0.0006)


def test_a_second_is_enough_for_what_is_small_once_the_solver_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load_cp_model()
    # Steps take no time, however busy the machine is.
    monkeypatch.setattr(deadline, "now_s", lambda: 0.0)
    problem = Problem.from_arrays([[3.0, 1.0], [1.0, 3.0]], [(0, 1, 1)], bytes_per_s=1.0)
    plan = hetsim.plan(problem, "exact", time_limit_s=0.9)
    assert plan.reason == "proven optimal"
    assert hetsim.simulate(plan).latency_s == 3.0


def test_an_assignment_is_laid_out_in_every_way() -> None:
    # In one subgraph all three tensors lie there at once; cut, two of them.
    problem = Problem.from_arrays(
        [[1.0, 1.0]] * 3,
        [(0, 1, 4), (1, 2, 4)],
        weight_bytes=[1] * 3,
        capacity_bytes=[11, 99],
    )
    found = _laid_out(uncoarsened(problem), (0, 0, 0))
    assert found.groups is not None
    assert Plan(problem, "found", found.groups).assignment == (0, 0, 0)
    tight = replace(problem, capacity_bytes=(10, 99))
    found = _laid_out(uncoarsened(tight), (0, 0, 0))
    assert found.complete
    assert found.groups is None
    assert _laid_out(uncoarsened(tight), (1, 1, 1)).groups is not None


pytest.importorskip("ortools", reason="needs the extra 'exact'")

SCRIPT = """
import os, signal, sys, threading
import numpy as np
from ortools.sat.python import cp_model
import hetsim

signal.signal(signal.SIGINT, signal.default_int_handler)
rng = np.random.default_rng(0)
n, during = int(sys.argv[1]), sys.argv[2] == "during"
problem = hetsim.Problem.from_arrays(
    rng.integers(1, 99, (n, 4)).astype(float),
    edges=[(u, v, 8) for v in range(1, n) for u in rng.choice(v, min(v, 2), replace=False)],
    bytes_per_s=1.0,
)
solve = cp_model.CpSolver.solve

def interrupted(*words):
    # Soon after it began, however long it took to come there.
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    return solve(*words)

if during:
    cp_model.CpSolver.solve = interrupted
try:
    hetsim.plan(problem, "exact", time_limit_s=3600.0)
    print("planned", flush=True)
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.sweep
@sweep("n, when", quick=[(50, "during")], full=[(4, "after"), (50, "during")])
def test_an_interrupt_is_an_exception(n: int, when: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(n), when],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == ("planned\n" if when == "after" else "") + "interrupted\n"
