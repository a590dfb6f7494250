"""What was measured of a network, and how it was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hetsim.device.kernels.timing import TimedNetwork

_FROM, _TO = 0.1, 0.35
"""Of the repeats in order of size, those that count: above the luckiest, below what others on the
machine disturbed."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What measurements of one journal have in common.

    Attributes
    ----------
    provider : str
        Execution provider, as users name it.
    threads : int
        That one kernel is spread over.
    runtime : str
        Name and version of the runtime.
    machine : mapping of str to str
        As ``hetsim.cost.calibration.calibrate.machine`` tells it.
    design : int
        Version of the generated networks.
    """

    provider: str
    threads: int
    runtime: str
    machine: Mapping[str, str] = field(default_factory=dict)
    design: int = 0

    @property
    def clock(self) -> str:
        """What seconds are: CPU time on a CPU with one thread, else the wall clock."""
        return "cpu" if self.provider == "cpu" and self.threads == 1 else "wall"


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel of the runtime: name, op, elements of its first output, and seconds."""

    name: str
    op: str
    elements: int | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Taken:
    """What a network took, measured one time.

    Attributes
    ----------
    network : str
    round : int
        Which time it was.
    seconds : float
        A run, by the setting's clock.
    spread : float
        Relative: half of the middle 80 % of the repeats, over `seconds`.
    waited : float
        Share of the wall clock in which the process did not run.
    kernels : tuple of Kernel
        In the order of a run; empty where the runtime tells none.
    """

    network: str
    round: int
    seconds: float
    spread: float
    waited: float
    kernels: tuple[Kernel, ...]


def taken(network: str, round_: int, timed: TimedNetwork, setting: Setting) -> Taken:
    """Make one figure of the repeats of everything that was timed."""
    of = timed.cpu_s if setting.clock == "cpu" else timed.wall_s
    ordered = sorted(of)
    seconds = typical(ordered)
    low, high = ordered[len(ordered) // 10], ordered[-1 - len(ordered) // 10]
    waited = 1.0 - sum(timed.cpu_s) / max(sum(timed.wall_s), 1e-12)
    return Taken(
        network=network,
        round=round_,
        seconds=seconds,
        spread=(high - low) / 2 / seconds,
        waited=max(0.0, waited) if setting.clock == "cpu" else 0.0,
        kernels=tuple(
            Kernel(kernel.name, kernel.op, kernel.elements, typical(kernel.seconds))
            for kernel in timed.kernels
            if kernel.seconds
        ),
    )


def typical(values: Sequence[float]) -> float:
    """Return the mean of the repeats that nothing disturbed: the 10th to the 35th percentile."""
    ordered = sorted(values)
    first = int(len(ordered) * _FROM)
    chosen = ordered[first : max(first + 1, int(len(ordered) * _TO))]
    return sum(chosen) / len(chosen)


def merged(times: Sequence[Taken]) -> Taken:
    """Return one measurement of several of the same network: by kernel, the typical one.

    The spread is that of the repeats, or that between the times where it is larger.
    """
    if len(times) == 1:
        return times[0]
    by_name: dict[tuple[str, str], list[Kernel]] = {}
    for one in times:
        for kernel in one.kernels:
            by_name.setdefault((kernel.name, kernel.op), []).append(kernel)
    seconds = typical([one.seconds for one in times])
    apart = (max(one.seconds for one in times) - min(one.seconds for one in times)) / 2 / seconds
    return Taken(
        network=times[0].network,
        round=len(times),
        seconds=seconds,
        spread=max(apart, min(one.spread for one in times)),
        waited=min(one.waited for one in times),
        kernels=tuple(
            Kernel(name, op, found[0].elements, typical([kernel.seconds for kernel in found]))
            for (name, op), found in by_name.items()
            if len(found) == len(times)
        ),
    )
