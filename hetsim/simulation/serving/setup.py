"""Setup of serving: models, streams of requests, and clients that wait for answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from hetsim.workload.deployment import Routing, TimeoutAction


@dataclass(frozen=True, slots=True, eq=False)
class ModelSetup:
    """Model with its instances, queues and batcher.

    Attributes
    ----------
    template : int array [variants, instances, max_batch_size]
        Template of a batch, by variant, instance and size 1, 2, ...
    limits : tuple of int
        Concurrent batches of each instance; 0: unlimited, as its plan pipelines them.
    routing : "round_robin", "shortest_queue" or "least_finish"
        Instance that gets a batch, among those with capacity: the next in `cycle`; that with the
        fewest batches; or that where it would end first, if batches there ran one after another.
        Ties go to the lowest.
    cycle : tuple of int
        Round-robin order of instances; empty: each once.
    ranks : tuple of int
        Rank on devices by priority level of a batch's first request, most urgent level first.
    max_queue_size : int, optional
        Maximum waiting requests per level; further ones are rejected. Absent: unlimited. 0:
        rejected unless an instance takes it at once.
    timeout_s : float
        Maximum seconds that a request waits; infinite: no limit.
    timeout_action : "reject" or "delay"
        Action on a request that waited longer: rejection, or a place behind all of its level that
        did not.
    preferred : tuple of int
        Ascending batch sizes that go at once; empty: only the largest.
    delay_s : float
        Seconds that the oldest request waits for others to join its batch.
    """

    template: NDArray[np.int64]
    limits: tuple[int, ...]
    routing: Routing = "shortest_queue"
    cycle: tuple[int, ...] = ()
    ranks: tuple[int, ...] = (0,)
    max_queue_size: int | None = None
    timeout_s: float = math.inf
    timeout_action: TimeoutAction = "reject"
    preferred: tuple[int, ...] = ()
    delay_s: float = 0.0

    @property
    def gated(self) -> bool:
        """Whether a request may wait before an instance takes it."""
        return self.template.shape[2] > 1 or any(self.limits)


@dataclass(frozen=True, slots=True, eq=False)
class Turns:
    """Memory that models share in turns: their weights are loaded when a batch needs them.

    `budget` are the shared bytes by device. By model and device, `weight` is what the model needs
    of them, 0 for none, and `fetch` the template that loads its weights, -1 for none; a model with
    any weight takes turns. `places` are the devices whose shared memory an instance needs, by model
    and instance.
    """

    budget: tuple[int, ...]
    weight: NDArray[np.int64]
    fetch: NDArray[np.int64]
    places: tuple[tuple[tuple[int, ...], ...], ...]


@dataclass(frozen=True, slots=True)
class RequestSource:
    """Model and priority level of a stream of requests; level 0 comes first."""

    model: int
    level: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Clients:
    """Stream whose clients each wait for an answer, think, and send their next request.

    `think` returns, for a block number, the think seconds of each client before each of its
    requests in the block, [turns, concurrency]. All requests are of one `variant` of the model.
    """

    stream: int
    concurrency: int
    think: Callable[[int], NDArray[np.float64]]
    variant: int = 0


class EngineOptions(TypedDict, total=False):
    """Options of engines, as in ``engine.Serving``."""

    requests: int | None
    until_s: float
    machine_code: bool


Floats = NDArray[np.float64]


class Outcomes(NamedTuple):
    """Outcomes of finished requests, in order of arrival.

    Times in seconds of arrival, dispatch to an instance, start of its first task, and answer;
    `size` of its batch. For rejected requests, `why` is FULL or EXPIRED instead of SERVED, all
    times but the arrival are NaN, the instance is -1 and the size 0. `fresh`: whether it arrived
    with an empty queue and an idle instance. `load_s` are the seconds before `sent_s` in which
    weights for its batch were loaded.
    """

    arrival_s: Floats
    sent_s: Floats
    begun_s: Floats
    finish_s: Floats
    stream: NDArray[np.int32]
    variant: NDArray[np.int32]
    instance: NDArray[np.int32]
    size: NDArray[np.int32]
    why: NDArray[np.int8]
    fresh: NDArray[np.bool_]
    load_s: Floats

    @property
    def requests(self) -> int:
        """Number of requests."""
        return len(self.arrival_s)

    @property
    def latency_s(self) -> Floats:
        """Seconds from arrival to answer."""
        return self.finish_s - self.arrival_s

    @classmethod
    def joined(cls, parts: Sequence[Outcomes]) -> Outcomes:
        """Return the concatenation of consecutive outcomes."""
        columns: Any = zip(*parts, strict=True)
        return cls(*(np.concatenate(column) for column in columns))


class Residency(NamedTuple):
    """Residency of the weights of models that take turns in memory, by model and device.

    Number of loads; their seconds, queueing on links included; seconds for which memory was
    allocated, loading included; and by device the maximum bytes allocated to models at once.
    """

    loads: NDArray[np.int64]
    loading_s: Floats
    resident_s: Floats
    most: NDArray[np.int64]


class Lengths(NamedTuple):
    """Numbers of waiting and of ongoing requests over time.

    By window of `window_s` seconds, from `begin_s` on, and model: request-seconds in the queue, and
    in queue or instances; the last window ends with the last event. `at_length_s` [models, bins]:
    seconds by number of waiting requests, with all larger numbers in the last bin.
    """

    begin_s: float
    window_s: float
    waiting_s: Floats
    inside_s: Floats
    at_length_s: Floats
