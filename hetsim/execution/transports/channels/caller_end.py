"""The caller's end of the channels of a run: calls that are under way, and values that are held."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hetsim.execution.devices.plan_steps import Step, Timing
from hetsim.execution.dispatch.dispatcher import Call
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
from hetsim.execution.transports.channels.values import Packed, Unpacking, split


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


@dataclass(frozen=True, slots=True)
class _Given:
    """A call under way."""

    call: Call
    incarnation: int
    step: Step


class CallerEnd:
    """The channel to one device. Safe to use from several threads.

    Parameters
    ----------
    channel : Channel
    post : callable
        Takes ``Ended`` events, on a thread of this object.
    lost : callable
        Says why the other end is gone, on that thread; it may wait for that.
    handlers : mapping of int to callable, optional
        What else may come, by its kind.
    """

    def __init__(
        self,
        channel: Channel,
        post: Post,
        lost: Callable[[], Fault],
        handlers: Mapping[int, Callable[[Frame], object]] | None = None,
    ) -> None:
        self._channel = channel
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
        self._lent: dict[Place, _Lent] = {}
        self._thread = threading.Thread(target=self._listen, name="hetsim channel", daemon=True)

    def start(self) -> None:
        """Take answers from now on."""
        self._thread.start()

    def call(self, call: Call, incarnation: int, step: Step, received: Sequence[Held]) -> None:
        """Have the device run a step; ``Ended`` is posted."""
        with self._lock:
            fault = self._fault
            if fault is None:
                number = next(self._numbers)
                self._given[number] = _Given(call, incarnation, step)
                self._lend(received)
                header = pack_call(
                    number, call.version, call.request, call.step,
                    _taken(self._returned), self._gone(), [held.told for held in received],
                )  # fmt: skip
                self._channel.send(
                    CALL, header, [piece for held in received for piece in held.pieces]
                )
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
        """End the channel; calls under way come back with a fault."""
        self._channel.close()

    @property
    def listening(self) -> bool:
        """Whether the other end may still be there."""
        return self._thread.is_alive()

    def join(self, timeout_s: float) -> None:
        """Wait for the thread, after ``close``."""
        self._thread.join(timeout_s)

    def _lend(self, received: Sequence[Held]) -> None:
        """Note that the device reads these values, and have it map the segments that are new."""
        new: dict[int, Segment] = {}
        for held in received:
            for block in held.blocks:
                segment = block.segment
                self._lent.setdefault((segment.number, block.offset), _Lent(block)).times += 1
                if segment.number not in self._known:
                    self._known[segment.number] = weakref.ref(segment)
                    new[segment.number] = segment
        send_segments(self._channel, tuple(new.values()))

    def _gone(self) -> list[int]:
        """Segments that the device has mapped and nobody else needs: their owner is gone."""
        found = [number for number, known in self._known.items() if known() is None]
        for number in found:
            del self._known[number]
        return found

    def _listen(self) -> None:
        try:
            while True:
                frame = self._channel.receive()
                if frame.kind == ENDED:
                    self._ended(frame)
                elif frame.kind == FAILED:
                    self._failed(frame)
                elif frame.kind == SEGMENTS:
                    self._own.update(segments_of(frame))
                else:
                    self._handlers[frame.kind](frame)
        except ChannelEnded:
            pass
        except Exception:
            # What does not tell its end right is taken for dead.
            self._channel.close()
        fault = self._lost()
        with self._lock:
            self._fault = fault
            given, self._given = self._given, {}
            self._own.clear()
            self._lent.clear()
        for one in given.values():
            self._post(Ended(one.call, one.incarnation, fault=fault))
        self._channel.release()

    def _ended(self, frame: Frame) -> None:
        number, arrived_s, parts, unread, start = unpack_ended(frame.header)
        sent: dict[str, Held] = {}
        at = 0
        values = split(frame.header, start)
        for name, (told, nbytes, places) in zip(
            self._given[number].step.sends, values, strict=True
        ):
            blocks = tuple(
                Block(self._own[segment], offset, self._returned) for segment, offset in places
            )
            sent[name] = Held(told, (frame.payload[at : at + nbytes],), blocks)
            at += nbytes
        given = self._take_back(number, unread)
        self._post(Ended(given.call, given.incarnation, sent, timing=Timing(arrived_s, parts)))

    def _failed(self, frame: Frame) -> None:
        fault = kernel_fault(error_of(frame.payload))
        given = self._take_back(*unpack_failed(frame.header))
        self._post(Ended(given.call, given.incarnation, fault=fault))

    def _take_back(self, number: int, unread: Sequence[int]) -> _Given:
        done = []
        with self._lock:
            for place in zip(unread[::2], unread[1::2], strict=True):
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
