"""Workload on failing devices: its engine, and the effects of failures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np

from hetsim.errors import UsageError
from hetsim.placement.planning import replan
from hetsim.simulation.failures.serving import FailingServing, Outage, WeightLoad
from hetsim.simulation.service.figures import chosen, latencies, percentile_result
from hetsim.simulation.service.layout import EngineArguments, load_s
from hetsim.simulation.service.service import (
    DeviceFailed,
    Failed,
    ModelFailed,
    Period,
    StreamFailed,
    Window,
)
from hetsim.simulation.serving.setup import Outcomes
from hetsim.simulation.serving.tables import EXPIRED, FULL, SERVED
from hetsim.statistics.batches import ENOUGH_LATE
from hetsim.statistics.verdict import Verdict, verdict_of
from hetsim.workload.workload import Slo, Workload

Seconds: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]


def windows_of(
    outages: Sequence[Outage], arrival_s: Seconds, left_s: Seconds
) -> tuple[Window, ...]:
    """Return the failure windows of a model, by the outages of parts that serve it.

    `arrival_s` ascends; `left_s` is the end of each of its requests, rejected ones included.
    Complexity: O(n log n), plus O(n) per window at most.
    """
    if not outages:
        return ()
    gone_s = np.sort(left_s)
    inside = np.searchsorted(arrival_s, gone_s, side="right") - np.arange(1, len(gone_s) + 1)
    first_s = outages[0].begin_s
    together = float((np.minimum(left_s, first_s) - np.minimum(arrival_s, first_s)).sum())
    usual = math.ceil(together / first_s) if first_s > 0 else 0
    found: list[Window] = []
    level = 0
    for outage in outages:
        begin_s = outage.begin_s
        if found and outage.begin_s < found[-1].end_s:
            begin_s = found.pop().begin_s
        else:
            came = int(np.searchsorted(arrival_s, begin_s))
            level = max(came - int(np.searchsorted(gone_s, begin_s)), usual)
        end_s = _recovered(outage.end_s, level, arrival_s, gone_s, inside)
        found.append(Window(begin_s, outage.end_s, end_s))
    return tuple(found)


def _recovered(
    works_s: float, level: int, arrival_s: Seconds, gone_s: Seconds, inside: Any
) -> float:
    """Return the first time from `works_s` on with at most `level` requests inside."""
    if math.isinf(works_s):
        return math.inf
    at = int(np.searchsorted(gone_s, works_s, side="right"))
    if np.searchsorted(arrival_s, works_s, side="right") - at <= level:
        return works_s
    few = np.flatnonzero(inside[at:] <= level)
    return float(gone_s[at + few[0]]) if len(few) else math.inf


def window_of_each(windows: Sequence[Window], arrival_s: Seconds, left_s: Seconds) -> Any:
    """Return the first window in which each request was inside, or -1."""
    if not windows:
        return np.full(len(arrival_s), -1)
    begins = np.array([one.begin_s for one in windows] + [math.inf])
    ends = np.array([one.end_s for one in windows])
    which = np.searchsorted(ends, arrival_s, side="right")
    return np.where(begins[which] < left_s, which, -1)


PERCENTILES = (50.0, 99.0)
"""Percentiles before, during and after failures, in addition to those of the objectives."""


def failing_engine(
    workload: Workload, setup: EngineArguments, *, until_s: float, machine_code: bool
) -> FailingServing:
    """Return the engine of a workload with device failures."""
    assert workload.failures is not None
    if setup.turns is not None:
        raise UsageError(
            "loading on_demand cannot be combined with device failures",
            hint="remove the failures, or keep all models in memory",
        )
    problem = setup.plan_tasks.plan.problem
    return FailingServing(
        setup.plan_tasks,
        problem.contention,
        replan,
        setup.models,
        setup.sources,
        setup.clients,
        failures=workload.failures.failures(problem.devices, workload.seed),
        loads=_loads(setup),
        requests=workload.requests,
        until_s=until_s,
        machine_code=machine_code,
    )


def _loads(setup: EngineArguments) -> list[WeightLoad | None]:
    """Return by device the loading of all models' weights from the host."""
    problem = setup.plan_tasks.plan.problem
    if problem.host is None:
        return []
    found: list[WeightLoad | None] = []
    for device in range(len(problem.devices)):
        sizes = [held.weights[device] for held in setup.memory.held]
        seconds = sum(load_s(problem, device, size) for size in sizes if size)
        route = problem.routes[problem.host][device]
        held = route.resources if problem.contention == "fifo" else ()
        loads = device != problem.host and 0 < seconds < math.inf
        found.append(WeightLoad(seconds, held) if loads else None)
    return found


