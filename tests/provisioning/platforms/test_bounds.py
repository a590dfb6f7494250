"""Bounds exclude nothing that some policy could do: tried against all schedules of few requests."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.problem.problem import Problem
from hetsim.provisioning.platforms.any_plan import any_plan
from hetsim.provisioning.platforms.arriving import drawn
from hetsim.provisioning.platforms.bounds.bound import choices, most_late
from hetsim.provisioning.platforms.bounds.pooled import greedy, late_on, least_rate, share_of
from hetsim.provisioning.platforms.bounds.prices import alike, at_vector, worth_of
from hetsim.provisioning.platforms.question import (
    Arrivals,
    Ask,
    Class,
    Counts,
    DeviceType,
    Kind,
    Question,
    Stream,
    Task,
    Way,
)
from hetsim.provisioning.platforms.searching import Search, bounds_of, demand_of
from hetsim.provisioning.platforms.vectors import all_vectors, excludes, survey
from hetsim.workload.slo import Slo
from random_questions import every_vector, random_drawn, random_question
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


def small(seed: int) -> Question:
    """Few requests of one model or two, on up to three kinds without links, with batches of two."""
    draw = np.random.default_rng([seed, 5])
    kinds = int(draw.integers(1, 4))
    models = int(draw.integers(1, 3))
    ways = {}
    for k in range(kinds):
        for model in range(models):
            if draw.random() < 0.8:
                alone = float(draw.integers(2, 9))
                pair = alone + float(draw.integers(0, 9))
                ways[k, model] = tuple(
                    Way(size, (Task(0, took, (), ()),), took, took * (1 - 1e-9))
                    for size, took in ((1, alone), (2, pair))
                )
    count = int(draw.integers(3, 7))
    return Question(
        "cost",
        3,
        tuple(DeviceType(f"d{k}", 1, 1) for k in range(kinds)),
        tuple(Kind(f"d{k}", (k,), 0, int(draw.integers(1, 9)), 2) for k in range(kinds)),
        tuple(f"m{k}" for k in range(models)),
        tuple(Class(k) for k in range(models)),
        tuple(
            Stream(f"s{k}", k, (Slo(share, float(draw.integers(4, 16))),))
            for k, share in enumerate(draw.choice([0.5, 0.75, 0.99], models).tolist())
        ),
        tuple(Ask(k, k) for k in range(models)),
        ways,
        given=True,
        arrivals=Arrivals(
            np.sort(draw.integers(0, 20, count)).astype(float), draw.integers(0, models, count)
        ),
    )  # fmt: skip


def answers(question: Question, of_type: int, mine: list[int]) -> bool:
    """Whether one device can answer these requests in time, in batches of its choice.

    In any order: each partition in batches of one model, and each order of them, is tried.
    """
    arrivals = question.arrivals
    assert arrivals is not None

    def rest(left: tuple[int, ...], free: float) -> bool:
        if not left:
            return True
        batches = [(one,) for one in left] + list(combinations(left, 2))
        for batch in batches:
            models = {int(arrivals.ask[one]) for one in batch}
            ways = question.ways.get((of_type, min(models)), ())
            if len(models) > 1 or len(ways) < len(batch):
                continue
            start = max(free, *(float(arrivals.time_s[one]) for one in batch))
            end = start + ways[len(batch) - 1].seconds
            limit = question.streams[min(models)].slos[0].latency_s
            if all(end <= arrivals.time_s[one] + limit for one in batch) and rest(
                tuple(one for one in left if one not in batch), end
            ):
                return True
        return False

    return rest(tuple(mine), 0.0)


def possible(question: Question, counts: Counts) -> bool:
    """Whether any schedule at all answers as many in time as are asked for."""
    arrivals = question.arrivals
    assert arrivals is not None
    devices = [k for k, count in enumerate(counts) for _ in range(count)]
    known: dict[tuple[int, tuple[int, ...]], bool] = {}
    for places in product(range(len(devices) + 1), repeat=len(arrivals)):
        late = [one for one, place in enumerate(places) if place == len(devices)]
        if any(
            sum(arrivals.ask[one] == k for one in late)
            > most_late(int((arrivals.ask == k).sum()), stream.slos[0].share)
            for k, stream in enumerate(question.streams)
        ):
            continue
        done = True
        for at, of_type in enumerate(devices):
            mine = tuple(one for one, place in enumerate(places) if place == at)
            if (of_type, mine) not in known:
                known[of_type, mine] = answers(question, of_type, list(mine))
            if not known[of_type, mine]:
                done = False
                break
        if done:
            return True
    return False


@sweep("seed", quick=range(3), full=range(120))
def test_what_is_excluded_no_schedule_can_do(seed: int) -> None:
    question = small(seed)
    bounds = list(bounds_of(question))
    tests = [bound.test(question) for bound in bounds]
    seen = 0
    for counts in every_vector(question):
        if not excludes(tests, counts):
            continue
        seen += 1
        assert not possible(question, counts), counts
    assert seen


@sweep("seed", quick=range(3), full=range(60))
def test_prices_of_a_vector_are_safe_and_as_sharp_as_the_program(seed: int) -> None:
    question = random_question(seed)
    for slo in choices(question):
        demand = demand_of(question, slo) * 4
        for counts in every_vector(question)[:: max(1, all_vectors(question) // 5)]:
            found = at_vector(question, slo, demand, counts)
            capacity, worth = alike(question, slo)[0] if found is None else found
            again = worth_of(question, slo, capacity)
            assert (worth <= again * (1 + 1e-9)).all() or found is None
            if found is None:
                continue
            has = sum(
                count * sum(float(capacity[one]) for one in question.resources_of(kind))
                for kind, count in enumerate(counts)
            )
            # The program said that it has too little, and so do its prices.
            assert has < float(demand @ worth) * (1 + 1e-6)


@sweep("seed", quick=range(2), full=range(40))
def test_boxes_leave_the_same_as_a_list(seed: int) -> None:
    question = random_question(seed, vectors=300)
    tests = [bound.test(question) for bound in bounds_of(question)]
    vectors = every_vector(question)
    costs = sorted({question.cost(one) for one in vectors})
    for cap in (costs[len(costs) // 3], costs[-1]):
        looked = survey(question, tests, cap)
        left = [one for one in vectors if question.cost(one) <= cap and not excludes(tests, one)]
        assert [tuple(row) for row in looked.left.tolist()] == left
        assert sum(looked.excluded) + looked.dearer + len(left) == len(vectors)


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
