"""Answer of ``recommend``: the platform and its cost, and what excludes the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from hetsim.core.result import Result
from hetsim.core.units import format_percentile, format_seconds
from hetsim.errors import Infeasible, ObjectiveMissed, Undecided, UsageError
from hetsim.hardware.spec import Platform
from hetsim.provisioning.platforms.bounds.bound import Bound, bound_of, choices, needs
from hetsim.provisioning.platforms.components import Components
from hetsim.provisioning.platforms.policies import PlacedInstances, Policy, strategies
from hetsim.provisioning.platforms.priced import Purchase
from hetsim.provisioning.platforms.question import SLACK, UNIT, UNITS, Counts, DeviceSplit, Question
from hetsim.provisioning.platforms.robustness import Robustness
from hetsim.provisioning.platforms.search import DeploymentRun, SearchResult, TriedVector
from hetsim.provisioning.platforms.vectors import vectors_before
from hetsim.provisioning.rates.answer import Survived
from hetsim.simulation.service.service import Service
from hetsim.workload.deployment import Deployment
from hetsim.workload.workload import Workload


class Lever(NamedTuple):
    """Change that would make a cheaper vector, or another one, feasible.

    `to` is a factor on speed or demand, the latency in seconds, or the price in dollars per hour,
    watts or devices. If `enough`, a run confirmed it; otherwise less is insufficient, and it may be
    insufficient too.
    """

    sort: Literal["speed", "demand", "limit", "price", "device"]
    what: str
    to: float
    enough: bool


@dataclass(frozen=True, slots=True)
class Binding:
    """Constraint that the nearest cheaper vector violates: what it `needs` and `has`.

    `proved` by a bound; otherwise by runs of all policies.
    """

    what: str
    needs: float
    has: float
    unit: str
    counts: Mapping[str, int]
    proved: bool
    levers: tuple[Lever, ...]

    @property
    def gap(self) -> float:
        """Missing amount."""
        return self.needs - self.has


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """Vector that meets every objective, with its platform and deployment.

    `counts` omits kinds with count 0; `cost` is in US dollars per hour, watts with all devices
    busy, or devices. `service` is the result of ``simulate`` for the workload, and `survived` that
    of ``survive``, if losses were requested.
    """

    counts: Mapping[str, int]
    cost: float
    policy: Policy
    platform: Platform = field(repr=False)
    deployment: Deployment = field(repr=False)
    service: Service = field(repr=False)
    survived: Survived | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ExclusionReason:
    """Reason why a number of vectors, or the one of `counts`, are not the answer.

    If `proved`, it holds for every policy over the plans considered, otherwise for the policies
    tried; `undecided`: it may meet the objectives.
    """

    what: str
    vectors: int
    proved: bool
    counts: Mapping[str, int] | None = None
    undecided: bool = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Recommendation(Result):
    """Cheapest platform that meets every objective of a workload.

    `best` is None if none was found. The `undecided` cost less and may meet; `excuses` are the
    reasons against the others: by bound, then for each simulated one. Of all `vectors` the `dearer`
    come after the answer and were not examined. `binding` excludes the nearest cheaper one;
    `impossible` is the reason why no vector can, for any partition of the models, None without a
    proof. `robustness` is None if not requested, or without a recommendation. `found` is the search
    as numbers; `purchase` adds kinds alone, prices and proofs, for one model at a rate.
    """

    workload: Workload = field(repr=False)
    best: Chosen | None
    undecided: tuple[Mapping[str, int], ...]
    excuses: tuple[ExclusionReason, ...]
    dearer: int
    vectors: int
    binding: Binding | None
    impossible: str | None
    found: SearchResult = field(repr=False)
    components: tuple[Components, ...] = field(repr=False)
    robustness: Robustness | None = None
    purchase: Purchase | None = field(default=None, repr=False)

    @property
    def runner_up(self) -> Mapping[str, int] | None:
        """Next vector in order that meets; None without one, or without an answer."""
        second = self.found.runner_up
        return None if second is None else self.found.question.named(second.counts)

    @property
    def runner_up_cost(self) -> float | None:
        """Cost of the runner-up, in `unit`; None without one."""
        second = self.found.runner_up
        return None if second is None else self.found.question.amount(second.counts)

    @property
    def policies(self) -> tuple[Policy, ...]:
        """Policies that were tried for each vector."""
        return self.found.policies

    @property
    def unit(self) -> str:
        """Unit of costs."""
        return UNITS[self.found.question.aim]

    @property
    def plans(self) -> str:
        """Description of the plans considered."""
        question = self.found.question
        found = "each model whole on one device"
        if question.splits:
            by = " or ".join(strategies(question))
            sets = {(one.kinds, one.devices) for one in question.splits}
            found += f", or split by {by} over {len(sets)} sets of devices"
        return found

    @property
    def proved(self) -> bool:
        """Whether it is proved for all vectors and plans that none can be recommended."""
        return self.best is None and self.impossible is not None

    def require(self) -> Chosen:
        """Return the recommended platform, or raise with the reasons why there is none.

        Raises
        ------
        Infeasible
            If it is proved that no plan on any vector can.
        ObjectiveMissed
            If all vectors are excluded for the plans considered, or were tried and miss.
        Undecided
            If one of these may meet.
        """
        if self.best is not None:
            return self.best
        hint = "allow more --max-devices or a longer latency, or add kinds to the catalog"
        if self.impossible is not None:
            raise Infeasible(
                f"no platform of the catalog meets every objective: {self.impossible}", hint=hint
            )
        if self.undecided:
            raise Undecided(
                f"{len(self.undecided)} platforms may meet every objective: runs were too short",
                where=self.found.question.told(self.found.undecided[0]),
                hint="give more --requests",
            )
        near = nearest(self.found)
        if not near:
            most = max(self.excuses, key=lambda one: one.vectors, default=None)
            why = "" if most is None else f": {most.what}"
            raise ObjectiveMissed(
                f"with {self.plans} no platform of the catalog meets every objective{why}",
                hint=hint,
            )
        raise ObjectiveMissed(
            f"every platform simulated misses an objective; the closest is {near}", hint=hint
        )


def devices_of(question: Question, split: DeviceSplit) -> tuple[str, ...]:
    """Return the names of a split's devices on a platform that has one of each."""
    copies = split.copies
    names = []
    for (unit, _), of_type in zip(split.devices, question.types_of(split), strict=True):
        name = question.types[of_type].name
        host = question.kinds[split.kinds[unit]].slots
        names.append(name if host else f"{name.rpartition('.')[0]}.{copies[unit]}")
    return tuple(names)


