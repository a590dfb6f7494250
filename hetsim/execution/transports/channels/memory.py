"""Memory that processes share: files without a name, which go with the last who has them open."""

from __future__ import annotations

import bisect
import collections
import mmap
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hetsim.base.room import out_of_room
from hetsim.errors import ExecutionError
from hetsim.execution.transports.channels.frames import MOST_DESCRIPTORS, Channel, Frame
from hetsim.execution.transports.channels.messages import SEGMENTS, pack_numbers, unpack_numbers

PAGE_BYTES = 4096
_SMALLEST_BYTES = 16 * 2**20
MOST_SEGMENTS = 1 << 20
"""Of one arena: their numbers are those of no other."""


Place = tuple[int, int]
"""A segment's number, and an offset in it."""


class Segment:
    """One file of shared memory, mapped here.

    Parameters
    ----------
    number : int
        By which all processes of a run know it.
    descriptor : int
        Closed with this object.
    writable : bool

    Raises
    ------
    ExecutionError
        Where it cannot be mapped, or could be cut short.
    """

    def __init__(self, number: int, descriptor: int, *, writable: bool) -> None:
        self.number = number
        self.descriptor = descriptor
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        try:
            if not _sealed(descriptor):
                raise ExecutionError("shared memory that its owner could cut short")
            self.nbytes = os.fstat(descriptor).st_size
            self.map = mmap.mmap(descriptor, self.nbytes, mmap.MAP_SHARED, protection)
        except OSError as error:
            raise no_room(error) from error

    def __del__(self) -> None:
        os.close(self.descriptor)


@dataclass(slots=True)
class _Space:
    """A segment, and what of it is free: pieces by offset, none next to another."""

    segment: Segment
    offsets: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def take(self, nbytes: int) -> int | None:
        for index, size in enumerate(self.sizes):
            if size >= nbytes:
                offset = self.offsets[index]
                if size == nbytes:
                    del self.offsets[index], self.sizes[index]
                else:
                    self.offsets[index] += nbytes
                    self.sizes[index] -= nbytes
                return offset
        return None

    def give(self, offset: int, nbytes: int) -> None:
        index = bisect.bisect(self.offsets, offset)
        self.offsets.insert(index, offset)
        self.sizes.insert(index, nbytes)
        for left in (index, index - 1):
            if 0 <= left < len(self.sizes) - 1:
                end = self.offsets[left] + self.sizes[left]
                if end == self.offsets[left + 1]:
                    self.sizes[left] += self.sizes[left + 1]
                    del self.offsets[left + 1], self.sizes[left + 1]


class Arena:
    """Shared memory that one process writes, in pieces that it gives out and gets back.

    The first piece that is large enough is given out: what was used lately is in the processor's
    caches and has its pages. Segments are made as they are needed, each as large as all before it.
    Safe to use from several threads.

    Parameters
    ----------
    number : int
        Of the arena: no two of a run have the same.

    Attributes
    ----------
    returned : deque of (int, int)
        Pieces, by segment and offset, that nobody reads any more: to be added to from any thread.
    """

    def __init__(self, number: int) -> None:
        self.returned: collections.deque[tuple[int, int]] = collections.deque()
        self._first = number * MOST_SEGMENTS
        self._lock = threading.Lock()
        self._spaces: dict[int, _Space] = {}
        self._taken: dict[tuple[int, int], int] = {}

    def take(self, nbytes: int) -> tuple[Segment, int]:
        """Return a segment and an offset from which so many bytes are the caller's.

        Raises ExecutionError where there is no memory. O(pieces).
        """
        nbytes = -(-nbytes // PAGE_BYTES) * PAGE_BYTES
        with self._lock:
            while self.returned:
                self._give(*self.returned.popleft())
            for space in self._spaces.values():
                offset = space.take(nbytes)
                if offset is not None:
                    break
            else:
                space = self._grow(nbytes)
                offset = space.take(nbytes)
                assert offset is not None
            self._taken[space.segment.number, offset] = nbytes
            return space.segment, offset

    def _give(self, number: int, offset: int) -> None:
        self._spaces[number].give(offset, self._taken.pop((number, offset)))

    def _grow(self, nbytes: int) -> _Space:
        before = sum(space.segment.nbytes for space in self._spaces.values())
        size = max(_SMALLEST_BYTES, nbytes, before)
        number = self._first + len(self._spaces)
        try:
            descriptor = os.memfd_create("hetsim", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            try:
                os.ftruncate(descriptor, size)
                _seal(descriptor)
            except OSError:
                os.close(descriptor)
                raise
        except OSError as error:
            raise no_room(error) from error
        space = _Space(Segment(number, descriptor, writable=True), [0], [size])
        self._spaces[number] = space
        return space


def no_room(error: OSError) -> ExecutionError:
    """Return what to say where the system has no shared memory to give."""
    return out_of_room(error, None) or ExecutionError(
        f"there is no shared memory for values: {error.strerror or error}",
        hint="let fewer requests be in flight, or allow more memory and open files",
    )


def send_segments(channel: Channel, segments: Sequence[Segment]) -> None:
    """Send files of segments, before the first message that names them."""
    for first in range(0, len(segments), MOST_DESCRIPTORS):
        some = segments[first : first + MOST_DESCRIPTORS]
        numbers = pack_numbers([segment.number for segment in some])
        channel.send(SEGMENTS, numbers, (), [segment.descriptor for segment in some])


def segments_of(frame: Frame) -> dict[int, Segment]:
    """Return the segments that came, mapped to be read."""
    numbers = unpack_numbers(frame.header)
    return {
        number: Segment(number, descriptor, writable=False)
        for number, descriptor in zip(numbers, frame.descriptors, strict=True)
    }


def _seal(descriptor: int) -> None:
    """Fix the size: who maps a file that another process cuts short is ended by the system."""
    fcntl, seals = _seals()
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)


def _sealed(descriptor: int) -> bool:
    fcntl, seals = _seals()
    return bool(fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & seals == seals)


def _seals() -> tuple[Any, int]:
    # On Linux alone; this module is imported elsewhere, too.
    import fcntl

    return fcntl, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
