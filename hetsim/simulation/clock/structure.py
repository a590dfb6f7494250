"""Templates put one after another, as the clock's rules take them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hetsim.simulation.clock.rules import Structure
from hetsim.simulation.clock.templates import flat


class Part(NamedTuple):
    """One template.

    Attributes
    ----------
    device : [tasks]
        Of a subgraph; of a transfer -1 less the device that it goes to.
    before : [tasks]
        Tasks that must end before a task.
    held : [tasks]
        Links that it holds.
    under_way : of int
        Tasks that run already when the request comes; they wait for nothing.
    """

    device: Sequence[int]
    before: Sequence[Sequence[int]]
    held: Sequence[tuple[int, ...]]
    under_way: Sequence[int] = ()


def structure_of(parts: Iterable[Part], streams: Sequence[int]) -> Structure:
    """Put templates one after another. O(tasks and dependencies)."""
    devices = len(streams)
    first = [0]
    waits: list[int] = []
    device_of: list[int] = []
    followers: list[list[int]] = []
    turn_at, turn = [0], list[int]()
    held: list[tuple[int, ...]] = []
    roots: list[list[int]] = []
    for device, before, holds, under_way in parts:
        base = first[-1]
        first.append(base + len(device))
        needs = [len(tasks) for tasks in before]
        for task in under_way:
            # One that never comes: nobody starts it anew.
            needs[task] = 1
        waits += needs
        device_of += device
        followers += [[] for _ in device]
        for task, earlier in enumerate(before, start=base):
            for predecessor in earlier:
                followers[base + predecessor].append(task)
        mine: dict[int, list[int]] = {}
        free: list[int] = []
        for task, place in enumerate(device, start=base):
            if place >= 0:
                mine.setdefault(place, []).append(task)
            elif not needs[task - base]:
                free.append(task)
        for task in under_way:
            if device[task] >= 0:
                mine[device[task]].remove(base + task)
        for place in range(devices):
            turn += mine.get(place, ())
            turn_at.append(len(turn))
        roots.append(free)
        held += holds
    return Structure(
        first, waits, *flat(followers), device_of, turn_at, turn, streams, *flat(held), *flat(roots)
    )
