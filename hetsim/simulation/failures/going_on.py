"""What is in flight goes on by other templates, on any driver of the clock's rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetsim.simulation.clock.rules import SHIFT
from hetsim.simulation.failures.changing import IS_RUNNING, Changing, InFlight, Ints
from hetsim.simulation.failures.rests import Rests
from hetsim.simulation.failures.ways_on import Onward


class Running(NamedTuple):
    """What runs: by row of those in flight, and place in its template; and its code."""

    row: Ints
    place: Ints
    code: Ints

    def some(self, which: NDArray[np.bool_]) -> Running:
        """Return some of them."""
        return Running(self.row[which], self.place[which], self.code[which])


class Moved(NamedTuple):
    """What became of what ran.

    Attributes
    ----------
    moves : dict of int to (int, int, int)
        By code: the new one, the rest, and the place in it.
    lost : list of int
        Codes of what was cut off.
    """

    moves: dict[int, tuple[int, int, int]]
    lost: list[int]


def running_of(flight: InFlight, rests: Rests) -> Running:
    """Return what runs of requests in flight. O(their tasks)."""
    row, place = np.nonzero(flight.progress == IS_RUNNING)
    task = rests.first[flight.template[row]] + place
    return Running(row, place, (flight.request[row] << SHIFT) + task)


def go_on(
    clock: Changing,
    rests: Rests,
    flight: InFlight,
    running: Running,
    ways: Sequence[Onward],
    way: Ints,
    expected: Ints,
    *,
    stopped: Sequence[bool],
    shut: Sequence[bool],
) -> Moved:
    """Lay out what each request in flight still has to do, and let the clock go on with that.

    Parameters
    ----------
    clock : Changing
    rests : Rests
        Those laid out are then what `ways` and `expected` name.
    flight, running
        Of all that is in flight.
    ways : sequence of Onward
    way : int array [requests]
        How each goes on.
    expected : int array
        Rests of requests that have not come.
    stopped, shut : sequence of bool
        As ``Changing.change`` takes them.
    """
    after = np.array([found.rest for found in ways], dtype=np.int64)[way]
    left = after >= 0
    structure, duration = rests.lay_out(np.unique(np.concatenate((after[left], expected))))
    template = np.searchsorted(rests.used, after)
    moves: dict[int, tuple[int, int, int]] = {}
    lost: list[int] = []
    for row, place, code in zip(*(part.tolist() for part in running), strict=True):
        there = ways[way[row]].places.get(place)
        if there is None:
            lost.append(code)
            continue
        task = int(rests.first[template[row]]) + there
        moves[code] = (code >> SHIFT << SHIFT) + task, int(after[row]), there
    stream = dict(zip(running.code.tolist(), flight.stream[running[:2]].tolist(), strict=True))
    clock.change(
        structure,
        duration,
        flight.request[left],
        template[left],
        [(new, stream[code]) for code, (new, _, _) in moves.items()],
        [(time, moves[code][0]) for time, code in clock.ends if code in moves],
        stopped=stopped,
        shut=shut,
    )
    return Moved(moves, lost)
