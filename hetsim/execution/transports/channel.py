"""Channels between processes of one machine: packets over Unix sockets, large values in memory."""

from __future__ import annotations

import array
import collections
import contextlib
import itertools
import mmap
import os
import pickle
import secrets
import select
import socket
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Any

import hetsim.errors
from hetsim.core.process import begun
from hetsim.core.room import out_of_room
from hetsim.errors import ExecutionError, OutOfRoom
from hetsim.execution.dispatch.dispatcher import Call
from hetsim.execution.dispatch.transport import CallEnded, Fault, Post, kernel_fault
from hetsim.execution.program import Step, Timing
from hetsim.execution.worker import DeviceWorker, error_of_device

if sys.platform != "win32":
    import fcntl

LARGE_BYTES = 1 << 15
"""Minimum bytes of arrays in shared memory; smaller ones are copied into the packet."""

_PACKET_BYTES = 1 << 16
_ELSEWHERE = b"in memory"
"""Content of a packet whose own content was too long, and is in its first file."""

_ALIGNMENT = 64
MOST_FILES = 200
"""Maximum files of one packet; Linux allows 253."""

_DESCRIPTORS_BYTES = socket.CMSG_SPACE((MOST_FILES + 1) * array.array("i").itemsize)

# Plain numbers, as combining the socket module's flag objects takes a microsecond each.
_SENDING = int(getattr(socket, "MSG_NOSIGNAL", 0)) | int(getattr(socket, "MSG_DONTWAIT", 0))
_RECEIVING = int(getattr(socket, "MSG_CMSG_CLOEXEC", 0))

_CREDENTIALS = struct.Struct("=iII")
_MEET_MS = 10_000


class ChannelEnded(Exception):
    """Signal that the channel was closed at either end."""


class SharedFile:
    """Anonymous memory, read by holders of its descriptor."""

    __slots__ = ("descriptor",)

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __del__(self) -> None:
        os.close(self.descriptor)

    def mapped(self, sizes: Sequence[int]) -> list[memoryview]:
        """Return read-only pieces of these sizes, as stored by ``SharedSegment.written``."""
        flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
        *starts, end = _starts(sizes)
        try:
            content = memoryview(mmap.mmap(self.descriptor, end, flags, mmap.PROT_READ))
        except OSError as error:
            raise _no_memory(error) from error
        return [content[start : start + size] for start, size in zip(starts, sizes, strict=True)]


