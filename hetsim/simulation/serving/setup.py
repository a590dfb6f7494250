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
class Model:
    """One model: its instances, its queues, its batcher.

    Attributes
    ----------
    template : int array [variants, instances, max_batch_size]
        Which template a batch runs: of its variant, on an instance, of size 1, 2, ...
    limits : tuple of int
        Batches that each instance takes at a time; 0: any number, as its plan pipelines them.
    routing : "round_robin", "shortest_queue" or "least_finish"
        Which instance gets a batch, of those that take one more: the next in `cycle`; that with
        the fewest batches; or that in which it would end first, were each batch alone with those
        before it there. Of equals the lowest.
    cycle : tuple of int
        Instances in the order of round robin; empty: each once.
    ranks : tuple of int
        One for each level of priority, the most urgent first: the rank on devices of a batch
        whose first request has this level.
    max_queue_size : int, optional
        Requests that may wait in a level; a further one is rejected. Absent: any number. 0: a
        request is rejected unless an instance takes it at once.
    timeout_s : float
        How long a request may wait; infinite: for ever.
    timeout_action : "reject" or "delay"
        Of a request that waited longer: it is rejected, or goes after all of its level that
        did not.
    preferred : tuple of int
        Ascending sizes of batches that go at once; empty: the largest alone.
    delay_s : float
        How long the oldest request waits for others to join it.
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
    """Memory that models share by turns: their weights are loaded when a batch needs them.

    Attributes
    ----------
    budget : tuple of int [devices]
        Bytes in which they take turns.
    weight : int array [models, devices]
        Bytes that each needs there; 0: none, or it has its own. A model with any takes turns.
    fetch : int array [models, devices]
        The template that loads its weights; -1: nothing is to be loaded.
    places : tuple of tuple of tuple of int [models][instances]
        Devices of which an instance needs those bytes.
    """

    budget: tuple[int, ...]
    weight: NDArray[np.int64]
    fetch: NDArray[np.int64]
    places: tuple[tuple[tuple[int, ...], ...], ...]


@dataclass(frozen=True, slots=True)
class Source:
    """Model and priority level of a stream of requests; level 0 comes first."""

    model: int
    level: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Clients:
    """A stream whose clients each wait for an answer, think, and send their next request.

    Attributes
    ----------
    stream : int
    concurrency : int
    think : function
        Of the number of a block: how long each client thinks before each of its requests in it,
        float array [turns, concurrency], in seconds.
    variant : int
        Of its model: what all its requests are.
    """

    stream: int
    concurrency: int
    think: Callable[[int], NDArray[np.float64]]
    variant: int = 0


class Options(TypedDict, total=False):
    """Options of engines, as in ``engine.Serving``."""

    requests: int | None
    until_s: float
    machine_code: bool


Floats = NDArray[np.float64]


class Outcomes(NamedTuple):
    """Requests that are over, in the order in which they came.

    Of those that were rejected `sent_s`, `begun_s` and `finish_s` are NaN, the instance -1 and
    the size 0.

    Attributes
    ----------
    arrival_s, sent_s, begun_s, finish_s : float64[requests]
        When each came, went to an instance, had its first task started, and was answered.
    stream, variant, instance : int32[requests]
    size : int32[requests]
        Of the batch that it was in.
    why : int8[requests]
        SERVED, or FULL or EXPIRED: why it was rejected.
    fresh : bool[requests]
        Whether nobody waited when it came, and an instance had nothing to do.
    load_s : float64[requests]
        For how long before `sent_s` the weights were loaded that its batch needed.
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
        """From arrival to answer."""
        return self.finish_s - self.arrival_s

    @classmethod
    def joined(cls, parts: Sequence[Outcomes]) -> Outcomes:
        """Return several that follow each other as one."""
        columns: Any = zip(*parts, strict=True)
        return cls(*(np.concatenate(column) for column in columns))


class Residency(NamedTuple):
    """Of models that take turns in memory: whose weights were there.

    Attributes
    ----------
    loads : int64[models, devices]
        How often they were loaded.
    loading_s : float64[models, devices]
        For how long, queues of links included.
    resident_s : float64[models, devices]
        For how long they had their room, loading included.
    most : int64[devices]
        Bytes that models ever had at once.
    """

    loads: NDArray[np.int64]
    loading_s: Floats
    resident_s: Floats
    most: NDArray[np.int64]


class Lengths(NamedTuple):
    """Numbers of waiting and of ongoing requests over time.

    Attributes
    ----------
    begin_s, window_s : float
        When the first window begins, and how long each is.
    waiting_s, inside_s : float64[windows, models]
        Requests times seconds: in the queue of a model; there or at its instances. The last
        window ends with what was last played.
    at_length_s : float64[models, bins]
        Seconds for which so many waited; in the last bin that many and more.
    """

    begin_s: float
    window_s: float
    waiting_s: Floats
    inside_s: Floats
    at_length_s: Floats
