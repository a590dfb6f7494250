"""Records by their paths: differences, headlines, and tables of any record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from typing import Any

from hetsim.core.units import format_percentile
from hetsim.reporting.formatting import ABSENT, SHARES, figure_text, percent, relative_change
from hetsim.reporting.pages.page import PageTable, Tile, table

ROWS_MOST = 200
"""Maximum number of rows of a table of a record."""

COLUMNS_MOST = 16
"""Maximum number of columns of such a table; the record has all."""

PARTS_MOST = 8
"""Maximum number of entries of a table whose parts get tables of their own."""

TILES_MOST = 6

_NAMES = ("strategy", "key", "stream", "name", "device", "model", "figure", "change")
_UNITS = ("_s", "_bytes", "nbytes", "_j", "factor")
SAME = 1e-9
"""Relative difference of equal figures, as the order of additions may cause."""

Leaf = int | float | str | bool | None

Leaves = Mapping[tuple[str, ...], Leaf]
"""Figures and texts by their paths."""


def leaf(value: Any) -> Leaf:
    """Return a figure or text as it is, anything else as text."""
    return value if value is None or isinstance(value, (int, float, str, bool)) else str(value)


@dataclass(frozen=True, slots=True)
class RecordChange:
    """Figure, or text, of both records; None in the one that lacks it."""

    path: tuple[str, ...]
    was: Leaf
    now: Leaf

    @property
    def name(self) -> str:
        """Its path in words."""
        return " / ".join(_words(key) for key in self.path)

    def texts(self) -> tuple[str, str, str]:
        """Return the old value, the new value, and the difference."""
        key = unit_of(self.path)
        return figure_text(key, self.was), figure_text(key, self.now), self.difference()

    def difference(self) -> str:
        """Return ``+1.20 ms (+18 %)``; ``changed`` for texts."""
        if self.was is None or self.now is None:
            return "is new" if self.was is None else "is gone"
        if isinstance(self.was, (bool, str)) or isinstance(self.now, (bool, str)):
            return "changed"
        less = self.now - self.was
        text = f"{'+' if less > 0 else ''}{figure_text(unit_of(self.path), less)}"
        relative = relative_change(self.was, self.now)
        return text if relative is None else f"{text} ({percent(relative, sign=True)})"


def leaves(
    value: Any, path: tuple[str, ...] = (), *, lists: bool = False
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every figure and text of a record with its path. O(size).

    An entry of a list is identified by its strategy or name, so that another order is no
    difference; by its position without a name, or if two have the same. `lists`: a list of figures
    and texts alone stays a list.
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, (*path, str(key)), lists=lists)
    elif (
        lists
        and isinstance(value, list)
        and not any(isinstance(one, (dict, list)) for one in value)
    ):
        yield path, value
    elif isinstance(value, (list, tuple)):
        names = [_name(entry) for entry in value]
        unique = None not in names and len(set(names)) == len(names)
        for place, inner in enumerate(value):
            name = str(names[place] if unique else place)
            yield from leaves(inner, (*path, name), lists=lists)
    else:
        yield path, leaf(value)


def changes(first: Any, second: Any) -> list[RecordChange]:
    """Return the differences of two records, in the order of the first, new figures last."""
    pairs = beside(dict(leaves(first)), dict(leaves(second)))
    return [one for one in pairs if not same(one.was, one.now)]


def beside(was: Leaves, now: Leaves) -> list[RecordChange]:
    """Return all figures of both, in the order of the first, new ones last."""
    return [RecordChange(path, was.get(path), now.get(path)) for path in {**was, **now}]


def same(was: Leaf, now: Leaf) -> bool:
    """Return whether two leaves are equal up to rounding."""
    numbers = [one for one in (was, now) if isinstance(one, (int, float))]
    if len(numbers) == 2 and not any(isinstance(one, bool) for one in numbers):
        return isclose(numbers[0], numbers[1], rel_tol=SAME)
    return was == now and type(was) is type(now)


def unit_of(path: tuple[str, ...]) -> str:
    """Return the key of a path that states the figure's unit: the last, or the last but one."""
    for key in reversed(path[-2:]):
        if key.endswith(_UNITS) or key in SHARES:
            return key
    return path[-1]


