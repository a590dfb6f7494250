"""Means with intervals: what they are made of, and where there is none."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import scipy

from hetsim.errors import InvalidInput
from hetsim.statistics.batches import BATCHES, freedom_of, interval_reach, skewness_of
from hetsim.statistics.intervals import mean_of
from queues import sojourns


def test_the_error_is_that_of_batches_and_the_bend_that_of_busy_periods() -> None:
    latency_s, fresh = sojourns("M/M/1", 0.8, 100_000, 7)
    gaps = np.random.default_rng(3).standard_exponential(100_000)
    found = mean_of(latency_s, fresh, gaps)
    begins = np.flatnonzero(fresh)
    wanted = [batch * 100_000 // BATCHES for batch in range(1, BATCHES)]
    cuts = [0, *(int(begins[begins >= place][0]) for place in wanted), 100_000]
    rest = latency_s - found.estimate * gaps
    sums = np.array([rest[a:b].sum() for a, b in pairwise(cuts)])
    error = math.sqrt(BATCHES * sums.var(ddof=1)) / gaps.sum()
    each = np.array([rest[a:b].sum() for a, b in pairwise([*begins, 100_000])])
    skewness = (each**3).sum() / (each**2).sum() ** 1.5
    assert skewness_of(each) == pytest.approx(skewness)
    reach = scipy.stats.t.ppf(0.975, freedom_of(BATCHES - 1, each))
    assert found.estimate == pytest.approx(latency_s.sum() / gaps.sum())
    for end, wanted_reach in ((found.low, reach), (found.high, -reach)):
        off = (found.estimate - end) / error
        cubic = off + skewness / 3 * off**2 + skewness**2 / 27 * off**3 + skewness / 6
        assert cubic == pytest.approx(wanted_reach, rel=1e-2)


@pytest.mark.parametrize("skewness", [-0.4, 0.0, 0.1, 1.0])
def test_without_a_bend_the_reach_is_students(skewness: float) -> None:
    below, above = interval_reach(20.0, 0.95, skewness, skewness)
    assert (above > below) == (skewness > 0)
    if skewness == 0:
        assert below == above == pytest.approx(scipy.stats.t.ppf(0.975, 20))


def test_a_mean_without_an_end() -> None:
    latency_s = np.arange(1000, dtype=np.float64)
    busy = mean_of(latency_s, latency_s == 0)
    assert (busy.estimate, busy.low, busy.high) == (499.5, -math.inf, math.inf)
    nothing = mean_of(np.ones(3), np.ones(3, dtype=bool), np.zeros(3))
    assert math.isnan(nothing.estimate)
    assert not busy.enough
    assert not nothing.enough


def test_what_is_never_negative_has_no_negative_mean() -> None:
    rng = np.random.default_rng(0)
    values, fresh = np.ones(300), np.ones(300, dtype=bool)
    gaps = np.where(rng.random(300) < 0.01, 1.0, 1e-3)
    rate = mean_of(values, fresh, gaps)
    assert rate.low == 0.0 < rate.estimate < rate.high
    assert -math.inf < mean_of(np.append(values[1:], -1e-9), fresh, gaps).low < 0


def test_what_does_not_vary_is_sure() -> None:
    found = mean_of(np.full(1000, 0.25), np.ones(1000, dtype=bool))
    assert (found.low, found.estimate, found.high) == (0.25, 0.25, 0.25)
    assert found.enough
    assert found.half_width == 0


def test_few_busy_periods_are_not_enough() -> None:
    latency_s, fresh = sojourns("M/M/1", 0.95, 5_000, 1)
    assert not mean_of(latency_s, fresh).enough


def test_arrays_that_do_not_fit() -> None:
    with pytest.raises(InvalidInput, match="must be two arrays of one length"):
        mean_of(np.ones(3), np.ones(2, dtype=bool))
