"""The rules of the virtual clock without a clock: what may start, told of what has ended."""

from __future__ import annotations

import heapq
from collections import deque

from hetsim.simulation.clock.templates import PlanTasks, Template

Task = tuple[int, int]
"""Request, and task of the template."""


class _Rules:
    """What of a template waits for what, and in which order devices take its subgraphs."""

    def __init__(self, template: Template) -> None:
        self.template = template
        self.waits = [len(before) for before in template.predecessors]
        self.followers: list[list[int]] = [[] for _ in range(template.tasks)]
        for task, before in enumerate(template.predecessors):
            for predecessor in before:
                self.followers[predecessor].append(task)
        self.issue: list[list[int]] = [[] for _ in template.plan.problem.devices]
        for group, device in enumerate(template.group_device):
            self.issue[device].append(group)


class Turns:
    """Who holds streams and links, for those who play templates at times of their own.

    The rules are those of ``clock.rules``: a device starts the subgraph of the earliest
    request whose inputs are there and whose turn it is; a transfer starts when it stands first
    in the queues of all its links.

    Parameters
    ----------
    plan_tasks : PlanTasks
        Requests run its templates as the plan deals them out.

    Complexity: O(log A) a task for A requests in flight, and its followers and links.
    """

    def __init__(self, plan_tasks: PlanTasks) -> None:
        problem = plan_tasks.plan.problem
        self._plan = plan_tasks.plan
        self._rules = [_Rules(template) for template in plan_tasks.templates]
        self._free = list(problem.streams)
        self._ready: list[list[int]] = [[] for _ in problem.devices]
        self._queues: list[deque[Task]] = [deque() for _ in plan_tasks.links]
        self._pending: dict[int, list[int]] = {}
        self._turn: dict[int, list[int]] = {}
        self._left: dict[int, int] = {}
        self._behind: dict[Task, int] = {}
        self._starting: list[Task] = []

    def admit(self, request: int) -> None:
        """Take a request; later ones have higher numbers."""
        rules = self._of(request)
        template = rules.template
        self._pending[request] = list(rules.waits)
        self._turn[request] = [0] * len(rules.issue)
        self._left[request] = template.tasks
        for device in range(len(rules.issue)):
            self._offer(request, device)
        for task in range(template.groups, template.tasks):
            if not rules.waits[task]:
                self._queue(request, task)

    def template_of(self, request: int) -> Template:
        """Return the template that a request runs."""
        return self._of(request).template

    def _of(self, request: int) -> _Rules:
        return self._rules[self._plan.replica_of(request)]

    def end(self, request: int, task: int) -> bool:
        """Note that a task has ended; return whether it was the last of its request."""
        rules = self._of(request)
        template = rules.template
        if task < template.groups:
            self._free[template.group_device[task]] += 1
        else:
            for link in template.transfers[task - template.groups].resources:
                queue = self._queues[link]
                queue.popleft()
                if queue:
                    self._step_up(queue[0])
        pending = self._pending[request]
        for follower in rules.followers[task]:
            pending[follower] -= 1
            if pending[follower]:
                continue
            if follower >= template.groups:
                self._queue(request, follower)
            else:
                device = template.group_device[follower]
                turn = self._turn[request][device]
                if rules.issue[device][turn] == follower:
                    heapq.heappush(self._ready[device], request)
        self._left[request] -= 1
        if self._left[request]:
            return False
        del self._pending[request], self._turn[request], self._left[request]
        return True

    def starts(self) -> list[Task]:
        """Return what starts now: transfers, then subgraphs by device; each is told once."""
        found, self._starting = self._starting, []
        for device, ready in enumerate(self._ready):
            while ready and self._free[device]:
                request = heapq.heappop(ready)
                turn = self._turn[request][device]
                self._turn[request][device] = turn + 1
                self._free[device] -= 1
                found.append((request, self._of(request).issue[device][turn]))
                self._offer(request, device)
        return found

    def _offer(self, request: int, device: int) -> None:
        """Put a request up where its next subgraph on a device waits for nothing else."""
        turn = self._turn[request][device]
        issue = self._of(request).issue[device]
        if turn < len(issue) and not self._pending[request][issue[turn]]:
            heapq.heappush(self._ready[device], request)

    def _queue(self, request: int, task: int) -> None:
        behind = 0
        template = self.template_of(request)
        for link in template.transfers[task - template.groups].resources:
            queue = self._queues[link]
            behind += bool(queue)
            queue.append((request, task))
        if behind:
            self._behind[request, task] = behind
        else:
            self._starting.append((request, task))

    def _step_up(self, task: Task) -> None:
        self._behind[task] -= 1
        if not self._behind[task]:
            del self._behind[task]
            self._starting.append(task)
