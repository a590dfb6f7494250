"""Exact rate at which given requests meet every objective, for monotone systems.

A system is *monotone* if no request delays an earlier one, later arrivals make no end sooner, and
times move with the arrivals: then more requests are late the faster they arrive, and the rates that
meet an objective are all those up to one. Not monotone are a batcher with a delay, which fills
batches sooner, one without, which makes larger batches, and shortest-queue routing, which selects
another queue: each may make a request end sooner.

Requests that arrive at ``stretch * arrival`` are latest at stretch 0. In between, each latency is
piecewise linear: the duration of a chain of tasks, minus the time since the arrival of the request
that the chain begins with. So the least sufficient stretch is where one of these lines meets the
limit. It is found without tolerance, as all times are integer multiples of one unit, like floats.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hetsim.simulation.orders import Order, OrderedTask, order_of, resources
from hetsim.simulation.service.figures import latencies
from hetsim.simulation.service.layout import EngineArguments
from hetsim.simulation.service.resolution import Resolved
from hetsim.simulation.service.run import blocks_of
from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.setup import ModelSetup
from hetsim.workload.requests import Requests
from hetsim.workload.workload import Slo, Workload

WINDOW_S = 1e9


@dataclass(frozen=True, slots=True, eq=False)
class RequestObjective:
    """Objective of one stream: the requests that count, ascending, and how many may be late."""

    stream: int
    slo: Slo
    which: NDArray[np.int64]
    most_late: int


@dataclass(frozen=True, slots=True, eq=False)
class SamplePath:
    """Requests on one path of the workload's randomness.

    Arrivals are those of the workload; a factor compresses them in time.
    """

    arrival_s: NDArray[np.float64]
    stream: NDArray[np.int64]
    variant: NDArray[np.int64]
    objectives: tuple[RequestObjective, ...]

    def __len__(self) -> int:
        return len(self.arrival_s)


def sample_of(
    workload: Workload, setup: EngineArguments, requests: int | None = None
) -> SamplePath:
    """Return the requests of a workload, or its first `requests`, regardless of its end."""
    if requests is not None:
        workload = replace(workload, duration_s=None, requests=requests)
    none = np.zeros(0, dtype=np.int64)
    blocks = [Requests(np.zeros(0), none, none), *blocks_of(workload, setup)]
    arrival_s = np.concatenate([block.arrival_s for block in blocks])
    stream = np.concatenate([block.stream for block in blocks])
    variant = np.concatenate([block.variant for block in blocks])
    objectives = []
    for at, said in enumerate(workload.streams):
        which = np.flatnonzero((stream == at) & (arrival_s >= workload.warm_up_s))
        if len(which):
            objectives += [
                RequestObjective(at, slo, which, most_late(slo, len(which))) for slo in said.slos
            ]
    return SamplePath(arrival_s, stream, variant, tuple(objectives))


def most_late(slo: Slo, requests: int) -> int:
    """Return the number of late requests that is allowed.

    >>> most_late(Slo(0.99, 1.0), 250)
    2
    """
    return math.floor(requests * (1 - Decimal(repr(slo.share))))


def too_many(
    setup: EngineArguments, sample: SamplePath, factor: float, *, machine_code: bool
) -> int:
    """Return the excess of late requests of the objective that is missed most."""
    engine = Serving(
        setup.layout,
        setup.duration,
        setup.models,
        setup.sources,
        # Queue lengths are not needed: one window covers all time.
        window_s=WINDOW_S,
        turns=setup.turns,
        machine_code=machine_code,
    )
    outcomes = engine.serve_all(sample.arrival_s / factor, sample.stream, sample.variant)
    latency_s = latencies(outcomes)
    return max(
        int(np.count_nonzero(latency_s[one.which] > one.slo.latency_s)) - one.most_late
        for one in sample.objectives
    )


Play = Callable[[Sequence[int], int], list[int]]
"""Function from ascending arrivals and a factor on durations to the end of each request.

It may only add durations to times, and take minima and maxima of times."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Requests (ascending) of which a number may take longer than a limit, in units."""

    which: Sequence[int]
    limit: int
    most_late: int


def unit_of(seconds: Iterable[float]) -> int:
    """Return the exponent of the unit, 2 ** -exponent seconds, of which all are multiples."""
    return max((one.as_integer_ratio()[1].bit_length() - 1 for one in seconds), default=0)


def units(seconds: Iterable[float], exponent: int) -> list[int]:
    """Return `seconds` in units of 2 ** -`exponent` seconds."""
    found = []
    for one in seconds:
        top, bottom = one.as_integer_ratio()
        found.append(top << (exponent - bottom.bit_length() + 1))
    return found


