"""Checks of public functions' arguments, before any work starts.

A rule takes an argument and its name, and raises InvalidInput if the argument does not fit.
"""

from __future__ import annotations

import math
import numbers
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

import numpy as np

from hetsim.errors import InvalidInput, nearest

RENAMED = {"draws": "samples", "lifetime_years": "depreciation_years"}
"""New name of each renamed keyword."""

Rule = Callable[[Any, str], None]
Given = ParamSpec("Given")
Gives = TypeVar("Gives")


def takes(**rules: Rule) -> Callable[[Callable[Given, Gives]], Callable[Given, Gives]]:
    """Return a decorator that checks arguments by name; None passes if it is the default."""

    def decorate(function: Callable[Given, Gives]) -> Callable[Given, Gives]:
        parameters = signature(function).parameters
        rows = [
            (at, name, rules[name], parameter.default is None)
            for at, (name, parameter) in enumerate(parameters.items())
            if name in rules
        ]

        @wraps(function)
        def checked(*args: Given.args, **kwargs: Given.kwargs) -> Gives:
            for old in kwargs.keys() & RENAMED.keys() - parameters.keys():
                raise TypeError(f"no keyword '{old}'; it is '{RENAMED[old]}' now")
            for at, name, rule, optional in rows:
                if at < len(args):
                    value: Any = args[at]
                elif name in kwargs:
                    value = kwargs[name]
                else:
                    continue
                if value is not None or not optional:
                    rule(value, name)
            return function(*args, **kwargs)

        return checked

    return decorate


