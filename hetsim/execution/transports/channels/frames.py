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

from hetsim.base.threads import begun

_HEAD = struct.Struct("<IIQI")
"""What the message is, bytes of the header, bytes after it, descriptors."""

_CHUNK_BYTES = 1 << 16
MOST_DESCRIPTORS = 64
"""In one message; the system takes no more than 253."""

_ANCILLARY_BYTES = socket.CMSG_SPACE(MOST_DESCRIPTORS * array.array("i").itemsize)

# Plain numbers: the socket module's own flags are objects that take a microsecond each to combine.
_NOW = int(socket.MSG_DONTWAIT)
_SENDING = int(socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
_RECEIVING = int(socket.MSG_CMSG_CLOEXEC)
_CUT = int(socket.MSG_CTRUNC)

Bytes = bytes | memoryview
_Ancillary = tuple[int, int, "array.array[int]"]


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
        self._read: bytes | bytearray = b""
        self._at = 0
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
        head = _HEAD.pack(kind, len(header), size, len(descriptors)) + header
        pieces = [head, *payload]
        with self._lock:
            if self._closed:
                return
            sent = 0
            if not self._unsent:
                try:
                    sent = self._socket.sendmsg(
                        pieces, _told(descriptors) if descriptors else (), _SENDING
                    )
                except BlockingIOError:
                    pass
                except OSError:
                    # Who receives hears of it.
                    return
            if sent < len(head) + size:
                self._later(pieces, sent, () if sent else descriptors)

    def receive(self) -> Frame:
        """Wait for the next frame. Raises ChannelEnded where none comes any more."""
        while True:
            if self._read and (frame := self._next()) is not None:
                return frame
            # Who waits in a read is woken whenever the other end takes something, too.
            self._arriving.poll()
            self._fill(0)

    def arrived(self) -> list[Frame]:
        """Return the frames that are here, once something has come; those in parts come later.

        It never waits. Raises ChannelEnded where none comes any more.
        """
        try:  # noqa: SIM105 - entering a context takes longer, and this is done for every answer.
            self._fill(_NOW)
        except BlockingIOError:
            pass
        found = []
        while self._read and (frame := self._next()) is not None:
            found.append(frame)
        return found

    def pending(self) -> bool:
        """Whether something came, if only that the other end is gone."""
        return self._at < len(self._read) or bool(self._arriving.poll(0))

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

    def _next(self) -> Frame | None:
        """Take a frame of what was read, if all of it was."""
        read, begin = self._read, self._at + _HEAD.size
        if len(read) < begin:
            return None
        kind, length, size, count = _HEAD.unpack_from(read, self._at)
        start = begin + length
        end = start + size
        if len(read) < end or len(self._descriptors) < count:
            return None
        header, payload = bytes(read[begin:start]), memoryview(bytes(read[start:end]))
        if len(read) == end:
            self._read, self._at = b"", 0
        else:
            self._at = end
        descriptors = [self._descriptors.popleft() for _ in range(count)] if count else []
        return Frame(kind, header, payload, descriptors)

    def _fill(self, flags: int) -> None:
        try:
            content, ancillary, flags, _ = self._socket.recvmsg(
                _CHUNK_BYTES, _ANCILLARY_BYTES, flags | _RECEIVING
            )
        except BlockingIOError:
            raise
        except OSError as error:
            raise ChannelEnded(str(error)) from error
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                found = array.array("i")
                found.frombytes(data[: len(data) - len(data) % found.itemsize])
                self._descriptors.extend(found)
        if not content or flags & _CUT:
            raise ChannelEnded("the other end is gone")
        if not self._read:
            self._read = content
            return
        # One that comes in parts; what of it is here is not copied again for each.
        if isinstance(self._read, bytes):
            self._read, self._at = bytearray(self._read[self._at :]), 0
        else:
            del self._read[: self._at]
            self._at = 0
        self._read += content

    def _later(self, pieces: Sequence[Bytes], sent: int, descriptors: Sequence[int]) -> None:
        rest = memoryview(b"".join(pieces))[sent:]
        started = bool(self._unsent)
        self._unsent.append((rest, tuple(os.dup(number) for number in descriptors)))
        if not started:
            rest_sent = threading.Thread(target=self._send_rest, name="hetsim sending", daemon=True)
            begun(rest_sent)

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
                    sent = self._socket.sendmsg([rest], _told(descriptors), _SENDING)
                except BlockingIOError:
                    sent = 0
                except OSError:
                    sent = len(rest)
                if sent:
                    _close(descriptors)
                    self._unsent[0] = (rest[sent:], ())
                if sent == len(rest):
                    self._unsent.popleft()
                    if not self._unsent:
                        return


def _told(descriptors: Sequence[int]) -> Sequence[_Ancillary]:
    """Return descriptors as they go with a message."""
    if not descriptors:
        return ()
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]


def _close(descriptors: Iterable[int]) -> None:
    for number in descriptors:
        with contextlib.suppress(OSError):
            os.close(number)
