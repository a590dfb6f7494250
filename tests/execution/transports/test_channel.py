"""Channels: packets in order, values to the bit, memory used again, and what a broken end costs."""

from __future__ import annotations

import errno
import math
import os
import pickle
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hetsim.errors import DeviceLost, ExecutionError, OutOfRoom
from hetsim.execution.dispatch.dispatcher import Call
from hetsim.execution.dispatch.transport import CallEnded, Fault
from hetsim.execution.program import Step, Timing
from hetsim.execution.transports import channel as channels
from hetsim.execution.transports.channel import (
    LARGE_BYTES,
    CallerEnd,
    Channel,
    ChannelEnded,
    SharedSegment,
    ValueInTransit,
    _own_class,
    accept,
    connect,
    packed,
    serve,
    unpacked,
)
from hetsim.execution.worker import DeviceWorker
from onnx_builders import bits

Ends = tuple[Channel, Channel]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """Both ends of a channel."""
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    here, there = (Channel(end, SharedSegment()) for end in pair)
    yield here, there
    here.release()
    there.release()


def test_packets_come_in_order_and_nobody_waits_to_send_them(ends: Ends) -> None:
    """Of all sizes, with their files, while nobody receives."""
    here, there = ends
    memory = SharedSegment()
    for number in range(100):
        files = [memory.written([bytes([number])])] * (number % 3)
        here.send((number, b"x" * (number * 1999)), files)
    for number in range(100):
        packet = there.receive()
        assert packet.content == (number, b"x" * (number * 1999))
        assert [file.mapped([1])[0][0] for file in packet.files] == [number] * (number % 3)


def test_an_end_that_is_gone_is_told_to_who_receives(ends: Ends) -> None:
    here, there = ends
    there.send(("last",))
    there.close()
    assert here.receive().content == ("last",)
    with pytest.raises(ChannelEnded):
        here.receive()
    here.send(("to nobody",))


