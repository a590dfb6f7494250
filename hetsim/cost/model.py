"""Cost model interface: a kernel on a device in, an estimate out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from hetsim.graph.graph import Graph
from hetsim.graph.work import Work
from hetsim.hardware.kernel_figures import KernelFigures
from hetsim.hardware.kin import Likely
from hetsim.hardware.spec import DeviceSpec


@dataclass(frozen=True, slots=True)
class Kernel:
    """Work of one launch: one node, or several fused ones.

    Attributes
    ----------
    works : tuple of Work
        Work of the members, in graph order, without the bytes between them, which fusion keeps out
        of memory.
    """

    works: tuple[Work, ...]


@dataclass(frozen=True, slots=True)
class Estimate:
    """Predicted time of one kernel and its components.

    Attributes
    ----------
    seconds : float
        Total time, launch included.
    compute_s, memory_s, launch_s : float
        Components, which each model combines in its own way (a roofline takes the larger of the
        first two).
    provenance : str
        Model, and its assumptions for this kernel.
    """

    seconds: float
    compute_s: float
    memory_s: float
    launch_s: float
    provenance: str


class CostModel(Protocol):
    """Prices of kernels, deterministic and stateless."""

    def estimate(self, device: DeviceSpec, kernel: Kernel) -> Estimate:
        """Return the time of `kernel` on `device`."""
        ...


@runtime_checkable
class WholeModelCost(CostModel, Protocol):
    """Cost model that also sees all nodes of a graph that a device runs."""

    def of_works(self, works: Sequence[Work], likely: Likely | None = None) -> CostModel:
        """Return the cost model for a graph of which a device runs `works`.

        `likely` is the adjustment by the device family for the graph.
        """
        ...

    def figures(
        self, device: DeviceSpec, graph: Graph, works: Sequence[Work]
    ) -> KernelFigures | None:
        """Return the figures for most of a graph; None: those of the datasheet.

        Their dispatch is the cost of a subgraph, and their errors those of the prices.
        """
        ...

    def likely(self, graph: Graph, figures: KernelFigures | None, batch: int = 1) -> Likely | None:
        """Return the prediction for a graph with `batch` samples by the family of `figures`.

        None if the family cannot predict it.
        """
        ...
