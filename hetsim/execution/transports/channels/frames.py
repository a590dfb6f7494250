"""Messages over a Unix socket: of a kind, with a header, more bytes, and descriptors of files."""

from __future__ import annotations

import array
import collections
import contextlib
import os
import select
import socket
import struct
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_HEAD = struct.Struct("<IIQI")
"""What the message is, bytes of the header, bytes after it, descriptors."""

_CHUNK_BYTES = 1 << 16
MOST_DESCRIPTORS = 64
"""In one message; the system takes no more than 253."""

_ANCILLARY_BYTES = socket.CMSG_SPACE(MOST_DESCRIPTORS * array.array("i").itemsize)

Bytes = bytes | memoryview


class ChannelEnded(Exception):
    """The other end is gone, or this one was closed."""


@dataclass(slots=True)
class Frame:
    """One message.

    Attributes
    ----------
    kind : int
    header : bytes
    payload : memoryview
    descriptors : list of int
        Of files; whoever receives a frame closes them.
    """

    kind: int
    header: bytes
    payload: memoryview
    descriptors: list[int]


class Channel:
    """One end of a connected Unix socket; the other belongs to another process.

    Any thread may send; one at a time may receive. The socket is this object's from now on.

    Parameters
    ----------
    end : socket
    """

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._lock = threading.Lock()
        self._closed = False
        self._unsent: collections.deque[tuple[Bytes, tuple[int, ...]]] = collections.deque()
        self._chunk = memoryview(bytearray(_CHUNK_BYTES))
        self._read = bytearray()
        self._descriptors: collections.deque[int] = collections.deque()
        self._arriving = select.poll()
        self._arriving.register(end.fileno(), select.POLLIN)

    def send(
        self,
        kind: int,
        header: bytes,
        payload: Sequence[Bytes] = (),
        descriptors: Sequence[int] = (),
    ) -> None:
        """Send a frame, in the order of the calls; it never waits for the other end.

        What the system does not take at once is sent later, on a thread. `descriptors`: at most
        64, which may be closed when this returns. To an end that is gone nothing is sent.
        """
        size = sum(map(len, payload))
        pieces = [_HEAD.pack(kind, len(header), size, len(descriptors)), header, *payload]
        with self._lock:
            if self._closed:
                return
            sent = 0
            if not self._unsent:
                try:
                    sent = self._pass(pieces, descriptors)
                except OSError:
                    # Who receives hears of it.
                    return
            if sent < _HEAD.size + len(header) + size:
                self._later(pieces, sent, () if sent else descriptors)

    def receive(self) -> Frame:
        """Wait for the next frame. Raises ChannelEnded where none comes any more."""
        while len(self._read) < _HEAD.size:
            self._fill()
        kind, length, size, count = _HEAD.unpack_from(self._read)
        start, end = _HEAD.size + length, _HEAD.size + length + size
        while len(self._read) < end or len(self._descriptors) < count:
            self._fill()
        read = memoryview(self._read)
        header, payload = bytes(read[_HEAD.size : start]), memoryview(bytes(read[start:end]))
        read.release()
        if len(self._read) == end:
            self._read.clear()
        else:
            del self._read[:end]
        return Frame(kind, header, payload, [self._descriptors.popleft() for _ in range(count)])

    def pending(self) -> bool:
        """Whether something came, if only that the other end is gone."""
        return bool(self._read) or bool(self._arriving.poll(0))

    def close(self) -> None:
        """End it for both ends; a thread that receives is told."""
        with self._lock:
            self._closed = True
            for _, descriptors in self._unsent:
                _close(descriptors)
            self._unsent.clear()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def release(self) -> None:
        """Close it, and let go of the socket; for the thread that receives."""
        self.close()
        _close(self._descriptors)
        self._descriptors.clear()
        with self._lock:
            self._socket.close()

    def fileno(self) -> int:
        """The descriptor of the socket, to wait for it beside others."""
        return self._socket.fileno()

    def _fill(self) -> None:
        try:
            size, ancillary, flags, _ = self._socket.recvmsg_into(
                [self._chunk], _ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC
            )
        except OSError as error:
            raise ChannelEnded(str(error)) from error
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                found = array.array("i")
                found.frombytes(data[: len(data) - len(data) % found.itemsize])
                self._descriptors.extend(found)
        if not size or flags & socket.MSG_CTRUNC:
            raise ChannelEnded("the other end is gone")
        self._read += self._chunk[:size]

    def _pass(self, pieces: Sequence[Bytes], descriptors: Sequence[int]) -> int:
        """Give the system what it takes at once; return how many bytes that were."""
        ancillary = (
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
            if descriptors
            else []
        )
        flags = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
        try:
            return self._socket.sendmsg(pieces, ancillary, flags)
        except BlockingIOError:
            return 0

    def _later(self, pieces: Sequence[Bytes], sent: int, descriptors: Sequence[int]) -> None:
        rest = memoryview(b"".join(pieces))[sent:]
        started = bool(self._unsent)
        self._unsent.append((rest, tuple(os.dup(number) for number in descriptors)))
        if not started:
            threading.Thread(target=self._send_rest, name="hetsim sending", daemon=True).start()

    def _send_rest(self) -> None:
        wait = select.poll()
        with self._lock:
            if self._closed:
                return
            wait.register(self._socket.fileno(), select.POLLOUT)
        while True:
            # A socket that is shut down is ready: nobody waits here for ever.
            wait.poll()
            with self._lock:
                if self._closed:
                    return
                rest, descriptors = self._unsent[0]
                try:
                    sent = self._pass([rest], descriptors)
                except OSError:
                    sent = len(rest)
                if sent:
                    _close(descriptors)
                    self._unsent[0] = (rest[sent:], ())
                if sent == len(rest):
                    self._unsent.popleft()
                    if not self._unsent:
                        return


def _close(descriptors: Iterable[int]) -> None:
    for number in descriptors:
        with contextlib.suppress(OSError):
            os.close(number)