def nearest(found: SearchResult) -> str:
    """Return the description of the vector that misses by least; empty if none was simulated."""
    question, ran = found.question, found.ran()
    if not ran:
        return ""
    _, one, _ = min(ran, key=lambda row: row[0])
    return f"{question.told(one.counts)}: {missed(found, one)}"


def missed(found: SearchResult, one: TriedVector) -> str:
    """Return the objective missed by a vector's best run, or its policies' bounds without a run."""
    question = found.question
    best = one.best(question)
    if best is None or best.played is None:
        bounds = [run.bound for run in one.runs if run.bound is not None]
        if not bounds:
            return str(one.runs[0].placed)
        return f"with each policy, {exclusion_reason(question, found.bounds[bounds[-1]])}"
    said = best.played.worst(question)
    stream = question.streams[said.stream]
    slo = stream.slos[said.slo]
    return (
        f"{stream.name}: {format_percentile(slo.percentile)} is {format_seconds(said.latency_s)}, "
        f"the limit {format_seconds(slo.latency_s)}{without_these(question, best)}"
    )


def without_these(question: Question, run: DeploymentRun) -> str:
    """Return the description of the lost devices, if any."""
    if not run.lost or not isinstance(run.placed, PlacedInstances):
        return ""
    names = [question.types[run.placed.places[at].of_type].name for at in run.lost]
    return f" without {' and '.join(names)}"


def excuses_of(found: SearchResult, excluded: Sequence[int]) -> tuple[ExclusionReason, ...]:
    """Return the reasons why vectors are not the answer: by bound, then each simulated one."""
    question = found.question
    by: dict[str, int] = {}
    for bound, count in zip(found.bounds, excluded, strict=True):
        if count:
            text = exclusion_reason(question, bound)
            by[text] = by.get(text, 0) + count
    return (
        *(ExclusionReason(text, count, True) for text, count in by.items()),
        *excuses_of_tried(found),
    )


