"""The caller's end of the channels of a run: calls that are under way, and values that are held."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hetsim.base.threads import begun
from hetsim.errors import OutOfRoom
from hetsim.execution.devices.plan_steps import Step, Timing
from hetsim.execution.dispatch.dispatcher import Call
from hetsim.execution.dispatch.inbox import Inbox
from hetsim.execution.dispatch.transport import Ended, Fault, Post, kernel_fault
from hetsim.execution.transports.channels.faults import error_of
from hetsim.execution.transports.channels.frames import Bytes, Channel, ChannelEnded, Frame
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
    pack_call,
    pack_forget,
    unpack_ended,
    unpack_failed,
)
from hetsim.execution.transports.channels.values import Packed, Unpacking, extent


class Block:
    """A piece of shared memory that holds a value; with this object it is its owner's again."""

    __slots__ = ("_returned", "offset", "segment")

    def __init__(self, segment: Segment, offset: int, returned: deque[Place]) -> None:
        self.segment = segment
        self.offset = offset
        self._returned = returned

    def __del__(self) -> None:
        self._returned.append((self.segment.number, self.offset))


@dataclass(slots=True, eq=False)
class Held:
    """The handle of a value: how it is told, and what it needs.

    It outlives the process that made it: its memory is held here, too. `elsewhere`: another handle
    of the same value, for those who are not on this machine.
    """

    told: bytes
    pieces: Sequence[Bytes]
    blocks: tuple[Block, ...]
    elsewhere: Any = None

    def value(self) -> Any:
        """Return a copy of the value."""
        segments = {block.segment.number: block.segment for block in self.blocks}
        payload = memoryview(b"".join(self.pieces))
        [found] = Unpacking(self.told, 0, payload, segments).all()
        return found


