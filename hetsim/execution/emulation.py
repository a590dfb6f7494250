"""Plans and workloads for real, with devices and links that take their modelled time."""

from __future__ import annotations

import heapq
import math
import queue
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import NDArray

from hetsim.errors import ExecutionError, UsageError
from hetsim.execution.dispatch.dispatcher import Call
from hetsim.execution.dispatch.loop import next_of
from hetsim.execution.dispatch.transport import Ended, Fetched, Transport, load_all, unanswered
from hetsim.execution.program import (
    Program,
    assemble,
    check_how,
    constants_among_outputs,
    given_inputs,
    model_of,
    tolerance_of,
)
from hetsim.execution.run import judged
from hetsim.execution.session import transports
from hetsim.problem.timeline import Timeline
from hetsim.simulation.clock.turns import Turns

if TYPE_CHECKING:
    from hetsim.graph.inputs.arrays import Inputs
    from hetsim.problem.parts import Contention
    from hetsim.problem.plan import Plan
    from hetsim.simulation.clock.templates import PlanTasks


class RealTimePlayer:
    """Subgraphs run on the devices, which hold them; values wait here as long as links would."""

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


_SHORTEST_RUN_S = 2.0
_ROOM = 4.0
"""How much longer a subgraph is held than it takes by itself: devices share the processor."""
_SMALL = 0.01
_MESSAGE_S = 0.2
"""Real seconds a task of a request, of which the way to a device and back is a small part."""


@dataclass(frozen=True)
class Emulation:
    """What a plan took in real time, beside what the virtual clock says of it.

    Attributes
    ----------
    predicted : Timeline
        In virtual seconds.
    time_scale : float
        Real seconds that a virtual second lasts.
    wall_s : tuple of float
        By request, all of which come at once: real seconds until its last output is on the
        host.
    overrun_s : float
        The most real seconds by which a call to a device took longer than its modelled time:
        kernels slower than their model at this scale, and the way there and back.
    outputs : tuple of dict of str to array
        By request.
    bitwise_equal : bool or None
        Whether all outputs equal those of the whole model; None: not compared.
    mismatches : tuple of str
        As in ``Run``, of all requests.
    """

    predicted: Timeline = field(repr=False)
    time_scale: float
    wall_s: tuple[float, ...]
    overrun_s: float
    outputs: tuple[dict[str, NDArray[Any]], ...] = field(repr=False)
    bitwise_equal: bool | None
    mismatches: tuple[str, ...]

    @property
    def latency_s(self) -> float:
        """Measured latency of the first request, in virtual seconds."""
        return self.wall_s[0] / self.time_scale

    @property
    def makespan_s(self) -> float:
        """Measured time to the end of the last request, in virtual seconds."""
        return max(self.wall_s) / self.time_scale


