"""How long devices and links were busy, where templates change under what runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.simulation.failures.alike import alike
from hetsim.simulation.failures.rests import Rests, Task

Floats = NDArray[np.float64]


class Spent:
    """Busy seconds: of whole templates as they begin, less what of them never ran."""

    def __init__(self, rests: Rests, devices: int, links: int) -> None:
        self._rests = rests
        self._devices = devices
        self._more: Floats = np.zeros(devices + links)
        self._whole: dict[int, Floats] = {}
        self._began: dict[int, int] = {}

    def begin(self, ran: Any) -> None:
        """Count the templates that were begun, by their number among those laid out."""
        self._began = self.begun(ran)

    def add(self, task: Task, seconds: float) -> None:
        """Count some time of a task; below 0: time that it did not run after all."""
        self._more += self._of(task, seconds)

    def leave(self, numbers: NDArray[np.int64], progress: NDArray[np.int8]) -> None:
        """Take back what requests have of their rests and have not begun.

        `progress` is theirs, as ``InFlight`` has it. Those that are alike are taken together.
        """
        first, kind = alike((numbers,), progress)
        for row, times in zip(first.tolist(), np.bincount(kind).tolist(), strict=True):
            begun = np.flatnonzero(progress[row]).tolist()
            self._more -= times * self._of_rest(int(numbers[row]), begun)

    def enter(self, numbers: NDArray[np.int64]) -> None:
        """Count what requests have of rests, but for what is under way, which was counted."""
        kinds, kind = np.unique(numbers, return_inverse=True)
        if not len(kinds):
            return
        seconds = [self._of_rest(one, self._rests.known[one].under_way) for one in kinds.tolist()]
        # One after another: how floats are rounded hangs on it.
        self._more = np.add.accumulate(np.vstack((self._more, np.array(seconds)[kind])))[-1]

    def begun(self, ran: Any) -> dict[int, int]:
        """Return how often each rest was begun; `ran` as in ``begin``, since that was called."""
        found = dict(self._began)
        for number, times in zip(self._rests.used.tolist(), list(ran), strict=True):
            if times:
                found[number] = found.get(number, 0) + int(times)
        return found

    def busy(self, ran: Any) -> tuple[list[float], list[float]]:
        """Return busy seconds by device, summed over streams, and by link.

        `ran` as in ``begin``: what was begun since that was called last.
        """
        total = self._more.copy()
        for number, times in self.begun(ran).items():
            total += times * self._of_rest(number, ())
        seconds = np.maximum(total, 0.0).tolist()
        return seconds[: self._devices], seconds[self._devices :]

    def _of_rest(self, number: int, without: Sequence[int]) -> Floats:
        """Seconds by device and link of a rest, but for some of its tasks."""
        tasks = self._rests.known[number].tasks
        if number not in self._whole:
            self._whole[number] = sum(
                (self._of(task, task.seconds) for task in tasks), np.zeros(len(self._more))
            )
        if not without:
            return self._whole[number]
        left = self._whole[number].copy()
        for place in without:
            left -= self._of(tasks[place], tasks[place].seconds)
        return left

    def _of(self, task: Task, seconds: float) -> Floats:
        found = np.zeros(len(self._more))
        if task.device >= 0:
            found[task.device] = seconds
        for link in task.resources:
            found[self._devices + link] = seconds
        return found
