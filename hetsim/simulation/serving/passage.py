"""The requests of one model, played one after another without a heap of events."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.simulation.clock.playing import Layout
from hetsim.simulation.recursion.playing import Recursion, Served
from hetsim.simulation.recursion.queues import new_queues, with_room
from hetsim.simulation.serving import gates
from hetsim.simulation.serving.flattening import as_arrays, loads, seconds_alone
from hetsim.simulation.serving.gates import Passed
from hetsim.simulation.serving.setup import ROUTINGS, Model
from hetsim.simulation.serving.tables import SERVED

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def nothing_passed(count: int) -> Passed:
    """Return room for what becomes of so many requests."""
    return Passed(
        np.empty(count),
        np.empty(count),
        np.empty(count),
        np.empty(count, dtype=np.int32),
        np.empty(count, dtype=np.int8),
        np.empty(count, dtype=np.bool_),
    )


class Passage:
    """One model's requests so far."""

    def __init__(
        self,
        layout: Layout,
        duration: Floats,
        model: Model,
        *,
        machine_code: bool,
        known: tuple[Floats, Floats] | None = None,
    ) -> None:
        self.recursion = Recursion(layout, duration, machine_code=machine_code)
        self._arrays = machine_code
        instances = len(model.limits)
        templates = len(layout.first) - 1
        cycle = np.array(model.cycle or range(instances), dtype=np.int64)
        self._cycle = cycle
        self._table = model.template[:, :, 0]
        # Told as they come, whatever becomes of those before.
        self._given = not model.gated and (model.routing == "round_robin" or instances == 1)
        self._came = 0
        self._busy = np.full(instances, -math.inf)
        self.ran = np.zeros(templates, dtype=np.int64)
        alone = load = np.zeros(templates)
        if model.routing == "least_finish":
            alone, load = known or (seconds_alone(layout, duration), loads(layout, duration))
        made: Any = gates.Gates(
            table=self._table.reshape(-1).tolist(),
            limit=list(model.limits),
            cycle=cycle.tolist(),
            alone=alone.tolist(),
            load=load.tolist(),
            routing=ROUTINGS.index(model.routing),
            gated=int(model.gated),
            room=-1 if model.max_queue_size is None else model.max_queue_size,
            timeout=float(model.timeout_s),
            free=[-math.inf] * instances,
            last=[-math.inf] * instances,
            turn=[0],
            left=[-math.inf],
        )
        self._gates: Any = as_arrays(made) if machine_code else made
        self._inside = new_queues(instances, machine_code)
        self._waiting = new_queues(1, machine_code)

    def play(self, arrival: Floats, variant: Ints, passed: Passed) -> bool:
        """Play requests that follow each other into `passed`; return whether that is certain."""
        if not self._given:
            return self._through_gates(arrival, variant, passed)
        passed.left[:] = arrival
        passed.why[:] = SERVED
        if len(self._busy) == 1:
            return self._through_one(arrival, variant, passed)
        return self._dealt(arrival, variant, passed)

    def _through_one(self, arrival: Floats, variant: Ints, passed: Passed) -> bool:
        alike = len(self._table) == 1
        template = np.full(len(arrival), self._table[0, 0])
        if not alike:
            template = self._table[variant, 0]
        if not self.recursion.play(arrival, Served(template, passed.begun, passed.finish)):
            return False
        # When it has nothing to do any more, before each that it got.
        busy = np.concatenate([self._busy, passed.finish])
        if not alike:
            # Of one template they end in order.
            busy = np.maximum.accumulate(busy)
        self._busy = busy[-1:]
        passed.instance[:] = 0
        np.less_equal(busy[:-1], arrival, out=passed.fresh)
        if alike:
            self.ran[self._table[0, 0]] += len(arrival)
        else:
            self._count(template)
        return self._certain(passed.finish) or not (busy[:-1] == arrival).any()

    def _dealt(self, arrival: Floats, variant: Ints, passed: Passed) -> bool:
        count = len(arrival)
        instance = self._cycle[np.arange(self._came, self._came + count) % len(self._cycle)]
        self._came += count
        template = self._table[variant, instance]
        if not self.recursion.play(arrival, Served(template, passed.begun, passed.finish)):
            return False
        passed.instance[:] = instance
        passed.fresh[:] = False
        tied = False
        for k in range(len(self._busy)):
            mine = instance == k
            busy = np.concatenate([self._busy[k : k + 1], passed.finish[mine]])
            busy = np.maximum.accumulate(busy)
            self._busy[k] = busy[-1]
            before = busy[np.cumsum(mine) - mine]
            np.logical_or(passed.fresh, before <= arrival, out=passed.fresh)
            tied = tied or bool((before == arrival).any())
        self._count(template)
        return not tied or self._certain(passed.finish)

    def _through_gates(self, arrival: Floats, variant: Ints, passed: Passed) -> bool:
        count = len(arrival)
        self._inside = with_room(self._inside, count, self._arrays)
        if self._gates.room >= 0:
            self._waiting = with_room(self._waiting, count, self._arrays)
        go: Any = gates.compiled() if self._arrays else gates.go
        columns: Any = (np.ascontiguousarray(arrival), np.ascontiguousarray(variant))
        into = passed
        if not self._arrays:
            columns = [column.tolist() for column in columns]
            into = Passed._make(column.tolist() for column in passed)
        played = go(
            self.recursion.tasks, self.recursion.streams, self._gates, self._inside, self._waiting,
            *columns, into,
        )  # fmt: skip
        if played < count:
            return False
        if not self._arrays:
            for column, values in zip(passed, into, strict=True):
                column[:] = values
        ran = passed.why == SERVED
        self._count(self._table[variant[ran], passed.instance[ran]])
        # What floats cannot tell apart is in an order that the heap alone knows.
        return self.recursion.instant or self._certain(passed.finish)

    def _certain(self, finish: Floats) -> bool:
        return self.recursion.tells_apart(finish)

    def _count(self, template: Ints) -> None:
        self.ran += np.bincount(template, minlength=len(self.ran))
