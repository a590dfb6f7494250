"""Player of a workload on real devices by the wall clock, after a rehearsal of each plan."""

from __future__ import annotations

import gc
import math
import queue
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.errors import ExecutionError
from hetsim.execution.dispatch.dispatcher import Call
from hetsim.execution.dispatch.requests import next_of
from hetsim.execution.dispatch.transport import (
    CallEnded,
    Fetched,
    Loaded,
    Transport,
    outputs_of,
    sent_by,
    unanswered,
)
from hetsim.execution.program import Program, assemble, constants_among_outputs, model_of
from hetsim.execution.serving.load_test import ROOM_BYTES, Batch, KeptBatches, Runs
from hetsim.execution.session import crossing_bytes, transports
from hetsim.execution.weights import staged
from hetsim.graph.model import Model
from hetsim.problem.plan import Plan
from hetsim.simulation.clock.templates import PlanTasks, Template
from hetsim.simulation.serving.real_time import RealTime, Started
from hetsim.simulation.serving.setup import Outcomes

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Loadable:
    """Plan that is ready to be loaded together with others."""

    plan: Plan
    model: Model
    program: Program
    constants: dict[str, Any]


@contextmanager
def loadable(plans: Sequence[Plan]) -> Iterator[tuple[Loadable, ...]]:
    """Yield each plan in loadable form; files of weights are removed afterwards."""
    with ExitStack() as stack:
        models: dict[int, tuple[Model, dict[str, Any]]] = {}
        found = []
        for plan in plans:
            plan.validate()
            own = model_of(plan)
            if id(own) not in models:
                model = stack.enter_context(staged(own))
                models[id(own)] = model, constants_among_outputs(model)
            model, constants = models[id(own)]
            program = assemble(plan, model, fused=False)
            found.append(Loadable(plan, model, program, constants))
        yield tuple(found)


TIMES = 3
"""Runs of a rehearsal: the first is slow with cold caches; the fastest of the others counts."""

HEADROOM = 1.5
"""Factor of a kernel's time under load to that alone, as devices share this processor."""

Next = Callable[[float, Sequence[str], str], tuple[float, object]]
"""Function that waits for a device event until a monotonic time, and returns both."""


def _load(
    transport: Transport, next_event: Next, timeout_s: float, version: int, program: Program
) -> None:
    """Compile the subgraphs of every device of a program, within a real timeout."""
    waiting = dict.fromkeys(program.code)
    deadline = time.monotonic() + timeout_s
    for device in waiting:
        transport.load(device, 0, version, program)
    while waiting:
        _, event = next_event(deadline, tuple(waiting), "compiling subgraphs")
        if isinstance(event, Loaded):
            if event.error is not None:
                raise event.error
            del waiting[event.device]


@dataclass(frozen=True, slots=True)
class BatchTimeAlone:
    """Time of a full batch of one template on this machine alone, in real seconds."""

    steps_s: tuple[float, ...]
    seconds: float


def alone(
    transport: Transport,
    next_event: Next,
    timeout_s: float,
    version: int,
    plan: Loadable,
    runs: Runs,
) -> BatchTimeAlone:
    """Run a full batch of a plan alone several times; return the least time."""
    found = []
    for at in range(TIMES):
        deadline = time.monotonic() + timeout_s
        found.append(
            _once(transport, next_event, deadline, Call(-1 - at, 0, "", version), plan, runs)
        )
    steps = tuple(map(min, zip(*(one.steps_s for one in found[1:]), strict=True)))
    return BatchTimeAlone(steps, min(one.seconds for one in found[1:]))


