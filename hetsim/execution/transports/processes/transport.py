"""Devices as processes of this machine: calls over channels, values in shared memory."""

from __future__ import annotations

import itertools
import pickle
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from hetsim.base.threads import begun
from hetsim.errors import DeviceLost
from hetsim.execution.devices.plan_steps import Step
from hetsim.execution.devices.program import Program
from hetsim.execution.devices.worker import error_of_device
from hetsim.execution.dispatch.dispatcher import Call
from hetsim.execution.dispatch.inbox import Inbox
from hetsim.execution.dispatch.transport import Fault, Fetched, Loaded, Post
from hetsim.execution.transports.channels.caller_end import CallerEnd, Held, Values
from hetsim.execution.transports.channels.faults import error_of
from hetsim.execution.transports.channels.frames import Frame
from hetsim.execution.transports.channels.messages import OTHER, pack_numbers, unpack_numbers
from hetsim.execution.transports.processes.starting import NO_ROOM, DeviceServer
from hetsim.execution.transports.ray_connection.interrupts import held_interrupts

_GRACE_S = 5.0
_LESS = "see whether the machine ran out of memory"


@dataclass(slots=True)
class _Device:
    """The process of a device, and what it was told to load."""

    pid: int
    end: CallerEnd
    fault: Fault | None = None
    loads: dict[int, Loaded] = field(default_factory=dict)


class ProcessTransport:
    """One process a device, each with a worker.

    What a device sent is held here too, so that it outlives the process that made it.

    Parameters
    ----------
    post : callable
    server : DeviceServer
    streams : mapping of str to int
    inbox : Inbox, optional
        As ``CallerEnd`` has it.
    """

    def __init__(
        self,
        post: Post,
        server: DeviceServer,
        streams: Mapping[str, int],
        inbox: Inbox | None = None,
    ) -> None:
        self._post = post
        self._inbox = inbox
        self._server = server
        self._streams = streams
        self._values = Values()
        self._lock = threading.Lock()
        self._devices: dict[str, _Device] = {}
        self._ended: list[_Device] = []
        self._loading: list[threading.Thread] = []
        self._numbers = itertools.count()
        self._closed = False

    def load(self, device: str, incarnation: int, version: int, program: Program) -> None:
        """Start the device's process where there is none, and have it compile."""

        def work() -> None:
            try:
                with self._lock:
                    if self._closed:
                        return
                    found = self._devices.get(device) or self._start(device)
                steps = {index: program.steps[index] for index in program.steps_of(device)}
                code, folder = program.code[device], program.weights_dir
                content = pickle.dumps((version, code, steps, folder, program.beside))
            except Exception as fault:
                error = error_of_device(fault, device)
                self._post(Loaded(device, incarnation, version, error))
                return
            number = next(self._numbers)
            found.loads[number] = Loaded(device, incarnation, version, process=found.pid)
            found.end.send(OTHER, pack_numbers([number]), content)
            self._not_loaded(found)

        thread = threading.Thread(target=work, name=f"hetsim load {device}", daemon=True)
        self._loading = [old for old in self._loading if old.is_alive()]
        self._loading.append(begun(thread, f"device '{device}'"))

    def call(self, call: Call, incarnation: int, step: Step, received: Sequence[Held]) -> None:
        """Send a step to the device's process."""
        self._devices[call.device].end.call(call, incarnation, step, received)

    def forget(self, device: str, version: int, request: int) -> None:
        """Drop what a device holds for a request."""
        found = self._devices.get(device)
        if found is not None:
            found.end.forget(version, request)

    def discard(self, device: str) -> None:
        """Kill a device's process."""
        with self._lock:
            found = self._devices.pop(device, None)
            if found is not None:
                self._ended = [old for old in self._ended if old.end.listening]
                self._ended.append(found)
                self._server.kill(found.pid)
                found.end.close()

    def harm(self, device: str, kind: Literal["kill", "hang"]) -> None:
        """Kill a device's process behind the session's back, or let it answer no call any more."""
        found = self._devices.get(device)
        if found is not None:
            if kind == "hang":
                found.end.freeze()
            else:
                self._server.kill(found.pid)
                # It may do much before the signal is there: from now on nothing of that counts.
                found.end.close()

    def hand(self, value: Any) -> Held:
        """Copy an input to where devices read it: small ones go with each call."""
        return self._values.hand(value)

    def fetch(self, request: int, handles: Mapping[str, Held]) -> None:
        """Copy outputs out of shared memory."""
        self._post(Fetched(request, {name: held.value() for name, held in handles.items()}))

    def close(self) -> None:
        """Kill all processes, and wait until they are gone."""
        with held_interrupts():
            with self._lock:
                self._closed = True
            for device in tuple(self._devices):
                self.discard(device)
            deadline = time.monotonic() + _GRACE_S
            for thread in self._loading:
                thread.join(max(0.0, deadline - time.monotonic()))
            for found in self._ended:
                found.end.join(max(0.0, deadline - time.monotonic()))

    def _start(self, name: str) -> _Device:
        arena = self._values.number()
        pid, channel = self._server.start(name, self._streams.get(name, 1), arena)

        def loaded(frame: Frame) -> None:
            [number] = unpack_numbers(frame.header)
            event = found.loads.pop(number)
            self._post(replace(event, error=error_of(frame.payload) if frame.payload else None))

        def lost() -> Fault:
            fault = Fault("died", _loss(name, self._server.end_of(pid)))
            found.fault = fault
            self._not_loaded(found)
            return fault

        end = CallerEnd(channel, self._post, lost, {OTHER: loaded}, self._inbox)
        found = self._devices[name] = _Device(pid, end)
        end.start()
        return found

    def _not_loaded(self, found: _Device) -> None:
        while found.loads and found.fault is not None:
            _, event = found.loads.popitem()
            self._post(replace(event, error=found.fault.error))


def _loss(device: str, status: int | None) -> DeviceLost:
    """What to say of a device whose process ended, with an exit code or minus a signal."""
    where = f"device '{device}'"
    if status is not None and status < 0:
        name = signal.Signals(-status).name
        hint = _LESS if name == "SIGKILL" else None
        return DeviceLost(f"its process died of {name}", where=where, hint=hint, device=device)
    if status == NO_ROOM:
        what = "its process had no memory, threads or files left"
        return DeviceLost(what, where=where, hint=_LESS, device=device)
    ended = "" if status is None else f" with exit code {status}"
    return DeviceLost(f"its process ended{ended}", where=where, device=device)
