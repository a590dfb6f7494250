"""Objectives: two ways to say one thing, and what says none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.errors import HetsimError, WorkloadError
from hetsim.workload.workload import Slo, parse_slo


@pytest.mark.parametrize(
    ("text", "share", "latency_s"),
    [
        ("p99=50ms", 0.99, 0.05),
        ("P99<=50ms", 0.99, 0.05),
        ("p99.9 < 0.05 s", 0.999, 0.05),
        ("99.9%<=50ms", 0.999, 0.05),
        ("50 % < 2s", 0.5, 2.0),
        ("p50=100us", 0.5, 1e-4),
        ("p50=100µs", 0.5, 1e-4),
        ("p99.99=1e3ns", 0.9999, 1e-6),
    ],
)
def test_what_is_said_in_short(text: str, share: float, latency_s: float) -> None:
    assert parse_slo(text) == Slo(share, latency_s)


def test_a_percentile_and_a_share_on_time_are_one_objective() -> None:
    assert Slo.at_percentile(99.9, 0.05) == Slo(0.999, 0.05) == parse_slo("p99.9=50ms")
    assert Slo(0.999, 0.05).percentile == 99.9
    assert str(Slo(0.999, 0.05)) == "p99.9 <= 50.0 ms"


@given(st.integers(1, 99_999), st.integers(1, 10**6))
def test_what_is_read_is_what_was_written(permille: int, micros: int) -> None:
    percentile = permille / 1000
    slo = parse_slo(f"p{percentile}={micros}us")
    assert slo.percentile == percentile
    assert slo == parse_slo(f"{percentile}% <= {micros / 1000} ms")
    assert parse_slo(str(slo)).share == pytest.approx(slo.share, rel=1e-4)


@pytest.mark.parametrize(
    "text",
    [
        "", "p99", "99=50ms", "p99=50", "p99=50m", "p0=50ms", "p100=50ms", "p-1=50ms",
        "100%<=50ms", "0%<=50ms", "p99=0ms", "p99=-5ms", "p99=nanms", "pnan=5ms", "p99=1e999s",
        "p1e999=5ms", "99%=50ms", "mean=5ms", "p99=50ms p95=20ms", "p99=50MS", "p9e-400=5ms",
    ],
)  # fmt: skip
def test_what_says_no_objective_is_refused_in_one_line_with_what_to_write(text: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        parse_slo(text)
    assert caught.value.hint
    assert "\n" not in str(caught.value)


NAN = float("nan")


@pytest.mark.parametrize(
    ("share", "latency_s"),
    [(0, 1), (1, 1), (-0.5, 1), (NAN, 1), (0.5, 0), (0.5, -1), (0.5, float("inf")), ("a", 1)],
)  # fmt: skip
def test_records_refuse_it_too(share: float, latency_s: float) -> None:
    with pytest.raises(HetsimError):
        Slo(share, latency_s)
