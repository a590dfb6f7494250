"""Whether objectives hold without any one device, or any few: the answer."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from hetsim.confidence.verdict import Answer
from hetsim.errors import Infeasible, ObjectiveMissed, Undecided
from hetsim.service.service import Service
from hetsim.sizing.answer import Choice, nearest_miss
from hetsim.sizing.outages.verdicts import ORDER


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