class Values:
    """What the caller itself hands to devices, and whose numbers its devices' memory has."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._arena = Arena(self.number())

    def number(self) -> int:
        """Return the number of another arena."""
        return next(self._numbers)

    def hand(self, value: Any) -> Held:
        """Return the handle of a copy of `value`. Raises ExecutionError where there is no room."""
        packed = Packed(self._arena)
        packed.add(value)
        returned = self._arena.returned
        blocks = tuple(Block(*place, returned) for place in packed.places)
        return Held(packed.told[0], packed.pieces, blocks)


@dataclass(slots=True)
class _Lent:
    """A block that a device may be reading, and in how many calls it got it."""

    block: Block
    times: int = 0


_Given = tuple[Call, int, Step]
"""A call under way, with its incarnation and its step."""


class CallerEnd:
    """The channel to one device. Safe to use from several threads.

    Parameters
    ----------
    channel : Channel
    post : callable
        Takes ``Ended`` events, from whichever thread.
    lost : callable
        Says why the other end is gone, on a thread of this object; it may wait for that.
    handlers : mapping of int to callable, optional
        What else may come, by its kind; none waits.
    inbox : Inbox, optional
        Whose thread reads what comes. Absent: a thread of this object does.
    """

    def __init__(
        self,
        channel: Channel,
        post: Post,
        lost: Callable[[], Fault],
        handlers: Mapping[int, Callable[[Frame], object]] | None = None,
        inbox: Inbox | None = None,
    ) -> None:
        self._channel = channel
        self._inbox = inbox
        self._post = post
        self._lost = lost
        self._handlers = dict(handlers or {})
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._given: dict[int, _Given] = {}
        self._fault: Fault | None = None
        self._returned: deque[Place] = deque()
        self._own: dict[int, Segment] = {}
        self._known: dict[int, weakref.ref[Segment]] = {}
        self._gone: deque[int] = deque()
        self._lent: dict[Place, _Lent] = {}
        self._ending = False
        work = self._listen if inbox is None else self._lose
        self._thread = threading.Thread(target=work, name="hetsim channel", daemon=True)

    def start(self) -> None:
        """Take answers from now on; raises OutOfRoom, and ends the channel, without a thread."""
        if self._inbox is not None:
            self._inbox.watch(self._channel.fileno(), self._arrived)
            return
        try:
            begun(self._thread)
        except OutOfRoom:
            self._channel.release()
            raise

    def call(self, call: Call, incarnation: int, step: Step, received: Sequence[Held]) -> None:
        """Have the device run a step; ``Ended`` is posted."""
        with self._lock:
            fault = self._fault
            if fault is None:
                number = next(self._numbers)
                self._given[number] = (call, incarnation, step)
                told: list[bytes] = []
                pieces: list[Bytes] = []
                for held in received:
                    told.append(held.told)
                    pieces += held.pieces
                    if held.blocks:
                        self._lend(held.blocks)
                returned = _taken(self._returned) if self._returned else ()
                gone = self._dropped() if self._gone else ()
                header = pack_call(
                    number, call.version, call.request, call.step, returned, gone, told
                )
                self._channel.send(CALL, header, pieces)
        if fault is not None:
            self._post(Ended(call, incarnation, fault=fault))

    def send(self, kind: int, header: bytes, payload: bytes = b"") -> None:
        """Send what the device's end has a handler for."""
        self._channel.send(kind, header, [payload])

    def forget(self, version: int, request: int) -> None:
        """Have the device drop what it holds for a request."""
        self.send(FORGET, pack_forget(version, request))

    def freeze(self) -> None:
        """Have the device answer no call any more."""
        self.send(FREEZE, b"")

    def close(self) -> None:
        """End the channel, on the thread that reads or after its end; calls under way come back
        with a fault."""
        self._channel.close()
        if self._inbox is not None:
            self._end(self._inbox)

    @property
    def listening(self) -> bool:
        """Whether the other end may still be there."""
        return self._thread.is_alive() or (self._inbox is not None and not self._ending)

    def join(self, timeout_s: float) -> None:
        """Wait for the thread, after ``close``, if it was ever there."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _lend(self, blocks: Sequence[Block]) -> None:
        """Note that the device reads these blocks, and have it map the segments that are new."""
        new: dict[int, Segment] = {}
        for block in blocks:
            segment = block.segment
            self._lent.setdefault((segment.number, block.offset), _Lent(block)).times += 1
            if segment.number not in self._known:
                self._know(segment)
                new[segment.number] = segment
        if new:
            send_segments(self._channel, tuple(new.values()))

    def _know(self, segment: Segment) -> None:
        number, gone = segment.number, self._gone
        self._known[number] = weakref.ref(segment, lambda _: gone.append(number))

    def _dropped(self) -> list[int]:
        """Segments that the device has mapped and nobody else needs: their owner is gone."""
        found: list[int] = []
        while self._gone:
            found.append(self._gone.popleft())
            del self._known[found[-1]]
        return found

    def _arrived(self) -> None:
        try:
            for frame in self._channel.arrived():
                self._take(frame)
        except Exception:
            # The other end is gone; what does not tell its end right is taken for that.
            self.close()

    def _listen(self) -> None:
        try:
            while True:
                self._take(self._channel.receive())
        except ChannelEnded:
            pass
        except Exception:
            # As where an inbox's thread reads.
            self._channel.close()
        self._lose()

    def _take(self, frame: Frame) -> None:
        if frame.kind == ENDED:
            self._ended(frame)
        elif frame.kind == FAILED:
            self._failed(frame)
        elif frame.kind == SEGMENTS:
            self._own.update(segments_of(frame))
        else:
            self._handlers[frame.kind](frame)

    def _end(self, inbox: Inbox) -> None:
        """Have nothing read any more; why the other end is gone is asked on a thread, if there is
        one to be had."""
        with self._lock:
            if self._ending:
                return
            self._ending = True
        inbox.unwatch(self._channel.fileno())
        try:
            begun(self._thread)
        except OutOfRoom:
            self._lose()

    def _lose(self) -> None:
        fault = self._lost()
        with self._lock:
            self._fault = fault
            given, self._given = self._given, {}
            self._own.clear()
            self._lent.clear()
        for call, incarnation, _ in given.values():
            self._post(Ended(call, incarnation, fault=fault))
        self._channel.release()

    def _ended(self, frame: Frame) -> None:
        told, payload = frame.header, frame.payload
        number, arrived_s, parts, unread, at = unpack_ended(told)
        sent: dict[str, Held] = {}
        begin = 0
        for name in self._given[number][2].sends:
            after, nbytes, places = extent(told, at)
            end = begin + nbytes
            blocks = tuple(map(self._block, places)) if places else ()
            sent[name] = Held(told[at:after], (payload[begin:end],), blocks)
            at, begin = after, end
        if at != len(told):
            raise ValueError("an answer with more values than were asked for")
        call, incarnation, _ = self._take_back(number, unread)
        self._post(Ended(call, incarnation, sent, timing=Timing(arrived_s, parts)))

    def _block(self, place: Place) -> Block:
        segment, offset = place
        return Block(self._own[segment], offset, self._returned)

    def _failed(self, frame: Frame) -> None:
        fault = kernel_fault(error_of(frame.payload))
        call, incarnation, _ = self._take_back(*unpack_failed(frame.header))
        self._post(Ended(call, incarnation, fault=fault))

    def _take_back(self, number: int, unread: Sequence[int]) -> _Given:
        done = []
        with self._lock:
            for place in zip(unread[::2], unread[1::2], strict=True) if unread else ():
                lent = self._lent[place]
                lent.times -= 1
                if not lent.times:
                    done.append(self._lent.pop(place))
            return self._given.pop(number)


def _taken(places: deque[Place]) -> list[int]:
    found: list[int] = []
    while places:
        found += places.popleft()
    return found
