"""Figures as text."""

from __future__ import annotations

import doctest

import pytest

from hetsim.reporting import formatting as text


def test_docstring_examples() -> None:
    assert doctest.testmod(text).failed == 0


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "-"), (1.0, "1.00x"), (12.34, "12.3x"), (123.4, "123x"), (float("inf"), "infx")],
)
def test_ratio(value: float | None, shown: str) -> None:
    assert text.ratio(value) == shown


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (None, "-"),
        (float("nan"), "-"),
        (0.0, "0 %"),
        (1e-17, "0 %"),
        (0.004, "0.4 %"),
        (0.0996, "10 %"),
        (1.0, "100 %"),
    ],
)
def test_percent(share: float | None, shown: str) -> None:
    assert text.percent(share) == shown


def test_signed_percent() -> None:
    assert text.percent(0.5, sign=True) == "+50 %"
    assert text.percent(-1e-16, sign=True) == "+0 %"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(None, "-"), (0.0, "0 s"), (-0.0, "0 s"), (0.0123, "+12.3 ms"), (-0.0123, "-12.3 ms")],
)
def test_difference(seconds: float | None, shown: str) -> None:
    assert text.difference_text(seconds) == shown


@pytest.mark.parametrize(
    ("energy", "shown"),
    [(0.0, "0 J"), (0.0123, "12.3 mJ"), (5.0, "5.00 J"), (4.2e3, "4.20 kJ"), (2e-6, "2.00 uJ"),
     (3e-9, "3.00 nJ")],
)  # fmt: skip
def test_joules(energy: float, shown: str) -> None:
    assert text.joules(energy) == shown


def test_rate_and_big() -> None:
    assert text.rate(1.23e12, "FLOP/s") == "1.23 TFLOP/s"
    assert text.rate(12.0, "B/s") == "12.0 B/s"
    assert [text.big(n) for n in (9_999, 10_000, 25_600_000, 2_000_000_000)] == [
        "9999", "10.0 k", "25.6 M", "2.00 G",
    ]  # fmt: skip
