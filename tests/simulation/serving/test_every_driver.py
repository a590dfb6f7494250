"""Random deployments of plans, played by every driver of the clock's rules: the same bits.

In plain Python and compiled, the one that devices may leave, without failures, and the one that is
told when tasks end, by a clock on the wall that is exact.
"""

from __future__ import annotations

import heapq
import math

import numpy as np

from hetsim.errors import UsageError
from hetsim.placement.planning import replan
from hetsim.problem.plan import Plan
from hetsim.simulation.clock.runs import play, run
from hetsim.simulation.clock.templates import laid_out, tasks_of_plan
from hetsim.simulation.failures.clock import FailingClock
from hetsim.simulation.failures.serving import FailingServing
from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.real_time import RealTime
from hetsim.simulation.serving.setup import ModelSetup, Outcomes, RequestSource
from oracles.random_served_plans import (
    Ints,
    Served,
    random_arrivals,
    random_plan,
    random_problem,
    random_served,
)
from sweeps import sweep

CASES = 100
"""Seeds of a chunk; the 100 chunks are 10,000, by every driver and compiled, too."""


def engine_of(given: Served, *, machine_code: bool) -> Serving:
    return Serving(
        laid_out(given.tasks),
        given.duration,
        given.models,
        given.sources,
        given.clients,
        requests=given.requests,
        machine_code=machine_code,
    )


def failing_of(given: Served, *, machine_code: bool) -> FailingServing:
    return FailingServing(
        given.tasks,
        given.contention,
        replan,
        given.models,
        given.sources,
        given.clients,
        failures=(),
        requests=given.requests,
        machine_code=machine_code,
    )


def played(given: Served, by: Serving, pieces: int) -> Outcomes:
    """In so many blocks, 0: all at once, to the end."""
    if not pieces:
        return by.serve_all(given.arrival, given.stream, given.variant)
    told = [
        by.serve(given.arrival[part], given.stream[part], given.variant[part])
        for part in np.array_split(np.arange(len(given.arrival)), pieces)
    ]
    return Outcomes.joined([*told, by.close()])


def by_the_wall(given: Served, seed: int) -> Outcomes:
    """Some tasks run elsewhere; that they ended is told when they are due."""
    duration = given.duration
    rng = np.random.default_rng([seed, 43])
    # What takes no time ends before anything else can happen: nobody can tell that in time.
    outside = (duration > 0) & (rng.random(len(duration)) < 0.7)
    blocks = np.array_split(np.arange(len(given.arrival)), 1 + seed % 3)
    driver = RealTime(
        laid_out(given.tasks),
        duration,
        given.models,
        given.sources,
        given.clients,
        lasts=np.where(outside, math.inf, duration),
        blocks=(
            (given.arrival[part], given.stream[part], given.variant[part])
            for part in blocks
            if len(part)
        ),
        requests=given.requests,
    )
    running: list[tuple[float, int, int]] = []
    while not driver.over:
        while running and running[0][0] <= driver.next_s:
            end_s, batch, task = heapq.heappop(running)
            assert driver.ended(batch, task, end_s) == end_s
        for one in driver.step():
            heapq.heappush(running, (one.at_s + duration[one.task], one.batch, one.task))
    assert not running
    return driver.outcomes()


def same(one: Outcomes, other: Outcomes, seed: int) -> None:
    for name, column, column_of_other in zip(one._fields, one, other, strict=True):
        assert column.dtype == column_of_other.dtype
        assert column.tobytes() == column_of_other.tobytes(), (seed, name)


def every_driver(seed: int, *, machine_code: bool) -> bool:
    """Compare; return whether the case ends."""
    given = random_served(seed)
    plain = engine_of(given, machine_code=False)
    try:
        expected = played(given, plain, 1)
    except UsageError:
        # A client that is rejected would retry forever, for ever.
        return False
    others: list[Serving] = [
        failing_of(given, machine_code=False),
        engine_of(given, machine_code=False),
    ]
    if machine_code:
        others += [engine_of(given, machine_code=True), failing_of(given, machine_code=True)]
    for at, driver in enumerate(others):
        found = played(given, driver, (seed + at) % 5)
        same(expected, found, seed)
        assert driver.ran.tolist() == plain.ran.tolist()
        if isinstance(driver, FailingServing):
            assert not driver.happened
            continue
        assert driver.now_s == plain.now_s
        for part, other in zip(plain.lengths, driver.lengths, strict=True):
            assert np.asarray(part).tobytes() == np.asarray(other).tobytes(), seed
    same(expected, by_the_wall(given, seed), seed)
    return True


@sweep(
    "chunk, count, machine_code",
    quick=[(0, 12, False)],
    full=[(0, 12, False), *((chunk, CASES, True) for chunk in range(100))],
)
def test_the_same_bits_by_every_driver(chunk: int, count: int, machine_code: bool) -> None:
    cases = range(CASES * chunk, CASES * chunk + count)
    assert sum(every_driver(seed, machine_code=machine_code) for seed in cases) > 0.9 * count


def every_clock(seed: int, *, machine_code: bool) -> None:
    """A dealt plan without gates, played by clocks and by what serves."""
    rng = np.random.default_rng([seed, 44])
    problem = random_problem(rng)
    replicas = [random_plan(rng, problem) for _ in range(int(rng.integers(1, 4)))]
    deal = [*range(len(replicas)), *rng.integers(0, len(replicas), rng.integers(0, 3)).tolist()]
    plan = Plan.dealt(replicas, rng.permutation(deal).tolist(), strategy="random")
    tasks = tasks_of_plan(plan, problem.contention)
    arrival = random_arrivals(rng, int(rng.integers(1, 30)))
    template = tasks.of_requests(len(arrival))
    duration = np.concatenate([one.duration for one in tasks.templates])
    expected = play(tasks, arrival, traced=True, machine_code=False)
    layout = laid_out(tasks)
    if machine_code:
        again = run(layout, duration, arrival, template, traced=True, machine_code=True)
        for name in ("finish", "start", "end", "sequence", "stream", "entry_at"):
            assert getattr(expected, name).tobytes() == getattr(again, name).tobytes(), (seed, name)
        rank = rng.integers(0, 3, len(arrival)).astype(np.int8)
        one, other = (
            run(layout, duration, arrival, template, rank=rank, traced=True, machine_code=compiled)
            for compiled in (False, True)
        )
        assert one.start.tobytes() == other.start.tobytes()
        assert one.finish.tobytes() == other.finish.tobytes()
    clock = FailingClock(
        plan, arrival.tolist(), (), problem.contention, replan, machine_code=machine_code
    )
    clock.play()
    assert clock.finish == expected.finish.tolist()
    assert not clock.happened
    assert sorted(clock.started.start.tolist()) == sorted(expected.start.tolist())
    model = ModelSetup(
        np.arange(len(replicas)).reshape(1, -1, 1),
        (0,) * len(replicas),
        routing="round_robin",
        cycle=tuple(plan.deal),
    )
    driver = Serving(layout, duration, [model], [RequestSource(0)], machine_code=machine_code)
    none: Ints = np.zeros(len(arrival), dtype=np.int64)
    served = Outcomes.joined([driver.serve(arrival, none), driver.close()])
    assert served.finish_s.tobytes() == expected.finish.tobytes()


@sweep(
    "chunk, machine_code",
    quick=[(0, False)],
    full=[(0, False), *((chunk, True) for chunk in range(100))],
)
def test_the_same_times_by_every_clock(chunk: int, machine_code: bool) -> None:
    for seed in range(CASES * chunk, CASES * (chunk + 1)):
        every_clock(seed, machine_code=machine_code)
