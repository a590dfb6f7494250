"""What errors say is common to a kin, by misses made by hand."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from hetsim.fitting.errors import error_of
from hetsim.fitting.leaving_out import Unseen
from hetsim.fitting.points import Point, Series

RANDOM = np.random.default_rng(0)
NETWORKS, CHIPS = 40, 30
OF_NETWORK = RANDOM.normal(0.0, 0.3, NETWORKS)
OF_DEVICE = RANDOM.normal(0.0, 0.3, (NETWORKS, CHIPS))


def pool(miss: Callable[[int, int], float]) -> list[Unseen]:
    return [
        Unseen(
            Series("test-int8", f"chip{chip}", "npu", "int8"),
            Point(f"net{network}.onnx", 1, 1e-3, 1, 1e-3, 1e-3, None),
            miss(network, chip),
        )
        for network in range(NETWORKS)
        for chip in range(CHIPS)
    ]


@pytest.mark.parametrize("part", [0.0, 0.25, 0.5, 0.9])
def test_what_is_common_is_the_part_of_the_networks(part: float) -> None:
    def miss(network: int, chip: int) -> float:
        own = math.sqrt(1 - part) * OF_DEVICE[network, chip]
        return float(math.sqrt(part) * OF_NETWORK[network] + own)

    found = pool(miss)
    error = error_of("1", found, found)
    assert error.sd == pytest.approx(0.3, rel=0.25)
    assert (error.common / error.sd) ** 2 == pytest.approx(part, abs=0.15)


def test_what_all_devices_miss_alike_leaves_each_something_of_its_own() -> None:
    """An interval would be a point for a network that kin ran."""
    found = pool(lambda network, chip: float(OF_NETWORK[network]))
    error = error_of("1", found, found)
    assert math.sqrt(error.sd**2 - error.common**2) > 0.02


def test_one_device_alone_says_nothing_of_what_is_common() -> None:
    found = [one for one in pool(lambda network, chip: 0.2) if one.series.chip == "chip0"]
    error = error_of("1", found, found)
    assert error.common == pytest.approx(error.sd * math.sqrt(0.5))
