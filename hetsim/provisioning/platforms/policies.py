"""Policies that are tried on every vector: assignment of models, and batching.

One list for the search, for its brute-force reference, and for the certificate.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hetsim.provisioning.platforms.question import (
    Counts,
    DeviceSplit,
    Instance,
    Place,
    Question,
    Way,
)
from hetsim.provisioning.rates.ceiling import balanced

Routing = Literal["least_finish", "shortest_queue"]
Placement = Literal[
    "all", "together", "apart", "suited", "fitting", "split", "beside", "each", "quick"
]

MOST_MODELS = 4
"""Number of models up to which every placement is tried."""

LEAST = 1e-6
"""Share of a model's demand below which none is sent to a device."""

Devices = Sequence[Sequence[int]]
"""Indices of devices by model."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Policy of a vector: placement, routing and batching.

    Placements: "all" devices serve every model that they are fast enough for in all its shapes,
    "together" if that may omit a model or exceed a device's memory. Each device serves one model
    ("apart"), the assignment that sustains most ("suited"), or one and others that fit besides
    ("fitting"). A model is split across devices by `strategy`, and whole on the remaining ones
    ("split"), or whole where possible, and otherwise split ("beside"); sets that sustain most come
    first, in total or per device (`by_device`). "each" is every placement of whole models, if
    bounds leave few, and no other policy meets. "quick": the devices that run two full batches in
    sequence within the limit.

    With `max_batch` 1 requests are sent at once. Otherwise waiting requests run in batches of up to
    that size, and an instance has one batch under way per device. In `line` they wait for a free
    instance, which has as many batches under way as its devices have streams.
    """

    placement: Placement
    routing: Routing
    max_batch: int
    strategy: str = ""
    line: bool = False
    by_device: bool = False

    def limit(self, streams: Sequence[int]) -> int:
        """Return the maximum concurrent batches on devices of these streams; 0: unlimited."""
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
            "quick": ", on devices quick enough for two batches",
        }
        first = ", most for each device first" if self.by_device else ""
        line = ", in one line" if self.line else ""
        return f"{routing}{line}{batches}{where.get(self.placement, '')}{first}"


@dataclass(frozen=True, slots=True)
class PlacedInstances:
    """Instances of models on a vector by one placement.

    `places` are all devices by kind; `instances` are by model, in order of their first device.
    """

    places: tuple[Place, ...]
    instances: tuple[tuple[Instance, ...], ...]

    def ways(self, question: Question, one: Instance, of_class: int) -> tuple[Way, ...]:
        """Return the ways of an instance to serve a class, by size."""
        if one.split >= 0:
            return question.splits[one.split].ways[of_class]
        return question.ways[self.places[one.devices[0]].of_type, of_class]

    def ways_up_to(self, question: Question, model: int, one: Instance, most: int) -> list[Way]:
        """Return the ways of an instance for all classes of a model, with batches up to `most`."""
        return [
            way
            for of_class in question.classes_of[model]
            for way in up_to(self.ways(question, one, of_class), most)
        ]

    def streams(self, question: Question, one: Instance) -> tuple[int, ...]:
        """Return the streams of each device of an instance."""
        return tuple(question.types[self.places[at].of_type].streams for at in one.devices)

    def units(self, question: Question, one: Instance) -> list[int]:
        """Return one device of each unit that an instance uses, in order."""
        if one.split < 0:
            return [one.devices[0]]
        units = [unit for unit, _ in question.splits[one.split].devices]
        return [one.devices[units.index(unit)] for unit in range(max(units) + 1)]


