"""Loop of a session: requests and device events in, calls to devices out."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from hetsim.core.process import begun
from hetsim.core.room import out_of_room
from hetsim.errors import (
    Cancelled,
    DeviceLost,
    ExecutionError,
    HetsimError,
    OutOfRoom,
    TimedOut,
    UsageError,
)
from hetsim.execution.dispatch.device_states import (
    DeviceStates,
    Recovery,
    RecoveryPolicy,
    Replan,
    Replanned,
)
from hetsim.execution.dispatch.dispatcher import Call, Dispatcher
from hetsim.execution.dispatch.requests import Alarms, Close, Expired, Request, Submit
from hetsim.execution.dispatch.run_log import RunLog
from hetsim.execution.dispatch.transport import (
    CallEnded,
    Fault,
    Fetched,
    Loaded,
    Lost,
    Post,
    Transport,
    unanswered,
)
from hetsim.execution.program import Program
from hetsim.workload.failure import Failure

_LOST_INPUTS = 8
"""Number of value losses between devices before a request is given up."""


@dataclass(slots=True)
class _Open:
    """Request that has not been answered."""

    request: Request
    began: float
    timeout_s: float
    tries: dict[tuple[int, int], tuple[int, float]] = field(default_factory=dict)
    deaths: int = 0
    lost_inputs: int = 0
    fetching: bool = False


@dataclass(slots=True)
class OpenRequests:
    """Open requests and calls; decides whether a call, its request or its device failed."""

    _outputs: Sequence[str]
    _dispatcher: Dispatcher
    _devices: DeviceStates
    _transport: Transport
    _policy: RecoveryPolicy
    _later: Callable[[float, object], None]
    _log: RunLog
    _open: dict[int, _Open] = field(default_factory=dict)
    _given_out: dict[Call, float] = field(default_factory=dict)

    def awaited(self, event: object) -> bool:
        """Return whether a timer event is still relevant."""
        if not isinstance(event, Expired):
            return True
        return event.request in self._open if event.call is None else event.call in self._given_out

    def give_out(self) -> None:
        """Dispatch the calls that devices can start now."""
        for call in self._dispatcher.calls():
            incarnation = self._devices.incarnation(call.device)
            step = self._dispatcher.step(call)
            flight = self._dispatcher.flights[call.request]
            received = [flight.values[name] for name in step.receives]
            self._log.given_out(call, step, flight.made_on)
            now = time.monotonic()
            self._given_out[call] = now
            if self._policy.hang_s is not None:
                self._later(now + self._policy.hang_s, Expired(call.request, call, incarnation))
            self._transport.call(call, incarnation, step, received)

    def submitted(self, event: Submit) -> None:
        """Accept a request."""
        self._log.submitted()
        if self._devices.broken is not None:
            event.request.fail(self._devices.broken)
            return
        try:
            handles = {name: self._transport.hand(value) for name, value in event.inputs.items()}
        except ExecutionError as error:
            event.request.fail(error)
            return
        number = event.request.request_id
        self._open[number] = _Open(event.request, time.perf_counter(), event.timeout_s)
        self._later(time.monotonic() + event.timeout_s, Expired(number))
        self._dispatcher.admit(number, handles)
        if not self._outputs:
            self._fetch(number)

    def ended(self, event: CallEnded) -> None:
        """Process the result or the fault of a call."""
        call, fault = event.call, event.fault
        if event.incarnation != self._devices.incarnation(call.device):
            return
        self._given_out.pop(call, None)
        self._log.ended(call, event.timing)
        if fault is not None and fault.kind in ("died", "out of memory"):
            self.lose(call.device, fault.kind, fault.error, values_too=fault.values_lost)
            return
        found = self._open.get(call.request)
        if found is None:
            self._dispatcher.finish(call, {})
            self._transport.forget(call.device, call.version, call.request)
        elif fault is not None:
            self._failed(call, fault, found)
        else:
            tried = found.tries.pop((call.version, call.step), None) if found.tries else None
            if tried is not None:
                self._devices.repeated(call.device, "kernel", tried[1], call.request)
            if self._dispatcher.finish(call, event.sent):
                self._fetch(call.request)

    def _fetch(self, number: int) -> None:
        found = self._open[number]
        if not found.fetching:
            found.fetching = True
            flight = self._dispatcher.flights[number]
            self._log.fetching(number, {name: flight.made_on[name] for name in self._outputs})
            self._transport.fetch(number, {name: flight.values[name] for name in self._outputs})

    def fetched(self, event: Fetched) -> None:
        """Answer a request whose outputs have arrived."""
        found = self._open.get(event.request)
        if found is None:
            return
        found.fetching = False
        self._log.fetched(event.request)
        if event.lost:
            found.lost_inputs += 1
            if found.lost_inputs > _LOST_INPUTS:
                self.fail(event.request, ExecutionError("its outputs were lost repeatedly"))
                return
            self._dispatcher.miss(event.request, event.lost)
            return
        del self._open[event.request]
        self._drop(event.request)
        found.request.succeed(event.outputs, time.perf_counter() - found.began)

    def _failed(self, call: Call, fault: Fault, found: _Open) -> None:
        """Process a failed call of a working device: repeat it, or fail the request."""
        if fault.kind == "lost input":
            self._dispatcher.fail(call, fault.lost, state_gone=False)
            found.lost_inputs += 1
            if found.lost_inputs > _LOST_INPUTS:
                self.fail(call.request, fault.error)
            return
        self._dispatcher.fail(call)
        key = (call.version, call.step)
        count, began = found.tries.get(key, (0, time.monotonic()))
        found.tries[key] = (count + 1, began)
        if count + 1 >= self._policy.attempts:
            self.fail(call.request, fault.error)

    def lose(self, device: str, kind: str, error: ExecutionError, *, values_too: bool) -> None:
        """Process a lost device: requests that repeatedly kill it are not retried."""
        self._log.lost(device)
        for call in self._dispatcher.running_on(device):
            found = self._open.get(call.request)
            if found is not None:
                found.deaths += 1
                if found.deaths > self._policy.max_losses:
                    self.fail(call.request, _lost(call.request, found.deaths, device, kind, error))
        self._given_out = {
            call: since for call, since in self._given_out.items() if call.device != device
        }
        self._devices.lose(device, kind, error, values_too=values_too)

    def expired(self, event: Expired) -> None:
        """Process the timeout of a request or a call."""
        call = event.call
        if call is not None:
            current = event.incarnation == self._devices.incarnation(call.device)
            if call in self._given_out and current:
                error = unanswered((call.device,), "running the plan", self._policy.hang_s or 0.0)
                self.lose(call.device, "hang", error, values_too=False)
            return
        found = self._open.get(event.request)
        if found is None:
            return
        flight = self._dispatcher.flights[event.request]
        late = {running.device for running in flight.running} or set(self._devices.silent())
        late = late or {running.device for running in self._given_out}
        error = unanswered(sorted(late), "running the plan", found.timeout_s)
        self.fail(event.request, error)
        now = time.monotonic()
        stuck = {
            running.device
            for running, since in self._given_out.items()
            if now - since >= found.timeout_s / 2
        }
        for device in sorted(stuck):
            self.lose(device, "hang", error, values_too=False)

    def harm(self, failure: Failure) -> None:
        """Inject a failure into a device."""
        device = failure.device
        if device not in self._devices.up():
            return
        self._devices.expect(failure)
        self._transport.harm(device, failure.kind)
        if failure.kind == "hang":
            lasts = failure.for_s or 0.0
            error = unanswered((device,), "running the plan", lasts)
            overdue = partial(self._overdue, device, self._devices.incarnation(device), error)
            self._later(time.monotonic() + lasts, overdue)

    def _overdue(self, device: str, incarnation: int, error: ExecutionError) -> None:
        """Process a device that has hung for as long as its failure allows."""
        if incarnation == self._devices.incarnation(device):
            self.lose(device, "hang", error, values_too=False)

    def fail(self, number: int, error: HetsimError) -> None:
        """Answer a request with an error, if it is still open."""
        found = self._open.pop(number, None)
        if found is not None:
            self._drop(number)
            found.request.fail(error)

    def fail_all(self, error: HetsimError) -> None:
        """Answer all requests with an error."""
        for number in tuple(self._open):
            self.fail(number, error)

    def _drop(self, number: int) -> None:
        flight = self._dispatcher.flights[number]
        self._dispatcher.drop(number)
        if flight.round or flight.missing or flight.running:
            for device in self._devices.up():
                self._transport.forget(device, self._dispatcher.version, number)


def _lost(
    request: int, losses: int, device: str, kind: str, error: ExecutionError
) -> ExecutionError:
    """Return the error of a request that is given up: a TimedOut if the device hung."""
    times = "once" if losses == 1 else f"{losses} times"
    what = f"request {request} is lost: its devices failed {times} while running it: {error.what}"
    hint = f"{error.hint or 'find out why the device fails'}, or allow more losses by max_losses"
    if isinstance(error, TimedOut):
        return replace(error, what=what, hint=hint)
    return DeviceLost(what, where=error.where, hint=hint, device=device, kind=kind)


class SessionLoop:
    """Thread that runs requests through a program on devices that may fail."""

    def __init__(
        self,
        program: Program,
        transport: Callable[[Post], Transport],
        streams: Mapping[str, int],
        policy: RecoveryPolicy,
        replan: Replan | None = None,
        log: RunLog | None = None,
    ) -> None:
        self._events: queue.SimpleQueue[object] = queue.SimpleQueue()
        self.start_s = 0.0
        self._policy = policy
        self._transport = transport(self._events.put)
        self._alarms = Alarms(lambda event: self._requests.awaited(event))
        dispatcher = Dispatcher(
            program.steps, program.outputs, streams, program.replicas, program.deal
        )
        later = self._alarms.at
        self._devices = DeviceStates(
            program, dispatcher, self._transport, self._events.put, policy, replan, later
        )
        self._requests = OpenRequests(
            program.outputs,
            dispatcher,
            self._devices,
            self._transport,
            policy,
            later,
            log or RunLog(keep=False),
        )
        self._opened: Future[float] = Future()
        if not program.code:
            # No device to wait for: every output is an input or a constant.
            self._opened.set_result(0.0)
        self._thread = threading.Thread(target=self._work, name="hetsim session", daemon=True)

    @property
    def recoveries(self) -> tuple[Recovery, ...]:
        """Recovered failures, in order."""
        return tuple(self._devices.recoveries)

    def processes(self) -> dict[str, int]:
        """Return the process id of each running device."""
        return self._devices.processes()

    def start(self) -> None:
        """Start the devices, and wait until they are ready."""
        began = time.perf_counter()
        begun(self._thread)
        try:
            self._opened.result(self._policy.timeout_s)
        except TimeoutError:
            raise unanswered(
                self._devices.silent(), "compiling subgraphs", self._policy.timeout_s
            ) from None
        self.start_s = time.perf_counter() - began

    def submit(self, request: Request, inputs: Mapping[str, Any], timeout_s: float) -> None:
        """Submit a request."""
        self._events.put(Submit(request, inputs, timeout_s))

    def cancel(self, request: int) -> None:
        """Cancel a request."""
        error = Cancelled(f"request {request} was cancelled")
        self._events.put(partial(self._requests.fail, request, error))

    def inject(self, failures: Sequence[Failure]) -> None:
        """Make devices fail, at times counted from now."""

        def note() -> None:
            for failure in failures:
                harm = partial(self._requests.harm, failure)
                self._alarms.at(time.monotonic() + failure.at_s, harm)

        self._events.put(note)

    def close(self) -> None:
        """Stop all devices; requests in flight fail."""
        if self._thread.is_alive():
            self._events.put(Close())
            self._thread.join()
        self._transport.close()

    def _work(self) -> None:
        error: HetsimError = UsageError("the session is closed")
        # Created while there is memory: a session that cannot report its end would never end.
        short: HetsimError = OutOfRoom(
            "out of memory", hint="use smaller inputs or fewer requests in flight"
        )
        closed = False
        try:
            self._devices.open()
            while True:
                event = self._alarms.next(self._events)
                if isinstance(event, Close):
                    closed = True
                    break
                if event is not None:
                    self._handle(event)
                if self._devices.broken is not None:
                    self._requests.fail_all(self._devices.broken)
                self._requests.give_out()
        except HetsimError as refusal:
            error = refusal
        except BaseException as fault:
            try:
                said = f"the session ended: {type(fault).__name__}: {fault}"
                error = out_of_room(fault) or ExecutionError(said)
            except MemoryError:
                error = short
        if not self._opened.done():
            self._opened.set_exception(error)
        self._requests.fail_all(error)
        while not closed:
            event = self._events.get()
            closed = isinstance(event, Close)
            if isinstance(event, Submit):
                event.request.fail(error)

    def _handle(self, event: object) -> None:
        if isinstance(event, CallEnded):
            self._requests.ended(event)
        elif isinstance(event, Submit):
            self._requests.submitted(event)
        elif isinstance(event, Fetched):
            self._requests.fetched(event)
        elif isinstance(event, Loaded):
            self._devices.loaded(event)
            if self._devices.ready and not self._opened.done():
                self._opened.set_result(0.0)
        elif isinstance(event, Lost):
            raise event.error
        elif isinstance(event, Expired):
            self._requests.expired(event)
        elif callable(event):
            event()
        elif isinstance(event, Replanned):
            self._devices.replanned(event)
