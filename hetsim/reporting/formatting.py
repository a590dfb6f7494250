"""Figures as text: ratios, shares, energies, rates, counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeVar

from hetsim.core.text import grouped, plain, records
from hetsim.core.units import format_bytes, format_seconds, three_digits
from hetsim.errors import HetsimError
from hetsim.hardware.spec import Link

if TYPE_CHECKING:
    from hetsim.statistics.intervals import Percentile

ABSENT = "-"
"""Text in place of a missing figure."""

MOST_PLACES = 30
"""Maximum number of decimal places of a share in per cent."""


SHARES = (
    *("utilization", "busy_share", "share", "gap", "on_time", "best", "regret_mean", "regret_p90"),
    *("measured_share", "transfer_share", "not_slower", "median", "unseen_median"),
)
"""Names of figures that are shares; a whole number of such a name is a count."""


def figure_text(name: str, value: float | str | None) -> str:
    """Return a figure in the unit that its name ends in, as a share for ``%``; or a text.

    >>> figure_text("latency_s", 0.0123), figure_text("gain%", 0.5), figure_text("nodes", 7)
    ('12.3 ms', '50 %', '7')
    >>> figure_text("on_time", 0.94), figure_text("on_time", 2820), figure_text("factor", 2.5)
    ('94 %', '2820', '2.50x')
    >>> figure_text("weight_bytes", 2.0**20), figure_text("weight_bytes", float("inf"))
    ('1.00 MiB', 'inf')
    """
    if value is None or isinstance(value, str):
        return ABSENT if value is None else value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("_per_s"):
        return f"{value:.4g}/s"
    if name.endswith(("_s", "seconds")):
        return time_text(value)
    if name.endswith("bytes"):
        return format_bytes(round(value)) if math.isfinite(value) else number_text(value)
    if name.endswith("_j"):
        return joules(value)
    if name.endswith("%") or (name in SHARES and isinstance(value, float)):
        return percent(value)
    if name.startswith("speedup") or name == "factor":
        return ratio(value)
    return number_text(value) if isinstance(value, float) else str(value)


def ratio(value: float | None) -> str:
    """Return a speed-up such as ``1.23x``."""
    if value is None:
        return ABSENT
    if math.isinf(value):
        return "infx"
    return f"{three_digits(value)}x"


def percent(share: float | None, *, sign: bool = False) -> str:
    """Return a share such as ``12 %``; one decimal below ten, a plus if `sign` is set.

    A dash for None or NaN.

    >>> percent(0.081, sign=True)
    '+8.1 %'
    """
    if share is None or math.isnan(share):
        return ABSENT
    value = 100.0 * share
    # A bound and a latency that are equal on paper may differ in their last bits.
    value = 0.0 if abs(value) < 0.05 else value
    digits = 0 if abs(value) >= 9.95 or value == 0.0 else 1
    return f"{value:{'+' if sign else ''}.{digits}f} %"


def share_text(share: Fraction) -> str:
    """Return a share near one to three digits of its distance from one, rounded down.

    >>> share_text(Fraction("0.99994567"))
    '99.99456 %'
    """
    lacks = 1 - share
    if not lacks or not share:
        return "0 %" if not share else "100 %"
    places = 0
    while lacks * 10 ** (places + 2) < 100 and places < MOST_PLACES:
        places += 1
    scaled = math.floor(share * 100 * 10**places)
    whole, part = divmod(scaled, 10**places)
    return f"{whole}.{part:0{places}d} %" if places else f"{whole} %"


def relative_change(was: float, now: float) -> float | None:
    """Return the relative change from `was` to `now`; None if undefined."""
    if not (math.isfinite(was) and math.isfinite(now)) or was == 0:
        return None
    return now / was - 1


def time_text(seconds: float | None) -> str:
    """Return seconds with a fitting unit; a dash if they are unknown or undefined."""
    return ABSENT if seconds is None or math.isnan(seconds) else format_seconds(seconds)


def difference_text(seconds: float | None) -> str:
    """Return a difference in seconds with its sign; a dash if unknown."""
    if seconds is None:
        return ABSENT
    return f"{'+' if seconds > 0 else ''}{format_seconds(seconds)}"


def latency_text(seconds: float) -> str:
    """Return a latency, or ``rejected`` if it is infinite."""
    return "rejected" if math.isinf(seconds) else time_text(seconds)


def number_text(value: float) -> str:
    """Return a plain number with four significant digits; a dash for NaN."""
    return ABSENT if math.isnan(value) else f"{value:.4g}"


def joules(energy: float) -> str:
    """Return an energy with three significant digits and a fitting unit."""
    if energy == 0:
        return "0 J"
    for step, unit in ((1e3, "kJ"), (1.0, "J"), (1e-3, "mJ"), (1e-6, "uJ")):
        if abs(energy) >= step:
            return f"{three_digits(energy / step)} {unit}"
    return f"{three_digits(energy / 1e-9)} nJ"


def count(number: int, singular: str, plural: str | None = None) -> str:
    """Return ``1 node`` or ``2 nodes``."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def rate(value: float, unit: str) -> str:
    """Return a rate with an SI prefix, e.g. ``25.6 GB/s``."""
    for step, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= step:
            return f"{three_digits(value / step)} {prefix}{unit}"
    return f"{three_digits(value)} {unit}"


def big(number: int) -> str:
    """Return a large count in short, e.g. ``25.6 M``; exact below ten thousand."""
    for step, prefix in ((10**9, "G"), (10**6, "M"), (10**4, "k")):
        if abs(number) >= step:
            return f"{three_digits(number / (1000 if prefix == 'k' else step))} {prefix}"
    return str(number)


