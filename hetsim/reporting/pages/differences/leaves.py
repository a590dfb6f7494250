"""Records as paths to their figures, so that two of them can be put beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isclose
from typing import Any

from hetsim.base.text import plain
from hetsim.base.units import format_bytes, format_seconds
from hetsim.reporting.words.text import ABSENT, joules, percent, relative_change

_NAMES = ("strategy", "key", "stream", "name", "device", "model", "figure", "change")
_SHARES = (
    *("utilization", "busy_share", "share", "gap", "on_time", "regret", "best", "mean"),
    *("measured_share", "transfer_share", "not_slower"),
)
_UNITS = ("_s", "_bytes", "nbytes", "_j")
SAME = 1e-9
"""Relative difference of two figures that are the same: what another order of additions leaves."""

Leaf = int | float | str | bool | None

Leaves = Mapping[tuple[str, ...], Leaf]
"""Figures and texts by their paths."""


def leaf(value: Any) -> Leaf:
    """Return a figure or text as it is, anything else as text."""
    return value if value is None or isinstance(value, (int, float, str, bool)) else str(value)


@dataclass(frozen=True, slots=True)
class Change:
    """One figure, or text, of both records.

    Attributes
    ----------
    path : tuple of str
    was, now : number, text or None
        None: it is not there.
    """

    path: tuple[str, ...]
    was: Leaf
    now: Leaf

    @property
    def name(self) -> str:
        """Its path in words."""
        return " / ".join(_words(key) for key in self.path)

    def texts(self) -> tuple[str, str, str]:
        """Return what it was, what it is, and the difference."""
        key = unit_of(self.path)
        return leaf_text(key, self.was), leaf_text(key, self.now), self.difference()

    def difference(self) -> str:
        """Return ``+1.20 ms (+18 %)``; ``changed`` for what is no number."""
        if self.was is None or self.now is None:
            return "is new" if self.was is None else "is gone"
        if isinstance(self.was, (bool, str)) or isinstance(self.now, (bool, str)):
            return "changed"
        less = self.now - self.was
        text = f"{'+' if less > 0 else ''}{leaf_text(unit_of(self.path), less)}"
        relative = relative_change(self.was, self.now)
        return text if relative is None else f"{text} ({percent(relative, sign=True)})"


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Leaf]]:
    """Yield every figure and text of a record with its path. O(size).

    An entry of a list is called by what names it (its strategy, its name), so that another
    order is no difference; by its place where nothing does, or two have one name.
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, (*path, str(key)))
    elif isinstance(value, (list, tuple)):
        names = [_name(entry) for entry in value]
        unique = None not in names and len(set(names)) == len(names)
        for place, inner in enumerate(value):
            yield from leaves(inner, (*path, str(names[place] if unique else place)))
    else:
        yield path, leaf(value)


def changes(first: Any, second: Any) -> list[Change]:
    """Return what differs between two records, in the order of the first, what is new last."""
    pairs = beside(dict(leaves(first)), dict(leaves(second)))
    return [one for one in pairs if not same(one.was, one.now)]


def beside(was: Leaves, now: Leaves) -> list[Change]:
    """Return all figures of both, in the order of the first, what is new last."""
    return [Change(path, was.get(path), now.get(path)) for path in {**was, **now}]


def same(was: Leaf, now: Leaf) -> bool:
    """Whether two leaves are the same, but for what rounding leaves."""
    numbers = [one for one in (was, now) if isinstance(one, (int, float))]
    if len(numbers) == 2 and not any(isinstance(one, bool) for one in numbers):
        return isclose(numbers[0], numbers[1], rel_tol=SAME)
    return was == now and type(was) is type(now)


def unit_of(path: tuple[str, ...]) -> str:
    """Return the key of a path that says what its figure is in: the last but one, at the most."""
    for key in reversed(path[-2:]):
        if key.endswith(_UNITS) or key in _SHARES:
            return key
    return path[-1]


def leaf_text(key: str, value: Leaf) -> str:
    """Return a figure with the unit that its key ends in."""
    if value is None:
        return ABSENT
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return plain(value)
    if key.endswith("_per_s"):
        return f"{value:.4g}/s"
    if key.endswith("_s"):
        return format_seconds(value)
    if key.endswith(("_bytes", "nbytes")):
        return format_bytes(value)
    if key.endswith("_j"):
        return joules(value)
    if key in _SHARES:
        return percent(value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _words(key: str) -> str:
    """A key without its unit, which its figure has; names that are no keys stay as they are."""
    for ending, told in (("_per_s", " a second"), ("_s", ""), ("_bytes", ""), ("_j", "")):
        if key.endswith(ending) and len(key) > len(ending):
            return f"{key.removesuffix(ending).replace('_', ' ')}{told}"
    return key


def _name(entry: Any) -> str | None:
    if not isinstance(entry, Mapping):
        return str(entry) if isinstance(entry, str) else None
    return next((str(entry[key]) for key in _NAMES if isinstance(entry.get(key), str)), None)
