"""Ray actor of a device: placement, weights, compilation, and translation of Ray's errors."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import (
    ActorUnavailableError,
    NodeDiedError,
    ObjectLostError,
    ObjectStoreFullError,
    OutOfDiskError,
    OutOfMemoryError,
    RayActorError,
    RayError,
    RayTaskError,
)

from hetsim.errors import Cancelled, DeviceLost, ExecutionError, OutOfRoom
from hetsim.execution.cluster import Versions, actor_options, check_versions, nodes_of, own_versions
from hetsim.execution.dispatch.transport import Fault, kernel_fault, unanswered
from hetsim.execution.program import Program
from hetsim.execution.transports.channel import Channel, SharedSegment, accept, connect, serve
from hetsim.execution.transports.live_cluster import refuse_unplaceable
from hetsim.execution.weights import Shipments
from hetsim.execution.worker import DeviceWorker, error_of_device


def out_of_store(error: BaseException, what: str, nbytes: int = 0) -> OutOfRoom | None:
    """Return the error if Ray's `error` means that its store is full, else None."""
    if isinstance(error, OutOfDiskError):
        full, short_of = (
            "Ray's object store, and the disk that it spills to, are full",
            "disk",
        )
    elif isinstance(error, ObjectStoreFullError):
        full, short_of = "Ray's object store is full", "memory"
    else:
        return None
    size = f"{what} of {nbytes} bytes" if nbytes else what
    return OutOfRoom(
        f"{size} cannot be stored: {full}",
        hint="allow fewer requests in flight, give Ray a larger object store, or free space there",
        short_of=short_of,
        needed_bytes=nbytes,
    )


_PROCESS_ALONE = re.compile(r"ray\.kill|worker process|exit type|intended", re.I)
_NODE = re.compile(r"node (has )?died|node.*(dead|terminated)|preempt", re.I)
_MADE = "what it made"
_READ_LENGTH = 10_000
"""Maximum length of an error's text to examine, as names may be of any length."""

_BECAUSE = re.compile(
    r"The actor (?:is dead|died) because (.*?)\.?(?: Node Id:| Worker exit type|$)"
)


def fault_of(error: BaseException, device: str, received: Sequence[str]) -> Fault:
    """Return the fault of `device` behind a failed call."""
    said = translated(error, device)
    if isinstance(error, OutOfMemoryError):
        return Fault("out of memory", said, values_lost=False)
    if isinstance(error, RayActorError | NodeDiedError):
        return Fault("died", said, values_lost=node_may_be_gone(error))
    if isinstance(error, ObjectLostError) or "ObjectLostError" in str(error) or _lost(error):
        return Fault("lost input", said, lost=tuple(received))
    return kernel_fault(said)


def node_may_be_gone(error: BaseException) -> bool:
    """Return whether the actor's values may be lost with its node's object store."""
    if isinstance(error, ActorUnavailableError | NodeDiedError):
        return True
    text = str(error)[:_READ_LENGTH]
    return bool(_NODE.search(text)) or not _PROCESS_ALONE.search(text)


def translated(error: BaseException, device: str) -> ExecutionError:
    """Return one of Ray's errors as hetsim's, in one line."""
    where = f"device '{device}'"
    # First, as an error of a task also has the class of its cause.
    if isinstance(error, RayTaskError):
        if isinstance(error.cause, ExecutionError):
            return error.cause
        short = out_of_store(error.cause, _MADE)
        return (
            error_of_device(error.cause, device) if short is None else replace(short, where=where)
        )
    short = out_of_store(error, _MADE)
    if short is not None:
        return replace(short, where=where)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if isinstance(error, RayActorError):
        return _death(lines, device)
    what = f"{type(error).__name__}: {lines[0] if lines else ''}"
    if isinstance(error, NodeDiedError | OutOfMemoryError):
        kind = "died" if isinstance(error, NodeDiedError) else "out of memory"
        return DeviceLost(what, where=where, device=device, kind=kind)
    return ExecutionError(what, where=where)


def _lost(error: BaseException) -> bool:
    return isinstance(error, RayTaskError) and isinstance(error.cause, ObjectLostError)


def _death(lines: Sequence[str], device: str) -> DeviceLost:
    """Return Ray's reason for an actor's death, in one line: an exception or process exit."""
    where = f"device '{device}'"
    last = lines[-1] if lines else ""
    if re.match(r"\w+(Error|Exception)\b", last):
        hint = "install this hetsim on every node" if "No module" in last else None
        said = f"its Ray actor did not start: {last}"
        return DeviceLost(said, where=where, hint=hint, device=device)
    because = _BECAUSE.search(" ".join(lines)[:_READ_LENGTH])
    reason = because[1] if because is not None else last
    return DeviceLost(
        f"its Ray actor died: {reason}",
        where=where,
        hint="check whether its machine ran out of memory",
        device=device,
    )


FileFacts = tuple[int, int]
"""Size in bytes and modification time in nanoseconds, which identify a file's version."""


def file_facts(folder: str, locations: Sequence[str]) -> dict[str, FileFacts | None]:
    """Return the facts of each file below `folder`; None for a missing one."""
    found: dict[str, FileFacts | None] = {}
    for location in locations:
        try:
            status = os.stat(Path(folder) / location)
        except OSError:
            found[location] = None
        else:
            found[location] = (status.st_size, status.st_mtime_ns)
    return found


