"""Verdicts of long runs are true, and LoadGen's rule is the binomial sum that it stands for."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from growing_runs import Answered, until
from hetsim.errors import InvalidInput
from hetsim.statistics.verdict import (
    FIRST_LOOK,
    confidence_of_look,
    early_stopping,
    least_on_time,
    verdict_of,
)
from hetsim.workload.workload import Slo
from queues import Kind, blocks, latency_at, sojourns
from sweeps import sweep


def asked(kind: Kind, load: float, factor: float, seed: int, budget: int = 2**22) -> Answered:
    """Ask for p99 within `factor` of what it is."""
    return until(blocks(kind, load, seed), Slo(0.99, factor * latency_at(kind, load, 99.0)), budget)


@pytest.mark.slow
@sweep("most", quick=[0.7], full=[0.7, 0.95])
def test_verdicts_of_known_truth_are_right(most: float) -> None:
    """At most one in a hundred is wrong, and one in ten undecided."""
    rng = np.random.default_rng(5)
    many = 60 if most < 0.9 else 300
    wrong = undecided = 0
    for seed in range(many):
        kind: Kind = ("M/D/1", "M/M/1")[int(rng.integers(2))]
        load = float(rng.uniform(0.3, most))
        factor = float(rng.choice([0.6, 0.75, 0.9, 1.1, 1.25, 1.5]))
        answer = asked(kind, load, factor, seed).verdict.answer
        undecided += answer == "undecided"
        wrong += answer == ("misses" if factor > 1 else "meets")
    assert wrong <= many // 100
    assert undecided <= many // 10


def test_a_far_objective_is_told_early_and_one_at_its_limit_says_how_much_it_would_take() -> None:
    found = asked("M/D/1", 0.5, 3, 1)
    assert found.verdict.answer == "meets"
    assert found.requests <= 4 * FIRST_LOOK
    near = asked("M/M/1", 0.8, 1.001, 3, 2**17)
    assert (near.requests, near.verdict.answer) == (2**17, "undecided")
    assert near.verdict.more > 100_000


def test_nothing_is_said_before_enough_busy_periods_were_late() -> None:
    """However far off: the first 5,000 requests of load 0.95 can all be lucky."""
    latency_s, fresh = sojourns("M/M/1", 0.95, 5_000, 2)
    for limit in (1.0, 10_000.0):
        verdict = verdict_of(latency_s, fresh, 0.99, limit)
        assert verdict.answer == "undecided"
        assert verdict.more >= 5_000
    assert verdict.mlperf.valid


def test_looks_spend_no_more_than_is_allowed() -> None:
    spent = sum(1 - confidence_of_look(look) for look in range(1, 10_000))
    assert 0.0099 < spent < 0.01


@pytest.mark.parametrize("share", [0.5, 0.9, 0.97, 0.99])
@pytest.mark.parametrize("late", [0, 1, 2, 7, 60])
def test_so_many_on_time_are_the_least_that_the_binomial_distribution_allows(
    share: float, late: int
) -> None:
    least = least_on_time(late, share)
    for on_time, passes in ((least, True), (least - 1, False)):
        chance = scipy.stats.binom.cdf(late, on_time + late, 1 - share) if on_time else 1.0
        assert (chance < 0.01) == passes


@pytest.mark.parametrize(
    ("queries", "discarded"), [(2048, 172), (2116, 178), (2145, 181), (7469, 685)]
)
def test_single_stream_runs_discard_as_many_as_loadgen_printed(
    queries: int, discarded: int
) -> None:
    """Published summaries of single-stream runs at the 90th percentile; 64 queries are needed."""
    assert least_on_time(1, 0.9) + 1 == 64
    assert least_on_time(discarded + 1, 0.9) + discarded + 1 <= queries
    assert least_on_time(discarded + 2, 0.9) + discarded + 2 > queries


def test_verdicts_and_what_is_missing() -> None:
    needed = least_on_time(10, 0.99) + 10
    assert early_stopping(needed, 10, 0.99).valid
    short = early_stopping(needed - 5, 10, 0.99)
    assert (short.valid, short.more) == (False, 5)
    assert early_stopping(458, 0, 0.99).more == 1
    assert early_stopping(459, 0, 0.99).valid


@pytest.mark.parametrize(
    "given", [(-1, 0, 0.9), (5, 6, 0.9), (5, 1, 1.0), (5, 1, 0.0), (5, 1, 0.9, 1.0)]
)
def test_what_makes_no_sense_is_refused(given: tuple[float, ...]) -> None:
    with pytest.raises(InvalidInput):
        early_stopping(*given)  # type: ignore[arg-type]
