"""What the kin of a device's figures say of a model."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from hetsim.cost.kernels.as_floats import as_floats
from hetsim.cost.kernels.likeness import Likeness
from hetsim.cost.kernels.table import KernelTable, network_table
from hetsim.errors import UnboundDimension
from hetsim.graph.graph import Graph
from hetsim.hardware.catalog import load_kin
from hetsim.hardware.kernel_figures import KernelFigures
from hetsim.hardware.kin import Likely

_KEPT = "kernel table"


def said_by_kin(graph: Graph, figures: KernelFigures, batch: int) -> Likely | None:
    """Return what the networks of the kin of `figures` say of `graph`.

    None where their file is not there, or shapes inside a node are open: it is not priced then.

    The network is told by its kernels as a device of the kin runs it whole, whatever part of it
    the device takes, and as if it were not quantized, as those of the kin are. `batch` is how many
    samples it takes at once.

    Raises
    ------
    PlatformError
        Where the kin's file is broken, or gone since the device was read.

    O(V + E) for the first kin that is asked of a graph, then O(kernels + networks^2).
    """
    if not figures.likeness:
        return None
    known = likeness_of(figures.kin, figures.likeness)
    try:
        table = _table(graph)
    except UnboundDimension:
        return None
    return known.of_table(table, batch, at=batch)


@lru_cache(maxsize=64)
def likeness_of(kin: str, sha256: str) -> Likeness:
    """Return what a kin's file says; `sha256` tells one edition of it from another."""
    return Likeness.of(load_kin(kin))


def _table(graph: Graph) -> KernelTable:
    known: Any = graph.kept.get(_KEPT)
    if known is None:
        known = graph.kept[_KEPT] = network_table(as_floats(graph))
    table: KernelTable = known
    return table
