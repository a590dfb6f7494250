"""What is said of devices that do not answer."""

from __future__ import annotations

from collections.abc import Sequence

from hetsim.errors import TimedOut


def unanswered(devices: Sequence[str], doing: str, timeout_s: float) -> TimedOut:
    """Return the error of `devices` that were `doing` something when the time was up."""
    named = ", ".join(f"'{device}'" for device in devices)
    noun = "device" if len(devices) == 1 else "devices"
    return TimedOut(
        f"{noun} {named} did not answer within {timeout_s:g} s while {doing}",
        hint="allow a longer timeout",
        devices=tuple(devices),
        timeout_s=timeout_s,
    )
