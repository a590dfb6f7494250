"""Devices of a vector that serve a model together: as many disjoint sets as there are."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from hetsim.provisioning.platforms.question import Instance, Place, Question, Split, Way


def gathered(
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
    """Return what serves a model where it is split by one strategy.

    Split after split, in the order of ``numbers_of``, takes devices that are free, the first copies
    first, until one of its kinds has none; then the next. Each device is in one set. Those of
    `alone` that serve the model whole are left to that, or, with `split_first`, are in sets, and
    serve it whole where they are left over. O(splits x devices).
    """
    free = set(range(len(places))) - (set() if split_first else set(alone))
    at = {(place.kind, place.unit, place.slot): k for k, place in enumerate(places)}
    found = []
    for number in numbers_of(question, model, strategy, by_device=by_device):
        split = question.splits[number]
        if _useful(question, split, max_batch):
            while (devices := _taken(split, at, free)) is not None:
                found.append(Instance(devices, number))
                free -= set(devices)
    used = {device for one in found for device in one.devices}
    found += [Instance((device,)) for device in alone if device not in used]
    return tuple(sorted(found))


def carried_s(question: Question, split: Split, way: Way) -> float:
    """Return how long a set is taken by a batch: that of its devices which is taken longest."""
    busy = [0.0] * len(split.devices)
    for task in way.tasks:
        if task.slot >= 0:
            of_type = question.type_of(split, task.slot)
            busy[task.slot] += task.seconds / question.types[of_type].streams
    return max(busy)


def numbers_of(question: Question, model: int, strategy: str, *, by_device: bool) -> list[int]:
    """Return the splits of a model by a strategy: those that carry most first.

    With `by_device` those that carry most for each of their devices, of equals in the same order.
    """
    mine = [
        number
        for number, split in enumerate(question.splits)
        if split.model == model and split.strategy == strategy
    ]
    return sorted(mine, key=lambda number: _taken_s(question, number)) if by_device else mine


@functools.lru_cache(maxsize=1 << 10)
def _taken_s(question: Question, number: int) -> float:
    """What a request takes all devices of a split together, one by one."""
    split = question.splits[number]
    each = (carried_s(question, split, ways[0]) for ways in split.ways.values())
    return float(f"{max(each) * len(split.devices):.9g}")


def strategies(question: Question) -> tuple[str, ...]:
    """Return what splits are planned by, in their order."""
    return tuple(dict.fromkeys(split.strategy for split in question.splits))


def takes(question: Question, model: int, ways: Sequence[Way], max_batch: int) -> bool:
    """Whether ways of a class answer one request in time, and take batches of up to so many.

    What is larger than any way of the model is not asked for.
    """
    limit_s = question.limit_s(model)
    if not any(way.batch == 1 and way.alone_s <= limit_s for way in ways):
        return False
    return ways[-1].batch >= min(max_batch, question.largest[model])


def _useful(question: Question, split: Split, max_batch: int) -> bool:
    return all(
        takes(question, split.model, split.ways.get(of_class, ()), max_batch)
        for of_class in question.classes_of(split.model)
    )


def _taken(
    split: Split, at: dict[tuple[int, int, int], int], free: set[int]
) -> tuple[int, ...] | None:
    """Free devices for a split, by its first copies that have them; None where one is lacking."""
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