def end_of_each_s(outcomes: Outcomes, timeout_s: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the end of each request; for an expired one, the time of the next batch."""
    left = np.where(outcomes.why == FULL, outcomes.arrival_s, outcomes.finish_s)
    expired = outcomes.why == EXPIRED
    due_s = outcomes.arrival_s[expired] + timeout_s
    sent_s = np.append(np.sort(outcomes.sent_s[outcomes.why == SERVED]), math.inf)
    met_s = sent_s[np.searchsorted(sent_s, due_s)]
    left[expired] = np.where(np.isinf(met_s), due_s, met_s)
    return left


def under_failures(
    verdict: Verdict,
    workload: Workload,
    engine: FailingServing,
    setup: EngineArguments,
    outcomes: Outcomes,
    slo: Slo,
    confidence: float,
) -> Verdict:
    """Return the verdict on a stream, limited to what the number of random failures supports.

    It *meets* only after ENOUGH_LATE outages of parts that serve the model, and *misses* only after
    as many, or if it also misses without the affected requests.
    """
    failing = workload.failures
    if failing is None or not failing.random or verdict.answer == "undecided":
        return verdict
    model = setup.sources[int(outcomes.stream[0])].model
    outages = engine.outages.broken[model]
    if len(outages) >= ENOUGH_LATE:
        return verdict
    if verdict.answer == "misses":
        left = end_of_each_s(outcomes, setup.models[model].timeout_s)
        others = (
            window_of_each(windows_of(outages, outcomes.arrival_s, left), outcomes.arrival_s, left)
            < 0
        )
        if others.any():
            calm = verdict_of(
                latencies(outcomes)[others],
                outcomes.fresh[others],
                slo.share,
                slo.latency_s,
                confidence,
            )
            if calm.answer == "misses":
                return verdict
    cycles = failing.cycles_s(setup.plan_tasks.plan.problem.devices)
    each_s = 1 / sum(1 / (between_s + repair_s) for between_s, repair_s in cycles.values())
    came = len(outcomes.arrival_s)
    rate = came / max(float(outcomes.arrival_s[-1]), each_s / came)
    return replace(verdict, answer="undecided", more=int(ENOUGH_LATE * each_s * rate) + 1)


def failed(
    workload: Workload,
    engine: FailingServing,
    setup: EngineArguments,
    outcomes: Outcomes,
    names: Sequence[str],
) -> Failed:
    """Return the effects of failures."""
    assert workload.failures is not None
    duration_s = max(engine.now_s, 0.0)
    of_model = np.array([source.model for source in setup.sources])[outcomes.stream]
    felt = np.full(len(of_model), -1)
    models = []
    first_s = []
    for at, one in enumerate(setup.models):
        mine = of_model == at
        arrival_s = outcomes.arrival_s[mine]
        left = end_of_each_s(chosen(outcomes, mine), one.timeout_s)
        windows = windows_of(engine.outages.broken[at], arrival_s, left)
        felt[mine] = window_of_each(windows, arrival_s, left)
        out_s = sum(
            min(outage.end_s, duration_s) - min(outage.begin_s, duration_s)
            for outage in engine.outages.out[at]
        )
        available = 1 - out_s / duration_s if duration_s > 0 else 1.0
        first_s.append(windows[0].begin_s if windows else math.inf)
        models.append(ModelFailed(names[at], available, len(engine.outages.out[at]), windows))
    lost, retried = np.zeros((2, len(felt)), dtype=np.bool_)
    lost[[*engine.lost]] = True
    retried[[*engine.retried]] = True
    counted = outcomes.arrival_s >= workload.warm_up_s
    latency_s = latencies(outcomes)
    streams = []
    for at, stream in enumerate(workload.streams):
        mine = (outcomes.stream == at) & counted
        early = outcomes.arrival_s < first_s[setup.sources[at].model]
        parts = (mine & (felt < 0) & early, mine & (felt >= 0), mine & (felt < 0) & ~early)
        before, during, after = (
            _period(outcomes, latency_s, part, felt, stream.slos) for part in parts
        )
        streams.append(
            StreamFailed(
                stream.name, before, during, after, int(lost[mine].sum()), int(retried[mine].sum())
            )
        )
    happened = sorted(engine.happened, key=lambda failure: failure.device)
    devices = []
    for name, mine_ in groupby(happened, key=lambda failure: failure.device):
        each = list(mine_)
        down_s = sum(min(one.back_s, duration_s) - one.at_s for one in each)
        devices.append(DeviceFailed(name, len(each), down_s))
    return Failed(
        tuple(devices),
        tuple(models),
        tuple(streams),
        engine.cut_s,
        workload.failures.random,
    )


def _period(
    outcomes: Outcomes, latency_s: Any, which: Any, felt: Any, slos: Sequence[Slo]
) -> Period:
    """Return the figures of requests `which`; those in a failure window count as a busy period."""
    latency_s = latency_s[which]
    served = outcomes.why[which] == SERVED
    fresh = outcomes.fresh[which]
    number = felt[which]
    if len(number) and number[0] >= 0:
        fresh = np.diff(number, prepend=-1) != 0
    asked = sorted({*PERCENTILES, *(slo.percentile for slo in slos)})
    count, answered = len(latency_s), int(served.sum())
    return Period(
        count,
        answered,
        count - answered,
        float(latency_s[served].mean()) if answered else math.nan,
        tuple(percentile_result(latency_s, fresh, at) for at in asked) if count else (),
        tuple(float((latency_s <= slo.latency_s).mean()) if count else math.nan for slo in slos),
    )