def excuses_of_tried(found: SearchResult) -> Iterator[ExclusionReason]:
    """Yield the reason why each simulated vector is not the answer."""
    for one in found.tried:
        undecided = one.answer == "undecided"
        why = f"{'undecided: ' if undecided else ''}{missed(found, one)}"
        yield ExclusionReason(why, 1, False, found.question.named(one.counts), undecided)


# Binding constraints


def exclusion_reason(question: Question, bound: Bound) -> str:
    """Return the reason that a bound gives for the vectors that it excludes."""
    text = _says(question, bound)
    if not question.losses:
        return text
    lost = "one device" if question.losses == 1 else f"{question.losses} devices"
    return f"{text}, with {lost} lost"


def _says(question: Question, bound: Bound) -> str:
    if bound.by == "needs":
        ask = question.asks[bound.ask]
        which = bound.slo[ask.stream]
        assert which is not None
        limit = format_seconds(question.streams[ask.stream].slos[which].latency_s)
        of = question.classes[ask.of_class]
        split = any(one.model == of.model for one in question.splits)
        alone = ", alone or with others," if split else ""
        shape = "".join(f" {name} {size}" for name, size in of.variant.items())
        model = question.models[of.model]
        return f"no device{alone} answers {model}{shape} within {limit}"
    counted = zip(question.streams, bound.slo, strict=True)
    names = [stream.name for stream, which in counted if which is not None]
    of_streams = f" of {' and '.join(names)}" if len(question.streams) > 1 else ""
    rate = f"{bound.least:.4g} {unit_of(bound)}"
    if bound.by == "pooled":
        text = f"even one device as fast as all together answers too few{of_streams} in time"
        return f"{text}: {rate} needed"
    links = bound.capacity[len(question.types) :].any()
    what = f"the devices that are fast enough{', with their links,' if links else ''}"
    than = "the arrival rate" if bound.by == "rate" else "one window of the trace takes"
    mixed = ", for this mix of requests" if not _alike(bound) else f": {rate} needed"
    return f"{what} sustain less{of_streams} than {than}{mixed}"


def unit_of(bound: Bound) -> str:
    """Return the unit of a bound's figures."""
    if bound.by == "needs":
        return "devices"
    return "requests/s" if _alike(bound) else "priced seconds a second"


def _alike(bound: Bound) -> bool:
    """Return whether all requests that count have price 1."""
    worth = bound.worth[bound.worth > 0]
    return bool(len(worth)) and bool(np.allclose(worth, 1.0))


def binding_of(found: SearchResult, most: Counts | None) -> Binding | None:
    """Return the constraint that excludes the nearest cheaper vector; None if none is cheaper.

    The nearest has the largest share of the requirement of the bound that it is farthest from;
    vectors that no bound excludes come first, by the distance of their best run from its limits.
    `most`: the answer; absent: all vectors count.
    """
    question = found.question
    levers = [] if most is None else _prices(found)
    ran = [
        row
        for row in found.ran()
        if most is None or question.key(row[1].counts) < question.key(most)
    ]
    if ran:
        _, one, played = min(ran, key=lambda row: row[0])
        said = played.worst(question)
        stream = question.streams[said.stream]
        slo = stream.slos[said.slo]
        name = question.told(one.counts)
        limit = Lever(
            "limit",
            f"a limit of {format_seconds(said.latency_s)} for {stream.name} instead of "
            f"{format_seconds(slo.latency_s)}: {name}",
            said.latency_s,
            enough=len(played.said) == 1,
        )
        return Binding(
            f"{format_percentile(slo.percentile)} of {stream.name}",
            slo.latency_s,
            said.latency_s,
            "s",
            question.named(one.counts),
            False,
            # An undecided vector within the limit needs more requests, not another limit.
            (limit, *levers) if said.latency_s > slo.latency_s else tuple(levers),
        )
    return _of_bounds(found, most, levers)


