"""The answer: what became of a workload on a deployment."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hetsim.simulation.service.failed import Failed
from hetsim.simulation.service.resolving import Resolved
from hetsim.simulation.service.scaled import Scaled
from hetsim.simulation.service.stability import STATES, Stability, State
from hetsim.simulation.serving.setup import Outcomes
from hetsim.statistics.intervals import Mean, Percentile
from hetsim.statistics.verdict import End, Verdict
from hetsim.workload.failure import Failure
from hetsim.workload.workload import Slo, Stream, Workload


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the latencies of one stream: seconds in a queue, or of service.

    Attributes
    ----------
    mean_s, p50_s, p99_s, max_s : float
        Of those that were answered; NaN where none was.
    """

    mean_s: float
    p50_s: float
    p99_s: float
    max_s: float


@dataclass(frozen=True, slots=True)
class Objective:
    """One objective of a stream, and what the run says of it.

    Attributes
    ----------
    slo : Slo
    on_time : float
        Share of the requests that were answered in time; rejected ones were not.
    verdict : Verdict
        Its ``more`` says about how many more requests would tell; its ``mlperf`` what LoadGen
        says.
    """

    slo: Slo
    on_time: float
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class StreamService:
    """What became of the requests of one stream, those of the warm-up left out.

    Attributes
    ----------
    name, model : str
    requests : int
        That came.
    answered, full, expired : int
        Of these, answered; rejected as the queue was full; rejected as they waited too long.
    throughput_per_s : float
        Answers a second, from the end of the warm-up to the last arrival or answer.
    mean_s : float
        Latency of those answered; NaN where none was.
    percentiles : tuple of Percentile
        Of the latency of all that came, each with its interval; a rejected one is infinitely
        late. None where the model is overloaded: there are none then.
    queue : Part
        What a request took beyond what its batch takes alone: waiting for an instance and for
        others in its batch, and for devices, links and memory that others hold.
    loading : Part
        What it waited while the weights were loaded that its batch needed; 0 where its model is
        in memory all along.
    service : Part
        What its batch takes alone.
    batch : float
        Mean size of the batch that a request was in; NaN where none was answered.
    objectives : tuple of Objective
    mean, throughput : Mean or None
        The mean latency and the answers a second with their intervals; None where the model is
        overloaded, or none was answered.
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
        known = {one.percentile: one.estimate_s for one in self.percentiles}
        return known.get(99.0, math.nan)


@dataclass(frozen=True, slots=True, eq=False)
class Queue:
    """How many requests of a model waited, over time.

    Attributes
    ----------
    window_s : float
    waiting, inside : float64[windows]
        Mean number in each window that waited for an instance, and that had come and were not
        over.
    mean, mean_inside : float
        Over the whole run.
    most : int
        The most that waited at once; `beyond` says whether it may have been more.
    beyond : bool
    mean_interval, inside_interval : Mean or None
        Of the two means; None where the model is overloaded, or some waited too long.
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
    model, device : str
    loads : int
        How often they were loaded over the whole run; what fits is there when it starts.
    nbytes : int
        Of each load.
    alone_s : float
        What one takes where links are free.
    seconds : float
        Of all, with what they waited for links.
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
    """How much of a device, a link or an instance was used, over the whole run.

    Attributes
    ----------
    busy_s : float
        Summed over streams of a device, and batches under way in an instance.
    utilization : float
        Of what it could be busy; NaN of an instance without a limit. Of an instance of a model that
        is autoscaled, of the time in which a replica was alive in its place.
    energy_j : float
        Of a device; NaN of what has no power stated: links and instances.
    interval : Mean or None
        Of the utilization; None where a model is overloaded, or it is not of requests alone.
    """

    busy_s: float
    utilization: float
    energy_j: float
    interval: Mean | None = None


@dataclass(frozen=True, slots=True)
class ModelService:
    """One model: how it kept up, its queue, and its instances.

    Attributes
    ----------
    model : str
    stability : Stability or None
        None where nothing came.
    queue : Queue
    instances : tuple of Use
    batches : int
    utilization : float
        Of all instances, of the time that they were there; NaN where one has no limit.
    """

    model: str
    stability: Stability | None
    queue: Queue
    instances: tuple[Use, ...]
    batches: int
    utilization: float

    @property
    def overloaded(self) -> bool:
        """Whether it gets more than it carries, so that none of its means holds."""
        return self.stability is not None and self.stability.state == "overloaded"


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """The first requests of a run one by one, and what failed during all of it.

    Attributes
    ----------
    outcomes : Outcomes
    happened : tuple of Failure
    """

    outcomes: Outcomes
    happened: tuple[Failure, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Service:
    """What became of a workload on a deployment.

    Attributes
    ----------
    workload : Workload
    resolved : tuple of Resolved
        The models that were served, with their plans.
    streams : tuple of StreamService
        As in the workload.
    models : tuple of ModelService
        As in the deployment.
    devices, links : mapping of str to Use
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
    loading : tuple of Loading
        Of models that are loaded on demand, by device.
    bottleneck : str
        What is used most: a device, a link, or the instances of a model.
    end : "answered", "budget" or "ended"
        Every objective was answered, the budget was spent, or no more requests came.
    failures : Failed or None
        What failures did; None where none was asked for.
    scaled : tuple of Scaled
        What became of the replicas of models that are autoscaled.
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
        """About how many requests of all streams together it takes until all objectives are told.

        As many as were played where nothing is undecided.
        """
        times = 2.0 if self.untold else 1.0
        for stream in self.streams:
            for one in stream.objectives:
                times = max(times, 1 + one.verdict.more / max(stream.requests, 1))
        return math.ceil(times * self.requests)

    def per_1000(self, whole: float) -> float | None:
        """Return so much of the run for a thousand requests on time; None where none was."""
        return 1000 * whole / self.on_time if self.on_time else None
