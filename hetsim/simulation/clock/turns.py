"""The clock's rules for those whose times are real: what may start, told of what has ended."""

from __future__ import annotations

from typing import Any

from hetsim.simulation.clock import rules
from hetsim.simulation.clock.playing import laid_out
from hetsim.simulation.clock.state import new_state, widened
from hetsim.simulation.clock.templates import PlanTasks, Template
from hetsim.simulation.clock.virtual_time import in_slots

Task = tuple[int, int]
"""Request, and task of the template."""


class Turns:
    """Who holds streams and links, by ``clock.rules``.

    Parameters
    ----------
    plan_tasks : PlanTasks
        Requests run its templates as the plan deals them out.

    Complexity: O(log A) a task for A requests in flight, and its followers and links.
    """

    def __init__(self, plan_tasks: PlanTasks) -> None:
        layout = laid_out(plan_tasks)
        self._plan_tasks = plan_tasks
        self._first = layout.first
        self._structure: Any = in_slots(layout.structure)
        self._wide = new_state(layout.structure, layout.links)
        self._state: Any = in_slots(self._wide)
        self._starting: list[Task] = []

    def admit(self, request: int) -> None:
        """Take a request; later ones have higher numbers, one by one from 0."""
        if request - self._state.counts[rules.OLDEST] == self._state.window:
            self._wide = widened(self._wide)
            self._state = in_slots(self._wide)
        template = self._plan_tasks.plan.replica_of(request)
        rules.admit(self._structure, self._state, request, template, 0)
        self._take()

    def template_of(self, request: int) -> Template:
        """Return the template that a request runs."""
        return self._plan_tasks.templates[self._plan_tasks.plan.replica_of(request)]

    def end(self, request: int, task: int) -> bool:
        """Note that a task has ended; return whether it was the last of its request."""
        first = self._first[self._plan_tasks.plan.replica_of(request)]
        over = rules.end(self._structure, self._state, request, first + task)
        self._take()
        return over

    def starts(self) -> list[Task]:
        """Return what starts now: transfers, then subgraphs; each is told once."""
        if self._state.counts[rules.ABLE]:
            rules.starts(self._structure, self._state)
        self._take()
        found, self._starting = self._starting, []
        return found

    def _take(self) -> None:
        counts = self._state.counts
        for code in self._state.starting[: counts[rules.STARTING]]:
            request = code >> rules.SHIFT
            first = self._first[self._plan_tasks.plan.replica_of(request)]
            self._starting.append((request, (code & rules.MASK) - first))
        counts[rules.STARTING] = 0