def policies_of(question: Question) -> tuple[Policy, ...]:
    """Return the policies in order: unbatched first, and all devices for all models."""
    whole: Placement = "all" if _never_fails(question) else "together"
    models = range(len(question.models))
    types = range(len(question.types))
    placements: list[tuple[Placement, str, bool]] = []
    mixed: list[Placement] = []
    if not question.splits or all(
        any(serves(question, of_type, model) for of_type in types) for model in models
    ):
        placements += [(whole, "", False)]
        if len(models) > 1:
            placements += [("apart", "", False)]
            mixed = ["suited"] if whole == "all" else ["suited", "fitting"]
    for strategy in strategies(question):
        placements += [("split", strategy, False), ("beside", strategy, False)]
        if any(
            _numbers(question, model, strategy, by_device=True)
            != _numbers(question, model, strategy, by_device=False)
            for model in models
        ):
            placements += [("split", strategy, True), ("beside", strategy, True)]
    routings: tuple[Routing, ...] = ("least_finish", "shortest_queue")
    found = []
    batches = (1, *_useful_batches(question))
    for batch in batches:
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
    # Whether there are placements other than that on all devices, and models are few.
    several = any(kind.slots or len(kind.devices) > 1 for kind in question.kinds)
    few = several if len(models) == 1 else len(models) <= MOST_MODELS
    if few and (whole, "", False) in placements:
        found += [Policy("each", "least_finish", batch) for batch in batches]
        found.append(Policy("each", "least_finish", 1, line=True))
    return tuple(found)


def policies_for_one(question: Question) -> tuple[Policy, ...]:
    """Return the policies for one model at a rate: the fastest to simulate of ``policies_of``.

    Least finish only, without enumerated placements, plus fast devices.
    """
    known = [
        policy
        for policy in policies_of(question)
        if policy.routing == "least_finish" and policy.placement != "each"
    ]
    found = []
    for batch in dict.fromkeys(policy.max_batch for policy in known):
        found.append(Policy("quick", "least_finish", batch))
        found += [policy for policy in known if policy.max_batch == batch]
    return tuple(found)


def _never_fails(question: Question, *, line: bool = False) -> bool:
    """Return whether all devices for all models is possible on each vector that bounds leave."""
    classes = range(len(question.classes))
    if len(classes) != len(question.models) or not all(one.slos for one in question.streams):
        return False
    return all(
        sum(max((way.whole_bytes for way in question.ways.get((p, k), ())), default=0)
            for k in classes) * (spec.streams if line else 1) <= spec.memory_bytes
        for p, spec in enumerate(question.types)
    )  # fmt: skip


def _useful_batches(question: Question) -> tuple[int, ...]:
    """Return sizes above 1 at which some device or set has a higher rate within the limit."""
    rows = [
        (question.classes[of_class].model, [(way, way.seconds) for way in ways])
        for (_, of_class), ways in question.ways.items()
    ]
    rows += [
        (split.model, [(way, busiest_device_s(question, split, way)) for way in ways])
        for split in question.splits
        for ways in split.ways.values()
    ]
    found = set()
    for model, timed in rows:
        best = timed[0][1]
        for way, seconds in timed:
            useful = way.batch > 1 and way.alone_s <= question.limit_s[model]
            if useful and seconds / way.batch < best * (1 - 1e-9):
                found.add(way.batch)
                best = seconds / way.batch
    return tuple(sorted(found))


def places_of(question: Question, counts: Counts) -> tuple[Place, ...]:
    """Return the devices of a vector, by kind."""
    return tuple(
        Place(k, unit, slot, of_type)
        for k, (kind, count) in enumerate(zip(question.kinds, counts, strict=True))
        for unit in range(count)
        for slot, of_type in enumerate(kind.devices)
    )


def placed(question: Question, counts: Counts, policy: Policy) -> PlacedInstances | str:
    """Return the placement of models on a vector, or the reason against it; not for "each"."""
    places, able = _able(question, counts, policy.max_batch)
    if policy.placement == "apart":
        able = apart(question, places, able)
    elif policy.placement == "suited":
        able = most_sustaining_devices(question, places, able)
    elif policy.placement == "quick":
        able = quick(question, places, able, policy.max_batch)
    elif policy.placement == "fitting":
        able = fitting(question, places, able, apart(question, places, able), policy.max_batch)
    if policy.strategy:
        instances = tuple(
            split_instances(question, places, model, mine, policy.strategy, policy.max_batch,
                     split_first=policy.placement == "split", by_device=policy.by_device)
            for model, mine in enumerate(able)
        )  # fmt: skip
    else:
        instances = tuple(tuple(Instance((at,)) for at in mine) for mine in able)
    for model, serving in enumerate(instances):
        if not serving:
            return f"no device for {question.models[model]}"
    where = PlacedInstances(places, instances)
    for place, whole in zip(places, _held(question, where, policy), strict=True):
        if whole > question.types[place.of_type].memory_bytes:
            return f"{question.types[place.of_type].name} does not hold its models together"
    return where