class SharedSegment:
    """Shared memory written by this process, reused when no other process holds it.

    The kernel tracks the holders: they get a second, read-only open file, locked (flock(2)) while a
    descriptor or mapping of it exists in any process. Files are kept by size, a power of two, as a
    new page costs more than a copy. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[int, list[int]] = {}

    def __del__(self) -> None:
        for descriptors in self._files.values():
            for descriptor in descriptors:
                os.close(descriptor)

    def written(self, pieces: Sequence[memoryview | bytes]) -> SharedFile:
        """Return a file with copies of `pieces`. O(bytes + files of that size in use)."""
        *starts, end = _starts([len(piece) for piece in pieces])
        room = 1 << (end - 1).bit_length()
        try:
            descriptor = self._free(room)
            try:
                for start, piece in zip(starts, pieces, strict=True):
                    done = 0
                    while done < len(piece):
                        done += os.pwrite(descriptor, piece[done:], start + done)
                given = SharedFile(os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY))
                fcntl.flock(given.descriptor, fcntl.LOCK_SH)
            finally:
                with self._lock:
                    self._files[room].append(descriptor)
        except OSError as error:
            raise _no_memory(error) from error
        return given

    def _free(self, room: int) -> int:
        """Remove and return an unused file, or a new one."""
        with self._lock:
            descriptors = self._files.setdefault(room, [])
            for index, descriptor in enumerate(descriptors):
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    fcntl.flock(descriptor, fcntl.LOCK_UN)
                    return descriptors.pop(index)
        return os.memfd_create("hetsim", os.MFD_CLOEXEC)


def _starts(sizes: Sequence[int]) -> list[int]:
    """Return the start of each piece in a file, and the end of the last one."""
    starts, end = [], 0
    for size in sizes:
        start = -(-end // _ALIGNMENT) * _ALIGNMENT
        starts.append(start)
        end = start + size
    return [*starts, end]


def _no_memory(error: OSError) -> ExecutionError:
    return out_of_room(error, None) or ExecutionError(
        f"no shared memory is available for values: {error.strerror or error}",
        hint="allow fewer requests in flight, or more memory and open files",
    )


@dataclass(slots=True)
class Packet:
    """Message of a channel."""

    content: tuple[Any, ...]
    files: list[SharedFile]


class Channel:
    """End of a Unix socket that preserves packets; any thread sends, one receives."""

    def __init__(self, end: socket.socket, memory: SharedSegment) -> None:
        self._socket = end
        self.memory = memory
        self._lock = threading.Lock()
        self._closed = False
        self._unsent: collections.deque[tuple[bytes, tuple[SharedFile, ...]]] = collections.deque()
        self._arriving = select.poll()
        self._arriving.register(end.fileno(), select.POLLIN)

    def send(self, content: tuple[Any, ...], files: Sequence[SharedFile] = ()) -> None:
        """Send a packet, in the order of calls, without waiting for the other end.

        Data not accepted at once is sent on a thread. `files`: at most ``MOST_FILES``.
        """
        said = pickle.dumps(content, pickle.HIGHEST_PROTOCOL)
        if len(said) > _PACKET_BYTES:
            files = (self.memory.written([said]), *files)
            said = _ELSEWHERE + struct.pack("=Q", len(said))
        with self._lock:
            if self._closed:
                return
            try:
                if not self._unsent:
                    self._send(said, files)
                    return
            except BlockingIOError:
                pass
            except OSError:
                # The receiving thread reports the end.
                return
            self._unsent.append((said, tuple(files)))
            if len(self._unsent) == 1:
                begun(threading.Thread(target=self._send_rest, name="hetsim sending", daemon=True))

    def receive(self) -> Packet:
        """Wait for the next packet. Raises ChannelEnded if the channel has ended."""
        # A thread blocked in a read is also woken whenever the other end reads.
        self._arriving.poll()
        try:
            said, ancillary, _, _ = self._socket.recvmsg(
                _PACKET_BYTES, _DESCRIPTORS_BYTES, _RECEIVING
            )
        except OSError as error:
            raise ChannelEnded(str(error)) from error
        if not said:
            raise ChannelEnded("the other end is closed")
        files: list[SharedFile] = []
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                numbers = array.array("i")
                numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
                files += map(SharedFile, numbers)
        if not said.startswith(_ELSEWHERE):
            return Packet(pickle.loads(said), files)
        if not files:
            raise ChannelEnded("this process cannot open more files")
        [content] = files.pop(0).mapped(struct.unpack("=Q", said[len(_ELSEWHERE) :]))
        return Packet(pickle.loads(content), files)

    def close(self) -> None:
        """Close both ends; a receiving thread gets ChannelEnded."""
        with self._lock:
            self._closed = True
            self._unsent.clear()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def release(self) -> None:
        """Close the channel and release the socket; for the receiving thread."""
        self.close()
        with self._lock:
            self._socket.close()

    def _send(self, said: bytes, files: Sequence[SharedFile]) -> None:
        ancillary: Sequence[tuple[int, int, array.array[int]]] = ()
        if files:
            numbers = array.array("i", [file.descriptor for file in files])
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)]
        self._socket.sendmsg([said], ancillary, _SENDING)

    def _send_rest(self) -> None:
        wait = select.poll()
        with self._lock:
            if self._closed:
                return
            wait.register(self._socket.fileno(), select.POLLOUT)
        while True:
            # A socket that is shut down is ready, so this ends.
            wait.poll()
            with self._lock:
                while self._unsent:
                    try:
                        self._send(*self._unsent[0])
                    except BlockingIOError:
                        break
                    except OSError:
                        self._unsent.clear()
                        return
                    self._unsent.popleft()
                else:
                    return


@dataclass(slots=True, eq=False)
class ValueInTransit:
    """Value in transit: pickled, its large arrays in shared memory."""

    packed: bytes
    sizes: tuple[int, ...] = ()
    file: SharedFile | None = None
    elsewhere: Any = field(default=None, repr=False)

    @staticmethod
    def of(value: Any, memory: SharedSegment) -> ValueInTransit:
        """Return the handle of a copy of `value`. Raises ExecutionError if there is no room."""
        large: list[memoryview] = []

        def here(buffer: pickle.PickleBuffer) -> bool:
            content = buffer.raw()
            if content.nbytes < LARGE_BYTES:
                return True
            large.append(content)
            return False

        packed = pickle.dumps(value, pickle.HIGHEST_PROTOCOL, buffer_callback=here)
        if not large:
            return ValueInTransit(packed)
        return ValueInTransit(packed, tuple(len(piece) for piece in large), memory.written(large))

    def value(self) -> Any:
        """Return the value; its large arrays are read-only, and keep their memory alive."""
        return pickle.loads(self.packed, buffers=self.file.mapped(self.sizes) if self.file else ())


Packed = tuple[tuple[bytes, tuple[int, ...]], ...]
"""Values within a packet: each pickled, with the sizes of its large arrays."""


def packed(
    values: Sequence[ValueInTransit], memory: SharedSegment
) -> tuple[Packed, list[SharedFile]]:
    """Return values in packet form, and the files that belong to it."""
    large = [held for held in values if held.file is not None]
    if len(large) > MOST_FILES:
        whole = {
            id(held): ValueInTransit(pickle.dumps(held.value())) for held in large[MOST_FILES:]
        }
        return packed([whole.get(id(held), held) for held in values], memory)
    return (
        tuple((held.packed, held.sizes) for held in values),
        [held.file for held in large if held.file is not None],
    )


def unpacked(values: Packed, files: Sequence[SharedFile]) -> list[ValueInTransit]:
    """Return the values of a packet. Raises OutOfRoom if files are missing."""
    if len(files) != sum(bool(sizes) for _, sizes in values):
        raise OutOfRoom(
            "too many files are open", hint="raise the limit (ulimit -n)", short_of="files"
        )
    left = iter(files)
    return [ValueInTransit(said, sizes, next(left) if sizes else None) for said, sizes in values]


def accept(memory: SharedSegment, ask: Callable[[str], bool]) -> Channel | None:
    """Return the channel to another process of this user, which should ``connect`` to a name.

    `ask` sends it the name, and returns whether it connected. None if no process of this user does
    within 10 s.
    """
    name = f"hetsim-{secrets.token_hex(16)}"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
            # An abstract name (unix(7)): in no folder, and removed with the socket.
            listening.bind(f"\0{name}")
            listening.listen()
            waiting = select.poll()
            waiting.register(listening, select.POLLIN)
            came = ask(name)
            while came and waiting.poll(_MEET_MS):
                end, _ = listening.accept()
                if _own(end):
                    return Channel(end, memory)
                end.close()
    except OSError as error:
        said = f"processes cannot connect: {error.strerror or error}"
        raise out_of_room(error) or ExecutionError(said) from error
    return None


def connect(name: str, memory: SharedSegment) -> Channel | None:
    """Return the channel to the process waiting at `name`; None if none of this user does."""
    end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        end.connect(f"\0{name}")
        if _own(end):
            return Channel(end, memory)
    except OSError:
        pass
    end.close()
    return None


def _own(end: socket.socket) -> bool:
    """Return whether the process at the other end is this user's, by the kernel."""
    said = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(said)
    return bool(user == os.geteuid())