def _once(
    transport: Transport, next_event: Next, deadline: float, call: Call, plan: Loadable, runs: Runs
) -> BatchTimeAlone:
    program = plan.program
    inputs = runs.joined(range(runs.size))
    values = {name: transport.hand(value) for name, value in inputs.items()}
    steps_s = []
    began_s = done_s = time.monotonic()
    for index, step in enumerate(program.steps):
        given_s = time.monotonic()
        received = [values[name] for name in step.receives]
        transport.call(call._replace(step=index, device=step.device), 0, step, received)
        while True:
            done_s, event = next_event(deadline, (step.device,), "running a batch")
            if isinstance(event, CallEnded):
                values.update(sent_by(event))
                outputs = {n: one for n, one in event.sent.items() if n in program.outputs}
                if not outputs:
                    break
                transport.fetch(call.request, outputs)
            elif isinstance(event, Fetched):
                outputs_of(event)
                break
        steps_s.append(done_s - given_s)
    for device in program.code:
        transport.forget(device, call.version, call.request)
    return BatchTimeAlone(tuple(steps_s), done_s - began_s)


def roomy(
    alone: Sequence[BatchTimeAlone],
    templates: Sequence[Template],
    scale: float,
    allowed: float,
) -> float:
    """Return the least time scale, at least `scale`, at which this machine's kernels keep up.

    The excess of subgraphs over their modelled time, at HEADROOM times their time alone, may add up
    to the share `allowed` of the devices' modelled time.
    """

    def room(scale: float) -> bool:
        for one, template in zip(alone, templates, strict=True):
            modelled = [scale * float(s) for s in template.duration[: template.groups]]
            over = [
                max(0.0, HEADROOM * took - held)
                for took, held in zip(one.steps_s, modelled, strict=True)
            ]
            # No scale gives room to subgraphs modelled to take no time.
            if sum(over) > allowed * sum(modelled) > 0:
                return False
        return True

    while not room(scale):
        scale *= 1.1
    return scale


class WallClock:
    """Real time."""

    def __init__(self) -> None:
        self._scale = 1.0
        self._zero = time.monotonic()
        self._events: queue.SimpleQueue[tuple[float, object]] = queue.SimpleQueue()

    def begin(self, scale: float) -> None:
        """Set the time to 0, with `scale` real seconds per second."""
        self._scale = scale
        self._zero = time.monotonic()

    def now_s(self) -> float:
        """Return the current time."""
        return (time.monotonic() - self._zero) / self._scale

    def post(self, event: object) -> None:
        """Record an event, on any thread, with its time."""
        self._events.put((time.monotonic(), event))

    def next(self, until_s: float) -> tuple[float, object] | None:
        """Wait for an event; return it with its time, or None once `until_s` is reached."""
        came = self.await_event(self._zero + until_s * self._scale)
        return None if came is None else ((came[0] - self._zero) / self._scale, came[1])

    def await_event(self, deadline_s: float) -> tuple[float, object] | None:
        """Wait for an event until a monotonic time; return it with its time, or None."""
        try:
            return next_of(self._events, deadline_s - time.monotonic())
        except queue.Empty:
            return None


@dataclass(frozen=True, slots=True)
class Ready:
    """Devices with all plans loaded at `at_s` of the monotonic clock, and times of each alone."""

    clock: WallClock
    transport: Transport
    plans: Sequence[Loadable]
    runs: Sequence[Runs]
    took: Sequence[BatchTimeAlone]
    at_s: float
    timeout_s: float


@contextmanager
def ready(
    plans: Sequence[Loadable],
    runs: Sequence[Runs],
    executor: str,
    address: str | None,
    streams: Mapping[str, int],
    timeout_s: float,
) -> Iterator[Ready]:
    """Yield devices that have loaded and rehearsed each plan; they end with the context."""
    clock = WallClock()

    def next_event(deadline: float, late: Sequence[str], doing: str) -> tuple[float, object]:
        came = clock.await_event(deadline)
        if came is None:
            raise unanswered(late, doing, timeout_s)
        return came

    room = 2 * sum(crossing_bytes(one.plan) for one in plans)
    with transports(executor, address, room, streams, timeout_s) as connect:
        transport = connect(clock.post)
        try:
            for version, plan in enumerate(plans):
                _load(transport, next_event, timeout_s, version, plan.program)
            at_s = time.monotonic()
            took = [
                alone(transport, next_event, timeout_s, version, plan, runs[version])
                for version, plan in enumerate(plans)
            ]
            yield Ready(clock, transport, plans, runs, took, at_s, timeout_s)
        finally:
            transport.close()


