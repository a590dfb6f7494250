"""The loop of a session: events from callers and devices in, calls to devices out."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from hetsim.core.room import out_of_room
from hetsim.core.threads import begun
from hetsim.errors import Cancelled, ExecutionError, HetsimError, OutOfRoom, UsageError
from hetsim.execution.devices.program import Program
from hetsim.execution.dispatch.device_states import (
    DeviceStates,
    Policy,
    Recovery,
    Replan,
    Replanned,
    Restart,
)
from hetsim.execution.dispatch.dispatcher import Dispatcher
from hetsim.execution.dispatch.open_requests import OpenRequests
from hetsim.execution.dispatch.requests import (
    Alarms,
    Cancel,
    Close,
    Expired,
    Harm,
    Inject,
    Overdue,
    Request,
    Submit,
)
from hetsim.execution.dispatch.run_log import RunLog
from hetsim.execution.dispatch.transport import (
    Ended,
    Fetched,
    Loaded,
    Lost,
    Post,
    Transport,
    unanswered,
)
from hetsim.workload.failure import Failure


class SessionLoop:
    """Runs requests through a program, on devices that may fail."""

    def __init__(
        self,
        program: Program,
        transport: Callable[[Post], Transport],
        streams: Mapping[str, int],
        policy: Policy,
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
        """Failures that were got over, in order."""
        return tuple(self._devices.recoveries)

    def processes(self) -> dict[str, int]:
        """By device that is up: the process that it lives in."""
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
        """Have a request run."""
        self._events.put(Submit(request, inputs, timeout_s))

    def cancel(self, request: int) -> None:
        """Give a request up."""
        self._events.put(Cancel(request))

    def inject(self, failures: Sequence[Failure]) -> None:
        """Make devices fail, at their times from now on."""
        self._events.put(Inject(tuple(failures)))

    def close(self) -> None:
        """End all devices; requests under way fail."""
        if self._thread.is_alive():
            self._events.put(Close())
            self._thread.join()
        self._transport.close()

    def _work(self) -> None:
        error: HetsimError = UsageError("the session is closed")
        # Made while there is memory: a session that cannot say how it ended would never end.
        short: HetsimError = OutOfRoom("the memory is used up", hint="ask for less at a time")
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
        if isinstance(event, Ended):
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
        elif isinstance(event, Cancel):
            self._requests.fail(event.request, Cancelled(f"request {event.request} was cancelled"))
        elif isinstance(event, Restart):
            self._devices.restart(event)
        elif isinstance(event, Replanned):
            self._devices.replanned(event)
        elif isinstance(event, Inject):
            for failure in event.failures:
                self._alarms.at(time.monotonic() + failure.at_s, Harm(failure))
        elif isinstance(event, Harm):
            self._requests.harm(event.failure)
        elif isinstance(event, Overdue) and event.incarnation == self._devices.incarnation(
            event.device
        ):
            self._requests.lose(event.device, "hang", event.error, values_too=False)
