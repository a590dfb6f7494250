"""Requests that come, wait, go in batches and run, told again from docs/decisions/03 and 25.

A device runs as many subgraphs at a time as it has streams: of those whose inputs are there and
whose turn it is within their batch, the one of the lowest (rank, number of the batch). A transfer
waits in the queue of each of its links, first come first served, and holds them all while it
lasts. In front of that stand queues, batchers and routing. At one instant: what ends, ends; what
comes, comes; batchers look, one batch after another; devices start; until nothing more happens.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import chain


class Work:
    """What a batch does on the devices and links of an instance: tasks that wait for each other.

    `tasks`: (device or -1, seconds, links, tasks that must end first) each.
    """

    __slots__ = ("alone_s", "device", "followers", "links", "load_s", "order", "roots", "seconds",
                 "waits")  # fmt: skip

    def __init__(
        self,
        tasks: Iterable[tuple[int, float, Sequence[int], Sequence[int]]],
        streams: Sequence[int],
    ) -> None:
        rows = list(tasks)
        self.device = [row[0] for row in rows]
        self.seconds = [row[1] for row in rows]
        self.links = [row[2] for row in rows]
        self.waits = [len(row[3]) for row in rows]
        self.followers: list[list[int]] = [[] for _ in rows]
        self.order: dict[int, list[int]] = {}
        self.roots = []
        busy: dict[tuple[bool, int], float] = {}
        for task, (device, seconds, links, before) in enumerate(rows):
            for other in before:
                self.followers[other].append(task)
            if device >= 0:
                self.order.setdefault(device, []).append(task)
                share = seconds / streams[device]
                busy[True, device] = busy.get((True, device), 0.0) + share
            elif not before:
                self.roots.append(task)
            for link in links:
                busy[False, link] = busy.get((False, link), 0.0) + seconds
        self.load_s = max(busy.values(), default=0.0)
        self.alone_s = 0.0


class Batch:
    """Requests that run together."""

    __slots__ = ("instance", "left", "model", "number", "rank", "requests", "turn", "waits", "work")

    def __init__(
        self, number: int, rank: int, work: Work, requests: list[int], model: Served, instance: int
    ) -> None:
        self.number, self.rank, self.work, self.requests = number, rank, work, requests
        self.model, self.instance = model, instance
        self.waits, self.left = work.waits.copy(), len(work.waits)
        self.turn = dict.fromkeys(work.order, 0)


@dataclass(slots=True, eq=False)
class Served:
    """A model: ``work[instance][kind of request][size - 1]``, and its rules, as the page says."""

    work: list[list[list[Work]]]
    limits: list[int]
    routing: str
    levels: int = 1
    cycle: Sequence[int] = ()
    room: int | None = None
    timeout_s: float = math.inf
    delays: bool = False
    preferred: Sequence[int] = ()
    delay_s: float = 0.0
    lines: list[tuple[deque[int], deque[int]]] = field(init=False)
    inside: list[int] = field(init=False)
    free_s: list[float] = field(init=False)
    waiting: int = 0
    turn: int = 0
    timer_s: float = math.inf
    looks: bool = False

    def __post_init__(self) -> None:
        self.lines = [(deque(), deque()) for _ in range(self.levels)]
        self.inside = [0] * len(self.work)
        self.free_s = [-math.inf] * len(self.work)
        self.cycle = self.cycle or range(len(self.work))

    @property
    def largest(self) -> int:
        """The most requests of a batch."""
        return len(self.work[0][0])

    def takes(self, instance: int) -> bool:
        """Whether an instance takes one more batch."""
        return not self.limits[instance] or self.inside[instance] < self.limits[instance]

    def spare(self) -> float:
        """How many more batches instances take."""
        rows = zip(self.limits, self.inside, strict=True)
        return sum(limit - inside if limit else math.inf for limit, inside in rows)


class Player:
    """Devices with streams, links, and models that are served on them."""

    def __init__(self, streams: Sequence[int], links: int, models: Sequence[Served]) -> None:
        self.streams, self.models = streams, models
        self.free = list(streams)
        self.ready: list[list[tuple[int, int, Batch]]] = [[] for _ in streams]
        self.able: set[int] = set()
        self.links: list[deque[tuple[Batch, int]]] = [deque() for _ in range(links)]
        self.events: list[tuple[float, int, int, Batch]] = []
        self.batches = 0
        self.now = -math.inf
        if any(model.routing == "least_finish" for model in models):
            for model in models:
                for one in chain.from_iterable(chain.from_iterable(model.work)):
                    one.alone_s = alone_s(one, streams, links)

    def play(
        self, times: Sequence[float], asks: Sequence[tuple[int, int, int]]
    ) -> tuple[list[float], list[bool]]:
        """Let requests come, ascending, each with its (model, level, kind).

        Return when each was answered, infinite where it was rejected, and whether it found its
        model's queue empty and an instance idle. NaN: it never ended.
        """
        self.times, self.asks = times, asks
        self.finish = [math.nan] * len(times)
        self.fresh = [False] * len(times)
        events, models, come, total = self.events, self.models, 0, len(times)
        while True:
            now = self.now
            while True:
                if events and events[0][0] == now:
                    _, _, task, batch = heappop(events)
                    self.end(batch, task)
                elif come < total and times[come] == now:
                    self.come(come)
                    come += 1
                elif model := next((one for one in models if one.looks), None):
                    self.look(model)
                elif self.able:
                    self.start_devices()
                else:
                    break
            now = min([one.timer_s for one in models])
            if events:
                now = min(now, events[0][0])
            if come < total:
                now = min(now, times[come])
            if now == math.inf:
                return self.finish, self.fresh
            self.now = now
            for model in models:
                if model.timer_s <= now:
                    model.timer_s, model.looks = math.inf, True

    # Devices and links

    def admit(self, batch: Batch) -> None:
        """Let a batch run."""
        work = batch.work
        for device, order in work.order.items():
            if not batch.waits[order[0]]:
                self.offer(device, batch)
        for task in work.roots:
            self.queue(batch, task)
        if not batch.left:
            self.over(batch)

    def offer(self, device: int, batch: Batch) -> None:
        """The next subgraph of a batch on a device waits for a stream alone."""
        heappush(self.ready[device], (batch.rank, batch.number, batch))
        self.able.add(device)

    def queue(self, batch: Batch, task: int) -> None:
        """Let a transfer wait for its links; it goes where it is first in all their queues."""
        behind = 0
        for link in batch.work.links[task]:
            behind += bool(self.links[link])
            self.links[link].append((batch, task))
        batch.waits[task] = behind
        if not behind:
            self.start(batch, task)

    def start(self, batch: Batch, task: int) -> None:
        """A task takes its seconds from now on."""
        heappush(self.events, (self.now + batch.work.seconds[task], batch.number, task, batch))

    def start_devices(self) -> None:
        """Let devices start all that they can."""
        for device in self.able:
            ready = self.ready[device]
            while ready and self.free[device]:
                batch = ready[0][2]
                order, at = batch.work.order[device], batch.turn[device]
                batch.turn[device] = at + 1
                if at + 1 == len(order) or batch.waits[order[at + 1]]:
                    heappop(ready)
                self.free[device] -= 1
                self.start(batch, order[at])
        self.able.clear()

    def end(self, batch: Batch, task: int) -> None:
        """A task gives up its stream or links, and what waited for it may go."""
        work, waits = batch.work, batch.waits
        device = work.device[task]
        if device >= 0:
            self.free[device] += 1
            self.able.add(device)
        for link in work.links[task]:
            line = self.links[link]
            line.popleft()
            if line:
                other, which = line[0]
                other.waits[which] -= 1
                if not other.waits[which]:
                    self.start(other, which)
        for follower in work.followers[task]:
            waits[follower] -= 1
            if not waits[follower]:
                device = work.device[follower]
                if device < 0:
                    self.queue(batch, follower)
                elif work.order[device][batch.turn[device]] == follower:
                    self.offer(device, batch)
        batch.left -= 1
        if not batch.left:
            self.over(batch)

    def over(self, batch: Batch) -> None:
        """The last task of a batch has ended: its requests are answered."""
        model, instance = batch.model, batch.instance
        model.inside[instance] -= 1
        if not model.inside[instance]:
            model.free_s[instance] = self.now
        for request in batch.requests:
            self.finish[request] = self.now
        model.looks = model.looks or model.waiting > 0

    # Queues, batchers and routing

    def come(self, request: int) -> None:
        """A request is rejected, goes, or waits for a batcher."""
        at, level, kind = self.asks[request]
        model = self.models[at]
        fresh = not model.waiting and 0 in model.inside
        timely, late = model.lines[level]
        full = model.room is not None and len(timely) + len(late) >= model.room
        if full and (model.room or model.waiting >= model.spare()):
            self.finish[request] = math.inf
            return
        self.fresh[request] = fresh
        if model.largest == 1 and not any(model.limits):
            self.send(model, [request], level, kind)
            return
        timely.append(request)
        model.waiting += 1
        model.looks = True

    def look(self, model: Served) -> None:
        """A batcher sends one batch, or waits until something changes."""
        size = 0
        if model.waiting and model.spare():
            size, until_s = self.sized(model, just_after=False)
            if not size and model.waiting:
                if until_s <= self.now:
                    # What may wait until this very instant is rejected just after it.
                    size, until_s = self.sized(model, just_after=True)
                if not size and until_s > self.now:
                    model.timer_s = until_s
        if not size:
            model.looks = False
            return
        requests: list[int] = []
        for line in chain.from_iterable(model.lines):
            while line and len(requests) < size:
                requests.append(line.popleft())
        model.waiting -= size
        _, level, kind = self.asks[requests[0]]
        self.send(model, requests, level, kind)

    def sized(self, model: Served, *, just_after: bool) -> tuple[int, float]:
        """Return how many go now, and else until when they wait. Rejects what waited too long."""
        now, times = self.now, self.times
        preferred = model.preferred or (model.largest,)
        passed, best, full, kind = 0, 0, False, -1
        oldest, soonest = math.inf, math.inf
        for timely, late in model.lines:
            while timely:
                due = times[timely[0]] + model.timeout_s
                if not (due < now or (just_after and due == now)):
                    break
                request = timely.popleft()
                if model.delays:
                    late.append(request)
                else:
                    self.finish[request] = math.inf
                    model.waiting -= 1
            for number, request in enumerate(chain(timely, late)):
                own = self.asks[request][2]
                if passed == model.largest or (passed and own != kind):
                    full = True
                    break
                kind = own
                passed += 1
                best = passed if passed in preferred else best
                oldest = min(oldest, times[request])
                if number < len(timely):
                    soonest = min(soonest, times[request] + model.timeout_s)
            if full:
                break
        waited = model.delay_s > 0 and now >= oldest + model.delay_s
        if best and not waited:
            return best, now
        if full or waited or not model.delay_s:
            return passed, now
        return 0, min(oldest + model.delay_s, soonest)

    def send(self, model: Served, requests: list[int], level: int, kind: int) -> None:
        """Let requests go as one batch, to the instance that routing names."""
        able = [at for at in range(len(model.work)) if model.takes(at)]
        size = len(requests) - 1
        if model.routing == "round_robin":
            while model.cycle[model.turn] not in able:
                model.turn = (model.turn + 1) % len(model.cycle)
            instance = model.cycle[model.turn]
            model.turn = (model.turn + 1) % len(model.cycle)
        elif model.routing == "shortest_queue":
            instance = min(able, key=lambda at: model.inside[at])
        else:
            free_s = model.free_s
            instance = min(
                able, key=lambda at: max(self.now, free_s[at]) + model.work[at][kind][size].alone_s
            )
        work = model.work[instance][kind][size]
        if model.routing == "least_finish":
            model.free_s[instance] = max(self.now, model.free_s[instance]) + work.load_s
        model.inside[instance] += 1
        batch = Batch(self.batches, level, work, requests, model, instance)
        self.batches += 1
        self.admit(batch)


def alone_s(work: Work, streams: Sequence[int], links: int) -> float:
    """Return when a batch is over that comes at 0 and has everything for itself."""
    model = Served([[[work]]], [0], "round_robin")
    finish, _ = Player(streams, links, [model]).play([0.0], [(0, 0, 0)])
    return finish[0]
