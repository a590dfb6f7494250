"""Frames, shared memory and values between processes: order, room, bits, and what is refused."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import math
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.errors import DeviceLost, ExecutionError, OutOfRoom
from hetsim.execution.devices.plan_steps import Step, Timing
from hetsim.execution.devices.worker import DeviceWorker
from hetsim.execution.dispatch.dispatcher import Call
from hetsim.execution.dispatch.inbox import Inbox
from hetsim.execution.dispatch.transport import Ended, Fault
from hetsim.execution.transports.channels.caller_end import CallerEnd, Values
from hetsim.execution.transports.channels.device_end import DeviceEnd
from hetsim.execution.transports.channels.faults import error_of, tell_error
from hetsim.execution.transports.channels.frames import Channel, ChannelEnded, Frame
from hetsim.execution.transports.channels.memory import PAGE_BYTES, Arena, Segment
from hetsim.execution.transports.channels.messages import ENDED, pack_ended
from hetsim.execution.transports.channels.values import (
    INLINE_BELOW_BYTES,
    Packed,
    Unpacking,
    extent,
)
from onnx_builders import bits
from sweeps import examples

Ends = tuple[Channel, Channel]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """Both ends of a channel."""
    here, there = (Channel(end) for end in socket.socketpair())
    yield here, there
    here.release()
    there.release()


def test_frames_come_in_order_and_nobody_waits_to_send_them(ends: Ends) -> None:
    here, there = ends
    sent = [bytes([number % 256]) * (number * 1999) for number in range(100)]
    for number, content in enumerate(sent):
        # Nobody receives yet: the system takes a part of this, and the rest waits here.
        here.send(number, b"h" * number, [content[:7], content[7:]])
    for number, content in enumerate(sent):
        frame = there.receive()
        assert (frame.kind, frame.header) == (number, b"h" * number)
        assert frame.payload == content
    assert not there.pending()


def test_frames_come_in_parts_to_who_does_not_wait(ends: Ends) -> None:
    """Small ones at once, those that are larger than what is read at a time when all is here."""
    here, there = ends
    assert there.arrived() == []
    reading, writing = os.pipe()
    sent = [b"%d" % number * size for number, size in enumerate((1, 5_000_000, 70_000, 3, 0, 9))]
    for number, content in enumerate(sent):
        here.send(number, b"h" * number, [content], [writing] if number == 3 else [])
    os.close(writing)
    found: list[Frame] = []
    while len(found) < len(sent):
        if there.pending():
            found += there.arrived()
    assert [(frame.kind, frame.header) for frame in found] == [
        (number, b"h" * number) for number in range(len(sent))
    ]
    assert [bytes(frame.payload) for frame in found] == sent
    for number, frame in enumerate(found):
        assert len(frame.descriptors) == (number == 3)
        for descriptor in frame.descriptors:
            os.close(descriptor)
    assert os.read(reading, 1) == b""
    os.close(reading)
    assert not there.pending()
    here.close()
    assert there.pending()
    with pytest.raises(ChannelEnded):
        there.arrived()


def test_who_waits_is_not_woken_by_what_the_other_end_takes(ends: Ends) -> None:
    """A device waits for its next call while the caller reads what it answered to the last."""
    here, there = ends
    waiting: list[int] = []

    def work() -> None:
        waiting.append(threading.get_native_id())
        for number in range(20):
            here.send(number, b"", [b"x" * 4096])
        here.receive()

    thread = threading.Thread(target=work)
    thread.start()
    while not (waiting and _asleep(waiting[0])):
        time.sleep(0.01)
    before = _switches(waiting[0])
    assert len([frame for _ in range(20) for frame in there.arrived()]) == 20
    time.sleep(0.05)
    assert _switches(waiting[0]) == before
    there.send(1, b"")
    thread.join()


def _told(thread: int, what: str) -> str:
    with open(f"/proc/self/task/{thread}/status") as status:
        return next(line.split()[1] for line in status if line.startswith(what))


def _asleep(thread: int) -> bool:
    """Whether a thread waits without having run for a while."""
    before = _switches(thread)
    time.sleep(0.05)
    return _told(thread, "State:") == "S" and _switches(thread) == before


def _switches(thread: int) -> int:
    return int(_told(thread, "voluntary_ctxt_switches:"))


def test_descriptors_come_with_their_frame(ends: Ends) -> None:
    here, there = ends
    here.send(1, b"", [b"x" * 5_000_000])
    for number in range(20):
        reading, writing = os.pipe()
        os.write(writing, bytes([number]))
        os.close(writing)
        here.send(2, b"", (), [reading])
        os.close(reading)
    assert there.receive().descriptors == []
    for number in range(20):
        [descriptor] = there.receive().descriptors
        assert os.read(descriptor, 9) == bytes([number])
        os.close(descriptor)


def test_an_end_that_is_gone_is_told_to_who_receives(ends: Ends) -> None:
    here, there = ends
    there.send(3, b"last")
    there.close()
    assert here.receive().header == b"last"
    assert here.pending()
    with pytest.raises(ChannelEnded):
        here.receive()
    here.send(0, b"to nobody")


@examples(quick=60, full=600)
@given(st.lists(st.integers(-20, 3_000_000), max_size=60))
def test_pieces_of_an_arena_never_overlap_and_all_come_together_again(asked: list[int]) -> None:
    """A number above 0 asks for so many bytes; others give a piece back."""
    arena = Arena(3)
    taken: list[tuple[int, int, int]] = []
    for nbytes in asked:
        if nbytes > 0:
            segment, offset = arena.take(nbytes)
            assert offset % PAGE_BYTES == 0
            assert offset + nbytes <= segment.nbytes
            for number, other, size in taken:
                assert (
                    number != segment.number or other + size <= offset or offset + nbytes <= other
                )
            taken.append((segment.number, offset, nbytes))
        elif taken:
            number, offset, _ = taken.pop(-nbytes % len(taken))
            arena.returned.append((number, offset))
    arena.returned.extend((number, offset) for number, offset, _ in taken)
    if asked:
        arena.take(1)
        assert sum(len(space.sizes) for space in arena._spaces.values()) == len(arena._spaces)


def test_memory_that_its_owner_could_cut_short_is_refused() -> None:
    descriptor = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, PAGE_BYTES)
    with pytest.raises(ExecutionError, match="cut short"):
        Segment(1, descriptor, writable=False)
    segment, _ = Arena(0).take(1)
    with pytest.raises(PermissionError):
        os.ftruncate(segment.descriptor, 0)
    assert fcntl.fcntl(segment.descriptor, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SEAL


@pytest.mark.parametrize(
    ("number", "kind", "says"),
    [
        (errno.EMFILE, OutOfRoom, "files"),
        (errno.ENOMEM, OutOfRoom, "memory"),
        (errno.EPERM, ExecutionError, "no shared memory for values: Operation not permitted"),
    ],
)
def test_a_system_without_memory_or_files_is_told(
    monkeypatch: pytest.MonkeyPatch, number: int, kind: type[ExecutionError], says: str
) -> None:
    def refused(*given: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "memfd_create", refused)
    with pytest.raises(kind, match=says) as caught:
        Arena(0).take(1)
    assert type(caught.value) is kind


LARGE = INLINE_BELOW_BYTES
VALUES = {
    "none": None,
    "scalar": np.array(2.5),
    "no elements": np.zeros((3, 0, 2), np.int16),
    "strings": np.array([["a", "ü\ud800"], ["", "\0"]], object),
    "no strings": np.zeros((0, 2), object),
    "map": {"a": 0.1, "ü\ud800": -math.inf},
    "maps": [{7: "x", -(2**63): ""}, {}, {1: 0.1}],
    "sequence": [np.arange(3), [None, np.ones((2, LARGE), np.float16)], []],
    "large": np.arange(LARGE, dtype=np.float64).reshape(2, -1, 4),
    "Fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "every other": np.arange(2 * LARGE)[::2],
    **{
        str(np.dtype(kind)): np.array([[0, 1], [1, 0]]).astype(kind)
        for kind in ("?", "i1", "u8", "f2", "c8", "c16", ml_dtypes.bfloat16, ml_dtypes.int4,
                     ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu)
    },
}  # fmt: skip


@pytest.mark.parametrize("aside", [True, False])
def test_values_arrive_as_they_were(aside: bool) -> None:
    packed = Packed(Arena(0))
    for value in VALUES.values():
        packed.add(value)
    segments = {segment.number: segment for segment, _ in packed.places}
    told, payload = b"".join(packed.told), memoryview(b"".join(packed.pieces))
    read = []
    found = Unpacking(
        told, 0, payload, segments, (lambda memory, place: read.append(place)) if aside else None
    ).all()
    assert bits(found) == bits(list(VALUES.values()))
    assert len(read) == (3 if aside else 0)
    at, size, lie = 0, 0, []
    for part in packed.told:
        after, nbytes, places = extent(told, at)
        assert told[at:after] == part
        at, size = after, size + nbytes
        lie += places
    assert (at, size) == (len(told), len(payload))
    assert lie == [(segment.number, offset) for segment, offset in packed.places]


@examples(quick=200, full=2000)
@given(st.binary(max_size=60))
def test_what_is_no_value_is_refused(told: bytes) -> None:
    segment, _ = Arena(0).take(1)
    says = []
    try:
        Unpacking(told, 0, memoryview(b"12345678"), {0: segment}).all()
    except ExecutionError as error:
        says.append(error.what)
    assert all("not told right" in what for what in says)


def test_objects_are_not_handed_over() -> None:
    with pytest.raises(ExecutionError, match="an array of object cannot be handed"):
        Packed(Arena(0)).add(np.array([b"a", object()], object))
    with pytest.raises(ExecutionError, match="a map of other than numbers and strings"):
        Packed(Arena(0)).add([{np.int64(1): np.float32(2)}, {"a": np.ones(3)}])


def test_errors_arrive_with_what_they_say() -> None:
    class Own(DeviceLost):
        """Of another package."""

    error = Own("it burns", where="here", hint="run", device="gpu", kind="died")
    found = error_of(tell_error(error))
    assert type(found) is DeviceLost
    assert str(found) == str(error)
    assert (found.device, found.kind) == ("gpu", "died")
    forged = b'["UsageError", {"what": "x", "where": null, "hint": null}]'
    assert type(error_of(forged)) is ExecutionError


STEP = Step("gpu", (0,), ("a",), ("b",), (), ((),))
FAULT = Fault("died", DeviceLost("it is gone", device="gpu"))


class Posted:
    """What a caller's end posts, whoever reads for it: a thread of its own, or this one."""

    def __init__(self, inbox: Inbox | None) -> None:
        self.inbox = inbox
        self.events: list[object] = []
        self._arrived = threading.Semaphore(0)

    def post(self, event: object) -> None:
        self.events.append(event)
        self._arrived.release()
        if self.inbox is not None:
            self.inbox.put(event)

    def wait(self) -> object:
        """Wait for one more event, and return it."""
        deadline = time.monotonic() + 30
        while self.inbox is not None and self.inbox.get(deadline - time.monotonic()) is None:
            assert time.monotonic() < deadline
        assert self._arrived.acquire(timeout=30)
        return self.events[-1]


