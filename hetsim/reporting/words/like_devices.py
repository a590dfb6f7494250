"""Numbered devices of one kind as ranges: ``gpu.0`` to ``gpu.7`` as ``gpu.0-7``."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import combinations
from typing import TypeVar

from hetsim.hardware.spec import Link

Row = TypeVar("Row")


def folded(names: Iterable[str]) -> list[str]:
    """Return the names with every run of numbered siblings as one range, in order.

    >>> folded(["cpu", "gpu.0", "gpu.1", "gpu.3"])
    ['cpu', 'gpu.0-1', 'gpu.3']
    """
    return [name for name, _ in fold_siblings(names)]


def fold_siblings(names: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Return the ranges of ``folded``, each with its names."""
    runs: list[list[str]] = []
    for name in names:
        if runs and _follows(runs[-1][-1], name):
            runs[-1].append(name)
        else:
            runs.append([name])
    return [(_range(run), run) for run in runs]


def fold_rows(
    rows: Sequence[Row], name: Callable[[Row], str], looks: Callable[[Row], Hashable]
) -> list[tuple[str, Row]]:
    """Return the rows with neighbours that look alike as one, under their folded name.

    Rows are joined where `looks`, what a row shows besides its name, is equal and their names are
    numbered siblings.
    """
    runs: list[list[Row]] = []
    for row in rows:
        last = runs[-1][-1] if runs else None
        if last is not None and _follows(name(last), name(row)) and looks(last) == looks(row):
            runs[-1].append(row)
        else:
            runs.append([row])
    return [(_range([name(row) for row in run]), run[0]) for run in runs]


def fold_links(links: Sequence[Link]) -> list[tuple[str, Link]]:
    """Return the links with like ones as one: what they join, and the first of them.

    Like links have the same figures and share no bus. ``cpu - gpu.0-7``: one device with each
    of its siblings; ``gpu.0-7, each to each``: all pairs. Others stand alone. O(links).
    """
    alike: dict[tuple[float, float, bool, str | None], list[Link]] = {}
    for link in links:
        alike.setdefault((link.latency_s, link.bytes_per_s, link.duplex, link.bus), []).append(link)
    found: list[tuple[str, Link]] = []
    for like in alike.values():
        by_end: dict[tuple[str, str], list[Link]] = {}
        for link in like:
            by_end.setdefault((_kind(link.a), _kind(link.b)), []).append(link)
        for group in by_end.values():
            found += _joined(group)
    return found


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
    return (kind, int(number)) if number.isdigit() else (name, -1)


def _follows(before: str, name: str) -> bool:
    kind, _, number = name.rpartition(".")
    sibling, _, last = before.rpartition(".")
    return bool(
        kind
        and kind == sibling
        and number.isdecimal()
        and last.isdecimal()
        and int(number) == int(last) + 1
    )


def _range(run: Sequence[str]) -> str:
    return run[0] if len(run) == 1 else f"{run[0]}-{run[-1].rpartition('.')[2]}"
