"""Events that come when their time has come, against a list of what is due."""

from __future__ import annotations

import queue
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.execution.dispatch import requests as events
from hetsim.execution.dispatch.requests import Alarms
from sweeps import examples


class Silent:
    """A queue in which nothing comes: it takes down how long it is waited for."""

    def __init__(self) -> None:
        self.waits: list[float | None] = []

    def get(self, timeout: float | None = None) -> object | None:
        self.waits.append(timeout)
        if timeout is not None:
            raise queue.Empty
        return None

    def get_nowait(self) -> object:
        raise queue.Empty


def never(event: object) -> bool:
    raise AssertionError("so few are not looked at")


@examples(quick=60, full=500)
@given(st.lists(st.one_of(st.integers(0, 9).map(float), st.none()), max_size=40), st.integers(0, 9))
def test_events_come_in_order_and_none_too_soon(due: list[float | None], now: float) -> None:
    """None of `due`: the next is asked for; those of one time come as they were given."""
    alarms, inbox, pending = Alarms(never), Silent(), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(events, "time", SimpleNamespace(monotonic=lambda: now))
        for number, when in enumerate([*due, *[None] * (len(due) + 1)]):
            if when is not None:
                alarms.at(when, number)
                pending.append((when, number))
                continue
            pending.sort()
            found = alarms.next(inbox)  # type: ignore[arg-type]
            if pending and pending[0][0] <= now:
                assert found == pending.pop(0)[1]
                continue
            # What is said meanwhile comes first; else it waits until the next is due.
            assert found is None
            assert inbox.waits.pop() == (pending[0][0] - now if pending else None)
    assert not inbox.waits
    assert len(alarms) == len(pending)


def test_what_does_not_matter_any_more_is_not_kept() -> None:
    """A session for life: of a million alarms of calls that came back few are there at any time."""
    open_: set[int] = set()
    alarms = Alarms(lambda event: event in open_)
    for number in range(5000):
        open_.add(number)
        alarms.at(float(number), number)
        open_.discard(number - 10)
    assert len(alarms) < 600
    # Those that matter have not gone.
    events_left = {event for _, _, event in alarms._heap}
    assert open_ <= events_left
