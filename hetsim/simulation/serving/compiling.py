"""The driver of plans under load as machine code, and from when on that pays."""

from __future__ import annotations

import functools
from collections.abc import Callable

from hetsim.core import left_to_python
from hetsim.core.machine_code import machine_code
from hetsim.simulation.clock.virtual_time import PARTS
from hetsim.simulation.serving import batcher, driver, lengths, residency, routing

INLINED = (
    *PARTS,
    lengths.double,
    lengths.account,
    batcher.append,
    batcher.unlink,
    batcher.walk,
    batcher.decide,
    batcher.wait,
    batcher.take_first,
    residency.wake,
    residency.unclaim,
    residency.outrun,
    residency.able,
    residency.missing,
    residency.evict,
    residency.use,
    residency.reserve,
    residency.settle,
    residency.renounce,
    residency.fetch,
    residency.arrived,
    residency.occupy,
    residency.vacate,
    routing.choose,
    routing.leave,
    routing.send,
    driver.upcoming,
    driver.launch,
    driver.mark,
    driver.ring,
    driver.answered,
    driver.answer,
    driver.full,
    driver.sized,
    driver.finish,
    driver.come,
    driver.look,
)
"""What ``driver.advance`` calls on arrays, each after what it calls itself."""

COMPILE_FROM, LEAST = 250_000, 500
"""Task events that take plain Python a second, of all that a process plays; of one play, those that
outweigh handing over its arrays."""


@functools.cache
def compiled() -> Callable[..., int]:
    """Return ``driver.advance`` as machine code. The first call in a process loads or makes it."""
    return machine_code(driver.advance, *INLINED, inline=True)


def pays(events: float) -> bool:
    """Return whether so many task events are for machine code; see ``left_to_python.pays``."""
    return left_to_python.pays(compiled, driver.advance, events, LEAST, COMPILE_FROM)
