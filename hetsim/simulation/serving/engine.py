"""Engine of plans under load in virtual time: arrivals, queues, batches, runs."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.core import compile_threshold, heaps
from hetsim.core.heaps import with_room
from hetsim.core.machine_code import Compiled, machine_code
from hetsim.errors import UsageError
from hetsim.simulation.clock import virtual_time
from hetsim.simulation.clock.rules import (
    ADMITTED,
    OLDEST,
    new_state,
    widened,
)
from hetsim.simulation.clock.templates import TemplateLayout
from hetsim.simulation.clock.virtual_time import PARTS, Driver, in_slots, never_start
from hetsim.simulation.serving import batcher, driver, routing
from hetsim.simulation.serving.batcher import lengths_of
from hetsim.simulation.serving.driver import (
    ALONE,
    CROWDED,
    FILLED,
    MOMENT,
    MORE,
    RETRIED,
    THINK,
    RequestBlock,
)
from hetsim.simulation.serving.setup import (
    Clients,
    Lengths,
    ModelSetup,
    Outcomes,
    RequestSource,
    Residency,
    Turns,
)
from hetsim.simulation.serving.tables import (
    ABSENT,
    ASKED,
    CAME,
    TAKEN,
    THINKS,
    TOLD,
    Flow,
    RequestRecords,
    Setup,
    as_arrays,
    learn,
    new_batches,
    new_flow,
    new_records,
    new_spans,
    setup_of,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BLOCK = 1 << 16
"""Number of requests reported at a time, if none arrive on their own."""

AT_FIRST = 64
"""Initial capacity of machine code in batches in flight: widening it takes longer than simulating
some hundred batches."""


class Serving(Driver):
    """Models on one platform, with the outcomes of their requests so far.

    Parameters
    ----------
    layout : TemplateLayout
        Layout of all templates, from ``clock.templates.laid_out``.
    duration : float array [tasks]
        Seconds.
    models : sequence of ModelSetup
    sources : sequence of RequestSource
        Model of each stream.
    clients : sequence of Clients
        Clients of closed-loop streams.
    requests : int, optional
        Maximum number of requests; absent: all.
    until_s : float
        Time after which clients no longer send.
    turns : Turns, optional
        Memory in which models take turns; absent: all are always loaded.
    window_s : float, optional
        Initial length of the windows of ``lengths``, which doubles when they are used up.
    machine_code : bool
        Whether numba compiles the driver. The result is bitwise identical.
    known : two float arrays [templates], optional
        Results of ``tables.seconds_alone`` and ``loads``, if known.

    The checks of Deployment and Workload are not repeated.

    Memory: the requests from the oldest open one on, and those reported at once.
    """

    _shortens = True
    """Whether batches without interference are skipped as a whole, with bitwise equal times."""

    def __init__(
        self,
        layout: TemplateLayout,
        duration: Floats,
        models: Sequence[ModelSetup],
        sources: Sequence[RequestSource],
        clients: Sequence[Clients] = (),
        *,
        requests: int | None = None,
        until_s: float = math.inf,
        turns: Turns | None = None,
        window_s: float | None = None,
        machine_code: bool = True,
        known: tuple[Floats, Floats] | None = None,
    ) -> None:
        self._arrays = machine_code
        self._turns = turns is not None
        self._clients = clients
        self._strategy = layout.plan.strategy
        self._blocks: dict[tuple[int, int], Floats] = {}
        first = [np.asarray(one.think(0), dtype=np.float64) for one in clients]
        thoughts = max([len(times) for times in first], default=1)
        think = np.concatenate([np.zeros((0, thoughts)), *(times.T for times in first)])
        self._place = [(k, at) for k, one in enumerate(clients) for at in range(one.concurrency)]
        self._fetched = [0] * len(self._place)
        most = 1 << 62 if requests is None else requests
        setup = setup_of(
            layout, duration, models, sources, clients, thoughts, most, until_s, turns, known
        )
        flow = new_flow(setup, layout.first, think, shortens=self._shortens)
        self._learn = functools.partial(learn, layout=layout, duration=duration)
        spans = new_spans(len(models), window_s, arrays=machine_code)
        self._state = new_state(
            layout.structure,
            layout.links,
            window=AT_FIRST if machine_code else 16,
            arrays=machine_code,
        )
        self._batches: Any = new_batches(self._state.window, machine_code)
        self._links = layout.links
        self._room = 64
        self._records: Any = new_records(self._room, machine_code)
        self._setup: Any = setup
        self._flow: Any = flow
        self._spans: Any = spans
        self._returning: Any = []
        self._now = [-math.inf]
        self._until_s = math.inf
        self._lay_out(layout.structure, duration)
        if machine_code:
            self._setup, self._flow = as_arrays(setup), as_arrays(flow)
            self._returning = with_room(None, len(self._place) + 1)
            self._now = np.full(1, -np.inf)
        else:
            self._setup, self._flow, self._spans = map(in_slots, (setup, flow, spans))
        for client in range(len(self._place)):
            self._put(float(think[client, 0]), client)

    @property
    def machine_code(self) -> bool:
        """Whether numba compiles the driver."""
        return self._arrays

    def serve(self, arrival_s: Floats, stream: Ints, variant: Ints | None = None) -> Outcomes:
        """Simulate a block of requests, ascending over all blocks; return those that are over.

        Outcomes are in order of arrival: requests after an open one are returned by a later call.
        """
        return Outcomes.joined(list(self._play(arrival_s, stream, variant, last=0)))

    def serve_all(self, arrival_s: Floats, stream: Ints, variant: Ints | None = None) -> Outcomes:
        """Serve all open-loop requests; return the results of ``serve`` and ``close`` as one."""
        return Outcomes.joined(list(self._play(arrival_s, stream, variant, last=1)))

    def rest(self) -> Iterator[Outcomes]:
        """End the open-loop arrivals; yield the remaining outcomes in blocks."""
        none, nowhere = np.zeros(0), np.zeros(0, dtype=np.int64)
        yield from self._play(none, nowhere, nowhere, last=1)

    def close(self) -> Outcomes:
        """Return the blocks of ``rest`` as one."""
        return Outcomes.joined(list(self.rest()))

    @property
    def now_s(self) -> float:
        """Time of the last event."""
        return float(self._now[0])

    @property
    def ran(self) -> Ints:
        """Number of batches by template, as ``clock.metrics.busy_seconds`` takes it."""
        return np.array(self._flow.ran, dtype=np.int64)

    @property
    def lengths(self) -> Lengths:
        """Queue lengths so far."""
        return lengths_of(self._flow, self._spans, self.now_s)

    @property
    def residency(self) -> Residency:
        """Return the weights' loads and residency in memory so far."""
        flow, setup = self._flow, self._setup
        shape = (len(setup.room), len(setup.budget))
        there, since, whole = (
            np.array(part).reshape(shape) for part in (flow.there, flow.since_s, flow.resident_s)
        )
        now_s = max(self.now_s, 0.0)
        return Residency(
            np.array(flow.loads, dtype=np.int64).reshape(shape),
            np.array(flow.loading_s, dtype=np.float64).reshape(shape),
            np.where(there != ABSENT, whole + now_s - since, whole),
            np.array(flow.highest, dtype=np.int64),
        )

    def _play(
        self, arrival: Floats, stream: Ints, variant: Ints | None, *, last: int
    ) -> Iterator[Outcomes]:
        """Simulate a block and yield its outcomes; `last`: whether no block follows."""
        if variant is None:
            variant = np.zeros(len(arrival), dtype=np.int64)
        columns: Any = (arrival, stream, variant)
        if self._arrays:
            kinds = (np.float64, np.int64, np.int64)
            columns = [
                np.ascontiguousarray(part, kind) for part, kind in zip(columns, kinds, strict=True)
            ]
        else:
            columns = [np.asarray(part).tolist() for part in columns]
        block: Any = (*columns, last)
        coming: Any = RequestBlock._make(block)
        self._flow.counts[TAKEN] = 0
        # All arrivals get records at once, as they are reported together.
        self._make_room(min(len(arrival), BLOCK))
        while True:
            why = self._go(coming)
            if why == FILLED:
                if self._room >= BLOCK:
                    yield self._tell()
                self._make_room(self._untold)
            elif why == MOMENT:
                if (last or self._all_came) and not self._open():
                    break
                self._happen()
            else:
                assert why in (MORE, driver.OVER)
                break
        yield self._tell()
        if last and self._untold:
            raise never_start(self._strategy)

    def _go(self, coming: Any) -> int:
        """Advance the driver; return why it stopped: OVER, LATER, FILLED, MOMENT or MORE."""
        advance = compiled(turns=self._turns) if self._arrays else driver.advance
        while True:
            state, batches, records = self._state, self._batches, self._records
            if not self._arrays:
                state, batches, records = map(in_slots, (state, batches, records))
            why = advance(
                self._structure,
                state,
                self._duration,
                self._setup,
                self._flow,
                batches,
                records,
                self._spans,
                coming,
                self._events,
                self._returning,
                self._now,
                self._until_s,
            )
            if why == CROWDED:
                self._widen()
            elif why == ALONE:
                self._learn(self._flow, template=int(self._flow.counts[ASKED]) - 1)
                self._flow.counts[ASKED] = 0
            elif why == THINK:
                self._think(int(self._flow.counts[THINKS]))
            elif why == RETRIED:
                raise UsageError(
                    "a rejected client without think time would retry forever",
                    hint="give it a think time, or the model a longer queue",
                )
            else:
                return int(why)

    def _open(self) -> bool:
        """Return whether a client waits for an answer, or is yet to send."""
        earliest: Any = heaps.earliest if self._arrays else virtual_time.earliest
        returns = not self._all_came and earliest(self._returning) < self._setup.until
        return any(self._flow.inside) or bool(returns)

    @property
    def _all_came(self) -> bool:
        """Return whether the maximum number of requests has arrived."""
        return bool(self._flow.counts[CAME] >= self._setup.most)

    def _happen(self) -> None:
        """Apply external changes at ``_until_s``, and set it to the next."""

    def _tell(self) -> Outcomes:
        """Remove and return the records of the first requests that are over."""
        counts = self._flow.counts
        many = self._untold
        why = np.asarray(self._records.why[:many], dtype=np.int8)
        still = np.flatnonzero(why < 0)
        told = int(still[0]) if len(still) else many
        records = self._records
        kinds = [np.float64] * 4 + [np.int32] * 4 + [np.int8, np.bool_]
        columns: Any = [
            np.array(part[:told], kind) for part, kind in zip(records[:10], kinds, strict=True)
        ]
        columns.append(np.array(records.load[:told], np.float64))
        for part in records:
            part[: many - told] = part[told:many]
        counts[TOLD] += told
        return Outcomes._make(columns)

    @property
    def _untold(self) -> int:
        """Return the number of requests that arrived and are not reported yet."""
        return int(self._flow.counts[CAME] - self._flow.counts[TOLD])

    def _make_room(self, more: int) -> None:
        """Ensure room for `more` records besides the open ones."""
        many = self._untold
        if many + more <= self._room:
            return
        while self._room < many + more:
            self._room *= 2
        wider: Any = new_records(self._room, self._arrays)
        for new, old in zip(wider, self._records, strict=True):
            new[:many] = old[:many]
        self._records = wider

    def _slot(self, batch: Any) -> Any:
        """Return the table index of a batch in flight, or of an array of them."""
        return batch & (self._state.window - 1)

    def _next_batch(self) -> int:
        """Return the number of the next batch, and make room for it."""
        batch = int(self._state.counts[ADMITTED])
        if batch - self._state.counts[OLDEST] > self._state.window - 1:
            self._widen()
        return batch

    def _is_over(self, batch: int) -> bool:
        """Return whether an admitted batch has nothing running or left to run."""
        return bool(batch < self._state.counts[OLDEST] or not self._state.left[self._slot(batch)])

    def _widen(self) -> None:
        """Double the room for batches in flight."""
        count, old = self._state.counts, self._state.window
        numbers = np.arange(count[OLDEST], count[ADMITTED])
        here, there = numbers & (old - 1), numbers & (2 * old - 1)
        self._state = widened(self._state)
        wider: Any = new_batches(2 * old, self._arrays)
        for new, part in zip(wider, self._batches, strict=True):
            if self._arrays:
                new[there] = part[here]
            else:
                for a, b in zip(here.tolist(), there.tolist(), strict=True):
                    new[b] = part[a]
        self._batches = wider
        self._widen_heap()

    def _think(self, client: int) -> None:
        """Load the next think times of a client."""
        which, column = self._place[client]
        self._fetched[client] += 1
        at = self._fetched[client]
        block = self._blocks.get((which, at))
        if block is None:
            block = np.asarray(self._clients[which].think(at), dtype=np.float64)
            self._blocks[which, at] = block
            needed = min(self._fetched)
            self._blocks = {key: one for key, one in self._blocks.items() if key[1] >= needed}
        turns = self._setup.turns
        self._flow.think[client * turns : (client + 1) * turns] = block[:, column].tolist()
        self._flow.thought[client] = -1

    def _put(self, time_s: float, client: int) -> None:
        put: Any = heaps.put if self._arrays else virtual_time.put
        put(self._returning, time_s, client)


