"""Strategies by name, with their options and summaries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any, Protocol

from hetsim.core.plugins import (
    Entry,
    Option,
    asked,
    kind_in_words,
    load_plugin,
    meanings,
    misfit,
    plugin_names,
    plugin_owner,
)
from hetsim.errors import PluginError, UsageError, nearest
from hetsim.placement.constraints import NAMES, checked, field_types, read
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem


class Strategy(Protocol):
    """A frozen dataclass whose fields are its options."""

    def solve(self, problem: Problem) -> Plan:
        """Return a valid plan, the same in every process."""
        ...


_LATENCY, _BOTH = ("latency",), ("latency", "throughput")
_ROOM = "hetsim.placement.strategies"

_OWN: Mapping[str, tuple[str, str, str, tuple[str, ...]]] = {
    "single": (
        "baselines:Single",
        "[:DEVICE]",
        "the whole model on one device: the named one, or the fastest",
        _LATENCY,
    ),
    "hetero": (
        "baselines:Hetero",
        "[:DEVICE,DEVICE,...]",
        "each node on the first device of a priority list that supports it",
        (),
    ),
    "pipeline": (
        "baselines:Pipeline",
        "[:DEVICE,DEVICE,...]",
        "stages from the front of the model, each as large as its device's memory allows",
        (),
    ),
    "multi": (
        "baselines:Multi",
        "[:DEVICE,DEVICE,...]",
        "for throughput: a replica of the whole model on each of several devices",
        ("throughput", "replicas"),
    ),
    "heft": (
        "list_scheduling:Heft",
        "",
        "list scheduling by upward rank: earliest finish time with insertion",
        _LATENCY,
    ),
    "cpop": (
        "list_scheduling:Cpop",
        "",
        "list scheduling with the critical path on one device",
        _LATENCY,
    ),
    "peft": (
        "list_scheduling:Peft",
        "",
        "list scheduling with an optimistic cost table, for expensive transfers",
        _LATENCY,
    ),
    "lookahead": (
        "list_scheduling:Lookahead",
        "",
        "list scheduling by the earliest finish of a node's children, for expensive transfers",
        _LATENCY,
    ),
    "dls": (
        "list_scheduling:Dls",
        "",
        "list scheduling by dynamic level: the best pair of ready node and device comes next",
        _LATENCY,
    ),
    "etf": (
        "list_scheduling:Etf",
        "",
        "list scheduling by earliest end on a device with free memory",
        _LATENCY,
    ),
    "mincut": (
        "cuts:Mincut",
        "",
        "least sum of compute and transfer times by minimum cut; exact on two devices",
        _LATENCY,
    ),
    "chain-dp": (
        "cuts:ChainDp",
        "[:latency|throughput]",
        "cuts of a topological order into runs, for latency or throughput",
        _BOTH,
    ),
    "ideal-dp": (
        "ideal_dp:IdealDp",
        "",
        "for throughput: least bottleneck of contiguous stages, exact within a budget",
        ("throughput", "proof"),
    ),
    "slice": (
        "cuts:Slice",
        "",
        "for throughput: stages cut from many topological orders, for graphs of any size",
        ("throughput",),
    ),
    "local-search": (
        "local_search:LocalSearch",
        "",
        "simulated annealing from the best list schedule or device, for latency or throughput",
        _BOTH,
    ),
    "exact": (
        "exact:Exact",
        "",
        "shortest makespan with a proof or optimality gap, up to about 50 tasks (extra 'exact')",
        ("latency", "proof"),
    ),
    "auto": (
        "auto:Auto",
        "",
        "the best plan of all strategies and of every device alone, as simulated",
        (*_BOTH, "replicas"),
    ),
}
"""Strategies of hetsim's own: class, what follows the name, summary, promises."""

_NEEDS: Mapping[str, tuple[str, ...]] = {
    "pipeline": ("memory capacities of the devices",),
    "exact": ("OR-tools: pip install 'hetsim[exact]'",),
}


GROUP = "hetsim.strategies"
OWN = tuple(_OWN)
"""Names that no other package may claim."""


def strategy_names() -> tuple[str, ...]:
    """Return the names of strategies, sorted, without broken ones."""
    found = set(OWN)
    for name in plugin_names(GROUP):
        with suppress(PluginError):
            strategy_class(name)
            found.add(name)
    return tuple(sorted(found))


def strategy_class(text: str) -> Any:
    """Return the class of the strategy that `text` names, with or without its argument."""
    name = text.partition(":")[0]
    if name in OWN:
        module, _, attribute = _OWN[name][0].partition(":")
        return getattr(import_module(f"{_ROOM}.{module}"), attribute)
    try:
        found = load_plugin(GROUP, name)
    except KeyError:
        names = (*OWN, *plugin_names(GROUP))
        raise UsageError(f"no strategy '{name}'", hint=nearest(name, names)) from None
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
    """Return the plan of `problem` by `strategy`, which `text` named."""
    name = text.partition(":")[0]
    found = _asked(name, "solve", lambda: strategy.solve(problem))
    if name not in OWN and not isinstance(found, Plan):
        raise misfit(GROUP, name, "solve", found, "a Plan")
    made: Plan = found
    return made


