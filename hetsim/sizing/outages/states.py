"""All states of what is up, as far as they matter: a tree of which devices plans run on."""

from __future__ import annotations

import math
from itertools import product

from hetsim.errors import UsageError
from hetsim.sizing.outages.chances import Counts
from hetsim.sizing.outages.left import Leaving
from hetsim.sizing.outages.ways import names_of

MOST = 2**20
"""States of which chances are told."""


def states_of(leaving: Leaving) -> tuple[Counts, ...]:
    """Return the states of what is up, all together: how many are down of each class.

    Classes that nothing runs on are not asked about: a plan that runs on devices that are up is
    not made anew for what else is down. So a state is split further where something is planned
    anew and then runs on devices of which nothing is known yet.

    Raises UsageError where there are too many.
    """
    found: list[Counts] = []
    open_: list[Counts] = [(None,) * len(leaving.classes)]
    while open_:
        state = open_.pop()
        used = leaving.without(frozenset(names_of(leaving, state))).used
        need = [
            k for k, names in enumerate(leaving.classes) if state[k] is None and used & set(names)
        ]
        if not need:
            found.append(state)
            continue
        sizes = [len(leaving.classes[k]) for k in need]
        if len(found) + len(open_) + math.prod(size + 1 for size in sizes) > MOST:
            raise UsageError(
                f"more than {MOST} states of what is up: {', '.join(map(str, sizes))} devices of "
                f"{len(sizes)} kinds",
                hint="put like devices next to each other under instances:, each with as many "
                "instances, so that it matters only how many are up",
            )
        for counts in product(*(range(size + 1) for size in sizes)):
            split = list(state)
            for k, count in zip(need, counts, strict=True):
                split[k] = count
            open_.append(tuple(split))
    return tuple(sorted(found, key=lambda state: tuple(-1 if k is None else k for k in state)))
