"""What is left of a deployment without some devices, each that is not the same once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

from hetsim.errors import UsageError
from hetsim.provisioning.platforms.policies import Placed
from hetsim.provisioning.platforms.question import Question

MOST_WAYS = 100_000
"""To lose devices of one vector."""


class Left(NamedTuple):
    """What is left.

    Attributes
    ----------
    lost : tuple of int
        Devices of the vector; empty: all are there.
    placed : Placed or str
        Where models are served then; or which of them no longer is.
    """

    lost: tuple[int, ...]
    placed: Placed | str


def lefts(question: Question, where: Placed) -> list[Left]:
    """Return what any so many losses leave that is not the same, with nothing lost first.

    Instances on a device that is lost are gone, links stay. What has the same instances but for
    which copies of kinds these are on is the same to the last bit (decision 38), and so is what
    loses devices that nothing runs on.

    Raises UsageError where there are too many ways to lose them. O(ways x instances).
    """
    if not question.losses:
        return [Left((), where)]
    used = sorted({at for mine in where.instances for one in mine for at in one.devices})
    found = {shape_of(where): Left((), where)}
    ways = 0
    for count in range(1, question.losses + 1):
        for lost in combinations(used, count):
            ways += 1
            if ways > MOST_WAYS:
                raise UsageError(
                    f"more than {MOST_WAYS} ways to lose {question.losses} devices",
                    hint="ask what survives fewer losses, or give fewer --max-devices",
                )
            left = without(where, lost)
            gone = [at for at, mine in enumerate(left.instances) if not mine]
            if gone:
                kinds = [question.types[where.places[at].of_type].name for at in lost]
                text = f"nothing serves {question.models[gone[0]]} without {' and '.join(kinds)}"
                found.setdefault(text, Left(lost, text))
            else:
                found.setdefault(shape_of(left), Left(lost, left))
    return list(found.values())


def without(where: Placed, lost: Sequence[int]) -> Placed:
    """Return a placement without the instances on some devices."""
    return Placed(
        where.places,
        tuple(
            tuple(one for one in mine if not set(one.devices) & set(lost))
            for mine in where.instances
        ),
    )


def shape_of(where: Placed) -> object:
    """Return the instances, with the copies of kinds numbered as they are met."""
    number: dict[tuple[int, int], int] = {}
    rows = []
    for mine in where.instances:
        row = []
        for one in mine:
            on = [where.places[at] for at in one.devices]
            copies = [number.setdefault((at.kind, at.unit), len(number)) for at in on]
            row.append(
                (one.split, tuple((at.of_type, k) for at, k in zip(on, copies, strict=True)))
            )
        rows.append(tuple(row))
    return tuple(rows)