def least_stretch(play: Play, arrival: Sequence[int], wanted: Sequence[Wanted]) -> Fraction | None:
    """Return the least factor on arrival times at which every objective is met.

    0 if they are met even when all requests arrive at once; None if they are not met at any
    distance between requests. `play` is a monotone system; arrivals ascend, in units.

    Newton's method on the pieces (W. Dinkelbach, On nonlinear fractional programming, Management
    Science 13 (1967), https://doi.org/10.1287/mnsc.13.7.492), with bisection where it does not
    progress, e.g. if a request goes to the first of several free servers. It ends at a stretch that
    is sufficient while any smaller one is not. Both are checked: each end time carries the request
    that its chain starts with.

    Complexity: about ten times that of `play`, on numbers of about 200 bits.
    """
    begin = arrival[0] if arrival else 0
    look = partial(_look, play, [time - begin for time in arrival], wanted)
    low = look(Fraction(0))
    if low.enough:
        return Fraction(0)
    # A request one unit later then meets no trace of any earlier one.
    high = look(Fraction(max(low.makespan, 1)))
    if not high.enough:
        return None
    found = low
    while True:
        following = found.crossing
        if following is None or not low.stretch < following < high.stretch:
            following = (low.stretch + high.stretch) / 2
        found = look(following)
        if found.enough and not found.enough_below:
            return found.stretch
        if found.enough:
            high = found
        else:
            low = found


@dataclass(frozen=True, slots=True)
class _Look:
    """Results at one stretch, and just below it."""

    stretch: Fraction
    makespan: int
    enough: bool
    enough_below: bool
    crossing: Fraction | None


