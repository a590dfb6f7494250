"""Cost models by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hetsim.base.plugins import asked, load_plugin, plugin_names
from hetsim.cost.fitted import Fitted
from hetsim.cost.hooks import GROUP as GROUP
from hetsim.cost.hooks import watched
from hetsim.cost.model import CostModel
from hetsim.cost.roofline import Roofline
from hetsim.errors import PluginError, UsageError, nearest

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
