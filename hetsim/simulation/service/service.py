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
from hetsim.workload.workload import Slo, Workload

State = Literal["stable", "backlogged", "overloaded"]
STATES: tuple[State, ...] = ("stable", "backlogged", "overloaded")
"""States from best to worst."""

Seconds: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

LATELY = 0.1
"""Final share of a run used for the current rate, as a trace may have ended before it."""

SIGMAS = 3.0
"""Standard deviations that a backlog by chance alone may have before it counts as one."""


@dataclass(frozen=True, slots=True)
class Stability:
    """Whether a model keeps up with its requests over a run.

    At `caught_up_s`, the start without any, an arrival last did not have to wait; of the requests
    since then, `backlog` were unanswered when the last one arrived. `offered_per_s` is the rate at
    the end of the run, as stated by the arrivals; `carried_per_s` that of answers from
    `caught_up_s` to the last arrival, or NaN; to the last answer if none came before that and the
    model is not stable.
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

    It is *stable* if requests still found nothing to wait for in the second half of the run, or if
    it has since answered all but a random backlog: that of n requests deviates by the root of n
    times the squared variations of gaps between arrivals and between answers. Otherwise it was busy
    since it last caught up, so its rate of answers since then is what it sustains. It is
    *overloaded* if requests arrive faster than that in the long run, and otherwise *backlogged*: by
    a burst, or because the run is short.

    Parameters
    ----------
    arrival_s, finish_s : float64[requests]
        In order of arrival; NaN for the end of rejected requests.
    fresh : bool[requests]
        Requests with which a busy period begins.
    offered_per_s : float, optional
        Rate stated by the arrivals from ``recent_from_s`` on. Absent: the observed rate, e.g. with
        clients, which never overload on their own.

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
                # All arrived before the first answer, so later answers show the rate.
                carried = _rate(len(answers), float(answers[-1]) - caught_up_s)
            state = "overloaded" if came > carried else "backlogged"
    return Stability(state, caught_up_s, left, came, carried)


def recent_from_s(arrival_s: Seconds) -> float:
    """Return the time from which requests represent the current rate."""
    first_s, last_s = float(arrival_s[0]), float(arrival_s[-1])
    return last_s - LATELY * (last_s - first_s)


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 else math.nan


def _variation(gaps: Seconds) -> float:
    """Return the squared coefficient of variation; 0 for fewer than two gaps."""
    mean = float(gaps.mean()) if len(gaps) > 1 else 0.0
    return float(gaps.var()) / mean**2 if mean else 0.0


@dataclass(frozen=True, slots=True)
class Window:
    """Interval in which failures affected a model.

    It begins when a device that serves it stops, and ends when no more requests are inside than
    then or, if that is more, than the mean before the first failure. A failure before the end
    extends it. From `works_s` on all remaining parts of the model worked.
    """

    begin_s: float
    works_s: float = math.inf
    end_s: float = math.inf


@dataclass(frozen=True, slots=True)
class Period:
    """Requests of one stream before, during or after failures.

    `mean_s` covers answered requests; percentiles cover all, with rejected ones infinitely late;
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

    *During*: requests inside at some time in a window of their model; *before*: others that arrived
    before the first window; *after*: the rest, including between windows. Of `lost` requests a task
    was cut off or had to run again; those `retried` were taken back from an instance and sent
    again.
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

    `available` is the share of time in which some instance of it worked; `outages` are intervals in
    which none did.
    """

    model: str
    available: float
    outages: int
    windows: tuple[Window, ...]

    @property
    def recoveries_s(self) -> tuple[float, ...]:
        """Duration of each finished window."""
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

    `cut_s` is the device time spent on cut-off tasks; `random`, whether some failures were random.
    """

    devices: tuple[DeviceFailed, ...]
    models: tuple[ModelFailed, ...]
    streams: tuple[StreamFailed, ...]
    cut_s: float
    random: bool


@dataclass(frozen=True, slots=True)
class LatencyPart:
    """Component of the latencies of a stream's answered requests; NaN without any."""

    mean_s: float
    p50_s: float
    p99_s: float
    max_s: float


