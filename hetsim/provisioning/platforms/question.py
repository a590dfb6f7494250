"""The question in numbers: what can be had, what comes, and what each device takes for it.

Everything that is searched, excluded, played and certified rests on this record alone. The words
are the certificate's: a *kind* brings devices of certain *types*; requests of one model and shape
are a *class*; what one stream asks of one class is an *ask*.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetsim.hardware.price import Price
from hetsim.problem.evidence import Evidence
from hetsim.provisioning.platforms.any_plan import AnyPlan
from hetsim.workload.slo import Slo

Aim = Literal["cost", "energy", "devices"]
AIMS: tuple[Aim, ...] = ("cost", "energy", "devices")

Counts = tuple[int, ...]
"""How many of each kind: a vector."""

UNIT: Mapping[Aim, Fraction] = {
    "cost": Fraction(1, 10**9),
    "energy": Fraction(1, 10**6),
    "devices": Fraction(1),
}
"""What one of ``Kind.cost`` is: US dollars an hour, watts, or devices. Whole numbers add up
exactly, so that no vector comes before another by a rounding error."""

UNITS: Mapping[Aim, str] = {"cost": "USD/h", "energy": "W", "devices": "devices"}
"""What an amount of each is in."""

SLACK = 1e-9
"""Of a bound: what its sums may be rounded by, and more."""

BATCHES = (1, 2, 4, 8, 16)
"""Sizes of batches that are planned for, where a model takes batches at all."""


@dataclass(frozen=True, slots=True)
class DeviceType:
    """One sort of device.

    Attributes
    ----------
    name : str
        Its kind, and its name there.
    streams : int
    memory_bytes : int
    """

    name: str
    streams: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Kind:
    """What can be had of a sort.

    Attributes
    ----------
    name : str
    devices : tuple of int
        Types of the devices that one of it has, in order.
    links : int
        That one of it brings: to where requests come, and between its devices.
    cost : int
        Of one, in ``UNIT`` of what is aimed at.
    most : int
        How many there are.
    slots : int
        Devices that it takes where it is a host; 0: it is none.
    in_slot : bool
        Whether it stands in a slot of a host.
    price : Price or None
    parts : mapping of str to str
        What `cost` is made of, in decimals.
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
        """What one of it counts toward the most that may be had: a host nothing."""
        return 0 if self.slots else 1


class Task(NamedTuple):
    """One subgraph or transfer of a request.

    Attributes
    ----------
    slot : int
        Which device of the kind; -1 of a transfer.
    seconds : float
    links : tuple of int
        Those of the kind that it holds, ascending.
    before : tuple of int
        Tasks that end first, ascending.
    """

    slot: int
    seconds: float
    links: tuple[int, ...]
    before: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Way:
    """How one device serves batches of one size of one class.

    Attributes
    ----------
    batch : int
    tasks : tuple of Task
    seconds : float
        That the device takes for it.
    alone_s : float
        No request in it is answered sooner.
    whole_bytes : int
        What the model holds of the device, where batches have up to so many requests.
    bytes_by_slot : tuple of int
        The same of each device, where there are several.
    """

    batch: int
    tasks: tuple[Task, ...]
    seconds: float
    alone_s: float
    whole_bytes: int = 0
    bytes_by_slot: tuple[int, ...] = ()


class Mode(NamedTuple):
    """What a batch asks of devices and links, as bounds take it.

    Attributes
    ----------
    batch : int
    alone_s : float
        No request in it is answered sooner.
    uses : tuple of (int, float)
        By resource, see ``Question.resources``: how long it has all of one of them, in seconds.
    """

    batch: int
    alone_s: float
    uses: tuple[tuple[int, float], ...]


class Off(NamedTuple):
    """By how much times may be off: logs of factors, as sums of independent sources.

    Attributes
    ----------
    device, route : mapping of str to float
        By source the deviation of the log, of what the device takes and of transfers to it. Two
        that name the same source are off together.
    """

    device: Mapping[str, float]
    route: Mapping[str, float]


class Priced(NamedTuple):
    """What the times of a model on a sort of device rest on.

    Attributes
    ----------
    evidence : Evidence
    as_if : bool
        Whether the model does not have that precision, and is priced as if it did.
    precision : str
        Precision that the model is priced in; empty where the datasheet prices it.
    """

    evidence: Evidence
    as_if: bool
    precision: str