def _words(key: str) -> str:
    """Key in words, without its unit, which its figure has; other names stay as they are."""
    for ending, told in (("_per_s", " (1/s)"), ("_s", ""), ("_bytes", ""), ("_j", "")):
        if key.endswith(ending) and len(key) > len(ending):
            return f"{key.removesuffix(ending).replace('_', ' ')}{told}"
    return key


def _name(entry: Any) -> str | None:
    if not isinstance(entry, Mapping):
        return str(entry) if isinstance(entry, str) else None
    if isinstance(entry.get("percentile"), (int, float)):
        return format_percentile(entry["percentile"])
    return next((str(entry[key]) for key in _NAMES if isinstance(entry.get(key), str)), None)


_UNDER_LOAD = (
    "state", "streams.*.percentiles.*.latency_s", "streams.*.latency_mean_s", "bottleneck",
    "on_time", "requests", "energy_j", "streams.*.throughput_per_s",
)  # fmt: skip
_OF_MANY = ("latency_mean_s", "latency_p99_s", "makespan_s", "requests_per_s")
_PLAYED = (
    "timeline.latency_s", *(f"timeline.{key}" for key in _OF_MANY), "timeline.transferred_bytes",
    "timeline.transfer_s", "timeline.energy_j", "bitwise_equal", "plan.strategy", "plan.subgraphs",
)  # fmt: skip
_FIRST = "rows.0."

HEADLINES: Mapping[str, Sequence[str]] = {
    "hetsim-comparison/1": (
        f"{_FIRST}strategy", f"{_FIRST}cost_s", "lower_bound_s", "best_single", "speedup_ceiling",
        "rows.*.cost_s",
    ),
    "hetsim-platforms/1": (
        "verdict.fastest", "verdict.takes_s", "verdict.cheapest_to_buy", "verdict.cheapest_to_rent",
    ),
    "hetsim-simulation/1": _PLAYED,
    "hetsim-run/1": _PLAYED,
    "hetsim-service/1": _UNDER_LOAD,
    "hetsim-load-test/1": tuple(f"measured.{path}" for path in _UNDER_LOAD),
    "hetsim-capacity/1": (
        f"{_FIRST}name", f"{_FIRST}answer", f"{_FIRST}highest_per_s", f"{_FIRST}ceiling_per_s",
        "rate_per_s", "bound_per_s",
    ),
    "hetsim-recommendation/1": (
        "answer.counts.*", "answer.cost", "answer.policy", "binding.what", "impossible", "vectors",
    ),
    "hetsim-placement/1": (
        f"{_FIRST}answer", f"{_FIRST}factor", f"{_FIRST}binds", "rate_per_s", "impossible",
    ),
    "hetsim-lint/1": (
        "strategy", "before_s", "infeasible", "findings.0.what", "findings.0.after_s",
        "findings.0.gain_s",
    ),
    "hetsim-sensitivities/1": ("figure", "value_s", "changes.0.change"),
    "hetsim-nodes/1": ("strategy", "wanted"),
    "hetsim-plan/1": ("strategy",),
    "hetsim-plan/2": ("strategy",),
    "hetsim-sweep/1": ("points", "failed"),
}  # fmt: skip
"""Paths of the headline figures by schema; ``*``: of each entry."""


def headline(record: Mapping[str, Any]) -> dict[tuple[str, ...], Leaf]:
    """Return the headline figures of a record."""
    found: dict[tuple[str, ...], Leaf] = {}
    timeline = record.get("timeline")
    of_one = isinstance(timeline, Mapping) and timeline.get("requests") == 1
    for path in HEADLINES.get(str(record.get("schema")), ()):
        keys = path.split(".")
        if not (of_one and keys[-1] in _OF_MANY):
            found.update(_at(record, keys, ()))
    return found


