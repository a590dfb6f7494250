"""Requests played by the recursion, in blocks of any size, with replicas chosen as they come."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetsim.errors import UsageError, nearest
from hetsim.simulation.orders import Layout, Order, order_of, rows_of
from hetsim.simulation.recursion import kernel, least, rows, shortest
from hetsim.simulation.recursion.queues import new_queues, with_room
from hetsim.simulation.stuck import never_start

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Routing = Literal["given", "shortest_queue", "least_finish"]

_ROUTINGS: dict[Routing, int] = {
    "given": kernel.GIVEN,
    "shortest_queue": kernel.SHORTEST_QUEUE,
    "least_finish": kernel.LEAST_FINISH,
}
BLOCK = 1 << 14
"""Requests played at a time: their arrays stay in a processor's caches."""


class Served(NamedTuple):
    """What became of some requests.

    Attributes
    ----------
    template : int array [requests]
        What each ran; -1 where it was dropped.
    begun, finish : float array [requests]
        When its first task started and its last ended, in seconds; NaN where dropped. A request
        of no tasks begins and ends when it comes.
    """

    template: Ints
    begun: Floats
    finish: Floats


class Recursion:
    """The resources of a layout, and when they are free after the requests served so far.

    Parameters
    ----------
    layout : Layout
        As ``clock.playing.laid_out`` makes it.
    duration : float array [tasks]
        Seconds.
    routing : "given", "shortest_queue" or "least_finish"
        Which template a request runs: the given one; that with the fewest requests that came
        and have not ended (what ends at the moment when a request comes has); or that in which
        it ends first, which is exact, for later requests do not delay it. Of equals the lowest.
    timeout_s : float
        A request of which no task would have started so long after it came is dropped: it never
        enters. Infinite: none is.
    machine_code : bool
        Whether numba compiles the kernels. The answer is the same, bit for bit.

    Attributes
    ----------
    doubt : str or None
        Why ``serve`` may refuse; None where it never does.
    ran : int array [templates]
        Requests that ran so far; busy seconds follow by ``clock.metrics.busy_seconds``.

    Raises
    ------
    PlanError
        Where some subgraph never starts.
    UsageError
        Where routing or timeout make no sense.
    """

    def __init__(
        self,
        layout: Layout,
        duration: Floats,
        *,
        routing: Routing = "given",
        timeout_s: float = math.inf,
        machine_code: bool = True,
    ) -> None:
        if routing not in _ROUTINGS:
            raise UsageError(f"no routing '{routing}'", hint=nearest(str(routing), _ROUTINGS))
        if not timeout_s >= 0:
            raise UsageError(f"a timeout of {timeout_s} s", hint="give 0 or more, or math.inf")
        order = order_of(layout, duration)
        if order is None:
            raise never_start(layout.plan.strategy)
        self.doubt = order.reasons[0] if order.reasons else None
        self.ran = np.zeros(len(order.first) - 1, dtype=np.int64)
        self._machine_code = machine_code
        self._latest = -math.inf
        self._refused = False
        seconds = np.asarray(duration, dtype=np.float64)[order.of_layout]
        # What takes no time alternates with what it lets start; see ``orders.Order``.
        self.instant = bool((seconds <= 0).any())
        self._shortest_s = float(seconds.min(initial=math.inf))
        resources = len(order.width)
        streams = np.cumsum([0, *order.width], dtype=np.int64)
        free = self._own(np.full(order.width.sum(), -math.inf))
        head = self._own(np.zeros(resources, dtype=np.int64))
        mark = self._own(np.full(resources, -math.inf))
        touched = [
            sorted({*order.held[order.held_at[begin] : order.held_at[end]].tolist()})
            for begin, end in pairwise(order.first.tolist())
        ]
        tasks: Any = (
            order.first,
            seconds,
            *_kinds(order, len(layout.structure.streams), streams),
            order.waits_at,
            order.waits,
            order.held_at,
            order.held,
            order.previous,
            order.strict.astype(np.int64),
            streams,
            order.watched.astype(np.int64),
        )
        self.tasks = kernel.Tasks._make((*map(self._own, tasks), int(self.instant)))
        self.streams = kernel.Streams(
            free, head, mark, self._own(np.zeros(len(seconds))), self._own(np.zeros(len(seconds)))
        )
        self._kept = kernel.Kept(
            self._own(np.zeros(len(free))),
            self._own(np.zeros(resources, dtype=np.int64)),
            self._own(np.zeros(resources)),
            *map(self._own, rows_of(touched)),
        )
        self._routing = _ROUTINGS[routing]
        self._timeout_s = float(timeout_s)
        self._queues = new_queues(len(touched), machine_code)
        self._least = self._own(np.full(len(touched), -math.inf))
        given = routing == "given" and timeout_s == math.inf
        self._rows = self._in_rows(order, seconds, streams, touched) if given else []
        self._replicas: Any = None
        if routing != "given" and timeout_s == math.inf:
            self._replicas = least.replicas_of(order, seconds)
        if self._replicas is not None:
            parts: Any = (
                part if isinstance(part, int) else self._own(part) for part in self._replicas
            )
            self._replicas = least.Replicas._make(parts)

    def serve(self, arrival: Floats, template: Ints | None = None) -> Served | None:
        """Play the requests that come next, or return None where a later one could overtake.

        Once it has returned None it always does: then only the clock says what happens.

        Parameters
        ----------
        arrival : float array [requests]
            Seconds, ascending, none before those of the block before.
        template : int array [requests], optional
            What each runs, where that is given; absent: the first.

        Raises UsageError where arrivals do not ascend or templates are not there.

        Complexity: O(tasks, what they wait for and hold) a request, times the templates for
        "least_finish". Space O(requests), and for "shortest_queue" those in the system.
        """
        arrival = np.asarray(arrival, dtype=np.float64)
        requests, templates = len(arrival), len(self.ran)
        if template is None:
            chosen = np.zeros(requests, dtype=np.int64)
        else:
            chosen = np.array(template, dtype=np.int64)
        if len(chosen) != requests or ((chosen < 0) | (chosen >= templates)).any():
            raise UsageError(
                "not every request has a template", hint=f"give each one of 0 .. {templates - 1}"
            )
        if requests and not (arrival[0] >= self._latest and (np.diff(arrival) >= 0).all()):
            raise UsageError("arrivals do not ascend", hint="sort them")
        served = Served(chosen, np.empty(requests), np.empty(requests))
        for begin in range(0, requests, BLOCK):
            piece = slice(begin, begin + BLOCK)
            block = Served(served.template[piece], served.begun[piece], served.finish[piece])
            if not self.play(arrival[piece], block):
                return None
            ran = block.template[block.template >= 0]
            self.ran += np.bincount(ran, minlength=len(self.ran))
        if requests:
            self._latest = float(arrival[-1])
        return served

    def play(self, arrival: Floats, block: Served) -> bool:
        """Play what comes next, as ``serve`` does, into `block`; return whether it is certain.

        Nothing is checked or counted.
        """
        self._refused = self._refused or not self._play(arrival, block)
        return not self._refused

    def _play(self, arrival: Floats, block: Served) -> bool:
        play: Any
        if self._rows:
            play = rows.compiled() if self._machine_code else rows.serve_in_rows
            if len(self._rows) == 1 and self._machine_code:
                play(*self._rows[0], np.ascontiguousarray(arrival), block.begun, block.finish)
                return True
            for index, fixed in enumerate(self._rows):
                mine = np.flatnonzero(block.template == index)
                came = arrival[mine]
                times = [
                    self._own(came),
                    self._own(np.empty_like(came)),
                    self._own(np.empty_like(came)),
                ]
                play(*fixed, *times)
                block.begun[mine], block.finish[mine] = times[1:]
            return True
        if self._routing == kernel.SHORTEST_QUEUE:
            self._queues = with_room(self._queues, len(arrival), self._machine_code)
        arrays = [self._own(array) for array in (arrival, *block)]
        if self._replicas is not None:
            self._run(arrays)
            played = len(arrival)
        else:
            played = self._try(arrays)
        for part, array in zip(block, arrays[1:], strict=True):
            if array is not part:
                part[:] = array
        if played < len(arrival):
            return False
        return self.doubt is None or self.instant or self.tells_apart(block.finish)

    def _run(self, arrays: list[Any]) -> None:
        """Play requests of replicas that share nothing."""
        play: Any
        if self._routing == kernel.SHORTEST_QUEUE:
            play = shortest.compiled() if self._machine_code else shortest.serve_shortest
            play(self._replicas, self._queues, *arrays)
        else:
            play = least.compiled() if self._machine_code else least.serve_least
            play(self._replicas, *arrays)

    def _try(self, arrays: list[Any]) -> int:
        """Play requests of any templates; return how many."""
        play: Any = kernel.compiled() if self._machine_code else kernel.serve
        played: int = play(
            self.tasks,
            self.streams,
            self._kept,
            self._queues,
            self._least,
            self._routing,
            self._timeout_s,
            *arrays,
        )
        return played

    def tells_apart(self, finish: Floats) -> bool:
        """Whether every task ended later than it started, up to the last of these times.

        Where floats cannot tell an end from its start it is as if the task took no time.
        """
        latest = np.fmax.reduce(finish, initial=0.0)
        return bool(np.spacing(latest) <= self._shortest_s)

    def _in_rows(
        self, order: Order, seconds: Floats, streams: Ints, touched: list[list[int]]
    ) -> list[tuple[Any, ...]]:
        """What ``rows.serve_in_rows`` takes by template; none where they are not independent."""
        if sum(map(len, touched)) > len(set().union(*touched)):
            return []
        found = []
        for index, (begin, end) in enumerate(pairwise(order.first.tolist())):
            stages = rows.stages_of(order, index)
            if stages is None:
                return []
            arrays = [self._own(array) for array in (*stages, seconds[begin:end], streams)]
            room = self._own(np.zeros((end - begin) * rows.BLOCK))
            found.append((*arrays, self.streams.free, self.streams.head, room))
        return found

    def _own(self, array: Any) -> Any:
        """The array as the kernels take it: contiguous, or a list where they are not compiled."""
        return np.ascontiguousarray(array) if self._machine_code else array.tolist()


def finishes(
    layout: Layout,
    duration: Floats,
    arrival: Floats,
    template: Ints,
    *,
    machine_code: bool = True,
) -> Floats | None:
    """Return when each request ends, or None where only the clock can say.

    Parameters are those of ``clock.playing.run``; the times are its own to the last bit.
    """
    engine = Recursion(layout, duration, machine_code=machine_code)
    served = engine.serve(arrival, template)
    return None if served is None else served.finish


def _kinds(order: Order, devices: int, streams: Ints) -> tuple[Ints, Ints]:
    """Kind and slot of each task, as ``kernel.serve`` takes them."""
    kind = np.full(len(order.of_layout), kernel.LINKS, dtype=np.int64)
    slot = np.zeros(len(kind), dtype=np.int64)
    for task, (begin, end) in enumerate(pairwise(order.held_at.tolist())):
        held = order.held[begin:end]
        if begin == end:
            kind[task] = kernel.FREE
        elif len(held) == 1 and order.width[held[0]] == 1 and not order.watched[held[0]]:
            kind[task] = kernel.ALONE
            slot[task] = streams[held[0]]
        elif held[0] < devices:
            kind[task] = kernel.DEVICE
    return kind, slot
