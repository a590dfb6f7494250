"""Question as numbers: available kinds, arrivals, and times of devices.

Search, bounds, simulation and certificate use this record only. Terms of the certificate: a *kind*
brings devices of certain *types*, a vector of *counts* has a number of each kind; requests of one
model and shape are a *class*; the requests of one stream in one class are an *ask*.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetsim.errors import UsageError
from hetsim.hardware.price import Price
from hetsim.problem.parts import Evidence
from hetsim.statistics.verdict import FIRST_LOOK
from hetsim.workload.requests import requests_of
from hetsim.workload.workload import Slo, Workload

Aim = Literal["cost", "energy", "devices"]
AIMS: tuple[Aim, ...] = ("cost", "energy", "devices")

Counts = tuple[int, ...]

UNIT: Mapping[Aim, Fraction] = {
    "cost": Fraction(1, 10**9),
    "energy": Fraction(1, 10**6),
    "devices": Fraction(1),
}
"""Unit of ``Kind.cost``, in ``UNITS``: whole numbers add up exactly."""

UNITS: Mapping[Aim, str] = {"cost": "USD/h", "energy": "W", "devices": "devices"}

SLACK = 1e-9
"""Relative margin for rounding of a bound's sums."""

BATCHES = (1, 2, 4, 8, 16)
"""Batch sizes to plan, if a model takes batches."""


class DeviceType(NamedTuple):
    """Device type: a kind's name and the device's name in it."""

    name: str
    streams: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Kind:
    """Kind of available hardware.

    One of it brings devices of `devices` types, in order, and `links` to the entry of requests and
    between its devices; it costs `cost` in ``UNIT``, made of `parts` in decimals. At most `most`
    are available. A host has `slots` for devices; `in_slot` devices occupy one.
    """

    name: str
    devices: tuple[int, ...]
    links: int
    cost: int
    most: int
    slots: int = 0
    in_slot: bool = False
    price: Price | None = None
    parts: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def counted(self) -> int:
        """Contribution to the maximum number of devices: 0 for a host."""
        return 0 if self.slots else 1


class RequestTask(NamedTuple):
    """Subgraph or transfer of a request.

    `slot` is its index among the devices that serve it, -1 for a transfer; `links` are those of its
    kinds that it holds, and `before` the tasks that must end first, both ascending.
    """

    slot: int
    seconds: float
    links: tuple[int, ...]
    before: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Way:
    """Times of one device, or several together, for batches of one size of one class.

    No request in it is answered sooner than `alone_s`. `whole_bytes` is the maximum that the model
    holds on a device in batches of up to this size, `bytes_by_slot` the same for each of several
    devices.
    """

    batch: int
    tasks: tuple[RequestTask, ...]
    alone_s: float
    whole_bytes: int = 0
    bytes_by_slot: tuple[int, ...] = ()

    @property
    def seconds(self) -> float:
        """Total seconds of all devices."""
        return sum(task.seconds for task in self.tasks if task.slot >= 0)


class Mode(NamedTuple):
    """Use of devices and links by a batch, as input of bounds.

    `uses` is by resource, see ``Question.resources``: seconds of full use of one of them.
    """

    batch: int
    alone_s: float
    uses: tuple[tuple[int, float], ...]


class TimeUncertainty(NamedTuple):
    """Uncertainty of the times of a device, and of transfers to it.

    By source, the standard deviation of the log of a factor. Equal sources are perfectly
    correlated.
    """

    device: Mapping[str, float]
    route: Mapping[str, float]


class TimeEvidence(NamedTuple):
    """Evidence of the times of a model on a device type.

    `as_if`: the model lacks that precision and is priced as if it had it. `precision` is empty if
    the datasheet prices it.
    """

    evidence: Evidence
    as_if: bool
    precision: str


class AnyPlan(NamedTuple):
    """Minimum times of a class of requests, with each node on its best device.

    No request is answered sooner than `quickest_s`, infinite if no device supports some node, named
    by `lacking`; each needs `work_s` of some device.
    """

    quickest_s: float
    work_s: float
    lacking: str = ""