def outside(plan_tasks: PlanTasks, duration: Floats) -> Floats:
    """Return seconds of each task: infinite for subgraphs, whose devices report their ends."""
    lasts = duration.copy()
    first = 0
    for template in plan_tasks.templates:
        lasts[first : first + template.groups] = math.inf
        first += template.tasks
    return lasts


HOPELESS_S = 10.0
"""Real seconds of lag at which the dispatcher gives up."""


@dataclass(slots=True)
class _Call:
    """Running subgraph."""

    started: Started
    due_s: float
    given_s: float


@dataclass(slots=True)
class _Flight:
    """Batch in flight."""

    template: int
    requests: tuple[int, ...]
    values: dict[str, Any]
    left: int
    outputs: dict[str, Any] = field(default_factory=dict)


class Player:
    """Run of a workload: `modelled_s` by task if devices and links are emulated."""

    def __init__(
        self,
        engine: RealTime,
        plan_tasks: PlanTasks,
        modelled_s: Sequence[float] | None,
        devices: Ready,
        scale: float,
        room_bytes: float = ROOM_BYTES,
    ) -> None:
        self.engine = engine
        self._templates = plan_tasks.templates
        tasks = [one.tasks for one in self._templates]
        self._first = np.cumsum([0, *tasks]).tolist()
        self._template_of = np.repeat(np.arange(len(tasks)), tasks).tolist()
        self._modelled_s = modelled_s
        self._plans, self._runs = devices.plans, devices.runs
        self._made = [frozenset(one.program.outputs) for one in devices.plans]
        self._transport, self._clock = devices.transport, devices.clock
        self._scale, self._timeout_s = scale, devices.timeout_s
        self._flights: dict[int, _Flight] = {}
        self._calls: dict[tuple[int, int], _Call] = {}
        self._due: list[float] = []
        self._done: list[float] = []
        self.kept = KeptBatches(room_bytes)
        self.busy_s = [0.0] * len(plan_tasks.plan.problem.devices)
        self.calls = self.overran = 0
        self.overrun_s = self.longest_overrun_s = self.asked_s = 0.0
        self.working_s = 0.0

    def play(self) -> None:
        """Play to the end."""
        engine, clock = self.engine, self._clock
        with _no_pauses():
            began_s = time.thread_time()
            clock.begin(self._scale)
            while True:
                while engine.next_s <= clock.now_s():
                    self._step()
                if engine.over:
                    break
                wake_s = min(engine.next_s, self._deadline_s())
                came = clock.next(wake_s)
                if came is not None:
                    self._handle(*came)
                elif self._deadline_s() <= clock.now_s():
                    late = sorted({self._device(one.started) for one in self._calls.values()})
                    raise unanswered(late, "running a batch", self._timeout_s)
            self.working_s = time.thread_time() - began_s

    def really(self, due: Outcomes) -> Outcomes:
        """Return the outcomes of requests with their real times."""
        return due._replace(
            sent_s=self.really_s(due.sent_s),
            begun_s=self.really_s(due.begun_s),
            finish_s=self.really_s(due.finish_s),
        )

    def really_s(self, due_s: Floats) -> Floats:
        """Return the real times of events due at these times; NaN stays."""
        at = np.searchsorted(np.asarray(self._due), due_s)
        done = np.asarray([*self._done, math.nan])
        return np.where(np.isnan(due_s), math.nan, done[np.minimum(at, len(self._done))])

    def _step(self) -> None:
        due_s = self.engine.next_s
        started = self.engine.step()
        now_s = self._clock.now_s()
        if (now_s - due_s) * self._scale > HOPELESS_S:
            raise ExecutionError(
                f"this machine is too slow: {now_s:.3g} s into the workload it is "
                f"{(now_s - due_s) * self._scale:.3g} s behind",
                hint="use a lower rate, or with --emulate a larger --time-scale",
            )
        if self._due and self._due[-1] == due_s:
            self._done[-1] = now_s
        else:
            self._due.append(due_s)
            self._done.append(now_s)
        for one in started:
            self._give(one)

    def _give(self, one: Started) -> None:
        """Send a subgraph to its device."""
        at = self._template_of[one.task]
        flight = self._flights.get(one.batch)
        if flight is None:
            flight = self._flights[one.batch] = self._flight(one.batch, at)
        index = one.task - self._first[at]
        step = self._plans[at].program.steps[index]
        modelled_s = 0.0 if self._modelled_s is None else self._modelled_s[one.task]
        call = _Call(one, one.at_s + modelled_s, self._clock.now_s())
        self._calls[one.batch, index] = call
        received = [flight.values[name] for name in step.receives]
        self._transport.call(Call(one.batch, index, step.device, at), 0, step, received)

    def _flight(self, batch: int, template: int) -> _Flight:
        """Create a batch in flight with its joined inputs."""
        requests = self.engine.requests_of(batch)
        runs = self._runs[template]
        inputs = runs.joined(requests)
        handles = {name: self._transport.hand(value) for name, value in inputs.items()}
        known = {**inputs, **self._plans[template].constants}
        outputs = runs.alone.graph.outputs
        outputs_known = {name: known[name] for name in outputs if name in known}
        left = self._templates[template].groups
        return _Flight(template, requests, handles, left, outputs_known)

    def _handle(self, at_s: float, event: object) -> None:
        if isinstance(event, CallEnded):
            call = self._calls[event.call.request, event.call.step]
            flight = self._flights[event.call.request]
            flight.values.update(sent_by(event))
            made = self._made[flight.template].intersection(event.sent)
            if made:
                handles = {name: event.sent[name] for name in made}
                key = event.call.request * len(self._template_of) + call.started.task
                self._transport.fetch(key, handles)
            else:
                self._over(event.call.request, event.call.step, at_s)
        elif isinstance(event, Fetched):
            outputs = outputs_of(event)
            batch, task = divmod(event.request, len(self._template_of))
            flight = self._flights[batch]
            flight.outputs.update(outputs)
            self._over(batch, task - self._first[flight.template], at_s)

    def _over(self, batch: int, index: int, at_s: float) -> None:
        """Process the end of a subgraph, with its model outputs."""
        call = self._calls.pop((batch, index))
        one, flight = call.started, self._flights[batch]
        end_s = max(call.due_s, at_s)
        self.calls += 1
        if self._modelled_s is not None:
            over_s = end_s - call.due_s
            self.overran += over_s > 0
            self.overrun_s += over_s
            self.longest_overrun_s = max(self.longest_overrun_s, over_s)
            self.asked_s += call.due_s - one.at_s
            begun_s = one.at_s
        else:
            begun_s = call.given_s
        device = self._templates[flight.template].group_device[index]
        self.busy_s[device] += end_s - begun_s
        self.engine.ended(one.batch, one.task, end_s)
        flight.left -= 1
        if flight.left == 0:
            self._forget(batch, flight)

    def _forget(self, batch: int, flight: _Flight) -> None:
        """Finish a batch: store its outputs, and let devices forget it."""
        del self._flights[batch]
        names = self._runs[flight.template].alone.graph.outputs
        outputs = {name: flight.outputs[name] for name in names}
        self.kept.offer(Batch(batch, flight.template, flight.requests, outputs))
        for device in self._plans[flight.template].program.code:
            self._transport.forget(device, flight.template, batch)

    def _deadline_s(self) -> float:
        """Return the time at which the oldest call times out."""
        oldest = next(iter(self._calls.values()), None)
        return math.inf if oldest is None else oldest.given_s + self._timeout_s / self._scale

    def _device(self, one: Started) -> str:
        at = self._template_of[one.task]
        device: str = self._plans[at].program.steps[one.task - self._first[at]].device
        return device


@contextmanager
def _no_pauses() -> Iterator[None]:
    """Disable Python's cycle collector, whose runs take as long as many requests."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
