"""What requests have to do from some moment on: records, each kept once, and what is laid out."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetsim.partitioning.groups import Group
from hetsim.simulation.clock.rules import Structure
from hetsim.simulation.clock.structure import Part, structure_of
from hetsim.simulation.failures.changing import HAS_ENDED

Held = Mapping[int, frozenset[int]]
"""Devices that hold a value."""


@dataclass(frozen=True, slots=True)
class Task:
    """A subgraph or a transfer.

    Attributes
    ----------
    version, index : int
        Its place among the tasks of a request; ends at one instant are taken in this order.
    seconds : float
    device : int
        Where a subgraph runs; -1 for a transfer.
    group : int
        The subgraph, counted over all replicas; of a transfer the one that sends it, -1 where
        none does any more.
    value, source, target : int
        Of a transfer.
    resources : tuple of int
        Links that a transfer holds.
    gives : tuple of (int, int)
        Values that are there when it ends, each with its device.
    ends : tuple of int
        Of a subgraph: its nodes that nobody reads from.
    """

    version: int
    index: int
    seconds: float
    device: int
    group: int
    value: int = -1
    source: int = -1
    target: int = -1
    resources: tuple[int, ...] = ()
    gives: tuple[tuple[int, int], ...] = ()
    ends: tuple[int, ...] = ()

    def needs(self, device: int) -> bool:
        """Whether it is lost with a device."""
        return device in (self.device, self.source, self.target)


@dataclass(frozen=True, slots=True, eq=False)
class Rest:
    """What a request has to do from some moment on: a template for the clock.

    Attributes
    ----------
    groups : tuple of Group
        Of the replica that it runs.
    held : mapping of int to set of int
    computed : set of int
        Nodes that nobody reads from and that have run.
    tasks : tuple of Task
        By (version, index); those under way at that moment among them.
    before : tuple of tuple of int
        By task: places of those that must end first.
    under_way : tuple of int
        Places of tasks that run at that moment, in the order that they were given in.
    counts : tuple of bool
        By task: whether the request is not over before it is.
    """

    groups: tuple[Group, ...]
    held: Held
    computed: frozenset[int]
    tasks: tuple[Task, ...]
    before: tuple[tuple[int, ...], ...]
    under_way: tuple[int, ...]
    counts: tuple[bool, ...]


def runs_again(before: Rest, progress: NDArray[np.int8], after: Rest) -> bool:
    """Whether something has to run that has ended; `progress` as ``InFlight`` has it."""
    ran = {
        (task.version, task.index)
        for task, done in zip(before.tasks, progress.tolist(), strict=False)
        if done == HAS_ENDED and task.device >= 0
    }
    return any(
        (task.version, task.index) in ran
        for at, task in enumerate(after.tasks)
        if task.device >= 0 and at not in after.under_way
    )


def leftovers(rest: Rest, running: Sequence[Task]) -> Rest:
    """Return tasks under way that nobody waits for any more, of a request that is over."""
    order = sorted(range(len(running)), key=lambda k: (running[k].version, running[k].index))
    none: tuple[tuple[int, ...], ...] = ((),) * len(running)
    return Rest(
        rest.groups,
        rest.held,
        rest.computed,
        tuple(running[k] for k in order),
        none,
        tuple(order.index(k) for k in range(len(running))),
        (False,) * len(running),
    )


class Rests:
    """Rests by number; those in use are the clock's templates.

    Attributes
    ----------
    known : list of Rest
    used : int array [templates]
        Which rests are laid out.
    first : int array [templates + 1]
        Where the tasks of each begin.
    """

    def __init__(self, streams: Sequence[int]) -> None:
        self.known: list[Rest] = []
        self.used: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.first: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
        self._streams = streams
        self._number_of: dict[Hashable, int] = {}
        self._parts: list[Part] = []

    def number(self, key: Hashable, make: Callable[[], Rest]) -> int:
        """Return the number of the rest of this key, made where there is none."""
        if key not in self._number_of:
            rest = make()
            self._number_of[key] = len(self.known)
            self.known.append(rest)
            self._parts.append(
                Part(
                    [t.device if t.device >= 0 else -1 - t.target for t in rest.tasks],
                    rest.before,
                    [task.resources for task in rest.tasks],
                    rest.under_way,
                )
            )
        return self._number_of[key]

    def lay_out(self, used: NDArray[np.int64]) -> tuple[Structure, NDArray[np.float64]]:
        """Return some rests as the clock takes them: their structure, and seconds by task.

        What is under way and nobody waits for has no seconds: NaN.
        """
        numbers = used.tolist()
        structure = structure_of([self._parts[number] for number in numbers], self._streams)
        self.used, self.first = used, np.array(structure.first, dtype=np.int64)
        rests = [self.known[number] for number in numbers]
        seconds = [
            task.seconds if counts else math.nan
            for rest in rests
            for task, counts in zip(rest.tasks, rest.counts, strict=True)
        ]
        return structure, np.array(seconds, dtype=np.float64)
