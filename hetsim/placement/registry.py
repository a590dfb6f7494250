"""Strategies by name."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from importlib import import_module
from typing import Any

from hetsim.base.plugins import load_plugin, plugin_names
from hetsim.errors import PluginError, UsageError, nearest
from hetsim.placement.contract import Strategy


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
            "hetsim.placement.strategies.single:Single",
        ),
        StrategyInfo(
            "hetero",
            "each node on the first device of a priority list that supports it",
            "hetero[:DEVICE,DEVICE,...]",
            "hetsim.placement.strategies.hetero:Hetero",
        ),
        StrategyInfo(
            "pipeline",
            "stages from the front of the model, as large as each device's memory allows",
            "pipeline[:DEVICE,DEVICE,...]",
            "hetsim.placement.strategies.pipeline:Pipeline",
        ),
        StrategyInfo(
            "multi",
            "for throughput: the whole model on each of several devices, requests dealt out",
            "multi[:DEVICE,DEVICE,...]",
            "hetsim.placement.strategies.multi:Multi",
        ),
        StrategyInfo(
            "heft",
            "list scheduling by upward rank, earliest finish time with insertion",
            "heft",
            "hetsim.placement.strategies.heft:Heft",
        ),
        StrategyInfo(
            "cpop",
            "list scheduling with the critical path on one device",
            "cpop",
            "hetsim.placement.strategies.cpop:Cpop",
        ),
        StrategyInfo(
            "peft",
            "list scheduling with an optimistic look at the way out, for dear transfers",
            "peft",
            "hetsim.placement.strategies.peft:Peft",
        ),
        StrategyInfo(
            "lookahead",
            "list scheduling where a node's children would finish first, for dear transfers",
            "lookahead",
            "hetsim.placement.strategies.lookahead:Lookahead",
        ),
        StrategyInfo(
            "dls",
            "list scheduling by dynamic level: the best pair of ready node and device is next",
            "dls",
            "hetsim.placement.strategies.dls:Dls",
        ),
        StrategyInfo(
            "etf",
            "list scheduling by earliest end on a device with room: knows speed and memory",
            "etf",
            "hetsim.placement.strategies.etf:Etf",
        ),
        StrategyInfo(
            "mincut",
            "least total of compute and transfers, exact on two devices",
            "mincut",
            "hetsim.placement.strategies.mincut:Mincut",
        ),
        StrategyInfo(
            "chain-dp",
            "runs of a topological order, for latency or for throughput",
            "chain-dp[:latency|throughput]",
            "hetsim.placement.strategies.chain_dp:ChainDp",
        ),
        StrategyInfo(
            "ideal-dp",
            "for throughput: the least bottleneck of contiguous stages, exact up to a budget",
            "ideal-dp",
            "hetsim.placement.strategies.ideal_dp:IdealDp",
        ),
        StrategyInfo(
            "slice",
            "for throughput: stages cut from many topological orders, on graphs of any size",
            "slice",
            "hetsim.placement.strategies.slice:Slice",
        ),
        StrategyInfo(
            "local-search",
            "annealing from the best list schedule or device, for latency or throughput",
            "local-search",
            "hetsim.placement.strategies.local_search:LocalSearch",
        ),
        StrategyInfo(
            "exact",
            "the shortest makespan with a proof or the gap, up to about 50 tasks (extra 'exact')",
            "exact",
            "hetsim.placement.strategies.exact:Exact",
        ),
        StrategyInfo(
            "auto",
            "the best of all strategies and every device alone, by the clock",
            "auto",
            "hetsim.placement.strategies.auto:Auto",
        ),
    )
}


GROUP = "hetsim.strategies"
OWN = tuple(_STRATEGIES)
"""Names that no other package may claim."""


def strategies() -> tuple[StrategyInfo, ...]:
    """List the strategies, by name; those of other packages that cannot be used are left out.

    ``plugins.plugin_complaints`` says why they cannot.
    """
    listed = dict(_STRATEGIES)
    for name in plugin_names(GROUP):
        if name not in _STRATEGIES:
            with suppress(PluginError):
                listed[name] = _of_plugin(name)
    return tuple(listed[name] for name in sorted(listed))


def _of_plugin(name: str) -> StrategyInfo:
    made = _class_of_plugin(name)
    summary = (made.__doc__ or "").strip().partition("\n")[0] or "no summary"
    return StrategyInfo(name, summary, name, "")


def strategy_class(text: str) -> Any:
    """Return the class of the strategy that `text` names, with its argument or without.

    Raises UsageError for an unknown name, with the nearest one.
    """
    name = text.partition(":")[0]
    info = _STRATEGIES.get(name)
    if info is not None:
        module, _, attribute = info.home.partition(":")
        return getattr(import_module(module), attribute)
    try:
        return _class_of_plugin(name)
    except KeyError:
        names = (*_STRATEGIES, *plugin_names(GROUP))
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
        strategy = made.parse(argument)
    elif argument:
        raise UsageError(f"strategy '{name}' takes no argument", hint=f"write {name}")
    else:
        strategy = made()
    if options:
        known = {field.name for field in fields(strategy)}
        for option in options:
            if option not in known:
                raise UsageError(
                    f"strategy '{name}' has no option '{option}'", hint=nearest(option, known)
                )
        strategy = replace(strategy, **options)
    return strategy  # type: ignore[no-any-return]
