"""How long queues are while requests of which all times are known come, leave them and end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.simulation.clock.virtual_time import in_slots
from hetsim.simulation.serving import moves
from hetsim.simulation.serving.flattening import as_arrays, new_spans
from hetsim.simulation.serving.gates import Passed
from hetsim.simulation.serving.lengths import lengths_of
from hetsim.simulation.serving.outcomes import Lengths
from hetsim.simulation.serving.tables import EXPIRED, FULL

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Following:
    """Queue lengths so far, and what is known already but did not happen yet.

    Parameters
    ----------
    waits : sequence of bool
        Of each model, whether its requests go through a queue.
    asked : int
        Models of which requests come.
    window_s : float, optional
        Length of the first windows.
    machine_code : bool
    """

    def __init__(
        self, waits: Sequence[bool], asked: int, window_s: float | None, *, machine_code: bool
    ) -> None:
        self._waits = np.array(waits, dtype=np.int64)
        self._one = asked == 1
        self._arrays = machine_code
        spans = new_spans(len(waits), window_s, arrays=machine_code)
        present = moves.Now([0] * len(waits), [0] * len(waits))
        self._spans: Any = spans if machine_code else in_slots(spans)
        self._present: Any = as_arrays(present) if machine_code else in_slots(present)
        self._came = 0
        # When they leave the queue, or are over; of several models with what puts those of one
        # time in order.
        self._leaving = np.zeros((1 if self._one else 4, 0))
        self._ending = self._leaving
        self._model = 0

    def begin(self, at_s: float) -> None:
        """Let time begin."""
        self._spans.length[1] = at_s
        for model in range(len(self._waits)):
            self._spans.since[model] = at_s

    def lengths(self, now_s: float) -> Lengths:
        """Return the queue lengths so far."""
        return lengths_of(self._present, self._spans, now_s)

    def take(self, arrival: Floats, model: Ints, passed: Passed, over_s: Floats) -> None:
        """Count until the last of requests that follow each other comes.

        `over_s` is when each was answered or rejected.
        """
        full = passed.why == FULL
        stays = slice(None) if not full.any() else ~full
        if self._one:
            self._model = int(model[0])
            ending, leaving = over_s[stays][None], self._leaving
            if self._waits[self._model]:
                leaving = np.concatenate([leaving, passed.left[stays][None]], 1)
            # A queue is left in order; which of two that end at one time is first is the same.
            self._leaving = leaving
            self._ending = np.sort(np.concatenate([self._ending, ending], 1), kind="stable")
        else:
            number = np.arange(self._came, self._came + len(arrival))
            self._came += len(arrival)
            rows = np.stack([over_s, passed.left, number, model])[:, stays]
            queued = rows[:, self._waits[model[stays]] > 0]
            self._leaving = self._in_order(np.concatenate([self._leaving, queued[[1, 1, 2, 3]]], 1))
            self._ending = self._in_order(np.concatenate([self._ending, rows], 1))
        self._follow(arrival, np.where(full, -1 - model, model), passed.why, float(arrival[-1]))

    def rest(self) -> float:
        """Let all that is known happen; return when the last of it did, or minus infinity."""
        until_s = float(self._ending[0].max(initial=-np.inf))
        none, nowhere = np.zeros(0), np.zeros(0, dtype=np.int64)
        self._follow(none, nowhere, np.zeros(0, dtype=np.int8), until_s)
        return until_s

    def _in_order(self, rows: Floats) -> Floats:
        """Sort by time; at one time as the heap has it: as they went."""
        _, left, number, model = rows
        gated = self._waits[model.astype(np.int64)]
        order = np.lexsort((number, model * gated, gated, left, rows[0]))
        found: Floats = rows[:, order]
        return found

    def _follow(self, came: Floats, came_of: Ints, why: Any, until_s: float) -> None:
        leaves = int(np.searchsorted(self._leaving[0], until_s, side="right"))
        ends = int(np.searchsorted(self._ending[0], until_s, side="right"))
        left, over = self._leaving[:, :leaves], self._ending[:, :ends]
        self._leaving, self._ending = self._leaving[:, leaves:], self._ending[:, ends:]
        if self._one:
            columns: list[Any] = [came, why, left[0], over[0]]
        else:
            columns = [came, came_of, left[0], _whole(left[3]), over[0], _whole(over[3])]
        columns = [np.ascontiguousarray(one) if self._arrays else one.tolist() for one in columns]
        follow: Any
        if self._one:
            follow = moves.compiled_one() if self._arrays else moves.follow_one
            follow(self._present, self._spans, self._model, *columns, int(self._waits[self._model]))
        else:
            follow = moves.compiled() if self._arrays else moves.follow
            waits = self._waits if self._arrays else self._waits.tolist()
            follow(self._present, self._spans, moves.Moves._make((*columns, waits)))


def over_at(passed: Passed) -> Floats:
    """Return when each was answered or rejected; NaN where that was as it came."""
    expired = passed.why == EXPIRED
    if not expired.any():
        finish: Floats = passed.finish
        return finish
    either: Floats = np.where(expired, passed.left, passed.finish)
    return either


def _whole(row: Floats) -> Ints:
    return row.astype(np.int64)
