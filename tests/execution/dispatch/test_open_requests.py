"""Requests, devices and their versions, with answers that come when a test says so."""

from __future__ import annotations

import queue
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from hetsim.errors import DeviceLost, ExecutionError, HetsimError, TimedOut
from hetsim.execution.devices.plan_steps import Part, Step, steps_of
from hetsim.execution.dispatch import open_requests
from hetsim.execution.dispatch.device_states import DeviceStates, Replanned, Restart
from hetsim.execution.dispatch.dispatcher import Call, Dispatcher
from hetsim.execution.dispatch.events import Expired, Submit
from hetsim.execution.dispatch.open_requests import OpenRequests
from hetsim.execution.dispatch.recovery import Policy
from hetsim.execution.dispatch.run_log import RunLog
from hetsim.execution.dispatch.transport import Ended, Fault, Fetched, Loaded
from hetsim.workloads.failure import Failure

PARTS = [Part("a", ("in0",), ("x",)), Part("b", ("x",), ("y",))]


class Request:
    """A caller's side of a request."""

    def __init__(self, request_id: int) -> None:
        self.request_id = request_id
        self.outputs: Mapping[str, Any] | None = None
        self.error: HetsimError | None = None

    def succeed(self, outputs: Mapping[str, Any], seconds: float) -> None:
        assert self.outputs is None
        assert self.error is None
        self.outputs = outputs

    def fail(self, error: HetsimError) -> None:
        assert self.outputs is None
        assert self.error is None
        self.error = error


