"""A small process that has all of a device's code loaded, and forks a process for each device.

It starts a device in milliseconds where a new interpreter takes a second, it knows how each ended,
and none outlives it: the system ends them with it, and it ends with its owner, however that ended.
It is a program of its own, told over a channel; see ``main``.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import pickle
import select
import signal
import socket
import sys
import threading
from typing import Any

from hetsim.base.room import out_of_room
from hetsim.base.signals import ENDING
from hetsim.base.threads import begun
from hetsim.device.kernels.onnx_runtime import import_runtime
from hetsim.execution.devices.worker import DeviceWorker, error_of_device
from hetsim.execution.transports.channels.device_end import DeviceEnd
from hetsim.execution.transports.channels.faults import tell_error
from hetsim.execution.transports.channels.frames import Channel, ChannelEnded, Frame
from hetsim.execution.transports.channels.messages import OTHER
from hetsim.execution.transports.processes.starting import NO_ROOM

_DIES_WITH_PARENT = 1
_END_MS = 2000


def main(descriptor: int, owner: int) -> None:
    """Serve the owner, process `owner`, over the socket `descriptor` until either is gone.

    What comes, in JSON: ``["start", device, streams, arena, how]`` with a socket for the device,
    answered by ``["started", pid]`` or ``["refused", errno]``, where `how` has the owner's
    ``path``, ``environment`` and ``folder``; ``["kill", pid]``; and ``["end", pid]``, which is
    answered by ``["ended", status]`` when that process has: as of ``Popen``, None where it goes on.
    """
    for number in (signal.SIGINT, *ENDING):
        signal.signal(number, signal.SIG_IGN)
    import_runtime()
    # What is there by now is shared by all that are forked: collecting it would copy it.
    gc.collect()
    gc.freeze()
    channel = Channel(socket.socket(fileno=descriptor))
    Server(channel).serve(owner)


class Server:
    """Starts processes, and knows which are left and how the others ended.

    Parameters
    ----------
    channel : Channel
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._poll = select.poll()
        self._watched = [channel.fileno()]
        self._alive: dict[int, int] = {}
        self._ended: dict[int, int] = {}

    def serve(self, owner: int) -> None:
        """Do what the owner says; when it is gone, end all processes."""
        # Its end of the channel may live on in a copy of it that another package forked.
        with contextlib.suppress(OSError):
            self._watched.append(os.pidfd_open(owner))
        if os.getppid() != owner:
            return
        for descriptor in self._watched:
            self._poll.register(descriptor, select.POLLIN)
        try:
            while True:
                ready = {descriptor for descriptor, _ in self._poll.poll()}
                for pid in [pid for pid, its in self._alive.items() if its in ready]:
                    self._reap(pid)
                if ready.intersection(self._watched[1:]):
                    return
                while self._channel.pending():
                    self._do(self._channel.receive())
        except ChannelEnded:
            return
        finally:
            for pid in tuple(self._alive):
                self._kill(pid)
            for pid in tuple(self._alive):
                self._reap(pid)

    def _do(self, frame: Frame) -> None:
        what, *more = json.loads(frame.header)
        if what == "start":
            self._start(more, frame.descriptors)
        elif what == "kill":
            self._kill(*more)
        else:
            self._say("ended", self._end_of(*more))

    def _start(self, more: list[Any], descriptors: list[int]) -> None:
        here = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            os.close(descriptors[0])
            self._say("refused", error.errno)
            return
        if not pid:
            status = 1
            try:
                # What is the server's alone.
                for descriptor in (*self._watched, *self._alive.values()):
                    os.close(descriptor)
                channel = Channel(socket.socket(fileno=descriptors[0]))
                _device(channel, here, *more)
                status = 0
            except BaseException as error:
                status = status if out_of_room(error) is None else NO_ROOM
            finally:
                os._exit(status)
        os.close(descriptors[0])
        self._alive[pid] = os.pidfd_open(pid)
        self._poll.register(self._alive[pid], select.POLLIN)
        self._say("started", pid)

    def _say(self, *what: Any) -> None:
        self._channel.send(OTHER, json.dumps(what).encode())

    def _kill(self, pid: int) -> None:
        # Not yet waited for, so that the id is nobody else's.
        if pid in self._alive:
            os.kill(pid, signal.SIGKILL)

    def _end_of(self, pid: int) -> int | None:
        if pid in self._alive:
            ended = select.poll()
            ended.register(self._alive[pid], select.POLLIN)
            if not ended.poll(_END_MS):
                return None
            self._reap(pid)
        return self._ended.pop(pid, None)

    def _reap(self, pid: int) -> None:
        _, status = os.waitpid(pid, 0)
        descriptor = self._alive.pop(pid)
        self._poll.unregister(descriptor)
        os.close(descriptor)
        self._ended[pid] = os.waitstatus_to_exitcode(status)


def _device(
    channel: Channel, server: int, name: str, streams: int, arena: int, how: dict[str, Any]
) -> None:
    """Be the process of a device until the other end of its channel is gone."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_DIES_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != server:
        return
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
    sys.path[:] = how["path"]
    os.environ.clear()
    os.environ.update(how["environment"])
    with contextlib.suppress(OSError):
        os.chdir(how["folder"])
    worker = DeviceWorker(name)

    def load(frame: Frame) -> None:
        def work() -> None:
            told = b""
            try:
                # From the process that started this one, over a socket that nobody else has.
                worker.load(*pickle.loads(frame.payload))
            except Exception as error:
                told = tell_error(error_of_device(error, name))
            channel.send(OTHER, frame.header, [told])

        begun(threading.Thread(target=work, name="hetsim load", daemon=True))

    end = DeviceEnd(name, channel, worker, arena, streams, {OTHER: load})
    end.serve()
    if end.error is not None:
        raise end.error
