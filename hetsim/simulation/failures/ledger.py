"""What started on a clock whose templates change: one line a task, whatever becomes of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetsim.simulation.clock.rules import MASK, SHIFT
from hetsim.simulation.clock.virtual_time import Lines
from hetsim.simulation.failures.rests import Rests, Task


@dataclass(frozen=True, eq=False)
class Started:
    """What started, in that order.

    Attributes
    ----------
    tasks : sequence of Task
        All that there were, over all rests.
    request, task, stream : int array [lines]
        `task` is an index into `tasks`.
    start, end : float array [lines]
        Seconds; of what was cut off when it was.
    lost, counts : bool array [lines]
        Whether it was cut off; whether its request was not over before it.
    """

    tasks: Sequence[Task]
    request: NDArray[np.int64]
    task: NDArray[np.int64]
    stream: NDArray[np.int64]
    start: NDArray[np.float64]
    end: NDArray[np.float64]
    lost: NDArray[np.bool_]
    counts: NDArray[np.bool_]


class Ledger:
    """Lines, and which of them tasks that run now have."""

    def __init__(self, rests: Rests) -> None:
        self._rests = rests
        self._count = 0
        self._chunks: list[tuple[NDArray[np.int64], ...]] = []
        self._starts: list[NDArray[np.float64]] = []
        self._line_of: dict[int, int] = {}
        self._moved: dict[int, tuple[int, int]] = {}
        self._lost_s: dict[int, float] = {}

    def write(self, lines: Lines, running: NDArray[np.int64]) -> None:
        """Take what has started by the templates of now; `running` are the codes that run."""
        codes, starts, streams = lines
        task = codes & MASK
        template = np.searchsorted(self._rests.first, task, side="right") - 1
        place = task - self._rests.first[template]
        self._chunks.append((codes >> SHIFT, self._rests.used[template], place, streams))
        self._starts.append(starts)
        here = np.flatnonzero(np.isin(codes, running))
        self._line_of.update(zip(codes[here].tolist(), (self._count + here).tolist(), strict=True))
        self._count += len(codes)

    def lose(self, codes: Iterable[int], now: float) -> None:
        """Note that tasks that run were cut off, unless they were before."""
        for code in codes:
            self._lost_s.setdefault(self._line_of[code], now)

    def move(self, moves: Mapping[int, tuple[int, int, int]]) -> None:
        """Note what tasks that run are by other templates: by code the new one, rest, place."""
        lines = {new: self._line_of[code] for code, (new, _, _) in moves.items()}
        for new, rest, place in moves.values():
            self._moved[lines[new]] = rest, place
        self._line_of = lines

    def closed(self) -> Started:
        """Return all lines. O(lines + tasks of all rests)."""
        request, rest, place, stream = (
            np.concatenate([chunk[part] for chunk in self._chunks]) for part in range(4)
        )
        if self._moved:
            lines = np.array(list(self._moved), dtype=np.int64)
            rest[lines], place[lines] = np.array(list(self._moved.values()), dtype=np.int64).T
        known = self._rests.known
        first = np.cumsum([0, *(len(one.tasks) for one in known)])
        tasks = [task for one in known for task in one.tasks]
        task_of = first[rest] + place
        seconds = np.array([task.seconds for task in tasks], dtype=np.float64)
        counts = np.array([counted for one in known for counted in one.counts], dtype=np.bool_)
        start = np.concatenate(self._starts)
        end = start + seconds[task_of]
        lost = np.zeros(len(start), dtype=np.bool_)
        for line, at_s in self._lost_s.items():
            lost[line], end[line] = True, at_s
        return Started(tasks, request, task_of, stream, start, end, lost, counts[task_of])
