"""Bounds exclude nothing that plans over several devices and slow links could do, in any order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

import numpy as np

from hetsim.provisioning.platforms.bounds.bound import choices, most_late
from hetsim.provisioning.platforms.bounds.capacity import bound_of
from hetsim.provisioning.platforms.bounds.prices import at_vector
from hetsim.provisioning.platforms.question import (
    Arrivals,
    Ask,
    Class,
    Counts,
    DeviceType,
    Kind,
    Question,
    Split,
    Stream,
    Way,
)
from hetsim.provisioning.platforms.searching import bounds_of, demand_of
from hetsim.provisioning.platforms.vectors import excludes
from hetsim.workload.slo import Slo
from random_questions import chain, every_vector
from sweeps import sweep

Thing = tuple[str, int, int, int]
"""A device or link: of which kind, which copy, which of it."""

Step = tuple[float, frozenset[Thing]]
"""Seconds, and all that is held meanwhile."""


def small(seed: int) -> Question:
    """Up to four requests on two kinds behind links, whole and over two devices."""
    draw = np.random.default_rng([seed, 6])
    kinds = tuple(
        Kind(f"k{k}", (k,), int(draw.integers(0, 2)), int(draw.integers(1, 9)), 2) for k in (0, 1)
    )
    models = int(draw.integers(1, 3))

    def way(units: tuple[int, ...]) -> Way:
        first = np.cumsum([0] + [kinds[kind].links for kind in units]).tolist()
        seconds = draw.integers(2, 9, len(units)).astype(float).tolist()
        links = [kinds[kind].links for kind in units]
        return chain(1, seconds, first[:-1], links, float(draw.integers(1, 7)))

    ways, splits = {}, []
    for model in range(models):
        for kind in (0, 1):
            if draw.random() < 0.5:
                ways[kind, model] = (way((kind,)),)
        for units in ((0, 1), (0, 0), (1, 1)):
            if draw.random() < 0.6:
                devices = ((0, 0), (1, 0))
                splits.append(Split(model, "heft", units, devices, {model: (way(units),)}))
    count = int(draw.integers(2, 5))
    return Question(
        "cost",
        4,
        tuple(DeviceType(f"d{k}", int(draw.choice([1, 1, 2])), 1) for k in (0, 1)),
        kinds,
        tuple(f"m{k}" for k in range(models)),
        tuple(Class(k) for k in range(models)),
        tuple(
            Stream(f"s{k}", k, (Slo(share, float(draw.integers(8, 30))),))
            for k, share in enumerate(draw.choice([0.5, 0.99], models).tolist())
        ),
        tuple(Ask(k, k) for k in range(models)),
        ways,
        given=True,
        arrivals=Arrivals(
            np.sort(draw.integers(0, 16, count)).astype(float), draw.integers(0, models, count)
        ),
        splits=tuple(splits),
    )


def served(question: Question, of_class: int, counts: Counts) -> Iterator[list[Step]]:
    """What serves one request, step after step, on each choice of copies."""
    for kind in (0, 1):
        for way in question.ways.get((kind, of_class), ()):
            for copy in range(counts[kind]):
                yield steps(question, way, [(kind, copy)])
    for split in question.splits:
        for way in split.ways.get(of_class, ()):
            for copies in product(*(range(counts[kind]) for kind in split.kinds)):
                units = list(zip(split.kinds, copies, strict=True))
                if len(set(units)) == len(units):
                    yield steps(question, way, units)


def steps(question: Question, way: Way, units: list[tuple[int, int]]) -> list[Step]:
    links = [
        ("link", kind, copy, link)
        for kind, copy in units
        for link in range(question.kinds[kind].links)
    ]
    found: list[Step] = []
    done: set[int] = set()
    while len(done) < len(way.tasks):
        (at,) = (
            at for at, task in enumerate(way.tasks) if at not in done and set(task.before) <= done
        )
        task = way.tasks[at]
        held = [links[link] for link in task.links]
        if task.slot >= 0:
            held.append(("device", *units[task.slot], 0))
        found.append((task.seconds, frozenset(held)))
        done.add(at)
    return found


def possible(question: Question, counts: Counts) -> bool:
    """Whether any schedule answers as many in time as are asked for."""
    arrivals = question.arrivals
    assert arrivals is not None
    mine = arrivals.ask.tolist()
    free = {
        ("device", kind, copy, 0): [0.0] * question.types[kind].streams
        for kind in (0, 1)
        for copy in range(counts[kind])
    } | {
        ("link", kind, copy, link): [0.0]
        for kind in (0, 1)
        for copy in range(counts[kind])
        for link in range(question.kinds[kind].links)
    }
    for many in range(len(mine) + 1):
        for late in combinations(range(len(mine)), many):
            if any(
                sum(mine[one] == k for one in late) > most_late(mine.count(k), stream.slos[0].share)
                for k, stream in enumerate(question.streams)
            ):
                continue
            kept = [one for one in range(len(mine)) if one not in late]
            for how in product(*(list(served(question, mine[one], counts)) for one in kept)):
                ends = [
                    float(arrivals.time_s[one]) + question.streams[mine[one]].slos[0].latency_s
                    for one in kept
                ]
                ready = [float(arrivals.time_s[one]) for one in kept]
                if in_some_order(list(how), ready, ends, free):
                    return True
    return False


def in_some_order(
    how: list[list[Step]], ready: list[float], ends: list[float], free: dict[Thing, list[float]]
) -> bool:
    """Whether all steps can be done in time, started in any order: each order is tried."""
    for one, rest in enumerate(how):
        if sum(seconds for seconds, _ in rest) + ready[one] > ends[one]:
            return False
    if not any(how):
        return True
    for one, rest in enumerate(how):
        if not rest:
            continue
        (seconds, held), *others = rest
        start = max([ready[one], *(min(free[thing]) for thing in held)])
        end = start + seconds
        after = dict(free)
        for thing in held:
            streams = sorted(free[thing])
            after[thing] = [end, *streams[1:]]
        now = [*ready[:one], end, *ready[one + 1 :]]
        if in_some_order([*how[:one], others, *how[one + 1 :]], now, ends, after):
            return True
    return False


@sweep("seed", quick=range(4), full=range(100))
def test_what_is_excluded_no_schedule_can_do(seed: int) -> None:
    question = small(seed)
    bounds = list(bounds_of(question))
    seen = 0
    for counts in every_vector(question):
        mine = list(bounds)
        for slo in choices(question):
            # Prices made for this vector, if it has too little by them.
            prices = at_vector(question, slo, demand_of(question, slo), counts)
            bound = None if prices is None else bound_of(question, slo, prices)
            mine += [] if bound is None else [bound]
        if not excludes([bound.test(question) for bound in mine], counts):
            continue
        seen += 1
        assert not possible(question, counts), counts
    assert seen
