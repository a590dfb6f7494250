"""Devices as Ray actors: over channels on this machine, over Ray's object stores elsewhere."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal, TypeVar

import numpy as np
import ray
from ray.exceptions import RayError

from hetsim.core.process import begun
from hetsim.errors import ClusterError, DeviceLost, ExecutionError
from hetsim.execution.dispatch.dispatcher import Call
from hetsim.execution.dispatch.transport import CallEnded, Fault, Fetched, Loaded, Lost, Post
from hetsim.execution.program import Program, Step
from hetsim.execution.transports.channel import CallerEnd, SharedSegment, ValueInTransit
from hetsim.execution.transports.processes import held_interrupts
from hetsim.execution.transports.ray_actor import Actor, create, fault_of, join, load, out_of_store
from hetsim.execution.transports.ray_connection import RayConnection
from hetsim.execution.weights import Shipments
from hetsim.execution.worker import error_of_device

_INLINE_BELOW_BYTES = 100_000


def for_ray(handle: Any) -> Any:
    """Return Ray's argument for a local value: stored once for all readers."""
    if not isinstance(handle, ValueInTransit):
        return handle
    if handle.elsewhere is None:
        handle.elsewhere = stored(handle.value())
    return handle.elsewhere


def stored(value: Any) -> Any:
    """Return a small value itself, which travels with each call; else a store reference."""
    if not isinstance(value, np.ndarray) or value.nbytes < _INLINE_BELOW_BYTES:
        return value
    try:
        return ray.put(value)
    except RayError as error:
        raise out_of_store(error, "an input", value.nbytes) or ExecutionError(
            f"an input of {value.nbytes} bytes cannot be stored: {type(error).__name__}",
            hint="allow fewer requests in flight, or give Ray a larger object store",
        ) from error


def owned(value: Any) -> Any:
    """Return a copy of a value, as Ray's memory ends with the connection."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, list):
        return [owned(entry) for entry in value]
    return value


_GRACE_S = 5.0
_WHY_S = 30.0
"""Maximum seconds for Ray to report an actor's end."""


