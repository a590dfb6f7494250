"""Strategies by name, and the verb ``plan``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from importlib import import_module
from typing import Any

from hetsim.errors import UsageError, nearest
from hetsim.placement.strategy import Strategy
from hetsim.plans import Plan
from hetsim.problem import Problem


@dataclass(frozen=True, slots=True)
class StrategyInfo:
    """A strategy's name, one-line summary, how to write it, and where it lives."""

    name: str
    summary: str
    usage: str
    home: str


_STRATEGIES: Mapping[str, StrategyInfo] = {
    info.name: info
    for info in (
        StrategyInfo(
            "single",
            "the whole model on one device; without a name, on the one that is fastest alone",
            "single[:DEVICE]",
            "hetsim.placement.single:Single",
        ),
        StrategyInfo(
            "hetero",
            "each node on the first device of a priority list that supports it",
            "hetero[:DEVICE,DEVICE,...]",
            "hetsim.placement.hetero:Hetero",
        ),
        StrategyInfo(
            "heft",
            "list scheduling by upward rank, earliest finish time with insertion",
            "heft",
            "hetsim.placement.heft:Heft",
        ),
    )
}


def strategies() -> tuple[StrategyInfo, ...]:
    """List the strategies, by name."""
    return tuple(_STRATEGIES[name] for name in sorted(_STRATEGIES))


def resolve(text: str, options: Mapping[str, Any] | None = None) -> Strategy:
    """Return the strategy that `text` names, e.g. ``hetero:npu,cpu``, with `options` set.

    Raises
    ------
    UsageError
        For an unknown name or option, with the nearest one.
    """
    name, _, argument = text.partition(":")
    info = _STRATEGIES.get(name)
    if info is None:
        raise UsageError(f"no strategy '{name}'", hint=nearest(name, _STRATEGIES))
    module, _, attribute = info.home.partition(":")
    strategy = getattr(import_module(module), attribute).parse(argument)
    if options:
        known = {field.name for field in fields(strategy)}
        for option in options:
            if option not in known:
                raise UsageError(
                    f"strategy '{name}' has no option '{option}'", hint=nearest(option, known)
                )
        strategy = replace(strategy, **options)
    return strategy  # type: ignore[no-any-return]


def plan(problem: Problem, strategy: str = "heft", **options: Any) -> Plan:
    """Assign, group and order the nodes of `problem`.

    Parameters
    ----------
    problem : Problem
    strategy : str
        One of ``strategies()``, with its argument after a colon: ``"single:npu"``,
        ``"hetero:npu,gpu,cpu"``.
    **options
        Fields of the strategy's class.

    Raises
    ------
    UsageError
        For an unknown strategy, option or device.
    Infeasible
        Where the strategy finds no device for a node.
    """
    made = resolve(strategy, options).solve(problem)
    made.validate()
    if options:
        made = replace(made, options={key: str(value) for key, value in sorted(options.items())})
    return made
