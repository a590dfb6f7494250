"""Seconds of a batch by its size: the shape by a device's figures, its height by two anchors."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from catalog.comparable import BULK_BATCH
from catalog.fidelity.server.arrivals_in_batches import MOST
from catalog.fidelity.server.systems import ServerSystem
from catalog.fidelity.shipped import figures_of
from catalog.precisions import ITEM_BYTES
from hetsim.cost.kernels.kin import likeness_of
from hetsim.cost.kernels.table import KernelTable
from hetsim.cost.kernels.totals import Networks, log_total

Floats = NDArray[np.float64]

GRID = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, BULK_BATCH)
"""Sizes that are priced; others lie on lines between them. Bulk is what figures mean by 64: a
larger batch takes as long as so many of that size."""

OF_CHIPS: Mapping[str, str] = {
    "NVIDIA A100 SXM4 80 GB": "nvidia-a100-sxm4-80g",
    "NVIDIA A2": "nvidia-a2",
    "NVIDIA A30": "nvidia-a30",
    "NVIDIA H100 PCIe": "nvidia-h100-pcie-80g",
    "NVIDIA H100 SXM 80 GB": "nvidia-h100-sxm5-80g",
    "NVIDIA T4": "nvidia-t4",
    "Intel Xeon Platinum 8380": "intel-xeon-8380",
    "Intel Xeon Platinum 8480+": "intel-xeon-8480plus",
    "Intel Xeon Platinum 8592+": "intel-xeon-8592plus",
}
"""Devices of the catalog whose chips have Server results."""

NEAR: Mapping[str, str] = {
    "NVIDIA GH200": "nvidia-h200-sxm-141g",
    "INTEL XEON 6787P": "intel-xeon-8592plus",
    "INTEL XEON 6980P": "intel-xeon-8592plus",
    "Intel Xeon (code named Sapphire Rapids)": "intel-xeon-8480plus",
    "Intel Xeon Gold 6248R": "intel-xeon-8380",
    "Intel Xeon Gold 6258R": "intel-xeon-8380",
    "Intel Xeon Gold 6330": "intel-xeon-8380",
    "Intel Xeon Gold 8380H": "intel-xeon-8380",
    "Intel Xeon Platinum 8255C": "intel-xeon-8380",
    "Intel Xeon Platinum 8259CL": "intel-xeon-8380",
    "Intel Xeon Platinum 8280M": "intel-xeon-8380",
    "Intel Xeon Platinum 8352M": "intel-xeon-8380",
    "Intel Xeon Platinum 8360Y": "intel-xeon-8380",
    "Intel Xeon Platinum 8380H": "intel-xeon-8380",
    "Intel Xeon Platinum 9282": "intel-xeon-8380",
}
"""Of chips that are not in the catalog, the device whose times by batch are taken to have the same
shape: with the same units for such arithmetic, of its generation or the next."""

_IN_THE_PLACE_OF = {"bfloat16": "float32"}
"""Precisions that a device near lacks: vectors as wide, at another rate."""


def shape_of(system: ServerSystem, table: KernelTable) -> Floats | None:
    """Return seconds at the sizes of `GRID` on the device that stands for the system's.

    None where none of the catalog does.
    """
    device = OF_CHIPS.get(system.chip) or NEAR.get(system.chip)
    if device is None or not system.precision:
        return None
    precision = system.precision
    if figures_of(device, precision) is None:
        precision = _IN_THE_PLACE_OF.get(precision, precision)
    return _priced(device, precision, table)


def _priced(device: str, precision: str, table: KernelTable) -> Floats | None:
    """As ``shipped.with_shipped`` predicts points: the catalog's figures and what its kin say."""
    figures, each = figures_of(device, precision), ITEM_BYTES[precision]
    if figures is None:
        return None
    networks = Networks.of(table.laid(batch, each, each) for batch in GRID)
    of_all = np.zeros(len(GRID), dtype=np.int64)
    seconds = np.exp(log_total(np.log(np.array([figures.values])), networks, of_all))
    if figures.likeness:
        known = likeness_of(figures.kin, figures.likeness)
        io_s = networks.io_bytes / figures.value("io_gbytes_s")
        around = figures.dispatch_s + io_s
        likely = [known.of_table(table, batch).factor for batch in GRID]
        seconds = around + (seconds - around) * np.array(likely)
    priced: Floats = seconds
    return priced


def batch_times(shape: Floats | None, bulk_s: float | None, alone_s: float | None) -> Floats:
    """Return seconds of a batch of 0, 1, ... `MOST` samples: float array [MOST + 1].

    Parameters
    ----------
    shape : float array [len(GRID)] or None
        Seconds by the figures of a device; None: a line between the anchors.
    bulk_s, alone_s : float or None
        What a batch of 64 takes, and one sample; None: as the shape has it, next to the other.
        Where the shape is off by different factors at the two, sizes between are off by a mean of
        them, weighted by how much of bulk's gain a sample they have.

    A batch takes no less than a smaller one, and none up to bulk more than bulk. At least one of
    the shape and `bulk_s` is given.
    """
    sizes = np.array(GRID, dtype=np.float64)
    if shape is None:
        assert bulk_s is not None
        first = bulk_s / BULK_BATCH if alone_s is None else alone_s
        at = first + (bulk_s - first) * (sizes - 1) / (BULK_BATCH - 1)
    else:
        at = shape * np.exp(_off_by(shape, bulk_s, alone_s))
    at = np.minimum(np.maximum.accumulate(at), at[-1])
    all_sizes = np.arange(MOST + 1, dtype=np.float64)
    seconds = np.interp(all_sizes, np.append(0.0, sizes), np.append(0.0, at))
    beyond = all_sizes > BULK_BATCH
    seconds[beyond] = at[-1] * all_sizes[beyond] / BULK_BATCH
    taken: Floats = seconds
    return taken


def _off_by(shape: Floats, bulk_s: float | None, alone_s: float | None) -> Floats | float:
    """Logarithms of what is measured over the shape, by size."""
    bulk = None if bulk_s is None else math.log(bulk_s / shape[-1])
    alone = None if alone_s is None else math.log(alone_s / shape[0])
    if bulk is None or alone is None:
        return bulk or alone or 0.0
    each = np.log(shape / np.array(GRID))
    gained = each[0] - each[-1]
    share = np.clip((each - each[-1]) / gained, 0, 1) if gained > 0 else np.zeros(len(GRID))
    share[0], share[-1] = 1.0, 0.0
    off: Floats = share * alone + (1 - share) * bulk
    return off
