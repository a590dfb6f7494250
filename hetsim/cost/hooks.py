"""What cost models of other packages are asked: what they raise or give amiss is told of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hetsim.base.plugins import asked, misfit
from hetsim.cost.model import CostModel, Estimate, Kernel, WholeModelCost
from hetsim.graph.graph import Graph
from hetsim.graph.work import Work
from hetsim.hardware.kernel_figures import KernelFigures
from hetsim.hardware.kin import Likely
from hetsim.hardware.spec import DeviceSpec

GROUP = "hetsim.cost_models"


def watched(model: CostModel, name: str) -> CostModel:
    """Return `model`, asked so that it raises no error but hetsim's and gives what it must.

    Parameters
    ----------
    model : CostModel
        Of another package.
    name : str
        What that package calls it.
    """
    if isinstance(model, WholeModelCost):
        return _Whole(model, name)
    return _Watched(model, name)


@dataclass(frozen=True)
class _Watched:
    """A cost model of another package."""

    model: Any
    name: str

    def estimate(self, device: DeviceSpec, kernel: Kernel) -> Estimate:
        """Return the time of `kernel` on `device`; see ``CostModel``."""
        found = self._asked("estimate", lambda: self.model.estimate(device, kernel))
        if not isinstance(found, Estimate):
            raise misfit(GROUP, self.name, "estimate", found, "an Estimate")
        for part in ("seconds", "compute_s", "memory_s", "launch_s"):
            seconds = getattr(found, part)
            number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
            if not number or not 0 <= seconds < math.inf:
                wanted = f"an Estimate whose {part} is a finite number from 0 on"
                raise misfit(GROUP, self.name, "estimate", found, wanted)
        return found

    def _asked(self, hook: str, call: Callable[[], Any]) -> Any:
        return asked(GROUP, self.name, hook, call)


class _Whole(_Watched):
    """A cost model of another package that looks at the whole of what a device takes."""

    def of_works(self, works: Sequence[Work], likely: Likely | None = None) -> CostModel:
        """Return what prices kernels of a graph; see ``WholeModelCost``."""
        found = self._asked("of_works", lambda: self.model.of_works(works, likely))
        if not callable(getattr(found, "estimate", None)):
            raise misfit(GROUP, self.name, "of_works", found, "a cost model")
        return _Watched(found, self.name)

    def figures(
        self, device: DeviceSpec, graph: Graph, works: Sequence[Work]
    ) -> KernelFigures | None:
        """Return the figures of most of a graph; see ``WholeModelCost``."""
        found = self._asked("figures", lambda: self.model.figures(device, graph, works))
        if found is not None and not isinstance(found, KernelFigures):
            raise misfit(GROUP, self.name, "figures", found, "None or KernelFigures")
        return found

    def likely(self, graph: Graph, figures: KernelFigures | None, batch: int = 1) -> Likely | None:
        """Return what kin say of a graph; see ``WholeModelCost``."""
        found = self._asked("likely", lambda: self.model.likely(graph, figures, batch))
        if found is not None and not isinstance(found, Likely):
            raise misfit(GROUP, self.name, "likely", found, "None or a Likely")
        return found
