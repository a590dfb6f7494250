"""Runs go on until they answer; what they answer is true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count

import numpy as np
import pytest

from hetsim.errors import InvalidInput
from hetsim.statistics.until import FIRST_LOOK, Answered, until
from hetsim.statistics.verdict import confidence_of_look, verdict_of
from hetsim.workload.slo import Slo
from queues import Kind, Run, blocks, latency_at, sojourns
from sweeps import sweep


def asked(kind: Kind, load: float, factor: float, seed: int, budget: int = 2**22) -> Answered:
    """Ask for p99 within `factor` of what it is."""
    limit = factor * latency_at(kind, load, 99.0)
    return until(blocks(kind, load, seed), [Slo(0.99, limit)], budget)


def wrong_and_undecided(cases: list[tuple[Kind, float, float, int]]) -> tuple[int, int]:
    told = [(factor > 1, asked(kind, load, factor, seed).verdicts[0].answer)
            for kind, load, factor, seed in cases]  # fmt: skip
    wrong = sum(answer == ("misses" if meets else "meets") for meets, answer in told)
    return wrong, sum(answer == "undecided" for _, answer in told)


@pytest.mark.slow
@sweep("most", quick=[0.7], full=[0.7, 0.95])
def test_verdicts_of_known_truth_are_right(most: float) -> None:
    """At most one in a hundred is wrong, and one in ten undecided."""
    rng = np.random.default_rng(5)
    many = 60 if most < 0.9 else 300
    cases = [
        (
            ("M/D/1", "M/M/1")[int(rng.integers(2))],
            float(rng.uniform(0.3, most)),
            float(rng.choice([0.6, 0.75, 0.9, 1.1, 1.25, 1.5])),
            seed,
        )
        for seed in range(many)
    ]
    wrong, undecided = wrong_and_undecided(cases)  # type: ignore[arg-type]
    assert wrong <= many // 100
    assert undecided <= many // 10


def test_a_run_is_no_longer_than_its_answer_takes() -> None:
    drawn = count()

    def counted() -> Iterator[Run]:
        for block in blocks("M/D/1", 0.5, 1, 2**12):
            next(drawn)
            yield block

    limit = 3 * latency_at("M/D/1", 0.5, 99.0)
    found = until(counted(), [Slo(0.99, limit)], 2**24)
    assert found.end == "answered"
    assert found.verdicts[0].answer == "meets"
    assert found.requests == next(drawn) * 2**12 <= 4 * FIRST_LOOK


def test_a_budget_ends_a_run_that_cannot_tell_and_says_how_much_it_would_take() -> None:
    found = asked("M/M/1", 0.8, 1.001, 3, 100_001)
    assert (found.requests, found.end) == (100_001, "budget")
    (verdict,) = found.verdicts
    assert verdict.answer == "undecided"
    assert verdict.more > 100_000
    assert found.percentiles[0].percentile == 99.0


def test_nothing_is_said_before_enough_busy_periods_were_late() -> None:
    """However far off: the first 5,000 requests of load 0.95 can all be lucky."""
    latency_s, fresh = sojourns("M/M/1", 0.95, 5_000, 2)
    for limit in (1.0, 10_000.0):
        verdict = verdict_of(latency_s, fresh, 0.99, limit)
        assert verdict.answer == "undecided"
        assert verdict.more >= 5_000
    assert verdict.mlperf.valid


def test_several_objectives_are_answered_each() -> None:
    true = latency_at("M/M/1", 0.6, 99.0)
    slos = [Slo(0.99, 2 * true), Slo(0.99, true / 2), Slo(0.5, 3 * true)]
    found = until(blocks("M/M/1", 0.6, 4), slos, 2**22)
    assert [one.answer for one in found.verdicts] == ["meets", "misses", "meets"]


def test_precision_goes_on_until_intervals_are_narrow() -> None:
    true = latency_at("M/M/1", 0.6, 99.0)
    found = until(blocks("M/M/1", 0.6, 4), [Slo(0.99, 2 * true)], 2**24, precision=0.03)
    (at,) = found.percentiles
    assert found.end == "answered"
    assert at.half_width <= 0.03
    assert at.low_s <= true <= at.high_s


def test_a_run_that_ends_by_itself_is_asked_once_more() -> None:
    latency_s, fresh = sojourns("M/D/1", 0.5, FIRST_LOOK + 5_000, 2)
    found = until([(latency_s, fresh)], [Slo(0.99, 1000.0)], 2**20)
    assert found.end == "answered"
    short = until([(latency_s[:100], fresh[:100])], [Slo(0.99, 1000.0)], 2**20)
    assert (short.end, short.requests) == ("ended", 100)


def test_how_blocks_are_cut_changes_nothing() -> None:
    latency_s, fresh = sojourns("M/M/1", 0.8, 200_000, 6)
    slos = [Slo(0.99, latency_at("M/M/1", 0.8, 99.0) * 1.3)]
    answers = Counter(
        until(
            [(latency_s[a : a + size], fresh[a : a + size]) for a in range(0, 200_000, size)],
            slos,
            150_000,
        )
        for size in (977, 20_000, 200_000)
    )
    assert len(answers) == 1


def test_looks_spend_no_more_than_is_allowed() -> None:
    spent = sum(1 - confidence_of_look(look) for look in range(1, 10_000))
    assert 0.0099 < spent < 0.01


def test_what_makes_no_sense_is_refused() -> None:
    run = [sojourns("M/D/1", 0.5, 100, 0)]
    with pytest.raises(InvalidInput, match="no objective"):
        until(run, [], 5)
    with pytest.raises(InvalidInput, match="budget is 0"):
        until(run, [Slo(0.9, 1.0)], 0)
    with pytest.raises(InvalidInput, match="precision is"):
        until(run, [Slo(0.9, 1.0)], 5, precision=0.0)
    with pytest.raises(InvalidInput, match="there is no request"):
        until([], [Slo(0.9, 1.0)], 5)
