"""Server rates from what else was measured of a system, and from the catalog alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from catalog.comparable import BULK_BATCH
from catalog.fidelity.points import FidelityPoint, Key, Predicted
from catalog.fidelity.server.arrivals_in_batches import Carried, Floats, best_carried
from catalog.fidelity.server.batch_times import OF_CHIPS, batch_times, shape_of
from catalog.fidelity.server.points import Alone, ServerPoint
from catalog.fidelity.server.systems import ServerSystem
from hetsim.cost.kernels.table import KernelTable

_Choose = Callable[[FidelityPoint], Predicted | None]


def predicted(
    systems: Iterable[ServerSystem],
    points: Sequence[FidelityPoint],
    tables: Mapping[str, KernelTable],
) -> list[ServerPoint]:
    """Return the systems with the rates that are predicted of them.

    `points` are those of the catalog's devices, predicted without having been seen; `tables` the
    kernels of networks by name. 0.1 s a system.
    """
    by_key = {point.key: point for point in points}
    return [_point(system, by_key, tables[system.network]) for system in systems]


def _point(
    system: ServerSystem, points: Mapping[Key, FidelityPoint], table: KernelTable
) -> ServerPoint:
    shape = shape_of(system, table)
    anchored, basis, no_shape = None, "", None
    if system.offline_per_s is not None:
        bulk_s = BULK_BATCH * system.devices / system.offline_per_s
        anchored = _carried(system, batch_times(shape, bulk_s, system.alone_s))
        no_shape = _carried(system, batch_times(None, bulk_s, None)).rate_per_s
        basis = _basis(system, shape)
    alone: dict[str, Alone | None] = {}
    for way, choose in _WAYS.items():
        seconds = _unseen(system, shape, points, choose, of_device=way == "left_out")
        alone[way] = None if seconds is None else _alone(system, seconds)
    return ServerPoint(
        system=system,
        basis=basis,
        anchored_per_s=anchored.rate_per_s if anchored else None,
        instances=anchored.instances if anchored else 0,
        batch=anchored.batch if anchored else 0,
        no_shape_per_s=no_shape,
        left_out=alone["left_out"],
        unseen=alone["unseen"],
        datasheet=alone["datasheet"],
    )


_WAYS: Mapping[str, _Choose] = {
    "left_out": lambda point: point.left_out,
    "unseen": lambda point: point.unseen,
    "datasheet": lambda point: point.datasheet,
}


def _basis(system: ServerSystem, shape: Floats | None) -> str:
    if system.alone_of:
        return system.alone_of
    if shape is None:
        return "rate"
    return "shape" if system.chip in OF_CHIPS else "near"


def _carried(system: ServerSystem, seconds: Floats) -> Carried:
    return best_carried(seconds, system.devices, system.limit_s)


def _alone(system: ServerSystem, seconds: Floats) -> Alone:
    bulk_per_s = system.devices * BULK_BATCH / float(seconds[BULK_BATCH])
    return Alone(_carried(system, seconds).rate_per_s, bulk_per_s)


def _unseen(
    system: ServerSystem,
    shape: Floats | None,
    points: Mapping[Key, FidelityPoint],
    choose: _Choose,
    of_device: bool,
) -> Floats | None:
    """Times by the catalog alone, none of them by figures that saw what they are told of.

    The shape through what was predicted, with the rows left out, of one sample and of bulk; as it
    is where the device has no rows of the network. None where the chip is not in the catalog,
    the network is another one, or nothing was predicted.
    """
    device = OF_CHIPS.get(system.chip)
    if device is None or shape is None or system.altered:
        return None
    found = {
        batch: points.get((device, system.precision, system.network, batch))
        for batch in (1, 8, BULK_BATCH)
    }
    if not any(found.values()):
        return batch_times(shape, None, None) if of_device else None
    told = {batch: choose(point) for batch, point in found.items() if point is not None}
    alone, bulk = told.get(1), told.get(BULK_BATCH)
    if alone is None and bulk is None:
        return None
    return batch_times(
        shape, None if bulk is None else bulk.seconds, None if alone is None else alone.seconds
    )