@pytest.fixture(params=["a thread", "an inbox"])
def posted(request: pytest.FixtureRequest) -> Iterator[Posted]:
    """Both ways in which a caller's end is read."""
    with contextlib.ExitStack() as stack:
        alone = request.param == "a thread"
        yield Posted(None if alone else stack.enter_context(contextlib.closing(Inbox())))


@pytest.mark.parametrize(
    "answer",
    [
        (ENDED, pack_ended(99, 0.0, (), (), ())),
        (ENDED, pack_ended(0, 0.0, (), (), ())),
        (ENDED, pack_ended(0, 0.0, (), (1, 2), ())),
        (ENDED, pack_ended(0, 0.0, (), (), [struct.pack("=BBBQQ", 4, 9, 0, 1 << 40, 0)])),
        (ENDED, b"short"),
        (1234, b""),
    ],
)
def test_a_device_that_does_not_tell_its_end_right_is_taken_for_dead(
    ends: Ends, posted: Posted, answer: tuple[int, bytes]
) -> None:
    here, there = ends
    end = CallerEnd(here, posted.post, lambda: FAULT, inbox=posted.inbox)
    end.start()
    assert end.listening
    call = Call(0, 0, "gpu", 0)
    end.call(call, 5, STEP, [Values().hand(np.ones(3))])
    there.receive()
    there.send(*answer)
    assert posted.wait() == Ended(call, 5, fault=FAULT)
    end.join(30)
    assert not end.listening
    end.call(call, 5, STEP, [])
    assert posted.events == [Ended(call, 5, fault=FAULT)] * 2


