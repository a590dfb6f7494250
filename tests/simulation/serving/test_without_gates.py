"""Without gates, requests under load have the clock's times, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.plans.plan import Plan
from hetsim.simulation.clock.playing import laid_out, run
from hetsim.simulation.clock.templates import tasks_of_plan
from hetsim.simulation.orders import applies
from hetsim.simulation.recursion.playing import Recursion, Routing
from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.outcomes import Outcomes
from hetsim.simulation.serving.setup import Model, Source
from hetsim.simulation.serving.tables import EXPIRED
from hetsim.simulation.simulate import simulate
from oracles.clock_plans import arrivals, dealt_plans
from oracles.random_layouts import Case, Shape, layout_of, random_case
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


def servers(seed: int) -> Case:
    """Devices of one stream, each with a template of its own of one subgraph."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 6))
    layout = layout_of([Shape([k], [], [[]]) for k in range(count)], [1] * count, 0)
    duration = rng.integers(1, 5, count) / rng.choice([1.0, 3.0])
    arrival = np.cumsum(rng.integers(0, 4, 60) / rng.choice([1.0, 2.0, 7.0]) / count)
    return Case(layout, duration, arrival, np.zeros(60, dtype=np.int64))


@sweep("seed", quick=range(20), full=range(400))
@pytest.mark.parametrize("routing", ["shortest_queue", "least_finish"])
def test_routed_as_the_recursion_routes(seed: int, routing: Routing) -> None:
    case = servers(seed)
    assert applies(case.layout) is None
    expected = Recursion(case.layout, case.duration, routing=routing).serve(case.arrival)
    assert expected is not None
    count = len(case.duration)
    model = Model(np.arange(count).reshape(1, count, 1), (0,) * count, routing=routing)
    engine = Serving(case.layout, case.duration, [model], [Source(0)], machine_code=False)
    early = engine.serve(case.arrival, case.template)
    found = Outcomes.joined([early, engine.close()])
    assert found.instance.tolist() == expected.template.tolist()
    assert found.finish_s.tobytes() == expected.finish.tobytes()


@sweep("seed", quick=range(10), full=range(200))
def test_dropped_where_the_recursion_drops(seed: int) -> None:
    case = servers(seed)
    case = Case(
        layout_of([Shape([0], [], [[]])], [1], 0), case.duration[:1], case.arrival, case.template
    )
    timeout_s = 3.0 * float(case.duration[0]) / 2
    expected = Recursion(case.layout, case.duration, timeout_s=timeout_s).serve(
        case.arrival, case.template
    )
    assert expected is not None
    model = Model(np.zeros((1, 1, 1), dtype=np.int64), (1,), timeout_s=timeout_s)
    engine = Serving(case.layout, case.duration, [model], [Source(0)], machine_code=False)
    early = engine.serve(case.arrival, case.template)
    found = Outcomes.joined([early, engine.close()])
    assert ((found.why == EXPIRED) == (expected.template < 0)).all()
    assert found.finish_s.tobytes() == expected.finish.tobytes()