_CALL, _FORGET, _ENDED, _FAILED = range(4)


class CallerEnd:
    """Caller's end of the channel to one device. Thread-safe."""

    def __init__(self, channel: Channel, post: Post, lost: Callable[[], Fault]) -> None:
        self._channel = channel
        self._post = post
        self._lost = lost
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._given: dict[int, tuple[Call, int, Step]] = {}
        self._fault: Fault | None = None
        self._frozen = False
        self._thread = threading.Thread(target=self._listen, name="hetsim channel", daemon=True)

    def start(self) -> None:
        """Start receiving answers; raises OutOfRoom, and ends the channel, without a thread."""
        try:
            begun(self._thread)
        except OutOfRoom:
            self._channel.release()
            raise

    def call(
        self, call: Call, incarnation: int, step: Step, received: Sequence[ValueInTransit]
    ) -> None:
        """Run a step on the device; posts ``CallEnded``."""
        number = next(self._numbers)
        with self._lock:
            fault = self._fault
            if fault is None:
                try:
                    values, files = packed(received, self._channel.memory)
                    self._given[number] = (call, incarnation, step)
                    content = (_CALL, number, call.version, call.request, call.step, values)
                    self._channel.send(content, files)
                except ExecutionError as error:
                    self._given.pop(number, None)
                    fault = kernel_fault(error)
        if fault is not None:
            self._post(CallEnded(call, incarnation, fault=fault))

    def forget(self, version: int, request: int) -> None:
        """Tell the device to drop the values of a request."""
        self._channel.send((_FORGET, version, request))

    def freeze(self) -> None:
        """Ignore all further answers of the device, as if it hung."""
        self._frozen = True

    def close(self) -> None:
        """End the channel; calls under way return with a fault."""
        self._channel.close()

    @property
    def listening(self) -> bool:
        """Whether the other end may still exist."""
        return self._thread.is_alive()

    def join(self, timeout_s: float) -> None:
        """Wait for the thread, after ``close``, if it was started."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _listen(self) -> None:
        try:
            while True:
                self._take(self._channel.receive())
        except ChannelEnded:
            pass
        except Exception:
            # A device with invalid answers counts as lost.
            self._channel.close()
        self._lose()

    def _lose(self) -> None:
        fault = self._lost()
        with self._lock:
            self._fault = fault
            given, self._given = self._given, {}
        for call, incarnation, _ in given.values():
            self._post(CallEnded(call, incarnation, fault=fault))
        self._channel.release()

    def _take(self, packet: Packet) -> None:
        kind, number, *more = packet.content
        if self._frozen:
            return
        if kind == _FAILED:
            [error] = more
            answer: dict[str, Any] = {"fault": kernel_fault(error)}
        elif kind == _ENDED:
            (arrived_s, parts), values = more
            try:
                sent = unpacked(values, packet.files)
            except OutOfRoom as error:
                answer = {"fault": kernel_fault(error)}
            else:
                names = self._given[number][2].sends
                answer = {
                    "sent": dict(zip(names, sent, strict=True)),
                    "timing": Timing(arrived_s, parts),
                }
        else:
            raise ValueError(f"an answer of kind {kind}")
        with self._lock:
            call, incarnation, _ = self._given.pop(number)
        self._post(CallEnded(call, incarnation, **answer))


def serve(channel: Channel, worker: DeviceWorker, streams: int) -> None:
    """Let a worker process calls of a channel, with one thread per stream, until its end.

    The thread that receives a call runs it, so no call waits for a thread to wake. Raises OutOfRoom
    without a thread per stream.
    """
    turn, memory = threading.Lock(), channel.memory

    def next_call() -> Packet:
        with turn:
            while True:
                packet = channel.receive()
                if packet.content[0] == _CALL:
                    return packet
                _, version, request = packet.content
                worker.forget(version, request)

    def answer(packet: Packet) -> None:
        _, number, version, request, step, values = packet.content
        try:
            received = [held.value() for held in unpacked(values, packet.files)]
            timing, *sent = worker.run(version, request, step, *received)
            made, files = packed([ValueInTransit.of(value, memory) for value in sent], memory)
        except Exception as error:
            own = _own_class(error_of_device(error, worker.device))
            channel.send((_FAILED, number, own))
        else:
            channel.send((_ENDED, number, tuple(timing), made), files)

    def work() -> None:
        # Any error on the way ends the channel: the caller considers the device dead.
        with suppress(Exception):
            while True:
                answer(next_call())
        channel.close()

    try:
        for index in range(streams):
            begun(threading.Thread(target=work, name=f"hetsim call {index}", daemon=True))
    except OutOfRoom:
        channel.close()
        raise


def _own_class(error: ExecutionError) -> ExecutionError:
    """Return an error as the nearest of hetsim's own classes, which every process has."""
    kind: Any = next(k for k in type(error).__mro__ if k.__module__ == hetsim.errors.__name__)
    known = {entry.name: getattr(error, entry.name) for entry in fields(kind)}
    found: ExecutionError = kind(known.pop("what"), **known)
    return found
