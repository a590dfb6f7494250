"""Cost models by name, those of other packages too, and the checks of these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hetsim.core.plugins import answered, asked, is_amount, load_plugin, plugin_names
from hetsim.cost.fitted import Fitted
from hetsim.cost.model import CostModel, Estimate, Kernel, WholeModelCost
from hetsim.cost.roofline import Roofline
from hetsim.errors import PluginError, UsageError, nearest
from hetsim.graph.graph import Graph
from hetsim.graph.work import Work
from hetsim.hardware.kernel_figures import KernelFigures
from hetsim.hardware.kin import Likely
from hetsim.hardware.spec import DeviceSpec

GROUP = "hetsim.cost_models"


def watched(model: CostModel, name: str) -> CostModel:
    """Return `model`, asked so that it raises no error but hetsim's and gives what it must."""
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
        found: Estimate = self._asked(
            "estimate", lambda: self.model.estimate(device, kernel), _of_estimate
        )
        return found

    def _asked(
        self, hook: str, call: Callable[[], Any], wanting: Callable[[Any], str | None]
    ) -> Any:
        return answered(GROUP, self.name, hook, call, wanting)


class _Whole(_Watched):
    """A cost model of another package that looks at the whole of what a device takes."""

    def of_works(self, works: Sequence[Work], likely: Likely | None = None) -> CostModel:
        """Return what prices kernels of a graph; see ``WholeModelCost``."""
        found = self._asked("of_works", lambda: self.model.of_works(works, likely), _of_works)
        return _Watched(found, self.name)

    def figures(
        self, device: DeviceSpec, graph: Graph, works: Sequence[Work]
    ) -> KernelFigures | None:
        """Return the figures of most of a graph; see ``WholeModelCost``."""
        found: KernelFigures | None = self._asked(
            "figures", lambda: self.model.figures(device, graph, works), _of_figures
        )
        return found

    def likely(self, graph: Graph, figures: KernelFigures | None, batch: int = 1) -> Likely | None:
        """Return what kin say of a graph; see ``WholeModelCost``."""
        found: Likely | None = self._asked(
            "likely", lambda: self.model.likely(graph, figures, batch), _of_likely
        )
        return found


def _of_estimate(given: Any) -> str | None:
    if not isinstance(given, Estimate):
        return "an Estimate"
    for part in ("seconds", "compute_s", "memory_s", "launch_s"):
        if not is_amount(getattr(given, part)):
            return f"an Estimate whose {part} is a finite number from 0 on"
    return None


def _of_works(given: Any) -> str | None:
    return None if callable(getattr(given, "estimate", None)) else "a cost model"


def _of_figures(given: Any) -> str | None:
    return None if given is None or isinstance(given, KernelFigures) else "None or KernelFigures"


def _of_likely(given: Any) -> str | None:
    return None if given is None or isinstance(given, Likely) else "None or a Likely"


_MODELS: Mapping[str, Callable[[], CostModel]] = {"fitted": Fitted, "roofline": Roofline}


def cost_models() -> tuple[str, ...]:
    """Names of the cost models, those of other packages among them, sorted."""
    return tuple(sorted({*_MODELS, *plugin_names(GROUP)}))


def cost_model(name: str) -> CostModel:
    """Return the cost model called `name`.

    Raises
    ------
    UsageError
        Where there is none, with the nearest name.
    PluginError
        Where another package adds it, and it cannot be used.
    """
    make = _MODELS.get(name)
    if make is not None:
        return make()
    try:
        found = load_plugin(GROUP, name)
    except KeyError:
        raise UsageError(f"no cost model '{name}'", hint=nearest(name, cost_models())) from None
    if not (isinstance(found, type) and callable(getattr(found, "estimate", None))):
        raise PluginError(f"'{name}' of {GROUP} is {found!r}, not a class with 'estimate'")
    made: CostModel = asked(GROUP, name, "__init__", found)
    return watched(made, name)
