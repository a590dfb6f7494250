"""By how much a plan misses the memory of its devices, by the clock's own rule."""

from __future__ import annotations

from dataclasses import dataclass

from hetsim.base.units import format_bytes
from hetsim.errors import OutOfMemory
from hetsim.plans.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.playing import peak_memory


@dataclass(frozen=True, slots=True)
class Excess:
    """What a plan holds beyond its devices' memory.

    Attributes
    ----------
    total : int
        Bytes over all devices; 0 where it fits.
    peaks : tuple of int
        The most bytes that each device holds.
    latency_s : float
    """

    total: int
    peaks: tuple[int, ...]
    latency_s: float


def excess(plan: Plan) -> Excess:
    """Play one request and count. Raises what ``simulate`` raises, but for OutOfMemory."""
    latency_s, peaks = peak_memory(plan)
    capacity = plan.problem.capacity_bytes
    total = 0
    if capacity is not None:
        total = sum(max(0, peak - held) for peak, held in zip(peaks, capacity, strict=True))
    return Excess(total, tuple(peaks), latency_s)


def refusal(problem: Problem, over: Excess, what: str) -> OutOfMemory:
    """Return the error that says by how much, and where, the closest plan misses."""
    assert problem.capacity_bytes is not None
    lacks = [peak - held for peak, held in zip(over.peaks, problem.capacity_bytes, strict=True)]
    device = max(range(len(lacks)), key=lambda p: (lacks[p], -p))
    peak, held = (
        problem.held_bytes(device, nbytes)
        for nbytes in (over.peaks[device], problem.capacity_bytes[device])
    )
    return OutOfMemory(
        f"{what}; the closest needs {format_bytes(peak)} ({peak} bytes) there "
        f"and it has {format_bytes(held)} ({held} bytes)",
        where=f"device '{problem.devices[device]}'",
        hint="add memory or a device, or take back pins and exclusions",
        device=problem.devices[device],
        needed_bytes=peak,
        held_bytes=held,
    )
