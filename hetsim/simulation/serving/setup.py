"""Setup of serving: models, streams of requests, and clients that wait for answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from hetsim.errors import UsageError, nearest

Routing = Literal["round_robin", "shortest_queue", "least_finish"]
ROUTINGS: tuple[Routing, ...] = ("round_robin", "shortest_queue", "least_finish")
TimeoutAction = Literal["reject", "delay"]
TIMEOUT_ACTIONS: tuple[TimeoutAction, ...] = ("reject", "delay")


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

    def __post_init__(self) -> None:
        table = np.asarray(self.template, dtype=np.int64)
        if table.ndim != 3 or table.size == 0:
            raise UsageError(
                f"templates of shape {table.shape}",
                hint="give one for each variant, instance and size: three dimensions",
            )
        object.__setattr__(self, "template", table)
        instances, largest = table.shape[1:]
        if len(self.limits) != instances or min(self.limits) < 0:
            raise UsageError(
                f"limits {self.limits} of {instances} instances",
                hint="use one per instance: batches at a time, 0 for no limit",
            )
        _known(self.routing, ROUTINGS, "routing")
        _known(self.timeout_action, TIMEOUT_ACTIONS, "timeout_action")
        if any(not 0 <= instance < instances for instance in self.cycle):
            raise UsageError(f"cycle {self.cycle} of {instances} instances")
        missing = set(range(instances)) - set(self.cycle)
        if self.cycle and missing and self.gated:
            raise UsageError(
                f"cycle {self.cycle} leaves out instance {min(missing)}",
                hint="name each of its instances",
            )
        if not self.ranks or min(self.ranks) < 0:
            raise UsageError(f"ranks {self.ranks}", hint="give one a level, 0 or more")
        if self.max_queue_size is not None and self.max_queue_size < 0:
            raise UsageError(f"a queue of {self.max_queue_size} requests", hint="use 0 or more")
        if not self.timeout_s > 0:
            raise UsageError(f"a timeout of {self.timeout_s} s", hint="use more than 0")
        if not 0 <= self.delay_s < math.inf:
            raise UsageError(f"a delay of {self.delay_s} s", hint="use 0 or more")
        sizes = self.preferred
        if list(sizes) != sorted(set(sizes)) or any(not 1 <= size <= largest for size in sizes):
            raise UsageError(
                f"preferred sizes {sizes} of batches of up to {largest}",
                hint="use ascending ones of 1 or more, none above the largest",
            )

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

    def __post_init__(self) -> None:
        weight = np.asarray(self.weight, dtype=np.int64)
        if weight.shape != (len(self.places), len(self.budget)):
            raise UsageError(f"bytes of shape {weight.shape}", hint="give [models, devices]")
        for at, instances in enumerate(self.places):
            for places in instances:
                if any(weight[at, device] == 0 for device in places):
                    raise UsageError(f"model {at} needs no bytes of one of {places}")
        if (weight > np.asarray(self.budget)).any():
            raise UsageError("a model needs more bytes than its device has for turns")


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


def check_sources(models: int, levels: list[int], sources: tuple[Source, ...]) -> None:
    """Raise UsageError where a stream asks for a model or a level that is not there."""
    for at, source in enumerate(sources):
        if not 0 <= source.model < models:
            raise UsageError(f"stream {at} asks for model {source.model} of {models}")
        if not 0 <= source.level < levels[source.model]:
            raise UsageError(
                f"stream {at} has level {source.level} of {levels[source.model]}",
                hint="give the model a rank for each level",
            )


def check_turns(turns: Turns, models: Sequence[Model], templates: int) -> None:
    """Raise UsageError where models cannot take these turns, or templates are not there."""
    if [len(each) for each in turns.places] != [len(model.limits) for model in models]:
        raise UsageError("places are not one per instance of each model")
    if turns.fetch.max(initial=-1) >= templates:
        raise UsageError(f"weights are loaded by a template outside of {templates}")
    for at, model in enumerate(models):
        if turns.weight[at].any() and (0 in model.limits or model.max_queue_size == 0):
            raise UsageError(
                f"model {at} takes turns in memory, and its requests cannot wait",
                hint="give each of its instances a limit, and it a queue",
            )


def check_block(
    arrival: NDArray[np.float64],
    stream: NDArray[np.int64],
    variant: NDArray[np.int64],
    variants: NDArray[np.int64],
    now_s: float,
) -> None:
    """Raise UsageError where times do not ascend from `now_s` on, or there is no such stream.

    `variants` is how many the model of each stream has.
    """
    if not len(arrival):
        return
    # What is no number ascends from nothing, and nothing from it.
    ascend = (arrival[1:] >= arrival[:-1]).all()
    if not (ascend and np.isfinite(arrival[0]) and np.isfinite(arrival[-1])):
        raise UsageError("arrivals do not ascend, or are not numbers", hint="sort them")
    if arrival[0] < now_s:
        raise UsageError(f"a request at {arrival[0]} s after {now_s} s", hint="sort the arrivals")
    if not (len(stream) == len(variant) == len(arrival)):
        raise UsageError("arrivals, streams and variants have different lengths")
    known = len(variants)
    if stream.min() < 0 or stream.max() >= known:
        raise UsageError(f"a request names none of {known} streams")
    if variant.min() < 0 or (variant >= variants[stream]).any():
        raise UsageError("a request names a variant that its model does not have")


def _known(given: Any, known: tuple[str, ...], what: str) -> None:
    if given not in known:
        raise UsageError(f"no {what} '{given}'", hint=nearest(str(given), known))


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
        For how long of ``queue_s`` the weights were loaded that its batch needed.
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

    @property
    def queue_s(self) -> Floats:
        """From arrival until it went to an instance."""
        return self.sent_s - self.arrival_s

    @property
    def device_s(self) -> Floats:
        """From then until its first task started."""
        return self.begun_s - self.sent_s

    @property
    def service_s(self) -> Floats:
        """From then to the answer."""
        return self.finish_s - self.begun_s

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
