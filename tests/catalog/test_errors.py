"""Errors of what was left out in two ways, and the widths that follow, by misses made by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from catalog.judging import LeftOut, error_of, widths
from catalog.likeness import Unseen
from catalog.points import Point, Series
from hetsim.hardware.kernel_figures import HALF_WIDTH
from sweeps import sweep

RANDOM = np.random.default_rng(0)
NETWORKS, CHIPS = 40, 30
OF_NETWORK = RANDOM.normal(0.0, 0.3, NETWORKS)
OF_DEVICE = RANDOM.normal(0.0, 0.3, (NETWORKS, CHIPS))
NOISE = 0.03


def misses(miss: Callable[[int, int], float], surer: float) -> list[Unseen]:
    return [
        Unseen(
            Series("test-int8", f"chip{chip}", "npu", "int8"),
            Point(f"net{network}.onnx", 1, 1e-3, 1, 1e-3, 1e-3, None),
            miss(network, chip),
            surer=surer,
        )
        for network in range(NETWORKS)
        for chip in range(CHIPS)
    ]


def pool(part: float) -> LeftOut:
    """Chips that miss networks alike by `part` of the variance, which kin that ran them know."""

    def own(network: int, chip: int) -> float:
        return math.sqrt(1 - part) * float(OF_DEVICE[network, chip])

    def whole(network: int, chip: int) -> float:
        return math.sqrt(part) * float(OF_NETWORK[network]) + own(network, chip)

    return LeftOut(misses(own, surer=0.05), misses(whole, surer=1.0))


@pytest.mark.parametrize("part", [0.0, 0.25, 0.5, 0.9])
def test_what_is_common_is_what_kin_that_ran_a_network_know_of_it(part: float) -> None:
    found = pool(part)
    error = error_of("1", found, found)
    assert error.sd == pytest.approx(0.3, rel=0.25)
    assert (error.common / error.sd) ** 2 == pytest.approx(part, abs=0.15)


def test_errors_are_told_of_both_ways_of_leaving_out() -> None:
    found = pool(0.9)
    error = error_of("1", found, found)
    for ones, median, p90 in (
        (found.of_device, error.median, error.p90),
        (found.of_kin, error.unseen_median, error.unseen_p90),
    ):
        relative = np.abs(np.expm1([one.total for one in ones]))
        assert (median, p90) == pytest.approx((np.median(relative), np.quantile(relative, 0.9)))


@sweep(
    "part, of_device",
    quick=[],
    full=product([0.0, 0.5, 0.9], [True, False]),
)
def test_intervals_cover_in_both_ways(part: float, of_device: bool) -> None:
    found = pool(part)
    wanted = {one.series for one in found.of_kin}
    inside = [
        abs(one.total) < HALF_WIDTH * sd
        for one, sd in widths(found, wanted, of_device, NOISE)
        if sd is not None
    ]
    assert len(inside) == NETWORKS * CHIPS
    assert 0.75 <= np.mean(inside) <= 0.88
