"""Devices that are lost: started again, given up, planned without; and the record of that."""

from __future__ import annotations

import pytest

from hetsim.errors import ExecutionError, Infeasible, OutOfRoom
from hetsim.execution.dispatch import device_states, loop
from hetsim.execution.dispatch.device_states import RecoveryPolicy, Replanned
from hetsim.workload.failure import Failure
from session_parts import Session

GONE = ExecutionError("its process ended")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Session:
    """One that can be planned anew, and whose clock stands still until a test moves it."""
    session = Session(replan=True)
    for module in (device_states, loop):
        monkeypatch.setattr(module, "time", session.clock)
    return session


def test_how_long_devices_were_away_counts_from_when_all_were_ready(made: Session) -> None:
    made.now = 10.0
    made.up("a")
    assert not made.devices.ready
    made.now = 12.0
    made.up("b")
    assert made.devices.ready
    made.submit()
    made.now = 15.0
    made.open.lose("a", "died", GONE, values_too=True)
    # Once more, before it is back: one outage, from when it was first noticed.
    made.now = 16.0
    made.open.lose("a", "hang", GONE, values_too=True)
    made.now = 19.0
    made.up("a")
    (found,) = made.devices.recoveries
    assert (found.device, found.kind, found.how) == ("a", "died", "restarted")
    assert (found.at_s, found.seconds, found.requests) == (3.0, 4.0, (0,))
    # The next is another one, and touches nobody.
    made.now = 20.0
    made.open.lose("b", "hang", GONE, values_too=True)
    made.up("b")
    last = made.devices.recoveries[-1]
    assert (last.device, last.kind, last.at_s, last.seconds) == ("b", "hang", 8.0, 0.0)
    assert last.requests == ()


@pytest.mark.parametrize("policy", [None, RecoveryPolicy(600.0, max_restarts=1)])
def test_a_device_is_started_again_so_often_and_no_more(policy: RecoveryPolicy | None) -> None:
    """Three times, where nobody says otherwise."""
    session = Session(policy, replan=True)
    session.up("a", "b")
    allowed = 3 if policy is None else 1
    for turn in range(allowed):
        session.open.lose("b", "died", GONE, values_too=True)
        assert session.loads[-1] == ("b", turn + 1, 0)
        assert session.devices.silent() == ("b",)
        session.up("b")
    session.open.lose("b", "died", GONE, values_too=True)
    event = session.posted.get(timeout=100)
    assert isinstance(event, Replanned)
    assert event.lost == ("b",)
    assert session.loads[-1] == ("b", allowed, 0)
    assert session.devices.silent() == ()
    # Another one has its own chances.
    session.open.lose("a", "died", GONE, values_too=True)
    assert session.loads[-1] == ("a", 1, 0)


def test_a_device_stays_away_for_as_long_as_its_failure_says(made: Session) -> None:
    made.up("a", "b")
    made.now = 5.0
    made.devices.expect(Failure("a", 0.0, "kill", 2.5))
    made.open.lose("a", "died", GONE, values_too=True)
    assert made.loads[-1] == ("b", 0, 0)
    ((when, again),) = made.later
    assert when == 7.5
    assert made.devices.silent() == ("a",)
    assert callable(again)
    again()
    assert made.loads[-1] == ("a", 1, 0)
    made.up("a")
    # It is said of one failure alone; the next is started again at once.
    made.open.lose("a", "died", GONE, values_too=True)
    assert made.loads[-1] == ("a", 2, 0)
    assert len(made.later) == 1
    # Away for no time at all: at once, too.
    made.up("a")
    made.devices.expect(Failure("a", 0.0, "kill", 0.0))
    made.open.lose("a", "died", GONE, values_too=True)
    assert made.loads[-1] == ("a", 3, 0)
    assert made.posted.empty()


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (Infeasible("no remaining device"), Infeasible, "no remaining device"),
        (ValueError("odd"), ExecutionError, "re-planning failed: ValueError: odd"),
        (MemoryError(), OutOfRoom, "memory"),
    ],
)
def test_where_there_is_no_other_plan_all_requests_are_told(
    error: Exception, kind: type[Exception], says: str
) -> None:
    session = Session(RecoveryPolicy(600.0, max_restarts=0), replan=error)
    session.up("a", "b")
    session.open.lose("b", "died", GONE, values_too=True)
    event = session.posted.get(timeout=100)
    assert isinstance(event, Replanned)
    assert event.program is None
    assert session.devices.broken is None
    session.devices.replanned(event)
    assert type(session.devices.broken) is kind
    # Those that come from then on, too.
    request = session.submit()
    assert request.error is session.devices.broken
    assert says in str(request.error)
    assert session.calls == []


def switched(made: Session) -> None:
    """Have b lost for good, and its work taken over by c."""
    made.devices.expect(Failure("b", 0.0))
    made.open.lose("b", "died", GONE, values_too=True)
    made.devices.replanned(made.posted.get(timeout=100))  # type: ignore[arg-type]


def test_devices_compile_another_version_while_they_serve_the_one_before(made: Session) -> None:
    made.up("a", "b")
    made.submit()
    switched(made)
    # a serves on, while it compiles.
    assert made.devices.processes() == {"a": 1}
    assert made.devices.silent() == ("c",)
    made.submit()
    assert [call.version for call, _ in made.calls] == [0, 0]
    # One that is lost while it compiles compiles the new version as it is started again.
    made.open.lose("a", "died", GONE, values_too=True)
    assert made.loads[-1] == ("a", 1, 1)
    made.up("c", version=1)
    assert made.dispatcher.version == 0
    assert made.forgotten == []
    made.up("a", version=1)
    assert made.dispatcher.version == 1
    # What the version before left there of requests under way.
    assert sorted(made.forgotten) == [
        ("a", 0, 0), ("a", 0, 1), ("c", 0, 0), ("c", 0, 1)
    ]  # fmt: skip
    assert sorted(one.how for one in made.devices.recoveries) == ["replanned", "replanned"]
    assert [one.device for one in made.devices.recoveries] == ["b", "a"]
    made.open.give_out()
    assert [(call.device, call.version) for call, _ in made.calls[2:]] == [("a", 1), ("a", 1)]


def test_a_version_may_be_left_out(made: Session) -> None:
    """Another device is lost before the program without the first one is compiled."""
    made.up("a", "b")
    made.submit()
    switched(made)
    made.devices.replanned(Replanned(("b",), made.replanned(("b",))))
    made.up("a", "c", version=1)
    assert made.dispatcher.version == 0
    made.up("a", "c", version=2)
    made.open.give_out()
    assert [call.version for call, _ in made.calls] == [0, 2]


def test_neither_a_failure_nor_a_plan_reaches_a_device_that_is_away(made: Session) -> None:
    made.up("a", "b")
    made.devices.expect(Failure("a", 0.0, "kill", 2.5))
    made.open.lose("a", "died", GONE, values_too=True)
    made.open.harm(Failure("a", 0.0))
    assert made.harmed == []
    switched(made)
    assert made.loads[-1] == ("c", 0, 1)
    ((_, again),) = made.later
    assert callable(again)
    again()
    assert made.loads[-1] == ("a", 1, 1)
