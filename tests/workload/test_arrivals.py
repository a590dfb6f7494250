"""Arrivals are the processes that they are called: distribution, mean, variation, correlation.

Seeds are fixed, so that a test that holds once always holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
import pytest
import scipy

from hetsim.errors import HetsimError
from hetsim.workload import arrivals as room
from hetsim.workload.arrivals import (
    TURNS,
    Burst,
    Closed,
    Constant,
    Gamma,
    Mmpp,
    Numbers,
    Open,
    Poisson,
)

SURE = 1e-3
"""Least p-value of a test of a distribution, at seeds that were not looked for."""

NUMBERS = Numbers(1, "chat")
BUSY = Mmpp((20.0, 300.0), (2.0, 0.5))
RING = Mmpp((5.0, 0.0, 80.0), (1.0, 0.3, 2.0))
SAMPLED: tuple[Open, ...] = (
    Constant(40.0),
    Poisson(40.0),
    Gamma(40.0, 0.5),
    Gamma(40.0, 3.0),
    BUSY,
    RING,
    Burst(40.0, 5),
    Burst(40.0, 5, "poisson"),
)


def times_of(arrivals: Open, count: int, numbers: Numbers = NUMBERS) -> np.ndarray[Any, Any]:
    found: list[np.ndarray[Any, Any]] = []
    for block in arrivals.blocks(numbers):
        found.append(block)
        if sum(map(len, found)) >= count:
            break
    return np.concatenate(found)[:count]


@pytest.mark.parametrize("arrivals", SAMPLED, ids=str)
def test_times_ascend_and_come_at_the_rate_they_state(arrivals: Open) -> None:
    times = times_of(arrivals, 200_000)
    assert times[0] >= 0
    assert np.all(np.diff(times) >= 0)
    assert len(times) / times[-1] == pytest.approx(arrivals.rate_per_s, rel=0.03)


@pytest.mark.parametrize("arrivals", SAMPLED, ids=str)
def test_the_same_seed_gives_the_same_bits_and_another_another(arrivals: Open) -> None:
    times = times_of(arrivals, 1000)
    assert np.array_equal(times, times_of(arrivals, 1000))
    other = times_of(arrivals, 1000, Numbers(2, "chat"))
    fixed = isinstance(arrivals, Constant) or arrivals == Burst(40.0, 5)
    assert np.array_equal(times, other) == fixed
    assert np.array_equal(times, times_of(arrivals, 1000, Numbers(1, "code"))) == fixed


@pytest.mark.parametrize("arrivals", SAMPLED, ids=str)
def test_times_do_not_depend_on_how_many_are_drawn_at_a_time(
    arrivals: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = times_of(arrivals, 3000)
    monkeypatch.setattr(room, "BLOCK", 7)
    assert np.array_equal(times_of(arrivals, 3000), whole)
    assert len(next(islice(arrivals.blocks(NUMBERS), 1))) <= 7 * getattr(arrivals, "size", 1)


@pytest.mark.parametrize("arrivals", SAMPLED, ids=str)
@pytest.mark.parametrize("factor", [0.25, 2.0, 64.0])
def test_faster_by_a_power_of_two_is_the_same_time_over_it_to_the_bit(
    arrivals: Open, factor: float
) -> None:
    times = times_of(arrivals, 20_000)
    assert np.array_equal(times_of(arrivals.faster(factor), 20_000), times / factor)
    assert arrivals.faster(factor).rate_per_s == pytest.approx(arrivals.rate_per_s * factor)


@pytest.mark.parametrize(
    "arrivals",
    [
        Constant(0),
        Poisson(0),
        Gamma(0, 2.0),
        Mmpp((0, 0), (1, 1)),
        Burst(0, 3),
        Burst(0, 3, "poisson"),
    ],
    ids=str,
)
def test_nothing_comes_at_a_rate_of_zero(arrivals: Open) -> None:
    assert list(arrivals.blocks(NUMBERS)) == []


def test_constant_times_are_rounded_once() -> None:
    times = times_of(Constant(3.0), 200_000)
    assert np.array_equal(times, np.arange(200_000) / 3.0)


def test_gaps_of_poisson_arrivals_are_exponential_and_independent() -> None:
    gaps = np.diff(times_of(Poisson(40.0), 200_001))
    assert scipy.stats.kstest(gaps, "expon", args=(0, 1 / 40.0)).pvalue > SURE
    assert gaps.std() / gaps.mean() == pytest.approx(1, abs=0.01)
    for lag in (1, 2, 10):
        assert abs(np.corrcoef(gaps[:-lag], gaps[lag:])[0, 1]) < 4 / np.sqrt(len(gaps))


@pytest.mark.parametrize("cv", [0.1, 0.5, 1.0, 3.0])
def test_gaps_of_gamma_arrivals_are_gamma_distributed_with_this_cv(cv: float) -> None:
    gaps = np.diff(times_of(Gamma(40.0, cv), 200_001))
    shape = 1 / cv**2
    # Differences of times lose what times of this size cannot hold.
    drawn = gaps[gaps > 1e-9]
    bound = scipy.stats.gamma(shape, scale=1 / 40.0 / shape)
    if cv < 3:
        assert scipy.stats.kstest(drawn, bound.cdf).pvalue > SURE
    for share in (0.1, 0.5, 0.9, 0.99):
        assert np.mean(gaps <= bound.ppf(share)) == pytest.approx(share, abs=0.005)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.03)
    assert abs(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]) < 4 / np.sqrt(len(gaps))


def matrices(process: Mmpp) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """D0 and D1 of the Markovian arrival process: changes without and with a request."""
    states = len(process.rates_per_s)
    generator = np.zeros((states, states))
    for at, sojourn in enumerate(process.sojourns_s):
        generator[at, at] -= 1 / sojourn
        generator[at, (at + 1) % states] += 1 / sojourn
    with_request = np.diag(process.rates_per_s)
    return generator - with_request, with_request


def gap_moments(process: Mmpp, lags: Sequence[int]) -> tuple[float, float, list[float]]:
    """Mean, cv and autocorrelations of the gaps: Fischer and Meier-Hellstern, section 2."""
    without, with_request = matrices(process)
    inverse = np.linalg.inv(-without)
    step = inverse @ with_request
    at_request = stationary(step - np.eye(len(step)))
    one = np.ones(len(step))
    mean = at_request @ inverse @ one
    variance = 2 * at_request @ inverse @ inverse @ one - mean**2
    correlations = [
        (at_request @ inverse @ np.linalg.matrix_power(step, lag) @ inverse @ one - mean**2)
        / variance
        for lag in lags
    ]
    return float(mean), float(np.sqrt(variance) / mean), [float(one) for one in correlations]


def stationary(generator: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    size = len(generator)
    system = np.vstack([generator.T, np.ones(size)])
    return np.linalg.lstsq(system, np.eye(size + 1)[-1], rcond=None)[0]


@pytest.mark.parametrize("process", [BUSY, RING], ids=str)
def test_gaps_of_an_mmpp_have_the_moments_and_correlations_of_its_matrices(process: Mmpp) -> None:
    gaps = np.diff(times_of(process, 2_000_001))
    lags = (1, 2, 5, 20)
    mean, cv, correlations = gap_moments(process, lags)
    assert mean == pytest.approx(1 / process.rate_per_s)
    assert gaps.mean() == pytest.approx(mean, rel=0.02)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.02)
    for lag, expected in zip(lags, correlations, strict=True):
        found = np.corrcoef(gaps[:-lag], gaps[lag:])[0, 1]
        assert found == pytest.approx(expected, abs=0.01)
    assert correlations[0] > 0.05


@pytest.mark.sweep
@pytest.mark.parametrize("process", [BUSY, RING], ids=str)
def test_an_mmpp_begins_as_it_is_after_a_long_time(process: Mmpp) -> None:
    firsts = [float(next(process.blocks(Numbers(seed, "a")))[0]) for seed in range(400)]
    without, _ = matrices(process)
    lasts = np.asarray(process.sojourns_s)
    begin = lasts / lasts.sum()

    def cdf(times: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.asarray([1 - (begin @ scipy.linalg.expm(without * t)).sum() for t in times])

    assert scipy.stats.kstest(firsts, cdf).pvalue > SURE


def test_counts_of_an_mmpp_are_dispersed_as_its_formula_says() -> None:
    times = times_of(BUSY, 2_000_000)
    window_s = 40.0
    counts = np.bincount((times / window_s).astype(int))[:-1]
    (fast, slow), (for_fast, for_slow) = BUSY.rates_per_s, BUSY.sojourns_s
    out, back = 1 / for_fast, 1 / for_slow
    total = out + back
    limit = 2 * (fast - slow) ** 2 * out * back / (total**2 * (fast * back + slow * out))
    expected = 1 + limit * (1 - (1 - np.exp(-total * window_s)) / (total * window_s))
    # The variance of so many windows is itself off by this share, one in three times.
    assert counts.var() / counts.mean() == pytest.approx(expected, rel=4 * np.sqrt(2 / len(counts)))


@pytest.mark.parametrize("spacing", ["constant", "poisson"])
def test_bursts_are_of_their_size_and_spaced_as_said(spacing: Any) -> None:
    times = times_of(Burst(40.0, 5, spacing), 100_000)
    each = times.reshape(-1, 5)
    assert np.all(each == each[:, :1])
    gaps = np.diff(each[:, 0])
    if spacing == "constant":
        assert gaps == pytest.approx(5 / 40.0)
    else:
        assert scipy.stats.kstest(gaps, "expon", args=(0, 5 / 40.0)).pvalue > SURE


def test_thinking_is_by_client_and_turn_alone() -> None:
    closed = Closed(40, 0.2, "exponential")
    later = closed.think_times_s(NUMBERS, 1)
    times = np.concatenate([closed.think_times_s(NUMBERS, 0), later])
    assert times.shape == (2 * TURNS, 40)
    assert np.array_equal(closed.think_times_s(NUMBERS, 1), later)
    assert scipy.stats.kstest(times.ravel(), "expon", args=(0, 0.2)).pvalue > SURE
    assert np.array_equal(Closed(40, 0.2).think_times_s(NUMBERS, 3), np.full((TURNS, 40), 0.2))


NAN = float("nan")


@pytest.mark.parametrize(
    "make",
    [
        lambda: Constant(-1.0),
        lambda: Constant("3"),  # type: ignore[arg-type]
        lambda: Constant(1e13),
        lambda: Poisson(-0.1),
        lambda: Gamma(1.0, 0.0),
        lambda: Gamma(1.0, 50.0),
        lambda: Mmpp((1.0,), (1.0,)),
        lambda: Mmpp((1.0, 2.0), (1.0,)),
        lambda: Mmpp((1.0, -2.0), (1.0, 1.0)),
        lambda: Mmpp((1.0, 2.0), (1e-9, 1e-9)),
        lambda: Mmpp("ab", "cd"),  # type: ignore[arg-type]
        lambda: Burst(1.0, 0),
        lambda: Burst(1.0, 2, "gamma"),  # type: ignore[arg-type]
        lambda: Closed(0),
        lambda: Closed(1, -1.0),
        lambda: Closed(1, 1.0, "gamma"),  # type: ignore[arg-type]
        lambda: Poisson(1.0).faster(0),
        lambda: Mmpp((1.0, 2.0), (1.0, NAN)),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any) -> None:
    with pytest.raises(HetsimError) as caught:
        make()
    assert caught.value.exit_code == 3
    assert "\n" not in str(caught.value)
