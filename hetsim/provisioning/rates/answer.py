"""The answer: which rates a deployment carries within what is asked, and why no more."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, TypeAlias

from hetsim.core import checks
from hetsim.errors import Infeasible, ObjectiveMissed, Undecided
from hetsim.simulation.service.resolving import Resolved
from hetsim.simulation.service.service import Service
from hetsim.statistics.intervals import Percentile
from hetsim.statistics.verdict import Answer
from hetsim.workload.workload import Slo, Workload

How = Literal["exact", "scan", "verdicts"]

Choice: TypeAlias = tuple[tuple[int, tuple[str, ...]], ...]
"""So many down of devices that are alike, by class."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates that meet every objective, in requests a second of all streams together.

    Attributes
    ----------
    low_per_s, high_per_s : float
        The lowest and the highest that does; 0 for the lowest where that is proved of all below
        the highest.
    misses_below_per_s, misses_above_per_s : float, optional
        The nearest rates beside them that do not. None: no such rate was found, as far as was
        looked. What lies between is undecided.
    """

    low_per_s: float
    high_per_s: float
    misses_below_per_s: float | None
    misses_above_per_s: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Carried:
    """What one deployment carries.

    Attributes
    ----------
    name : str
        What tells it from the others: its strategy and its batching.
    resolved : tuple of Resolved
        Its models with their plans; empty where it was refused.
    how : "exact", "scan" or "verdicts"
        Of given requests the exact rate, or rates that were looked at; of what chance makes, rates
        that long runs have told of.
    one_span : str, optional
        Why the rates that meet it need not be all up to one; None where that is proved.
    answer : "meets", "misses" or "undecided"
        Whether any rate was found that meets every objective, or none is there.
    proved : bool
        Where it misses: that no rate can meet them.
    rates : tuple of Rates
        Ascending; empty where none was found.
    factor : Fraction, optional
        The largest on the workload's own rate, where ``how`` is "exact" and there is one.
    sample_per_s : float, optional
        The highest rate at which the first `sample` requests alone meet every objective; infinite
        where they do at any.
    sample : int
    ceiling_per_s : float
        The rate from which on more work comes than can be done, however long it goes on.
    ceiling_binds : str
        What is busy all the time there.
    at : Service, optional
        What becomes of the requests at the highest rate that meets them.
    beyond : Service, optional
        The same at the lowest rate above that was seen to miss, where it was played.
    ends : str
        Why there are no higher ones.
    requests : int
        That were played in all.
    refused : Infeasible, optional
        Why it cannot be served at all.
    losses : tuple of Without
        What it carries with all devices and without some, where that was asked; all else is then
        the least of these.
    """

    name: str
    resolved: tuple[Resolved, ...] = field(repr=False)
    how: How
    one_span: str | None
    answer: Answer
    proved: bool
    rates: tuple[Rates, ...]
    factor: Fraction | None
    sample_per_s: float | None
    sample: int
    ceiling_per_s: float
    ceiling_binds: str
    at: Service | None = field(repr=False)
    beyond: Service | None = field(repr=False)
    ends: str
    requests: int
    refused: Infeasible | None = None
    losses: tuple[Without, ...] = ()

    @property
    def highest_per_s(self) -> float:
        """The highest rate that was shown to meet every objective; 0 where none was."""
        return self.rates[-1].high_per_s if self.rates else 0.0

    @property
    def utilization(self) -> float | None:
        """The share of its ceiling that it carries within the objectives."""
        if not self.rates or not math.isfinite(self.ceiling_per_s):
            return None
        return self.highest_per_s / self.ceiling_per_s

    def at_rate(self, rate_per_s: float) -> Answer:
        """Return what is known of a rate."""
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
class Without:
    """What a deployment carries without some devices.

    Attributes
    ----------
    lost : tuple of str
        Those that were left out; none: all are there.
    sets : tuple of Choice
        What it stands for: so many of devices that are alike, together; each entry another such
        choice, that leaves the same.
    carried : Carried
    """

    lost: tuple[str, ...]
    sets: tuple[Choice, ...]
    carried: Carried


@dataclass(frozen=True, slots=True, eq=False)
class Capacity:
    """How much a platform carries of a workload.

    Attributes
    ----------
    workload : Workload
    rate_per_s : float
        Of all its streams as it says them: what factors are on.
    rows : tuple of Carried
        The deployments that were asked about; the one that carries most first, those that were
        refused last.
    bound_per_s : float, optional
        No plan for these batch sizes carries more, however it is served. None where nothing is
        stated: of several models, or of ones with nodes that are not priced.
    impossible : str, optional
        Why no plan meets the objectives at any rate, where that is proved.
    """

    workload: Workload
    rate_per_s: float
    rows: tuple[Carried, ...]
    bound_per_s: float | None
    impossible: str | None

    @property
    def best(self) -> Carried:
        """The row that carries most."""
        return self.rows[0]

    def require(self, rate_per_s: float | None = None) -> Carried:
        """Return a deployment that carries a rate; absent: any that meets the objectives.

        Raises
        ------
        Infeasible
            Where it is proved that no plan can, or nothing can be served.
        ObjectiveMissed
            Where each deployment was seen to miss.
        Undecided
            Where neither is known of one of them, and none carries it.
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
                f"no plan carries more than {self.bound_per_s:.4g} requests a second",
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
            f"whether {asked} meets the objectives is undecided; {best.ends}",
            where=best.name,
            hint="give more --requests",
        )


def nearest_miss(service: Service) -> tuple[Slo, Percentile] | None:
    """Return the objective whose percentile is largest beside its limit, with that percentile."""
    found: list[tuple[float, Slo, Percentile]] = []
    for stream in service.streams:
        by_percentile: Mapping[float, Percentile] = {
            one.percentile: one for one in stream.percentiles
        }
        for objective in stream.objectives:
            one = by_percentile.get(objective.slo.percentile)
            if one is not None:
                found.append((one.estimate_s / objective.slo.latency_s, objective.slo, one))
    if not found:
        return None
    _, slo, percentile = max(found, key=lambda one: one[0])
    return slo, percentile
