"""Service: results of a workload on a deployment."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from hetsim.core.result import Result
from hetsim.simulation.service.replicas import Scaled
from hetsim.simulation.service.resolution import Resolved
from hetsim.simulation.serving.setup import Outcomes
from hetsim.statistics.intervals import Mean, Percentile, percentile_at
from hetsim.statistics.verdict import End, Verdict
from hetsim.workload.failure import Failure
from hetsim.workload.workload import Slo, Stream, Workload

State = Literal["stable", "backlogged", "overloaded"]
STATES: tuple[State, ...] = ("stable", "backlogged", "overloaded")
"""From the best to the worst."""

Seconds: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

LATELY = 0.1
"""The last part of a run, which tells what still comes: a trace may have ended before it."""

SIGMAS = 3.0
"""Deviations that chance alone may make a backlog of, before it counts as one."""


@dataclass(frozen=True, slots=True)
class Stability:
    """Whether a model keeps up with its requests over a run.

    Attributes
    ----------
    caught_up_s : float
        When a request last found nothing to wait for; the start where none did.
    backlog : int
        Requests that had come since then and were not answered when the last one came.
    offered_per_s : float
        Requests a second that come at the end of the run: as their arrivals state it.
    carried_per_s : float
        Requests a second that were answered from `caught_up_s` until the last one came, or NaN;
        until all were where none was before that, of what is not stable.
    """

    state: State
    caught_up_s: float
    backlog: int
    offered_per_s: float
    carried_per_s: float


def stability_of(
    arrival_s: Seconds,
    finish_s: Seconds,
    fresh: np.ndarray[Any, np.dtype[np.bool_]],
    offered_per_s: float | None,
) -> Stability:
    """Return whether a model kept up with the requests of a run.

    It is *stable* where requests found nothing to wait for in the second half of the run still,
    or where it since answered all that came but for what chance makes: what is left of n requests
    deviates by the root of n times the squared variations of gaps between arrivals and between
    answers. Else it was busy all the time since it last caught up, so what it answered since
    then is what it carries. It is *overloaded* where requests come faster than that over a
    long time, and *backlogged* where they do not: so many came at once, or the run is short.

    Parameters
    ----------
    arrival_s, finish_s : float64[requests]
        In the order of arrival; NaN for the end of what was rejected.
    fresh : bool[requests]
        Those with which a busy period begins.
    offered_per_s : float, optional
        As their arrivals state it from ``lately_s`` on. Absent: as many as came, of clients
        among others; they never overload on their own.

    Complexity: O(n log n).
    """
    first_s, last_s = float(arrival_s[0]), float(arrival_s[-1])
    begins = np.flatnonzero(fresh)
    caught_up_s = float(arrival_s[begins[-1]]) if len(begins) else first_s
    long_s = last_s - first_s
    came = offered_per_s if offered_per_s is not None else _rate(len(arrival_s) - 1, long_s)
    since_s = last_s - caught_up_s
    answers = np.sort(finish_s[finish_s > caught_up_s])
    ends = answers[answers <= last_s]
    since = arrival_s >= caught_up_s
    left = int(np.count_nonzero(since & ~(finish_s <= last_s)))
    carried = _rate(len(ends), since_s)
    state: State = "stable"
    if since_s > long_s / 2:
        gaps = np.diff(arrival_s[since])
        chance = len(gaps) * (_variation(gaps) + _variation(np.diff(ends)))
        if left > 1 + SIGMAS * math.sqrt(chance):
            if not len(ends) and len(answers):
                # All came before the first was answered: what it answers afterwards tells.
                carried = _rate(len(answers), float(answers[-1]) - caught_up_s)
            state = "overloaded" if came > carried else "backlogged"
    return Stability(state, caught_up_s, left, came, carried)


def lately_s(arrival_s: Seconds) -> float:
    """Return since when requests tell what still comes."""
    first_s, last_s = float(arrival_s[0]), float(arrival_s[-1])
    return last_s - LATELY * (last_s - first_s)


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 else math.nan


def _variation(gaps: Seconds) -> float:
    """Squared coefficient of variation; 0 of fewer than two gaps."""
    mean = float(gaps.mean()) if len(gaps) > 1 else 0.0
    return float(gaps.var()) / mean**2 if mean else 0.0


@dataclass(frozen=True, slots=True)
class Window:
    """A time in which failures were felt by a model.

    It begins when a device stopped that serves it, and ends when no more requests are inside than
    then or, if that is more, than on average before the first failure. A failure before the end of
    another makes it longer. From `works_s` on all that still serves the model worked.
    """

    begin_s: float
    works_s: float = math.inf
    end_s: float = math.inf


@dataclass(frozen=True, slots=True)
class Period:
    """Requests of one stream before, during or after failures.

    `mean_s` is of those answered; percentiles are of all, where rejected ones are infinitely late;
    `on_time` is the share answered in time, by objective of the stream.
    """

    requests: int
    answered: int
    rejected: int
    mean_s: float
    percentiles: tuple[Percentile, ...]
    on_time: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class StreamFailed:
    """Effects of failures on one stream after the warm-up.

    Attributes
    ----------
    before, during, after : Period
        *During* are requests that were inside at some time of a window of their model; *before*
        those of the others that came before its first, *after* the rest: between windows, too.
    lost : int
        Requests something of whose work was cut off, or had to run again.
    retried : int
        Requests that were taken back from an instance, and sent anew.
    """

    name: str
    before: Period
    during: Period
    after: Period
    lost: int
    retried: int


@dataclass(frozen=True, slots=True)
class ModelFailed:
    """Effects of failures on one model.

    `available` is the share of the time in which some instance of it worked; `outages` are times
    in which none did.
    """

    model: str
    available: float
    outages: int
    windows: tuple[Window, ...]

    @property
    def recoveries_s(self) -> tuple[float, ...]:
        """From the begin of each window to its end, where it has one."""
        return tuple(one.end_s - one.begin_s for one in self.windows if math.isfinite(one.end_s))


@dataclass(frozen=True, slots=True)
class DeviceFailed:
    """Failures of one device, and its downtime before reloading."""

    device: str
    failures: int
    down_s: float


@dataclass(frozen=True, slots=True)
class Failed:
    """Effects of failures on devices, models and streams.

    `cut_s` is how long devices had run what was cut off; `random`, whether some were random.
    """

    devices: tuple[DeviceFailed, ...]
    models: tuple[ModelFailed, ...]
    streams: tuple[StreamFailed, ...]
    cut_s: float
    random: bool


@dataclass(frozen=True, slots=True)
class Part:
    """Part of the latencies of one stream that were answered; NaN where none was."""

    mean_s: float
    p50_s: float
    p99_s: float
    max_s: float


@dataclass(frozen=True, slots=True)
class Objective:
    """One objective of a stream, the share of requests answered in time, and the verdict."""

    slo: Slo
    on_time: float
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class StreamService:
    """Outcomes of one stream's requests after the warm-up.

    Attributes
    ----------
    requests, answered, full, expired : int
        That came; of these, answered; rejected as the queue was full; as they waited too long.
    throughput_per_s : float
        Answers a second, from the end of the warm-up to the last arrival or answer.
    mean_s : float
        Latency of those answered; NaN where none was.
    percentiles : tuple of Percentile
        Of the latency of all that came, where a rejected one is infinitely late; empty where the
        model is overloaded.
    queue : Part
        What a request took beyond what its batch takes alone: waiting for an instance and for
        others in its batch, and for devices, links and memory that others hold.
    loading : Part
        What it waited for weights that were loaded on demand.
    service : Part
        What its batch takes alone.
    batch : float
        Mean size of the batch that a request was in; NaN where none was answered.
    mean, throughput : Mean or None
        With their intervals; None where the model is overloaded, or none was answered.
    """

    name: str
    model: str
    requests: int
    answered: int
    full: int
    expired: int
    throughput_per_s: float
    mean_s: float
    percentiles: tuple[Percentile, ...]
    queue: Part
    loading: Part
    service: Part
    batch: float
    objectives: tuple[Objective, ...]
    mean: Mean | None
    throughput: Mean | None

    @property
    def p99_s(self) -> float:
        """The 99th percentile; NaN where there is none, inf where those requests were rejected."""
        known = percentile_at(self.percentiles, 99.0)
        return math.nan if known is None else known.estimate_s


@dataclass(frozen=True, slots=True, eq=False)
class Queue:
    """Numbers of waiting and of ongoing requests of a model over time.

    By window (float64[windows]) and over the whole run, with intervals (None where the model is
    overloaded, or some waited too long). At most `most` waited at once, or more if `beyond`.
    """

    window_s: float
    waiting: np.ndarray[Any, np.dtype[np.float64]]
    inside: np.ndarray[Any, np.dtype[np.float64]]
    mean: float
    mean_inside: float
    most: int
    beyond: bool
    mean_interval: Mean | None = None
    inside_interval: Mean | None = None


@dataclass(frozen=True, slots=True)
class Loading:
    """One model's weights in one device's memory, where they are loaded on demand.

    Attributes
    ----------
    loads : int
        How often they were loaded over the whole run; what fits is there when it starts.
    nbytes : int
        Of each load.
    alone_s, seconds : float
        What one takes where links are free, and all, with what they waited for links.
    resident : float
        Share of the run in which they had their room.
    """

    model: str
    device: str
    loads: int
    nbytes: int
    alone_s: float
    seconds: float
    resident: float


@dataclass(frozen=True, slots=True)
class Use:
    """Utilization of a device, a link or an instance over the whole run.

    Attributes
    ----------
    busy_s : float
        Summed over streams of a device, and batches under way in an instance.
    utilization : float
        Of what it could be busy, NaN of an instance without a limit; of an instance of a model that
        is autoscaled, of the time in which a replica was alive in its place.
    energy_j : float
        Of a device; NaN of links and instances.
    interval : Mean or None
        Of the utilization; None where a model is overloaded, or it is not of requests alone.
    """

    busy_s: float
    utilization: float
    energy_j: float
    interval: Mean | None = None


@dataclass(frozen=True, slots=True)
class ModelService:
    """One model: how it kept up (None where nothing came), its queue, and its instances.

    `utilization` is of all instances, of the time that they were there; NaN where one has no limit.
    """

    model: str
    stability: Stability | None
    queue: Queue
    instances: tuple[Use, ...]
    batches: int
    utilization: float

    @property
    def overloaded(self) -> bool:
        """Whether it gets more requests than it sustains, so that its means are meaningless."""
        return self.stability is not None and self.stability.state == "overloaded"


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """The first requests of a run one by one, and what failed during all of it."""

    outcomes: Outcomes
    happened: tuple[Failure, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Service(Result):
    """Result of a workload on a deployment.

    Attributes
    ----------
    resolved : tuple of Resolved
        The models that were served, with their plans.
    streams, models
        As in the workload, and as in the deployment.
    requests : int
        That were played, those of the warm-up too.
    duration_s : float
        From 0 to the last answer.
    on_time : int
        Requests that were answered within the longest latency of their stream's objectives;
        of streams without, all that were answered.
    energy_j : float
        Of all devices over `duration_s`, idle or busy.
    memory_bytes : mapping of str to int
        By device: the most that models hold of it at once.
    bottleneck : str
        What is used most: a device, a link, or the instances of a model.
    end : "answered", "budget" or "ended"
        Every objective was answered, the budget was spent, or no more requests came.
    loading, failures, scaled
        Of models that are loaded on demand, of failures that were asked for, of replicas.
    kept : Kept or None
        Single requests, where they were asked for; not compared.
    """

    workload: Workload
    resolved: tuple[Resolved, ...] = field(repr=False)
    streams: tuple[StreamService, ...]
    models: tuple[ModelService, ...]
    devices: Mapping[str, Use]
    links: Mapping[str, Use]
    requests: int
    duration_s: float
    on_time: int
    energy_j: float
    memory_bytes: Mapping[str, int]
    bottleneck: str
    end: End
    loading: tuple[Loading, ...] = ()
    failures: Failed | None = None
    scaled: tuple[Scaled, ...] = ()
    kept: Kept | None = field(default=None, repr=False)

    @property
    def state(self) -> State:
        """The worst of its models."""
        found = [one.stability.state for one in self.models if one.stability is not None]
        return max(found, key=STATES.index, default="stable")

    @property
    def energy_per_1000_j(self) -> float | None:
        """Joules for a thousand requests on time; None where none was."""
        return self.per_1000(self.energy_j)

    @property
    def untold(self) -> tuple[Stream, ...]:
        """Streams with objectives of which no request came, though chance may make some."""
        if not self.workload.drawn:
            return ()
        found = zip(self.workload.streams, self.streams, strict=True)
        return tuple(stream for stream, one in found if stream.slos and not one.objectives)

    @property
    def requests_to_tell(self) -> int:
        """Approximate number of requests of all streams until every objective is decided.

        As many as were played where nothing is undecided.
        """
        times = 2.0 if self.untold else 1.0
        for stream in self.streams:
            for one in stream.objectives:
                times = max(times, 1 + one.verdict.more / max(stream.requests, 1))
        return math.ceil(times * self.requests)

    def per_1000(self, whole: float) -> float | None:
        """Return this amount of the run per thousand requests on time; None where none was."""
        return 1000 * whole / self.on_time if self.on_time else None
