"""What is said of devices that do not answer."""

from __future__ import annotations

from collections.abc import Sequence

from hetsim.errors import ExecutionError


def unanswered(devices: Sequence[str], doing: str, timeout_s: float) -> ExecutionError:
    """Return the error of `devices` that were `doing` something when the time was up."""
    named = ", ".join(f"'{device}'" for device in devices)
    noun = "device" if len(devices) == 1 else "devices"
    return ExecutionError(
        f"{noun} {named} did not answer within {timeout_s:g} s while {doing}",
        hint="allow a longer timeout",
    )
