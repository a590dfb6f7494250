"""Without gates, requests under load have the clock's times, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.problem.plan import Plan
from hetsim.simulation.clock.runs import run
from hetsim.simulation.clock.templates import laid_out, tasks_of_plan
from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.setup import Model, Outcomes, Source
from hetsim.simulation.simulate import simulate
from oracles.clock_plans import arrivals, dealt_plans
from oracles.random_layouts import Case, random_case
from sweeps import examples, sweep

CASES = 200
"""Seeds of a chunk; the 50 chunks are 10,000."""


def ungated(case: Case, pieces: int, machine_code: bool) -> Outcomes:
    """Every template a variant of a model with one instance that takes any number."""
    templates = len(case.layout.first) - 1
    model = Model(np.arange(templates).reshape(templates, 1, 1), (0,))
    engine = Serving(case.layout, case.duration, [model], [Source(0)], machine_code=machine_code)
    told = [
        engine.serve(arrival, np.zeros(len(arrival), dtype=np.int64), template)
        for arrival, template in zip(
            np.array_split(case.arrival, pieces), np.array_split(case.template, pieces), strict=True
        )
    ]
    found = Outcomes.joined([*told, engine.close()])
    assert engine.ran.tolist() == np.bincount(case.template, minlength=templates).tolist()
    assert engine.lengths.inside_s.sum() == pytest.approx(found.latency_s.sum(), rel=1e-6, abs=1e-6)
    return found


@sweep("chunk", quick=[0], full=range(50))
@pytest.mark.parametrize("machine_code", [False, True])
def test_the_same_bits(chunk: int, machine_code: bool) -> None:
    for seed in range(CASES * chunk, CASES * (chunk + 1)):
        case = random_case(seed)
        clock = run(*case, traced=True, machine_code=False)
        found = ungated(case, 1 + seed % 3, machine_code)
        assert found.finish_s.tobytes() == clock.finish.tobytes()
        assert found.arrival_s.tobytes() == found.sent_s.tobytes() == case.arrival.tobytes()
        starts = [
            clock.start[at:end].min(initial=np.inf) if end > at else came
            for at, end, came in zip(clock.entry_at, clock.entry_at[1:], case.arrival, strict=False)
        ]
        assert found.begun_s.tolist() == starts
        assert found.variant.tolist() == case.template.tolist()


@examples(quick=30, full=300)
@given(dealt_plans(), st.data())
def test_a_plan_as_simulate_plays_it(plan: Plan, data: st.DataObject) -> None:
    times = data.draw(arrivals())
    expected = simulate(plan, arrivals_s=times, trace=False)
    tasks = tasks_of_plan(plan, plan.problem.contention)
    replicas = len(tasks.templates)
    model = Model(
        np.arange(replicas).reshape(1, replicas, 1),
        (0,) * replicas,
        routing="round_robin",
        cycle=tuple(plan.deal),
    )
    duration = np.concatenate([one.duration for one in tasks.templates])
    engine = Serving(laid_out(tasks), duration, [model], [Source(0)], machine_code=False)
    arrival = np.array(times, dtype=np.float64)
    early = engine.serve(arrival, np.zeros(len(arrival), dtype=np.int64))
    found = Outcomes.joined([early, engine.close()])
    assert tuple(found.latency_s.tolist()) == expected.latencies_s
