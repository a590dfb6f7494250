"""Arrivals of one stream's requests, one class per kind, and their random numbers.

A kind is a frozen dataclass with `rate_per_s`, the mean number of requests per second;
``faster(speedup)``, the same arrivals in 1/`speedup` of the time, exactly so for a power of two;
and ``blocks(numbers)``, ascending arrival times in seconds from 0, in non-empty blocks that end
where the arrivals do. ``Closed`` clients send after each answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np

from hetsim.core.checks import mapping, number, one_of, refused, sequence, text, whole
from hetsim.errors import InvalidInput
from hetsim.workload.traces import (
    FORMATS,
    LARGEST,
    UNITS,
    File,
    Format,
    Trace,
    Unit,
    beginning_of,
    read_trace,
)

Seconds: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

BLOCK = 2**16
"""Number of random numbers, and of times, generated at once."""

MAX_SEED = 2**63 - 1

SMALLEST = 1e-12
"""Smallest positive rate or factor, so that derived values stay finite."""

LEAST_CV, MOST_CV = 0.01, 20.0
"""Range of coefficients of variation, outside of which gaps are practically constant or 0."""

MAX_CHANGES = 10.0
"""Maximum state changes per request; faster changes look like a Poisson process."""

Spacing = Literal["constant", "poisson"]
SPACINGS: tuple[Spacing, ...] = ("constant", "poisson")
MAX_SIZE = 2**16

Think = Literal["constant", "exponential"]
THINKS: tuple[Think, ...] = ("constant", "exponential")
MAX_CONCURRENCY = 2**20
TURNS = 64
"""Number of turns whose think times are generated at once."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """Random numbers of one stream.

    They depend only on the workload's seed and the stream's name, so compared plans get the same
    requests at the same times.
    """

    seed: int
    stream: str

    def generator(self, purpose: str, part: int = 0) -> np.random.Generator:
        """Return the generator for one part of one purpose, independent of all others.

        Source: numpy's SeedSequence, with a spawn key from these names.
        """
        digest = hashlib.sha256(f"{self.stream}\n{purpose}".encode()).digest()[:16]
        words = (int.from_bytes(digest[at : at + 4], "little") for at in range(0, 16, 4))
        sequence = np.random.SeedSequence(self.seed, spawn_key=(*words, part))
        return np.random.Generator(np.random.PCG64(sequence))


def not_negative(value: float, name: str) -> None:
    """Raise InvalidInput unless `value` is a number from 0 to LARGEST."""
    number(least=0)(value, name)
    if value > LARGEST:
        raise InvalidInput(f"{name} is {value:g}, above {LARGEST:g}")


def check_rate(value: float, name: str) -> None:
    """Raise InvalidInput unless `value` is 0 or a number from SMALLEST to LARGEST."""
    not_negative(value, name)
    if 0 < value < SMALLEST:
        raise InvalidInput(f"{name} is {value:g}, below {SMALLEST:g}", hint="use 0 for no requests")


def positive(value: float, name: str) -> None:
    """Raise InvalidInput unless `value` is a number from SMALLEST to LARGEST."""
    number(above=0)(value, name)
    not_negative(value, name)
    if value < SMALLEST:
        raise InvalidInput(f"{name} is {value:g}, below {SMALLEST:g}")


def _factor(value: float) -> float:
    positive(value, "the factor")
    return float(value)


def _running_sums(gaps: Callable[[int], Seconds]) -> Iterator[Seconds]:
    """Yield the running sums of `gaps`, bitwise equal to those of one long array."""
    row = np.empty(BLOCK + 1)
    row[0] = 0.0
    while True:
        row[1:] = gaps(BLOCK)
        sums = np.cumsum(row)
        row[0] = sums[-1]
        yield sums[1:]


@dataclass(frozen=True, slots=True)
class _AtRate:
    rate_per_s: float

    def __post_init__(self) -> None:
        check_rate(self.rate_per_s, "rate_per_s")

    def faster(self, speedup: float) -> Self:
        """Return the same arrivals in 1/`speedup` of the time."""
        return replace(self, rate_per_s=self.rate_per_s * _factor(speedup))


@dataclass(frozen=True, slots=True)
class Constant(_AtRate):
    """Request every 1/`rate_per_s` seconds, the first at 0; none at rate 0."""

    kind: ClassVar[str] = "constant"

    def blocks(self, numbers: Numbers) -> Iterator[Seconds]:
        """Yield the arrival times in seconds. Each is rounded once, so errors do not accumulate."""
        first = 0
        while self.rate_per_s:
            yield np.arange(first, first + BLOCK, dtype=np.float64) / self.rate_per_s
            first += BLOCK


@dataclass(frozen=True, slots=True)
class Poisson(_AtRate):
    """Poisson process: gaps are exponential and independent; no arrivals at rate 0."""

    kind: ClassVar[str] = "poisson"

    def blocks(self, numbers: Numbers) -> Iterator[Seconds]:
        """Yield the arrival times in seconds: those of rate 1, divided by the rate."""
        if self.rate_per_s:
            for sums in _running_sums(numbers.generator("gaps").standard_exponential):
                yield sums / self.rate_per_s


@dataclass(frozen=True, slots=True)
class Gamma(_AtRate):
    """Renewal process with gamma-distributed gaps; no arrivals at rate 0.

    The coefficient of variation `cv` of the gaps is 1 for a Poisson process; above, requests are
    clustered, below, more regular.
    """

    kind: ClassVar[str] = "gamma"

    cv: float

    def __post_init__(self) -> None:
        _AtRate.__post_init__(self)
        positive(self.cv, "cv")
        if not LEAST_CV <= self.cv <= MOST_CV:
            raise InvalidInput(
                f"cv is {self.cv:g}, outside {LEAST_CV:g} to {MOST_CV:g}",
                hint="constant arrivals have 0; mmpp and burst cluster more",
            )

    def blocks(self, numbers: Numbers) -> Iterator[Seconds]:
        """Yield the arrival times in seconds: sums of gaps of shape 1/cv**2, scaled."""
        if not self.rate_per_s:
            return
        generator = numbers.generator("gaps")
        shape = 1.0 / self.cv**2
        for sums in _running_sums(lambda count: generator.standard_gamma(shape, count)):
            yield sums / shape / self.rate_per_s


@dataclass(frozen=True, slots=True)
class Burst(_AtRate):
    """Bursts of `size` requests at one time.

    `rate_per_s` is that of requests: there are `rate_per_s` / `size` bursts per second, at constant
    distances, the first at 0, or as a Poisson process.
    """

    kind: ClassVar[str] = "burst"

    size: int
    spacing: Spacing = "constant"

    def __post_init__(self) -> None:
        _AtRate.__post_init__(self)
        whole(1, MAX_SIZE)(self.size, "size")
        one_of(*SPACINGS)(self.spacing, "spacing")

    def blocks(self, numbers: Numbers) -> Iterator[Seconds]:
        """Yield the arrival times in seconds, `size` of each."""
        each = Constant if self.spacing == "constant" else Poisson
        for times in each(self.rate_per_s / self.size).blocks(numbers):
            for part in np.array_split(times, self.size):
                if part.size:
                    yield np.repeat(part, self.size)


@dataclass(frozen=True, slots=True)
class Mmpp:
    """Markov-modulated Poisson process; with two states the MMPP(2) of the literature.

    The states follow each other in a ring, each for an exponential time of the mean `sojourns_s`,
    with `rates_per_s` requests per second. It starts in its stationary distribution: in a state
    with probability equal to its share of time.

    Source: W. Fischer and K. Meier-Hellstern, The Markov-modulated Poisson process (MMPP) cookbook,
    Performance Evaluation 18 (1993), https://doi.org/10.1016/0166-5316(93)90035-S.
    """

    kind: ClassVar[str] = "mmpp"

    rates_per_s: tuple[float, ...]
    sojourns_s: tuple[float, ...]

    def __post_init__(self) -> None:
        for name, check in (("rates_per_s", check_rate), ("sojourns_s", positive)):
            values = getattr(self, name)
            if isinstance(values, str) or not isinstance(values, Sequence):
                raise refused(name, values, "a list of numbers")
            if len(values) < 2:
                raise InvalidInput(f"{name} has {len(values)} entries", hint="use 2 or more")
            for at, value in enumerate(values):
                check(value, f"{name}[{at}]")
        if len(self.rates_per_s) != len(self.sojourns_s):
            raise InvalidInput(
                f"{len(self.rates_per_s)} rates, and {len(self.sojourns_s)} sojourns",
                hint="use one of each per state",
            )
        object.__setattr__(self, "rates_per_s", tuple(map(float, self.rates_per_s)))
        object.__setattr__(self, "sojourns_s", tuple(map(float, self.sojourns_s)))
        rate = self.rate_per_s
        if rate and len(self.sojourns_s) / sum(self.sojourns_s) > MAX_CHANGES * rate:
            raise InvalidInput(
                f"its state changes more than {MAX_CHANGES:g} times per request",
                hint=f"use poisson with rate_per_s {rate:g}, which is equivalent",
            )

    @property
    def rate_per_s(self) -> float:
        """Long-term mean of requests per second."""
        pairs = zip(self.rates_per_s, self.sojourns_s, strict=True)
        return sum(rate * sojourn for rate, sojourn in pairs) / sum(self.sojourns_s)

    def faster(self, speedup: float) -> Mmpp:
        """Return the arrivals in 1/`speedup` of the time, including their state changes."""
        by = _factor(speedup)
        return replace(
            self,
            rates_per_s=tuple(rate * by for rate in self.rates_per_s),
            sojourns_s=tuple(sojourn / by for sojourn in self.sojourns_s),
        )

    def blocks(self, numbers: Numbers) -> Iterator[Seconds]:
        """Yield the arrival times in seconds.

        A Poisson process of rate 1 on the axis of expected requests, mapped to time.
        """
        if not self.rate_per_s:
            return
        states = _States(self, numbers)
        generator = numbers.generator("gaps")
        for expected in _running_sums(generator.standard_exponential):
            yield states.times_of(expected)


@dataclass(slots=True)
class _States:
    """States generated so far: start of each, by time and by expected requests."""

    process: Mmpp
    numbers: Numbers
    generator: np.random.Generator = field(init=False)
    first: int = field(init=False)
    drawn: int = 0
    begins_s: Seconds = field(init=False)
    begins_at: Seconds = field(init=False)
    rates: Seconds = field(init=False)

    def __post_init__(self) -> None:
        self.generator = self.numbers.generator("states")
        sojourns = np.asarray(self.process.sojourns_s)
        part = np.cumsum(sojourns) / sojourns.sum()
        drawn = int(np.searchsorted(part, self.generator.random(), side="right"))
        self.first = min(drawn, len(sojourns) - 1)
        self.begins_s = self.begins_at = np.zeros(1)
        self.rates = np.zeros(0)

    def times_of(self, expected: Seconds) -> Seconds:
        """Return the times at which the ascending numbers of requests `expected` are reached."""
        # States that end before the first of these are no longer needed.
        past = int(np.searchsorted(self.begins_at, expected[0], side="right")) - 1
        past = min(max(past, 0), len(self.rates))
        self.begins_s, self.begins_at = self.begins_s[past:], self.begins_at[past:]
        self.rates = self.rates[past:]
        while self.begins_at[-1] <= expected[-1]:
            self._draw()
        # A state without requests starts and ends at one position: the last that starts there.
        state = np.searchsorted(self.begins_at, expected, side="right") - 1
        times: Seconds = (
            self.begins_s[state] + (expected - self.begins_at[state]) / (self.rates[state])
        )
        # Rounding must not let a request arrive before the previous one.
        return np.maximum.accumulate(times)

    def _draw(self) -> None:
        """Double the number of states, so that copying is linear in the total."""
        states = len(self.process.rates_per_s)
        count = max(64, len(self.rates))
        state = (self.first + self.drawn + np.arange(count)) % states
        lasts_s = self.generator.standard_exponential(count)
        lasts_s *= np.asarray(self.process.sojourns_s)[state]
        rates = np.asarray(self.process.rates_per_s)[state]
        self.drawn += count
        self.begins_s = _continued(self.begins_s, lasts_s)
        self.begins_at = _continued(self.begins_at, lasts_s * rates)
        self.rates = np.concatenate([self.rates, rates])


def _continued(sums: Seconds, terms: Seconds) -> Seconds:
    return np.concatenate([sums[:-1], np.cumsum(np.concatenate([sums[-1:], terms]))])


@dataclass(frozen=True, slots=True)
class Replay:
    """Requests of a trace, which end with it.

    A recorded time is replayed by its distance from the origin: the earliest time of all files that
    the workload replays, as far as their times are comparable. Dates and times since 1970 are
    comparable, and so are times with a start of their own.

    `path` is CSV or JSON lines, compressed by gzip if it ends in ``.gz``; its `format` is
    recognised by the first line, if absent. For ``csv`` and ``jsonl``, `column` is the column or
    key of the time, and `unit` its unit, absent: seconds. Further `columns` are read for dimensions
    of the model that follow them. Only requests with the values `where`, by column, are replayed,
    e.g. those of one model, at `speed_up` times the speed of the recording. The first arrives at
    `start_s`, independent of other files, and no origin for them; absent: by the origin. `beside`
    are the other files of the workload, set by ``Workload``.
    """

    kind: ClassVar[str] = "replay"

    path: str
    speed_up: float = 1.0
    format: Format | None = None
    column: str | None = None
    unit: Unit | None = None
    columns: tuple[str, ...] = ()
    where: Mapping[str, str] = field(default_factory=dict, hash=False)
    start_s: float | None = None
    beside: tuple[File, ...] = ()

    def __post_init__(self) -> None:
        text(self.path, "path")
        positive(self.speed_up, "speed_up")
        if self.format is not None:
            one_of(*FORMATS)(self.format, "format")
        if self.column is not None:
            text(self.column, "column")
        sequence(text)(self.columns, "columns")
        object.__setattr__(self, "columns", tuple(self.columns))
        if self.unit is not None:
            one_of(*UNITS)(self.unit, "unit")
        mapping(text)(self.where, "where")
        for name, value in self.where.items():
            text(value, f"where['{name}']")
        object.__setattr__(self, "where", dict(self.where))
        if self.start_s is not None:
            not_negative(self.start_s, "start_s")

    @property
    def file(self) -> File:
        """File with its layout."""
        return File(self.path, self.format, self.column, self.unit)

    def among(self, files: Sequence[File]) -> Replay:
        """Return the same trace in a workload that replays these files."""
        if self.start_s is not None:
            return self
        return replace(self, beside=tuple(one for one in files if one != self.file))

    def trace(self) -> Trace:
        """Return the trace as recorded. Raises WorkloadError with file and line."""
        where = tuple((name, value.strip()) for name, value in self.where.items())
        return read_trace(self.file, columns=self.columns, where=where, since_s=self._origin_s())

    def _origin_s(self) -> Fraction | None:
        """Return the origin, if it is not the first time of the file itself."""
        if self.start_s is not None or not self.beside:
            return None
        own = beginning_of(self.file)
        others = map(beginning_of, self.beside)
        origin = min((one for one in others if one.since_1970 == own.since_1970), default=own)
        return origin.at_s if origin < own else None

    @property
    def rate_per_s(self) -> float:
        """Requests per second from the first to the last. Reads the trace."""
        return self.trace().rate_per_s * self.speed_up

    @property
    def span_s(self) -> tuple[float, float]:
        """Times of the first and the last request. Reads the trace."""
        first, last = self._played(self.trace().arrival_s[[0, -1]]).tolist()
        return first, last

    def faster(self, speedup: float) -> Replay:
        """Return the arrivals in 1/`speedup` of the time."""
        start_s = None if self.start_s is None else self.start_s / _factor(speedup)
        return replace(self, speed_up=self.speed_up * _factor(speedup), start_s=start_s)

    def blocks(self, numbers: Numbers) -> Iterator[Seconds]:
        """Yield the arrival times in seconds."""
        arrival_s = self.trace().arrival_s
        for first in range(0, len(arrival_s), BLOCK):
            yield self._played(arrival_s[first : first + BLOCK])

    def _played(self, arrival_s: Seconds) -> Seconds:
        played = arrival_s / self.speed_up
        return played + self.start_s if self.start_s else played


@dataclass(frozen=True, slots=True)
class Closed:
    """Closed loop: a client thinks, sends a request, waits for its answer, and repeats.

    Arrivals depend on the answers, so they cannot be generated ahead; think times can. There are
    `concurrency` clients, and so as many concurrent requests at most. `think_time_s` is the mean
    time from an answer, or the start, to the next request, `think` its distribution.
    """

    kind: ClassVar[str] = "closed"

    concurrency: int
    think_time_s: float = 0.0
    think: Think = "constant"

    def __post_init__(self) -> None:
        whole(1, MAX_CONCURRENCY)(self.concurrency, "concurrency")
        not_negative(self.think_time_s, "think_time_s")
        one_of(*THINKS)(self.think, "think")

    def think_times_s(self, numbers: Numbers, block: int) -> Seconds:
        """Return the think times of each client, float64[TURNS, concurrency].

        Row `turn` of block `block` holds the time before request `block * TURNS + turn` of every
        client. Blocks can be requested in any order; a client's times do not depend on answers to
        others.
        """
        shape = (TURNS, self.concurrency)
        if self.think == "constant":
            return np.full(shape, float(self.think_time_s))
        drawn = numbers.generator("think", block).standard_exponential(shape)
        times: Seconds = drawn * self.think_time_s
        return times


Open: TypeAlias = Constant | Poisson | Gamma | Mmpp | Burst | Replay
"""Open-loop arrivals, which do not depend on earlier requests."""

KINDS: Mapping[str, type[Open] | type[Closed]] = MappingProxyType(
    {kind.kind: kind for kind in (Constant, Poisson, Gamma, Mmpp, Burst, Replay, Closed)}
)
