"""How much of the time objectives hold: the answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, TypeAlias

from hetsim.confidence.verdict import Answer
from hetsim.errors import Infeasible, ObjectiveMissed, Undecided
from hetsim.service.service import Service
from hetsim.sizing.answer import Choice

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
