"""Plans under load where devices fail: the failing clock's times, and what always holds."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from hetsim.placement.planning import replan
from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.rules import MASK
from hetsim.simulation.clock.templates import PlanTasks, tasks_of_plan, template_of
from hetsim.simulation.failures.clock import FailingClock, running_of
from hetsim.simulation.failures.recovery import InstanceStates
from hetsim.simulation.failures.serving import (
    FailingServing,
    Outage,
    Outages,
    WeightLoad,
    templates_of,
)
from hetsim.simulation.serving import driver
from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.setup import Clients, ModelSetup, Outcomes, RequestSource
from hetsim.simulation.serving.tables import EXPIRED, FULL, SERVED
from hetsim.workload.deployment import ROUTINGS
from hetsim.workload.failure import Failure, moments
from oracles.clock_plans import (
    arrivals,
    failures_of_a_spare,
    one_plan,
    plans,
    rich_problems,
    with_a_spare,
)
from simulation.failures.conftest import failures_of
from sweeps import examples

ONE = ModelSetup(np.zeros((1, 1, 1), dtype=np.int64), (0,))
CLIENTS = 2
Case = tuple[Plan, list[float], list[Failure]]


@st.composite
def failing(draw: st.DrawFn) -> Case:
    """A plan of one replica, arrivals, and failures."""
    plan = draw(plans())
    times = draw(arrivals())
    more = draw(st.sampled_from([0, 5, 17]))
    times = sorted(times + [turn / 4 for turn in range(more)])
    return plan, times, draw(failures_of(plan.problem.devices))


@examples(quick=15, full=4000)
@given(failing())
def test_one_plan_without_gates_has_the_failing_clocks_times(case: Case) -> None:
    plan, times, failures = case
    rule = plan.problem.contention
    clock = FailingClock(plan, times, failures, rule, replan, machine_code=False)
    clock.play()
    tasks = tasks_of_plan(plan, rule)
    engine = FailingServing(
        tasks, rule, replan, [ONE], [RequestSource(0)], failures=failures, machine_code=False
    )
    arrival = np.array(times)
    early = engine.serve(arrival, np.zeros(len(times), dtype=np.int64))
    found = Outcomes.joined([early, engine.close()])
    assert found.finish_s.tolist() == clock.finish
    last_s = max(clock.finish)
    assert [one for one in engine.happened if one.at_s <= last_s] == clock.happened
    # What was cut off has ended where it was.
    started = clock.started
    spent = started.end - started.start
    device = np.array([task.device for task in started.tasks], dtype=np.int64)[started.task]
    links = np.zeros(len(tasks.links))
    for line, task in enumerate(started.task.tolist()):
        links[list(started.tasks[task].resources)] += spent[line]
    on = device >= 0
    busy, carried = engine.busy_seconds()
    expected = np.bincount(device[on], spent[on], minlength=len(busy))
    assert busy == pytest.approx(expected, abs=1e-9)
    assert carried == pytest.approx(links, abs=1e-9)
    cut = on & started.lost
    assert engine.cut_s == pytest.approx(spent[cut].sum(), abs=1e-9)


class Deployed(NamedTuple):
    """Several models on the devices of one problem."""

    tasks: PlanTasks
    models: list[ModelSetup]
    sources: list[RequestSource]
    arrival: NDArray[np.float64]
    stream: NDArray[np.int64]
    requests: int | None
    failures: list[Failure]
    loads: list[WeightLoad | None]


@st.composite
def deployments(draw: st.DrawFn) -> Deployed:
    problem = draw(rich_problems(5))
    every = tuple(range(problem.n))
    templates = [
        template_of(plan, problem.contention)
        for plan in (
            *(one_plan(draw, problem) for _ in range(draw(st.integers(0, 2)))),
            *(Plan(problem, "manual", (Group(name, every),)) for name in problem.devices),
        )
    ]
    tasks = PlanTasks(templates[0].plan, tuple(templates))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    models, sources = [], []
    for at in range(int(rng.integers(1, 3))):
        instances, largest = (int(k) for k in rng.integers(1, 4, 2))
        levels = int(rng.integers(1, 3))
        models.append(
            ModelSetup(
                rng.integers(0, len(templates), (1, instances, largest)),
                tuple(rng.integers(0, 3, instances).tolist()),
                routing=ROUTINGS[rng.integers(3)],
                ranks=tuple(range(levels)),
                max_queue_size=(None, None, None, 3)[rng.integers(4)],
                timeout_s=float(rng.choice([math.inf, math.inf, 17.0])),
                timeout_action="reject" if rng.random() < 0.5 else "delay",
                delay_s=float(rng.choice([0.0, 0.0, 1.0])),
            )
        )
        sources += [RequestSource(at, level) for level in range(levels)]
    count = int(rng.integers(1, 40))
    arrival = np.cumsum(rng.integers(0, 4, count) / 4)
    failures = draw(failures_of(problem.devices))
    link = (0,) if tasks.links else ()
    seconds = [None, WeightLoad(0.5), WeightLoad(3.0, link), WeightLoad(1.0)]
    return Deployed(
        tasks,
        models,
        sources,
        arrival,
        rng.integers(0, len(sources), count),
        count + 20 if rng.random() < 0.3 else None,
        failures,
        [seconds[k] for k in rng.integers(0, 4, len(problem.devices))],
    )


def think(block: int) -> NDArray[np.float64]:
    return np.random.default_rng([20, block]).integers(1, 5, (4, CLIENTS)).astype(float)


def played(given: Deployed, engine: Serving, pieces: int = 1) -> Outcomes:
    told = [
        engine.serve(given.arrival[part], given.stream[part])
        for part in np.array_split(np.arange(len(given.arrival)), pieces)
    ]
    return Outcomes.joined([*told, engine.close()])


def made(given: Deployed, kind: Any = FailingServing, **more: Any) -> FailingServing:
    contention = given.tasks.plan.problem.contention
    clients = [Clients(0, CLIENTS, think)] if given.requests else []
    shown = {"failures": given.failures, "loads": given.loads} | more
    engine: FailingServing = kind(
        given.tasks,
        contention,
        replan,
        given.models,
        given.sources,
        clients,
        requests=given.requests,
        **shown,
    )
    return engine


def same(one: Outcomes, other: Outcomes) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))


@examples(quick=7, full=1000)
@given(deployments(), failures_of_a_spare())
def test_a_device_that_has_nothing_to_do_fails_without_a_trace(
    given: Deployed, failures: tuple[Failure, ...]
) -> None:
    wider = [with_a_spare(one.plan) for one in given.tasks.templates]
    tasks = PlanTasks(wider[0], tuple(template_of(plan, "none") for plan in wider))
    spared = given._replace(tasks=tasks, loads=[None] * len(wider[0].problem.devices))
    calm, shaken = (made(spared, failures=some, machine_code=False) for some in ((), failures))
    assert same(played(spared, shaken), played(spared, calm))
    assert shaken.ran.tolist() == calm.ran.tolist()
    for one, other in zip(shaken.busy_seconds(), calm.busy_seconds(), strict=True):
        assert one == pytest.approx(other, abs=1e-9)
    assert (shaken.retried, shaken.lost, shaken.cut_s) == ({}, set(), 0.0)
    for one, other in (
        (shaken.lengths.waiting_s, calm.lengths.waiting_s),
        (shaken.lengths.inside_s, calm.lengths.inside_s),
    ):
        assert one.sum(axis=0) == pytest.approx(other.sum(axis=0), abs=1e-6)


@examples(quick=7, full=1000)
@given(deployments())
def test_machine_code_gives_the_same_bits(given: Deployed) -> None:
    plain, compiled = (made(given, machine_code=how) for how in (False, True))
    assert same(played(given, plain), played(given, compiled, pieces=2))
    assert plain.ran.tolist() == compiled.ran.tolist()
    assert plain.busy_seconds() == compiled.busy_seconds()
    assert plain.retried == compiled.retried
    assert plain.lost == compiled.lost


def moments_of(given: Deployed, loads: list[WeightLoad | None]) -> list[tuple[float, str, Failure]]:
    """When devices stop, are known to have, and serve again: once their weights are there."""
    host = given.tasks.plan.problem.host
    names = given.tasks.plan.problem.devices
    found: list[tuple[float, int, str, Failure]] = []
    for now, order, what, failure in moments(given.failures):
        load = loads[names.index(failure.device)]
        if what != "back" or load is None or host is None:
            found.append((now, 1 + order, what, failure))
            continue
        loaded_s = now + load.seconds
        after = itertools.dropwhile(lambda one, this=failure: one is not this, given.failures)
        # What was loaded when it stops again is lost.
        if not any(one.device == failure.device and one.at_s < loaded_s for one in list(after)[1:]):
            found.append((loaded_s, 0, what, failure))
    return [
        (now, what, failure) for now, _, what, failure in sorted(found, key=lambda one: one[:2])
    ]


@examples(quick=9, full=1000)
@given(deployments())
def test_models_work_wherever_an_instance_stands(given: Deployed) -> None:
    """From when devices stop until they are back, their weights too, or are done without.

    Whatever else fails while weights are loaded, which here takes no link.
    """
    loads = [load and WeightLoad(load.seconds) for load in given.loads]
    engine = made(given, loads=loads, machine_code=False)
    played(given, engine)
    plans = [one.plan for one in given.tasks.templates]
    names = plans[0].problem.devices
    states = InstanceStates(plans, templates_of(given.models), plans[0].problem.contention, replan)
    outages = Outages(len(given.models))
    stopped = []
    for now, what, failure in moments_of(given, loads):
        # Those at the moment at which the last request ends happen still.
        if now > engine.now_s:
            break
        device = names.index(failure.device)
        if what == "stop":
            stopped.append(failure)
            states.stopped[device] = True
        elif what == "known":
            states.down[device] = True
            if math.isinf(failure.back_s):
                states.lose(device)
        else:
            states.stopped[device] = states.down[device] = False
        for model in range(len(given.models)):
            whole, serves = states.whole(model), states.serves(model)
            outages.tell(model, now, whole=whole, serves=serves)
    assert engine.happened == stopped
    assert engine.outages.broken == outages.broken
    assert engine.outages.out == outages.out
    assert engine.outages.whole == outages.whole


def test_weights_are_loaded_on_while_another_device_fails() -> None:
    """One is away from 1 to 2 and loads until 6; the other is away from 3 to 4 alone."""
    problem = Problem.from_arrays(
        [[9.0, 1.0, 1.0]], tensors=[(-1, 1, [0]), (0, 1, [])], host=0, contention="none"
    )
    templates = [
        template_of(Plan(problem, "manual", (Group(name, (0,)),)), "none") for name in ("d1", "d2")
    ]
    engine = FailingServing(
        PlanTasks(templates[0].plan, tuple(templates)),
        "none",
        replan,
        [ModelSetup(np.array([[[0], [1]]]), (1, 1))],
        [RequestSource(0)],
        failures=[Failure("d1", 1.0, "kill", 1.0), Failure("d2", 3.0, "kill", 1.0)],
        loads=[None, WeightLoad(4.0), None],
        machine_code=False,
    )
    arrival = np.array([0.0, 2.5, 4.5, 5.5, 10.0])
    engine.serve(arrival, np.zeros(5, dtype=np.int64))
    engine.close()
    assert engine.outages.broken == [[Outage(1.0, 6.0)]]
    assert engine.outages.out == [[Outage(3.0, 4.0)]]


class Watched(FailingServing):
    """One that counts what runs on each device, apart from the engine's own accounts."""

    def begin(self) -> None:
        self.running = [0] * len(self._names)
        self.spent = [0.0] * len(self._names)
        self.since = 0.0

    def until(self, now: float) -> None:
        for device, many in enumerate(self.running):
            self.spent[device] += many * (now - self.since)
        self.since = now

    def of(self, code: int, change: int) -> None:
        device = int(self._structure.device[code & MASK])
        if device >= 0:
            assert not self._states.stopped[device]
            self.running[device] += change

    def _happen(self) -> None:
        self.until(float(self._now[0]))
        super()._happen()
        codes = running_of(self.in_flight(), self._rests).code
        devices = self.devices_of(codes)
        stopped = np.array(self._states.stopped)
        devices = devices[devices >= 0]
        self.running = np.bincount(devices[~stopped[devices]], minlength=len(self._names)).tolist()


