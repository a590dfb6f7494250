"""Interface between a session's loop and threads or Ray."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol

from hetsim.errors import ExecutionError, OutOfRoom, TimedOut
from hetsim.execution.dispatch.dispatcher import Call
from hetsim.execution.program import Program, Step, Timing


def unanswered(devices: Sequence[str], doing: str, timeout_s: float) -> TimedOut:
    """Return the error of `devices` that were `doing` something at the timeout."""
    named = ", ".join(f"'{device}'" for device in devices)
    noun = "device" if len(devices) == 1 else "devices"
    return TimedOut(
        f"{noun} {named} did not answer within {timeout_s:g} s while {doing}",
        hint="use a longer timeout",
        devices=tuple(devices),
        timeout_s=timeout_s,
    )


FaultKind = Literal["kernel", "out of memory", "died", "lost input", "hang"]

_MEMORY = re.compile(r"failed to allocate memory|bad_alloc|out of memory|cannot allocate", re.I)


@dataclass(frozen=True, slots=True)
class Fault:
    """Fault of a call."""

    kind: FaultKind
    error: ExecutionError
    values_lost: bool = False
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Loaded:
    """Result of compiling a version of the program on a device."""

    device: str
    incarnation: int
    version: int
    error: ExecutionError | None = None
    process: int = 0


class CallEnded(NamedTuple):
    """Result of a call: its timing and the handles of its values, or a fault."""

    call: Call
    incarnation: int
    sent: Mapping[str, Any] = MappingProxyType({})
    fault: Fault | None = None
    timing: Timing | None = None


@dataclass(frozen=True, slots=True)
class Fetched:
    """Outputs of a request, or the names of lost values."""

    request: int
    outputs: Mapping[str, Any]
    lost: tuple[str, ...] = ()


def sent_by(event: CallEnded) -> Mapping[str, Any]:
    """Return the values sent by a call. Raises its error if it failed."""
    if event.fault is not None:
        raise event.fault.error
    return event.sent


def outputs_of(event: Fetched) -> Mapping[str, Any]:
    """Return outputs that have arrived. Raises ExecutionError if one is lost."""
    if event.lost:
        raise ExecutionError(f"output '{event.lost[0]}' was lost")
    return event.outputs


@dataclass(frozen=True, slots=True)
class Lost:
    """Loss of all devices with their transport; none can be restarted."""

    error: ExecutionError


Post = Callable[[object], None]
"""Function that takes an event from any thread."""


class Transport(Protocol):
    """Transport to devices. No method waits for a device; answers are posted as events."""

    def load(self, device: str, incarnation: int, version: int, program: Program) -> None:
        """Start the device if needed, and compile; posts ``Loaded``."""

    def call(self, call: Call, incarnation: int, step: Step, received: Sequence[Any]) -> None:
        """Run a step with the handles that it receives; posts ``CallEnded``."""

    def forget(self, device: str, version: int, request: int) -> None:
        """Drop what a device holds for a request."""

    def discard(self, device: str) -> None:
        """Terminate a device, whatever it is doing; its further events are ignored."""

    def harm(self, device: str, kind: Literal["kill", "hang"]) -> None:
        """Make a device fail, to test recovery."""

    def hand(self, value: Any) -> Any:
        """Return the handle of an input. Raises ExecutionError if there is no room for it."""

    def fetch(self, request: int, handles: Mapping[str, Any]) -> None:
        """Transfer values to this process; posts ``Fetched``."""

    def close(self) -> None:
        """End all devices; nothing remains when it returns."""


def kernel_fault(error: ExecutionError) -> Fault:
    """Return the fault of a kernel's exception, with out-of-memory as its own kind."""
    if isinstance(error, OutOfRoom):
        ended = error.short_of == "memory"
    else:
        # Errors of other packages' runtimes.
        ended = _MEMORY.search(error.what) is not None
    return Fault("out of memory" if ended else "kernel", error)
