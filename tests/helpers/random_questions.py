"""Random questions of what to have, in numbers alone: kinds, prices, requests, times."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np

from hetsim.provisioning.platforms.question import (
    Arrivals,
    ClassRequests,
    Counts,
    DeviceSplit,
    DeviceType,
    Kind,
    Question,
    QuestionStream,
    RequestClass,
    RequestTask,
    Way,
)
from hetsim.workload.arrivals import Poisson
from hetsim.workload.workload import Slo, Workload
from hetsim.workload.workload import Stream as WorkloadStream


def random_question(
    seed: int, *, vectors: int = 1000, requests: int = 120, hosts: bool | None = None
) -> Question:
    """A question of up to so many vectors, of one to three models, with given requests.

    Some devices lack a model, are too slow, or have several streams; some have links; some
    batches pay and others do not; requests come evenly, by chance, or in bursts.
    """
    draw = np.random.default_rng([seed, 77])
    hosts = bool(draw.random() < 0.3) if hosts is None else hosts
    kinds_open = int(draw.integers(1, 5))
    most = []
    while len(most) < kinds_open:
        most.append(int(draw.integers(1, 6)))
    max_devices = int(draw.integers(2, 9))
    while np.prod(np.array(most) + 1) * (3 if hosts else 1) > vectors:
        most[int(np.argmax(most))] -= 1
    types: list[DeviceType] = []
    kinds: list[Kind] = []
    if hosts:
        for name in ("small", "large"):
            slots = 2 if name == "small" else 4
            first = len(types)
            types.append(_type(draw, name))
            kinds.append(Kind(name, (first,), 0, int(draw.integers(5, 40)), 1, slots=slots))
    for k, many in enumerate(most):
        first = len(types)
        several = 2 if draw.random() < 0.3 else 1
        types += [_type(draw, f"kind{k}-{at}") for at in range(several)]
        kinds.append(
            Kind(
                f"kind{k}",
                tuple(range(first, first + several)),
                int(draw.integers(0, 3)),
                int(draw.integers(1, 60)),
                many,
                in_slot=hosts and bool(draw.random() < 0.7),
            )
        )
    models = int(draw.choice([1, 1, 2, 3]))
    classes = [
        RequestClass(model, {"s": size} if size else {})
        for model in range(models)
        for size in range(2 if draw.random() < 0.25 else 1)
    ]
    streams, asks = [], []
    batched = bool(draw.random() < 0.5)
    base_s = float(draw.uniform(0.002, 0.01))
    for model in range(models):
        mine = [k for k, one in enumerate(classes) if one.model == model]
        slos = [Slo(float(draw.choice([0.9, 0.95, 0.99])), base_s * float(draw.uniform(2, 10)))]
        if draw.random() < 0.2:
            slos.append(Slo(0.5, slos[0].latency_s / 2))
        streams.append(QuestionStream(f"stream{model}", model, tuple(slos)))
        asks += [ClassRequests(model, k) for k in mine]
    ways = {}
    for of_type in range(len(types)):
        kind = next(one for one in kinds if of_type in one.devices)
        speed = float(draw.uniform(0.4, 2.5))
        for model in range(models):
            if draw.random() < 0.15:
                continue
            for k, one in enumerate(classes):
                if one.model == model:
                    seconds = (
                        base_s
                        * speed
                        * float(draw.uniform(0.8, 1.2))
                        * (1 + 0.5 * len(one.variant))
                    )
                    pays = float(draw.choice([0.3, 0.7, 1.0])) if batched else 1.0
                    ways[of_type, k] = tuple(
                        _way(size, seconds * size**pays, kind.links, base_s)
                        for size in ((1, 2, 4) if batched else (1,))
                    )
    count = int(draw.integers(20, requests + 1))
    each = len(asks)
    rate = float(draw.uniform(0.5, 6)) / base_s
    sort = int(draw.integers(0, 3))
    gaps = np.full(count, 1 / rate) if sort == 0 else draw.exponential(1 / rate, count)
    if sort == 2:
        gaps[np.arange(count) % 5 != 0] = 0.0
        gaps *= 5
    time_s = np.cumsum(gaps)
    question = Question(
        "cost",
        max_devices,
        tuple(types),
        tuple(kinds),
        tuple(f"model{model}" for model in range(models)),
        tuple(classes),
        tuple(streams),
        tuple(asks),
        ways,
        given=True,
        warm_up_s=float(time_s[count // 8]) if draw.random() < 0.2 else 0.0,
        arrivals=Arrivals(time_s, draw.integers(0, each, count)),
    )
    return _crowded(question, seed) if models > 1 else question


def _crowded(question: Question, seed: int) -> Question:
    """Sometimes the same where models take memory, of which not every device has enough for all."""
    draw = np.random.default_rng([seed, 79])
    if draw.random() < 0.5:
        return question
    ways = {}
    for key, each in question.ways.items():
        share = float(draw.uniform(0.1, 0.6)) * question.types[key[0]].memory_bytes
        ways[key] = tuple(
            replace(way, whole_bytes=int(share * (1 + 0.1 * way.batch))) for way in each
        )
    return replace(question, ways=ways)


def with_splits(question: Question, seed: int) -> Question:
    """The same with plans over two devices or three; often some devices serve no model whole.

    Of one kind, of two, or of two of one kind; quicker or slower than whole on any; two strategies.
    """
    draw = np.random.default_rng([seed, 78])
    keep = float(draw.choice([0.0, 0.4, 1.0]))
    ways = {key: each for key, each in question.ways.items() if draw.random() < keep}
    sizes = [way.batch for way in next(iter(question.ways.values()), ())] or [1]
    base_s = min((each[0].seconds for each in question.ways.values()), default=0.01)
    slots = [
        (k, slot) for k, kind in enumerate(question.kinds) for slot in range(len(kind.devices))
    ]
    splits = []
    seen = set()
    for model in range(len(question.models)):
        for _ in range(int(draw.integers(1, 4))):
            count = min(int(draw.choice([2, 2, 3])), 2 if len(slots) < 2 else 3)
            chosen = [slots[int(draw.integers(len(slots)))] for _ in range(count)]
            units: list[tuple[int, list[int]]] = []
            devices = []
            for kind, slot in chosen:
                # A device of a unit that is there already, or one more unit.
                there = [u for u, (k, own) in enumerate(units) if k == kind and slot not in own]
                if not there:
                    units.append((kind, []))
                    there = [len(units) - 1]
                units[there[0]][1].append(slot)
                devices.append((there[0], slot))
            order = sorted(range(len(units)), key=lambda at: units[at][0])
            kinds = tuple(units[at][0] for at in order)
            devices = [(order.index(unit), slot) for unit, slot in devices]
            first = np.cumsum([0] + [question.kinds[kind].links for kind in kinds]).tolist()
            strategy = str(draw.choice(["heft", "pipeline"]))
            if (model, strategy, kinds, tuple(devices)) in seen:
                continue
            seen.add((model, strategy, kinds, tuple(devices)))
            seconds = base_s * draw.uniform(0.2, 1.0, count)
            moves_s = base_s * float(draw.choice([0.02, 0.1, 0.5]))
            pays = float(draw.choice([0.3, 0.7, 1.0]))
            splits.append(
                DeviceSplit(
                    model,
                    strategy,
                    kinds,
                    tuple(devices),
                    {
                        of_class: tuple(
                            chain(
                                size,
                                (seconds * size**pays).tolist(),
                                [first[unit] for unit, _ in devices],
                                [question.kinds[kinds[unit]].links for unit, _ in devices],
                                moves_s * size,
                            )
                            for size in sizes
                        )
                        for of_class in question.classes_of[model]
                    },
                )
            )
    return replace(question, ways=ways, splits=tuple(splits))


def chain(
    size: int, seconds: list[float], first: list[int], links: list[int], moves_s: float
) -> Way:
    """Devices one after another; a transfer to each that is behind a link, over its first link."""
    groups, moves = [], []
    for slot, each in enumerate(seconds):
        before: tuple[int, ...] = (slot - 1,) if slot else ()
        if links[slot]:
            held = {first[slot]} | ({first[slot - 1] + links[slot - 1] - 1} if slot and
                                    links[slot - 1] else set())  # fmt: skip
            moves.append(RequestTask(-1, moves_s, tuple(sorted(held)), before))
            before = (len(seconds) + len(moves) - 1,)
        groups.append(RequestTask(slot, each, (), before))
    whole_s = sum(seconds) + moves_s * len(moves)
    return Way(size, (*groups, *moves), whole_s * (1 - 1e-9))


def with_losses(seed: int) -> Question:
    """A question of less work, to be done without any one device, or any two."""
    question = random_question(seed, vectors=200, requests=60)
    if seed % 3 == 0:
        question = with_splits(question, seed)
    arrivals = question.arrivals
    assert arrivals is not None
    slower = float(np.random.default_rng([seed, 81]).uniform(1, 6))
    arrivals = replace(arrivals, time_s=arrivals.time_s * slower)
    return replace(
        question,
        arrivals=arrivals,
        warm_up_s=question.warm_up_s * slower,
        losses=2 if seed % 5 == 0 else 1,
    )


def random_drawn(seed: int) -> tuple[Question, Workload]:
    """A question of requests that are drawn, each model's of one shape, and their workload."""
    while True:
        question = random_question(seed, vectors=60, requests=40)
        if len(question.classes) == len(question.models):
            break
        seed += 1000
    draw = np.random.default_rng([seed, 78])
    alone = [
        min((ways[0].seconds for (_, k), ways in question.ways.items() if k == model), default=1.0)
        for model in range(len(question.models))
    ]
    asks = tuple(
        ClassRequests(at, at, float(draw.uniform(0.5, 2.5)) / seconds / len(alone))
        for at, seconds in enumerate(alone)
    )
    streams = tuple(
        WorkloadStream(
            stream.name,
            question.models[at],
            Poisson(asks[at].rate_per_s or 0.0),
            slos=stream.slos,
        )
        for at, stream in enumerate(question.streams)
    )
    workload = Workload(streams, requests=1, seed=seed)
    asked = replace(question, given=False, arrivals=None, asks=asks, warm_up_s=0.0)
    return asked, workload


