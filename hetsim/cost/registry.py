"""Cost models by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hetsim.cost.model import CostModel
from hetsim.cost.roofline import Roofline
from hetsim.errors import UsageError, nearest

_MODELS: Mapping[str, Callable[[], CostModel]] = {"roofline": Roofline}


def cost_model(name: str) -> CostModel:
    """Return the cost model called `name`. Raises UsageError with the nearest name."""
    make = _MODELS.get(name)
    if make is None:
        raise UsageError(f"no cost model '{name}'", hint=nearest(name, _MODELS))
    return make()
