"""Options of strategies as text: what the command line gives, and what a plan keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetsim.core.entries import Option, kind_in_words, meanings
from hetsim.errors import PluginError, UsageError, nearest
from hetsim.placement.constraints import NAMES, checked, field_types, read
from hetsim.placement.registry import resolve, strategy_class


def option_types(strategy: str) -> dict[str, Any]:
    """Return the type of each option of a strategy, by name.

    Raises
    ------
    UsageError
        For an unknown strategy.
    PluginError
        Where a strategy of another package has annotations that mean nothing.
    """
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
    """Read back what ``option_texts`` wrote for a strategy. Raises UsageError as above."""
    settings = [f"{key}={value}" for key, value in options.items()]
    return read_settings((strategy,), settings, "options of the plan")


def check_options(strategy: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options in the types that the strategy has for them: a list as a tuple, say.

    Raises UsageError for a value of another type; one that the strategy lacks stays as it is.
    """
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
