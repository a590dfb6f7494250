"""Events and sockets for one thread: in order, none lost, nothing left open."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from hetsim.execution.dispatch.inbox import Inbox

_LONG_S = 60.0


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    with contextlib.closing(Inbox()) as made:
        yield made


@pytest.fixture
def nothing() -> Iterator[socket.socket]:
    """A socket to which nobody says anything."""
    here, there = socket.socketpair()
    with here, there:
        yield here


def _next(inbox: Inbox) -> object:
    """The next event: a get may return without one."""
    deadline = time.monotonic() + _LONG_S
    while (event := inbox.get(deadline - time.monotonic())) is None:
        assert time.monotonic() < deadline
    return event


@pytest.mark.parametrize("watching", [False, True])
def test_no_event_is_lost_however_threads_put_them(
    inbox: Inbox, nothing: socket.socket, watching: bool
) -> None:
    """Each waits for its answer, so that the one that gets falls asleep all the time."""
    if watching:
        inbox.watch(nothing.fileno(), nothing.recv)  # type: ignore[arg-type]
    count, answers = 500, [threading.Semaphore(0) for _ in range(4)]

    def put(who: int) -> None:
        for number in range(count):
            inbox.put((who, number))
            if number % 3:
                answers[who].acquire(timeout=_LONG_S)

    threads = [threading.Thread(target=put, args=(who,)) for who in range(len(answers))]
    for thread in threads:
        thread.start()
    latest = [itertools.count() for _ in answers]
    for _ in range(count * len(answers)):
        who, number = _next(inbox)  # type: ignore[misc]
        assert number == next(latest[who])
        if number % 3:
            answers[who].release()
    for thread in threads:
        thread.join(_LONG_S)
    assert inbox.get(0) is None


@pytest.mark.parametrize("watching", [False, True])
@pytest.mark.parametrize("wait_s", [-1.0, 0.0, 1e-9, 1e-6])
def test_waiting_ends(inbox: Inbox, nothing: socket.socket, wait_s: float, watching: bool) -> None:
    if watching:
        inbox.watch(nothing.fileno(), nothing.recv)  # type: ignore[arg-type]
        assert inbox.get(_LONG_S) is None
    for number in range(2000):
        inbox.put(number)
        assert inbox.get(wait_s) == number
        assert inbox.get(wait_s) is None


@pytest.mark.parametrize("watching", [False, True])
def test_as_long_as_anybody_can_wait(inbox: Inbox, nothing: socket.socket, watching: bool) -> None:
    if watching:
        inbox.watch(nothing.fileno(), nothing.recv)  # type: ignore[arg-type]
        assert inbox.get(_LONG_S) is None
    threading.Timer(0.01, inbox.put, ["here"]).start()
    assert inbox.get(float("inf")) == "here"


def test_sockets_are_read_by_the_thread_that_gets(inbox: Inbox) -> None:
    """Those that are watched while it waits, too; and none that is unwatched."""
    here, there = socket.socketpair()
    other, its = socket.socketpair()
    with here, there, other, its:
        readers: list[int] = []

        def arrived() -> None:
            readers.append(threading.get_ident())
            inbox.put(here.recv(9))

        def never() -> None:
            raise AssertionError("it is not watched any more")

        def watch() -> None:
            inbox.watch(here.fileno(), arrived)
            there.send(b"one")

        threading.Timer(0.01, watch).start()
        assert _next(inbox) == b"one"
        assert readers == [threading.get_ident()]
        inbox.watch(other.fileno(), never)
        its.send(b"two")
        inbox.unwatch(other.fileno())
        assert inbox.get(0) is None
        # Once more does no harm.
        inbox.unwatch(other.fileno())
        there.send(b"three")
        assert _next(inbox) == b"three"


def test_what_one_socket_says_may_end_another(inbox: Inbox) -> None:
    """Both have something to read; the first that is read has the other one closed."""
    pairs = [socket.socketpair() for _ in range(2)]
    ended: list[int] = []

    def arrived(own: int) -> None:
        [(here, _), (other, _)] = pairs[own], pairs[1 - own]
        assert here.recv(9) == b"both"
        inbox.unwatch(other.fileno())
        other.close()
        ended.append(1 - own)

    for own, (here, there) in enumerate(pairs):
        inbox.watch(here.fileno(), lambda own=own: arrived(own))  # type: ignore[misc]
        there.send(b"both")
    for _ in range(3):
        assert inbox.get(0) is None
    assert len(ended) == 1
    inbox.unwatch(pairs[1 - ended[0]][0].fileno())
    for pair in pairs:
        for end in pair:
            end.close()


def test_nothing_is_left_open_and_late_events_do_no_harm() -> None:
    opened = set(os.listdir("/proc/self/fd"))
    inbox = Inbox()
    here, there = socket.socketpair()
    with here, there:
        inbox.watch(here.fileno(), lambda: None)
        assert inbox.get() is None
        getting = threading.Thread(target=inbox.get)
        getting.start()
        inbox.put("last")
        getting.join(_LONG_S)
        inbox.unwatch(here.fileno())
    inbox.close()
    inbox.close()
    assert set(os.listdir("/proc/self/fd")) <= opened
    inbox._asleep = True
    reading, writing = os.pipe()
    inbox.put("nobody hears it")
    os.set_blocking(reading, False)
    with pytest.raises(BlockingIOError):
        os.read(reading, 1)
    os.close(reading)
    os.close(writing)
