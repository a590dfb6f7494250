"""Ways to lose up to so many devices, those that leave the same together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from hetsim.errors import UsageError
from hetsim.sizing.answer import Choice
from hetsim.sizing.outages.left import Leaving, Left

MOST = 2**20
"""Ways to lose devices that are looked at."""

Vector: TypeAlias = tuple[int, ...]
"""How many devices of each class are down."""

Counts: TypeAlias = tuple[int | None, ...]
"""The same; None: any number."""


class Way(NamedTuple):
    """One way to lose devices, for all that leave the same.

    Attributes
    ----------
    lost : tuple of str
        Those that were left out, in the platform's order.
    sets : tuple of Choice
        What it stands for; the first has `lost` in it.
    left : Left
    """

    lost: tuple[str, ...]
    sets: tuple[Choice, ...]
    left: Left


def ways(leaving: Leaving, losses: int) -> tuple[list[Way], tuple[str, ...]]:
    """Return the ways to lose up to so many devices that leave something else each.

    The first is to lose none. Beside them the devices of which the loss alone changes nothing.
    Those that leave one shape stand together. A way is left out of which another is a part that
    leaves the same.

    Raises UsageError where there are too many ways.
    """
    sizes = [len(one) for one in leaving.classes]
    rows: dict[object, list[Vector]] = {}
    of_way: dict[Vector, Left] = {}
    unused: list[str] = []
    for vector in _vectors(sizes, losses):
        if len(of_way) == MOST:
            raise UsageError(
                f"more than {MOST} ways to lose {losses} of {len(leaving.devices)} devices",
                hint="ask for fewer",
            )
        left = leaving.without(frozenset(names_of(leaving, vector)))
        of_way[vector] = left
        if not any(of_way[less] is left for less in _less(vector)):
            rows.setdefault(left.shape, []).append(vector)
        elif sum(vector) == 1:
            unused += leaving.classes[vector.index(1)]
    found = [
        Way(
            names_of(leaving, same[0]),
            tuple(choice_of(leaving, vector) for vector in same),
            of_way[same[0]],
        )
        for same in rows.values()
    ]
    return found, tuple(name for name in leaving.devices if name in unused)


def names_of(leaving: Leaving, counts: Counts) -> tuple[str, ...]:
    """Return the devices that stand for so many of each class: the first ones."""
    lost = {
        name
        for count, names in zip(counts, leaving.classes, strict=True)
        for name in names[: count or 0]
    }
    return tuple(name for name in leaving.devices if name in lost)


def choice_of(leaving: Leaving, counts: Counts) -> Choice:
    """Return how many are down of which devices."""
    return tuple(
        (count, names) for count, names in zip(counts, leaving.classes, strict=True) if count
    )


def _vectors(sizes: Sequence[int], most: int) -> Iterator[Vector]:
    """Give all counts up to the sizes that sum up to `most` at most, small sums first."""

    def of_sum(at: int, left: int) -> Iterator[Vector]:
        if at == len(sizes):
            if left == 0:
                yield ()
            return
        if left > sum(sizes[at:]):
            return
        for count in range(min(sizes[at], left), -1, -1):
            for rest in of_sum(at + 1, left - count):
                yield (count, *rest)

    for total in range(min(most, sum(sizes)) + 1):
        yield from of_sum(0, total)


def _less(vector: Vector) -> Iterator[Vector]:
    """Give the vectors with one device less down."""
    for at, count in enumerate(vector):
        if count:
            yield (*vector[:at], count - 1, *vector[at + 1 :])