def _of_bounds(found: SearchResult, most: Counts | None, levers: list[Lever]) -> Binding | None:
    question = found.question
    try:
        rows = vectors_before(question, most)
    except UsageError:
        # Too many to list; the answer does not depend on them.
        return None
    if not len(rows) or not found.tests:
        return None
    part = np.stack([test.left(rows) / test.least for test in found.tests], axis=1)
    nearest = int(part.min(axis=1).argmax())
    which = int(part[nearest].argmin())
    bound, test = found.bounds[which], found.tests[which]
    counts = tuple(rows[nearest].tolist())
    has = float(test.left(rows[nearest : nearest + 1])[0])
    name = question.told(counts)
    if bound.by == "needs":
        levers = [*_sooner(question, bound), *levers]
    elif has > 0:
        by = test.least / has
        levers = [
            Lever("speed", f"devices {by:.3g} times as fast: {name}", by, enough=False),
            Lever("demand", f"{1 / by:.3g} of the arrival rate: {name}", 1 / by, enough=False),
            *levers,
        ]
    return Binding(
        exclusion_reason(question, bound),
        bound.least,
        has,
        unit_of(bound),
        question.named(counts),
        True,
        tuple(levers),
    )


def _sooner(question: Question, bound: Bound) -> list[Lever]:
    """Return the limit at which a further device would be fast enough, if one would."""
    of_class = question.asks[bound.ask].of_class
    least = [
        (min(way.alone_s for way in ways), spec.name)
        for of_type, spec in enumerate(question.types)
        if (ways := question.ways.get((of_type, of_class))) and not bound.capacity[of_type]
    ]
    if not least:
        return []
    least_s, name = min(least, key=lambda row: row[0])
    text = f"a limit of {format_seconds(least_s)}: {name} is fast enough"
    return [Lever("limit", text, least_s, enough=False)]


def _prices(found: SearchResult) -> list[Lever]:
    """Return the price of one of a kind at which the runner-up would be the answer."""
    if found.answer is None or found.runner_up is None:
        return []
    question = found.question
    mine, other = found.answer.counts, found.runner_up.counts
    more = question.cost(other) - question.cost(mine)
    levers = []
    for kind, a, b in zip(question.kinds, mine, other, strict=True):
        if b > a and question.aim != "devices":
            to = float((kind.cost - more / (b - a)) * UNIT[question.aim])
            now = float(kind.cost * UNIT[question.aim])
            if to > 0:
                unit = UNITS[question.aim]
                text = f"{kind.name} below {to:.4g} {unit} ({now:.4g} now): {question.told(other)}"
                levers.append(Lever("price", text, to, enough=True))
    return levers


# Infeasibility of all vectors


def impossible(question: Question) -> str | None:
    """Return the reason why no vector can meet, for any partition; None without a proof.

    The bounds of the search cover the plans considered, while others may do better. This covers
    asks above the allowed late share that nothing can run, or not in time; and more work on time
    than all devices of the largest vector can do.
    """
    if not question.free:
        return None
    for bound in needs(question):
        ask = question.asks[bound.ask]
        which = bound.slo[ask.stream]
        assert which is not None
        limit_s = question.streams[ask.stream].slos[which].latency_s
        model = question.models[question.classes[ask.of_class].model]
        free = question.free[ask.of_class]
        if free.lacking:
            return f"{model}: {free.lacking}"
        if free.quickest_s * (1 - SLACK) > limit_s:
            least, asked = format_seconds(free.quickest_s), format_seconds(limit_s)
            return f"no plan of {model} takes less than {least}, and the limit is {asked}"
    most = 0
    for hosts, many in ((True, 1), (False, question.max_devices)):
        each = [len(kind.devices) for kind in question.kinds if bool(kind.slots) == hosts]
        most += many * max(each, default=0)
    work_s = np.array([one.work_s for one in question.free])
    prices = np.zeros(question.resources)
    prices[: len(question.types)] = 1.0
    for slo in choices(question):
        busy = bound_of(question, slo, (prices, work_s))
        if busy is not None and most < busy.least * (1 - SLACK):
            return (
                f"the arrival rate keeps {busy.least:.4g} devices busy with any partition, and no "
                f"platform has more than {most}"
            )
    return None
