"""Strategies by name, and the contract of one: a problem in, a valid plan out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from hetsim.core.plugins import asked, load_plugin, misfit, plugin_names
from hetsim.errors import PluginError, UsageError, nearest
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem


class Strategy(Protocol):
    """A frozen dataclass whose fields are its options."""

    def solve(self, problem: Problem) -> Plan:
        """Return a valid plan, the same in every process."""
        ...


if TYPE_CHECKING:
    from hetsim.problem.plan import Plan
    from hetsim.problem.problem import Problem

_HOMES: Mapping[str, str] = {
    "single": "hetsim.placement.strategies.single:Single",
    "hetero": "hetsim.placement.strategies.hetero:Hetero",
    "pipeline": "hetsim.placement.strategies.pipeline:Pipeline",
    "multi": "hetsim.placement.strategies.multi:Multi",
    "heft": "hetsim.placement.strategies.heft:Heft",
    "cpop": "hetsim.placement.strategies.cpop:Cpop",
    "peft": "hetsim.placement.strategies.peft:Peft",
    "lookahead": "hetsim.placement.strategies.lookahead:Lookahead",
    "dls": "hetsim.placement.strategies.dls:Dls",
    "etf": "hetsim.placement.strategies.etf:Etf",
    "mincut": "hetsim.placement.strategies.mincut:Mincut",
    "chain-dp": "hetsim.placement.strategies.chain_dp:ChainDp",
    "ideal-dp": "hetsim.placement.strategies.ideal_dp:IdealDp",
    "slice": "hetsim.placement.strategies.slice:Slice",
    "local-search": "hetsim.placement.strategies.local_search:LocalSearch",
    "exact": "hetsim.placement.strategies.exact:Exact",
    "auto": "hetsim.placement.strategies.auto:Auto",
}
"""Module and class of each strategy of hetsim's own."""


GROUP = "hetsim.strategies"
OWN = tuple(_HOMES)
"""Names that no other package may claim."""


def strategy_names() -> tuple[str, ...]:
    """Return the names of strategies, sorted; those that cannot be used are left out.

    ``plugins.plugin_complaints`` says why they cannot.
    """
    found = set(_HOMES)
    for name in plugin_names(GROUP):
        with suppress(PluginError):
            strategy_class(name)
            found.add(name)
    return tuple(sorted(found))


def strategy_class(text: str) -> Any:
    """Return the class of the strategy that `text` names, with its argument or without.

    Raises UsageError for an unknown name, with the nearest one.
    """
    name = text.partition(":")[0]
    home = _HOMES.get(name)
    if home is not None:
        module, _, attribute = home.partition(":")
        return getattr(import_module(module), attribute)
    try:
        return _class_of_plugin(name)
    except KeyError:
        names = (*_HOMES, *plugin_names(GROUP))
        raise UsageError(f"no strategy '{name}'", hint=nearest(name, names)) from None


def _class_of_plugin(name: str) -> Any:
    """Return the class that another package adds. Raises PluginError where it is none."""
    found = load_plugin(GROUP, name)
    if not (is_dataclass(found) and callable(getattr(found, "solve", None))):
        raise PluginError(
            f"'{name}' of {GROUP} is {found!r}, not a dataclass with a method 'solve'"
        )
    return found


def resolve(text: str, options: Mapping[str, Any] | None = None) -> Strategy:
    """Return the strategy that `text` names, e.g. ``hetero:npu,cpu``, with `options` set.

    Raises
    ------
    UsageError
        For an unknown name or option, with the nearest one.
    """
    name, _, argument = text.partition(":")
    made = strategy_class(name)
    if hasattr(made, "parse"):
        strategy = _asked(name, "parse", lambda: made.parse(argument))
    elif argument:
        raise UsageError(f"strategy '{name}' takes no argument", hint=f"write {name}")
    else:
        strategy = _asked(name, "__init__", made)
    if options:
        known = {field.name for field in fields(strategy)}
        for option in options:
            if option not in known:
                raise UsageError(
                    f"strategy '{name}' has no option '{option}'", hint=nearest(option, known)
                )
        own = options
        strategy = _asked(name, "__init__", lambda: replace(strategy, **own))
    return strategy  # type: ignore[no-any-return]


def solved(text: str, strategy: Strategy, problem: Problem) -> Plan:
    """Return the plan that `strategy`, which `text` named, makes of `problem`.

    Raises
    ------
    PluginError
        Where the strategy is of another package, and gives no plan or raises no error of
        hetsim's.
    """
    from hetsim.problem.plan import Plan

    name = text.partition(":")[0]
    found = _asked(name, "solve", lambda: strategy.solve(problem))
    if name not in _HOMES and not isinstance(found, Plan):
        raise misfit(GROUP, name, "solve", found, "a Plan")
    made: Plan = found
    return made


def _asked(name: str, hook: str, call: Callable[[], Any]) -> Any:
    return call() if name in _HOMES else asked(GROUP, name, hook, call)
