"""Requests, devices and their versions, with answers that come when a test says so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from hetsim.errors import Cancelled, DeviceLost, ExecutionError, TimedOut
from hetsim.execution.dispatch import loop as open_requests
from hetsim.execution.dispatch.device_states import Policy, Replanned, Restart
from hetsim.execution.dispatch.loop import Expired, Overdue
from hetsim.execution.dispatch.transport import Fault, Fetched, Loaded
from hetsim.workload.failure import Failure
from session_parts import Session


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """One whose clock stands still until a test moves it."""
    made = Session()
    monkeypatch.setattr(open_requests, "time", made.clock)
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
    session.open._policy = Policy(600.0, hang_s=3.0)
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


def test_how_long_a_request_took_is_from_submission_to_its_outputs(session: Session) -> None:
    session.up("a", "b")
    session.now = 3.0
    request = session.submit()
    for _ in range(2):
        session.now += 2.0
        session.end(*session.last())
    session.now = 7.5
    session.open.fetched(Fetched(0, {"y": 1}))
    assert request.wall_s == 4.5


def test_devices_forget_what_they_hold_of_a_request_that_did_not_go_as_planned(
    session: Session,
) -> None:
    """All that are up or starting: a long life must not collect it."""
    session.up("a", "b")
    session.submit()
    session.end(*session.last())
    session.end(*session.last())
    session.open.fetched(Fetched(0, {"y": 1}))
    # Each step let go of what nobody needs after it.
    assert session.forgotten == []
    # One that is cancelled is forgotten at once, and once more by who was at it as it ends.
    second = session.submit()
    call, number = session.last()
    session.open.fail(1, Cancelled("given up"))
    assert isinstance(second.error, Cancelled)
    assert sorted(session.forgotten) == [("a", 0, 1), ("b", 0, 1)]
    session.end(call, number)
    assert session.forgotten[2:] == [("a", 0, 1)]
    # Nothing is told twice, and nothing is done of it.
    session.open.fail(1, ExecutionError("again"))
    assert [call.request for call, _ in session.calls] == [0, 0, 1]
    # One of which something was done again may have left something behind.
    session.submit()
    session.end(*session.last())
    session.end(*session.last(), lost("x"))
    for _ in range(2):
        session.end(*session.last())
    session.forgotten.clear()
    session.open.fetched(Fetched(2, {"y": 1}))
    assert sorted(session.forgotten) == [("a", 0, 2), ("b", 0, 2)]


def test_an_input_without_room_fails_its_request_alone(session: Session) -> None:
    session.up("a", "b")
    session.room = False
    assert "no room" in str(session.submit().error)
    assert session.calls == []
    assert session.later == []
    session.room = True
    assert session.submit().error is None
    assert [call.request for call, _ in session.calls] == [1]


def test_all_that_are_open_fail_at_once_and_each_once(session: Session) -> None:
    session.up("a", "b")
    over = session.submit()
    session.end(*session.last())
    session.end(*session.last())
    session.open.fetched(Fetched(0, {"y": 1}))
    others = [session.submit(), session.submit()]
    error = ExecutionError("the end")
    session.open.fail_all(error)
    assert [request.error for request in others] == [error, error]
    assert over.error is None


def test_only_alarms_of_what_is_open_are_awaited(session: Session) -> None:
    session.up("a", "b")
    session.submit()
    call, number = session.last()
    assert session.open.awaited(Expired(0))
    assert session.open.awaited(Expired(0, call, number))
    session.end(call, number)
    assert session.open.awaited(Expired(0))
    assert not session.open.awaited(Expired(0, call, number))
    session.open.fail(0, Cancelled("given up"))
    assert not session.open.awaited(Expired(0))
    # Whatever else time brings is.
    assert session.open.awaited(Restart("a", 0))


def test_a_late_request_names_the_devices_that_kept_it(session: Session) -> None:
    """Those that run it; where none does, those that are starting, or else all that run others."""
    session.up("b")
    waits = session.submit(10.0)
    session.now = 10.0
    session.open.expired(Expired(0))
    assert isinstance(waits.error, TimedOut)
    assert (waits.error.devices, waits.error.timeout_s) == (("a",), 10.0)
    session.up("a")
    first, second = session.submit(1000.0), session.submit(1000.0)
    third = session.submit(20.0)
    # Both streams of a are taken; nothing of the third has begun.
    assert [call.request for call, _ in session.calls] == [1, 2]
    session.now = 15.0
    session.open.expired(Expired(3))
    assert isinstance(third.error, TimedOut)
    assert (third.error.devices, third.error.timeout_s) == (("a",), 20.0)
    assert first.error is second.error is None
    # Their calls took less than half of what the third had.
    assert session.discarded == []


def test_an_exception_is_tried_again_once_and_then_its_requests(session: Session) -> None:
    fault = Fault("kernel", ExecutionError("a fault"))
    session.up("a", "b")
    request = session.submit()
    call, number = session.last()
    session.now = 5.0
    session.end(call, number, fault)
    assert request.error is None
    assert session.last() == (call, number)
    assert len(session.calls) == 2
    session.now = 7.0
    session.end(call, number)
    assert session.discarded == []
    # When it was noticed, since the devices were ready, and how long the work was held up.
    (found,) = session.devices.recoveries
    assert (found.device, found.kind, found.how, found.requests) == (
        "a",
        "kernel",
        "repeated",
        (0,),
    )
    # Chances are a step's own: one that failed before takes none from the next, on either device.
    second, number = session.last()
    assert second.device == "b"
    session.end(second, number, fault)
    assert request.error is None
    session.end(second, number, fault)
    assert request.error is fault.error
    # The other request has its own, too.
    other = session.submit()
    session.end(*session.last(), fault)
    assert other.error is None


@pytest.mark.parametrize("attempts", [1, 3])
def test_as_many_attempts_as_the_policy_has(attempts: int) -> None:
    session = Session(Policy(600.0, attempts=attempts, max_losses=attempts))
    session.up("a", "b")
    request = session.submit()
    for turn in range(attempts):
        assert request.error is None
        assert len(session.calls) == turn + 1
        session.end(*session.last(), Fault("kernel", ExecutionError("a fault")))
    assert request.error is not None
    again = session.submit()
    for turn in range(attempts + 1):
        assert again.error is None, turn
        session.open.lose("a", "died", ExecutionError("gone"), values_too=True)
        session.up("a")
        session.open.give_out()
    assert isinstance(again.error, DeviceLost)
    times = attempts + 1
    assert again.error.what == (
        f"request 1 is lost: its devices failed {times} times while running it: gone"
    )
    assert "max_losses" in str(again.error)


def test_a_request_that_survives_no_failure_is_lost_with_the_first() -> None:
    session = Session(Policy(600.0, max_losses=0))
    session.up("a", "b")
    request = session.submit()
    session.open.lose("a", "hang", TimedOut("no answer", devices=("a",)), values_too=True)
    assert isinstance(request.error, TimedOut)
    assert request.error.devices == ("a",)
    assert request.error.what == (
        "request 0 is lost: its devices failed once while running it: no answer"
    )


def test_a_device_that_is_gone_takes_what_it_sent_with_it_only_if_it_says_so() -> None:
    for values_lost in (False, True):
        session = Session()
        session.up("a", "b")
        session.submit()
        session.end(*session.last())
        call, number = session.last()
        assert call.device == "b"
        session.submit()
        other = session.last()
        assert other[0].device == "a"
        fault = Fault("died", ExecutionError("gone"), values_lost=values_lost)
        session.end(*other, fault)
        assert session.discarded == ["a"]
        session.up("a")
        session.open.give_out()
        # The value that b is at work on is needed no more; only request 1 runs again.
        assert [call.request for call, _ in session.calls[3:]] == [1]
        session.end(call, number, Fault("kernel", ExecutionError("a fault")))
        # What b reads again is there, or made again before.
        assert session.last()[0].device == ("a" if values_lost else "b")
        assert session.last()[0].request == 0


def test_failures_are_made_of_devices_that_can_be_told(session: Session) -> None:
    session.up("a")
    session.now = 2.0
    session.open.harm(Failure("a", 1.0, "hang", 4.0))
    assert session.harmed == [("a", "hang")]
    ((when, event),) = session.later
    assert when == 6.0
    assert isinstance(event, Overdue)
    assert (event.device, event.incarnation) == ("a", 0)
    assert isinstance(event.error, TimedOut)
    assert (event.error.devices, event.error.timeout_s) == (("a",), 4.0)
    # One that is starting can be; a kill shows by itself.
    session.open.harm(Failure("b", 1.0))
    assert session.harmed[1:] == [("b", "kill")]
    assert len(session.later) == 1
    # One that is lost for good cannot, nor one that there is not yet.
    session.open.lose("b", "died", ExecutionError("gone"), values_too=True)
    session.open.harm(Failure("b", 1.0))
    assert len(session.harmed) == 2


def test_a_request_without_outputs_is_over_at_once() -> None:
    empty = Session(outputs=())
    request = empty.submit()
    assert empty.fetches == [(0, {})]
    empty.open.fetched(Fetched(0, {}))
    assert request.outputs == {}
    # None of its steps has run, nor runs after that.
    empty.up("a", "b")
    empty.open.give_out()
    assert empty.calls == []
