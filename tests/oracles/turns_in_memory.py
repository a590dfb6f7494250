"""Models that take turns in memory, told again: a small event model without hetsim's code.

Times are whole ticks of at least one. A batch is a chain of steps, each on a link, first come first
served, or on a device, which takes of the batches that wait the one that was sent first. At one
tick what ends ends, what comes comes, then models look, the first that can do something first,
until none can; then devices start.

The rules of memory: a batch goes to an instance whose devices all hold its model. Where there is
none, an instance is kept memory for, if there is room or the least recently used that are idle
make it, and what lacks is loaded; else the model claims memory, and until it has it those who
claimed later, or not, begin nothing on devices that its instances use.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field
from typing import Any

Step = tuple[str, int, int]
"""("link" or "device", which, ticks)."""


@dataclass(eq=False)
class Instance:
    """Devices that it uses, steps of a batch by size, batches at a time."""

    devices: tuple[int, ...]
    steps: list[list[Step]]
    limit: int
    under_way: int = 0
    kept: bool = False
    began: int = 0


@dataclass
class Model:
    """Its instances, the largest batch, bytes and loading by device."""

    instances: list[Instance]
    largest: int
    nbytes: dict[int, int]
    load: dict[int, tuple[int, int]]
    """(link, ticks) by device; none of devices where nothing is to be loaded."""
    waiting: deque[int] = field(default_factory=deque)


@dataclass
class Cell:
    """A model's weights on a device."""

    state: str = "absent"
    users: int = 0
    used: int = -1
    loads: int = 0