def _look(play: Play, arrival: Sequence[int], wanted: Sequence[Wanted], stretch: Fraction) -> _Look:
    """Simulate requests at a stretch, the first arriving at 0."""
    top, bottom = stretch.as_integer_ratio()
    last = arrival[-1] if arrival else 0
    bits = last.bit_length() + 1
    ends = play([(time * top << bits) + last - time for time in arrival], bottom << bits)
    mask = (1 << bits) - 1
    enough = below = True
    crossing: Fraction | None = Fraction(0)
    for one in wanted:
        limit = one.limit * bottom
        late = late_below = 0
        # Late at any stretch; and lines: seconds above the limit, gap between arrivals.
        never = 0
        lines = []
        for request in one.which:
            end, came = ends[request], arrival[request]
            over = (end >> bits) - came * top - limit
            gap = came - last + (end & mask)
            if over > 0 or (over == 0 and gap):
                late_below += 1
                late += over > 0
            if gap:
                beyond = (over + gap * top) // bottom
                if beyond > 0:
                    lines.append((beyond, gap))
            elif over > 0:
                never += 1
        enough &= late <= one.most_late
        below &= late_below <= one.most_late
        if crossing is not None:
            here = _place(lines, one.most_late - never, 2 * bits + 1)
            crossing = None if here is None else max(crossing, here)
    return _Look(stretch, (max(ends, default=0) >> bits) // bottom, enough, below, crossing)


def _place(lines: list[tuple[int, int]], at: int, bits: int) -> Fraction | None:
    """Return the ratio with `at` larger ones, counted with multiplicity; None for `at` < 0."""
    if at < 0:
        return None
    if at >= len(lines):
        return Fraction(0)
    # Distinct ratios with denominators of half as many bits differ by more than a unit.
    keyed = heapq.nlargest(at + 1, ((top << bits) // gap for top, gap in lines))[-1]
    return next(Fraction(top, gap) for top, gap in lines if (top << bits) // gap == keyed)


NEVER = -1
"""Time before all others."""


def in_order(
    order: Order, duration: NDArray[np.float64], template: Sequence[int], exponent: int
) -> Play:
    """Return the system whose devices and links serve tasks in a certain order."""
    seconds = units(duration.tolist(), exponent)
    tasks = [
        [(seconds[task.number], task.waits, task.held, task.turn) for task in template]
        for template in order.templates
    ]

    def play(arrival: Sequence[int], times: int) -> list[int]:
        scaled = [
            [(took * times, waits, held, turn) for took, waits, held, turn in own] for own in tasks
        ]
        free = [[NEVER] * streams for streams in order.width]
        ends = []
        for came, which in zip(arrival, template, strict=True):
            started: list[int] = []
            ended: list[int] = []
            last = came
            for took, waits, held, turn in scaled[which]:
                start = came if turn < 0 else max(came, started[turn])
                for other in waits:
                    start = max(start, ended[other])
                # The first free stream of a device, at the front of a heap.
                for resource in held:
                    start = max(start, free[resource][0])
                end = start + took
                for resource in held:
                    heapq.heapreplace(free[resource], end)
                started.append(start)
                ended.append(end)
                last = max(last, end)
            ends.append(last)
        return ends

    return play


def pools(
    servers: Sequence[int], pool: Sequence[int], seconds: Sequence[float], exponent: int
) -> Play:
    """Return the system of requests that queue for the first of several identical servers.

    Source: J. Kiefer and J. Wolfowitz, On the theory of queues with many servers, Transactions of
    the AMS 78 (1955), https://doi.org/10.1090/S0002-9947-1955-0066408-3.
    """
    rows = list(zip(pool, seconds, strict=True))
    known = {row: number for number, row in enumerate(dict.fromkeys(rows))}
    tasks = tuple((OrderedTask(number, (), (which,)),) for (which, _), number in known.items())
    took = np.array([each for _, each in known])
    order = Order(tasks, tuple(servers), ())
    return in_order(order, took, [known[row] for row in rows], exponent)


def why_not(resolved: Sequence[Resolved], setup: EngineArguments) -> str | None:
    """Return the reason why faster requests may be late less often; None if they never are.

    Two classes are proved: models that each dispatch requests at once, to one instance or to
    several in turn, where devices and links serve in order (``simulation.orders``); and models
    whose identical instances, each on devices of its own, take one request at a time.
    """
    if setup.clients:
        return "clients wait for answers"
    if setup.turns is not None:
        return "models take turns in memory"
    for one, model in zip(resolved, setup.models, strict=True):
        name = one.served.model
        if model.template.shape[2] > 1:
            return f"requests of {name} are batched"
        if model.timeout_s < math.inf or model.max_queue_size is not None:
            return f"requests of {name} are rejected, or put last"
        if len(model.ranks) > 1:
            return f"requests of {name} have priorities"
    if _sent_at_once(setup.models):
        for model in setup.models:
            if len(model.limits) > 1 and model.routing != "round_robin":
                return f"{model.routing.replace('_', ' ')} looks at the instances"
        order = order_of(setup.layout, setup.duration)
        if order is None or order.reasons:
            return "its subgraphs never start" if order is None else order.reasons[0]
        return None
    return _pools(resolved, setup)


def exact_factor(setup: EngineArguments, sample: SamplePath) -> Fraction | float | None:
    """Return the largest factor on the rate at which a sample meets every objective, exactly.

    Infinite if it does even when all requests arrive at once; None if it does at no rate. Arrivals,
    task times and limits are taken as exact binary numbers, without rounding. Valid for systems
    accepted by ``why_not``.

    Complexity: about ten times the requests times their tasks, in integers of any length.
    """
    at_once = _sent_at_once(setup.models)
    seconds = setup.duration.tolist()
    limits = [one.slo.latency_s for one in sample.objectives]
    alone = [] if at_once else _alone(setup, sample)
    exponent = unit_of([*sample.arrival_s.tolist(), *seconds, *alone, *limits])
    play: Play
    if at_once:
        order = order_of(setup.layout, setup.duration)
        assert order is not None
        play = in_order(order, setup.duration, _templates(setup, sample), exponent)
    else:
        of_stream = [source.model for source in setup.sources]
        pool = [of_stream[stream] for stream in sample.stream.tolist()]
        play = pools([len(one.limits) for one in setup.models], pool, alone, exponent)
    wanted = [
        Wanted(one.which.tolist(), limit, one.most_late)
        for one, limit in zip(sample.objectives, units(limits, exponent), strict=True)
    ]
    stretch = least_stretch(play, units(sample.arrival_s.tolist(), exponent), wanted)
    if stretch is None:
        return None
    return 1 / stretch if stretch else math.inf


def _sent_at_once(models: Sequence[ModelSetup]) -> bool:
    return not any(limit for model in models for limit in model.limits)


def _pools(resolved: Sequence[Resolved], setup: EngineArguments) -> str | None:
    """Return the reason why instances with limits do not act as servers with one queue."""
    held: set[int] = set()
    for one, model, alone_s in zip(resolved, setup.models, setup.alone_s, strict=True):
        name = one.served.model
        if any(limit != 1 for limit in model.limits):
            return f"an instance of {name} has several requests under way"
        if (alone_s != alone_s[:, :1]).any():
            return f"instances of {name} differ"
        for instance in range(len(model.limits)):
            mine: set[int] = set()
            for which in np.unique(model.template[:, instance]).tolist():
                mine |= resources(setup.layout, which)
            if held & mine:
                return f"instances of {name} share devices or links"
            held |= mine
    return None


def _alone(setup: EngineArguments, sample: SamplePath) -> list[float]:
    """Return the latency of each request alone, by its model and variant."""
    found = np.empty(len(sample))
    for at, source in enumerate(setup.sources):
        mine = sample.stream == at
        found[mine] = setup.alone_s[source.model][sample.variant[mine], 0, 0]
    return found.tolist()


def _templates(setup: EngineArguments, sample: SamplePath) -> list[int]:
    """Return the template of each request: instances take turns."""
    found = np.empty(len(sample), dtype=np.int64)
    model_of = np.array([source.model for source in setup.sources], dtype=np.int64)
    asked = model_of[sample.stream]
    for at, model in enumerate(setup.models):
        mine = np.flatnonzero(asked == at)
        turn = np.arange(len(mine)) % len(model.limits)
        found[mine] = model.template[sample.variant[mine], turn, 0]
    return found.tolist()
