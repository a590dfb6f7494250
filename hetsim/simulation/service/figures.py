"""Figures of streams, models, devices and links from the outcomes of requests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from hetsim.simulation.clock.metrics import busy_s
from hetsim.simulation.service.layout import EngineArguments
from hetsim.simulation.service.service import (
    LatencyPart,
    ModelService,
    Objective,
    Queue,
    Stability,
    StreamService,
    Use,
    recent_from_s,
    stability_of,
)
from hetsim.simulation.serving.setup import Lengths, Outcomes
from hetsim.simulation.serving.tables import EXPIRED, FULL, SERVED
from hetsim.statistics.intervals import Mean, Percentile, mean_of, percentile_of
from hetsim.statistics.verdict import Verdict
from hetsim.workload.arrivals import Closed, Open, Replay
from hetsim.workload.workload import Slo, Stream, Workload

Array: TypeAlias = np.ndarray[Any, Any]

SAME = 1e-6
"""Relative tolerance between a mean by request and the figure that it is an interval of."""


def gaps_s(arrival_s: Array, begin_s: float, end_s: float) -> Array:
    """Return the seconds from each arrival to the next, between `begin_s` and `end_s`."""
    edges = np.append(arrival_s, end_s)
    edges[0] = begin_s
    return np.diff(edges)


def by_request(outcomes: Outcomes) -> Mean | None:
    """Return the mean latency of answered requests; None without any."""
    served = outcomes.why == SERVED
    if not served.any():
        return None
    latency_s = np.where(served, outcomes.finish_s - outcomes.arrival_s, 0.0)
    return mean_of(latency_s, outcomes.fresh, served.astype(np.float64))


def answers_per_s(outcomes: Outcomes, begin_s: float, end_s: float) -> Mean | None:
    """Return the answers per second; None without any."""
    if not outcomes.requests:
        return None
    served = (outcomes.why == SERVED).astype(np.float64)
    return mean_of(served, outcomes.fresh, gaps_s(outcomes.arrival_s, begin_s, end_s))


def with_lengths(model: ModelService, outcomes: Outcomes, duration_s: float) -> ModelService:
    """Return a model with intervals for its waiting and ongoing requests, and for its instances."""
    if not outcomes.requests or (outcomes.why == EXPIRED).any():
        return model
    served = outcomes.why == SERVED
    gaps = gaps_s(outcomes.arrival_s, 0.0, duration_s)
    waited = np.where(served, outcomes.sent_s - outcomes.arrival_s, 0.0)
    inside = np.where(served, outcomes.finish_s - outcomes.arrival_s, 0.0)
    under_way = np.where(served, (outcomes.finish_s - outcomes.sent_s) / outcomes.size, 0.0)
    queue = replace(
        model.queue,
        mean_interval=_of(mean_of(waited, outcomes.fresh, gaps), model.queue.mean),
        inside_interval=_of(mean_of(inside, outcomes.fresh, gaps), model.queue.mean_inside),
    )
    instances = []
    for at, use in enumerate(model.instances):
        mine = np.where(outcomes.instance == at, under_way, 0.0)
        instances.append(_with(use, mine, outcomes.fresh, gaps))
    return replace(model, queue=queue, instances=tuple(instances))


def with_uses(
    uses: tuple[Mapping[str, Use], Mapping[str, Use]],
    setup: EngineArguments,
    outcomes: Outcomes,
    duration_s: float,
) -> tuple[dict[str, Use], dict[str, Use]]:
    """Return devices and links with intervals for their utilization."""
    devices, links = map(dict, uses)
    served = np.flatnonzero(outcomes.why == SERVED)
    if not len(served):
        return devices, links
    gaps = gaps_s(outcomes.arrival_s, 0.0, duration_s)
    template = np.zeros(len(served), dtype=np.int64)
    stream = outcomes.stream[served]
    for at, source in enumerate(setup.sources):
        mine = served[stream == at]
        table = setup.models[source.model].template
        where = outcomes.variant[mine], outcomes.instance[mine], outcomes.size[mine] - 1
        template[stream == at] = table[where]
    size = outcomes.size[served]
    every = np.array([busy_s(one) for one in setup.plan_tasks.templates])
    both = np.split(every, [len(devices)], axis=1)
    for named, asked in zip((devices, links), both, strict=True):
        for name, seconds in zip(list(named), asked.T, strict=True):
            if named[name].busy_s > 0:
                mine = np.zeros(outcomes.requests)
                mine[served] = seconds[template] / size
                named[name] = _with(named[name], mine, outcomes.fresh, gaps)
    return devices, links


def _with(use: Use, busy_s: Array, fresh: Array, gaps: Array) -> Use:
    """Return a use with the interval of its share, from busy seconds by request."""
    if math.isnan(use.utilization) or not use.busy_s:
        return use
    # Maximum possible busy seconds.
    whole = use.busy_s / use.utilization / gaps.sum()
    return replace(use, interval=_of(mean_of(busy_s / whole, fresh, gaps), use.utilization))


def _of(mean: Mean, figure: float) -> Mean | None:
    """Return the interval of a figure; None if requests do not account for all of it."""
    return mean if math.isclose(mean.estimate, figure, rel_tol=SAME, abs_tol=1e-12) else None


def ends_of(interval: Mean | None) -> Sequence[float]:
    """Return both ends of a valid interval, or nothing."""
    return () if interval is None or not interval.enough else (interval.low, interval.high)


PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9)
"""Percentiles of every stream, in addition to those of its objectives."""

NEVER_S = 1e18
"""Latency of rejected requests: finite, but above all others."""

UNLIKE = 2.0**8
"""Distance of equal latencies, in units of the last place of the latest time."""


def chosen(outcomes: Outcomes, which: Array) -> Outcomes:
    """Return a selection of the requests in order; the same object if all are selected."""
    if which.all():
        return outcomes
    parts: Any = (part[which] for part in outcomes)
    return Outcomes._make(parts)


def latencies(outcomes: Outcomes) -> Array:
    """Return the latency of every request, NEVER_S if it was rejected.

    Times late in a run are rounded more coarsely. Latencies are rounded to a common unit, so that
    equal ones stay equal and the count above a percentile does not depend on rounding.
    """
    return latencies_of(outcomes.arrival_s, outcomes.finish_s, outcomes.why)


def latencies_of(arrival_s: Array, finish_s: Array, why: Array) -> Array:
    """Return the result of ``latencies`` for these columns only."""
    served = why == SERVED
    unit_s = _unit_s(finish_s, served)
    return np.where(served, np.rint((finish_s - arrival_s) / unit_s) * unit_s, NEVER_S)


def _unit_s(finish_s: Array, served: Array) -> float:
    """Return the unit to which latencies are rounded."""
    latest_s = float(np.max(finish_s, where=served, initial=0.0))
    return UNLIKE * float(np.spacing(latest_s))


def rate_of(
    workload: Workload, streams: Sequence[Stream], since_s: float, until_s: float
) -> float | None:
    """Return the requests per second that `streams` state; None if clients are among them."""
    total = 0.0
    for stream in streams:
        arrivals, share = workload.arrivals_of(stream)
        if isinstance(arrivals, Closed):
            return None
        # A trace at a single instant has an infinite rate, and 0 times that is undefined.
        if share:
            total += _stated(arrivals, since_s, until_s) * share
    return total


def _stated(arrivals: Open, since_s: float, until_s: float) -> float:
    if not isinstance(arrivals, Replay) or not until_s > since_s:
        return arrivals.rate_per_s
    first_s, last_s = arrivals.span_s
    came_s = min(last_s, until_s) - max(first_s, since_s)
    part = max(came_s / (until_s - since_s), 0.0)
    return arrivals.rate_per_s * part if part else 0.0


def stability(
    workload: Workload, streams: Sequence[Stream], outcomes: Outcomes
) -> Stability | None:
    """Return how a model kept up with its requests; None without any."""
    if not len(outcomes.arrival_s):
        return None
    since_s, last_s = recent_from_s(outcomes.arrival_s), float(outcomes.arrival_s[-1])
    offered = rate_of(workload, streams, since_s, last_s)
    found = stability_of(outcomes.arrival_s, outcomes.finish_s, outcomes.fresh, offered)
    over = all(ended(workload.arrivals_of(stream)[0], last_s) for stream in streams)
    return replace(found, state="backlogged") if over and found.state == "overloaded" else found


def ended(arrivals: Open | Closed, last_s: float) -> bool:
    """Return whether arrivals are a trace that is over at `last_s`, with tolerance for rounding."""
    return isinstance(arrivals, Replay) and last_s >= arrivals.span_s[1] * (1 - 1e-12)


def stream_service(
    stream: Stream,
    outcomes: Outcomes,
    objectives: Sequence[tuple[Slo, Verdict]],
    *,
    alone_s: Array,
    stability: Stability | None,
    begin_s: float,
    end_s: float,
    innovation: Array | None = None,
) -> StreamService:
    """Return the figures of one stream."""
    served = outcomes.why == SERVED
    seconds = end_s - begin_s
    overloaded = stability is not None and stability.state == "overloaded"
    latency_s = latencies(outcomes)
    requests, answered = len(latency_s), int(np.count_nonzero(served))
    asked = sorted({*PERCENTILES, *(slo.percentile for slo in stream.slos)})
    percentiles: tuple[Percentile, ...] = ()
    if requests and not overloaded:
        percentiles = tuple(
            percentile_result(latency_s, outcomes.fresh, at, innovation) for at in asked
        )
    answered_s = latency_s[served]
    size = outcomes.size[served]
    load_s = outcomes.load_s[served]
    service_s = alone_s[outcomes.variant[served], outcomes.instance[served], size - 1]
    return StreamService(
        name=stream.name,
        model=stream.model,
        requests=requests,
        answered=answered,
        full=int(np.count_nonzero(outcomes.why == FULL)),
        expired=int(np.count_nonzero(outcomes.why == EXPIRED)),
        throughput_per_s=answered / seconds if seconds > 0 else math.nan,
        mean_s=float(answered_s.mean()) if answered else math.nan,
        percentiles=percentiles,
        queue=_part(_beyond(answered_s, service_s + load_s, _unit_s(outcomes.finish_s, served))),
        loading=_part(load_s),
        service=_part(service_s),
        batch=float(size.mean()) if answered else math.nan,
        objectives=tuple(
            Objective(
                slo,
                1 - verdict.late.share + verdict.late.luck,
                judged(slo, verdict, stability, rejects=answered < requests),
            )
            for slo, verdict in objectives
        ),
        mean=None if overloaded else by_request(outcomes),
        throughput=None if overloaded else answers_per_s(outcomes, begin_s, end_s),
    )


def queue_of(lengths: Lengths, model: int, duration_s: float) -> Queue:
    """Return the number of a model's waiting requests over time."""
    at_length = lengths.at_length_s[model]
    seen = np.flatnonzero(at_length > 0)
    most = int(seen[-1]) if len(seen) else 0
    windows = max(math.ceil(duration_s / lengths.window_s), 1) if lengths.window_s > 0 else 0
    waiting, inside = lengths.waiting_s[:windows, model], lengths.inside_s[:windows, model]
    return Queue(
        lengths.window_s,
        waiting / lengths.window_s,
        inside / lengths.window_s,
        float(waiting.sum()) / duration_s if duration_s > 0 else 0.0,
        float(inside.sum()) / duration_s if duration_s > 0 else 0.0,
        most,
        most == len(at_length) - 1,
    )