def emulate(
    plan: Plan,
    inputs: Inputs | None = None,
    *,
    requests: int = 1,
    time_scale: float | None = None,
    contention: Contention | None = None,
    executor: Literal["ray", "threads"] = "ray",
    address: str | None = None,
    timeout_s: float = 600.0,
    verify: bool = True,
    seed: int = 0,
) -> Emulation:
    """Run `plan` for real with every device and link as slow as it is modelled.

    Subgraphs compute on their devices and hold them to the end of their modelled time;
    values wait for as long as links would carry them, one at a time where links are shared.

    Parameters
    ----------
    plan : Plan
        Of a problem that was built from a model.
    inputs, executor, address, timeout_s, verify, seed
        As in ``hetsim.run``; all requests have the same inputs.
    requests : int
        That come at once.
    time_scale : float, optional
        Real seconds that a virtual second is to last. Where it is too small for this
        machine's kernels, `overrun_s` of the result shows it. Absent: one that leaves room
        for them, by a first run without holding, and gives a run of two seconds at least.
    contention : "fifo" or "none", optional
        How links behave; absent: as the problem says.

    Raises
    ------
    UsageError
        Where an option is unknown or makes no sense, or the plan has no model.
    PlanError, RequestError, ExecutionError
        As ``hetsim.run`` does.
    """
    check_how(executor, address, timeout_s)
    if time_scale is not None and not (time_scale > 0 and math.isfinite(time_scale)):
        raise UsageError(f"time_scale is {time_scale:g}", hint="give a positive number")
    model = model_of(plan)
    from hetsim.execution.run import run_whole
    from hetsim.execution.session import crossing_bytes
    from hetsim.execution.weights import staged
    from hetsim.problem.parts import check_contention
    from hetsim.simulation.clock.templates import tasks_of_plan
    from hetsim.simulation.simulate import simulate

    rule = plan.problem.contention if contention is None else check_contention(contention)
    predicted = simulate(plan, requests, contention=rule, trace=False)
    plan_tasks = tasks_of_plan(plan, rule)
    held_s = [
        float(seconds)
        for template in plan_tasks.templates
        for seconds in template.duration[: template.groups]
    ]
    given = given_inputs(model, inputs, seed)
    widths = dict(zip(plan.problem.devices, plan.problem.streams, strict=True))
    with staged(model) as staged_model:
        constants = constants_among_outputs(staged_model)
        room = (1 + requests) * crossing_bytes(plan)
        events: queue.SimpleQueue[object] = queue.SimpleQueue()
        with transports(executor, address, room, widths, timeout_s) as connect:
            transport = connect(events.put)

            def played(
                version: int, plan_tasks: PlanTasks, scale: float, count: int
            ) -> RealTimePlayer:
                real_s = [seconds * scale for seconds in held_s]
                program = assemble(plan, staged_model, hold_s=real_s)
                player = RealTimePlayer(
                    program, plan_tasks, scale, transport, events, timeout_s, version
                )
                player.load()
                player.play(given, count)
                return player

            try:
                if time_scale is None:
                    each = tasks_of_plan(plan.each_once, rule)
                    first = played(0, each, 0.0, len(plan.replicas))
                    time_scale = _roomy(plan_tasks.widest, held_s, predicted, first.longest_s)
                player = played(1, plan_tasks, time_scale, requests)
            finally:
                transport.close()
        reference = run_whole(staged_model, given) if verify else None
    outputs = []
    for request in range(requests):
        known = {**given, **constants, **player.outputs[request]}
        outputs.append({name: known[name] for name in model.graph.outputs})
    verdicts = []
    if reference is not None:
        tolerance = tolerance_of(plan)
        verdicts = [judged(each, reference, tolerance) for each in outputs]
    return Emulation(
        predicted=predicted,
        time_scale=time_scale,
        wall_s=tuple(player.wall_s),
        overrun_s=player.overrun_s,
        outputs=tuple(outputs),
        bitwise_equal=all(v.bitwise_equal for v in verdicts) if verify else None,
        mismatches=tuple(
            f"request {request}: {mismatch}"
            for request, verdict in enumerate(verdicts)
            for mismatch in verdict.mismatches
        ),
    )


def _roomy(
    tasks: int, held_s: Sequence[float], predicted: Timeline, longest_s: Mapping[int, float]
) -> float:
    """A time scale at which kernels and messages of this machine take a small part of a run.

    Overruns may add up to _SMALL of the time between one request's end and the next.
    """
    scale = _SHORTEST_RUN_S / predicted.makespan_s if predicted.makespan_s else 1.0
    if not predicted.latency_s:
        return scale
    scale = max(scale, tasks * _MESSAGE_S / predicted.latency_s)
    between_s = min(predicted.latency_s, predicted.makespan_s / len(predicted.latencies_s))
    # No scale gives room to what is modelled to take no time.
    held = [
        (took_s, modelled_s) for group, took_s in longest_s.items() if (modelled_s := held_s[group])
    ]

    def overrun_s(scale: float) -> float:
        return sum(max(0.0, _ROOM * took_s - modelled_s * scale) for took_s, modelled_s in held)

    while overrun_s(scale) > _SMALL * between_s * scale:
        scale *= 1.1
    return scale