def test_memory_is_written_anew_once_nobody_holds_it() -> None:
    """A descriptor or a mapping keeps it; another process counts as this one."""
    memory = SharedSegment()
    first = memory.written([b"a" * LARGE_BYTES, b"b"])
    node = os.fstat(first.descriptor).st_ino
    [large, small] = first.mapped([LARGE_BYTES, 1])
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.write(first.descriptor, b"x")
    waits = "import sys; print(1, flush=True); sys.stdin.read()"
    held = first.descriptor
    with subprocess.Popen(
        [sys.executable, "-c", waits],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=[held],
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        del first
        assert os.fstat(memory.written([large]).descriptor).st_ino != node
        del large, small
        assert os.fstat(memory.written([b"b" * LARGE_BYTES]).descriptor).st_ino != node
        other.communicate()
    files = [memory.written([b"c" * LARGE_BYTES * 2]) for _ in range(3)]
    assert node in {os.fstat(file.descriptor).st_ino for file in files}
    assert len({os.fstat(file.descriptor).st_ino for file in files}) == len(files)


@pytest.mark.parametrize(
    ("number", "kind", "says"),
    [
        (errno.EMFILE, OutOfRoom, "files"),
        (errno.ENOMEM, OutOfRoom, "memory"),
        (
            errno.EPERM,
            ExecutionError,
            "no shared memory is available for values: Operation not permitted",
        ),
    ],
)
def test_a_system_without_memory_or_files_is_told(
    monkeypatch: pytest.MonkeyPatch, number: int, kind: type[ExecutionError], says: str
) -> None:
    def refused(*given: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "memfd_create", refused)
    with pytest.raises(kind, match=says) as caught:
        SharedSegment().written([b"x"])
    assert type(caught.value) is kind


VALUES = {
    "none": None,
    "scalar": np.array(2.5),
    "no elements": np.zeros((3, 0, 2), np.int16),
    "strings": np.array([["a", "ü\ud800"], ["", "\0"]], object),
    "map": {"a": 0.1, "ü\ud800": -math.inf},
    "maps": [{7: "x", -(2**63): ""}, {}, {1: 0.1}],
    "sequence": [np.arange(3), [None, np.ones((2, LARGE_BYTES), np.float16)], []],
    "large": np.arange(LARGE_BYTES, dtype=np.float64).reshape(2, -1, 4),
    "two large": [np.ones(LARGE_BYTES + 1, np.uint8), np.ones(LARGE_BYTES, np.float16)],
    "every other": np.arange(2 * LARGE_BYTES)[::2],
    **{
        str(np.dtype(kind)): np.array([[0, 1], [1, 0]]).astype(kind)
        for kind in ("?", "i1", "u8", "f2", "c8", "c16", ml_dtypes.bfloat16, ml_dtypes.int4,
                     ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu)
    },
    "large of 16 bits": np.ones(LARGE_BYTES, ml_dtypes.bfloat16),
}  # fmt: skip


def test_values_arrive_as_they_were(ends: Ends) -> None:
    here, there = ends
    memory = SharedSegment()
    values, files = packed([ValueInTransit.of(value, memory) for value in VALUES.values()], memory)
    here.send((values,), files)
    packet = there.receive()
    found = [held.value() for held in unpacked(packet.content[0], packet.files)]
    assert bits(found) == bits(list(VALUES.values()))
    assert not found[list(VALUES).index("large")].flags.writeable


def test_a_process_that_may_open_no_more_files_says_so(ends: Ends) -> None:
    here, there = ends
    memory = SharedSegment()
    values, files = packed([ValueInTransit.of(np.ones(LARGE_BYTES), memory)], memory)
    here.send((values,), files)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        packet = there.receive()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    with pytest.raises(OutOfRoom, match="too many files are open"):
        unpacked(packet.content[0], packet.files)


def test_errors_arrive_as_of_a_class_that_every_process_has() -> None:
    class Own(DeviceLost):
        """Of another package."""

    error = Own("it burns", where="here", hint="run", device="gpu", kind="died")
    found = pickle.loads(pickle.dumps(_own_class(error)))
    assert type(found) is DeviceLost
    assert (str(found), found.device, found.kind) == (str(error), "gpu", "died")


STEP = Step("gpu", (0,), ("a",), ("b",), (), ((),))
FAULT = Fault("died", DeviceLost("it is gone", device="gpu"))
CALL = Call(0, 0, "gpu", 0)


class Posted:
    """What a caller's end posts."""

    def __init__(self) -> None:
        self.events: list[object] = []
        self._arrived = threading.Semaphore(0)

    def post(self, event: object) -> None:
        self.events.append(event)
        self._arrived.release()

    def wait(self) -> object:
        """Wait for one more event, and return it."""
        assert self._arrived.acquire(timeout=30)
        return self.events[-1]


def caller(end: Channel) -> tuple[CallerEnd, Posted]:
    posted = Posted()
    made = CallerEnd(end, posted.post, lambda: FAULT)
    made.start()
    return made, posted


@pytest.mark.parametrize(
    "answer",
    [
        (2, 99, (0.0, ()), ()),
        (2, 0, (0.0, ()), ()),
        (2, 0, (0.0, ()), ((b"", ()), (b"", ()))),
        (2, 0),
        (1234, 0, b""),
        (),
    ],
)
def test_a_device_that_does_not_tell_its_end_right_is_taken_for_dead(
    ends: Ends, answer: tuple[Any, ...]
) -> None:
    here, there = ends
    end, posted = caller(here)
    assert end.listening
    end.call(CALL, 5, STEP, [ValueInTransit.of(np.ones(3), SharedSegment())])
    there.receive()
    there.send(answer)
    assert posted.wait() == CallEnded(CALL, 5, fault=FAULT)
    end.join(30)
    assert not end.listening
    end.call(CALL, 5, STEP, [])
    assert posted.events == [CallEnded(CALL, 5, fault=FAULT)] * 2


class Worker(DeviceWorker):
    """Adds what it receives, or fails."""

    def run(self, version: int, request: int, index: int, *received: Any) -> tuple[Any, ...]:
        if index:
            raise ValueError("no such step")
        return Timing(1.0, ((1.0, 2.0),)), sum(received)


@pytest.mark.parametrize("streams", [1, 3])
def test_calls_go_to_a_worker_and_come_back(ends: Ends, streams: int) -> None:
    here, there = ends
    memory = SharedSegment()
    serve(there, Worker("gpu"), streams)
    end, posted = caller(here)
    x = np.arange(LARGE_BYTES)
    for _ in range(5):
        end.call(CALL, 0, STEP, [ValueInTransit.of(x, memory), ValueInTransit.of(x, memory)])
        ended = posted.wait()
        assert isinstance(ended, CallEnded)
        assert ended.timing == Timing(1.0, ((1.0, 2.0),))
        assert (ended.sent["b"].value() == 2 * x).all()
        end.forget(0, 0)
    end.call(Call(0, 1, "gpu", 0), 0, STEP, [])
    failed = posted.wait()
    assert isinstance(failed, CallEnded)
    assert failed.fault is not None
    assert str(failed.fault.error) == "device 'gpu': ValueError: no such step"
    # What it cannot do ends its channel.
    here.send((1234,))
    assert end.listening
    end.join(30)
    assert not end.listening


OTHER_PROCESS = """
import sys
from hetsim.execution.transports.channel import SharedSegment, connect
channel = connect(sys.argv[1], SharedSegment())
channel.send(("I am",))
assert channel.receive().content == ("welcome",)
"""


def test_another_process_comes_and_the_place_goes() -> None:
    names: list[str] = []
    others: list[subprocess.Popen[bytes]] = []

    def ask(name: str) -> bool:
        names.append(name)
        others.append(subprocess.Popen([sys.executable, "-c", OTHER_PROCESS, name]))
        return True

    end = accept(SharedSegment(), ask)
    assert end is not None
    assert end.receive().content == ("I am",)
    end.send(("welcome",))
    assert others[0].wait(60) == 0
    end.release()
    assert connect(names[0], SharedSegment()) is None


def test_another_user_is_turned_away_on_either_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "_MEET_MS", 200)
    friends: list[Channel | None] = []

    def ask(name: str) -> bool:
        with monkeypatch.context() as patch:
            patch.setattr(os, "geteuid", lambda: 12345)
            assert connect(name, SharedSegment()) is None
        friends.append(connect(name, SharedSegment()))
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        return True

    assert accept(SharedSegment(), ask) is None
    monkeypatch.undo()
    (friend,) = friends
    assert friend is not None
    friend.release()
