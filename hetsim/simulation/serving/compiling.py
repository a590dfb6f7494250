"""The driver of plans under load as machine code, and from when on that pays."""

from __future__ import annotations

import functools
from collections.abc import Callable

from hetsim.base.code_folder import is_kept
from hetsim.base.machine_code import machine_code
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

LOADED_FROM, MADE_FROM = 10_000, 3_000_000
"""Task events from which machine code that is kept, or has to be made, costs less CPU time than it
saves."""

LOADED = 500
"""The same of what this process has loaded: what it takes to hand over what is played."""


@functools.cache
def compiled() -> Callable[..., int]:
    """Return ``driver.advance`` as machine code. The first call in a process loads or makes it."""
    return machine_code(driver.advance, *INLINED, inline=True)


def pays(events: float) -> bool:
    """Return whether machine code costs less CPU time than it saves over so many task events."""
    if compiled.cache_info().currsize:
        return events >= LOADED
    if events < LOADED_FROM:
        return False
    return events >= MADE_FROM or is_kept(driver.advance, *INLINED, inline=True)
