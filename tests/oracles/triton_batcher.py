"""Triton's dynamic batcher told again: the queues, cursor and payloads of its scheduler.

Written from the documentation of the server (user guide, "Batchers") and what its core does:
``PolicyQueue``, the cursor of its priority queue and ``dynamic_batch`` are named after what they
transcribe, without threads. Shares no code with hetsim.

Times are whole ticks. Inside, a tick has two halves: all happens in the first, but a batcher
that slept until a request's time is over wakes in the second, for Triton rejects what has waited
*longer* than its timeout. A payload is made when an instance is free for it, as the
documentation says.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field


@dataclass
class Config:
    """What a model's configuration says; 0 where there is none, as there."""

    max_batch_size: int
    preferred: list[int]
    delay: int
    levels: int
    max_queue_size: int
    timeout: int
    reject: bool
    service: list[list[list[int]]]
    """Ticks by variant, instance, size - 1."""
    round_robin: bool


@dataclass
class Request:
    """Comes at a tick, in a level, with an input shape."""

    number: int
    tick: int
    level: int
    shape: int


@dataclass
class Fate:
    """What became of it: ticks at which it went and was answered, or why it did not."""

    sent: int = -1
    finish: int = -1
    instance: int = -1
    size: int = 0
    why: str = ""


@dataclass
class PolicyQueue:
    """One level: requests in time, those that are late, deadlines of the former."""

    config: Config
    timely: list[Request] = field(default_factory=list)
    deadlines: list[int] = field(default_factory=list)
    late: deque[Request] = field(default_factory=deque)

    def size(self) -> int:
        return len(self.timely) + len(self.late)

    def enqueue(self, request: Request, now: int) -> bool:
        if self.config.max_queue_size and self.size() >= self.config.max_queue_size:
            return False
        self.timely.append(request)
        self.deadlines.append(now + 2 * self.config.timeout if self.config.timeout else 0)
        return True

    def dequeue(self) -> Request:
        if self.timely:
            self.deadlines.pop(0)
            return self.timely.pop(0)
        return self.late.popleft()

    def apply_policy(self, index: int, now: int, rejected: list[Request]) -> bool:
        while index < len(self.timely):
            if not self.deadlines[index] or now <= self.deadlines[index]:
                return True
            request = self.timely.pop(index)
            self.deadlines.pop(index)
            if self.config.reject:
                rejected.append(request)
            else:
                self.late.append(request)
        return index - len(self.timely) < len(self.late)

    def at(self, index: int) -> Request:
        if index < len(self.timely):
            return self.timely[index]
        return self.late[index - len(self.timely)]

    def deadline_at(self, index: int) -> int:
        return self.deadlines[index] if index < len(self.timely) else 0


@dataclass
class Cursor:
    """How far the pending batch reaches."""

    level: int = 0
    index: int = 0
    count: int = 0
    closest: int = 0
    oldest: int = 0
    at_late: bool = False
    valid: bool = True

    def copy(self) -> Cursor:
        return Cursor(
            self.level, self.index, self.count, self.closest, self.oldest, self.at_late, self.valid
        )