@functools.lru_cache(maxsize=16)
def _able(question: Question, counts: Counts, max_batch: int) -> tuple[tuple[Place, ...], Devices]:
    """Return the devices of a vector, and by model those that serve it whole."""
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


def _held(question: Question, where: PlacedInstances, policy: Policy) -> list[int]:
    """Return by device the bytes that all models hold."""
    found = [0] * len(where.places)
    # By server of a model (its split or its device's type): bytes on each device.
    known: dict[tuple[int, int, int], list[int]] = {}
    for model, serving in enumerate(where.instances):
        for one in serving:
            key = (model, one.split, where.places[one.devices[0]].of_type)
            if key not in known:
                ways = where.ways_up_to(question, model, one, policy.max_batch)
                known[key] = [
                    max(
                        way.bytes_by_slot[slot] if way.bytes_by_slot else way.whole_bytes
                        for way in ways
                    )
                    for slot in range(len(one.devices))
                ]
            for whole, device in zip(known[key], one.devices, strict=True):
                # Live bytes count once per concurrent batch: an upper bound.
                times = question.types[where.places[device].of_type].streams if policy.line else 1
                found[device] += whole * times
    return found


def takes(question: Question, model: int, ways: Sequence[Way], max_batch: int) -> bool:
    """Return whether a class's ways answer one request in time, in batches up to `max_batch`.

    Batch sizes above those of all the model's ways are not required.
    """
    limit_s = question.limit_s[model]
    if not any(way.batch == 1 and way.alone_s <= limit_s for way in ways):
        return False
    return ways[-1].batch >= min(max_batch, question.largest[model])


def serves(question: Question, of_type: int, model: int, max_batch: int = 1) -> bool:
    """Return whether a device ``takes`` each class of a model."""
    return all(
        takes(question, model, question.ways.get((of_type, of_class), ()), max_batch)
        for of_class in question.classes_of[model]
    )


def up_to(ways: Sequence[Way], most: int) -> tuple[Way, ...]:
    """Return the ways for batches up to `most`; they start with size 1."""
    return tuple(way for way in ways if way.batch <= most)


# Distribution of models to devices


def needs_of(question: Question) -> list[float]:
    """Return by model the requests per second if random, otherwise their number."""
    need = [0.0] * len(question.models)
    for at, ask in enumerate(question.asks):
        rate = ask.rate_per_s
        if rate is None:
            arrivals = question.arrivals
            rate = 0.0 if arrivals is None else float((arrivals.ask == at).sum())
        need[question.classes[ask.of_class].model] += rate
    return need


def apart(question: Question, places: Sequence[Place], able: Devices) -> list[list[int]]:
    """Return one model per device; see ``_dealt``."""
    speed = [
        {
            at: 1.0
            / max(
                question.ways[places[at].of_type, k][0].seconds for k in question.classes_of[model]
            )
            for at in mine
        }
        for model, mine in enumerate(able)
    ]
    holds = [dict.fromkeys(mine, 1) for mine in able]
    return _dealt(question, speed, [[] for _ in able], [1] * len(places), holds)


def quick(question: Question, places: Sequence[Place], able: Devices, most: int) -> list[list[int]]:
    """Return by model the devices that run two batches of `most` in sequence within the limit."""

    def holds(of_type: int, model: int) -> bool:
        return all(
            2 * up_to(question.ways[of_type, of_class], most)[-1].alone_s <= question.limit_s[model]
            for of_class in question.classes_of[model]
        )

    return [
        [at for at in mine if holds(places[at].of_type, model)] for model, mine in enumerate(able)
    ]


