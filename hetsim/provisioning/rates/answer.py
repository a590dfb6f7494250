"""Answers to capacity questions: rates, losses of devices, and availability."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, TypeAlias

from hetsim.core import checks
from hetsim.core.result import Result
from hetsim.errors import Infeasible, ObjectiveMissed, Undecided, UsageError
from hetsim.provisioning.rates.search import CONFIDENCE
from hetsim.simulation.service.resolution import Resolved
from hetsim.simulation.service.service import Service
from hetsim.statistics.intervals import Percentile
from hetsim.statistics.verdict import Answer
from hetsim.workload.workload import Slo, Workload

ANSWERS: tuple[Answer, ...] = ("meets", "undecided", "misses")
"""Answers from best to worst."""

How = Literal["exact", "scan", "verdicts"]

Choice: TypeAlias = tuple[tuple[int, tuple[str, ...]], ...]
"""Numbers of failed devices by class of identical ones."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Range of rates that meet every objective, in requests per second of all streams together.

    From the lowest (0 if all below the highest are proven) to the highest, with the nearest ones on
    either side that miss, None if no such rate was found. Rates in between are undecided.
    """

    low_per_s: float
    high_per_s: float
    misses_below_per_s: float | None
    misses_above_per_s: float | None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SustainedRate:
    """Rate that one deployment sustains.

    Its `name` has its strategy and batching; `resolved` its models with their plans, empty if it
    was `refused`. `how`: for given requests the "exact" rate, or rates examined ("scan"); for
    random ones, rates decided by long runs ("verdicts"). `answer` is whether any rate was found
    that meets every objective, or none exists; `proved`, if it misses, that no rate can. `rates`
    ascend; they may not cover everything up to one for the reason `one_span`, None if proven.
    `factor` is the largest on the workload's own rate, if exact.

    The first `sample` requests alone meet every objective up to `sample_per_s`, infinite: at any
    rate. From `ceiling_per_s` on there is more work than capacity, with `ceiling_binds` busy. `at`
    and `beyond` are runs at the highest rate that meets, and at the lowest above seen to miss;
    `ends` is the reason why there are no higher ones. `requests` were simulated in total. `losses`
    are the results with all devices and without some, if requested; all else is their minimum.
    """

    name: str
    resolved: tuple[Resolved, ...] = field(repr=False)
    how: How
    one_span: str | None = None
    answer: Answer
    proved: bool
    rates: tuple[Rates, ...] = ()
    factor: Fraction | None = None
    sample_per_s: float | None = None
    sample: int = 0
    ceiling_per_s: float = 0.0
    ceiling_binds: str = ""
    at: Service | None = field(default=None, repr=False)
    beyond: Service | None = field(default=None, repr=False)
    ends: str
    requests: int = 0
    refused: Infeasible | None = None
    losses: tuple[RateWithoutDevices, ...] = ()

    @property
    def highest_per_s(self) -> float:
        """Highest rate shown to meet every objective; 0 without one."""
        return self.rates[-1].high_per_s if self.rates else 0.0

    @property
    def utilization(self) -> float | None:
        """Sustained rate over its ceiling; None if either is unknown or infinite."""
        if not self.rates or not math.isfinite(self.highest_per_s + self.ceiling_per_s):
            return None
        return self.highest_per_s / self.ceiling_per_s

    def at_rate(self, rate_per_s: float) -> Answer:
        """Return the decision on a rate."""
        if self.answer == "misses" and self.proved:
            return "misses"
        for one in self.rates:
            if one.low_per_s <= rate_per_s <= one.high_per_s:
                return "meets"
        if rate_per_s >= self.ceiling_per_s and self.how == "verdicts":
            return "misses"
        last = self.rates[-1] if self.rates else None
        if last is not None and self.one_span is None:
            above = last.misses_above_per_s
            return "misses" if above is not None and rate_per_s >= above else "undecided"
        return "undecided"


@dataclass(frozen=True, slots=True, eq=False)
class RateWithoutDevices:
    """Rate that a deployment sustains without some devices, or with all of them.

    `sets` are the equivalent losses: numbers of identical devices, together; each entry another
    choice with the same remainder.
    """

    lost: tuple[str, ...]
    sets: tuple[Choice, ...]
    sustained: SustainedRate


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Capacity(Result):
    """Rate of a workload that a platform sustains.

    `rate_per_s` is that of all streams in the workload, which factors multiply. `rows` are in
    descending order of rate, refused ones last. No plan for these batch sizes sustains more than
    `bound_per_s` under any policy: None for several models, a trace, or with unpriced nodes.
    `impossible` is the reason why no plan meets the objectives at any rate, None without a proof.
    """

    workload: Workload
    rate_per_s: float
    rows: tuple[SustainedRate, ...]
    bound_per_s: float | None
    impossible: str | None

    @property
    def best(self) -> SustainedRate:
        """Row of the highest rate."""
        return self.rows[0]

    def require(self, rate_per_s: float | None = None) -> SustainedRate:
        """Return a deployment that sustains a rate; absent: any that meets the objectives.

        Raises Infeasible if it is proved impossible, ObjectiveMissed if it is missed, Undecided if
        neither is known.
        """
        if rate_per_s is not None:
            checks.number(above=0)(rate_per_s, "rate_per_s")
        if all(one.refused is not None for one in self.rows):
            refused = self.rows[0].refused
            assert refused is not None
            raise refused
        for one in self.rows:
            if one.answer == "meets" and (rate_per_s is None or one.at_rate(rate_per_s) == "meets"):
                return one
        asked = "any rate" if rate_per_s is None else f"{rate_per_s:.4g} requests a second"
        if self.impossible is not None:
            raise Infeasible(self.impossible, hint="ask for a longer latency, or another platform")
        if (
            rate_per_s is not None
            and self.bound_per_s is not None
            and rate_per_s > self.bound_per_s
        ):
            raise Infeasible(
                f"no plan sustains more than {self.bound_per_s:.4g} requests a second",
                hint="ask for less, or another platform",
            )
        best = self.best
        answers = {
            one.answer if rate_per_s is None else one.at_rate(rate_per_s)
            for one in self.rows
            if one.refused is None
        }
        if answers == {"misses"}:
            raise ObjectiveMissed(
                f"the objectives are missed at {asked}; {best.ends}",
                where=best.name,
                hint="give other strategies, batches or instances, or a longer latency",
            )
        raise Undecided(
            f"it is undecided whether {asked} meets the objectives",
            where=best.name,
            hint=best.ends
            if "--requests" in best.ends or rate_per_s is None
            else "simulate this rate alone, without --target-rate",
        )


def nearest_miss(service: Service) -> tuple[Slo, Percentile] | None:
    """Return the objective with the largest ratio of percentile to limit, with that percentile."""
    found = [
        (one.slo, percentile)
        for stream in service.streams
        for one in stream.objectives
        for percentile in stream.percentiles
        if percentile.percentile == one.slo.percentile
    ]
    return max(found, key=lambda one: one[1].estimate_s / one[0].latency_s, default=None)


Known: TypeAlias = Literal["played", "refused", "not asked"]

MINUTES_A_MONTH = 365.25 * 24 * 60 / 12


@dataclass(frozen=True, slots=True, eq=False)
class Loss:
    """Result of a workload without some devices.

    The `lost` were removed. It stands for `sets`: numbers of identical failed devices; each entry
    another state with the same remainder. `service` is None if it was not simulated: a model cannot
    be served, for the reason `refused`, or the loss is too rare to matter. The models `anew` were
    replanned, as none of their instances was left. `chance` is its share of the time, if requested.
    """

    lost: tuple[str, ...]
    sets: tuple[Choice, ...]
    answer: Answer
    service: Service | None = field(repr=False)
    anew: tuple[str, ...] = ()
    refused: Infeasible | None = None
    chance: Fraction = Fraction(0)

    @property
    def how(self) -> Known:
        """Source of its answer."""
        if self.refused is not None:
            return "refused"
        return "not asked" if self.service is None else "played"

    @property
    def choices(self) -> int:
        """Number of sets of devices that it stands for."""
        return sum(
            math.prod(math.comb(len(names), count) for count, names in one) for one in self.sets
        )

    @property
    def badness(self) -> tuple[int, float]:
        """Sort key for the worse of two: the answer, then the percentile relative to its limit."""
        if self.service is None:
            return ANSWERS.index("misses"), math.inf
        nearest = nearest_miss(self.service)
        if nearest is None:
            return ANSWERS.index(self.answer), math.inf if self.answer == "misses" else 0.0
        slo, percentile = nearest
        return ANSWERS.index(self.answer), percentile.estimate_s / slo.latency_s


@dataclass(frozen=True, slots=True)
class DeviceShare:
    """Device that matters, the share of time that it is up, and the source of that."""

    device: str
    share: Fraction
    source: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Availability(Result):
    """Share of the time in which a workload's objectives hold.

    Between `low` and `high`, equal if nothing is undecided. The most likely states come first;
    `devices` are those that matter; `impossible` is the reason why no plan reaches the target, None
    without a proof.
    """

    target: Fraction
    low: Fraction
    high: Fraction
    states: tuple[Loss, ...]
    devices: tuple[DeviceShare, ...]
    impossible: str | None = None

    @property
    def answer(self) -> Answer:
        """Whether the objectives hold for the required share of time."""
        if self.low >= self.target:
            return "meets"
        return "misses" if self.high < self.target else "undecided"

    @property
    def minutes_a_month(self) -> tuple[float, float]:
        """Minimum and maximum downtime per month of 365.25 / 12 days, in minutes."""
        return (
            float(1 - self.high) * MINUTES_A_MONTH,
            float(1 - self.low) * MINUTES_A_MONTH,
        )

    def require(self) -> Availability:
        """Return itself if the target is reached.

        Raises Infeasible if it is proved impossible, ObjectiveMissed if it is missed, Undecided if
        neither is known.
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
                hint="add devices, or use devices of higher availability",
            )
        raise ObjectiveMissed(
            f"the objectives do not hold {asked}, but {float(self.high):.10g} at most",
            hint="add devices or instances, or ask for a longer latency",
        )