class Batcher:
    """The scheduler of one model, asked whenever an instance is free."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.preferred = set(config.preferred or [config.max_batch_size])
        self.queues = [PolicyQueue(config) for _ in range(config.levels)]
        self.size = 0
        self.cursor = Cursor()
        self.pending = 0

    def enqueue(self, request: Request, now: int) -> bool:
        if not self.queues[request.level].enqueue(request, now):
            return False
        self.size += 1
        here = self.cursor
        if here.valid and (
            request.level < here.level or (request.level == here.level and here.at_late)
        ):
            here.valid = False
        return True

    def apply_policy_at_cursor(self, now: int, rejected: list[Request]) -> None:
        gone: list[Request] = []
        while self.cursor.level < len(self.queues):
            queue = self.queues[self.cursor.level]
            if queue.apply_policy(self.cursor.index, now, gone):
                break
            if self.size <= self.cursor.count + len(gone):
                break
            self.cursor.level += 1
            self.cursor.index = 0
        self.size -= len(gone)
        rejected += gone

    def advance(self) -> None:
        here = self.cursor
        queue = self.queues[here.level]
        deadline = queue.deadline_at(here.index)
        if deadline:
            here.closest = min(here.closest, deadline) if here.closest else deadline
        came = 2 * queue.at(here.index).tick
        here.oldest = min(here.oldest, came) if here.count else came
        here.index += 1
        here.count += 1
        here.at_late = here.index > len(queue.timely)

    def dynamic_batch(self, now: int, rejected: list[Request]) -> tuple[list[Request], int]:
        """Return the batch that goes, and else until when to wait; -1 where nothing is left."""
        if not (self.cursor.valid and now < self.cursor.closest):
            self.cursor = Cursor()
            self.pending = 0
        largest_preferred = max(self.preferred)
        send_now = False
        best, mark = 0, self.cursor.copy()
        self.apply_policy_at_cursor(now, rejected)
        shape = None
        if self.cursor.count:
            shape = self._first().shape
        while self.cursor.count < self.size:
            request = self.queues[self.cursor.level].at(self.cursor.index)
            if self.cursor.count == 0:
                shape = request.shape
            elif self.pending + 1 > self.config.max_batch_size or request.shape != shape:
                send_now = True
                break
            self.pending += 1
            self.advance()
            self.apply_policy_at_cursor(now, rejected)
            if self.pending in self.preferred:
                best, mark = self.pending, self.cursor.copy()
        delay = 2 * self.config.delay
        exceeded = delay != 0 and self.cursor.count > 0 and now - self.cursor.oldest >= delay
        if best and not exceeded:
            self.pending, self.cursor = best, mark
            return self._extract(), 0
        if self.cursor.count == 0:
            return [], -1
        if send_now or self.pending >= largest_preferred or exceeded or delay == 0:
            return self._extract(), 0
        until = self.cursor.oldest + delay
        if self.cursor.closest:
            until = min(until, self.cursor.closest + 1)
        return [], until

    def _first(self) -> Request:
        return next(queue.at(0) for queue in self.queues if queue.size())

    def _extract(self) -> list[Request]:
        batch = []
        for _ in range(self.cursor.count):
            self.cursor.valid = False
            batch.append(next(queue for queue in self.queues if queue.size()).dequeue())
            self.size -= 1
        self.pending = 0
        return batch


def served(config: Config, requests: list[Request]) -> list[Fate]:
    """Let requests come, ascending, to instances that each run one batch at a time."""
    batcher = Batcher(config)
    fates = [Fate() for _ in requests]
    instances = len(config.service[0])
    busy: list[int | None] = [None] * instances
    turn = 0
    coming = deque(requests)
    wake: int | None = None
    while True:
        moments = [2 * end for end in busy if end is not None]
        if coming:
            moments.append(2 * coming[0].tick)
        if wake is not None:
            moments.append(wake)
        if not moments:
            return fates
        now = min(moments)
        tick = now // 2
        busy = [None if end is not None and 2 * end <= now else end for end in busy]
        while coming and 2 * coming[0].tick == now:
            request = coming.popleft()
            if not batcher.enqueue(request, now):
                fates[request.number].why = "full"
        wake = None
        while batcher.size and None in busy:
            rejected: list[Request] = []
            batch, until = batcher.dynamic_batch(now, rejected)
            for request in rejected:
                fates[request.number].why = "expired"
            if not batch:
                wake = until if until > 0 else None
                break
            order = range(instances)
            if config.round_robin:
                order = [(turn + k) % instances for k in range(instances)]
            instance = next(k for k in order if busy[k] is None)
            turn = (instance + 1) % instances
            end = tick + config.service[batch[0].shape][instance][len(batch) - 1]
            busy[instance] = end
            for request in batch:
                fates[request.number] = Fate(tick, end, instance, len(batch))
