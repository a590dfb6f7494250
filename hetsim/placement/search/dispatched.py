"""Order and subgraphs of an assignment: each device starts the most urgent node that is ready.

In a schedule's own order a device may wait for a node delayed by a queued transfer while others are
ready. This module simulates one request with transfers in the order of requests, and takes the
order in which nodes start as the plan's; several ready nodes form one subgraph, which saves
dispatches. Works on lists, or on arrays in machine code.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetsim.core.heaps import pop_event, pop_key, push_event, push_key
from hetsim.core.machine_code import machine_code
from hetsim.placement.search.drafts import Array, SearchProblem
from hetsim.problem.problem import Problem

_Ints = NDArray[np.int64]


def ask_transfer(asked: SearchProblem, busy: Array, value: int, way: int, now: float) -> float:
    """Queue a value on the links of a route; return its arrival."""
    start = now
    for h in range(asked.hold_at[way], asked.hold_at[way + 1]):
        if busy[asked.hold[h]] > start:
            start = busy[asked.hold[h]]
    end = start + asked.travel_s[asked.row[value] + way]
    for h in range(asked.hold_at[way], asked.hold_at[way + 1]):
        busy[asked.hold[h]] = end
    return float(end)


class Play(NamedTuple):
    """Assignment with the results and scratch space of its simulation, as lists or arrays."""

    device: Array  # [n]
    urgency: Array  # [n]: Lowest value first
    place: Array  # [n]: Rank of a node by urgency, then id; and its inverse
    by_place: Array
    order: Array  # [n]: Nodes in order of start, and whether a node opens a subgraph
    cut: Array
    pending: Array  # [n]
    taken: Array
    inner: Array
    held: Array
    members: Array
    busy: Array  # [links]
    free: Array  # [P]
    waiting: Array  # [P n]
    waiting_size: Array  # [P]
    event: Array  # [events]
    event_code: Array


def deliver(asked: SearchProblem, play: Play, value: int, p: int) -> None:
    """Record that a value is on a device; its readers there with all inputs become ready."""
    pending, waiting_size = play.pending, play.waiting_size
    for r in range(asked.reader_at[value], asked.reader_at[value + 1]):
        w = asked.reader[r]
        if play.device[w] == p:
            pending[w] -= 1
            if pending[w] == 0 and play.taken[w] == 0:
                push_key(play.waiting, p * asked.nodes, waiting_size[p], play.place[w])
                waiting_size[p] += 1


def dispatch_all(asked: SearchProblem, play: Play, most: int) -> float:
    """Simulate one request of an assignment; return its end.

    A subgraph has at most `most` nodes, plus those that are the only readers of the previous one.
    O((V P + E) log V).
    """
    device, urgency, place, by_place = play.device, play.urgency, play.place, play.by_place
    order, cut, pending, taken, inner = play.order, play.cut, play.pending, play.taken, play.inner
    held, members, busy, free = play.held, play.members, play.busy, play.free
    waiting, waiting_size = play.waiting, play.waiting_size
    event, event_code = play.event, play.event_code
    n, count, host = asked.nodes, asked.devices, asked.host
    events = started = 0
    now = latest = 0.0
    for p in range(count):
        waiting_size[p] = 0
        free[p] = asked.lane_at[p + 1] - asked.lane_at[p]
    for k in range(len(busy)):
        busy[k] = 0.0
    for v in range(n):
        pending[v] = asked.read_at[v + 1] - asked.read_at[v]
        taken[v] = inner[v] = 0
        if device[v] != host:
            pending[v] += asked.given_at[v + 1] - asked.given_at[v]
    for v in range(n):
        if pending[v] == 0:
            p = device[v]
            push_key(waiting, p * n, waiting_size[p], place[v])
            waiting_size[p] += 1
    if host >= 0:
        for m in range(asked.made_at[n], asked.made_at[n + 1]):
            value = asked.made[m]
            for p in range(count):
                here = False
                for r in range(asked.reader_at[value], asked.reader_at[value + 1]):
                    here = here or device[asked.reader[r]] == p
                if here and p != host:
                    end = ask_transfer(asked, busy, value, host * count + p, 0.0)
                    push_event(event, event_code, events, end, n + value * count + p)
                    events += 1
    while True:
        for p in range(count):
            at = p * n
            while free[p] > 0 and waiting_size[p] > 0:
                free[p] -= 1
                v = by_place[waiting[at]]
                pop_key(waiting, at, waiting_size[p])
                waiting_size[p] -= 1
                cut[v] = 1
                end = now + asked.dispatch_s[p]
                size = holds = 0
                joined = 1
                while v >= 0:
                    members[size] = order[started] = v
                    size += 1
                    started += 1
                    taken[v] = 1
                    end += asked.seconds[v * count + p]
                    for m in range(asked.made_at[v], asked.made_at[v + 1]):
                        value = asked.made[m]
                        for r in range(asked.reader_at[value], asked.reader_at[value + 1]):
                            w = asked.reader[r]
                            if device[w] == p:
                                inner[w] += 1
                                if inner[w] == pending[w]:
                                    held[holds] = w
                                    holds += 1
                    following = -1
                    if asked.grouped:
                        for h in range(holds):
                            w = held[h]
                            if taken[w] == 0 and asked.sole[v] == w:
                                following = w
                        if following < 0 and joined < most:
                            joined += 1
                            for h in range(holds):
                                w = held[h]
                                if taken[w] == 0 and (
                                    following < 0 or urgency[w] < urgency[following]
                                ):
                                    following = w
                            if waiting_size[p] > 0 and (
                                following < 0 or urgency[by_place[waiting[at]]] < urgency[following]
                            ):
                                following = by_place[waiting[at]]
                                pop_key(waiting, at, waiting_size[p])
                                waiting_size[p] -= 1
                    v = following
                    if v >= 0:
                        cut[v] = 0
                for h in range(size):
                    v = members[h]
                    push_event(event, event_code, events, end, v)
                    events += 1
                    for m in range(asked.made_at[v], asked.made_at[v + 1]):
                        value = asked.made[m]
                        for r in range(asked.reader_at[value], asked.reader_at[value + 1]):
                            inner[asked.reader[r]] = 0
        if events == 0:
            return latest
        now = event[0]
        if now > latest:
            latest = now
        while events > 0 and event[0] <= now:
            code = event_code[0]
            pop_event(event, event_code, events)
            events -= 1
            if code >= n:
                value = (code - n) // count
                deliver(asked, play, value, (code - n) % count)
                continue
            p = device[code]
            if cut[code]:
                free[p] += 1
            for m in range(asked.made_at[code], asked.made_at[code + 1]):
                value = asked.made[m]
                for q in range(count):
                    here = asked.leaves[value] == 1 and q == host
                    for r in range(asked.reader_at[value], asked.reader_at[value + 1]):
                        here = here or device[asked.reader[r]] == q
                    if here and q == p:
                        deliver(asked, play, value, p)
                    elif here:
                        end = ask_transfer(asked, busy, value, p * count + q, now)
                        push_event(event, event_code, events, end, n + value * count + q)
                        events += 1


compiled = machine_code(
    dispatch_all, push_event, pop_event, push_key, pop_key, ask_transfer, deliver,
    inline=True, forced=False,
)  # fmt: skip


class AssignmentPlayer:
    """Simulator of assignments of one problem, interpreted or in machine code."""

    def __init__(self, problem: Problem, asked: SearchProblem, *, arrays: bool) -> None:
        """Prepare the state from `asked`, as arrays for machine code or as lists."""
        n, count = problem.n, len(problem.devices)
        self._asked, self._arrays = asked, arrays
        events = n + len(asked.row) * count
        ints, floats = np.int64, np.float64
        room = [np.zeros(n, dtype=ints) for _ in range(7)]
        room += [
            np.zeros(size, dtype=kind)
            for size, kind in (
                (len(problem.link_names), floats), (count, ints), (count * n, ints),
                (count, ints), (events, floats), (events, ints),
            )
        ]  # fmt: skip
        self._room: list[Any] = room if arrays else [part.tolist() for part in room]

    def __call__(
        self, device: _Ints, urgency: NDArray[np.float64], most: int
    ) -> tuple[float, _Ints, _Ints]:
        """Return the end, the nodes in order of start, and whether each opens a subgraph."""
        by_place = np.argsort(urgency, kind="stable")
        place = np.empty_like(by_place)
        place[by_place] = np.arange(len(place))
        given: list[Any] = [device, urgency, place, by_place]
        if not self._arrays:
            given = [part.tolist() for part in given]
        play = Play(*given, *self._room)
        ended = (compiled if self._arrays else dispatch_all)(self._asked, play, most)
        order, cut = (np.array(part, dtype=np.int64) for part in (play.order, play.cut))
        return float(ended), order, cut
