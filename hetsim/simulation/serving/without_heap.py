"""Plans under load without a heap of events, where that gives the same answer to the last bit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.base.code_folder import is_kept
from hetsim.simulation.clock.playing import Layout
from hetsim.simulation.orders import order_of
from hetsim.simulation.serving import moves
from hetsim.simulation.serving.following import Following, over_at
from hetsim.simulation.serving.gates import Passed
from hetsim.simulation.serving.outcomes import Lengths, Outcomes
from hetsim.simulation.serving.passage import Passage, nothing_passed
from hetsim.simulation.serving.setup import Clients, Model, Source, check_block
from hetsim.simulation.serving.tables import FULL, SERVED
from hetsim.simulation.stuck import NEVER_START

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LOADED_FROM, MADE_FROM = 10_000, 1_000_000
"""Requests from which machine code that is kept, or has to be made, costs less CPU time than it
saves."""

BLOCK = 1 << 13
"""Requests played at a time: their arrays stay in a processor's caches."""


def pays(requests: float) -> bool:
    """Return whether machine code costs less CPU time than it saves over so many requests."""
    if requests < LOADED_FROM:
        return False
    return requests >= MADE_FROM or is_kept(moves.follow_one, *moves.PARTS, inline=True)


def why_heap(
    layout: Layout,
    duration: Floats,
    models: Sequence[Model],
    sources: Sequence[Source],
    clients: Sequence[Clients] = (),
) -> str | None:
    """Return why only the heap plays this; None where it can be tried without.

    Then ``WithoutHeap`` gives the same outcomes, or says that it cannot: see ``serve`` there.
    Complexity: O(templates and what they hold).
    """
    if clients:
        return "clients wait for answers"
    of_model: dict[int, set[int]] = {}
    for source in sources:
        of_model.setdefault(source.model, set()).add(source.level)
    held: set[int] = set()
    for at in sorted(of_model):
        model = models[at]
        if model.template.shape[2] > 1:
            return "requests are batched"
        if len(of_model[at]) > 1:
            return "some requests go before others"
        if model.gated and model.max_queue_size == 0:
            return "nothing waits"
        if model.gated and model.timeout_s < math.inf and model.timeout_action == "delay":
            return "what waited too long goes last"
        mine: set[int] = set()
        for template in np.unique(model.template).tolist():
            begin, end = layout.first[template], layout.first[template + 1]
            mine |= _resources(layout, begin, end)
            if model.gated and not (np.asarray(duration)[begin:end] > 0).all():
                return "some tasks take no time"
        if held & mine:
            return "models meet at devices or links"
        held |= mine
    if order_of(layout, duration) is None:
        return NEVER_START
    return None


def in_order(
    layout: Layout,
    duration: Floats,
    models: Sequence[Model],
    sources: Sequence[Source],
    clients: Sequence[Clients] = (),
) -> bool:
    """Return whether what becomes of a request never depends on those that come after it.

    Whatever comes: all that is played without a heap, and in an order that is certain. Complexity:
    that of ``why_heap``.
    """
    if why_heap(layout, duration, models, sources, clients) is not None:
        return False
    order = order_of(layout, duration)
    return order is not None and not order.reasons


def _resources(layout: Layout, begin: int, end: int) -> set[int]:
    """Devices, and links as numbers below 0, that tasks hold."""
    structure = layout.structure
    found = {structure.device[task] for task in range(begin, end) if structure.device[task] >= 0}
    holds = range(structure.held_at[begin], structure.held_at[end])
    return found | {-1 - structure.held[at] for at in holds}


