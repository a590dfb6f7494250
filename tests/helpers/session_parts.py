"""The parts of a session's loop, by a test's clock, on a transport that takes down its calls."""

from __future__ import annotations

import queue
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from hetsim.errors import ExecutionError, HetsimError
from hetsim.execution.dispatch.device_states import DeviceStates, RecoveryPolicy
from hetsim.execution.dispatch.dispatcher import Call, Dispatcher
from hetsim.execution.dispatch.loop import OpenRequests
from hetsim.execution.dispatch.requests import Submit
from hetsim.execution.dispatch.run_log import RunLog
from hetsim.execution.dispatch.transport import CallEnded, Fault, Loaded
from hetsim.execution.program import Program, ProgramSubgraph, Step, steps_of

PARTS = [ProgramSubgraph("a", ("in0",), ("x",)), ProgramSubgraph("b", ("x",), ("y",))]


class Request:
    """A caller's side of a request."""

    def __init__(self, request_id: int) -> None:
        self.request_id = request_id
        self.outputs: Mapping[str, Any] | None = None
        self.wall_s: float | None = None
        self.error: HetsimError | None = None

    def succeed(self, outputs: Mapping[str, Any], seconds: float) -> None:
        assert self.outputs is None
        assert self.error is None
        self.outputs, self.wall_s = outputs, seconds

    def fail(self, error: HetsimError) -> None:
        assert self.outputs is None
        assert self.error is None
        self.error = error


class Session:
    """The parts of a session's loop, on a transport that takes down what it is told."""

    def __init__(
        self,
        policy: RecoveryPolicy | None = None,
        *,
        replan: bool | Exception = False,
        parts: Sequence[ProgramSubgraph] = PARTS,
        outputs: Sequence[str] = ("y",),
    ) -> None:
        self.now = 0.0
        self.clock = SimpleNamespace(monotonic=lambda: self.now, perf_counter=lambda: self.now)
        self.replan = replan
        self.room = True
        self.forgotten: list[tuple[str, int, int]] = []
        self.harmed: list[tuple[str, str]] = []
        self.calls: list[tuple[Call, int]] = []
        self.loads: list[tuple[str, int, int]] = []
        self.fetches: list[tuple[int, dict[str, Any]]] = []
        self.discarded: list[str] = []
        self.later: list[tuple[float, object]] = []
        self.posted: queue.SimpleQueue[object] = queue.SimpleQueue()
        self.replans: list[tuple[str, ...]] = []
        self.requests: list[Request] = []
        policy = policy or RecoveryPolicy(600.0)
        steps = steps_of(parts, outputs)
        self.dispatcher = Dispatcher(steps, outputs, {"a": 2, "b": 1, "c": 1})
        self.devices = DeviceStates(
            program(steps), self.dispatcher, self, self.posted.put, policy,  # type: ignore[arg-type]
            self.replanned if replan else None, self.at,
        )  # fmt: skip
        self.open = OpenRequests(
            outputs,
            self.dispatcher,
            self.devices,
            self,
            policy,
            self.at,
            RunLog(keep=False),  # type: ignore[arg-type]
        )
        self.devices.open()

    def replanned(self, lost: tuple[str, ...]) -> Any:
        self.replans.append(lost)
        if isinstance(self.replan, Exception):
            raise self.replan
        return program(steps_of([PARTS[0], replace(PARTS[1], device="c")], ["y"]))

    def at(self, when: float, event: object) -> None:
        self.later.append((when, event))

    def up(self, *devices: str, version: int = 0) -> None:
        for device in devices:
            number = self.devices.incarnation(device)
            self.devices.loaded(Loaded(device, number, version, process=10 * number + version + 1))

    def submit(self, timeout_s: float = 100.0) -> Request:
        request = Request(len(self.requests))
        self.requests.append(request)
        self.open.submitted(Submit(request, {"in0": 0}, timeout_s))  # type: ignore[arg-type]
        self.open.give_out()
        return request

    def last(self) -> tuple[Call, int]:
        return self.calls[-1]

    def end(self, call: Call, incarnation: int, fault: Fault | None = None) -> None:
        sent = {} if fault else {name: f"{name}'" for name in self.dispatcher.step(call).sends}
        self.open.ended(CallEnded(call, incarnation, sent, fault))
        self.open.give_out()

    # What OpenRequests and DeviceStates ask of a transport.

    def load(self, device: str, incarnation: int, version: int, program: object) -> None:
        self.loads.append((device, incarnation, version))

    def call(self, call: Call, incarnation: int, step: Step, received: Sequence[Any]) -> None:
        self.calls.append((call, incarnation))

    def forget(self, device: str, version: int, request: int) -> None:
        self.forgotten.append((device, version, request))

    def discard(self, device: str) -> None:
        self.discarded.append(device)

    def harm(self, device: str, kind: str) -> None:
        self.harmed.append((device, kind))

    def hand(self, value: Any) -> Any:
        if not self.room:
            raise ExecutionError("there is no room")
        return value

    def fetch(self, request: int, handles: Mapping[str, Any]) -> None:
        self.fetches.append((request, dict(handles)))


def program(steps: Sequence[Step], outputs: Sequence[str] = ("y",)) -> Program:
    return Program(tuple(steps), {step.device: () for step in steps}, None, tuple(outputs))