@dataclass(frozen=True, slots=True)
class RequestClass:
    """Requests of one model and shape: its open dimensions."""

    model: int
    variant: Mapping[str, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class QuestionStream:
    """Stream: its model, and the objectives for its latencies."""

    name: str
    model: int
    slos: tuple[Slo, ...]


@dataclass(frozen=True, slots=True)
class ClassRequests:
    """Requests of one stream in one class; their rate if random, else None."""

    stream: int
    of_class: int
    rate_per_s: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class DeviceSplit:
    """Plan of one model across several devices, by `strategy`.

    It uses one of each of `kinds`; repeated kinds are used repeatedly. `devices` are (index in
    `kinds`, device of that kind). `ways` are by class of the model, by size, ascending; links of
    tasks are those of the first of `kinds`, then of the next.
    """

    model: int
    strategy: str
    kinds: tuple[int, ...]
    devices: tuple[tuple[int, int], ...]
    ways: Mapping[int, tuple[Way, ...]]

    @property
    def copies(self) -> list[int]:
        """Copy number of each of `kinds` among its equals."""
        return [self.kinds[:unit].count(kind) for unit, kind in enumerate(self.kinds)]


class Place(NamedTuple):
    """Device of a vector: its kind, copy of the kind, device in it, and type."""

    kind: int
    unit: int
    slot: int
    of_type: int


class Instance(NamedTuple):
    """Devices that serve a model: one, with `split` -1, or those of a split in order."""

    devices: tuple[int, ...]
    split: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """Arriving requests: ascending times, and asks."""

    time_s: NDArray[np.float64]
    ask: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.time_s)

    @classmethod
    def joined(cls, blocks: Iterable[Arrivals]) -> Arrivals:
        """Return the concatenation of blocks."""
        parts = list(blocks)
        time_s = np.concatenate([np.zeros(0), *(one.time_s for one in parts)])
        ask = np.concatenate([np.zeros(0, np.int64), *(one.ask for one in parts)])
        return cls(time_s, ask)


@dataclass(frozen=True, eq=False)
class Question:
    """Question of the search as numbers.

    Hosts are the first of `kinds`; `asks` are in the order of `streams`. `ways` are by (type,
    class) and by size, ascending: missing ones cannot be served by the device; `splits` are plans
    across several devices, highest rate first. `given`: requests are given, all of them in
    `arrivals`, and late ones are counted; otherwise verdicts are for the long run. Those before
    `warm_up_s` are not judged. With `losses`, objectives must also be met without any that many
    devices.

    `free` are bounds by class, empty if unknown. By (type, model), `off` omits exact times, and
    `priced` devices that cannot run the model.
    """

    aim: Aim
    max_devices: int
    types: tuple[DeviceType, ...]
    kinds: tuple[Kind, ...]
    models: tuple[str, ...]
    classes: tuple[RequestClass, ...]
    streams: tuple[QuestionStream, ...]
    asks: tuple[ClassRequests, ...]
    ways: Mapping[tuple[int, int], tuple[Way, ...]]
    given: bool
    warm_up_s: float = 0.0
    arrivals: Arrivals | None = None
    free: tuple[AnyPlan, ...] = ()
    off: Mapping[tuple[int, int], TimeUncertainty] = field(default_factory=dict)
    priced: Mapping[tuple[int, int], TimeEvidence] = field(default_factory=dict)
    splits: tuple[DeviceSplit, ...] = ()
    losses: int = 0

    @property
    def sources(self) -> list[str]:
        """Sources of uncertainty of figures of devices and links, as far as known."""
        return sorted({name for off in self.off.values() for part in off for name in part})

    @cached_property
    def modes(self) -> tuple[tuple[Mode, ...], ...]:
        """Ways of each class, in the form used by bounds."""
        found: list[list[Mode]] = [[] for _ in self.classes]
        for (of_type, of_class), ways in sorted(self.ways.items()):
            home = self.kind_of(of_type)
            found[of_class] += [self.mode(way, (home,), (of_type,)) for way in ways]
        for split in self.splits:
            types = self.types_of(split)
            for of_class, ways in split.ways.items():
                found[of_class] += [self.mode(way, split.kinds, types) for way in ways]
        return tuple(map(tuple, found))

    def mode(self, way: Way, kinds: Sequence[int], types: Sequence[int]) -> Mode:
        """Return a way with slots of these types, and links of these kinds."""
        links = [link for kind in kinds for link in self.links_of_kind[kind]]
        uses: dict[int, float] = {}
        for task in way.tasks:
            if task.slot >= 0:
                of_type = types[task.slot]
                seconds = task.seconds / self.types[of_type].streams
                uses[of_type] = uses.get(of_type, 0.0) + seconds
            for link in task.links:
                uses[links[link]] = uses.get(links[link], 0.0) + task.seconds
        return Mode(way.batch, way.alone_s, tuple(sorted(uses.items())))

    @cached_property
    def largest(self) -> tuple[int, ...]:
        """Maximum batch size of any way, by model."""
        return tuple(
            max((mode.batch for at in self.classes_of[model] for mode in self.modes[at]), default=1)
            for model in range(len(self.models))
        )

    @property
    def resources(self) -> int:
        """Number of resources: types of devices, then links by kind."""
        return len(self.types) + sum(kind.links for kind in self.kinds)

    @cached_property
    def links_of_kind(self) -> tuple[range, ...]:
        """Resources of each kind's links."""
        ends = accumulate((kind.links for kind in self.kinds), initial=len(self.types))
        return tuple(range(*ends_of) for ends_of in pairwise(ends))

    def resources_of(self, kind: int) -> list[int]:
        """Return the resources of one of a kind: its devices and links."""
        return [*self.kinds[kind].devices, *self.links_of_kind[kind]]

    def kind_of(self, of_type: int) -> int:
        """Return the kind that contains a type of device."""
        return next(k for k, one in enumerate(self.kinds) if of_type in one.devices)

    def types_of(self, split: DeviceSplit) -> list[int]:
        """Return the types of the devices of a split."""
        return [self.kinds[split.kinds[unit]].devices[slot] for unit, slot in split.devices]

    def cost(self, counts: Counts) -> int:
        """Return the cost of a vector, in ``UNIT``."""
        return sum(n * kind.cost for n, kind in zip(counts, self.kinds, strict=True))

    def amount(self, counts: Counts) -> float:
        """Return the cost of a vector, in ``UNITS``."""
        return float(self.cost(counts) * UNIT[self.aim])

    @property
    def dearest(self) -> int:
        """Upper bound on the cost of any vector, in ``UNIT``."""
        return sum(kind.cost * kind.most for kind in self.kinds)

    def named(self, counts: Counts) -> dict[str, int]:
        """Return a vector by the names of kinds, without those of count 0."""
        return {kind.name: n for n, kind in zip(counts, self.kinds, strict=True) if n}

    def told(self, counts: Counts) -> str:
        """Return the description of a vector: ``2 l4, 1 epyc``."""
        return ", ".join(f"{n} {name}" for name, n in self.named(counts).items()) or "nothing"

    def key(self, counts: Counts) -> tuple[int, int, Counts]:
        """Return the sort key of vectors: cost, then fewer devices, then the counts themselves."""
        devices = sum(n * kind.counted for n, kind in zip(counts, self.kinds, strict=True))
        return self.cost(counts), devices, counts

    def allows(self, counts: Counts) -> bool:
        """Return whether a vector is available: per kind, in total, and in one host's slots."""
        each = list(zip(counts, self.kinds, strict=True))
        slots = sum(n * kind.slots for n, kind in each)
        return (
            all(0 <= n <= kind.most for n, kind in each)
            and sum(n * kind.counted for n, kind in each) <= self.max_devices
            and sum(n for n, kind in each if kind.slots) <= 1
            and sum(n for n, kind in each if kind.in_slot) <= slots
        )

    @cached_property
    def classes_of(self) -> tuple[tuple[int, ...], ...]:
        """Classes of each model, in order."""
        every = list(enumerate(self.classes))
        return tuple(
            tuple(at for at, one in every if one.model == model)
            for model in range(len(self.models))
        )

    @cached_property
    def limit_s(self) -> tuple[float, ...]:
        """Longest latency limit by model; infinite without one."""
        found = [-np.inf] * len(self.models)
        for stream in self.streams:
            limits = [found[stream.model], *(slo.latency_s for slo in stream.slos)]
            found[stream.model] = max(limits)
        return tuple(limit if limit > -np.inf else np.inf for limit in found)

    def useful(self, of_type: int, of_class: int, limit_s: float) -> tuple[Way, ...]:
        """Return the ways of a device that answer a request of a class within a limit."""
        ways = self.ways.get((of_type, of_class), ())
        return tuple(way for way in ways if way.alone_s <= limit_s)

    def useful_modes(self, of_class: int, limit_s: float) -> tuple[Mode, ...]:
        """Return the ways of all devices, alone or together, that answer within a limit."""
        return tuple(mode for mode in self.modes[of_class] if mode.alone_s <= limit_s)


