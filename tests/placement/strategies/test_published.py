"""Makespans of published instances: what the papers give, and how near the optima we come."""

from __future__ import annotations

import math
from functools import cache

import pytest

from placement_instances import (
    CONSTRUCTIVE,
    DAGBENCH,
    RANDOM20,
    case,
    constructive,
    dagbench,
    played,
)
from sweeps import sweep

EACH_TIME = RANDOM20[::4]
"""Of each number of devices, and little and much to move."""


@pytest.mark.parametrize(
    ("strategy", "makespan"), [("heft", 80), ("cpop", 86), ("dls", 91), ("peft", 85)]
)
def test_published_makespans(strategy: str, makespan: float) -> None:
    problem, _ = case("topcuoglu2002")
    assert constructive(strategy).schedule(problem).makespan_s == makespan
    assert played(problem, strategy)[1] == makespan


def test_the_published_example_is_solved_and_proven() -> None:
    problem, optimum = case("topcuoglu2002")
    plan, latency = played(problem, "exact")
    assert latency == optimum == 73
    assert plan.reason == "proven optimal"


@cache
def _latency(name: str, strategy: str) -> float:
    return played(case(name)[0], strategy, **({"moves": 8_000} if "search" in strategy else {}))[1]


def _geometric_mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


@pytest.mark.sweep
@sweep("names", quick=[EACH_TIME], full=[EACH_TIME, RANDOM20], ids=["some", "all"])
def test_the_best_list_schedule_is_near_the_optimum(names: list[str]) -> None:
    ratios = [
        min(_latency(name, strategy) for strategy in CONSTRUCTIVE) / case(name)[1] for name in names
    ]
    assert min(ratios) >= 1.0
    assert _geometric_mean(ratios) <= 1.11


@sweep("names", quick=[EACH_TIME], full=[EACH_TIME, RANDOM20], ids=["some", "all"])
def test_search_is_nearer(names: list[str]) -> None:
    ratios = [_latency(name, "local-search") / case(name)[1] for name in names]
    assert min(ratios) >= 1.0
    assert _geometric_mean(ratios) <= 1.05
    assert max(ratios) <= 1.20


PROVEN = (
    "random20/rand-n20-p2-ccr0.2-s1",
    "random20/rand-n20-p2-ccr5.0-s2",
    "random20/rand-n20-p4-ccr0.2-s3",
)


@sweep("name", quick=PROVEN[1:2], full=PROVEN)
def test_optima_are_proven(name: str) -> None:
    problem, optimum = case(name)
    plan, latency = played(problem, "exact")
    assert latency == optimum
    assert plan.reason == "proven optimal"


@sweep("name", quick=DAGBENCH[:1], full=DAGBENCH)
def test_workflows(name: str) -> None:
    problem = dagbench(name)
    latencies = {strategy: played(problem, strategy)[1] for strategy in CONSTRUCTIVE}
    single = played(problem, "single")[1]
    best = played(problem, "auto", search=False)[1]
    assert best <= min(single, *latencies.values())