def _type(draw: np.random.Generator, name: str) -> DeviceType:
    return DeviceType(name, int(draw.choice([1, 1, 1, 2])), 1 << 30)


def _way(size: int, seconds: float, links: int, base_s: float) -> Way:
    """One subgraph, and a transfer to it and from it where there is a link."""
    if not links:
        return Way(size, (RequestTask(0, seconds, (), ()),), seconds * (1 - 1e-9))
    moves_s = base_s * 0.05 * size
    back = links - 1
    tasks = (
        RequestTask(0, seconds, (), (1,)),
        RequestTask(-1, moves_s, (0,), ()),
        RequestTask(-1, moves_s, (back,), (0,)),
    )
    whole_s = seconds + 2 * moves_s
    return Way(size, tasks, whole_s * (1 - 1e-9))


def every_vector(question: Question) -> list[Counts]:
    """All vectors that may be, in order: plain enumeration."""
    found = []
    for counts in product(*(range(kind.most + 1) for kind in question.kinds)):
        each = list(zip(counts, question.kinds, strict=True))
        hosts = sum(n for n, kind in each if kind.slots)
        slots = sum(n * kind.slots for n, kind in each)
        taken = sum(n for n, kind in each if kind.in_slot)
        many = sum(n for n, kind in each if not kind.slots)
        if hosts <= 1 and taken <= slots and many <= question.max_devices:
            found.append(counts)
    return sorted(
        found,
        key=lambda counts: (
            sum(n * kind.cost for n, kind in zip(counts, question.kinds, strict=True)),
            sum(n for n, kind in zip(counts, question.kinds, strict=True) if not kind.slots),
            counts,
        ),
    )