class WithoutHeap:
    """Models on one platform, and what has become of their requests so far.

    As ``engine.Serving``, for what ``why_heap`` gives no reason against: the same outcomes, told
    as soon, and the same queue lengths, to the last bit.

    Parameters
    ----------
    layout, duration, models, sources, requests, window_s, machine_code, known
        As there.
    """

    def __init__(
        self,
        layout: Layout,
        duration: Floats,
        models: Sequence[Model],
        sources: Sequence[Source],
        *,
        requests: int | None = None,
        window_s: float | None = None,
        machine_code: bool = True,
        known: tuple[Floats, Floats] | None = None,
    ) -> None:
        self._models = models
        self.machine_code = machine_code
        self._model_of = np.array([source.model for source in sources], dtype=np.int64)
        self._variants = np.array([models[one.model].template.shape[0] for one in sources])
        self._left = math.inf if requests is None else requests
        self._passages = {
            at: Passage(layout, duration, models[at], machine_code=machine_code, known=known)
            for at in sorted(set(self._model_of.tolist()))
        }
        self._templates = len(layout.first) - 1
        self._follows = Following(
            [model.gated for model in models],
            len(self._passages),
            window_s,
            machine_code=machine_code,
        )
        self._waits = np.array([model.gated for model in models])
        self._now_s = -math.inf
        # What is known and not told yet, and when it may be.
        self._untold = _nothing(0)
        self._known_s = np.zeros(0)

    def serve(
        self, arrival_s: Floats, stream: Ints, variant: Ints | None = None
    ) -> Outcomes | None:
        """Take a block of requests, and tell of those that are over, as ``Serving.serve`` does.

        Return None where only the heap says what happens; then all is to be played there from
        the first request on.

        Raises UsageError where times do not ascend, or there is no such stream or variant.
        """
        arrival = np.ascontiguousarray(arrival_s, np.float64)
        stream = np.ascontiguousarray(stream, np.int64)
        if variant is None:
            variant = np.zeros(len(arrival), dtype=np.int64)
        variant = np.ascontiguousarray(variant, np.int64)
        check_block(arrival, stream, variant, self._variants, self._now_s)
        if not len(arrival):
            return self._tell()
        if self._now_s == -math.inf:
            self._follows.begin(float(arrival[0]))
        self._now_s = float(arrival[-1])
        count = int(min(len(arrival), self._left))
        self._left -= count
        return self._tell() if self._play(arrival[:count], stream, variant) else None

    def serve_all(
        self, arrival_s: Floats, stream: Ints, variant: Ints | None = None
    ) -> Outcomes | None:
        """Take all that comes; return what ``serve`` and then ``close`` do, as one, or None."""
        first = self.serve(arrival_s, stream, variant)
        return None if first is None else Outcomes.joined([first, *self.rest()])

    def rest(self) -> Iterator[Outcomes]:
        """Let no more come; yield what becomes of the others."""
        self._now_s = max(self._now_s, self._follows.rest())
        self._known_s[:] = -math.inf
        yield self._tell()

    def close(self) -> Outcomes:
        """Return what ``rest`` yields as one."""
        return Outcomes.joined(list(self.rest()))

    @property
    def now_s(self) -> float:
        """When something last happened."""
        return self._now_s

    @property
    def ran(self) -> Ints:
        """Requests by template: busy seconds by ``clock.metrics.busy_seconds``."""
        ran = np.zeros(self._templates, dtype=np.int64)
        for passage in self._passages.values():
            ran += passage.ran
        return ran

    @property
    def lengths(self) -> Lengths:
        """Queue lengths so far."""
        return self._follows.lengths(self._now_s)

    def _play(self, arrival: Floats, stream: Ints, variant: Ints) -> bool:
        """Play requests; return whether that is certain."""
        known = len(self._known_s)
        # What was not told yet stands in front.
        whole: Any = _nothing(known + len(arrival))
        for column, part in zip(whole, self._untold, strict=True):
            column[:known] = part
        told_s = np.concatenate([self._known_s, np.empty(len(arrival))])
        self._untold, self._known_s = whole, told_s
        for begin in range(0, len(arrival), BLOCK):
            piece = slice(begin, min(begin + BLOCK, len(arrival)))
            there = slice(known + piece.start, known + piece.stop)
            rows: Any = (column[there] for column in whole)
            if not self._piece(
                arrival[piece], stream[piece], variant[piece], Outcomes._make(rows), told_s[there]
            ):
                return False
        return True

    def _piece(
        self, arrival: Floats, stream: Ints, variant: Ints, into: Outcomes, told_s: Floats
    ) -> bool:
        """Play requests into rows of the outcomes, and say from when on they may be told."""
        model = self._model_of[stream]
        passed = Passed(
            into.sent_s, into.begun_s, into.finish_s, into.instance, into.why, into.fresh
        )
        for at, passage in self._passages.items():
            if len(self._passages) == 1:
                certain = passage.play(arrival, variant, passed)
            else:
                mine = np.flatnonzero(model == at)
                part = nothing_passed(len(mine))
                certain = not len(mine) or passage.play(arrival[mine], variant[mine], part)
                for column, values in zip(passed, part, strict=True):
                    column[mine] = values
            if not certain:
                return False
        over_s = over_at(passed)
        self._follows.take(arrival, model, passed, over_s)
        served = passed.why == SERVED
        told_s[:] = over_s
        if self._waits.any():
            # A batcher looks, and sends or rejects, after all that comes at the same time.
            gated = self._waits[model]
            looked_s = np.nextafter(passed.left, np.where(gated, math.inf, -math.inf))
            np.maximum(over_s, looked_s, out=told_s)
            told_s[passed.why == FULL] = -math.inf
            into.sent_s[~served] = math.nan
        into.arrival_s[:] = arrival
        into.stream[:] = stream
        into.variant[:] = variant
        into.size[:] = served
        into.load_s[:] = 0.0
        return True

    def _tell(self) -> Outcomes:
        """Take out what is known of the first requests that are over."""
        open_ = self._known_s > self._now_s
        told = int(np.argmax(open_)) if open_.any() else len(open_)
        first: Any = (part[:told] for part in self._untold)
        rest: Any = (part[told:].copy() for part in self._untold)
        found = Outcomes._make(first)
        self._untold, self._known_s = Outcomes._make(rest), self._known_s[told:].copy()
        return found


def _nothing(count: int) -> Outcomes:
    """Return room for what becomes of so many requests."""
    kinds = [np.float64] * 4 + [np.int32] * 4 + [np.int8, np.bool_, np.float64]
    columns: Any = (np.empty(count, kind) for kind in kinds)
    return Outcomes._make(columns)