def test_an_end_that_is_closed_gives_its_calls_back_and_its_socket(
    ends: Ends, posted: Posted
) -> None:
    """Nobody has to read for that; more than once does no harm."""
    here, there = ends
    end = CallerEnd(here, posted.post, lambda: FAULT, inbox=posted.inbox)
    end.start()
    call = Call(0, 0, "gpu", 0)
    end.call(call, 5, STEP, [])
    for _ in range(2):
        end.close()
    end.join(30)
    assert not end.listening
    assert here.fileno() == -1
    assert posted.events == [Ended(call, 5, fault=FAULT)]
    there.receive()
    with pytest.raises(ChannelEnded):
        there.receive()


def test_memory_is_the_owners_again_when_nobody_holds_or_reads_it(
    ends: Ends, posted: Posted
) -> None:
    here, there = ends
    end = CallerEnd(here, posted.post, lambda: FAULT, inbox=posted.inbox)
    end.start()
    values = Values()
    held = values.hand(np.ones(LARGE))
    [block] = held.blocks
    place = (block.segment.number, block.offset)
    returned = values._arena.returned
    del block
    call = Call(0, 0, "gpu", 0)
    for number, unread in enumerate([(), (*place, *place)]):
        end.call(call, 0, STEP, [held])
        if number:
            del held
            assert not returned
        while there.receive().kind != 0:
            pass
        answer = Packed(Arena(1))
        answer.add(None)
        there.send(ENDED, pack_ended(number, 1.0, ((1.0, 2.0),), unread, answer.told))
        ended = posted.wait()
        assert isinstance(ended, Ended)
        assert ended.timing == Timing(1.0, ((1.0, 2.0),))
    assert list(returned) == [place]
    end.close()
    end.join(30)


@pytest.mark.parametrize("streams", [1, 3])
def test_a_device_that_is_told_what_it_cannot_do_ends_its_channel(ends: Ends, streams: int) -> None:
    here, there = ends
    device = DeviceEnd("gpu", there, DeviceWorker("gpu"), 1, streams)
    serving = threading.Thread(target=device.serve)
    serving.start()
    here.send(1234, b"")
    with pytest.raises(ChannelEnded):
        here.receive()
    serving.join(30)
    assert not serving.is_alive()
