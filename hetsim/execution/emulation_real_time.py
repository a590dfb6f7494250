"""Subgraphs and transfers played in real time: the clock's rules on devices that hold."""

from __future__ import annotations

import heapq
import queue
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hetsim.errors import ExecutionError
from hetsim.execution.devices.program import Program
from hetsim.execution.dispatch.dispatcher import Call
from hetsim.execution.dispatch.loading import load_all
from hetsim.execution.dispatch.transport import Ended, Fetched, Transport
from hetsim.execution.dispatch.unanswered import unanswered
from hetsim.execution.dispatch.waiting import next_of
from hetsim.simulation.clock.turns import Turns

if TYPE_CHECKING:
    from hetsim.simulation.clock.templates import PlanTasks


class RealTimePlayer:
    """Subgraphs run on the devices, which hold them; values wait here as long as links would.

    Parameters
    ----------
    program : Program
        One step a subgraph.
    plan_tasks : PlanTasks
    scale : float
        Real seconds that a virtual second lasts.
    transport : Transport
    events : queue
        Into which the transport posts.
    timeout_s : float
        Of loading, and again of playing.
    version : int
        Of the program; a later one may follow on the same devices.

    Attributes
    ----------
    wall_s : list of float
        By request: real seconds to its end.
    overrun_s : float
        The most by which a call took longer than modelled.
    longest_s : dict of int to float
        By subgraph, of all replicas: the longest that a call took.
    outputs : dict of int to mapping
        By request.
    """

    def __init__(
        self,
        program: Program,
        plan_tasks: PlanTasks,
        scale: float,
        transport: Transport,
        events: queue.SimpleQueue[object],
        timeout_s: float,
        version: int,
    ) -> None:
        self._program = program
        self._scale = scale
        self._transport = transport
        self._events = events
        self._timeout_s = timeout_s
        self._version = version
        self._turns = Turns(plan_tasks)
        self._values: list[dict[str, Any]] = []
        self._moving: list[tuple[float, int, int]] = []
        self._called: dict[tuple[int, int], float] = {}
        self.wall_s: list[float] = []
        self.overrun_s = 0.0
        self.longest_s: dict[int, float] = {}
        self.outputs: dict[int, Mapping[str, Any]] = {}

    def load(self) -> None:
        """Start every device and compile. Raises ExecutionError where one does not."""
        load_all(self._transport, self._version, self._program, self._next, self._timeout_s)

    def play(self, inputs: Mapping[str, Any], requests: int) -> None:
        """Run all requests from now on. Raises ExecutionError where a device fails."""
        transport, turns = self._transport, self._turns
        handles = {name: transport.hand(value) for name, value in inputs.items()}
        self._values = [dict(handles) for _ in range(requests)]
        self.wall_s = [0.0] * requests
        began = time.monotonic()
        deadline = began + self._timeout_s
        left = requests
        for request in range(requests):
            turns.admit(request)
            if not turns.template_of(request).tasks:
                left -= 1
        self._start(began)
        while left:
            wake = self._moving[0][0] if self._moving else deadline
            now = time.monotonic()
            ended: tuple[int, int] | None = None
            if wake <= now and self._moving:
                _, request, task = heapq.heappop(self._moving)
                ended = request, task
            else:
                late = sorted({self._program.steps[step].device for _, step in self._called})
                event = self._next(min(wake, deadline), late, "running the plan", deadline)
                if isinstance(event, Ended):
                    ended = self._finished(event)
            if ended is not None:
                if turns.end(*ended):
                    left -= 1
                    self.wall_s[ended[0]] = time.monotonic() - began
                self._start(time.monotonic())
        self._fetch(requests, deadline)

    def _start(self, now: float) -> None:
        for request, task in self._turns.starts():
            template = self._turns.template_of(request)
            if task >= template.groups:
                real_s = float(template.duration[task]) * self._scale
                heapq.heappush(self._moving, (now + real_s, request, task))
                continue
            index = template.first_group + task
            step = self._program.steps[index]
            received = [self._values[request][name] for name in step.receives]
            self._called[request, index] = time.monotonic()
            call = Call(request, index, step.device, self._version)
            self._transport.call(call, 0, step, received)

    def _finished(self, event: Ended) -> tuple[int, int]:
        if event.fault is not None:
            raise event.fault.error
        request, index = event.call.request, event.call.step
        template = self._turns.template_of(request)
        task = index - template.first_group
        took = time.monotonic() - self._called.pop((request, index))
        self.longest_s[index] = max(took, self.longest_s.get(index, 0.0))
        modelled = float(template.duration[task]) * self._scale
        self.overrun_s = max(self.overrun_s, took - modelled)
        self._values[request].update(event.sent)
        return request, task

    def _fetch(self, requests: int, deadline: float) -> None:
        names = self._program.outputs
        for request in range(requests):
            values = self._values[request]
            self._transport.fetch(request, {name: values[name] for name in names})
        if not names:
            self.outputs = {request: {} for request in range(requests)}
        while len(self.outputs) < requests:
            event = self._next(deadline, (), "fetching outputs")
            if isinstance(event, Fetched):
                if event.lost:
                    raise ExecutionError(f"output '{event.lost[0]}' got lost")
                self.outputs[event.request] = event.outputs
        for device in self._program.code:
            for request in range(requests):
                self._transport.forget(device, self._version, request)

    def _next(
        self, until: float, late: Sequence[str], doing: str, deadline: float | None = None
    ) -> object | None:
        """The next event, or None at `until` where that is before the deadline."""
        try:
            return next_of(self._events, until - time.monotonic())
        except queue.Empty:
            if deadline is not None and time.monotonic() < deadline:
                return None
            raise unanswered(late, doing, self._timeout_s) from None