def fitting(
    question: Question, places: Sequence[Place], able: Devices, dealt: Devices, most: int
) -> list[list[int]]:
    """Return each model's assigned devices, and all others that can hold it in addition."""
    room = [question.types[place.of_type].memory_bytes for place in places]
    speed, holds = [], []
    for model, mine in enumerate(able):
        types = {at: places[at].of_type for at in mine}
        holds.append({at: bytes_of(question, model, p, most) for at, p in types.items()})
        seconds = {at: _seconds(question, model, p) for at, p in types.items()}
        speed.append({at: 1 / each if each else 1e300 for at, each in seconds.items()})
        for at in dealt[model]:
            room[at] -= holds[model][at]
    return _dealt(question, speed, [list(mine) for mine in dealt], room, holds)


def _dealt(
    question: Question,
    speed: Sequence[Mapping[int, float]],
    found: list[list[int]],
    room: list[int],
    holds: Sequence[Mapping[int, int]],
) -> list[list[int]]:
    """Return devices distributed to models as long as there is room."""
    need = needs_of(question)
    does = [sum(speed[model][at] for at in mine) for model, mine in enumerate(found)]
    order = [sorted(each, key=lambda at: (-each[at], at)) for each in speed]
    wanting = set(range(len(found)))
    while wanting:
        model = min(wanting, key=lambda one: (does[one] / need[one] if need[one] else 1e300, one))
        free = (at for at in order[model] if holds[model][at] <= room[at])
        at = next((at for at in free if at not in found[model]), None)
        if at is None:
            wanting.discard(model)
            continue
        found[model].append(at)
        room[at] -= holds[model][at]
        does[model] += speed[model][at]
    return [sorted(mine) for mine in found]


def _seconds(question: Question, model: int, of_type: int) -> float:
    """Return the minimum device seconds of a request of a model, averaged over its classes."""
    limit_s = question.limit_s[model]
    classes = question.classes_of[model]
    each = [
        min(way.seconds / way.batch for way in question.useful(of_type, of_class, limit_s))
        for of_class in classes
    ]
    return sum(each) / len(each)


def bytes_of(question: Question, model: int, of_type: int, most: int) -> int:
    """Return the bytes that a model holds on a device, in batches up to `most`."""
    return max(
        way.whole_bytes
        for of_class in question.classes_of[model]
        for way in question.ways[of_type, of_class]
        if way.batch <= most
    )


def most_sustaining_devices(
    question: Question, places: Sequence[Place], able: Devices
) -> list[list[int]]:
    """Return devices of each model by which all together sustain most of the demand.

    A linear program distributes requests in any proportions, each in its best batch size,
    minimizing the maximum use of a device type. With few devices each model gets those with its
    comparative advantage.
    """
    types = tuple(sorted({place.of_type for place in places}))
    many = tuple(sum(place.of_type == one for place in places) for one in types)
    able_types = tuple(
        tuple(any(places[at].of_type == one for at in mine) for one in types) for mine in able
    )
    sent = _sent(question, types, many, able_types)
    return [
        [at for at in mine if sent[model][types.index(places[at].of_type)]]
        for model, mine in enumerate(able)
    ]