class Session:
    """The parts of a session's loop, on a transport that takes down what it is told."""

    def __init__(self, policy: Policy | None = None, *, replan: bool = False) -> None:
        self.now = 0.0
        self.calls: list[tuple[Call, int]] = []
        self.loads: list[tuple[str, int, int]] = []
        self.fetches: list[tuple[int, dict[str, Any]]] = []
        self.discarded: list[str] = []
        self.later: list[tuple[float, object]] = []
        self.posted: queue.SimpleQueue[object] = queue.SimpleQueue()
        self.replans: list[tuple[str, ...]] = []
        self.requests: list[Request] = []
        policy = policy or Policy()
        steps = steps_of(PARTS, ["y"])
        self.dispatcher = Dispatcher(steps, ["y"], {"a": 2, "b": 1, "c": 1})
        self.devices = DeviceStates(
            program(steps), self.dispatcher, self, self.posted.put, policy,  # type: ignore[arg-type]
            self.replanned if replan else None, self.at,
        )  # fmt: skip
        self.open = OpenRequests(
            ["y"],
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
        self.open.ended(Ended(call, incarnation, sent, fault))
        self.open.give_out()

    # What OpenRequests and DeviceStates ask of a transport.

    def load(self, device: str, incarnation: int, version: int, program: object) -> None:
        self.loads.append((device, incarnation, version))

    def call(self, call: Call, incarnation: int, step: Step, received: Sequence[Any]) -> None:
        self.calls.append((call, incarnation))

    def forget(self, device: str, version: int, request: int) -> None: ...

    def discard(self, device: str) -> None:
        self.discarded.append(device)

    def harm(self, device: str, kind: str) -> None: ...

    def hand(self, value: Any) -> Any:
        return value

    def fetch(self, request: int, handles: Mapping[str, Any]) -> None:
        self.fetches.append((request, dict(handles)))


def program(steps: Sequence[Step]) -> Any:
    code = {step.device: () for step in steps}
    return SimpleNamespace(code=code, steps=steps, outputs=["y"], replicas=(), deal=(0,))


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """One whose clock stands still until a test moves it."""
    made = Session()
    clock = SimpleNamespace(monotonic=lambda: made.now, perf_counter=lambda: made.now)
    monkeypatch.setattr(open_requests, "time", clock)
    yield made
    # Nothing is left of requests that were answered.
    for request in made.requests:
        answered = request.outputs is not None or request.error is not None
        assert (request.request_id in made.dispatcher.flights) != answered


def lost(name: str) -> Fault:
    return Fault("lost input", ExecutionError(f"'{name}' is nowhere"), lost=(name,))


@pytest.mark.parametrize("times", [8, 9])
def test_values_that_get_lost_on_their_way_are_made_again_eight_times(
    session: Session, times: int
) -> None:
    session.up("a", "b")
    request = session.submit()
    for _ in range(times):
        call, number = session.last()
        assert (call.device, call.step) == ("a", 0)
        session.end(call, number)
        call, number = session.last()
        assert (call.device, call.step) == ("b", 1)
        assert request.error is None
        session.end(call, number, lost("x"))
    if times == 9:
        assert request.error is not None
        assert request.error.what == "'x' is nowhere"
        return
    for _ in range(2):
        session.end(*session.last())
    assert session.fetches == [(0, {"y": "y'"})]
    session.open.fetched(Fetched(0, {"y": 1}))
    assert request.outputs == {"y": 1}


@pytest.mark.parametrize("times", [8, 9])
def test_outputs_that_get_lost_are_made_again_eight_times(session: Session, times: int) -> None:
    session.up("a", "b")
    request = session.submit()
    session.end(*session.last())
    for turn in range(times):
        assert request.error is None
        session.end(*session.last())
        assert len(session.fetches) == turn + 1
        session.open.fetched(Fetched(0, {}, ("y",)))
        session.open.give_out()
    if times == 9:
        assert request.error is not None
        assert "lost again and again" in request.error.what
        return
    # What the last step read is there still: it alone ran again.
    assert [call.step for call, _ in session.calls] == [0] + [1] * (times + 1)
    session.end(*session.last())
    session.open.fetched(Fetched(0, {"y": 1}))
    assert request.outputs == {"y": 1}


@pytest.mark.parametrize(("since", "stuck"), [(5.0, True), (5.5, False)])
def test_a_call_that_took_half_of_a_requests_time_is_of_a_device_that_hangs(
    session: Session, since: float, stuck: bool
) -> None:
    """The first request waits for its device all along; another device began when it is said."""
    session.up("a", "b")
    late = session.submit(10.0)
    other = session.submit(1000.0)
    second = next(call for call, _ in session.calls if call.request == 1)
    session.now = since
    session.end(second, 0)
    assert session.last()[0].device == "b"
    session.now = 10.0
    assert (10.0, Expired(0)) in session.later
    session.open.expired(Expired(0))
    assert isinstance(late.error, TimedOut)
    assert "'a'" in str(late.error)
    assert "'b'" not in str(late.error)
    assert session.discarded == (["a", "b"] if stuck else ["a"])
    assert other.error is None
    # It is told but once, and what comes of it later says nothing.
    session.open.expired(Expired(0))
    session.open.fetched(Fetched(0, {"y": 1}))
    assert late.outputs is None


def test_a_call_has_its_time_from_when_it_was_given_out(session: Session) -> None:
    session.open._policy = Policy(hang_s=3.0)
    session.up("a", "b")
    session.now = 2.0
    request = session.submit()
    call, number = session.last()
    assert (5.0, Expired(0, call, 0)) in session.later
    session.end(call, number)
    # It came back in time, so that nothing is lost as its time is over.
    session.open.expired(Expired(0, call, 0))
    assert session.discarded == []
    second, number = session.last()
    session.open.expired(Expired(0, second, number))
    assert session.discarded == ["b"]
    assert request.error is None
    # An alarm of the process before does not count against the one that took its place.
    session.up("b")
    session.open.give_out()
    assert session.last() == (second, 1)
    session.open.expired(Expired(0, second, 0))
    assert session.discarded == ["b"]


def test_what_a_device_said_before_it_was_lost_does_not_count(session: Session) -> None:
    session.up("a", "b")
    request = session.submit()
    call, number = session.last()
    session.open.lose("a", "died", ExecutionError("gone"), values_too=True)
    assert session.loads[-1] == ("a", 1, 0)
    # Its last words: neither that it is ready, nor that it has done what it was given.
    session.devices.loaded(Loaded("a", 0, 0, process=1))
    session.open.give_out()
    assert "a" not in session.devices.processes()
    session.end(call, number)
    assert len(session.calls) == 1
    session.up("a")
    session.open.give_out()
    assert session.last() == (call, 1)
    session.end(call, number)
    assert len(session.calls) == 2
    session.end(call, 1)
    assert session.last()[0].device == "b"
    assert request.error is None
    # Nor that it can be started again, once it was.
    loads = list(session.loads)
    session.devices.restart(Restart("a", 0))
    assert session.loads == loads
    session.devices.restart(Restart("a", 1))
    assert session.loads[-1] == ("a", 1, 0)


def test_a_request_goes_no_more_than_two_deaths(session: Session) -> None:
    session.up("a", "b")
    request = session.submit()
    for death in range(3):
        assert request.error is None
        assert session.last()[1] == death
        session.open.lose("a", "died", ExecutionError("gone"), values_too=True)
        session.up("a")
        session.open.give_out()
    assert isinstance(request.error, DeviceLost)
    assert (request.error.device, request.error.kind) == ("a", "died")


def test_devices_take_up_another_version_together() -> None:
    session = Session(replan=True)
    session.up("a", "b")
    session.devices.expect(Failure("b", 0.0))
    request = session.submit()
    session.open.lose("b", "died", ExecutionError("gone"), values_too=True)
    # Planning goes on beside the loop.
    event = session.posted.get(timeout=100)
    assert session.replans == [("b",)]
    assert isinstance(event, Replanned)
    # One that was made for another loss is of no use.
    session.devices.replanned(replace(event, lost=("a",)))
    assert ("a", 0, 1) not in session.loads
    session.devices.replanned(event)
    assert session.loads[-2:] == [("a", 0, 1), ("c", 0, 1)]
    session.up("a", version=1)
    assert session.dispatcher.version == 0
    # What is said of the version before comes late, and counts no more.
    session.up("a", version=0)
    session.up("c", version=0)
    assert session.devices.processes() == {"a": 2}
    session.up("c", version=1)
    assert session.dispatcher.version == 1
    assert session.devices.processes() == {"a": 2, "c": 2}
    (recovery,) = session.devices.recoveries
    assert (recovery.device, recovery.how) == ("b", "replanned")
    # A device of the version before that is lost for good is not asked again.
    session.devices.loaded(Loaded("b", 1, 1, process=9))
    assert set(session.devices.processes()) == {"a", "c"}
    # What the version before had begun is of use: its value goes to the device that took over.
    session.end(*session.calls[0])
    assert session.last()[0].device == "c"
    session.end(*session.last())
    assert session.fetches == [(0, {"y": "y'"})]
    session.open.fetched(Fetched(0, {"y": 1}))
    assert request.outputs == {"y": 1}
