"""Figures of the catalog whose source states what they follow from, held to their arithmetic."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from functools import cache

import pytest

from hetsim.hardware.catalog import device_names
from hetsim.hardware.spec import DeviceSpec
from loaded_devices import loaded_device

CLOCK = {"GHz": 1e9, "MHz": 1e6}
PARTS = {"half of": 0.5, "a quarter of": 0.25}
TYPES = "float32|float16|int8"
OTHER_TYPE = re.compile(rf"(half of|a quarter of|[\d.]+ x)(?: dense)? ({TYPES})\b")
BANDWIDTHS: tuple[tuple[re.Pattern[str], Callable[[float, float], float]], ...] = (
    # bytes a transfer and transfers a second
    (re.compile(r"(\d+) bit x (\d+) MT/s"), lambda bits, rate: bits / 8 * rate * 1e6),
    (re.compile(r"(\d+) channels of DDR\d-(\d+)"), lambda count, rate: count * 8 * rate * 1e6),
    (re.compile(r"LPDDR\dX?-(\d+), (\d+) bit"), lambda rate, bits: bits / 8 * rate * 1e6),
    (
        re.compile(r"LPDDR\dX? of ([\d.]+) MHz,? *,? (\d+) bit"),
        lambda mhz, bits: bits / 4 * mhz * 1e6,
    ),
)


def told(source: str) -> str:
    """A source without its remarks: what is in brackets, and what follows a semicolon or colon."""
    while "(" in source:
        shorter = re.sub(r"\s*\([^()]*\)", "", source)
        if shorter == source:
            break
        source = shorter
    return re.split(r"[;:]", source)[0].strip()


def product(term: str) -> float | None:
    """The product of factors like ``4 cores x 16 FLOP/cycle x 2.4 GHz``; None where it is none."""
    total, clocks = 1.0, 0
    for factor in term.split(" x "):
        number = re.match(r"([\d.]+)(?: (GHz|MHz))?(?=$|[ ,])", factor)
        if number is None:
            return None
        total *= float(number[1]) * CLOCK.get(number[2], 1.0)
        clocks += number[2] is not None
    return total if clocks == 1 and " x " in term else None


def peak(source: str) -> float | None:
    """What units, operations a cycle and clocks of a source make, in operations a second."""
    terms = [product(term) for term in told(source).split(" + ")]
    return None if None in terms else math.fsum(term for term in terms if term is not None)


def bandwidth(source: str) -> float | None:
    """What widths and rates of a source make, in bytes a second."""
    part = 0.5 if source.startswith("half of") else 1.0
    for pattern, made in BANDWIDTHS:
        if found := pattern.search(told(source)):
            return part * made(float(found[1]), float(found[2]))
    return None


@cache
def devices() -> dict[str, DeviceSpec]:
    return {name: loaded_device(name) for name in device_names()}


def stated(name: str) -> Iterator[tuple[str, str]]:
    """The peaks of a device by type, with their sources."""
    spec = devices()[name]
    for dtype in spec.flops_per_s:
        yield dtype, spec.provenance[f"flops_per_s.{dtype}"][1]


PEAKS = [
    (name, dtype, found)
    for name in devices()
    for dtype, source in stated(name)
    if (found := peak(source)) is not None
]
MULTIPLES = [
    (name, dtype, read[2], PARTS.get(read[1]) or float(read[1][:-2]))
    for name in devices()
    for dtype, source in stated(name)
    if (read := OTHER_TYPE.match(source)) is not None
]
MEMORIES = [
    (name, found)
    for name, spec in devices().items()
    if (found := bandwidth(spec.provenance["bytes_per_s"][1])) is not None
]


def test_many_figures_state_what_they_follow_from() -> None:
    assert len(PEAKS) >= 50
    assert len(MULTIPLES) >= 115
    assert len(MEMORIES) >= 45


@pytest.mark.parametrize(("name", "dtype", "rate"), PEAKS)
def test_peak_is_units_times_operations_times_clock(name: str, dtype: str, rate: float) -> None:
    assert devices()[name].flops_per_s[dtype] == pytest.approx(rate, rel=0.012)


@pytest.mark.parametrize(("name", "dtype", "other", "times"), MULTIPLES)
def test_peak_is_the_multiple_that_it_says(name: str, dtype: str, other: str, times: float) -> None:
    rates = devices()[name].flops_per_s
    assert rates[dtype] == pytest.approx(times * rates[other], rel=0.012)


@pytest.mark.parametrize(("name", "rate"), MEMORIES)
def test_bandwidth_is_width_times_rate(name: str, rate: float) -> None:
    assert devices()[name].bytes_per_s == pytest.approx(rate, rel=0.012)


@pytest.mark.parametrize(
    ("source", "rate"),
    [
        ("4 cores x 16 FLOP/cycle (two 128-bit FMA) x 2.4 GHz (a page)", 153.6e9),
        (
            "8 cores x 32 FLOP/cycle x 5.5 GHz + 16 E-cores x 16 x 4.3 GHz; clocks from memory",
            2.5088e12,
        ),
        ("12 units x 8 FLOP a cycle (4 lanes (of two)) x 960 MHz", 92.16e9),
        ("2 x float32", None),
        ("half of 170 with sparsity", None),
    ],
)
def test_arithmetic_is_read_off_a_source(source: str, rate: float | None) -> None:
    assert peak(source) == (None if rate is None else pytest.approx(rate))