@dataclass(frozen=True, slots=True)
class Objective:
    """Objective of a stream, with the share of requests answered in time and the verdict."""

    slo: Slo
    on_time: float
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class StreamService:
    """Outcomes of one stream's requests after the warm-up.

    Of all requests, some are answered, some rejected by a `full` queue, and some `expired`:
    rejected by timeout. `throughput_per_s` are answers per second, from the end of the warm-up to
    the last arrival or answer; `mean_s` is the latency of answered requests, NaN without any. In
    `percentiles` rejected requests are infinite; empty if overloaded.

    A latency is the sum of three: `service`, that of its batch alone; `loading`, waiting for
    weights loaded on demand; and `queue`, the rest: waiting for an instance, for others in its
    batch, and for devices, links and memory held by others. `batch` is the mean batch size of a
    request, NaN without answers. `mean` and `throughput` are with intervals; None if the model is
    overloaded, or without answers.
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
    queue: LatencyPart
    loading: LatencyPart
    service: LatencyPart
    batch: float
    objectives: tuple[Objective, ...]
    mean: Mean | None
    throughput: Mean | None

    @property
    def p99_s(self) -> float:
        """99th percentile of latency; NaN if unknown, inf if it falls on rejected requests."""
        known = percentile_at(self.percentiles, 99.0)
        return math.nan if known is None else known.estimate_s


@dataclass(frozen=True, slots=True, eq=False)
class Queue:
    """Numbers of waiting and of ongoing requests of a model over time.

    By window (float64[windows]) and over the whole run, with intervals (None if the model is
    overloaded, or some requests timed out). At most `most` waited at once, or more if `beyond`.
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
    """Loading of one model's weights on demand into one device's memory.

    Number of loads over the whole run, as weights that fit are loaded at the start, and bytes of
    each; seconds of one load over idle links, and of all, waiting for links included; share of the
    run in which memory was allocated to them.
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

    `busy_s` is summed over a device's streams, or an instance's batches. `utilization` is the share
    of its maximum busy time, NaN without a limit; if autoscaled, of the time with a living replica;
    its `interval` is None if a model is overloaded or not only requests count. `energy_j` is that
    of a device; NaN for links and instances.
    """

    busy_s: float
    utilization: float
    energy_j: float
    interval: Mean | None = None


@dataclass(frozen=True, slots=True)
class ModelService:
    """Results of one model: stability (None without requests), queue and instances.

    `utilization` is that of all instances over their existence; NaN if one has no limit.
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
class KeptRequests:
    """First requests of a run one by one, and all its failures."""

    outcomes: Outcomes
    happened: tuple[Failure, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Service(Result):
    """Result of a workload on a deployment.

    Attributes
    ----------
    resolved : tuple of Resolved
        Served models with their plans.
    streams, models
        In the order of the workload, and of the deployment.
    requests : int
        Number of simulated requests, warm-up included.
    duration_s : float
        Seconds from 0 to the last answer.
    on_time : int
        Requests answered within the longest latency of their stream's objectives; for streams
        without objectives, all answered requests.
    energy_j : float
        Energy of all devices over `duration_s`, idle or busy.
    memory_bytes : mapping of str to int
        By device: maximum bytes that models hold at once.
    bottleneck : str
        Most utilized device, link, or model's instances.
    end : "answered", "budget" or "ended"
        All objectives were decided, the budget was spent, or no more requests came.
    loading, failures, scaled
        Results for models loaded on demand, requested failures, and replicas.
    kept : KeptRequests or None
        Single requests, if requested; not compared.
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
    kept: KeptRequests | None = field(default=None, repr=False)

    @property
    def state(self) -> State:
        """Worst state of its models."""
        found = [one.stability.state for one in self.models if one.stability is not None]
        return max(found, key=STATES.index, default="stable")

    @property
    def energy_per_1000_j(self) -> float | None:
        """Joules per thousand requests on time; None without any."""
        return self.per_1000(self.energy_j)

    @property
    def requests_to_tell(self) -> int:
        """Approximate number of requests of all streams until every objective is decided.

        Equals the number simulated if nothing is undecided.
        """
        times = 1.0
        for stream in self.streams:
            for one in stream.objectives:
                times = max(times, 1 + one.verdict.more / max(stream.requests, 1))
        return math.ceil(times * self.requests)

    def per_1000(self, whole: float) -> float | None:
        """Return this amount of the run per thousand requests on time; None without any."""
        return 1000 * whole / self.on_time if self.on_time else None