def _asked(name: str, hook: str, call: Callable[[], Any]) -> Any:
    return call() if name in OWN else asked(GROUP, name, hook, call)


def option_types(strategy: str) -> dict[str, Any]:
    """Return the type of each option of a strategy, by name."""
    made = strategy_class(strategy)
    try:
        return field_types(made)
    except NameError as error:
        raise PluginError(f"strategy '{strategy}' has a broken annotation: {error}") from error


def describe_options(strategy: str) -> tuple[Option, ...]:
    """Return the options of a strategy, those of its own first. Raises as ``option_types``."""
    types = option_types(strategy)
    made = resolve(strategy)
    defaults = option_texts(strategy, {name: getattr(made, name) for name in types})
    own = sorted(types, key=lambda name: name in NAMES)
    meaning = meanings(made.__class__)
    return tuple(
        Option(name, kind_in_words(types[name]), _shown(defaults[name]), meaning.get(name, ""))
        for name in own
    )


def _shown(text: str) -> str:
    return "" if text in ("null", "{}", "[]") else text


def read_settings(strategies: Sequence[str], settings: Sequence[str], where: str) -> dict[str, Any]:
    """Read ``KEY=VALUE`` texts as options that at least one of `strategies` has.

    A value is a number, a word, ``true`` or ``false``, a list ``a,b``, or JSON. A key may
    come once. `where` names the texts in errors.

    Raises
    ------
    UsageError
        For an unknown strategy or key, with the nearest, a key that comes twice, or a value of
        another type.
    """
    types: dict[str, Any] = {}
    for strategy in reversed(strategies):
        types |= option_types(strategy)
    texts: dict[str, str] = {}
    for text in settings:
        key, equals, value = text.partition("=")
        if key in texts:
            raise UsageError(f"'{key}' is given twice", where=where, hint="leave one out")
        texts[key] = value
        if key not in types:
            named = ", ".join(f"'{strategy}'" for strategy in dict.fromkeys(strategies))
            raise UsageError(
                f"{named} has no option '{key}'", where=where, hint=nearest(key, types)
            )
        if not equals:
            raise UsageError(f"'{text}' has no value", where=where, hint=f"write {key}=VALUE")
    return {key: read(types[key], text, f"{where} {key}") for key, text in texts.items()}


def read_options(strategy: str, options: Mapping[str, str]) -> dict[str, Any]:
    """Read back the result of ``option_texts``. Raises UsageError as above."""
    settings = [f"{key}={value}" for key, value in options.items()]
    return read_settings((strategy,), settings, "options of the plan")


def check_options(strategy: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options in the types of the strategy, e.g. a list as a tuple."""
    types = option_types(strategy)
    return {
        key: checked(types[key], value, key) if key in types else value
        for key, value in options.items()
    }


def option_texts(strategy: str, options: Mapping[str, Any]) -> dict[str, str]:
    """Return options as texts, by name: words as they are, all else as JSON."""
    from pydantic import TypeAdapter
    from pydantic_core import PydanticSerializationError

    types = option_types(strategy)
    found: dict[str, str] = {}
    for key, value in sorted(options.items()):
        if isinstance(value, str):
            found[key] = value
            continue
        try:
            found[key] = TypeAdapter(types[key]).dump_json(value).decode()
        except (PydanticSerializationError, TypeError):
            # A plugin's own type; a plan says what it was, and none reads it back.
            found[key] = str(value)
    return found


def strategies() -> tuple[Entry, ...]:
    """List the strategies, by name, without broken ones of other packages.

    ``plugins.plugin_complaints`` says why they cannot. What another package adds says of itself
    what it promises and needs by class variables ``promises`` and ``needs``.
    """
    return tuple(_entry(name) for name in strategy_names())


def promises_of(strategy: str) -> tuple[str, ...]:
    """Return the capabilities of a strategy, with or without its argument."""
    return _entry(strategy.partition(":")[0]).promises


def _entry(name: str) -> Entry:
    describe = partial(describe_options, name)
    if name in OWN:
        _, argument, summary, promises = _OWN[name]
        needs = _NEEDS.get(name, ())
        return Entry(name, name + argument, summary, promises, needs, _options=describe)
    made = strategy_class(name)
    return Entry(
        name,
        f"{name}[:...]" if hasattr(made, "parse") else name,
        (made.__doc__ or "").strip().partition("\n")[0] or "no summary",
        tuple(getattr(made, "promises", ())),
        tuple(getattr(made, "needs", ())),
        plugin_owner(GROUP, name),
        describe,
    )