class Turns:
    """Play requests, (tick, model) in order, and tell of each (sent, finish, instance, load)."""

    def __init__(self, models: list[Model], budget: list[int]) -> None:
        self.models, self.budget = models, budget
        self.cells = {(m, p): Cell() for m, one in enumerate(models) for p in one.nbytes}
        self.now = 0
        self.number = 0
        self.ends: list[tuple[int, int, Any]] = []
        self.links: dict[int, deque[Any]] = {}
        self.devices: dict[int, list[Any]] = {}
        self.busy: set[int] = set()
        self.line: list[int] = []
        self.came: dict[int, int] = {}
        self.ended: dict[Instance, int] = {}
        self.told: dict[int, tuple[int, int, int, int]] = {}
        self.first()

    def free(self, device: int) -> int:
        there = [
            self.models[m].nbytes[p]
            for (m, p), cell in self.cells.items()
            if p == device and cell.state != "absent"
        ]
        return self.budget[device] - sum(there)

    def first(self) -> None:
        """What fits is there: an instance of each model, then another of each."""
        left = [list(one.instances) for one in self.models]
        while any(left):
            for m, instances in enumerate(left):
                for k, instance in enumerate(instances):
                    new = [p for p in instance.devices if self.cells[m, p].state == "absent"]
                    if all(self.models[m].nbytes[p] <= self.free(p) for p in new):
                        for p in new:
                            self.cells[m, p].state = "there"
                        del instances[: k + 1]
                        break
                else:
                    instances.clear()

    def play(self, requests: list[tuple[int, int]]) -> None:
        coming = deque(enumerate(requests))
        while coming or self.ends:
            self.now = min([e[0] for e in self.ends[:1]] + [c[1][0] for c in list(coming)[:1]])
            while self.ends and self.ends[0][0] == self.now:
                self.over(heapq.heappop(self.ends)[2])
            while coming and coming[0][1][0] == self.now:
                request, (_, model) = coming.popleft()
                self.came[request] = self.now
                self.models[model].waiting.append(request)
            while any(self.acts(m) for m in range(len(self.models))):
                pass
            self.start()

    # Links and devices.

    def step(self, job: dict[str, Any]) -> None:
        """Let a job go on with its next step, or be over."""
        if not job["steps"]:
            job["over"]()
            return
        kind, where, ticks = job["steps"].pop(0)
        job["ticks"], job["on"] = ticks, (kind, where)
        if kind == "link":
            queue = self.links.setdefault(where, deque())
            queue.append(job)
            if len(queue) == 1:
                self.run(job)
        else:
            self.devices.setdefault(where, []).append(job)

    def run(self, job: dict[str, Any]) -> None:
        heapq.heappush(self.ends, (self.now + job["ticks"], job["number"], job))

    def over(self, job: dict[str, Any]) -> None:
        kind, where = job["on"]
        if kind == "link":
            queue = self.links[where]
            queue.popleft()
            if queue:
                self.run(queue[0])
        else:
            self.busy.discard(where)
        self.step(job)

    def start(self) -> None:
        for device, jobs in self.devices.items():
            if jobs and device not in self.busy:
                job = min(jobs, key=lambda one: one["number"])
                jobs.remove(job)
                self.busy.add(device)
                self.run(job)

    def send(self, steps: list[Step], over: Any) -> None:
        job = {"number": self.number, "steps": list(steps), "over": over}
        self.number += 1
        self.step(job)

    # Models.

    def behind(self, m: int, instance: Instance) -> bool:
        """Whether someone claimed what this instance uses before its model did."""
        ahead = self.line[: self.line.index(m)] if m in self.line else self.line
        return any(set(instance.devices) & set(self.models[other].nbytes) for other in ahead)

    def served(self, m: int) -> bool:
        """Let a model be no longer in the line; return whether it was."""
        was = m in self.line
        self.line = [other for other in self.line if other != m]
        return was

    def ready(self, m: int, instance: Instance) -> bool:
        there = all(self.cells[m, p].state == "there" for p in instance.devices)
        spare = instance.under_way < instance.limit
        return spare and there and (instance.kept or not self.behind(m, instance))

    def acts(self, m: int) -> bool:
        """Let a model do one thing; return whether it did."""
        one = self.models[m]
        if not one.waiting:
            claimed = self.served(m)
            idle = [
                i
                for i in one.instances
                if i.kept and all(self.cells[m, p].state == "there" for p in i.devices)
            ]
            for instance in idle:
                instance.kept = False
                self.touch(m, instance, -1)
            return bool(idle) or claimed
        ready = [i for i in one.instances if self.ready(m, i)]
        if ready:
            self.go(m, min(ready, key=lambda i: i.under_way))
            return True
        spare = [i for i in one.instances if i.under_way < i.limit]
        kept = [i for i in one.instances if i.kept]
        if all(i.kept for i in spare) or len(one.waiting) <= len(kept) * one.largest:
            return False
        for crowd_out in (False, True):
            for instance in spare:
                if not instance.kept and self.keep(m, instance, crowd_out):
                    self.served(m)
                    return True
        if m in self.line:
            return False
        self.line.append(m)
        return True

    def idle(self, device: int) -> list[tuple[int, int]]:
        """Models that may make room, the least recently used first."""
        found = [
            (cell.used, m)
            for (m, p), cell in self.cells.items()
            if p == device and cell.state == "there" and cell.users == 0
        ]
        return sorted(found)

    def keep(self, m: int, instance: Instance, crowd_out: bool) -> bool:
        if self.behind(m, instance):
            return False
        new = [p for p in instance.devices if self.cells[m, p].state == "absent"]
        for p in new:
            most = self.free(p)
            if crowd_out:
                most += sum(self.models[other].nbytes[p] for _, other in self.idle(p))
            if most < self.models[m].nbytes[p]:
                return False
        for p in new:
            gone = iter(self.idle(p))
            while self.free(p) < self.models[m].nbytes[p]:
                self.cells[next(gone)[1], p].state = "absent"
            self.cells[m, p].state = "coming"
        self.touch(m, instance, 1)
        instance.kept, instance.began, self.ended[instance] = True, self.now, self.now
        for p in sorted(new):
            if p not in self.models[m].load:
                self.cells[m, p].state = "there"
                continue
            link, ticks = self.models[m].load[p]
            self.cells[m, p].loads += 1
            self.send([("link", link, ticks)], lambda p=p: self.loaded(m, p))
        return True

    def loaded(self, m: int, p: int) -> None:
        self.cells[m, p].state = "there"
        for instance in self.models[m].instances:
            if instance.kept and p in instance.devices:
                self.ended[instance] = self.now

    def touch(self, m: int, instance: Instance, more: int) -> None:
        for p in instance.devices:
            self.cells[m, p].users += more
            self.cells[m, p].used = self.now

    def go(self, m: int, instance: Instance) -> None:
        one = self.models[m]
        batch = [one.waiting.popleft() for _ in range(min(one.largest, len(one.waiting)))]
        loads = {}
        if instance.kept:
            until = self.ended[instance]
            loads = {r: max(until - max(instance.began, self.came[r]), 0) for r in batch}
            instance.kept = False
        else:
            self.touch(m, instance, 1)
        self.served(m)
        instance.under_way += 1
        sent, number = self.now, one.instances.index(instance)

        def over() -> None:
            instance.under_way -= 1
            self.touch(m, instance, -1)
            for request in batch:
                self.told[request] = (sent, self.now, number, loads.get(request, 0))

        self.send(instance.steps[len(batch) - 1], over)
