"""Devices made ready, all before anything runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from hetsim.execution.devices.program import Program
from hetsim.execution.dispatch.transport import Loaded, Transport

Next = Callable[[float, Sequence[str], str], object]
"""Waits for an event until a time of the monotonic clock, of these devices, which do this then.

Raises TimedOut, naming them, where none comes.
"""


def load_all(
    transport: Transport, version: int, program: Program, next_event: Next, timeout_s: float
) -> None:
    """Have every device of a program compile its subgraphs, within so many real seconds.

    Raises ExecutionError where one does not.
    """
    waiting = dict.fromkeys(program.code)
    deadline = time.monotonic() + timeout_s
    for device in waiting:
        transport.load(device, 0, version, program)
    while waiting:
        event = next_event(deadline, tuple(waiting), "compiling subgraphs")
        if isinstance(event, Loaded):
            if event.error is not None:
                raise event.error
            del waiting[event.device]