# Requests of a workload


def arrivals_of(workload: Workload) -> Arrivals:
    """Return all requests of a finite workload. Raises UsageError if none counts."""
    blocks = list(_blocks(workload))
    if not blocks:
        raise UsageError("no request comes", hint="give a rate above 0, or a longer duration")
    found = Arrivals.joined(blocks)
    if not len(found) or found.time_s[-1] < workload.warm_up_s:
        raise UsageError(
            "no request comes after the warm-up",
            hint="write a shorter warm_up_s:, or a longer duration_s:",
        )
    return found


def drawn(workload: Workload, budget: int) -> Iterator[Arrivals]:
    """Yield the first `budget` requests in blocks, regardless of the workload's end."""
    for block in _blocks(replace(workload, duration_s=None, requests=budget)):
        for begin in range(0, len(block), FIRST_LOOK):
            piece = slice(begin, begin + FIRST_LOOK)
            yield Arrivals(block.time_s[piece], block.ask[piece])


def _blocks(workload: Workload) -> Iterator[Arrivals]:
    """Yield requests by ask, with those of a stream separated by variant."""
    first = np.cumsum([0] + [len(stream.variants) for stream in workload.streams])
    for block in requests_of(workload):
        yield Arrivals(block.arrival_s, first[block.stream] + block.variant)
