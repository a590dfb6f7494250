"""Sets of devices that serve a model together, and their plans.

Sets have two devices, of one or two kinds, or all devices of one board; then the sets with the
highest rates are extended by one device each, repeatedly, up to the maximum number of planned sets.
A set is considered for a model if one of its devices is too slow for the whole model, and the set
sustains more than the devices that serve it whole: devices that all serve it whole sustain as much
separately. A set that works within one board needs no other board.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from hetsim.hardware.routes import build_routes
from hetsim.provisioning.instances.candidates import SPLITS
from hetsim.provisioning.platforms.components import Components
from hetsim.provisioning.platforms.planner import Planner, time_uncertainty_of, ways_of
from hetsim.provisioning.platforms.policies import busiest_device_s
from hetsim.provisioning.platforms.question import (
    SLACK,
    Counts,
    DeviceSplit,
    Kind,
    Question,
    TimeUncertainty,
)
from hetsim.workload.deployment import Instances

MOST_SETS = 32
"""Maximum number of sets of devices to plan for each model."""

Set = tuple[tuple[int, ...], tuple[tuple[int, int], ...]]
"""Kinds, one of each; and devices: index of the kind, and device in it."""


def sets_of(kinds: Sequence[Kind], max_devices: int) -> Iterator[Set]:
    """Yield the candidate sets of vectors, in order.

    Every pair of devices of a board or host, and all; then each device of a host with each of every
    other kind; then of each two kinds; then two identical ones, of two of a kind.
    """
    for k in range(len(kinds)):
        yield from sets_within(kinds, k)
    pairs = sorted(combinations(range(len(kinds)), 2), key=lambda pair: not kinds[pair[0]].slots)
    for a, b in [*pairs, *((k, k) for k in range(len(kinds)))]:
        if not _together(kinds, (a, b), max_devices):
            continue
        for one in range(len(kinds[a].devices)):
            for other in range(len(kinds[b].devices)):
                if a != b or one == other:
                    yield (a, b), ((0, one), (1, other))


def sets_within(kinds: Sequence[Kind], k: int) -> Iterator[Set]:
    """Yield the sets of devices of one of a kind: every pair, and all."""
    slots = range(len(kinds[k].devices))
    for pair in combinations(slots, 2):
        yield (k,), tuple((0, slot) for slot in pair)
    if len(slots) > 2:
        yield (k,), tuple((0, slot) for slot in slots)


def _together(kinds: Sequence[Kind], which: Sequence[int], max_devices: int) -> bool:
    """Return whether some vector has all of them, as often as named."""
    each = [kinds[k] for k in which]
    if sum(kind.counted for kind in each) > max_devices:
        return False
    if any(which.count(k) > kinds[k].most for k in which):
        return False
    slots = sum(kind.in_slot for kind in each)
    hosts = [kind for kind in each if kind.slots] or [kind for kind in kinds if kind.slots]
    if sum(bool(kind.slots) for kind in each) > 1:
        return False
    return not slots or any(host.slots >= slots for host in hosts)


def wider_of(kinds: Sequence[Kind], one: Set, max_devices: int) -> Iterator[Set]:
    """Yield the candidate sets with one more device, in order.

    First another device of a board or host in it; then the same device of a further copy of a kind
    in it; then one of each other kind.
    """
    own, devices = one
    for unit, kind in enumerate(own):
        for slot in range(len(kinds[kind].devices)):
            if (unit, slot) not in devices:
                yield _in_order(own, (*devices, (unit, slot)))
    there = {(own[unit], slot) for unit, slot in devices}
    further = [(k, slot) for k, kind in enumerate(kinds) for slot in range(len(kind.devices))]
    for kind, slot in sorted(further, key=lambda row: row not in there):
        if kind in own and (kind, slot) not in there:
            continue
        if _together(kinds, (*own, kind), max_devices):
            yield _in_order((*own, kind), (*devices, (len(own), slot)))


def _in_order(own: Sequence[int], devices: Sequence[tuple[int, int]]) -> Set:
    """Return a set with its kinds in order; of repeated ones, that with more devices first."""
    slots = [sorted(slot for unit, slot in devices if unit == at) for at in range(len(own))]
    units = sorted(range(len(own)), key=lambda unit: (own[unit], -len(slots[unit]), slots[unit]))
    each = ((at, slot) for at, unit in enumerate(units) for slot in slots[unit])
    return tuple(own[unit] for unit in units), tuple(each)


def splits_of(
    question: Question,
    components: Sequence[Components],
    planner: Planner,
    within: int | None = None,
) -> tuple[tuple[DeviceSplit, ...], dict[tuple[int, int], TimeUncertainty]]:
    """Return plans across several devices, highest rate first.

    Also returns the uncertainty of their devices, by (type, model). `question` has the results of
    devices alone; `within` a kind: only sets within one of it. Up to 2 * ``MOST_SETS`` plans per
    model are made, and kept ones are planned in each batch size.
    """
    found: list[DeviceSplit] = []
    off: dict[tuple[int, int], TimeUncertainty] = {}
    if within is None:
        sets = tuple(sets_of(question.kinds, question.max_devices))
    else:
        sets = tuple(sets_within(question.kinds, within))
    for model in range(len(question.models)):
        mine: list[tuple[float, DeviceSplit]] = []
        helped: set[int] = set()
        # Sets examined, and the highest rate of each by any strategy.
        looked: dict[Set, float] = {}
        for kinds, devices in sets if within is not None else _in_turn(question, sets, looked):
            types = _types(question, (kinds, devices))
            lacking = [one for one in types if np.isinf(_whole_s(question, one, model))]
            if not set(lacking) - (helped if len(kinds) > 1 else set()):
                continue
            looked[kinds, devices] = 0.0
            for strategy in SPLITS:
                bare = DeviceSplit(model, strategy, kinds, devices, {})
                first = _planned(question, components, bare, (1,), planner)
                carries = 0.0 if first is None else _carries(question, first[0])
                parts = _of_parts(question, model, types, looked)
                if (kinds, devices) not in sets and carries <= parts * (1 + SLACK):
                    continue
                if first is None or not carries or any(_same(first[0], one) for _, one in mine):
                    continue
                full = first
                if len(planner.sizes[model]) > 1:
                    larger = _planned(question, components, bare, planner.sizes[model], planner)
                    if larger is None:
                        continue
                    full = larger
                mine.append((-carries, full[0]))
                looked[kinds, devices] = max(looked[kinds, devices], carries)
                helped.update(types if len(kinds) == 1 else ())
                for of_type, left in full[1].items():
                    off.setdefault((of_type, model), left)
        found += [split for _, split in sorted(mine, key=lambda row: row[0])]
    return tuple(found), off


def _in_turn(question: Question, sets: Sequence[Set], looked: Mapping[Set, float]) -> Iterator[Set]:
    """Yield sets, then extensions of the best ones, until ``MOST_SETS`` were examined."""
    seen = set()
    for one in sets:
        if len(looked) == MOST_SETS:
            return
        seen.add(one)
        yield one
    extended: set[Set] = set()
    while best := max(
        (one for one in looked if one not in extended), key=lambda one: looked[one], default=None
    ):
        extended.add(best)
        for one in wider_of(question.kinds, best, question.max_devices):
            if len(looked) == MOST_SETS:
                return
            if one not in seen:
                seen.add(one)
                yield one


def _types(question: Question, one: Set) -> list[int]:
    kinds, devices = one
    return [question.kinds[kinds[unit]].devices[slot] for unit, slot in devices]


def _whole_s(question: Question, of_type: int, model: int) -> float:
    """Return the device seconds of a whole request of a model; infinite if it is too slow."""
    limit_s = question.limit_s[model]
    found = 0.0
    for of_class in question.classes_of[model]:
        ways = [way for way in question.useful(of_type, of_class, limit_s) if way.batch == 1]
        each = ways[0].seconds / question.types[of_type].streams if ways else np.inf
        found = max(found, each)
    return found


def _carries(question: Question, split: DeviceSplit) -> float:
    """Return the requests per second that a set sustains, one by one; 0 if it is useless."""
    limit_s = question.limit_s[split.model]
    taken_s = 0.0
    for of_class in question.classes_of[split.model]:
        way = split.ways[of_class][0]
        if way.alone_s > limit_s or {task.slot for task in way.tasks} < set(
            range(len(split.devices))
        ):
            return 0.0
        taken_s = max(taken_s, busiest_device_s(question, split, way))
    types = question.types_of(split)
    alone = sum(1 / _whole_s(question, of_type, split.model) for of_type in types)
    return 1 / taken_s if 1 / taken_s > alone * (1 + SLACK) else 0.0


def _of_parts(
    question: Question, model: int, types: Sequence[int], looked: Mapping[Set, float]
) -> float:
    """Return the rate of devices with a smaller set of them, and the others alone."""
    found = 0.0
    for one, carries in looked.items():
        part = Counter(_types(question, one))
        if carries and len(one[1]) < len(types) and part <= Counter(types):
            rest = (Counter(types) - part).elements()
            alone = sum(1 / _whole_s(question, of_type, model) for of_type in rest)
            found = max(found, carries + alone)
    return found


def _same(one: DeviceSplit, other: DeviceSplit) -> bool:
    """Return whether two splits run requests in the same way on the same devices."""
    if (one.kinds, one.devices) != (other.kinds, other.devices):
        return False
    return all(one.ways[at][0].tasks == other.ways[at][0].tasks for at in one.ways)


def _planned(
    question: Question,
    components: Sequence[Components],
    bare: DeviceSplit,
    sizes: Sequence[int],
    planner: Planner,
) -> tuple[DeviceSplit, dict[int, TimeUncertainty]] | None:
    """Return a split with its ways in these sizes, and the uncertainty of its devices."""
    counts = _counts(question, bare.kinds, apart=planner.apart)
    copies = bare.copies
    called = [components[kind].names(copy) for kind, copy in zip(bare.kinds, copies, strict=True)]
    names = tuple(list(called[unit].values())[slot] for unit, slot in bare.devices)
    one = planner.resolved(counts, bare.model, Instances(1, names, bare.strategy), sizes)
    if one is None or len(one.plans) > 1:
        return None
    # Links of a platform are those of its units, concatenated.
    every = build_routes(planner.platform(counts))[0]
    links: dict[str, int] = {}
    for kind, copy in zip(bare.kinds, copies, strict=True):
        count = question.kinds[kind].links
        first = copy * count + sum(
            n * other.links for n, other in zip(counts[:kind], question.kinds, strict=False)
        )
        links |= {name: len(links) + at for at, name in enumerate(every[first : first + count])}
    ways = ways_of(one, names, links)
    off = {
        of_type: time_uncertainty_of(one.problem, one.problem.device_index(name))
        for of_type, name in zip(question.types_of(bare), names, strict=True)
    }
    classes = question.classes_of[bare.model]
    return replace(bare, ways=dict(zip(classes, ways, strict=True))), off


def _counts(question: Question, kinds: Sequence[int], *, apart: bool) -> Counts:
    """Return the platform on which a set is planned: few platforms, as each needs pricing."""
    hosts = [kind for kind in kinds if question.kinds[kind].slots]
    if apart or len(set(kinds)) < len(kinds) or len(kinds) == len(hosts):
        return tuple(kinds.count(k) for k in range(len(question.kinds)))
    return tuple(int(k in hosts or not one.slots) for k, one in enumerate(question.kinds))
