"""Text that is safe to show and to compare: plain names, tallies, JSON."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import numbers
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any, TypeVar

Record = dict[str, Any]
K = TypeVar("K")
V = TypeVar("V")

_FORMULA = tuple("=+-@\t\r\n＝＋－＠")  # noqa: RUF001
"""Characters that begin a formula (OWASP, CSV Injection), wide forms of Asian input included."""


def plain(text: str) -> str:
    r"""Return `text` on one line, characters that would steer a terminal written as escapes.

    >>> plain("a\nb")
    'a\\nb'
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def plainly(value: Any) -> Any:
    """Return a record of plain data with every text and key escaped by ``plain``."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {plain(key): plainly(inner) for key, inner in value.items()}
    return [plainly(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def cell(text: str) -> str:
    """Return the text of a CSV cell, quoted if a spreadsheet would read it as a formula.

    >>> cell("=1+1"), cell("relu")
    ("'=1+1", 'relu')
    """
    return f"'{text}" if text.startswith(_FORMULA) else text


def cut(text: str, most: int = 2000) -> str:
    """Return `text`; if it is longer than `most` characters, its start and its end."""
    if len(text) <= most:
        return text
    return f"{text[: most * 3 // 4]} ... {text[-most // 4 :]}"


def tally(names: Iterable[str]) -> dict[str, int]:
    """Return the counts of equal names; most frequent first, then by name."""
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Return the second items of pairs by the first; both in order of appearance."""
    found: dict[K, list[V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def fields(one: object, names: str = "") -> Record:
    """Return attributes of `one` as plain data, in this order: all of a dataclass, or those named.

    ``cost=usd`` gives ``usd`` under another name; a path such as `kind.name` leads into attributes,
    and is None if one on the way is. Nested records become records, tuples and arrays lists, sets
    sorted lists, errors and paths text. ``interval(low high)`` gives these fields of a part: of
    each of several or of a mapping, None for None; ``why?`` None if it is empty.

    >>> from fractions import Fraction
    >>> fields(Fraction(3, 4), "numerator of=denominator(real)")
    {'numerator': 3, 'of': {'real': 4}}
    """
    listed = _names(names) or [each.name for each in dataclasses.fields(one)]  # type: ignore[arg-type]
    found = {}
    for name in listed:
        head, within, inner = name.partition("(")
        key, _, path = head.removesuffix("?").partition("=")
        value: Any = one
        for step in (path or key).split("."):
            value = None if value is None else getattr(value, step)
        if head.endswith("?"):
            value = value or None
        found[key] = _part(value, inner[:-1]) if within else _data(value)
    return found


@functools.cache
def _names(names: str) -> list[str]:
    """Names separated by blanks outside all brackets."""
    found, depth = [""], 0
    for char in names:
        depth += (char == "(") - (char == ")")
        if char.isspace() and not depth:
            found.append("")
        else:
            found[-1] += char
    return [name for name in found if name]


def _part(value: Any, names: str) -> Any:
    if isinstance(value, (list, tuple)):
        return records(value, names)
    if isinstance(value, Mapping):
        return {key: fields(item, names) for key, item in value.items()}
    return None if value is None else fields(value, names)


def records(each: Iterable[object], names: str = "") -> list[Record]:
    """Return the ``fields`` of each."""
    return [fields(one, names) for one in each]


def _data(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return fields(value)
    if isinstance(value, Mapping):
        return {key: _data(item) for key, item in value.items()}
    if isinstance(value, (Exception, PurePath)):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    return [_data(item) for item in value] if isinstance(value, (list, tuple)) else value


def to_json(record: Mapping[str, Any]) -> str:
    """Return `record` as ASCII JSON text, floats by ``repr``, infinities as null."""
    return json.dumps(_finite(record), indent=1, allow_nan=False) + "\n"


def to_compact_json(value: Any) -> str:
    """Return `value` as compact JSON without optional white space."""
    return json.dumps(_finite(value), separators=(",", ":"), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, numbers.Real) and not isinstance(value, int):
        # A number of NumPy's, of which JSON knows none.
        return int(value) if isinstance(value, numbers.Integral) else _finite(float(value))
    return value
