"""Cost models by name, including other packages', with checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hetsim.core.plugins import asked, checked_answer, is_amount, load_plugin, plugin_names
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
    """Return `model` with checked results that raises only hetsim's errors."""
    if isinstance(model, WholeModelCost):
        return _Whole(model, name)
    return _Watched(model, name)


@dataclass(frozen=True)
class _Watched:
    """Cost model of another package, with the results of each hook checked."""

    model: Any
    name: str

    def estimate(self, device: DeviceSpec, kernel: Kernel) -> Estimate:
        def wanting(given: Any) -> str | None:
            if not isinstance(given, Estimate):
                return "an Estimate"
            for part in ("seconds", "compute_s", "memory_s", "launch_s"):
                if not is_amount(getattr(given, part)):
                    return f"an Estimate whose {part} is a finite number from 0 on"
            return None

        found: Estimate = self._asked("estimate", wanting, device, kernel)
        return found

    def _asked(self, hook: str, wanting: Callable[[Any], str | None], *given: Any) -> Any:
        call = getattr(self.model, hook)
        return checked_answer(GROUP, self.name, hook, lambda: call(*given), wanting)


class _Whole(_Watched):
    """Cost model of another package that considers whole graphs."""

    def of_works(self, works: Sequence[Work], likely: Likely | None = None) -> CostModel:
        def wanting(given: Any) -> str | None:
            return None if callable(getattr(given, "estimate", None)) else "a cost model"

        return _Watched(self._asked("of_works", wanting, works, likely), self.name)

    def figures(
        self, device: DeviceSpec, graph: Graph, works: Sequence[Work]
    ) -> KernelFigures | None:
        def wanting(given: Any) -> str | None:
            fits = given is None or isinstance(given, KernelFigures)
            return None if fits else "None or KernelFigures"

        found: KernelFigures | None = self._asked("figures", wanting, device, graph, works)
        return found

    def likely(self, graph: Graph, figures: KernelFigures | None, batch: int = 1) -> Likely | None:
        def wanting(given: Any) -> str | None:
            return None if given is None or isinstance(given, Likely) else "None or a Likely"

        found: Likely | None = self._asked("likely", wanting, graph, figures, batch)
        return found


_MODELS: Mapping[str, Callable[[], CostModel]] = {"fitted": Fitted, "roofline": Roofline}


def cost_models() -> tuple[str, ...]:
    """Return the sorted names of cost models, including other packages'."""
    return tuple(sorted({*_MODELS, *plugin_names(GROUP)}))


def cost_model(name: str) -> CostModel:
    """Return the cost model with the given name.

    Raises UsageError for an unknown name, with the nearest; PluginError if another package's model
    cannot be used.
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