def confidence_of_each(number: int) -> float:
    """Return the confidence of each of several verdicts by which all are right together."""
    return 1 - (1 - CONFIDENCE) / max(number, 1)


def answer_of(service: Service) -> Answer:
    """Return the verdict of a run on all objectives together."""
    return max(
        (one.verdict.answer for stream in service.streams for one in stream.objectives),
        key=ANSWERS.index,
        default="undecided",
    )


def check_objectives(workload: Workload) -> None:
    """Raise UsageError if there is no objective."""
    if not any(stream.slos for stream in workload.streams):
        raise UsageError("no stream has an objective", hint="give one, e.g. p99=50ms")


def check_asked(workload: Workload) -> None:
    """Raise UsageError without an objective, or if devices fail anyway."""
    check_objectives(workload)
    if workload.failures is not None:
        raise UsageError(
            "devices of the workload fail and return, while lost devices stay away",
            hint="leave the failures out, or simulate them without asking what survives",
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Survived(Result):
    """Whether objectives hold after losing any one device, or any few, at most `most`.

    Losses are in order, worst first; the loss of `unused` devices changes nothing; `impossible` is
    the reason why no plan survives the worst, None without a proof.
    """

    most: int
    intact: Loss
    losses: tuple[Loss, ...]
    unused: tuple[str, ...]
    impossible: str | None = None

    @property
    def worst(self) -> Loss:
        """Worst loss; the intact state if no device matters."""
        return self.losses[0] if self.losses else self.intact

    @property
    def answer(self) -> Answer:
        """Answer over all losses and the intact state."""
        return max((self.intact.answer, self.worst.answer), key=ANSWERS.index)

    def require(self) -> Loss:
        """Return the worst loss, if the objectives hold in all.

        Raises Infeasible if it is proved impossible, ObjectiveMissed if it is missed, Undecided if
        neither is known.
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