class RayTransport:
    """Transport with one actor per device, on the connected Ray.

    Actors on this machine take calls over channels, and their sent values are held here. Calls to
    others go through Ray with values by reference, so that large ones go from store to store.
    """

    def __init__(
        self,
        post: Post,
        connection: RayConnection,
        streams: Mapping[str, int],
        timeout_s: float,
    ) -> None:
        self._post = post
        self._connection = connection
        self._streams = streams
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._actors: dict[str, Actor] = {}
        self._methods: dict[tuple[str, int], Any] = {}
        self._ends: dict[str, CallerEnd] = {}
        self._ended: list[CallerEnd] = []
        self._memory = SharedSegment()
        self._shipments = Shipments()
        self._loading: list[threading.Thread] = []
        self._closed = False
        self._unheard = connection.loss.tell(self._lose)

    def _lose(self, error: ClusterError) -> None:
        # A lost Ray gets no calls: its code may end this process, or block forever.
        self._post(Lost(error))

    def load(self, device: str, incarnation: int, version: int, program: Program) -> None:

        def work() -> None:
            error: ExecutionError | None = None
            process = 0
            try:
                with self._lock:
                    if self._closed:
                        return
                    actor = self._actors.get(device)
                    if actor is None:
                        actor = create(device, tuple(program.code), self._streams.get(device, 1))
                        self._actors[device] = actor
                process = load(
                    device,
                    actor,
                    version,
                    program,
                    self._timeout_s,
                    shipments=None if self._connection.private else self._shipments,
                    given_up=lambda: self._given_up(device, actor),
                )
                if device not in self._ends:
                    self._join(device, actor)
            except Exception as fault:
                error = error_of_device(fault, device)
            self._post(Loaded(device, incarnation, version, error, process))

        thread = threading.Thread(target=work, name=f"hetsim load {device}", daemon=True)
        self._loading = [old for old in self._loading if old.is_alive()]
        self._loading.append(begun(thread, f"device '{device}'"))

    def _given_up(self, device: str, actor: Actor) -> bool:
        return self._closed or self._actors.get(device) is not actor

    def _join(self, device: str, actor: Actor) -> None:
        """Open a channel to an actor, if it is on this machine."""

        def given_up() -> bool:
            return self._given_up(device, actor)

        streams = self._streams.get(device, 1)
        channel = join(device, actor, self._memory, streams, self._timeout_s, given_up)
        if channel is None:
            return
        end = CallerEnd(channel, self._post, lambda: self._why(device, actor))
        with self._lock:
            if given_up():
                channel.release()
            else:
                self._ends[device] = end
                end.start()

    def _why(self, device: str, actor: Actor) -> Fault:
        """Return Ray's reason why the channel to an actor ended. Its sent values are held here."""
        lost = DeviceLost("its channel ended", where=f"device '{device}'", device=device)
        fault = Fault("died", lost)
        if self._connection.loss.error is None and not self._given_up(device, actor):
            try:
                ray.get(actor.handle.hello.remote(), timeout=_WHY_S)
            except RayError as error:
                told = fault_of(error, device, ())
                fault = told if told.kind in ("died", "out of memory") else fault
        return replace(fault, values_lost=False)

    def call(self, call: Call, incarnation: int, step: Step, received: Sequence[Any]) -> None:
        """Send a step over the device's channel, or submit it to Ray."""
        end = self._ends.get(call.device)
        if end is None:
            self._submit(call, incarnation, step, [for_ray(handle) for handle in received])
        elif any(isinstance(handle, ray.ObjectRef) for handle in received):
            self._call_when_here(end, call, incarnation, step, received)
        else:
            end.call(call, incarnation, step, received)

    def _submit(self, call: Call, incarnation: int, step: Step, received: Sequence[Any]) -> None:
        """Submit a step; Ray reports its end on a separate thread."""
        key = (call.device, len(step.sends))
        method = self._methods.get(key)
        if method is None:
            run = self._actors[call.device].handle.call
            method = self._methods[key] = run.options(num_returns=1 + len(step.sends))
        post = self._post
        try:
            returned = method.remote(call.version, call.request, call.step, *received)
        except RayError as error:
            post(CallEnded(call, incarnation, fault=fault_of(error, call.device, step.receives)))
            return
        end, *references = returned if step.sends else [returned]
        sent = dict(zip(step.sends, references, strict=True))

        def ended(future: Any) -> None:
            error = future.exception()
            if error is None:
                post(CallEnded(call, incarnation, sent, timing=future.result()))
            else:
                post(
                    CallEnded(call, incarnation, fault=fault_of(error, call.device, step.receives))
                )

        end.future().add_done_callback(ended)

    def _call_when_here(
        self, end: CallerEnd, call: Call, incarnation: int, step: Step, received: Sequence[Any]
    ) -> None:
        """Send a step over a channel once its inputs from other machines have arrived."""

        def here(found: Mapping[int, Any], errors: Mapping[int, BaseException]) -> None:
            try:
                for error in errors.values():
                    raise error
                held = {at: ValueInTransit.of(value, self._memory) for at, value in found.items()}
            except Exception as error:
                fault = fault_of(error, call.device, step.receives)
                self._post(CallEnded(call, incarnation, fault=fault))
            else:
                values = [held.get(at, handle) for at, handle in enumerate(received)]
                end.call(call, incarnation, step, values)

        _gathered({k: v for k, v in enumerate(received) if isinstance(v, ray.ObjectRef)}, here)

    def forget(self, device: str, version: int, request: int) -> None:
        actor, end = self._actors.get(device), self._ends.get(device)
        if end is not None:
            end.forget(version, request)
        elif actor is not None and self._connection.loss.error is None:
            with suppress(RayError):
                actor.handle.forget.remote(version, request)

    def discard(self, device: str) -> None:
        with self._lock:
            actor, end = self._actors.pop(device, None), self._ends.pop(device, None)
        if end is not None:
            end.close()
            self._ended = [old for old in self._ended if old.listening]
            self._ended.append(end)
        self._methods = {key: found for key, found in self._methods.items() if key[0] != device}
        if actor is not None and self._connection.loss.error is None:
            with suppress(RayError):
                ray.kill(actor.handle, no_restart=True)

    def harm(self, device: str, kind: Literal["kill", "hang"]) -> None:
        """Kill a device's actor without telling the session, or let it hang."""
        actor, end = self._actors.get(device), self._ends.get(device)
        if end is not None and kind == "hang":
            end.freeze()
        elif actor is not None:
            with suppress(RayError):
                if kind == "hang":
                    actor.handle.freeze.remote()
                else:
                    ray.kill(actor.handle, no_restart=True)
            if end is not None:
                # It may do much before it is killed: from now on none of that counts.
                end.close()

    def hand(self, value: Any) -> Any:
        """Copy an input to shared memory for local devices; without any, to Ray's store."""
        return ValueInTransit.of(value, self._memory) if self._ends else stored(value)

    def fetch(self, request: int, handles: Mapping[str, Any]) -> None:
        there = {name: one for name, one in handles.items() if isinstance(one, ray.ObjectRef)}
        here = {
            name: owned(handle.value()) if isinstance(handle, ValueInTransit) else handle
            for name, handle in handles.items()
            if name not in there
        }

        def came(found: Mapping[str, Any], errors: Mapping[str, BaseException]) -> None:
            outputs = {**here, **{name: owned(value) for name, value in found.items()}}
            self._post(Fetched(request, outputs, tuple(errors)))

        _gathered(there, came)

    def close(self) -> None:
        self._unheard()
        with held_interrupts():
            with self._lock:
                self._closed = True
            for device in tuple(self._actors):
                self.discard(device)
            if self._connection.loss.error is None:
                for thread in self._loading:
                    thread.join(_GRACE_S)
                self._shipments.close()
            for end in self._ended:
                end.join(_GRACE_S)


Key = TypeVar("Key")


def _gathered(
    references: Mapping[Key, Any],
    then: Callable[[Mapping[Key, Any], Mapping[Key, BaseException]], None],
) -> None:
    """Call `then`, on any thread, with the values of Ray's references, or their errors."""
    found: dict[Key, Any] = {}
    errors: dict[Key, BaseException] = {}
    lock = threading.Lock()

    def arrived(key: Key, future: Any) -> None:
        error = future.exception()
        with lock:
            if error is None:
                found[key] = future.result()
            else:
                errors[key] = error
            last = len(found) + len(errors) == len(references)
        if last:
            then(found, errors)

    if not references:
        then(found, errors)
    for key, reference in references.items():
        reference.future().add_done_callback(functools.partial(arrived, key))
