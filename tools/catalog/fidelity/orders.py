"""Devices of the catalog, and units of its chips, as what one chooses among."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from catalog.fidelity.points import FidelityPoint
from catalog.orders import Run

Choose = Callable[[FidelityPoint], float | None]

_UNITS = ("cpu", "gpu", "npu", "igpu", "dla")


def chip_of(device: str) -> str:
    """Return the chip that a device of the catalog is a unit of.

    >>> chip_of("rockchip-rk3588-npu"), chip_of("nvidia-t4")
    ('rockchip-rk3588', 'nvidia-t4')
    """
    name = device.partition(":")[0]
    chip, _, unit = name.rpartition("-")
    return chip if unit in _UNITS else name


def runs_of(points: Iterable[FidelityPoint], predicted: Choose, of_a_chip: bool) -> list[Run]:
    """Return what can be chosen among on each network and batch; `of_a_chip`: its units alone.

    A run is a device in a precision, by the seconds that `predicted` gives; None: not among them.
    """
    return [
        Run(
            case=(point.network, point.batch, chip_of(point.device) if of_a_chip else ""),
            name=point.device,
            setting=point.precision,
            measured_s=point.measured_s,
            predicted_s=seconds,
        )
        for point in points
        if (seconds := predicted(point)) is not None
    ]
