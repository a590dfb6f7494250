"""Kernels of the measured networks, at the batches and in the precisions of points."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from catalog.graphs import Graphs
from catalog.precisions import ITEM_BYTES, WEIGHT_BYTES
from hetsim.cost.kernels.table import KernelTable, network_table
from hetsim.cost.kernels.totals import Networks


@dataclass(frozen=True, slots=True)
class Tables:
    """Kernel tables by graph; each is made when it is first asked for, in about 0.1 s."""

    graphs: Graphs
    _made: dict[str, KernelTable] = field(default_factory=dict)

    def table(self, file: str) -> KernelTable:
        """Return the kernels of the network of the file called `file`."""
        if file not in self._made:
            self._made[file] = network_table(self.graphs.load(file).graph)
        return self._made[file]

    def networks(self, points: Iterable[tuple[str, int, int, int]]) -> Networks:
        """Lay points end to end: each a file, a batch, bytes of an activation and of a weight."""
        return Networks.of(
            self.table(file).laid(batch, item_bytes, weight_bytes)
            for file, batch, item_bytes, weight_bytes in points
        )


def bytes_of(kin: str, precision: str, halves: bool = False) -> tuple[int, int]:
    """Return the bytes of an activation and of a weight in a kin's precision.

    Runtimes of ``float`` hold halves on graphics, and where processors can convert them (`halves`:
    those of Arm), whether they compute in them or in float32; float32 elsewhere.
    """
    if precision == "float" and (halves or "-gpu-" in kin):
        return 2, 2
    return ITEM_BYTES[precision], WEIGHT_BYTES[precision]


def kin_bytes(kin: str, precision: str) -> tuple[int, int]:
    """Return the same for what its networks are told apart by, on all devices alike."""
    return bytes_of(kin, precision, halves=True)