@examples(quick=10, full=2000)
@given(deployments())
def test_every_request_ends_once_and_nothing_runs_where_nothing_works(given: Deployed) -> None:
    engine: Any = made(given, Watched, machine_code=False)
    engine.begin()
    with pytest.MonkeyPatch.context() as patch:
        launch, take = driver.launch, driver.take

        def launched(state: Any, duration: Any, batches: Any, events: Any, now: float) -> None:
            engine.until(now)
            for code in state.starting[: state.counts[0]]:
                engine.of(code, 1)
            launch(state, duration, batches, events, now)

        def taken(events: Any) -> int:
            if events is engine._events:
                engine.until(events[0][0])
                engine.of(events[0][1], -1)
            return take(events)

        patch.setattr(driver, "launch", launched)
        patch.setattr(driver, "take", taken)
        found = played(given, engine)
    kept = found.why == SERVED
    assert found.requests == (given.requests or len(given.arrival))
    assert np.isin(found.why, (SERVED, FULL, EXPIRED)).all()
    assert (np.diff(found.arrival_s) >= 0).all()
    for earlier, later in zip(
        (found.arrival_s, found.sent_s, found.begun_s),
        (found.sent_s, found.begun_s, found.finish_s),
        strict=True,
    ):
        assert (earlier[kept] <= later[kept]).all()
    assert np.isnan(found.finish_s[~kept]).all()
    assert engine.busy_seconds()[0] == pytest.approx(engine.spent, abs=1e-6)
    assert set(engine.retried) | engine.lost <= set(range(found.requests))
    flow = engine._flow
    assert not any(flow.in_flight)
    assert not any(flow.inside)
    assert not any(flow.waiting)
    batches = np.bincount(found.stream[kept], 1.0 / found.size[kept])
    assert engine.ran.sum() >= round(float(batches.sum()))
