"""Bounds exclude nothing that could be done, in any order, on devices alone or together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.problem.problem import Problem
from hetsim.provisioning.platforms.bounds.bound import bound_of, choices, most_late
from hetsim.provisioning.platforms.bounds.pooled import greedy, late_on, least_rate, share_of
from hetsim.provisioning.platforms.bounds.prices import at_vector
from hetsim.provisioning.platforms.planner import any_plan
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
    Way,
    drawn,
)
from hetsim.provisioning.platforms.search import Search, bounds_of, demand_of
from hetsim.provisioning.platforms.vectors import excludes
from hetsim.workload.workload import Slo
from random_questions import chain, every_vector, random_drawn
from sweeps import examples, sweep


def in_time(times: tuple[int, ...], limit: int, takes: int) -> bool:
    """Whether one server that may put work off can answer all of these in time.

    Exactly where no span from an arrival to a deadline has more work than it is long (Horn, 1974).
    """
    for i, first in enumerate(times):
        for j in range(i, len(times)):
            inside = [one for one in times if first <= one <= times[j]]
            if len(inside) * takes > times[j] + limit - first:
                return False
    return True


@examples(quick=40, full=400)
@given(
    st.lists(st.integers(0, 24), min_size=1, max_size=8).map(sorted),
    st.integers(1, 20),
    st.sampled_from([1, 2, 4]),
)
def test_the_greedy_has_the_fewest_late(times: list[int], limit: int, takes: int) -> None:
    kept = max(
        many
        for many in range(len(times) + 1)
        for which in combinations(times, many)
        if in_time(which, limit, takes)
    )
    late = late_on([float(one) for one in times], float(limit), 1 / takes, len(times))
    assert late == len(times) - kept
    for allowed in range(len(times)):
        rate = least_rate(np.array(times, dtype=float), float(limit), allowed)
        assert late_on([float(one) for one in times], float(limit), rate, allowed) > allowed
        # Just above it, no more are late than may be.
        above = rate * (1 + 4e-9)
        assert late_on([float(one) for one in times], float(limit), above, allowed) <= allowed


def test_so_many_may_be_late() -> None:
    for requests in range(1, 300):
        for share in (0.5, 0.9, 0.95, 0.99, 0.999):
            late = most_late(requests, share)
            assert requests - late >= share * requests
            assert requests - (late + 1) < share * requests


def test_no_plan_goes_below_its_nodes() -> None:
    problem = Problem.from_arrays([[3.0, 2.0]])
    found = any_plan([(1, [problem]), (2, [Problem.from_arrays([[3.5, 3.0]])])])
    assert found.quickest_s == pytest.approx(2.0)
    assert found.work_s == pytest.approx(float(Fraction(3, 2)))
    none = any_plan([(1, [Problem.from_arrays([[np.inf, np.inf]])])])
    assert none.quickest_s == np.inf
    assert "no device takes node" in none.lacking


@sweep("seed", quick=[2], full=range(40))
def test_what_drawn_requests_exclude_is_late_in_the_long_run(seed: int) -> None:
    question, workload = random_drawn(seed)
    bounds = {(bound.slo, bound.least): bound for bound in Search(question, workload).bounds}
    blocks = list(drawn(replace(workload, seed=workload.seed + 10), 2**17))
    time_s = np.concatenate([block.time_s for block in blocks])
    ask = np.concatenate([block.ask for block in blocks])
    for slo, least in bounds:
        if not bounds[slo, least].error:
            continue
        mine = np.isin(ask, [at for at, which in enumerate(slo) if which is not None])
        limit_s = max(
            stream.slos[which].latency_s
            for stream, which in zip(question.streams, slo, strict=True)
            if which is not None
        )
        latency_s, _ = greedy(time_s[mine], limit_s, least)
        # These are other requests: the share is off by chance, a little, and the rate is 1 % below.
        assert float((latency_s > limit_s).mean()) > (1 - share_of(question, slo)) * 0.9


# Against all schedules


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
                splits.append(DeviceSplit(model, "heft", units, devices, {model: (way(units),)}))
    count = int(draw.integers(2, 5))
    return Question(
        "cost",
        4,
        tuple(DeviceType(f"d{k}", int(draw.choice([1, 1, 2])), 1) for k in (0, 1)),
        kinds,
        tuple(f"m{k}" for k in range(models)),
        tuple(RequestClass(k) for k in range(models)),
        tuple(
            QuestionStream(f"s{k}", k, (Slo(share, float(draw.integers(8, 30))),))
            for k, share in enumerate(draw.choice([0.5, 0.99], models).tolist())
        ),
        tuple(ClassRequests(k, k) for k in range(models)),
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