def shown(value: object) -> str:
    """Return `value` as short text for a message, even if its own ``repr`` fails."""
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    text = " ".join(text.split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def refused(name: str, value: object, wanted: str, hint: str | None = None) -> InvalidInput:
    """Return the error for an argument of the wrong kind."""
    return InvalidInput(f"{name} is {shown(value)}, not {wanted}", hint=hint)


def instance(*homes: str) -> Rule:
    """Return the rule of an instance of these classes, ``module:Class``, which it never imports."""
    names = [home.partition(":")[2] for home in homes]
    wanted = " or ".join(f"a{'n' * (name[0] in 'AEIOU')} {name}" for name in names)

    def rule(value: Any, name: str) -> None:
        for home in homes:
            module, _, kind = home.partition(":")
            # What nobody has loaded has no objects.
            loaded = sys.modules.get(module)
            if loaded is not None and isinstance(value, getattr(loaded, kind)):
                return
        raise refused(name, value, wanted)

    return rule


def real(value: Any, name: str) -> None:
    """Require a real number of any size; the caller checks its range."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise refused(name, value, "a number")


def text(value: Any, name: str) -> None:
    """Require a str."""
    if not isinstance(value, str):
        raise refused(name, value, "a text")


def path(value: Any, name: str) -> None:
    """Require a path, or its text."""
    if not isinstance(value, str | os.PathLike) or not isinstance(os.fspath(value), str):
        raise refused(name, value, "a path")
    if "\0" in os.fspath(value):
        raise refused(name, value, "a path without a null byte")


def function(value: Any, name: str) -> None:
    """Require a callable."""
    if not callable(value):
        raise refused(name, value, "a function")


def one_of(*choices: str) -> Rule:
    """Return the rule of one of these texts."""

    def rule(value: Any, name: str) -> None:
        if not isinstance(value, str) or value not in choices:
            hint = nearest(value, choices) if isinstance(value, str) else None
            raise refused(name, value, " or ".join(f"'{choice}'" for choice in choices), hint)

    return rule


def flag(value: Any, name: str) -> None:
    """Require True or False."""
    if not isinstance(value, bool | np.bool_):
        raise refused(name, value, "True or False")


def whole(least: int | None = None, most: int | None = None) -> Rule:
    """Return the rule of an integer in this range, both ends included."""
    if least is not None and most is not None:
        wanted = f"a whole number from {least} to {most}"
    else:
        wanted = "a whole number" + (f" from {least} on" if least is not None else "")

    def rule(value: Any, name: str) -> None:
        if not _is_whole(value):
            raise refused(name, value, wanted)
        if (least is not None and value < least) or (most is not None and value > most):
            raise refused(name, value, wanted)

    return rule


def number(
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    finite: bool = True,
) -> Rule:
    """Return the rule of a number, never NaN, from `least` on or above `above`, up to `most`."""
    wanted = "a finite number" if finite else "a number"
    if least is not None:
        wanted += f" from {least:g} on"
    if above is not None:
        wanted += f" above {above:g}"
    if most is not None:
        wanted += f" up to {most:g}"

    def rule(value: Any, name: str) -> None:
        if type(value) is not float and (
            isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real)
        ):
            raise refused(name, value, wanted)
        try:
            size = float(value)
        except OverflowError:
            raise refused(name, value, wanted) from None
        if (
            math.isnan(size)
            or (finite and math.isinf(size))
            or (least is not None and size < least)
            or (above is not None and size <= above)
            or (most is not None and size > most)
        ):
            raise refused(name, value, wanted)

    return rule


def sequence(each: Rule | None = None, *, length: int | None = None) -> Rule:
    """Return the rule of a list, a tuple, or a 1-D array, every entry of which passes `each`."""

    def rule(value: Any, name: str) -> None:
        listed = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        if not listed and not (isinstance(value, np.ndarray) and value.ndim == 1):
            raise refused(name, value, "a list")
        if length is not None and len(value) != length:
            raise InvalidInput(f"{name} has {len(value)} entries, not {length}")
        if each is None:
            return
        for at, entry in enumerate(value):
            try:
                each(entry, name)
            except InvalidInput:
                # Once more, with its place: of the many that pass nobody asks for that.
                each(entry, f"{name}[{at}]")
                raise

    return rule


def collection(each: Rule) -> Rule:
    """Return the rule of a set, or a list, every entry of which passes `each`."""

    def rule(value: Any, name: str) -> None:
        if isinstance(value, Set):
            value = sorted(value, key=repr)
        sequence(each)(value, name)

    return rule


def mapping(key: Rule, value: Rule | None = None) -> Rule:
    """Return the rule of a mapping whose keys and values pass `key` and `value`."""

    def rule(given: Any, name: str) -> None:
        if not isinstance(given, Mapping):
            raise refused(name, given, "a mapping", "give a dict")
        for one, of_it in given.items():
            key(one, f"a key of {name}")
            if value is not None:
                value(of_it, f"{name}[{shown(one)}]")

    return rule


def either(rule: Rule, other: Rule) -> Rule:
    """Return the rule of a value that passes one of two rules; the error is that of the second."""

    def both(value: Any, name: str) -> None:
        try:
            rule(value, name)
        except InvalidInput:
            other(value, name)

    return both


def rows(given: Any, name: str, entries: str) -> list[tuple[Any, ...]]:
    """Return an iterable's entries as tuples with the parts that `entries` names.

    Raises InvalidInput if `given` is not iterable, or an entry has more parts or fewer.
    """
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise refused(name, given, f"a list of ({entries})")
    count = entries.count(",") + 1
    found: list[tuple[Any, ...]] = []
    for at, entry in enumerate(given):
        if isinstance(entry, str | bytes | Mapping) or not isinstance(entry, Iterable):
            raise refused(f"{name}[{at}]", entry, f"({entries})")
        parts = tuple(entry)
        if len(parts) != count:
            raise refused(f"{name}[{at}]", entry, f"({entries})")
        found.append(parts)
    return found


def whole_bytes(value: Any, where: str) -> int:
    """Return a number of bytes, which may be written as a float. Raises InvalidInput."""
    if not _is_whole(value):
        number(least=0)(value, where)
        if int(value) != value:
            raise refused(where, value, "a whole number of bytes")
    if value < 0:
        raise refused(where, value, "a whole number of bytes from 0 on")
    return int(value)


def floats(value: Any, name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return a copy as an array of real numbers. Raises InvalidInput for anything else."""
    try:
        given = np.array(value)
        if given.dtype.kind not in "biuf" and given.size:
            # Numbers beyond 64 bits come as objects.
            if given.dtype.kind != "O":
                raise TypeError
            for entry in given.flat:
                number(finite=False)(entry, f"an entry of {name}")
        return given.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise refused(name, value, "an array of numbers") from None


def _is_whole(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool | np.bool_)