@functools.lru_cache(maxsize=256)
def _sent(
    question: Question,
    types: tuple[int, ...],
    many: tuple[int, ...],
    able: tuple[tuple[bool, ...], ...],
) -> tuple[tuple[bool, ...], ...]:
    """Return by model and type whether requests are sent there; none if unserved."""
    need = np.maximum(needs_of(question), 1e-9)
    wanted = [model for model, row in enumerate(able) if any(row)]
    pairs = [(m, p) for m in wanted for p in range(len(types)) if able[m][p]]
    if not pairs:
        return able
    load = np.zeros((len(types), len(pairs)))
    for column, (model, p) in enumerate(pairs):
        load[p, column] = float(need[model]) * _seconds(question, model, types[p])
    load /= float(load.max()) or 1.0
    room = [count * question.types[p].streams for count, p in zip(many, types, strict=True)]
    group = np.array([wanted.index(model) for model, _ in pairs])
    solved = balanced(load, np.array(room, dtype=float), group, np.ones(len(wanted)))
    if solved is None:
        return able
    found = [[False] * len(types) for _ in able]
    for (model, p), part in zip(pairs, solved.parts.tolist(), strict=True):
        found[model][p] = part > LEAST
    return tuple(tuple(row) for row in found)


# Devices that serve a model together


def split_instances(
    question: Question,
    places: Sequence[Place],
    model: int,
    alone: Sequence[int],
    strategy: str,
    max_batch: int = 1,
    *,
    split_first: bool,
    by_device: bool = False,
) -> tuple[Instance, ...]:
    """Return the instances of a model split by one strategy, on disjoint sets of devices.

    Splits take free devices in order, first copies first, until one of its kinds has none left.
    Those of `alone` that serve the model whole are kept for that, or, with `split_first`, join
    sets, and serve it whole only if left over. O(splits x devices).
    """
    free = set(range(len(places))) - (set() if split_first else set(alone))
    at = {(place.kind, place.unit, place.slot): k for k, place in enumerate(places)}
    found = []
    for number in _numbers(question, model, strategy, by_device=by_device):
        split = question.splits[number]
        if all(
            takes(question, model, split.ways.get(of_class, ()), max_batch)
            for of_class in question.classes_of[model]
        ):
            while (devices := _taken(split, at, free)) is not None:
                found.append(Instance(devices, number))
                free -= set(devices)
    used = {device for one in found for device in one.devices}
    found += [Instance((device,)) for device in alone if device not in used]
    return tuple(sorted(found))


def busiest_device_s(question: Question, split: DeviceSplit, way: Way) -> float:
    """Return the seconds of a batch on the busiest device of a set."""
    types = question.types_of(split)
    busy = [0.0] * len(types)
    for task in way.tasks:
        if task.slot >= 0:
            busy[task.slot] += task.seconds / question.types[types[task.slot]].streams
    return max(busy)


def _numbers(question: Question, model: int, strategy: str, *, by_device: bool) -> list[int]:
    """Return a model's splits by a strategy: highest rate first, in total or per device."""
    mine = [
        number
        for number, split in enumerate(question.splits)
        if split.model == model and split.strategy == strategy
    ]
    return sorted(mine, key=lambda number: _taken_s(question, number)) if by_device else mine


@functools.lru_cache(maxsize=1 << 10)
def _taken_s(question: Question, number: int) -> float:
    """Return the device seconds of a single request, summed over all devices of a split."""
    split = question.splits[number]
    each = (busiest_device_s(question, split, ways[0]) for ways in split.ways.values())
    return float(f"{max(each) * len(split.devices):.9g}")


def strategies(question: Question) -> tuple[str, ...]:
    """Return the strategies of splits, in order."""
    return tuple(dict.fromkeys(split.strategy for split in question.splits))


def _taken(
    split: DeviceSplit, at: dict[tuple[int, int, int], int], free: set[int]
) -> tuple[int, ...] | None:
    """Return free devices for a split, from the first copies that have them, or None."""
    copies: list[int] = []
    for unit, kind in enumerate(split.kinds):
        slots = [slot for own, slot in split.devices if own == unit]
        before = {copy for other, copy in zip(split.kinds, copies, strict=False) if other == kind}
        units = sorted({copy for one, copy, _ in at if one == kind} - before)
        able = (copy for copy in units if all(at[kind, copy, slot] in free for slot in slots))
        copy = next(able, None)
        if copy is None:
            return None
        copies.append(copy)
    return tuple(at[split.kinds[unit], copies[unit], slot] for unit, slot in split.devices)
