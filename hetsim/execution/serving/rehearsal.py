"""Programs of a deployment compiled, and run once before they are timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hetsim.errors import ExecutionError
from hetsim.execution.devices.program import Program, assemble
from hetsim.execution.devices.weights import staged
from hetsim.execution.dispatch.dispatcher import Call
from hetsim.execution.dispatch.transport import Ended, Fetched, Transport, load_all, unanswered
from hetsim.execution.inputs_outputs import constants_among_outputs, model_of
from hetsim.execution.serving.requests import Runs
from hetsim.simulation.clock.templates import Template

if TYPE_CHECKING:
    from hetsim.graph.model import Model
    from hetsim.problem.plan import Plan


@dataclass(frozen=True, slots=True)
class Loadable:
    """One plan, ready to be loaded beside others."""

    plan: Plan
    model: Model
    program: Program
    constants: dict[str, Any]


@contextmanager
def loadable(plans: Sequence[Plan]) -> Iterator[tuple[Loadable, ...]]:
    """Give each plan as it is loaded; weights that were put in files are gone afterwards."""
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
            # Seconds of holding, none here, are what makes each subgraph a step of its own.
            program = assemble(plan, model, hold_s=[0.0] * len(plan.groups))
            found.append(Loadable(plan, model, replace(program, beside=True), constants))
        yield tuple(found)


TIMES = 3
"""The first is slow, as memory and caches are cold; of the others the quickest counts."""

HEADROOM = 1.5
"""How much longer a kernel may take under load than alone: devices share this processor."""

Next = Callable[[float], tuple[float, object] | None]
"""Waits for an event until a time of the monotonic clock; gives it with its time."""


@dataclass(frozen=True, slots=True)
class Alone:
    """What a full batch of one template takes here by itself, in real seconds."""

    steps_s: tuple[float, ...]
    seconds: float


class Rehearsal:
    """Loads plans and runs each by itself."""

    def __init__(self, transport: Transport, await_event: Next, timeout_s: float) -> None:
        self._transport = transport
        self._await = await_event
        self._timeout_s = timeout_s

    def load(self, version: int, plan: Loadable) -> None:
        """Have the devices of a plan compile it. Raises ExecutionError where one does not."""

        def next_event(deadline: float, late: Sequence[str], doing: str) -> object:
            return self._next(deadline, late, doing)[1]

        load_all(self._transport, version, plan.program, next_event, self._timeout_s)

    def alone(self, version: int, plan: Loadable, runs: Runs) -> Alone:
        """Run a full batch of a plan, several times; return the least of what it took."""
        found = [self._once(version, plan, runs, -1 - at) for at in range(TIMES)][1:]
        steps = tuple(map(min, zip(*(one.steps_s for one in found), strict=True)))
        return Alone(steps, min(one.seconds for one in found))

    def _once(self, version: int, plan: Loadable, runs: Runs, request: int) -> Alone:
        program, transport = plan.program, self._transport
        deadline = time.monotonic() + self._timeout_s
        inputs = runs.batching.joined([runs.sort.of(at) for at in range(runs.batching.size)])
        values = {name: transport.hand(value) for name, value in inputs.items()}
        wanted = frozenset(program.outputs)
        steps_s = []
        began_s = done_s = time.monotonic()
        for index, step in enumerate(program.steps):
            given_s = time.monotonic()
            call = Call(request, index, step.device, version)
            transport.call(call, 0, step, [values[name] for name in step.receives])
            done_s = self._done(step.device, values, wanted, deadline)
            steps_s.append(done_s - given_s)
        for device in program.code:
            transport.forget(device, version, request)
        return Alone(tuple(steps_s), done_s - began_s)

    def _done(
        self, device: str, values: dict[str, Any], wanted: frozenset[str], deadline: float
    ) -> float:
        """Wait for a step and for what it made of the outputs; return when that was here."""
        while True:
            at_s, event = self._next(deadline, (device,), "running a batch")
            if isinstance(event, Ended):
                if event.fault is not None:
                    raise event.fault.error
                values.update(event.sent)
                outputs = {name: one for name, one in event.sent.items() if name in wanted}
                if not outputs:
                    return at_s
                self._transport.fetch(event.call.request, outputs)
            elif isinstance(event, Fetched):
                if event.lost:
                    raise ExecutionError(f"output '{event.lost[0]}' got lost")
                return at_s

    def _next(self, deadline: float, late: Sequence[str], doing: str) -> tuple[float, object]:
        came = self._await(deadline)
        if came is None:
            raise unanswered(late, doing, self._timeout_s)
        return came


def roomy(
    alone: Sequence[Alone],
    templates: Sequence[Template],
    scale: float,
    allowed: float,
) -> float:
    """Return the least time scale, `scale` or above, at which this machine's kernels keep up.

    What subgraphs take beyond their modelled time, each HEADROOM of what it takes alone, may add up
    to the share `allowed` of what devices should take.
    """

    def room(scale: float) -> bool:
        for one, template in zip(alone, templates, strict=True):
            modelled = [scale * float(s) for s in template.duration[: template.groups]]
            over = [
                max(0.0, HEADROOM * took - held)
                for took, held in zip(one.steps_s, modelled, strict=True)
            ]
            # No scale gives room to what is modelled to take no time.
            if sum(over) > allowed * sum(modelled) > 0:
                return False
        return True

    while not room(scale):
        scale *= 1.1
    return scale
