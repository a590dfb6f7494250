"""Intervals hold the truth as often as they say."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from hetsim.errors import InvalidInput
from hetsim.statistics.batches import BATCHES, ENOUGH_LATE, late_share
from hetsim.statistics.intervals import EQUAL_FROM, Percentile, percentile_of
from hetsim.statistics.verdict import verdict_of
from queues import Kind, latency_at, sojourns
from sweeps import sweep


def long_enough(kind: Kind, load: float, seed: int) -> Percentile:
    requests = 2**14
    while True:
        found = percentile_of(*sojourns(kind, load, requests, seed), 99.0)
        if found.enough:
            return found
        requests *= 2


def covered(kind: Kind, load: float, seeds: int) -> float:
    true = latency_at(kind, load, 99.0)
    found = [long_enough(kind, load, seed) for seed in range(seeds)]
    return float(np.mean([one.low_s <= true <= one.high_s for one in found]))


LOADS = tuple(product(("M/D/1", "M/M/1"), (0.5, 0.8, 0.95)))


@pytest.mark.slow
@sweep("kind, load", quick=[LOADS[3]], full=LOADS)
def test_intervals_of_95_percent_hold_the_true_p99_in_93_to_97_of_100(
    kind: Kind, load: float
) -> None:
    assert 0.93 <= covered(kind, load, 400) <= 0.97


@pytest.mark.sweep
@pytest.mark.parametrize(("kind", "load"), [("M/D/1", 0.5), ("M/M/1", 0.8)])
def test_the_share_that_is_late_is_held_as_often(kind: Kind, load: float) -> None:
    limit = latency_at(kind, load, 98.0)
    held = 0
    for seed in range(200):
        latency_s, fresh = sojourns(kind, load, 2**17, seed)
        late = late_share(latency_s > limit, fresh)
        assert late.late_periods >= ENOUGH_LATE
        held += bool(abs(late.share - 0.02) <= late.half_width(0.95))
    assert 0.92 <= held / 200 <= 0.98


def test_batches_are_whole_busy_periods_and_their_error_is_that_of_their_sums() -> None:
    latency_s, fresh = sojourns("M/M/1", 0.8, 100_000, 7)
    late = latency_s > 15.0
    found = late_share(late, fresh)
    begins = np.flatnonzero(fresh)
    wanted = [batch * 100_000 // BATCHES for batch in range(1, BATCHES)]
    cuts = [0, *(int(begins[begins >= place][0]) for place in wanted), 100_000]
    parts = [late[a:b] for a, b in pairwise(cuts)]
    share = late.mean()
    deviations = np.asarray([part.sum() - share * len(part) for part in parts])
    error = np.sqrt(BATCHES * deviations.var(ddof=1)) / 100_000
    assert found.share == share
    assert found.error == pytest.approx(error, rel=0.01)
    periods = np.cumsum(fresh)
    assert found.late_periods == len(set(periods[late].tolist()))
    assert found.late == late.sum()


def test_short_runs_say_that_they_are() -> None:
    latency_s, fresh = sojourns("M/M/1", 0.95, 5_000, 1)
    found = percentile_of(latency_s, fresh, 99.0)
    assert found.late.late_periods < ENOUGH_LATE
    assert not found.enough
    one = percentile_of(np.ones(1), np.ones(1, dtype=bool), 99.0)
    assert (one.estimate_s, one.high_s, one.enough) == (1.0, math.inf, False)


def test_a_run_that_is_never_idle_has_no_interval() -> None:
    latency_s = np.arange(100_000, dtype=np.float64)
    found = percentile_of(latency_s, latency_s == 0, 99.0)
    assert not found.enough
    assert (found.low_s, found.high_s) == (0.0, math.inf)


def test_batches_that_are_alike_are_not_trusted() -> None:
    """The load drifts: its busy periods are many, and no two batches of them are independent."""
    rng = np.random.default_rng(0)
    slow = np.repeat([0, 1], 50_000)
    latency_s = 1 + slow * rng.standard_exponential(100_000)
    found = percentile_of(latency_s, np.ones(100_000, dtype=bool), 90.0)
    assert found.late.late_periods > ENOUGH_LATE
    assert not found.enough


def test_latencies_that_are_all_equal_are_sure_once_they_are_many() -> None:
    for count, enough in ((EQUAL_FROM * 100 - 1, False), (EQUAL_FROM * 100 + 100, True)):
        found = percentile_of(np.full(count, 0.25), np.ones(count, dtype=bool), 99.0)
        assert found.enough == enough
        assert (found.low_s, found.estimate_s) == (0.25, 0.25) or not enough
    assert found.high_s == 0.25


def clusters(seed: int, requests: int, share: float, length: int) -> tuple[Any, Any]:
    """Requests that take 1 s, and so many at a time that take 2."""
    begins = np.random.default_rng(seed).random(requests) < share / length
    late, fresh = begins.copy(), np.ones(requests, dtype=bool)
    for behind in range(1, length):
        late[behind:] |= begins[:-behind]
        fresh[behind:] &= ~begins[:-behind]
    fresh[0] = True
    return np.where(late, 2.0, 1.0), fresh


@sweep(
    "requests, length, share",
    quick=[(2000, 20, 0.0105)],
    full=[(n, c, s) for n in (2000, 32768) for c in (1, 4, 20) for s in (0.0105, 0.012, 0.015)],
)
def test_rare_late_ones_that_come_together_do_not_meet(
    requests: int, length: int, share: float
) -> None:
    """A run that saw few or none of them says nothing, or what is so, in 99 of 100 cases."""
    told = Counter(
        verdict_of(*clusters(seed, requests, share, length), 0.99, 1.0).answer
        for seed in range(400)
    )
    assert told["meets"] <= 4


@pytest.mark.parametrize("share", [0.0, 1e-4, 0.003])
def test_many_equal_ones_meet_though_few_or_none_are_later(share: float) -> None:
    for seed in range(5):
        assert verdict_of(*clusters(seed, 50_000, share, 1), 0.99, 1.0).answer == "meets"
        assert verdict_of(*clusters(seed, 50_000, share, 1), 0.99, 0.5).answer == "misses"


def test_all_that_are_late_miss_however_few_there_are() -> None:
    assert verdict_of(np.full(60, 2.0), np.ones(60, dtype=bool), 0.99, 1.0).answer == "misses"
    assert verdict_of(np.full(60, 2.0), np.ones(60, dtype=bool), 0.99, 3.0).answer == "undecided"


def test_times_scale_to_the_bit() -> None:
    latency_s, fresh = sojourns("M/M/1", 0.8, 100_000, 7)
    found, other = (percentile_of(x, fresh, 99.0) for x in (latency_s, latency_s / 1024))
    assert (other.low_s, other.high_s) == (found.low_s / 1024, found.high_s / 1024)
    assert other.late == found.late


@pytest.mark.parametrize("percentile", [0, 100, -1, math.nan, 101])
def test_no_percentile(percentile: float) -> None:
    with pytest.raises(InvalidInput, match="percentile is"):
        percentile_of(np.ones(3), np.ones(3, dtype=bool), percentile)
    with pytest.raises(InvalidInput, match="must be two arrays of one length"):
        percentile_of(np.ones(3), np.ones(2, dtype=bool), 99.0)
    with pytest.raises(InvalidInput, match="no request"):
        percentile_of(np.ones(0), np.ones(0, dtype=bool), 99.0)


def test_how_long_a_run_must_be_is_guessed_from_how_narrow_its_interval_is() -> None:
    latency_s, fresh = sojourns("M/M/1", 0.5, 2**17, 3)
    found = percentile_of(latency_s, fresh, 99.0)
    assert found.enough
    half = found.half_width
    assert found.requests_for(half / 1.2) == math.ceil(2**17 * 1.05 * 1.2**2)
    assert found.requests_for(half / 2) == 2**18
    assert found.requests_for(half) == math.ceil(2**17 * 1.1)
    short = percentile_of(latency_s[:200], fresh[:200], 99.0)
    assert short.requests_for(half) == 400
