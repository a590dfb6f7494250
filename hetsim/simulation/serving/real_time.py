"""Plans under load in real time: the caller runs started tasks and reports their ends.

Uses the driver of virtual time: a task run by the caller has an infinite duration until its end is
reported.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from heapq import heapify
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetsim.simulation.clock import rules, virtual_time
from hetsim.simulation.clock.templates import TemplateLayout
from hetsim.simulation.serving.driver import FILLED, LATER, MORE, OVER, RequestBlock, upcoming
from hetsim.simulation.serving.engine import BLOCK, Serving
from hetsim.simulation.serving.setup import Clients, ModelSetup, Outcomes, RequestSource
from hetsim.simulation.serving.tables import LIMIT, TAKEN, requests_of

Block = tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]
"""Block of arriving requests: arrivals in seconds, streams, variants."""


class Started(NamedTuple):
    """Task, numbered over all templates, that the caller is to run now, from `at_s` on."""

    batch: int
    task: int
    at_s: float


class RealTime(Serving):
    """Models on one platform with tasks whose ends the caller reports.

    Arguments as in ``Serving``; `duration` estimates where batches end first. A task ends
    automatically after its seconds `lasts` [tasks], infinite if ``ended`` reports it. `blocks` of
    arrivals ascend over all, and are read as time advances.
    """

    _shortens = False

    def __init__(
        self,
        layout: TemplateLayout,
        duration: NDArray[np.float64],
        models: Sequence[ModelSetup],
        sources: Sequence[RequestSource],
        clients: Sequence[Clients] = (),
        *,
        lasts: NDArray[np.float64],
        blocks: Iterable[Block],
        requests: int | None = None,
        until_s: float = math.inf,
    ) -> None:
        super().__init__(
            layout,
            duration,
            models,
            sources,
            clients,
            requests=requests,
            until_s=until_s,
            machine_code=False,
        )
        self._duration = lasts.tolist()
        self._blocks_to_come = iter(blocks)
        self._coming: Any = RequestBlock([], [], [], 0)
        self._outside: set[tuple[int, int]] = set()
        self._parts: list[Outcomes] = []
        self._advance(-math.inf)

    @property
    def next_s(self) -> float:
        """Time of the next event that needs no report by the caller; infinite without one."""
        return upcoming(self._setup, self._flow, self._coming, self._events, self._returning)

    @property
    def over(self) -> bool:
        """Whether all requests are over and no more arrive."""
        return self.next_s == math.inf and not self._outside

    def step(self) -> tuple[Started, ...]:
        """Process all events at ``next_s``; return the tasks to run, in order."""
        at_s = self.next_s
        self._advance(at_s)
        found = [code for time_s, code in self._events if time_s == math.inf]
        if not found:
            return ()
        # In place, as the driver holds the list.
        self._events[:] = [event for event in self._events if event[0] < math.inf]
        heapify(self._events)
        started = tuple(
            Started(code >> rules.SHIFT, code & rules.MASK, at_s) for code in sorted(found)
        )
        self._outside.update((one.batch, one.task) for one in started)
        return started

    def ended(self, batch: int, task: int, at_s: float) -> float:
        """Report the end of a task at `at_s`, or now if that is past; return that time."""
        self._outside.remove((batch, task))
        at_s = max(at_s, self.now_s)
        virtual_time.put(self._events, at_s, (batch << rules.SHIFT) + task)
        return at_s

    def requests_of(self, batch: int) -> tuple[int, ...]:
        """Return the requests of a batch that is not over, in their order within it."""
        return tuple(requests_of(self._flow, self._batches, self._records, self._slot(batch)))

    def outcomes(self) -> Outcomes:
        """Return the outcomes of all requests before the first open one."""
        self._parts = [Outcomes.joined([*self._parts, self._tell()])]
        return self._parts[0]

    def _advance(self, until_s: float) -> None:
        """Advance to `until_s`, reading arrivals up to then."""
        self._flow.times[LIMIT] = until_s
        while (why := self._go(self._coming)) not in (LATER, OVER):
            if why == MORE:
                self._take(next(self._blocks_to_come, None))
            else:
                assert why == FILLED
                if self._room >= BLOCK:
                    self._parts.append(self._tell())
                self._make_room(self._untold)

    def _take(self, block: Block | None) -> None:
        columns: Any = ([], [], [])
        if block is not None:
            columns = [part.tolist() for part in block]
        made: Any = (*columns, int(block is None))
        self._coming = RequestBlock._make(made)
        self._flow.counts[TAKEN] = 0
