"""Plans under load in real time: the caller runs started tasks and reports their ends.

The driver's rules are those of virtual time, for it is the same driver: a task that somebody else
runs has an infinite duration here, until its end is told.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from heapq import heapify
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetsim.simulation.clock import rules, virtual_time
from hetsim.simulation.clock.templates import Layout
from hetsim.simulation.serving.driver import FILLED, LATER, MORE, OVER, Coming, upcoming
from hetsim.simulation.serving.engine import BLOCK, Serving
from hetsim.simulation.serving.setup import Clients, Model, Outcomes, Source
from hetsim.simulation.serving.tables import LIMIT, TAKEN, requests_of

Block = tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]
"""Requests that come: arrivals in seconds, streams, variants."""


class Started(NamedTuple):
    """A task that somebody else is to run now.

    Attributes
    ----------
    batch : int
    task : int
        Of all templates, one after another.
    at_s : float
        When it starts.
    """

    batch: int
    task: int
    at_s: float


class RealTime(Serving):
    """Models on one platform with tasks whose ends the caller reports.

    Parameters
    ----------
    layout, duration, models, sources, clients, requests, until_s
        As of ``Serving``; batches are sent to where they would end first by `duration`.
    lasts : float array [tasks]
        Seconds until each ends by itself; infinite where ``ended`` tells.
    blocks : iterable of Block
        What comes, ascending over all; taken as time goes on.
    """

    _shortens = False

    def __init__(
        self,
        layout: Layout,
        duration: NDArray[np.float64],
        models: Sequence[Model],
        sources: Sequence[Source],
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
        self._coming: Any = Coming([], [], [], 0)
        self._outside: set[tuple[int, int]] = set()
        self._parts: list[Outcomes] = []
        self._advance(-math.inf)

    @property
    def next_s(self) -> float:
        """When something next happens that nobody has to tell; infinite where nothing does."""
        return upcoming(self._setup, self._flow, self._coming, self._events, self._returning)

    @property
    def over(self) -> bool:
        """Whether all that came is over, and nothing more comes."""
        return self.next_s == math.inf and not self._outside

    def step(self) -> tuple[Started, ...]:
        """Let all happen that does at ``next_s``; return what somebody is to run, in order."""
        at_s = self.next_s
        self._advance(at_s)
        found = [code for time_s, code in self._events if time_s == math.inf]
        if not found:
            return ()
        # In place: the driver holds the list.
        self._events[:] = [event for event in self._events if event[0] < math.inf]
        heapify(self._events)
        started = tuple(
            Started(code >> rules.SHIFT, code & rules.MASK, at_s) for code in sorted(found)
        )
        self._outside.update((one.batch, one.task) for one in started)
        return started

    def ended(self, batch: int, task: int, at_s: float) -> float:
        """Note that a task ends at `at_s`, or now where that is past; return when it does."""
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
        """Let time go on to `until_s`, and take what comes as far as that."""
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
        self._coming = Coming._make(made)
        self._flow.counts[TAKEN] = 0