def percentile_result(
    latency_s: Array, fresh: Array, percentile: float, innovation: Array | None = None
) -> Percentile:
    """Return a percentile with its interval; infinite if it falls on rejected requests."""
    found = percentile_of(latency_s, fresh, percentile, innovation=innovation)
    ends = (found.estimate_s, found.low_s, found.high_s)
    estimate_s, low_s, high_s = (math.inf if end >= NEVER_S else end for end in ends)
    return replace(found, estimate_s=estimate_s, low_s=low_s, high_s=high_s)


def judged(slo: Slo, verdict: Verdict, stability: Stability | None, *, rejects: bool) -> Verdict:
    """Return the verdict; for an overloaded model it needs no interval.

    Its queue grows without bound, so all requests are eventually late; with rejection, at most the
    rate that the model sustains is on time.
    """
    if stability is None or stability.state != "overloaded" or verdict.answer != "undecided":
        return verdict
    most = stability.carried_per_s / stability.offered_per_s if rejects else 0.0
    if verdict.late.share > 1 - slo.share and most < slo.share:
        return replace(verdict, answer="misses", more=0)
    return verdict


def _beyond(latency_s: Array, service_s: Array, unit_s: float) -> Array:
    """Return the latencies above the service time; rounding differences count as 0."""
    beyond = latency_s - service_s
    return np.where(beyond > unit_s, beyond, 0.0)


def _part(seconds: Array) -> LatencyPart:
    if not len(seconds):
        return LatencyPart(math.nan, math.nan, math.nan, math.nan)
    p50_s, p99_s = np.percentile(seconds, (50, 99), method="inverted_cdf")
    return LatencyPart(float(seconds.mean()), float(p50_s), float(p99_s), float(seconds.max()))
