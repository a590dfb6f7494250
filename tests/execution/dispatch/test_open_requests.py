"""Requests, devices and their versions, with answers that come when a test says so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hetsim.errors import Cancelled, ExecutionError, TimedOut
from hetsim.execution.dispatch import loop as open_requests
from hetsim.execution.dispatch.requests import Expired
from hetsim.execution.dispatch.transport import Fault, Fetched, Loaded
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
    session.devices.restart("a", 0)
    assert session.loads == loads
    session.devices.restart("a", 1)
    assert session.loads[-1] == ("a", 1, 0)


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
