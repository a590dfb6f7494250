"""Answers: whether objectives hold without some devices, and how much of the time."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, TypeAlias

from hetsim.errors import Infeasible, ObjectiveMissed, Undecided, UsageError
from hetsim.provisioning.rates.answer import Choice, nearest_miss
from hetsim.provisioning.rates.judging import CONFIDENCE
from hetsim.simulation.service.service import Service
from hetsim.statistics.verdict import Answer
from hetsim.workload.workload import Workload

How: TypeAlias = Literal["played", "refused", "not asked"]

MINUTES_A_MONTH = 365.25 * 24 * 60 / 12


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """Devices that are down, as often as it is so.

    Attributes
    ----------
    lost : tuple of str
        Those that were left out.
    sets : tuple of Choice
        What it stands for: so many down of devices that are alike, none of the others that matter;
        each entry another such state that leaves the same. The first has `lost` in it.
    chance : Fraction
        Of all of these together.
    answer : "meets", "misses" or "undecided"
        Whether the objectives hold.
    how : "played", "refused" or "not asked"
        Played; a model cannot be served; or left open, as it is too rare to matter.
    service : Service, optional
        What became of the requests, where it was played.
    anew : tuple of str
        Models that were planned again, as none of their instances was left.
    """

    lost: tuple[str, ...]
    sets: tuple[Choice, ...]
    chance: Fraction
    answer: Answer
    how: How
    service: Service | None = field(repr=False)
    anew: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Matter:
    """How often a device is up.

    Attributes
    ----------
    device : str
    share : Fraction
        Of its time that it is up.
    source : str
    """

    device: str
    share: Fraction
    source: str


@dataclass(frozen=True, slots=True, eq=False)
class Availability:
    """How much of the time a workload's objectives hold.

    Attributes
    ----------
    target : Fraction
        What is asked for.
    low, high : Fraction
        Between which the share of the time is; one where nothing is undecided.
    states : tuple of State
        The likeliest first.
    devices : tuple of Matter
        Those that matter.
    impossible : str, optional
        Why no plans at all reach it, where that is proved.
    """

    target: Fraction
    low: Fraction
    high: Fraction
    states: tuple[State, ...]
    devices: tuple[Matter, ...]
    impossible: str | None = None

    @property
    def answer(self) -> Answer:
        """Whether the objectives hold as often as is asked."""
        if self.low >= self.target:
            return "meets"
        return "misses" if self.high < self.target else "undecided"

    @property
    def minutes_a_month(self) -> tuple[float, float]:
        """How long they do not hold, at least and at most, of a month of 365.25 / 12 days."""
        return (
            float(1 - self.high) * MINUTES_A_MONTH,
            float(1 - self.low) * MINUTES_A_MONTH,
        )

    def require(self) -> Availability:
        """Return itself where the target is reached.

        Raises
        ------
        Infeasible
            Where it is proved that no plans reach it on these devices.
        ObjectiveMissed
            Where it is not reached.
        Undecided
            Where that is not known.
        """
        if self.answer == "meets":
            return self
        asked = f"{float(self.target):.10g} of the time"
        if self.answer == "undecided":
            raise Undecided(
                f"whether the objectives hold {asked} is undecided", hint="give more --requests"
            )
        if self.impossible is not None:
            raise Infeasible(
                f"the objectives cannot hold {asked}: {self.impossible}",
                hint="add devices, or such as are up more often",
            )
        raise ObjectiveMissed(
            f"the objectives do not hold {asked}, but {float(self.high):.10g} at most",
            hint="add devices or instances, or ask for a longer latency",
        )


ORDER: dict[Answer, int] = {"meets": 0, "undecided": 1, "misses": 2}


def confidence_of_each(number: int) -> float:
    """Return that of each of so many verdicts at which all of them together are right."""
    return 1 - (1 - CONFIDENCE) / max(number, 1)


def answer_of(service: Service) -> Answer:
    """Return what a run says of all objectives together."""
    return max(
        (one.verdict.answer for stream in service.streams for one in stream.objectives),
        key=lambda one: ORDER[one],
        default="undecided",
    )


def check_objectives(workload: Workload) -> None:
    """Raise UsageError where there is no objective."""
    if not any(stream.slos for stream in workload.streams):
        raise UsageError("no stream has an objective", hint="give one, e.g. p99=50ms")


def check_asked(workload: Workload) -> None:
    """Raise UsageError where there is no objective, or devices fail anyway."""
    check_objectives(workload)
    if workload.failures is not None:
        raise UsageError(
            "devices that fail while requests come, and losses that are for good",
            hint="leave the failures out, or simulate them without asking what survives",
        )


@dataclass(frozen=True, slots=True, eq=False)
class Loss:
    """What becomes of a workload without some devices.

    Attributes
    ----------
    lost : tuple of str
        Those that were left out; none: all are there.
    sets : tuple of Choice
        What it stands for: so many of devices that are alike, together; each entry another such
        choice, that leaves the same. The first has `lost` in it.
    answer : "meets", "misses" or "undecided"
        Of all objectives together.
    service : Service, optional
        What became of the requests; None where a model cannot be served.
    anew : tuple of str
        Models that were planned again, as none of their instances was left.
    refused : Infeasible, optional
        Why a model cannot be served.
    """

    lost: tuple[str, ...]
    sets: tuple[Choice, ...]
    answer: Answer
    service: Service | None = field(repr=False)
    anew: tuple[str, ...] = ()
    refused: Infeasible | None = None

    @property
    def choices(self) -> int:
        """How many sets of devices it stands for."""
        return sum(
            math.prod(math.comb(len(names), count) for count, names in one) for one in self.sets
        )

    @property
    def badness(self) -> tuple[int, float]:
        """What tells the worse of two: the answer, then the percentile beside its limit."""
        return _badness(self.answer, self.service)


@dataclass(frozen=True, slots=True, eq=False)
class Survived:
    """Whether objectives hold without any one device, or any few.

    Attributes
    ----------
    most : int
        How many devices may be lost at once.
    intact : Loss
        Of none.
    losses : tuple of Loss
        The worst first.
    unused : tuple of str
        Devices of which the loss changes nothing.
    impossible : str, optional
        Why no plan at all survives the worst, where that is proved.
    """

    most: int
    intact: Loss
    losses: tuple[Loss, ...]
    unused: tuple[str, ...]
    impossible: str | None = None

    @property
    def worst(self) -> Loss:
        """The loss that is worst; that of none where no device matters."""
        return self.losses[0] if self.losses else self.intact

    @property
    def answer(self) -> Answer:
        """Of all losses together, and of none."""
        return max((self.intact.answer, self.worst.answer), key=lambda one: ORDER[one])

    def require(self) -> Loss:
        """Return the worst loss, where the objectives hold without any.

        Raises
        ------
        Infeasible
            Where no plan at all meets them without some devices, as is proved.
        ObjectiveMissed
            Where they are missed without some, or with all.
        Undecided
            Where neither is known.
        """
        bad = self.intact if self.intact.answer == "misses" else self.worst
        if self.answer == "meets":
            return self.worst
        named = "with all devices" if not bad.lost else f"without {', '.join(bad.lost)}"
        if self.answer == "undecided":
            raise Undecided(
                f"whether the objectives hold {named} is undecided", hint="give more --requests"
            )
        if self.impossible is not None:
            raise Infeasible(
                f"the objectives cannot hold {named}: {self.impossible}",
                hint="add a device, or ask for a longer latency",
            )
        why = f": {bad.refused.what}" if bad.refused is not None else ""
        raise ObjectiveMissed(
            f"the objectives are missed {named}{why}",
            hint="add a device or an instance, or ask for a longer latency",
        )


def _badness(answer: Answer, service: Service | None) -> tuple[int, float]:
    if service is None:
        return ORDER["misses"], math.inf
    nearest = nearest_miss(service)
    beside = math.inf if answer == "misses" else 0.0
    if nearest is not None:
        slo, percentile = nearest
        beside = percentile.estimate_s / slo.latency_s
    return ORDER[answer], beside