@dataclass(frozen=True, slots=True)
class Class:
    """Requests of one model and shape.

    Attributes
    ----------
    model : int
    variant : mapping of str to int
        Its open dimensions.
    """

    model: int
    variant: Mapping[str, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream: the model that it asks for, and what is asked of its latencies."""

    name: str
    model: int
    slos: tuple[Slo, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """What one stream asks of one class; the rate of drawn requests, else None."""

    stream: int
    of_class: int
    rate_per_s: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """How one model is served by several devices together.

    Attributes
    ----------
    model : int
    strategy : str
        What plans it.
    kinds : tuple of int
        It takes one of each; a kind that stands twice is taken twice.
    devices : tuple of (int, int)
        Which of `kinds`, and which device of that kind.
    ways : mapping of int to tuple of Way
        By class of the model, by size, ascending. Slots of tasks are places in `devices`; links
        are those of the first of `kinds`, then of the next.
    """

    model: int
    strategy: str
    kinds: tuple[int, ...]
    devices: tuple[tuple[int, int], ...]
    ways: Mapping[int, tuple[Way, ...]]

    @property
    def copies(self) -> list[int]:
        """Which copy of its kind each of `kinds` is."""
        return [self.kinds[:unit].count(kind) for unit, kind in enumerate(self.kinds)]


class Place(NamedTuple):
    """One device of a vector: its kind, which of that kind, which device of it, and its type."""

    kind: int
    unit: int
    slot: int
    of_type: int


class Instance(NamedTuple):
    """What serves a model.

    Attributes
    ----------
    devices : tuple of int
        One, or those that a split takes, in its order.
    split : int
        Which of the question's; -1: one device serves the model whole.
    """

    devices: tuple[int, ...]
    split: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """Requests that come.

    Attributes
    ----------
    time_s : float array [requests]
        Ascending.
    ask : int array [requests]
    """

    time_s: NDArray[np.float64]
    ask: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.time_s)

    def first(self, count: int) -> Arrivals:
        """Return the first so many."""
        return Arrivals(self.time_s[:count], self.ask[:count])

    @classmethod
    def joined(cls, blocks: Iterable[Arrivals]) -> Arrivals:
        """Return blocks one after another."""
        parts = list(blocks)
        time_s = np.concatenate([np.zeros(0), *(one.time_s for one in parts)])
        ask = np.concatenate([np.zeros(0, np.int64), *(one.ask for one in parts)])
        return cls(time_s, ask)


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """What is asked.

    Attributes
    ----------
    aim : "cost", "energy" or "devices"
    max_devices : int
    types : tuple of DeviceType
    kinds : tuple of Kind
        Hosts first.
    models : tuple of str
    classes : tuple of Class
    streams : tuple of Stream
    asks : tuple of Ask
        In the order of streams.
    ways : mapping of (type, class) to tuple of Way
        By size, ascending; what is not there, the device cannot serve.
    given : bool
        Whether the requests are given, and late ones are counted; else verdicts are of the long
        run.
    warm_up_s : float
        Requests that come before are not judged.
    arrivals : Arrivals or None
        All of them, where they are given.
    free : tuple of AnyPlan
        By class: what no plan goes below, cut however one likes; empty where that is not known.
    off : mapping of (type, model) to Off
        What the figures of devices and links leave open; what is not there is exact.
    priced : mapping of (type, model) to Priced
        What times rest on; devices that cannot run a model are absent.
    splits : tuple of Split
        Plans over several devices that are looked at, those that carry most first.
    losses : int
        Devices without any of which, as many at once, objectives are to be met, too.
    modes : tuple of tuple of Mode
        By class: all its ways, as bounds take them.
    largest : tuple of int
        By model: the most requests in a batch of any way.
    """

    aim: Aim
    max_devices: int
    types: tuple[DeviceType, ...]
    kinds: tuple[Kind, ...]
    models: tuple[str, ...]
    classes: tuple[Class, ...]
    streams: tuple[Stream, ...]
    asks: tuple[Ask, ...]
    ways: Mapping[tuple[int, int], tuple[Way, ...]]
    given: bool
    warm_up_s: float = 0.0
    arrivals: Arrivals | None = None
    free: tuple[AnyPlan, ...] = ()
    off: Mapping[tuple[int, int], Off] = field(default_factory=dict)
    priced: Mapping[tuple[int, int], Priced] = field(default_factory=dict)
    splits: tuple[Split, ...] = ()
    losses: int = 0
    modes: tuple[tuple[Mode, ...], ...] = field(init=False, repr=False)
    largest: tuple[int, ...] = field(init=False, repr=False)
    _classes_of: tuple[tuple[int, ...], ...] = field(init=False, repr=False)
    _limit_s: tuple[float, ...] = field(init=False, repr=False)
    _links: tuple[range, ...] = field(init=False, repr=False)

    @property
    def unsure(self) -> bool:
        """Whether figures of devices or links may be off, as far as is known."""
        return any(part for off in self.off.values() for part in off)

    def __post_init__(self) -> None:
        ends = list(accumulate((kind.links for kind in self.kinds), initial=len(self.types)))
        object.__setattr__(self, "_links", tuple(range(*ends_of) for ends_of in pairwise(ends)))
        models = range(len(self.models))
        classes = tuple(
            tuple(at for at, one in enumerate(self.classes) if one.model == model)
            for model in models
        )
        limits = tuple(
            max(
                (
                    slo.latency_s
                    for stream in self.streams
                    if stream.model == model
                    for slo in stream.slos
                ),
                default=np.inf,
            )
            for model in models
        )
        object.__setattr__(self, "_classes_of", classes)
        object.__setattr__(self, "_limit_s", limits)
        modes = tuple(tuple(self._modes(at)) for at in range(len(self.classes)))
        object.__setattr__(self, "modes", modes)
        largest = tuple(
            max((mode.batch for at in self.classes_of(model) for mode in modes[at]), default=1)
            for model in range(len(self.models))
        )
        object.__setattr__(self, "largest", largest)

    def _modes(self, of_class: int) -> Iterator[Mode]:
        for (of_type, other), ways in sorted(self.ways.items()):
            if other == of_class:
                kind, slot = self.home_of(of_type)
                for way in ways:
                    yield self.mode(way, (kind,), {slot: of_type})
        for split in self.splits:
            types = dict(enumerate(self.types_of(split)))
            for way in split.ways.get(of_class, ()):
                yield self.mode(way, split.kinds, types)

    def mode(self, way: Way, kinds: Sequence[int], types: Mapping[int, int]) -> Mode:
        """A way whose slots are of these types, and whose links are those of these kinds."""
        links = [link for kind in kinds for link in self.links_of_kind(kind)]
        uses: dict[int, float] = {}
        for task in way.tasks:
            if task.slot >= 0:
                of_type = types[task.slot]
                seconds = task.seconds / self.types[of_type].streams
                uses[of_type] = uses.get(of_type, 0.0) + seconds
            for link in task.links:
                uses[links[link]] = uses.get(links[link], 0.0) + task.seconds
        return Mode(way.batch, way.alone_s, tuple(sorted(uses.items())))

    @property
    def resources(self) -> int:
        """How many sorts of things have time: types of devices, then links, kind after kind."""
        return len(self.types) + sum(kind.links for kind in self.kinds)

    def links_of_kind(self, kind: int) -> range:
        """The resources that the links of a kind are."""
        return self._links[kind]

    def resources_of(self, kind: int) -> list[int]:
        """The resources that one of a kind brings: its devices and its links."""
        return [*self.kinds[kind].devices, *self.links_of_kind(kind)]

    def home_of(self, of_type: int) -> tuple[int, int]:
        """The kind whose devices one of a type is, and which of them."""
        kind = next(k for k, one in enumerate(self.kinds) if of_type in one.devices)
        return kind, self.kinds[kind].devices.index(of_type)

    def type_of(self, split: Split, slot: int) -> int:
        """The type of one of the devices of a split."""
        unit, own = split.devices[slot]
        return self.kinds[split.kinds[unit]].devices[own]

    def types_of(self, split: Split) -> list[int]:
        """The types of all of its devices."""
        return [self.type_of(split, slot) for slot in range(len(split.devices))]

    def cost(self, counts: Counts) -> int:
        """What so many of each kind cost, in ``UNIT``."""
        return sum(n * kind.cost for n, kind in zip(counts, self.kinds, strict=True))

    def amount(self, counts: Counts) -> float:
        """What so many of each kind cost, in dollars an hour, watts or devices."""
        return float(self.cost(counts) * UNIT[self.aim])

    @property
    def dearest(self) -> int:
        """What no vector costs more than, in ``UNIT``."""
        return sum(kind.cost * kind.most for kind in self.kinds)

    def named(self, counts: Counts) -> dict[str, int]:
        """Return a vector by the names of kinds, without those of which it has none."""
        return {kind.name: n for n, kind in zip(counts, self.kinds, strict=True) if n}

    def key(self, counts: Counts) -> tuple[int, int, Counts]:
        """What vectors are ordered by: cost, then fewer devices, then the counts themselves."""
        devices = sum(n * kind.counted for n, kind in zip(counts, self.kinds, strict=True))
        return self.cost(counts), devices, counts

    def allows(self, counts: Counts) -> bool:
        """Whether so many of each may be had: of kinds, of all, and in the slots of one host."""
        each = list(zip(counts, self.kinds, strict=True))
        slots = sum(n * kind.slots for n, kind in each)
        return (
            all(0 <= n <= kind.most for n, kind in each)
            and sum(n * kind.counted for n, kind in each) <= self.max_devices
            and sum(n for n, kind in each if kind.slots) <= 1
            and sum(n for n, kind in each if kind.in_slot) <= slots
        )

    def classes_of(self, model: int) -> tuple[int, ...]:
        """The classes of a model, in order."""
        return self._classes_of[model]

    def limit_s(self, model: int) -> float:
        """The longest latency that is asked of a model; infinite where nothing is."""
        return self._limit_s[model]

    def useful(self, of_type: int, of_class: int, limit_s: float) -> tuple[Way, ...]:
        """The ways of a device that answer a request of a class within a limit."""
        ways = self.ways.get((of_type, of_class), ())
        return tuple(way for way in ways if way.alone_s <= limit_s)

    def useful_modes(self, of_class: int, limit_s: float) -> tuple[Mode, ...]:
        """The ways of all devices, alone or together, that answer a request within a limit."""
        return tuple(mode for mode in self.modes[of_class] if mode.alone_s <= limit_s)
