"""What Ray's errors mean: of a device, of its calls, and of an object store that is full."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ray.exceptions import (
    ActorUnavailableError,
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    RayActorError,
    RayTaskError,
)

from hetsim.errors import DeviceLost, ExecutionError, OutOfRoom
from hetsim.execution.devices.worker import error_of_device
from hetsim.execution.dispatch.transport import Fault, kernel_fault


def out_of_store(error: BaseException, what: str, nbytes: int = 0) -> OutOfRoom | None:
    """Return what to say where `error` of Ray's means that its store is full; None of any other."""
    from ray.exceptions import ObjectStoreFullError, OutOfDiskError

    if isinstance(error, OutOfDiskError):
        full, short_of = (
            "Ray's object store, and the disk that it moves values to, are full",
            "disk",
        )
    elif isinstance(error, ObjectStoreFullError):
        full, short_of = "Ray's object store is full", "memory"
    else:
        return None
    size = f"{what} of {nbytes} bytes" if nbytes else what
    return OutOfRoom(
        f"{size} cannot be stored: {full}",
        hint="let fewer requests be in flight, give Ray a larger object store, or make room there",
        short_of=short_of,
        needed_bytes=nbytes,
    )


_PROCESS_ALONE = re.compile(r"ray\.kill|worker process|exit type|intended", re.I)
_NODE = re.compile(r"node (has )?died|node.*(dead|terminated)|preempt", re.I)
_MADE = "what it made"
_READ_LENGTH = 10_000
"""Of an error's text what is looked at: names in it may be of any length."""

_BECAUSE = re.compile(
    r"The actor (?:is dead|died) because (.*?)\.?(?: Node Id:| Worker exit type|$)"
)


def fault_of(error: BaseException, device: str, received: Sequence[str]) -> Fault:
    """Return what a failed call says of `device`."""
    said = translated(error, device)
    if isinstance(error, OutOfMemoryError):
        return Fault("out of memory", said, values_lost=False)
    if isinstance(error, RayActorError | NodeDiedError):
        return Fault("died", said, values_lost=node_may_be_gone(error))
    if isinstance(error, ObjectLostError) or "ObjectLostError" in str(error) or _lost(error):
        return Fault("lost input", said, lost=tuple(received))
    return kernel_fault(said)


def node_may_be_gone(error: BaseException) -> bool:
    """Whether what the actor left in its node's object store may be gone with it."""
    if isinstance(error, ActorUnavailableError | NodeDiedError):
        return True
    text = str(error)[:_READ_LENGTH]
    return bool(_NODE.search(text)) or not _PROCESS_ALONE.search(text)


def translated(error: BaseException, device: str) -> ExecutionError:
    """Return one of Ray's errors as hetsim's, in one line."""
    where = f"device '{device}'"
    # First, for an error of a task is of the class of its cause as well.
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
    if isinstance(error, NodeDiedError | OutOfMemoryError):
        kind = "died" if isinstance(error, NodeDiedError) else "out of memory"
        what = f"{type(error).__name__}: {lines[0] if lines else ''}"
        return DeviceLost(what, where=where, device=device, kind=kind)
    return ExecutionError(f"{type(error).__name__}: {lines[0] if lines else ''}", where=where)


def _lost(error: BaseException) -> bool:
    return isinstance(error, RayTaskError) and isinstance(error.cause, ObjectLostError)


def _death(lines: Sequence[str], device: str) -> DeviceLost:
    """What Ray says of an actor that died, in one line: an exception, or how its process ended."""
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
        hint="see whether its machine ran out of memory",
        device=device,
    )