def listed(counts: Mapping[str, int], limit: int = 4) -> str:
    """Return ``Conv 53, Relu 49, +2 more`` from counts by name."""
    shown = ", ".join(f"{plain(name)} {number}" for name, number in list(counts.items())[:limit])
    return more_text(shown, len(counts) - limit)


def percentile_lines(one: Percentile | None) -> list[str]:
    """Return a percentile and, on its own line, its interval; a dash without one."""
    if one is None:
        return [ABSENT]
    if math.isinf(one.estimate_s):
        return [latency_text(one.estimate_s)]
    if not one.enough:
        return [format_seconds(one.estimate_s), "too few"]
    both = between(format_seconds(one.low_s), format_seconds(one.high_s))
    return [format_seconds(one.estimate_s), both]


def between(low: str, high: str) -> str:
    """Return ``1.2 to 1.4 ms``, a shared unit once; one end if both are equal."""
    number, _, unit = low.partition(" ")
    shared = unit and high.endswith(f" {unit}")
    return low if low == high else f"{number if shared else low} to {high}"


def name_lines(strategy: str, most: int = 13) -> list[str]:
    """Return a strategy on one line, or with its argument on a second if it is long."""
    name, colon, argument = strategy.partition(":")
    return [name + colon, argument] if colon and len(strategy) > most else [strategy]


def bytes_text(nbytes: int | None) -> str:
    """Return a size; a dash if it is unknown."""
    return ABSENT if nbytes is None else format_bytes(nbytes)


def on_time_text(share: float) -> str:
    """Return a share near one, of requests or time: ``99.95 %``; a dash for NaN."""
    return ABSENT if math.isnan(share) else f"{100 * share:.4g} %"


def more_text(shown: str, left: int, apart: str = ", ") -> str:
    """Return a cut list with the number of entries left out."""
    return f"{shown}{apart}+{left} more" if left > 0 else shown


def errors_record(errors: Sequence[HetsimError]) -> list[dict[str, Any]]:
    """Return the errors of a file as records."""
    return records(errors, "where what hint")


Row = TypeVar("Row")


def folded(names: Iterable[str]) -> list[str]:
    """Return the names with every run of numbered siblings as one range, in order.

    >>> folded(["cpu", "gpu.0", "gpu.1", "gpu.3"])
    ['cpu', 'gpu.0-1', 'gpu.3']
    """
    return [name for name, _ in fold_siblings(names)]


def fold_siblings(names: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Return the ranges of ``folded``, each with its names."""
    return _folded(names, str, lambda name: None)


def fold_rows(
    rows: Iterable[Row], name: Callable[[Row], str], looks: Callable[[Row], Hashable]
) -> list[tuple[str, Row]]:
    """Return the rows with neighbours that look alike merged into one, under a folded name.

    Rows are merged if `looks`, their content except the name, is equal and their names are numbered
    siblings.
    """
    return [(range_, run[0]) for range_, run in _folded(rows, name, looks)]


def _folded(
    rows: Iterable[Row], name: Callable[[Row], str], looks: Callable[[Row], Hashable]
) -> list[tuple[str, list[Row]]]:
    """Runs of alike siblings, each with its range."""
    runs: list[list[Row]] = []
    for row in rows:
        last = runs[-1][-1] if runs else None
        if last is not None and _follows(name(last), name(row)) and looks(last) == looks(row):
            runs[-1].append(row)
        else:
            runs.append([row])
    return [(_range([name(row) for row in run]), run) for run in runs]


def fold_links(links: Sequence[Link]) -> list[tuple[str, Link]]:
    """Return the links with like ones merged: the range of their ends, and the first of them.

    Like links have the same figures and share no bus. ``cpu - gpu.0-7``: one device with each
    of its siblings; ``gpu.0-7, each to each``: all pairs. Others stand alone. O(links).
    """
    alike = grouped(((one.latency_s, one.bytes_per_s, one.duplex, one.bus), one) for one in links)
    ends = (grouped(((_kind(one.a), _kind(one.b)), one) for one in like) for like in alike.values())
    return [row for by_end in ends for group in by_end.values() for row in _joined(group)]


def _joined(group: list[Link]) -> list[tuple[str, Link]]:
    ends = sorted({end for link in group for end in (link.a, link.b)}, key=_place)
    pairs = {frozenset((link.a, link.b)) for link in group}
    sources = list(dict.fromkeys(link.a for link in group))
    targets = folded(link.b for link in group)
    every = {frozenset(pair) for pair in combinations(ends, 2)}
    if len(group) > 2 and len(folded(ends)) == 1 and pairs == every:
        return [(f"{folded(ends)[0]}, each to each", group[0])]
    if len(sources) == 1 and len(targets) == 1:
        return [(f"{sources[0]} - {targets[0]}", group[0])]
    return [(f"{link.a} - {link.b}", link) for link in group]


def _kind(name: str) -> str:
    return name.rpartition(".")[0] or name


def _place(name: str) -> tuple[str, int]:
    kind, _, number = name.rpartition(".")
    return (kind, int(number)) if kind and number.isdecimal() else (name, -1)


def _follows(before: str, name: str) -> bool:
    (kind, last), (own, number) = _place(before), _place(name)
    return own == kind and 0 <= last == number - 1


def _range(run: Sequence[str]) -> str:
    return run[0] if len(run) == 1 else f"{run[0]}-{run[-1].rpartition('.')[2]}"
