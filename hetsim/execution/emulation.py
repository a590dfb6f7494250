"""Emulation: real plans and workloads on devices and links slowed to their modelled times."""

from __future__ import annotations

import heapq
import math
import queue
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import NDArray

from hetsim.errors import UsageError
from hetsim.execution.dispatch.dispatcher import Call
from hetsim.execution.dispatch.requests import next_of
from hetsim.execution.dispatch.transport import (
    Ended,
    Fetched,
    Transport,
    load_all,
    outputs_of,
    sent_by,
    unanswered,
)
from hetsim.execution.program import (
    Program,
    assemble,
    check_how,
    constants_among_outputs,
    given_inputs,
    model_of,
    tolerance_of,
)
from hetsim.execution.run import all_judged, run_whole
from hetsim.execution.session import transports
from hetsim.problem.timeline import Timeline
from hetsim.simulation.clock.runs import Turns

if TYPE_CHECKING:
    from hetsim.graph.inputs.arrays import Inputs
    from hetsim.problem.parts import Contention
    from hetsim.problem.plan import Plan
    from hetsim.simulation.clock.templates import PlanTasks


class RealTimePlayer:
    """Player that delays subgraphs and values by the modelled times of devices and links.

    `events` is what the transport posts into, `timeout_s` of loading, and again of playing.
    ``wall_s`` has, by request of the last play, real seconds to its end; ``longest_s``, by subgraph
    of all replicas, the longest that a call took; ``overrun_s`` the most beyond what was modelled.
    """

    def __init__(
        self,
        program: Program,
        transport: Transport,
        events: queue.SimpleQueue[object],
        timeout_s: float,
    ) -> None:
        self._program = program
        self._transport = transport
        self._events = events
        self._timeout_s = timeout_s
        # Requests of an earlier play are others: it may be forgotten late.
        self._played = 0
        self.wall_s: list[float] = []
        self.overrun_s = 0.0
        self.longest_s: dict[int, float] = {}
        load_all(transport, 0, program, self._next, timeout_s)

    def play(
        self, plan_tasks: PlanTasks, scale: float, inputs: Mapping[str, Any], requests: int
    ) -> list[Mapping[str, Any]]:
        """Run all requests from now on, a virtual second in `scale` real ones; return outputs.

        Raises ExecutionError where a device fails.
        """
        transport, steps, turns = self._transport, self._program.steps, Turns(plan_tasks)
        handles = {name: transport.hand(value) for name, value in inputs.items()}
        values = [dict(handles) for _ in range(requests)]
        self.wall_s, self.overrun_s = [0.0] * requests, 0.0
        called: dict[tuple[int, int], float] = {}
        # When a value has arrived, or a device is free that has made what it should.
        waiting: list[tuple[float, int, int]] = []
        began = time.monotonic()
        deadline = began + self._timeout_s
        left = requests

        def lasts_s(request: int, task: int) -> float:
            return float(turns.template_of(request).duration[task]) * scale

        def start(now: float) -> None:
            for request, task in turns.starts():
                template = turns.template_of(request)
                if task >= template.groups:
                    heapq.heappush(waiting, (now + lasts_s(request, task), request, task))
                    continue
                index = template.first_group + task
                step = steps[index]
                received = [values[request][name] for name in step.receives]
                called[request, task] = time.monotonic()
                call = Call(self._played + request, index, step.device, 0)
                transport.call(call, 0, step, received)

        for request in range(requests):
            turns.admit(request)
            left -= not turns.template_of(request).tasks
        start(began)
        while left:
            wake = waiting[0][0] if waiting else deadline
            now = time.monotonic()
            if wake <= now and waiting:
                _, request, task = heapq.heappop(waiting)
                if (since := called.pop((request, task), None)) is not None:
                    late_s = now - since - lasts_s(request, task)
                    self.overrun_s = max(self.overrun_s, late_s)
                if turns.end(request, task):
                    left -= 1
                    self.wall_s[request] = now - began
                start(time.monotonic())
                continue
            late = sorted({steps[turns.template_of(r).first_group + t].device for r, t in called})
            event = self._next(min(wake, deadline), late, "running the plan", deadline)
            if isinstance(event, Ended):
                request, index = event.call.request - self._played, event.call.step
                task = index - turns.template_of(request).first_group
                now, since = time.monotonic(), called[request, task]
                self.longest_s[index] = max(now - since, self.longest_s.get(index, 0.0))
                values[request].update(sent_by(event))
                until = max(now, since + lasts_s(request, task))
                heapq.heappush(waiting, (until, request, task))
        return self._fetched(values, deadline)

    def _fetched(
        self, values: Sequence[Mapping[str, Any]], deadline: float
    ) -> list[Mapping[str, Any]]:
        names, found = self._program.outputs, dict[int, Mapping[str, Any]]()
        for request, made in enumerate(values):
            outputs = {name: made[name] for name in names}
            self._transport.fetch(self._played + request, outputs)
        while len(found) < len(values) and names:
            event = self._next(deadline, (), "fetching outputs")
            if isinstance(event, Fetched):
                found[event.request - self._played] = outputs_of(event)
        for device in self._program.code:
            for request in range(len(values)):
                self._transport.forget(device, 0, self._played + request)
        self._played += len(values)
        return [found.get(request, {}) for request in range(len(values))]

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
    """Measured times of a plan beside those of the virtual clock (`predicted`).

    `time_scale`: real seconds that a virtual second lasts; `wall_s`: by request, all of which come
    at once, real seconds until its last output is on the host; `overrun_s`: the most real seconds
    by which a device was held longer than modelled. `bitwise_equal` and `mismatches` as in ``Run``.
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

    Subgraphs hold their devices to the end of their modelled time; values wait for as long as links
    would carry them, one at a time where links are shared. `requests` come at once, with the same
    inputs. Without `time_scale` a first run without waiting finds one that leaves room for the
    kernels of this machine, and gives a run of two seconds at least. All else as in ``hetsim.run``.
    """
    check_how(executor, address, timeout_s)
    if time_scale is not None and not (time_scale > 0 and math.isfinite(time_scale)):
        raise UsageError(f"time_scale is {time_scale:g}", hint="use a positive number")
    model = model_of(plan)
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
        program = assemble(plan, staged_model, fused=False)
        room = (1 + requests) * crossing_bytes(plan)
        events: queue.SimpleQueue[object] = queue.SimpleQueue()
        with transports(executor, address, room, widths, timeout_s) as connect:
            transport = connect(events.put)
            try:
                player = RealTimePlayer(program, transport, events, timeout_s)
                if time_scale is None:
                    each = tasks_of_plan(plan.each_once, rule)
                    player.play(each, 0.0, given, len(plan.replicas))
                    time_scale = _roomy(plan_tasks.widest, held_s, predicted, player.longest_s)
                found = player.play(plan_tasks, time_scale, given, requests)
            finally:
                transport.close()
        reference = run_whole(staged_model, given) if verify else None
    outputs = []
    for made in found:
        known = {**given, **constants, **made}
        outputs.append({name: known[name] for name in model.graph.outputs})
    judged = all_judged(outputs, reference, tolerance_of(plan), "request")
    return Emulation(
        predicted=predicted,
        time_scale=time_scale,
        wall_s=tuple(player.wall_s),
        overrun_s=player.overrun_s,
        outputs=tuple(outputs),
        bitwise_equal=judged[0],
        mismatches=judged[1],
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