class DeviceActor(DeviceWorker):
    """Worker on a machine that Ray chose."""

    def hello(self) -> tuple[str, Versions]:
        """Return the id of its node, and the installed versions."""
        return ray.get_runtime_context().get_node_id(), own_versions()

    def sees(self, folder: str, facts: Mapping[str, FileFacts | None]) -> bool:
        """Return whether the files below `folder` on this machine match `facts`."""
        return file_facts(folder, tuple(facts)) == facts

    def join(self, name: str, streams: int) -> bool:
        """Accept calls over a channel too, if the caller waits at `name` on this machine."""
        channel = connect(name, SharedSegment()) if sys.platform == "linux" else None
        if channel is not None:
            serve(channel, self, streams)
        return channel is not None

    def call(self, version: int, request: int, index: int, *received: Any) -> Any:
        """Run step `index`; return its timing and then the values that it sends."""
        results = self.run(version, request, index, *received)
        return results if len(results) > 1 else results[0]


_LOOK_S = 0.25
"""Interval for checking whether a node remains for an actor that does not answer."""

_FULL_S = 5.0
"""Seconds for which a resource must appear used up, as Ray's view lags behind."""


@dataclass(frozen=True, slots=True)
class Actor:
    """Ray actor of a device."""

    handle: Any
    where: Mapping[str, Any]


def create(device: str, devices: tuple[str, ...], streams: int) -> Actor:
    """Create the Ray actor of `device`, one of all the program's `devices`."""
    nodes = nodes_of(ray.nodes())  # type: ignore[no-untyped-call]
    where = actor_options(devices, nodes)[device]
    kind = ray.remote(DeviceActor).options(
        num_cpus=0,
        max_restarts=0,
        # One thread more than streams, so that it can get messages while all of them work.
        max_concurrency=streams + 1,
        # Ray's head would record every call: its memory would grow with each request.
        enable_task_events=False,
        **where,
    )
    return Actor(kind.remote(device), where)


def load(
    device: str,
    actor: Actor,
    version: int,
    program: Program,
    timeout_s: float,
    *,
    shipments: Shipments | None,
    given_up: Callable[[], bool],
) -> int:
    """Compile an actor's subgraphs of `program`; return its process id."""
    wait_for = _Waiting(device, bool(actor.where), timeout_s, given_up)
    weights_dir = program.weights_dir
    if shipments is not None:
        node, there = wait_for(actor.handle.hello.remote(), "starting")
        wait_for.started = True
        check_versions(own_versions(), there, f"device '{device}'")
        if weights_dir is not None and (extents := program.extents(device)):
            locations = sorted({extent.location for extent in extents})
            seen = actor.handle.sees.remote(weights_dir, file_facts(weights_dir, locations))
            if not wait_for(seen, "looking for the weights"):
                weights_dir = shipments.place(node, weights_dir, extents, wait_for)
    own = replace(program.only(device), weights_dir=weights_dir)
    process: int = wait_for(actor.handle.load.remote(version, own), "compiling subgraphs")
    return process


def join(
    device: str,
    actor: Actor,
    memory: SharedSegment,
    streams: int,
    timeout_s: float,
    given_up: Callable[[], bool],
) -> Channel | None:
    """Return a channel to an actor that has answered; None if it is on another machine."""
    if sys.platform != "linux":
        return None
    wait_for = _Waiting(device, bool(actor.where), timeout_s, given_up, started=True)
    asked = actor.handle.join
    return accept(memory, lambda name: wait_for(asked.remote(name, streams), "opening a channel"))


@dataclass(slots=True)
class _Waiting:
    """Waiter for an actor's answer, as long as it can still answer.

    A `bound` actor goes to a particular node; one that has `started` has answered before.
    """

    device: str
    bound: bool
    timeout_s: float
    given_up: Callable[[], bool]
    started: bool = False
    began_s: float = field(default_factory=time.monotonic)
    full_since_s: float | None = None

    def __call__(self, reference: Any, doing: str) -> Any:
        """Return the value of `reference`; see ``load`` for the errors."""
        while True:
            if self.given_up():
                raise Cancelled("cancelled", where=f"device '{self.device}'")
            left = self.began_s + self.timeout_s - time.monotonic()
            ready, _ = ray.wait([reference], timeout=max(0.0, min(left, _LOOK_S)))
            if ready:
                try:
                    return ray.get(reference)
                except RayError as error:
                    if self.bound and isinstance(error, RayActorError):
                        # Its node may be the cause of its death, and no other may offer the device.
                        refuse_unplaceable(self.device, started=True)
                    raise translated(error, self.device) from error
            if left <= 0:
                raise unanswered((self.device,), doing, self.timeout_s)
            if self.bound:
                self._refuse_hopeless()

    def _refuse_hopeless(self) -> None:
        refuse_unplaceable(self.device, started=True)
        if self.started:
            return
        try:
            refuse_unplaceable(self.device, started=False)
        except ExecutionError:
            now = time.monotonic()
            if self.full_since_s is None:
                self.full_since_s = now
            elif now - self.full_since_s >= _FULL_S:
                raise
        else:
            self.full_since_s = None
