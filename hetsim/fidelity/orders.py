"""Whether predictions put devices in the order in which they were measured."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass

from hetsim.fidelity.points import FidelityPoint

APART = 1.3
"""Times that two devices must be apart on a network for their order to count."""

Choose = Callable[[FidelityPoint], float | None]

_UNITS = ("cpu", "gpu", "npu", "igpu", "dla")


@dataclass(frozen=True, slots=True)
class Pairs:
    """How many pairs were measured apart, and how many of them are predicted in that order."""

    count: int
    right: int


@dataclass(frozen=True, slots=True)
class Best:
    """Of choices among devices: how many, how many took the best, and what they cost beyond it.

    Attributes
    ----------
    count, right : int
    regrets : tuple of float
        Of each choice: measured time of what was taken over that of the best, less 1; sorted.
    """

    count: int
    right: int
    regrets: tuple[float, ...]


def chip_of(device: str) -> str:
    """Return the chip that a device of the catalog is a unit of.

    >>> chip_of("rockchip-rk3588-npu"), chip_of("nvidia-t4")
    ('rockchip-rk3588', 'nvidia-t4')
    """
    chip, _, unit = device.rpartition("-")
    return chip if unit in _UNITS else device


def pairs(points: Iterable[FidelityPoint], predicted: Choose, of_a_chip: bool = False) -> Pairs:
    """Count pairs of devices on one network and batch; `of_a_chip`: units of one chip alone."""
    count = right = 0
    for found in _by_case(points, predicted, of_a_chip):
        for index, (one, one_s) in enumerate(found):
            for other, other_s in found[:index]:
                apart = math.log(one.measured_s / other.measured_s)
                if one.device != other.device and abs(apart) > math.log(APART):
                    count += 1
                    right += (one_s - other_s) * apart > 0
    return Pairs(count, right)


def best(points: Iterable[FidelityPoint], predicted: Choose, of_a_chip: bool) -> Best:
    """Take the device, or the unit of each chip, that is predicted fastest on each network.

    What is taken is a device in a precision; it is right where the measured best is of the same
    device. Cases with one device alone are no choice.
    """
    right, regrets = 0, []
    for found in _by_case(points, predicted, of_a_chip):
        if len({point.device for point, _ in found}) < 2:
            continue
        fastest = min(found, key=lambda each: (each[0].measured_s, each[0].key))[0]
        taken = min(found, key=lambda each: (each[1], each[0].key))[0]
        right += taken.device == fastest.device
        regrets.append(taken.measured_s / fastest.measured_s - 1)
    return Best(len(regrets), right, tuple(sorted(regrets)))


def _by_case(
    points: Iterable[FidelityPoint], predicted: Choose, of_a_chip: bool
) -> Iterator[list[tuple[FidelityPoint, float]]]:
    cases: defaultdict[Hashable, list[tuple[FidelityPoint, float]]] = defaultdict(list)
    for point in points:
        seconds = predicted(point)
        if seconds is not None:
            chip = chip_of(point.device) if of_a_chip else ""
            cases[point.network, point.batch, chip].append((point, seconds))
    yield from cases.values()