def tiles(
    top: Sequence[RecordChange], note: Callable[[RecordChange], str] = lambda one: ""
) -> Iterator[Tile]:
    """Yield tiles of the first headline figures, each with a note."""
    for one in [each for each in top if (each.was, each.now) != (None, None)][:TILES_MOST]:
        yield Tile(one.name.replace(" / ", " ").replace("_", " "), one.texts()[1], note(one))


def record_tables(record: Mapping[str, Any], title: str) -> list[PageTable]:
    """Return a record as tables: its own figures, and one for each part with several entries."""
    own: list[tuple[str, str]] = []
    tables: list[PageTable] = []
    waiting: list[tuple[tuple[str, ...], Any]] = [((key,), one) for key, one in record.items()]
    while waiting:
        path, value = waiting.pop(0)
        entries = _entries(value)
        if entries:
            tables.append(_entries_table(" / ".join(path), path[-1], entries))
            if len(entries) <= PARTS_MOST:
                waiting += [((*path, name, key), inner) for name, one in entries
                            for key, inner in one.items() if _entries(inner)]  # fmt: skip
        elif isinstance(value, Mapping):
            waiting[:0] = [((*path, str(key)), one) for key, one in value.items()]
        elif value is not None and value != []:
            own.append((" / ".join(map(_words, path)), _text(path, value)))
    more = f", the first {ROWS_MOST} of {len(own)}" if len(own) > ROWS_MOST else ""
    figures = [table(f"{title}{more}", ("figure", "#value"), own[:ROWS_MOST])] if own else []
    return [*figures, *tables]


def _entries(value: Any) -> list[tuple[str, Mapping[str, Any]]]:
    """Records in a list or a mapping by their names; empty if it has other values."""
    held = _named(value)
    return held if all(isinstance(one, Mapping) for _, one in held) else []


def _named(value: Any) -> list[tuple[str, Any]]:
    """Values of a list or a mapping, by their names or positions; empty for anything else."""
    if isinstance(value, Mapping):
        return [(str(name), one) for name, one in value.items()]
    each = value if isinstance(value, list) else ()
    return [(_name(one) or str(place), one) for place, one in enumerate(each)]


def _entries_table(title: str, key: str, entries: list[tuple[str, Mapping[str, Any]]]) -> PageTable:
    rows = [(name, _cells(one)) for name, one in entries[:ROWS_MOST]]
    known = dict.fromkeys(path for _, one in rows for path in one)
    paths = sorted(known, key=len)[:COLUMNS_MOST]
    texts = [[str(name), *(one.get(path, ABSENT) for path in paths)] for name, one in rows]
    more = f", the first {ROWS_MOST} of {len(entries)}" if len(entries) > ROWS_MOST else ""
    headings = [" / ".join(map(_words, path)).replace("_", " ") for path in paths]
    return table(f"{title}{more}", (_words(key), *headings), texts)


def _cells(entry: Mapping[str, Any]) -> dict[tuple[str, ...], str]:
    """Figures of an entry and of its parts by their paths, without the entry's own name."""
    name = _name(entry)
    return {
        path: _text(path, one)
        for path, one in leaves(entry, lists=True)
        if one not in (None, [], name)
        and (len(path) == 1 or (len(path) == 2 and isinstance(entry[path[0]], Mapping)))
    }


def _text(path: tuple[str, ...], value: Any) -> str:
    values = value if isinstance(value, list) else [value]
    return ", ".join(figure_text(unit_of(path), leaf(one)) for one in values)


def _at(value: Any, keys: list[str], names: tuple[str, ...]) -> dict[tuple[str, ...], Leaf]:
    """Leaves at a path, by the entries on the way and the last key."""
    if not keys:
        return {names: leaf(value)}
    key, *rest = keys
    if key == "*":
        found = [_at(inner, rest, (*names, name)) for name, inner in _named(value)]
        return {path: one for part in found for path, one in part.items()}
    if key == "0" and isinstance(value, list):
        return _at(value[0], rest, (*names, "best")) if value else {}
    if not isinstance(value, Mapping) or key not in value:
        return {}
    return _at(value[key], rest, names if rest else (*names, key))
