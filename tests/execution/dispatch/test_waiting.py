"""Waiting for an event ends, however short it is meant to be."""

from __future__ import annotations

import queue

import pytest

from hetsim.execution.dispatch.requests import next_of


@pytest.mark.parametrize("wait_s", [-1.0, 0.0, 1e-9, 1e-6])
def test_waiting_ends(wait_s: float) -> None:
    events: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(2000):
        # Each leaves the lock of the queue free, of which a plain get makes nothing good.
        events.put(number)
        assert next_of(events, wait_s) == number
        with pytest.raises(queue.Empty):
            next_of(events, wait_s)


def test_as_long_as_threads_can_wait() -> None:
    events: queue.SimpleQueue[str] = queue.SimpleQueue()
    events.put("here")
    assert next_of(events, float("inf")) == "here"
