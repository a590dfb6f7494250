"""The two ends of a device's channel: the caller's open calls, and the worker that runs them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any

import hetsim.errors
from hetsim.core.threads import begun
from hetsim.errors import ExecutionError, OutOfRoom
from hetsim.execution.devices.plan_steps import Step, Timing
from hetsim.execution.devices.worker import DeviceWorker, error_of_device
from hetsim.execution.dispatch.dispatcher import Call
from hetsim.execution.dispatch.transport import Ended, Fault, Post, kernel_fault
from hetsim.execution.transports.channel import (
    Channel,
    ChannelEnded,
    Held,
    Memory,
    Packet,
    heard,
    told,
)

_CALL, _FORGET, _ENDED, _FAILED = range(4)


class CallerEnd:
    """The channel to one device. Safe to use from several threads."""

    def __init__(
        self,
        channel: Channel,
        memory: Memory,
        post: Post,
        lost: Callable[[], Fault],
    ) -> None:
        self._channel = channel
        self._memory = memory
        self._post = post
        self._lost = lost
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._given: dict[int, tuple[Call, int, Step]] = {}
        self._fault: Fault | None = None
        self._frozen = False
        self._thread = threading.Thread(target=self._listen, name="hetsim channel", daemon=True)

    def start(self) -> None:
        """Take answers from now on; raises OutOfRoom, and ends the channel, without a thread."""
        try:
            begun(self._thread)
        except OutOfRoom:
            self._channel.release()
            raise

    def call(self, call: Call, incarnation: int, step: Step, received: Sequence[Held]) -> None:
        """Have the device run a step; ``Ended`` is posted."""
        number = next(self._numbers)
        with self._lock:
            fault = self._fault
            if fault is None:
                try:
                    values, files = told(received, self._memory)
                    self._given[number] = (call, incarnation, step)
                    content = (_CALL, number, call.version, call.request, call.step, values)
                    self._channel.send(content, files)
                except ExecutionError as error:
                    self._given.pop(number, None)
                    fault = kernel_fault(error)
        if fault is not None:
            self._post(Ended(call, incarnation, fault=fault))

    def forget(self, version: int, request: int) -> None:
        """Have the device drop what it holds for a request."""
        self._channel.send((_FORGET, version, request))

    def freeze(self) -> None:
        """Take no answer of the device any more, as if it gave none."""
        self._frozen = True

    def close(self) -> None:
        """End the channel; calls under way come back with a fault."""
        self._channel.close()

    @property
    def listening(self) -> bool:
        """Whether the other end may still be there."""
        return self._thread.is_alive()

    def join(self, timeout_s: float) -> None:
        """Wait for the thread, after ``close``, if it was ever there."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _listen(self) -> None:
        try:
            while True:
                self._take(self._channel.receive())
        except ChannelEnded:
            pass
        except Exception:
            # A device that does not answer as it should counts as gone.
            self._channel.close()
        self._lose()

    def _lose(self) -> None:
        fault = self._lost()
        with self._lock:
            self._fault = fault
            given, self._given = self._given, {}
        for call, incarnation, _ in given.values():
            self._post(Ended(call, incarnation, fault=fault))
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
                sent = heard(values, packet.files)
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
        self._post(Ended(call, incarnation, **answer))


class DeviceEnd:
    """A worker whose calls come and go over a channel, on as many threads as it has streams.

    The thread that receives a call runs it: no call waits for a thread to be woken.
    """

    def __init__(
        self, device: str, channel: Channel, memory: Memory, worker: DeviceWorker, streams: int
    ) -> None:
        self._device = device
        self._channel = channel
        self._memory = memory
        self._worker = worker
        self._streams = streams
        self._turn = threading.Lock()

    def start(self) -> None:
        """Serve until the other end is gone. Raises OutOfRoom without a thread for each stream."""
        try:
            for index in range(self._streams):
                name = f"hetsim call {index}"
                begun(threading.Thread(target=self._serve, name=name, daemon=True))
        except OutOfRoom:
            self._channel.close()
            raise

    def _serve(self) -> None:
        # Whatever breaks on the way ends the channel: the caller takes the device for dead.
        with suppress(Exception):
            while True:
                self._answer(self._next_call())
        self._channel.close()

    def _next_call(self) -> Packet:
        with self._turn:
            while True:
                packet = self._channel.receive()
                if packet.content[0] == _CALL:
                    return packet
                _, version, request = packet.content
                self._worker.forget(version, request)

    def _answer(self, packet: Packet) -> None:
        _, number, version, request, step, values = packet.content
        try:
            received = [held.value() for held in heard(values, packet.files)]
            timing, *sent = self._worker.run(version, request, step, *received)
            made = [Held.of(value, self._memory) for value in sent]
            answer, files = told(made, self._memory)
        except Exception as error:
            self._channel.send((_FAILED, number, _own_class(error_of_device(error, self._device))))
        else:
            self._channel.send((_ENDED, number, tuple(timing), answer), files)


def _own_class(error: ExecutionError) -> ExecutionError:
    """Return an error as of the nearest of hetsim's own classes, which every process has."""
    kind: Any = next(k for k in type(error).__mro__ if k.__module__ == hetsim.errors.__name__)
    known = {entry.name: getattr(error, entry.name) for entry in fields(kind)}
    found: ExecutionError = kind(known.pop("what"), **known)
    return found
