"""The device's end of a channel: a worker whose calls come and go over it."""

from __future__ import annotations

import collections
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hetsim.base.threads import begun
from hetsim.errors import ExecutionError
from hetsim.execution.devices.worker import DeviceWorker, error_of_device
from hetsim.execution.transports.channels.faults import tell_error
from hetsim.execution.transports.channels.frames import Channel, ChannelEnded, Frame
from hetsim.execution.transports.channels.memory import (
    Arena,
    Place,
    Segment,
    segments_of,
    send_segments,
)
from hetsim.execution.transports.channels.messages import (
    CALL,
    ENDED,
    FAILED,
    FORGET,
    FREEZE,
    SEGMENTS,
    pack_ended,
    pack_failed,
    unpack_call,
    unpack_forget,
)
from hetsim.execution.transports.channels.values import Packed, Unpacking

_Call = tuple[list[int], Unpacking]


class DeviceEnd:
    """Does what a channel says, on as many threads as the device has streams.

    The thread that receives a call runs it, and another one, where there is one that is free,
    receives on: no call waits until a thread has been told of it. What came while all were busy is
    looked at before an answer goes out.

    Parameters
    ----------
    device : str
    channel : Channel
    worker : DeviceWorker
    arena : int
        Number of the arena that takes what the device sends.
    streams : int
    handlers : mapping of int to callable, optional
        What else may come, by its kind; each is called while nothing is received.

    Attributes
    ----------
    error : Exception or None
        What ended the channel from this side.
    """

    def __init__(
        self,
        device: str,
        channel: Channel,
        worker: DeviceWorker,
        arena: int,
        streams: int,
        handlers: Mapping[int, Callable[[Frame], object]] | None = None,
    ) -> None:
        self._device = device
        self._channel = channel
        self._worker = worker
        self._arena = Arena(arena)
        self._streams = streams
        self._handlers: dict[int, Callable[[Frame], object]] = {
            FORGET: lambda frame: worker.forget(*unpack_forget(frame.header)),
            FREEZE: lambda frame: self._going.clear(),
            SEGMENTS: lambda frame: self._segments.update(segments_of(frame)),
            **(handlers or {}),
        }
        self._going = threading.Event()
        self._going.set()
        self._waiting: collections.deque[_Call] = collections.deque()
        self._turn = threading.Lock()
        self.error: Exception | None = None
        self._over = False
        self._segments: dict[int, Segment] = {}
        self._told: set[int] = set()
        self._telling = threading.Lock()
        self._reading: dict[int, tuple[weakref.ref[NDArray[np.uint8]], Place]] = {}
        self._unread: collections.deque[Place] = collections.deque()

    def serve(self) -> None:
        """Do so until the other end is gone."""
        others = [
            threading.Thread(target=self._work, name=f"hetsim call {index}", daemon=True)
            for index in range(1, self._streams)
        ]
        for thread in others:
            begun(thread)
        self._work()

    def _work(self) -> None:
        try:
            while True:
                with self._turn:
                    call = None if self._over else self._next_call()
                if call is None:
                    return
                self._run(*call)
                del call
        except Exception as error:
            # Nothing that came is to be left undone in silence: the caller takes it for dead.
            self.error = self.error or error
            self._over = True
            self._channel.close()

    def _next_call(self) -> _Call | None:
        if self._waiting:
            return self._waiting.popleft()
        while True:
            try:
                found = self._take(self._channel.receive())
            except ChannelEnded:
                self._over = True
                return None
            if found is not None:
                return found

    def _take(self, frame: Frame) -> _Call | None:
        """Return a call; do at once what else came."""
        if frame.kind != CALL:
            self._handlers[frame.kind](frame)
            return None
        *call, returned, gone, start = unpack_call(frame.header)
        if returned:
            self._arena.returned.extend(zip(returned[::2], returned[1::2], strict=True))
        for number in gone:
            self._segments.pop(number, None)
        return call, Unpacking(frame.header, start, frame.payload, self._segments, self._note)

    def _run(self, call: list[int], given: Unpacking) -> None:
        number, *which = call
        try:
            try:
                received = given.all()
                timing, *sent = self._worker.run(*which, *received)
            finally:
                # Else what it read would count as read until the next call.
                received = []
            packed = Packed(self._arena)
            for value in sent:
                packed.add(value)
        except Exception as error:
            self._fail(number, error_of_device(error, self._device))
        else:
            if packed.places:
                self._tell_segments(packed.places)
            unread = self._not_read() if self._unread else ()
            header = pack_ended(number, timing.arrived_s, timing.parts, unread, packed.told)
            self._answer(ENDED, header, packed.pieces)

    def _fail(self, number: int, error: ExecutionError) -> None:
        self._answer(FAILED, pack_failed(number, self._not_read()), [tell_error(error)])

    def _tell_segments(self, places: Sequence[tuple[Segment, int]]) -> None:
        with self._telling:
            new = {segment.number: segment for segment, _ in places}
            some = [segment for number, segment in new.items() if number not in self._told]
            self._told.update(new)
            send_segments(self._channel, some)

    def _answer(self, kind: int, header: bytes, pieces: Sequence[bytes]) -> None:
        """Send an answer, unless the device was told to give none any more meanwhile."""
        if self._turn.acquire(blocking=False):
            try:
                while self._channel.pending():
                    call = self._take(self._channel.receive())
                    if call is not None:
                        self._waiting.append(call)
            except ChannelEnded:
                self._over = True
            finally:
                self._turn.release()
        if not self._going.is_set():
            self._going.wait()
        self._channel.send(kind, header, pieces)

    def _note(self, memory: NDArray[np.uint8], place: Place) -> None:
        key = id(memory)
        unread = self._unread
        reading = self._reading

        def over(_: object) -> None:
            unread.append(reading.pop(key)[1])

        reading[key] = (weakref.ref(memory, over), place)

    def _not_read(self) -> list[int]:
        found: list[int] = []
        while self._unread:
            found += self._unread.popleft()
        return found