COMPILE_FROM, LEAST = 160_000, 500
"""Task events of a process from which machine code pays off (interpreted in about one second), and
of one play, whose arrays take time to hand over."""

OWN_EVENTS = 3.0
"""Events of each request besides those of its tasks: arrival, dispatch and answer."""


class _Unused:
    """Stubs of functions that are unused if all weights stay loaded, to halve the compile time."""

    @staticmethod
    def able(setup: Setup, flow: Flow, model: int, instance: int) -> bool:
        return flow.in_flight[instance] < flow.most[instance]

    @staticmethod
    def settle(setup: Setup, flow: Flow, model: int, now: float) -> int:
        return 1

    @staticmethod
    def release_claim(setup: Setup, flow: Flow, model: int, now: float) -> None:
        return

    @staticmethod
    def fetch(structure: object, state: object, setup: Setup, flow: Flow, batches: object) -> None:
        return

    @staticmethod
    def arrived(setup: Setup, flow: Flow, model: int, device: int, now: float) -> None:
        return

    @staticmethod
    def occupy(
        setup: Setup, flow: Flow, records: RequestRecords, model: int, instance: int, first: int,
        now: float,
    ) -> None:  # fmt: skip
        return

    @staticmethod
    def vacate(setup: Setup, flow: Flow, model: int, instance: int, now: float) -> None:
        return


