"""What is said of devices that do not answer, and who of them is to blame."""

from __future__ import annotations

from collections.abc import Sequence

from hetsim.errors import ExecutionError
from hetsim.execution.steps import Step


def unanswered(devices: Sequence[str], doing: str, timeout_s: float) -> ExecutionError:
    """Return the error of `devices` that were `doing` something when the time was up."""
    named = ", ".join(f"'{device}'" for device in devices)
    noun = "device" if len(devices) == 1 else "devices"
    return ExecutionError(
        f"{noun} {named} did not answer within {timeout_s:g} s while {doing}",
        hint="allow a longer timeout",
    )


def stuck(steps: Sequence[Step], done: Sequence[bool]) -> tuple[str, ...]:
    """Return the devices whose next step has all that it needs, and yet is not done.

    Parameters
    ----------
    steps : sequence of Step
        In order of submission.
    done : sequence of bool
        By step.

    Complexity: O(steps and what they receive).
    """
    maker = {name: index for index, step in enumerate(steps) for name in step.sends}
    waiting: dict[str, bool] = {}
    for step, finished in zip(steps, done, strict=True):
        if finished or step.device in waiting:
            continue
        waiting[step.device] = all(name not in maker or done[maker[name]] for name in step.receives)
    return tuple(device for device, ready in waiting.items() if ready)
