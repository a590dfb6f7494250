"""What keeps cheaper vectors out, and what would let the nearest of them in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hetsim.core.units import format_seconds
from hetsim.errors import UsageError
from hetsim.provisioning.platforms.bounds.bound import Bound
from hetsim.provisioning.platforms.deploying import told
from hetsim.provisioning.platforms.playing import worst
from hetsim.provisioning.platforms.question import UNIT, Counts, Question
from hetsim.provisioning.platforms.searching import Found
from hetsim.provisioning.platforms.vectors import survey

Sort = Literal["speed", "demand", "limit", "price", "device"]


@dataclass(frozen=True, slots=True)
class Lever:
    """One change that would let something cheaper in, or another one.

    Attributes
    ----------
    sort : "speed", "demand", "limit", "price" or "device"
    what : str
        In words.
    to : float
        A factor on speed or demand; the latency in seconds; the price in dollars an hour, watts
        or devices.
    enough : bool
        Whether it is known to be enough, by a run; else less does not do, and it may not either.
    """

    sort: Sort
    what: str
    to: float
    enough: bool


@dataclass(frozen=True, slots=True)
class Binding:
    """What the nearest vector that costs less lacks.

    Attributes
    ----------
    what : str
        The constraint.
    needs, has : float
    unit : str
    counts : mapping of str to int
        That vector.
    proved : bool
        By a bound; else by the runs of all policies.
    levers : tuple of Lever
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
        """What is missing."""
        return self.needs - self.has


def says(question: Question, bound: Bound) -> str:
    """Return what a bound says of the vectors that it excludes."""
    text = _says(question, bound)
    if not question.losses:
        return text
    lost = "one device is" if question.losses == 1 else f"{question.losses} devices are"
    return f"{text}, where {lost} lost"


def _says(question: Question, bound: Bound) -> str:
    if bound.by == "needs":
        ask = question.asks[bound.ask]
        which = bound.slo[ask.stream]
        assert which is not None
        limit = format_seconds(question.streams[ask.stream].slos[which].latency_s)
        model = question.models[question.classes[ask.of_class].model]
        split = any(one.model == question.classes[ask.of_class].model for one in question.splits)
        alone = ", alone or with others," if split else ""
        return (
            f"no device of them{alone} answers {model}{_shape(question, ask.of_class)} in {limit}"
        )
    names = [
        stream.name
        for stream, which in zip(question.streams, bound.slo, strict=True)
        if which is not None
    ]
    of = f" of {' and '.join(names)}" if len(question.streams) > 1 else ""
    if bound.by == "pooled":
        return f"any policy answers too few{of} in time, were all devices one: below {_rate(bound)}"
    links = bound.capacity[len(question.types) :].any()
    what = f"the devices that are quick enough{', with their links,' if links else ''}"
    if not _alike(bound):
        brings = "comes" if bound.by == "rate" else "a window brings"
        return f"{what} carry less{of} than {brings}, in their mixture"
    if bound.by == "window":
        return f"{what} carry less{of} than a window brings: {_rate(bound)}"
    return f"{what} carry less{of} than comes: {_rate(bound)}"


def _shape(question: Question, of_class: int) -> str:
    variant = question.classes[of_class].variant
    return "".join(f" {name} {size}" for name, size in variant.items())


def _rate(bound: Bound) -> str:
    return f"{bound.least:.4g} {unit_of(bound)}"


def unit_of(bound: Bound) -> str:
    """What a bound's figures are."""
    if bound.by == "needs":
        return "devices"
    return "requests/s" if _alike(bound) else "priced seconds a second"


def _alike(bound: Bound) -> bool:
    """Whether all requests that count are worth one."""
    worth = bound.worth[bound.worth > 0]
    return bool(len(worth)) and bool(np.allclose(worth, 1.0))


def binding_of(found: Found, most: Counts | None) -> Binding | None:
    """Return what keeps the nearest cheaper vector out; None where nothing is cheaper.

    The nearest is that which has the largest part of what the bound needs that it is farthest
    from; one that no bound excludes comes before, by how far its best run is from its limits.
    `most`: the answer; absent: of all vectors.
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
        said = worst(played, question)
        stream = question.streams[said.stream]
        slo = stream.slos[said.slo]
        name = told(question, one.counts)
        limit = Lever(
            "limit",
            f"{stream.name} within {format_seconds(said.latency_s)} in the place of "
            f"{format_seconds(slo.latency_s)}: {name}",
            said.latency_s,
            enough=len(played.said) == 1,
        )
        return Binding(
            f"p{slo.percentile:g} of {stream.name}",
            slo.latency_s,
            said.latency_s,
            "s",
            question.named(one.counts),
            False,
            # What is undecided within the limit wants more requests, and no other limit.
            (limit, *levers) if said.latency_s > slo.latency_s else tuple(levers),
        )
    return _of_bounds(found, most, levers)


def _of_bounds(found: Found, most: Counts | None, levers: list[Lever]) -> Binding | None:
    question = found.question
    cap = question.dearest if most is None else question.cost(most)
    try:
        rows = survey(question, [], cap).left
    except UsageError:
        # Too many to be listed; the answer does not depend on them.
        return None
    if most is not None:
        mine = question.key(most)
        rows = np.array(
            [row for row in rows.tolist() if question.key(tuple(row)) < mine], dtype=np.int64
        ).reshape(-1, len(question.kinds))
    if not len(rows) or not found.tests:
        return None
    part = np.stack([test.left(rows) / test.least for test in found.tests], axis=1)
    nearest = int(part.min(axis=1).argmax())
    which = int(part[nearest].argmin())
    bound, test = found.bounds[which], found.tests[which]
    counts = tuple(rows[nearest].tolist())
    has = float(test.left(rows[nearest : nearest + 1])[0])
    name = told(question, counts)
    mine_levers = []
    if has > 0 and bound.by != "needs":
        by = test.least / has
        mine_levers = [
            Lever("speed", f"devices {by:.3g} times as fast: {name}", by, enough=False),
            Lever("demand", f"{1 / by:.3g} of what comes: {name}", 1 / by, enough=False),
        ]
    elif bound.by == "needs":
        mine_levers = list(_sooner(question, bound))
    return Binding(
        says(question, bound),
        bound.least,
        has,
        unit_of(bound),
        question.named(counts),
        True,
        (*mine_levers, *levers),
    )


def _sooner(question: Question, bound: Bound) -> list[Lever]:
    """The limits at which further devices would be quick enough."""
    of_class = question.asks[bound.ask].of_class
    found = []
    for of_type, spec in enumerate(question.types):
        ways = question.ways.get((of_type, of_class), ())
        if ways and not bound.capacity[of_type]:
            least_s = min(way.alone_s for way in ways)
            text = f"a limit of {format_seconds(least_s)}: {spec.name} is quick enough"
            found.append(Lever("limit", text, least_s, enough=False))
    return sorted(found, key=lambda lever: lever.to)[:1]


def _prices(found: Found) -> list[Lever]:
    """What one of a kind would have to cost for the runner-up to be the answer."""
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
                unit = "USD/h" if question.aim == "cost" else "W"
                text = f"{kind.name} below {to:.4g} {unit} ({now:.4g} now): {told(question, other)}"
                levers.append(Lever("price", text, to, enough=True))
    return levers
