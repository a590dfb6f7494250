"""Plans tried one after another take what the clock says, bit for bit, by either way."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from builders import problems
from hetsim.placement.objective import latency_of, latency_of_groups
from hetsim.problem.groups import Group, as_groups
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.simulation.clock import one_request as module
from hetsim.simulation.clock.one_request import one_request
from hetsim.simulation.clock.runs import play
from hetsim.simulation.clock.templates import laid_out, tasks_of_plan
from oracles.clock_plans import plans
from sweeps import examples


def _plan(problem: Problem, rng: random.Random) -> Plan:
    """Runs of an order drawn, on devices drawn."""
    groups: list[tuple[int, list[int]]] = []
    for v in range(problem.n):
        device = rng.choice(np.flatnonzero(problem.supported[v]).tolist())
        if not groups or groups[-1][0] != device or rng.random() < 0.3:
            groups.append((device, []))
        groups[-1][1].append(v)
    device_of = {nodes[0]: device for device, nodes in groups}
    found = as_groups(
        [tuple(nodes) for _, nodes in groups],
        [device_of.get(v, 0) for v in range(problem.n)],
        problem.devices,
    )
    return Plan(problem, "drawn", found)


@examples(quick=20, full=400)
@given(problems(max_nodes=12), st.integers(0, 10**6), st.booleans(), st.integers(1, 2))
def test_what_is_laid_out_is_what_the_clock_lays_out(
    problem: Problem, seed: int, given_host: bool, width: int
) -> None:
    problem = replace(
        problem,
        streams=tuple(width for _ in problem.devices),
        host=0 if given_host else None,
    )
    same(_plan(problem, random.Random(seed)))


@examples(quick=15, full=400)
@given(plans())
def test_the_same_wherever_the_host_is(plan: Plan) -> None:
    """And with routes over shared links, values of no bytes, and outputs that are read."""
    same(plan)


def same(plan: Plan) -> None:
    problem = plan.problem
    tasks = tasks_of_plan(plan, problem.contention)
    simulator = one_request(problem)
    owner, device = simulator.placed(plan.groups)
    seconds = simulator.seconds_of_owned(problem, owner, device)
    structure, duration = simulator.laid_out(owner, device, seconds)
    for name, part in laid_out(tasks).structure._asdict().items():
        assert list(getattr(structure, name)) == list(part), name
    assert duration.tolist() == tasks.templates[0].duration.tolist()
    finish = play(tasks, np.zeros(1), traced=False).finish[0]
    assert latency_of(plan) == latency_of_groups(problem, plan.groups, "drawn") == finish


def test_links_of_a_platform_and_kernels_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Routes over several links, buses, staging and fused kernels; and by machine code."""
    model = hetsim.load_model("zoo:squeezenet")
    for name in ("laptop", "two-hosts", "gpu-server-8"):
        problem = hetsim.Problem.of(model, hetsim.load_platform(name))
        for seed in range(3):
            plan = _plan(problem, random.Random(seed))
            finish = play(tasks_of_plan(plan, problem.contention), np.zeros(1), traced=False)
            assert latency_of_groups(problem, plan.groups, "drawn") == finish.finish[0]
            with monkeypatch.context() as patch:
                patch.setattr(module, "pays", lambda _: True)
                assert latency_of_groups(problem, plan.groups, "drawn") == finish.finish[0]


def test_composites_count_whole_and_their_parts_are_refused() -> None:
    seconds = np.full((4, 2), 1.0)
    seconds[1:3, 1] = np.inf
    problem = hetsim.Problem.from_arrays(
        seconds, edges=[(0, 1, 1), (1, 2, 1), (2, 3, 1)], composites=[(1, [1, 2], 0.25)]
    )
    whole = (Group("d0", (0,)), Group("d1", (1, 2)), Group("d0", (3,)))
    assert latency_of_groups(problem, whole, "drawn") == pytest.approx(2.25)
    half = (Group("d0", (0,)), Group("d1", (1,)), Group("d0", (2, 3)))
    with pytest.raises(hetsim.errors.UnsupportedNode):
        latency_of_groups(problem, half, "drawn")


def test_a_value_without_a_route_is_refused() -> None:
    joined = hetsim.Problem.from_arrays(np.ones((2, 2)), edges=[(0, 1, 1)])
    routes = tuple(
        tuple(replace(route, latency_s=np.inf) for route in row) for row in joined.routes
    )
    with pytest.raises(hetsim.errors.NoRoute):
        latency_of_groups(
            replace(joined, routes=routes), (Group("d0", (0,)), Group("d1", (1,))), "drawn"
        )
