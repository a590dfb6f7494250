"""Question of a certificate as the search has it, with the requests that came."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

import numpy as np

from hetsim.provisioning.platforms.claim import (
    AskClaim,
    Claim,
    LimitClaim,
    PolicyClaim,
    TemplateClaim,
    WayClaim,
    as_long,
    at,
    broken,
    untrue,
)
from hetsim.provisioning.platforms.pieces import cost_of
from hetsim.provisioning.platforms.plays import alone_and_load
from hetsim.provisioning.platforms.policies import MOST_MODELS, Policy
from hetsim.provisioning.platforms.question import (
    Aim,
    Arrivals,
    Ask,
    Class,
    DeviceType,
    Kind,
    Question,
    Split,
    Stream,
    Task,
    Way,
)
from hetsim.workload.workload import Slo

MOST_DEVICES = 20_000
INTERVALS, ERRORS = 32, 6.0
"""Of equal length, by which the rate of arrivals is told, and how many standard errors it may be
off by: a right one is off by more once in hundreds of thousands."""
CLOSE = 1e-9
"""By how much sums of seconds may be off."""
PRICES: dict[Aim, tuple[set[str], ...]] = {
    "devices": (set(),),
    "energy": ({"power_w"},),
    "cost": ({"usd_per_hour"}, {"usd", "years"}, {"power_w", "usd", "usd_per_kwh", "years"}),
}
"""What a price may be made of."""

Units = tuple[tuple[int, ...], tuple[tuple[int, int], ...]]
"""Kinds, one of each, and devices: which of these kinds, and which device of that."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """Question of a certificate, with policies, arrivals and ways in its order.

    `came` is by ask: how many came, their rate, and how far a rate may be off and agree with them.
    `splits` has the numbers of the question's splits by model, strategy, kinds and devices,
    `template` those of the templates of ways.
    """

    question: Question
    policies: tuple[Policy, ...]
    arrivals: Arrivals
    came: list[tuple[int, float, float]]
    ways: list[Way]
    splits: dict[tuple[int, str, Units], int]
    template: dict[Way, int]


def claimed(claim: Claim) -> Claimed:
    """Question, arrivals, ways and templates of a certificate. Raises Broken, Untrue."""
    asked = claim.question
    kinds = _kinds(claim)
    classes = []
    for k, one in enumerate(asked.classes):
        at(asked.models, one.model, f"/question/classes/{k}/model")
        classes.append(Class(one.model))
    streams = []
    for k, stream in enumerate(asked.streams):
        at(asked.models, stream.model, f"/question/streams/{k}/model")
        slos = tuple(Slo(*slo) for slo in stream.slos)
        streams.append(Stream(stream.name, stream.model, slos))
    if not any(stream.slos for stream in streams):
        broken("/question/streams", "no objective")
    sampled = asked.demand == "sampled"
    asks = [_ask(ask, k, streams, classes, sampled=sampled) for k, ask in enumerate(asked.asks)]
    pairs = {(ask.stream, ask.of_class) for ask in asks}
    if len(pairs) < len(asks) or {stream for stream, _ in pairs} != set(range(len(streams))):
        broken("/question/asks", "a stream without requests, or an ask twice")
    arrivals = Arrivals.joined(())
    if claim.arrivals is not None:
        arrivals = claim.arrivals.unpacked(len(asks))
    elif not sampled:
        broken("/arrivals", "a trace without requests")
    came = [_came(arrivals, k, ask.rate_per_s) for k, ask in enumerate(asks)]
    templates = _templates(claim)
    ways = [_way(claim, k, kinds, templates.get(k)) for k in range(len(claim.ways))]
    alone, splits = _by_devices(claim, kinds, classes, ways)
    question = Question(
        asked.objective,
        asked.max_devices,
        tuple(DeviceType(one.name, one.streams, 0) for one in asked.devices),
        tuple(kinds),
        tuple(one.name for one in asked.models),
        tuple(classes),
        tuple(streams),
        tuple(asks),
        alone,
        given=not sampled,
        warm_up_s=asked.warm_up_s,
        arrivals=None if sampled else arrivals,
        splits=tuple(splits),
        losses=asked.losses,
    )
    for k, number in templates.items():
        _compare(claim.ways[k], ways[k], question, f"/templates/{number}/tasks")
    return Claimed(
        question,
        tuple(_policy(one, k, question) for k, one in enumerate(asked.policies)),
        arrivals,
        came,
        ways,
        {(s.model, s.strategy, (s.kinds, s.devices)): k for k, s in enumerate(splits)},
        {ways[k]: number for k, number in templates.items()},
    )


def _kinds(claim: Claim) -> list[Kind]:
    asked, where = claim.question, "/question/kinds"
    if sum(kind.most * max(kind.cost, 1) for kind in asked.kinds) >= 1 << 62:
        broken(where, "costs are too large to be added up")
    if sum(kind.most * (len(kind.devices) + kind.links) for kind in asked.kinds) > MOST_DEVICES:
        broken(where, f"more than {MOST_DEVICES} devices and links")
    slots = [0] * len(asked.kinds)
    if asked.limits:
        as_long(asked.limits, 2, "/question/limits")
        slots = asked.limits[1].of
        as_long(slots, len(asked.kinds), "/question/limits/1/of")
    found = []
    for k, (one, taken) in enumerate(zip(asked.kinds, slots, strict=True)):
        for place, of_type in enumerate(one.devices):
            at(asked.devices, of_type, f"{where}/{k}/devices/{place}")
        here = f"{where}/{k}/price"
        price = {name: _decimal(text, f"{here}/{name}") for name, text in one.price.items()}
        if set(price) not in PRICES[asked.objective]:
            broken(here, "no price of this objective")
        exact = cost_of(asked.objective, price, one.counts)
        if one.cost != exact:
            untrue(f"{where}/{k}/cost", f"the price makes {exact}, not {one.cost}")
        found.append(
            Kind(one.name, tuple(one.devices), one.links, one.cost, one.most,
                 slots=max(-taken, 0), in_slot=taken > 0)
        )  # fmt: skip
        if one.counts != found[-1].counted:
            broken(f"{where}/{k}/counts", f"{found[-1].counted} of a {'host' * (taken < 0)} kind")
    if asked.limits != LimitClaim.of_hosts(found):
        broken("/question/limits", "other limits than one host and its slots")
    each = [of_type for kind in found for of_type in kind.devices]
    if len(set(each)) < len(each):
        broken(where, "one type of device twice")
    return found


def _decimal(text: str, where: str) -> Fraction:
    try:
        value = Decimal(text) if len(text) <= 40 else Decimal(-1)
    except InvalidOperation:
        value = Decimal(-1)
    # An exponent may be enormous: 1e-999999999 is a short text, and no short fraction.
    if not value.is_finite() or value < 0 or abs(value.adjusted()) > 30:
        broken(where, "no decimal number from 0 on")
    return Fraction(value)


def _ask(
    one: AskClaim, k: int, streams: Sequence[Stream], classes: Sequence[Class], *, sampled: bool
) -> Ask:
    where = f"/question/asks/{k}"
    stream = at(streams, one.stream, f"{where}/stream")
    if at(classes, one.class_, f"{where}/class").model != stream.model:
        broken(f"{where}/class", "of another model than the stream's")
    if (one.rate_per_s is None) == sampled:
        broken(f"{where}/rate_per_s", "random requests have a rate, and those of a trace have none")
    return Ask(one.stream, one.class_, one.rate_per_s)


def _came(arrivals: Arrivals, ask: int, rate: float | None) -> tuple[int, float, float]:
    """How many arrivals there are, their rate, and how far from it a right one may be."""
    own_s = arrivals.time_s[arrivals.ask == ask]
    end_s = float(arrivals.time_s[-1]) if len(arrivals) else 0.0
    if not end_s:
        return len(own_s), 0.0, math.inf
    counts = np.histogram(own_s, INTERVALS, (0.0, end_s))[0]
    variance = max(INTERVALS * float(counts.var(ddof=1)), len(own_s), (rate or 0.0) * end_s)
    per_s, off = len(own_s) / end_s, (ERRORS * math.sqrt(variance) + 1) / end_s
    if rate is not None and abs(rate - per_s) > off:
        untrue(
            f"/question/asks/{ask}/rate_per_s",
            f"{rate:.6g} a second, and the {len(own_s):,} arrivals come at {per_s:.6g} "
            f"({max(per_s - off, 0):.6g} to {per_s + off:.6g})",
        )
    return len(own_s), per_s, off


def _policy(one: PolicyClaim, k: int, question: Question) -> Policy:
    where = f"/question/policies/{k}"
    found = Policy(one.placement, one.routing, one.max_batch, line=one.limit == "streams")
    if not found.line and one.limit != found.limit([1]):
        broken(f"{where}/limit", f"{found.limit([1])} of batches of up to {one.max_batch}")
    if one.placement == "each" and len(question.models) > MOST_MODELS:
        broken(f"{where}/placement", f"every placement of more than {MOST_MODELS} models")
    for place, (of_type, models) in enumerate(one.refused):
        at(question.types, of_type, f"{where}/refused/{place}/0")
        for model in models:
            at(question.models, model, f"{where}/refused/{place}/1")
    return found


# Ways and templates


def _templates(claim: Claim) -> dict[int, int]:
    """By way, the number of its template."""
    found: dict[int, int] = {}
    for k, one in enumerate(claim.templates):
        way = at(claim.ways, one.way, f"/templates/{k}/way")
        if found.setdefault(one.way, k) != k:
            broken(f"/templates/{k}/way", "a second template of one way")
        _check_tasks(one, way, f"/templates/{k}/tasks")
    return found


def _check_tasks(one: TemplateClaim, way: WayClaim, where: str) -> None:
    """Check that tasks are on devices and links of the way, and can all end."""
    after: dict[int, set[int]] = {}
    last: dict[int, int] = {}
    for k, (slot, _, held, before) in enumerate(one.tasks):
        if slot >= len(way.devices) or any(link >= len(way.links) for link in held):
            broken(f"{where}/{k}", "no device or link of the way: no such whole number")
        if any(task >= len(one.tasks) for task in before):
            broken(f"{where}/{k}/3", "no whole number of a task")
        if len(set(held)) < len(held) or len(set(before)) < len(before):
            broken(f"{where}/{k}", "a link or a task twice")
        if slot >= 0 and (held or (k and one.tasks[k - 1][0] < 0)):
            broken(f"{where}/{k}", "a subgraph that holds links, or comes after transfers")
        after[k] = set(before)
        if slot >= 0:
            # Subgraphs of a device take turns in their order.
            after[k] |= {last[slot]} if slot in last else set()
            last[slot] = k
    try:
        TopologicalSorter(after).prepare()
    except CycleError:
        broken(where, "tasks wait for each other")


def _way(claim: Claim, k: int, kinds: Sequence[Kind], template: int | None) -> Way:
    """A way; without a template of tasks that take just what it says."""
    one, where = claim.ways[k], f"/ways/{k}"
    at(claim.question.classes, one.class_, f"{where}/class")
    own = [at(kinds, kind, f"{where}/kinds/{unit}") for unit, kind in enumerate(one.kinds)]
    for n, (unit, place, _) in enumerate(one.devices):
        at(at(own, unit, f"{where}/devices/{n}/0").devices, place, f"{where}/devices/{n}/1")
    if len({row[:2] for row in one.devices}) < len(one.devices):
        broken(f"{where}/devices", "a device twice")
    if {unit for unit, _, _ in one.devices} != set(range(len(own))) or not own:
        broken(f"{where}/kinds", "no device, or none of one of them")
    as_long(one.links, sum(kind.links for kind in own), f"{where}/links")
    if template is None:
        tasks = [Task(slot, row[2], (), ()) for slot, row in enumerate(one.devices)]
        tasks += [Task(-1, held, (link,), ()) for link, held in enumerate(one.links) if held]
    else:
        tasks = [
            Task(slot, seconds, tuple(held), tuple(before))
            for slot, seconds, held, before in claim.templates[template].tasks
        ]
    busy_s = sum(task.seconds for task in tasks if task.slot >= 0)
    return Way(one.batch, tuple(tasks), busy_s, one.alone_s)


def _by_devices(
    claim: Claim, kinds: Sequence[Kind], classes: Sequence[Class], ways: Sequence[Way]
) -> tuple[dict[tuple[int, int], tuple[Way, ...]], list[Split]]:
    """Ways by the type of the device that has them alone, and class; and those of several."""
    alone: dict[tuple[int, int], list[tuple[int, Way]]] = {}
    several: dict[tuple[int, str, Units], dict[int, list[tuple[int, Way]]]] = {}
    for k, (one, way) in enumerate(zip(claim.ways, ways, strict=True)):
        if len(one.devices) == 1:
            of_type = kinds[one.kinds[0]].devices[one.devices[0][1]]
            alone.setdefault((of_type, one.class_), []).append((k, way))
        else:
            units = tuple(one.kinds), tuple(row[:2] for row in one.devices)
            key = (classes[one.class_].model, one.strategy, units)
            several.setdefault(key, {}).setdefault(one.class_, []).append((k, way))
    splits = [
        Split(model, strategy, *units, {of: _by_size(rows) for of, rows in by_class.items()})
        for (model, strategy, units), by_class in several.items()
    ]
    return {key: _by_size(rows) for key, rows in alone.items()}, splits


def _by_size(rows: list[tuple[int, Way]]) -> tuple[Way, ...]:
    rows.sort(key=lambda row: row[1].batch)
    if rows[0][1].batch != 1:
        broken(f"/ways/{rows[0][0]}/batch", "no way for one request on these devices")
    for (_, one), (k, other) in pairwise(rows):
        if one.batch == other.batch:
            broken(f"/ways/{k}", "a second way of a batch on these devices")
    return tuple(way for _, way in rows)


def _compare(one: WayClaim, way: Way, question: Question, where: str) -> None:
    """Check that tasks take devices and links, and a request alone, no less than the way says."""
    types = [question.kinds[one.kinds[unit]].devices[place] for unit, place, _ in one.devices]
    alone_s, _ = alone_and_load(way, tuple(question.types[of_type].streams for of_type in types))
    if alone_s < way.alone_s * (1 - CLOSE):
        untrue(where, f"alone it takes {alone_s!r} s, at least {way.alone_s!r}")
    slots, links = way.held(len(one.devices), len(one.links))
    least = [seconds for _, _, seconds in one.devices]
    for what, busy, floors in (("slot", slots, least), ("link", links, one.links)):
        for k, (seconds, floor) in enumerate(zip(busy, floors, strict=True)):
            if seconds < floor * (1 - CLOSE):
                untrue(where, f"{seconds!r} s on {what} {k}, at least {floor!r}")
