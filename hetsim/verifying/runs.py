"""Deployments that were tried: are they what they should be, and do they do what is said?"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hetsim.verifying.bounds import MARGIN, Bound, Way
from hetsim.verifying.judging import judged_of
from hetsim.verifying.node import Node
from hetsim.verifying.playing import Player, Served, Work
from hetsim.verifying.question import Policy, Question
from hetsim.verifying.templates import Template

Stands = tuple[tuple[tuple[int, ...], ...], list[tuple[int, int]], list[int]]
"""Of an instance: its templates, the kinds and copies that it stands on, and its devices."""


@dataclass(frozen=True, slots=True)
class Run:
    """A vector, the policy that was played on it, and what that says.

    `lost` are the devices that it did without; `stand` the instances of each model, where it was
    played or a bound excludes it; `verdict` tells runs apart whose answers could be wrong one
    without the other, None of those that cannot be.
    """

    counts: tuple[int, ...]
    policy: int
    answer: str
    error: float
    lost: frozenset[int] = frozenset()
    stand: list[list[Stands]] = field(default_factory=list)
    verdict: object = None

    def without(self, lost: frozenset[int]) -> list[list[Stands]]:
        """Return the instances that are left where further devices are lost."""
        return [[one for one in mine if not lost.intersection(one[2])] for mine in self.stand]


def shape_of(stand: Sequence[Sequence[Stands]]) -> object:
    """Return what runs, whichever copies of kinds it is on: where that is equal, so are runs."""
    number: dict[tuple[int, int], int] = {}
    return tuple(
        tuple(
            (numbers, tuple(number.setdefault(unit, len(number)) for unit in units))
            for numbers, units, _ in mine
        )
        for mine in stand
    )


def run_of(
    node: Node, question: Question, ways: Sequence[Way], bounds: Sequence[Bound],
    templates: Sequence[Template],
) -> Run:  # fmt: skip
    """Read a run, play it, and check what is said of it. Raises Untrue."""
    counts = counts_of(node.having("counts")["counts"], question)
    number = node.having("policy")["policy"].place(question.policies)
    policy = question.policies[number]
    lost = _lost(node, question, counts)
    if "none" in node:
        node.fields("counts policy none", "lost")["none"].text()
        each = enumerate(question.devices_of(list(counts)))
        there = {device for place, device in each if place not in lost}
        if policy.placement == "all" and all(
            there.intersection(useful_of(question, model, policy, ways))
            for model in range(question.models)
        ):
            node["policy"].untrue("this policy has a deployment there: each model has a device")
        return Run(counts, number, "none", 0.0, lost)
    if "bound" in node:
        placed = _excluded(node, question, policy, ways, bounds, counts, lost)
        return Run(counts, number, "excluded", 0.0, lost, placed)
    node.fields("counts policy instances played judged", "lost")
    links = sum(n * kind.links for n, kind in zip(counts, question.kinds, strict=True))
    streams = [
        question.streams_of[question.kinds[kind].devices[place]]
        for kind, place in question.devices_of(list(counts))
    ]
    models: list[Served] = []
    stand: list[list[Stands]] = []
    for model, one in enumerate(node["instances"].rows(length=question.models)):
        stand.append([])
        models.append(
            _served(
                one, model, question, policy, ways, templates, counts, streams, lost, stand[-1]
            )
        )  # fmt: skip
    played = node["played"].whole(1, len(question.time))
    if not question.sampled and played != len(question.time):
        node["played"].untrue("not the whole trace")
    kind_of = {of: k for m in range(len(models)) for k, of in enumerate(question.of_model(m))}
    asks = [
        (question.streams[stream].model, question.streams[stream].level, kind_of[of])
        for stream, of in question.asks
    ]
    which = [asks[ask] for ask in question.ask[:played].tolist()]
    player = Player(streams, links, models)
    ends, fresh = player.play(question.time[:played].tolist(), which)
    finish = np.array(ends)
    if np.isnan(finish).any():
        node["instances"].broken("requests never end: subgraphs wait for each other's turn")
    answer, error = judged_of(node, question, finish, np.array(fresh))
    verdict = _verdict(node, policy, stand) if error else None
    return Run(counts, number, answer, error, lost, stand, verdict)


def _verdict(node: Node, policy: Policy, stand: Sequence[Sequence[Stands]]) -> object:
    """What a played run's verdict follows from: all that is said of it but its policy's name.

    Two policies may come to one deployment, as to one instance of each model by either routing.
    """
    routed = any(len(mine) > 1 for mine in stand)
    alike = replace(policy, placement="", refused=(), routing=policy.routing if routed else "")
    said = {name: value for name, value in node.value.items() if name != "policy"}
    return json.dumps(said, sort_keys=True), repr(alike)


def _lost(node: Node, question: Question, counts: tuple[int, ...]) -> frozenset[int]:
    """Read which devices are lost: no more than may be."""
    if not question.losses:
        return frozenset()
    rows = node.having("lost")["lost"].places(question.devices_of(list(counts)))
    if len(rows) > question.losses or len(set(rows)) != len(rows):
        node["lost"].broken("more than may be lost, or one twice")
    return frozenset(rows)


def _excluded(
    node: Node, question: Question, policy: Policy, ways: Sequence[Way], bounds: Sequence[Bound],
    counts: tuple[int, ...], lost: frozenset[int],
) -> list[list[Stands]]:  # fmt: skip
    """Check that a bound excludes what a policy makes of devices and links. Raises Untrue.

    Return the instances of each model.

    Each has the part of its capacity that the best way on it earns; so no way takes what is worth
    less than its requests.
    """
    node.fields("counts policy bound places", "lost")
    bound = bounds[node["bound"].place(bounds)]
    if not bound.worth:
        node["bound"].broken("in it requests are worth nothing")
    part: dict[tuple[bool, int, int, int], float] = {}
    stand: list[list[Stands]] = []
    for model, row in enumerate(node["places"].rows(length=question.models)):
        stand.append([])
        for one in row.rows(10_000):
            one.fields("copies way")
            first = ways[one["way"].place(ways)]
            devices = _places(one["copies"], question, counts, first)[0]
            units = list(zip(first.kinds, one["copies"].value, strict=True))
            stand[-1].append(((), units, devices))
            links = [(*unit, k) for unit in units for k in range(question.kinds[unit[0]].links)]
            for way in ways:
                if not _alike(way, first) or way.batch > policy.max_batch:
                    continue
                if question.classes[way.of] != model:
                    continue
                earned = bound.earned(way, question)
                uses = [(False, *units[unit], at) for unit, at, seconds in way.devices if seconds]
                for (kind, copy, k), seconds in zip(links, way.links, strict=True):
                    uses += [(True, kind, copy, k)] if seconds else []
                for use in uses:
                    part[use] = max(part.get(use, 0.0), earned)
        served = [devices for _, _, devices in stand[-1]]
        _on_all(row, served, model, question, policy, ways, counts, lost)
    total = 0.0
    for (link, kind, _, at), earned in part.items():
        device = question.kinds[kind].devices[at] if not link else 0
        price = bound.prices.links[kind][at] if link else bound.prices.devices[device]
        total += price * earned
    if not total < bound.least * (1 - MARGIN):
        node["bound"].untrue("it does not exclude what this policy makes of the devices")
    return stand


def counts_of(node: Node, question: Question) -> tuple[int, ...]:
    """Read a vector that could be had."""
    counts = tuple(one.whole(0, 10_000) for one in node.rows(length=len(question.kinds)))
    if not question.allows(list(counts)):
        node.untrue("more than can be had")
    return counts


def _served(
    node: Node, model: int, question: Question, policy: Policy, ways: Sequence[Way],
    templates: Sequence[Template], counts: tuple[int, ...], streams: list[int],
    lost: frozenset[int], stand: list[Stands],
) -> Served:  # fmt: skip
    """Read the instances of a model, which are what the policy says, and note where they stand."""
    classes = question.of_model(model)
    largest = _largest(question, model, policy, ways)
    work: list[list[list[Work]]] = []
    limits = []
    served = []
    for one in node.rows(10_000):
        one.fields("copies templates")
        rows = one["templates"].rows(length=len(classes))
        numbers = [row.places(templates, length=largest) for row in rows]
        first = templates[numbers[0][0]].way
        devices, links = _places(one["copies"], question, counts, first)
        for of, row, each in zip(classes, rows, numbers, strict=True):
            for size, number in enumerate(each, start=1):
                way = templates[number].way
                if way.of != of or way.batch < size:
                    row[size - 1].untrue(f"of class {way.of}, for {way.batch}")
                if not _alike(way, first):
                    row[size - 1].untrue("of other devices, or planned otherwise")
        work.append(
            [[_placed(templates[n], devices, links, streams) for n in each] for each in numbers]
        )
        each = [streams[device] for device in devices]
        limits.append(sum(each) if policy.limit is None else policy.limit * len(each))
        served.append(devices)
        units = list(zip(first.kinds, one["copies"].value, strict=True))
        stand.append((tuple(map(tuple, numbers)), units, devices))
    if not work:
        node.broken("no instance")
    _on_all(node, served, model, question, policy, ways, counts, lost)
    return Served(
        work,
        limits,
        policy.routing,
        levels=1 + max((s.level for s in question.streams if s.model == model), default=0),
        room=policy.max_queue_size,
        timeout_s=policy.timeout_s,
        delays=policy.delays,
        preferred=[size for size in policy.preferred if size <= largest],
        delay_s=policy.delay_s,
    )


def _on_all(
    node: Node, served: list[list[int]], model: int, question: Question, policy: Policy,
    ways: Sequence[Way], counts: tuple[int, ...], lost: frozenset[int],
) -> None:  # fmt: skip
    """Check that a model is on no device that is lost, and on all others, where policies say so."""
    if lost.intersection(place for devices in served for place in devices):
        node.untrue(f"on a device that is lost: {sorted(lost)}")
    if policy.placement == "all":
        useful = useful_of(question, model, policy, ways)
        there = question.devices_of(list(counts))
        wanted = [
            [place] for place, device in enumerate(there) if device in useful and place not in lost
        ]
        if sorted(served) != wanted:
            node.untrue(f"on devices {sorted(served)}, and not on all of {wanted}")


def _alike(one: Way, other: Way) -> bool:
    """Whether an instance may run both."""
    same = (one.strategy, one.kinds) == (other.strategy, other.kinds)
    return same and _slots(one) == _slots(other)


def _slots(way: Way) -> list[tuple[int, int]]:
    return [one[:2] for one in way.devices]


def _places(
    node: Node, question: Question, counts: tuple[int, ...], way: Way
) -> tuple[list[int], list[int]]:
    """Return the devices and links of a vector that a way stands on, by the copies of its kinds."""
    rows = node.rows(length=len(way.kinds))
    copies = [one.whole() for one in rows]
    if any(copy >= counts[kind] for kind, copy in zip(way.kinds, copies, strict=True)):
        node.untrue(f"of kinds {way.kinds}, of which there are not so many")
    if len(set(zip(way.kinds, copies, strict=True))) != len(copies):
        node.untrue("one of a kind in the place of two")
    firsts = [
        question.first_of(list(counts), kind, copy)
        for kind, copy in zip(way.kinds, copies, strict=True)
    ]
    devices = [firsts[unit][0] + place for unit, place in _slots(way)]
    links = [
        first + link
        for (_, first), kind in zip(firsts, way.kinds, strict=True)
        for link in range(question.kinds[kind].links)
    ]
    return devices, links


def _placed(template: Template, devices: list[int], links: list[int], streams: list[int]) -> Work:
    return Work(
        [
            (devices[slot] if slot >= 0 else -1, seconds, [links[k] for k in held], before)
            for slot, seconds, held, before in template.tasks
        ],
        streams,
    )


def useful_of(
    question: Question, model: int, policy: Policy, ways: Sequence[Way]
) -> set[tuple[int, int]]:
    """Return the devices of kinds that serve every class of a model whole within its largest limit.

    And that take batches as large as the policy makes.
    """
    largest = _largest(question, model, policy, ways)
    useful = {
        (at, place) for at, kind in enumerate(question.kinds) for place in range(len(kind.devices))
    }
    for of in question.of_model(model):
        slos = [
            limit
            for stream, own in question.asks
            if own == of
            for _, limit in question.streams[stream].slos
        ]
        limit = max(slos, default=math.inf)
        alone = [
            (way.kinds[0], way.devices[0][1], way)
            for way in ways
            if way.of == of and len(way.devices) == 1
        ]
        useful &= {(k, p) for k, p, way in alone if way.batch == 1 and way.alone_s <= limit}
        useful &= {(k, p) for k, p, way in alone if way.batch >= largest}
    return useful


def _largest(question: Question, model: int, policy: Policy, ways: Sequence[Way]) -> int:
    """The most requests of a model in a batch of a policy."""
    classes = question.of_model(model)
    largest = max((way.batch for way in ways if way.of in classes), default=1)
    return min(largest, policy.max_batch)