_ALL_LOADED = (
    _Unused.able, _Unused.settle, _Unused.release_claim, _Unused.fetch,
    _Unused.arrived, _Unused.occupy, _Unused.vacate,
)  # fmt: skip
_IN_TURNS = (
    routing.wake, routing.unclaim, routing.claimed_before, routing.able, routing.missing,
    routing.evict, routing.use, routing.reserve, routing.settle, routing.release_claim,
    routing.fetch, routing.arrived, routing.occupy, routing.vacate,
)  # fmt: skip


@functools.cache
def compiled(*, turns: bool) -> Compiled:
    """Return ``driver.advance`` as machine code, loaded or compiled by the first call.

    `turns`: whether models take turns in memory.
    """
    parts = (
        *PARTS, batcher.double, batcher.account, batcher.append, batcher.unlink, batcher.walk,
        batcher.decide, batcher.wait, batcher.take_first, routing.mark,
        *(_IN_TURNS if turns else _ALL_LOADED), routing.choose, routing.leave, routing.passes,
        routing.send, driver.upcoming, driver.calm, driver.launch, driver.mark_expired_timers,
        driver.answered, driver.answer, driver.full, driver.sized, driver.finish, driver.look,
        driver.come,
    )  # fmt: skip
    return machine_code(driver.advance, *parts, inline=True, forced=False)


def events_of(layout: TemplateLayout) -> float:
    """Return the mean number of task events per request, its own included."""
    return OWN_EVENTS + float(np.diff(layout.first).mean())


def python_until(layout: TemplateLayout) -> float:
    """Return the number of requests from which a run begun without machine code switches to it."""
    share = compile_threshold.LOADING if compiled(turns=False).kept else 1.0
    return share * COMPILE_FROM / events_of(layout)


def pays(events: float) -> bool:
    """Return whether these task events justify machine code; see ``compile_threshold.pays``."""
    return compile_threshold.pays(compiled(turns=False), events, LEAST, COMPILE_FROM)
