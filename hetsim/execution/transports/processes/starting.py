"""The owner's side of the process that starts devices: one for all sessions of this process."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hetsim.base.forking import after_fork, keep
from hetsim.base.own_programs import elsewhere, see_off, started
from hetsim.base.systems import THREADS, need
from hetsim.errors import ExecutionError, UsageError
from hetsim.execution.transports.channels.frames import Channel, ChannelEnded
from hetsim.execution.transports.channels.messages import OTHER
from hetsim.execution.transports.ray_connection.interrupts import held_interrupts

_PROGRAM = f"{__package__}.server"
NO_ROOM = getattr(os, "EX_OSERR", 71)
"""What the process of a device ends with that found no memory, thread or file for its work."""

_END_S = 5.0
_ANSWER_MS = 60_000


class DeviceServer:
    """The process that starts devices as processes; started when the first device is.

    Safe to use from several threads. One that was ended by somebody is started again, without the
    devices that it had.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None

    def start(self, device: str, streams: int, arena: int) -> tuple[int, Channel]:
        """Start the process of a device; return its id and the channel to it.

        Raises ExecutionError where the system has no process for it.
        """
        how = {"path": elsewhere(sys.path), "environment": dict(os.environ), "folder": _folder()}
        with self._lock:
            try:
                try:
                    return self._start(device, streams, arena, how)
                except ChannelEnded:
                    # It was ended by somebody, with all of its devices: another one may go on.
                    self._drop()
                    return self._start(device, streams, arena, how)
            except (OSError, ChannelEnded) as error:
                raise ExecutionError(
                    f"its process cannot be started: {error}",
                    where=f"device '{device}'",
                    hint="allow more processes, memory and open files, or run with the executor "
                    "'threads' instead",
                ) from error

    def _start(
        self, device: str, streams: int, arena: int, how: Mapping[str, Any]
    ) -> tuple[int, Channel]:
        here, there = socket.socketpair()
        try:
            with there:
                header = ["start", device, streams, arena, how]
                what, answer = self._ask(header, [there.fileno()])
            if what != "started":
                raise OSError(answer, os.strerror(answer))
        except BaseException:
            here.close()
            raise
        return answer, Channel(here)

    def kill(self, pid: int) -> None:
        """End a device, if it has not ended."""
        with self._lock:
            if self._channel is not None:
                self._channel.send(OTHER, json.dumps(["kill", pid]).encode())

    def end_of(self, pid: int) -> int | None:
        """Wait for the end of a device, some seconds; return its exit code, or minus its signal.

        None where it goes on, or nobody knows.
        """
        with self._lock:
            if self._channel is None:
                return None
            try:
                status: int | None = self._ask(["end", pid], ())[1]
            except (OSError, ChannelEnded):
                self._drop()
                return None
            return status

    def close(self) -> None:
        """End the process, and with it all devices."""
        with self._lock:
            self._drop()

    def _ask(self, header: Sequence[Any], descriptors: Sequence[int]) -> Any:
        if self._channel is None:
            self._channel = self._begin()
        self._channel.send(OTHER, json.dumps(header).encode(), (), descriptors)
        answered = select.poll()
        answered.register(self._channel.fileno(), select.POLLIN)
        if not answered.poll(_ANSWER_MS):
            raise ChannelEnded(f"no answer within {_ANSWER_MS // 1000} s")
        return json.loads(self._channel.receive().header)

    def _begin(self) -> Channel:
        here, there = socket.socketpair()
        with there:
            self._process = started(
                _PROGRAM,
                "main",
                there.fileno(),
                os.getpid(),
                stdin=subprocess.DEVNULL,
                # What this process writes there is its own.
                stdout=subprocess.DEVNULL,
                pass_fds=[there.fileno()],
                # What a terminal sends to those in its foreground is not for this one. Not in a
                # session of its own: the system shares processors out between sessions, and a
                # call would wait milliseconds for its turn beside others' work.
                process_group=0,
            )
        return Channel(here)

    def _drop(self) -> None:
        if self._channel is not None:
            self._channel.release()
            self._channel = None
        if self._process is not None:
            see_off(self._process, _END_S)
            self._process = None


class _Shared:
    """The server that all sessions of this process use, from the first to the last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._server: DeviceServer | None = None

    def enter(self) -> DeviceServer:
        with self._lock:
            self._users += 1
            if self._server is None:
                self._server = DeviceServer()
            return self._server

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if not self._users and self._server is not None:
                server, self._server = self._server, None
                server.close()


_shared = _Shared()


def _forget() -> None:
    global _shared
    keep(_shared)
    _shared = _Shared()


after_fork(_forget)


@contextlib.contextmanager
def device_server() -> Iterator[DeviceServer]:
    """Give what starts devices as processes; with the last user's context all of it ends.

    Raises UsageError where the system has no memory without a name.
    """
    if sys.platform != "linux":
        raise UsageError(
            "the executor 'processes' needs Linux", hint="run with the executor 'threads' instead"
        )
    need("fcntl", "the executor 'processes'", THREADS)
    server = _shared.enter()
    try:
        yield server
    finally:
        with held_interrupts():
            _shared.leave()


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "/"
