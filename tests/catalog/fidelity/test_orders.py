"""Orders of devices by hand: pairs, best devices, regret."""

from __future__ import annotations

import pytest

from catalog.fidelity.points import FidelityPoint
from catalog.fidelity.sections import chip_of, runs_of
from catalog.judging import Best, Pairs, best, pairs
from fidelity_builders import point


def seconds(one: FidelityPoint) -> float | None:
    return None if one.unseen is None else one.unseen.seconds


def in_order(points: list[FidelityPoint], of_a_chip: bool = False) -> Pairs:
    return pairs(runs_of(points, seconds, of_a_chip))


def taken(points: list[FidelityPoint], of_a_chip: bool) -> Best:
    return best(runs_of(points, seconds, of_a_chip))


CASE = [
    point("chip-cpu", 40, 30),
    point("chip-gpu", 20, 35),
    point("chip-npu", 10, 9),
    point("other-cpu", 22, 21),
    point("late", 5, None),
]


def test_pairs_apart_are_counted_and_those_in_order():
    # gpu and other-cpu are 1.1 times apart, which has no order; cpu and gpu are the wrong way.
    assert in_order(CASE) == Pairs(count=5, right=4)
    assert in_order(CASE, of_a_chip=True) == Pairs(count=3, right=2)


def test_other_networks_and_batches_are_other_cases():
    found = [point("a", 10, 30), point("b", 20, 20, batch=8), point("c", 20, 20, network="x")]
    assert in_order(found) == Pairs(0, 0)
    assert taken(found, of_a_chip=False).count == 0


def test_the_best_unit_may_be_taken_in_a_slower_precision():
    units = [
        point("chip-cpu", 12, 12),
        point("chip-npu", 10, 9, precision="int8"),
        point("chip-npu", 15, 8, precision="float16"),
    ]
    found = taken(units, of_a_chip=True)
    assert (found.count, found.right) == (1, 1)
    assert found.regrets == pytest.approx((0.5,))


def test_regret_is_what_the_choice_costs_beyond_the_best():
    found = taken([point("a", 10, 12), point("b", 13, 11)], of_a_chip=False)
    assert (found.count, found.right, found.regrets) == (1, 0, pytest.approx((0.3,)))
    assert taken([point("a", 10, 12)], of_a_chip=False).count == 0


def test_chips_by_the_names_of_their_units():
    assert chip_of("intel-core-ultra-155h-igpu") == chip_of("intel-core-ultra-155h-npu")
    assert chip_of("google-edge-tpu") == "google-edge-tpu"
