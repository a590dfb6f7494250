"""The virtual clock with failures: the kernel's rules, each request with tasks of its own.

What happens at one instant is in the order of ``hetsim.simulation.clock.rules``; devices fail, and
come back, after the ends and arrivals of that instant and before anything starts on a device.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal

from hetsim.errors import PlanError
from hetsim.plans.plan import Plan
from hetsim.problem.parts import Contention
from hetsim.simulation.failures.failure import Failure
from hetsim.simulation.failures.remaining_tasks import Progress, Task, Version

Moment = tuple[float, int, Literal["stop", "known", "back"], Failure]


class FailingClock:
    """Plays a plan while devices fail.

    Parameters
    ----------
    plan : Plan
    arrival : sequence of float
        Ascending.
    failures : sequence of Failure
        By time, of devices that there are.
    contention : "fifo" or "none"
    replan : callable
        Gives a plan without the devices that it is told.

    Attributes
    ----------
    finish : list of float
        By request.
    log : list of Task
        All that started, in the order in which it did; cut off where it was lost.
    versions : list of Version
        The plan, and those that took its place.
    happened : list of Failure
        Those that came before the last request ended.
    """

    def __init__(
        self,
        plan: Plan,
        arrival: Sequence[float],
        failures: Sequence[Failure],
        contention: Contention,
        replan: Callable[[Plan, tuple[str, ...]], Plan],
    ) -> None:
        self._plan = plan
        self._arrival = arrival
        self._contention: Contention = contention
        self._replan = replan
        problem = plan.problem
        self._streams = problem.streams
        self._occupied = [[False] * width for width in problem.streams]
        self._stopped = [False] * len(problem.devices)
        self._down = [False] * len(problem.devices)
        self._kept_back: list[Task] = []
        self._lost: list[str] = []
        self._running: dict[Task, None] = {}
        self._ready: list[list[int]] = [[] for _ in problem.devices]
        self._queues: list[deque[Task]] = [deque() for _ in problem.link_names]
        self._ends: list[tuple[float, int, int, int, int, Task]] = []
        self._open: dict[int, Progress] = {}
        self._moments = sorted(_moments(failures), key=lambda moment: moment[:2], reverse=True)
        self.finish = [math.nan] * len(arrival)
        self.log: list[Task] = []
        self.happened: list[Failure] = []
        self.versions = [Version(plan, 0, contention)]

    def play(self) -> None:
        """Run until all requests have ended.

        Raises
        ------
        Infeasible
            Where no device is left that can do the rest.
        PlanError
            Where some subgraph never starts.
        """
        arrived = 0
        while self._ends or self._open or arrived < len(self._arrival):
            times = [self._ends[0][0]] if self._ends else []
            if arrived < len(self._arrival):
                times.append(self._arrival[arrived])
            if self._moments:
                times.append(self._moments[-1][0])
            if not times:
                raise PlanError(
                    "its subgraphs wait for each other and never start",
                    where=f"plan '{self._plan.strategy}'",
                    hint="order every group after the groups that feed it",
                )
            now = min(times)
            while True:
                if self._ends and self._ends[0][0] == now:
                    self._end(heapq.heappop(self._ends)[-1], now)
                elif arrived < len(self._arrival) and self._arrival[arrived] == now:
                    self._admit(arrived, now)
                    arrived += 1
                elif self._moments and self._moments[-1][0] == now:
                    self._happen(self._moments.pop(), now)
                else:
                    self._start_subgraphs(now)
                    if not self._ends or self._ends[0][0] != now:
                        break

    def _admit(self, request: int, now: float) -> None:
        progress, free = self.versions[-1].fresh(request)
        if not progress.remaining:
            self.finish[request] = now
            return
        self._open[request] = progress
        self._offer(request, progress)
        self._enqueue(free, now)

    def _end(self, task: Task, now: float) -> None:
        if task.lost:
            return
        del self._running[task]
        starting: list[Task] = []
        if task.device >= 0:
            self._occupied[task.device][task.stream] = False
        else:
            starting = self._release(task)
        progress = self._open.get(task.request)
        fresh: list[Task] = []
        if progress is not None:
            del progress.running[task]
            for value, device in task.gives:
                progress.held.setdefault(value, set()).add(device)
            progress.computed.update(task.ends)
            for follower in task.followers:
                follower.waits -= 1
                if not follower.waits:
                    turn = progress.turns[follower.device] if follower.device >= 0 else []
                    if turn and turn[-1] is follower:
                        heapq.heappush(self._ready[follower.device], task.request)
                    elif follower.device < 0:
                        fresh.append(follower)
            progress.remaining -= task.counts
            if not progress.remaining:
                self.finish[task.request] = now
                del self._open[task.request]
        self._enqueue(fresh, now, starting)

    def _release(self, task: Task) -> list[Task]:
        """Take a transfer from the head of its links; return those that can start by that."""
        starting: list[Task] = []
        for link in task.resources:
            queue = self._queues[link]
            queue.popleft()
            if queue:
                queue[0].behind -= 1
                if not queue[0].behind:
                    starting.append(queue[0])
        return starting

    def _enqueue(self, fresh: Sequence[Task], now: float, starting: Sequence[Task] = ()) -> None:
        begin = list(starting)
        for task in fresh:
            if task.target != self._plan.problem.host and self._down[task.target]:
                self._kept_back.append(task)
                continue
            for link in task.resources:
                task.behind += bool(self._queues[link])
                self._queues[link].append(task)
            if not task.behind:
                begin.append(task)
        for task in begin:
            self._begin(task, now)

    def _begin(self, task: Task, now: float) -> None:
        task.start, task.end = now, now + task.seconds
        self.log.append(task)
        self._running[task] = None
        self._open[task.request].running[task] = None
        order = (task.end, task.request, task.version, task.index, len(self.log))
        heapq.heappush(self._ends, (*order, task))

    def _start_subgraphs(self, now: float) -> None:
        for device, ready in enumerate(self._ready):
            occupied = self._occupied[device]
            while ready and not self._stopped[device] and False in occupied:
                progress = self._open.get(ready[0])
                turn = progress.turns[device] if progress is not None else []
                if not turn or turn[-1].waits:
                    heapq.heappop(ready)
                    continue
                task = turn.pop()
                if not turn or turn[-1].waits:
                    heapq.heappop(ready)
                task.stream = occupied.index(False)
                occupied[task.stream] = True
                self._begin(task, now)

    def _offer(self, request: int, progress: Progress) -> None:
        for device, turn in enumerate(progress.turns):
            if turn and not turn[-1].waits:
                heapq.heappush(self._ready[device], request)

    def _happen(self, moment: Moment, now: float) -> None:
        _, _, what, failure = moment
        device = self._plan.problem.devices.index(failure.device)
        if what == "stop":
            self.happened.append(failure)
            self._stopped[device] = True
            # What it runs has no end any more; that it is lost shows when the failure is known.
            for task in self._running:
                if task.device == device:
                    task.lost, task.end = True, now
        elif what == "known":
            self._lose(device, now)
            self._down[device] = True
            if math.isinf(failure.back_s):
                self._lost.append(failure.device)
                if self.versions[-1].uses(device):
                    plan = self._replan(self._plan, tuple(self._lost))
                    self.versions.append(Version(plan, len(self.versions), self._contention))
            self._go_on(now)
        else:
            self._stopped[device] = self._down[device] = False
            arriving = [task for task in self._kept_back if task.target == device]
            self._kept_back = [task for task in self._kept_back if task.target != device]
            self._enqueue(arriving, now)

    def _lose(self, device: int, now: float) -> None:
        """Take from every request what it had on a device, and what it did there or with it."""
        problem = self._plan.problem
        self._occupied[device] = [False] * self._streams[device]
        for task in tuple(self._running):
            if device in (task.device, task.source, task.target):
                if not task.lost:
                    task.lost, task.end = True, now
                del self._running[task]
                if task.request in self._open:
                    del self._open[task.request].running[task]
        for progress in self._open.values():
            for value, places in progress.held.items():
                # Inputs, and outputs that have arrived, are with the caller.
                caller = device == problem.host and (
                    problem.values[value].producer < 0 or problem.values[value].is_output
                )
                if not caller:
                    places.discard(device)

    def _go_on(self, now: float) -> None:
        """Lay out what every request still has to do, and start what can start."""
        self._ready = [[] for _ in self._ready]
        self._kept_back = []
        for queue in self._queues:
            head = queue[0] if queue and queue[0].start >= 0 and not queue[0].lost else None
            queue.clear()
            if head is not None:
                queue.append(head)
        for request, progress in sorted(self._open.items()):
            free = self.versions[-1].rest(request, progress)
            if not progress.remaining:
                self.finish[request] = now
                del self._open[request]
                continue
            self._offer(request, progress)
            self._enqueue(free, now)


def _moments(failures: Sequence[Failure]) -> list[Moment]:
    found: list[Moment] = []
    for failure in failures:
        found.append((failure.at_s, len(found), "stop", failure))
        found.append((failure.known_s, len(found), "known", failure))
        if math.isfinite(failure.back_s):
            found.append((failure.back_s, len(found), "back", failure))
    return found
