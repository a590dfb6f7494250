"""The policies that are tried on every vector: who serves which model, and in what batches.

One list for the search, for brute force beside it, and for the certificate.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hetsim.provisioning.platforms.gathering import (
    carried_s,
    gathered,
    numbers_of,
    strategies,
    takes,
)
from hetsim.provisioning.platforms.mixing import fitting, needs_of, suited
from hetsim.provisioning.platforms.question import Counts, Instance, Place, Question, Way

Routing = Literal["least_finish", "shortest_queue"]
Placement = Literal["all", "together", "apart", "suited", "fitting", "split", "beside", "each"]


MOST_MODELS = 4
"""Of which every placement is tried."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How a vector serves what comes.

    Attributes
    ----------
    placement : "all", "together", "apart", "suited", "fitting", "split", "beside" or "each"
        Each device serves every model for all of whose shapes it is quick enough; where that
        may leave a model out, or not fit a device's memory, it is called "together". Or each
        device serves one model, dealt out so that the least is short of devices, see ``apart``; or
        what all together carry most with, see ``suited``; or, where not all of them fit, one and
        what fits beside it, see ``fitting``.
        Or a model is split over devices, and whole on those that are left over; or whole where
        it can be, and split beside that: see ``gathered``.
        "each" is every placement of models that are whole, one after another, where bounds leave
        few, and no other policy meets: see ``Placements``.
    routing : "least_finish" or "shortest_queue"
    max_batch : int
        1: each request goes at once, and is not batched. Else requests that wait run as batches
        of up to so many, and an instance has one under way for each of its devices.
    strategy : str
        What plans models that are split; empty where none is.
    line : bool
        Whether requests wait in one line for an instance that is free, which has as many under way
        as its devices have streams, in the place of going to one at once.
    by_device : bool
        Whether of sets those come first that carry most for each of their devices, in the place of
        those that carry most.
    """

    placement: Placement
    routing: Routing
    max_batch: int
    strategy: str = ""
    line: bool = False
    by_device: bool = False

    def limit(self, streams: Sequence[int]) -> int:
        """Batches that an instance has under way on devices of so many streams; 0: any number."""
        if self.line:
            return sum(streams)
        return 0 if self.max_batch == 1 else len(streams)

    def __str__(self) -> str:
        routing = self.routing.replace("_", " ")
        batches = f", batches of up to {self.max_batch}" if self.max_batch > 1 else ""
        where = {
            "apart": ", models apart",
            "suited": ", models where they suit best",
            "fitting": ", models where they fit",
            "split": f", split by {self.strategy}",
            "beside": f", split by {self.strategy} beside whole",
            "each": ", every placement where few are left",
        }
        first = ", most for each device first" if self.by_device else ""
        line = ", in one line" if self.line else ""
        return f"{routing}{line}{batches}{where.get(self.placement, '')}{first}"


@dataclass(frozen=True, slots=True)
class Placed:
    """Where models are served on a vector by one placement.

    Attributes
    ----------
    places : tuple of Place
        All devices, kind after kind, one after another.
    instances : tuple of tuple of Instance
        By model: what serves it, by first device.
    """

    places: tuple[Place, ...]
    instances: tuple[tuple[Instance, ...], ...]

    def ways(self, question: Question, one: Instance, of_class: int) -> tuple[Way, ...]:
        """The ways of an instance to serve a class, by size."""
        if one.split >= 0:
            return question.splits[one.split].ways[of_class]
        return question.ways[self.places[one.devices[0]].of_type, of_class]

    def slots(self, one: Instance) -> dict[int, int]:
        """The device that stands for each slot of the tasks of an instance."""
        if one.split >= 0:
            return dict(enumerate(one.devices))
        (at,) = one.devices
        return {self.places[at].slot: at}

    def units(self, question: Question, one: Instance) -> list[int]:
        """A device of each unit that an instance takes, in its order."""
        if one.split < 0:
            return [one.devices[0]]
        units = [unit for unit, _ in question.splits[one.split].devices]
        return [one.devices[units.index(unit)] for unit in range(max(units) + 1)]

    def links(self, question: Question, one: Instance, first: Sequence[int]) -> list[int]:
        """The links that stand for those of the tasks of an instance; `first` by ``links_of``."""
        return [
            first[at] + link
            for at in self.units(question, one)
            for link in range(question.kinds[self.places[at].kind].links)
        ]


def policies_of(question: Question) -> tuple[Policy, ...]:
    """Return what is tried, in order: unbatched first, and all devices for all models."""
    whole: Placement = "all" if _never_fails(question) else "together"
    placements: list[tuple[Placement, str, bool]] = []
    mixed: list[Placement] = []
    if (
        all(
            any(serves(question, of_type, model) for of_type in range(len(question.types)))
            for model in range(len(question.models))
        )
        or not question.splits
    ):
        placements += [(whole, "", False)]
        if len(question.models) > 1:
            placements += [("apart", "", False)]
            mixed = ["suited"] if whole == "all" else ["suited", "fitting"]
    for strategy in strategies(question):
        placements += [("split", strategy, False), ("beside", strategy, False)]
        if any(
            numbers_of(question, model, strategy, by_device=True)
            != numbers_of(question, model, strategy, by_device=False)
            for model in range(len(question.models))
        ):
            placements += [("split", strategy, True), ("beside", strategy, True)]
    routings: tuple[Routing, ...] = ("least_finish", "shortest_queue")
    found = []
    for batch in (1, *useful_batches(question)):
        for placement, strategy, by_device in placements:
            found += [
                Policy(placement, routing, batch, strategy, by_device=by_device)
                for routing in routings
            ]
        found += [Policy(placement, "least_finish", batch) for placement in mixed]
    if mixed:
        lined: Placement = "all" if _never_fails(question, line=True) else "together"
        for placement in (lined, "apart", *mixed):
            found.append(Policy(placement, "least_finish", 1, line=True))
    if (whole, "", False) in placements and _may_be_placed(question):
        for batch in (1, *useful_batches(question)):
            found.append(Policy("each", "least_finish", batch))
        found.append(Policy("each", "least_finish", 1, line=True))
    return tuple(found)


def _may_be_placed(question: Question) -> bool:
    """Whether there are placements but that on all devices, and models are few."""
    several = any(kind.slots or len(kind.devices) > 1 for kind in question.kinds)
    return 1 < len(question.models) <= MOST_MODELS or (len(question.models) == 1 and several)


def _never_fails(question: Question, *, line: bool = False) -> bool:
    """Whether all devices for all models is a deployment on each vector that bounds leave."""
    if len(question.classes) != len(question.models) or not all(
        stream.slos for stream in question.streams
    ):
        return False
    for of_type, spec in enumerate(question.types):
        whole = sum(
            max((way.whole_bytes for way in question.ways.get((of_type, k), ())), default=0)
            for k in range(len(question.classes))
        )
        if whole * (spec.streams if line else 1) > spec.memory_bytes:
            return False
    return True


def useful_batches(question: Question) -> tuple[int, ...]:
    """Return the sizes above 1 at which some device does more a second within the limit."""
    found = set()
    for (of_type, of_class), ways in question.ways.items():
        limit_s = question.limit_s(question.classes[of_class].model)
        useful = question.useful(of_type, of_class, limit_s)
        best = ways[0].seconds
        for way in useful:
            if way.batch > 1 and way.seconds / way.batch < best * (1 - 1e-9):
                found.add(way.batch)
                best = way.seconds / way.batch
    for split in question.splits:
        limit_s = question.limit_s(split.model)
        for ways in split.ways.values():
            best = carried_s(question, split, ways[0])
            for way in ways:
                each = carried_s(question, split, way) / way.batch
                if way.batch > 1 and way.alone_s <= limit_s and each < best * (1 - 1e-9):
                    found.add(way.batch)
                    best = each
    return tuple(sorted(found))


def places_of(question: Question, counts: Counts) -> tuple[Place, ...]:
    """Return the devices of a vector: kind after kind, one after another."""
    return tuple(
        Place(k, unit, slot, of_type)
        for k, (kind, count) in enumerate(zip(question.kinds, counts, strict=True))
        for unit in range(count)
        for slot, of_type in enumerate(kind.devices)
    )


def links_of(question: Question, places: Sequence[Place]) -> tuple[list[int], int]:
    """By device: the first of the links that its unit brings; and how many all units bring."""
    first: list[int] = []
    links = begin = 0
    for place in places:
        if place.slot == 0:
            begin, links = links, links + question.kinds[place.kind].links
        first.append(begin)
    return first, links


def placed(question: Question, counts: Counts, policy: Policy) -> Placed | str:
    """Return where models are served on a vector, or why they cannot be so; not of "each"."""
    places, able = _able(question, counts, policy.max_batch)
    if policy.placement == "apart":
        able = apart(question, places, able)
    elif policy.placement == "suited":
        able = suited(question, places, able)
    elif policy.placement == "fitting":
        able = fitting(question, places, able, apart(question, places, able), policy.max_batch)
    if policy.strategy:
        instances = tuple(
            gathered(question, places, model, mine, policy.strategy, policy.max_batch,
                     split_first=policy.placement == "split", by_device=policy.by_device)
            for model, mine in enumerate(able)
        )  # fmt: skip
    else:
        instances = tuple(tuple(Instance((at,)) for at in mine) for mine in able)
    for model, serving in enumerate(instances):
        if not serving:
            return f"no device for {question.models[model]}"
    where = Placed(places, instances)
    for place, whole in zip(places, _held(question, where, policy), strict=True):
        if whole > question.types[place.of_type].memory_bytes:
            return f"{question.types[place.of_type].name} does not hold its models together"
    return where


@functools.lru_cache(maxsize=16)
def _able(
    question: Question, counts: Counts, max_batch: int
) -> tuple[tuple[Place, ...], Sequence[Sequence[int]]]:
    """The devices of a vector, and by model those that serve it whole."""
    places = places_of(question, counts)
    able = []
    for model in range(len(question.models)):
        types = {
            of_type
            for of_type in {place.of_type for place in places}
            if serves(question, of_type, model, max_batch)
        }
        able.append(tuple(at for at, place in enumerate(places) if place.of_type in types))
    return places, tuple(able)


def _held(question: Question, where: Placed, policy: Policy) -> list[int]:
    """By device: bytes that all models hold of it."""
    found = [0] * len(where.places)
    # By what serves a model, its split or the type of its device: bytes of each device.
    known: dict[tuple[int, int, int], list[int]] = {}
    for model, serving in enumerate(where.instances):
        for one in serving:
            key = (model, one.split, where.places[one.devices[0]].of_type)
            if key not in known:
                ways = [
                    way
                    for of_class in question.classes_of(model)
                    for way in up_to(where.ways(question, one, of_class), policy.max_batch)
                ]
                known[key] = [
                    max(
                        way.bytes_by_slot[slot] if way.bytes_by_slot else way.whole_bytes
                        for way in ways
                    )
                    for slot in range(len(one.devices))
                ]
            for whole, device in zip(known[key], one.devices, strict=True):
                # What is live is so once for each that is under way: no more than all so often.
                times = question.types[where.places[device].of_type].streams if policy.line else 1
                found[device] += whole * times
    return found


def serves(question: Question, of_type: int, model: int, max_batch: int = 1) -> bool:
    """Whether a device answers one request of each class of a model in time.

    It also takes batches of up to so many, as far as any device does.
    """
    return all(
        takes(question, model, question.ways.get((of_type, of_class), ()), max_batch)
        for of_class in question.classes_of(model)
    )


def up_to(ways: Sequence[Way], most: int) -> tuple[Way, ...]:
    """The ways for batches of up to so many; they begin with those of one."""
    return tuple(way for way in ways if way.batch <= most)


def apart(
    question: Question, places: Sequence[Place], able: Sequence[Sequence[int]]
) -> list[list[int]]:
    """Deal devices out, one model each.

    The model that has the smallest part of what it needs takes the free device that does most
    of it a second, until none is left that helps; of equals the first. O(models x devices^2).
    """
    need = needs_of(question)
    speed = [
        [
            1.0
            / max(question.ways[place.of_type, k][0].seconds for k in question.classes_of(model))
            if at in able[model]
            else 0.0
            for at, place in enumerate(places)
        ]
        for model in range(len(question.models))
    ]
    found: list[list[int]] = [[] for _ in question.models]
    does = [0.0] * len(question.models)
    free = set(range(len(places)))
    wanting = set(range(len(question.models)))
    while wanting:
        model = min(wanting, key=lambda one: (does[one] / need[one] if need[one] else 1e300, one))
        mine = [at for at in sorted(free) if speed[model][at] > 0]
        if not mine:
            wanting.discard(model)
            continue
        best = max(mine, key=lambda at: (speed[model][at], -at))
        free.discard(best)
        found[model].append(best)
        does[model] += speed[model][best]
    return [sorted(mine) for mine in found]
