"""Strategies by name, with their options and summaries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any, Protocol

from hetsim.core.options import checked, field_types, read
from hetsim.core.plugins import OWN as PROVIDER
from hetsim.core.plugins import (
    Entry,
    Option,
    asked,
    kind_in_words,
    load_plugin,
    meanings,
    plugin_names,
    plugin_owner,
    wrong_type_error,
)
from hetsim.errors import PluginError, UsageError, nearest
from hetsim.placement.constraints import NAMES
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem


class Strategy(Protocol):
    """Frozen dataclass whose fields are its options."""

    def solve(self, problem: Problem) -> Plan:
        """Return a valid plan, the same in every process."""
        ...


_ROOM = "hetsim.placement.strategies"

_OWN: Mapping[str, str] = {
    "single": "baselines:Single",
    "hetero": "baselines:Hetero",
    "pipeline": "baselines:Pipeline",
    "multi": "baselines:Multi",
    "heft": "list_scheduling:Heft",
    "cpop": "list_scheduling:Cpop",
    "peft": "list_scheduling:Peft",
    "lookahead": "list_scheduling:Lookahead",
    "dls": "list_scheduling:Dls",
    "etf": "list_scheduling:Etf",
    "mincut": "cuts:Mincut",
    "chain-dp": "cuts:ChainDp",
    "ideal-dp": "ideal_dp:IdealDp",
    "slice": "cuts:Slice",
    "local-search": "local_search:LocalSearch",
    "exact": "exact:Exact",
    "auto": "auto:Auto",
}
"""Classes of the built-in strategies, as ``module:class`` by name."""


GROUP = "hetsim.strategies"
OWN = tuple(_OWN)
"""Names that no other package may register."""


def strategy_names() -> tuple[str, ...]:
    """Return the sorted names of all strategies that load without error."""
    found = set(OWN)
    for name in plugin_names(GROUP):
        with suppress(PluginError):
            strategy_class(name)
            found.add(name)
    return tuple(sorted(found))


def strategy_class(text: str) -> Any:
    """Return the class of the strategy named by `text`, with or without an argument."""
    name = text.partition(":")[0]
    if name in OWN:
        module, _, attribute = _OWN[name].partition(":")
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
    """Return the strategy named by `text`, e.g. ``hetero:npu,cpu``, with `options` set.

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
    """Return the plan of `problem` by `strategy`, which was resolved from `text`."""
    name = text.partition(":")[0]
    found = _asked(name, "solve", lambda: strategy.solve(problem))
    if name not in OWN and not isinstance(found, Plan):
        raise wrong_type_error(GROUP, name, "solve", found, "a Plan")
    made: Plan = found
    return made if name in OWN else replace(made, problem=problem)


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
    """Return the options of a strategy, its own first. Raises as ``option_types``."""
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

    A value is a number, a word, ``true`` or ``false``, a list ``a,b``, or JSON. Keys are unique.
    `where` names the texts in errors.

    Raises
    ------
    UsageError
        For an unknown strategy or key, with the nearest, a repeated key, or a wrong type.
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
    """Return the options that ``option_texts`` wrote as text. Raises as ``read_settings``."""
    settings = [f"{key}={value}" for key, value in options.items()]
    return read_settings((strategy,), settings, "options of the plan")


def check_options(strategy: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options converted to the strategy's types, e.g. a list to a tuple."""
    types = option_types(strategy)
    return {
        key: checked(types[key], value, key) if key in types else value
        for key, value in options.items()
    }


def option_texts(strategy: str, options: Mapping[str, Any]) -> dict[str, str]:
    """Return options as texts, by name: strings as they are, all others as JSON."""
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
            # A plugin's own type: shown in plans, but never read back.
            found[key] = str(value)
    return found


def strategies() -> tuple[Entry, ...]:
    """Return the strategies by name, without broken ones of other packages.

    ``plugins.plugin_complaints`` lists the broken ones with reasons. A class describes itself in
    the first line of its docstring, and in class variables: ``promises``, ``needs``, and the
    ``argument`` that may follow its name.
    """
    return tuple(_entry(name) for name in strategy_names())


def promises_of(strategy: str) -> tuple[str, ...]:
    """Return the capabilities of a strategy, with or without its argument."""
    return _entry(strategy.partition(":")[0]).promises


def _entry(name: str) -> Entry:
    made = strategy_class(name)
    summary = (made.__doc__ or "").strip().partition("\n")[0] or "no summary"
    own = name in OWN
    return Entry(
        name,
        name + getattr(made, "argument", "[:...]" if hasattr(made, "parse") else ""),
        summary[:1].lower() + summary[1:].removesuffix(".") if own else summary,
        tuple(getattr(made, "promises", ())),
        tuple(getattr(made, "needs", ())),
        PROVIDER if own else plugin_owner(GROUP, name),
        partial(describe_options, name),
    )
