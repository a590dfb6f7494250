"""What a cost model is: a kernel on a device in, an estimate out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hetsim.graph.work import Work
from hetsim.hardware.spec import DeviceSpec


@dataclass(frozen=True, slots=True)
class Kernel:
    """What one launch does: one node, or several fused ones.

    Attributes
    ----------
    works : tuple of Work
        The members' work, in graph order, without the bytes of what goes from one to the other:
        fusing keeps it out of memory.
    """

    works: tuple[Work, ...]


@dataclass(frozen=True, slots=True)
class Estimate:
    """Predicted time of one kernel, and what it is made of.

    Attributes
    ----------
    seconds : float
        The whole, launch included.
    compute_s, memory_s, launch_s : float
        The parts; how they make the whole is the model's own affair (a roofline takes the
        larger of the first two).
    provenance : str
        The model, and the assumptions it had to make for this kernel.
    """

    seconds: float
    compute_s: float
    memory_s: float
    launch_s: float
    provenance: str


class CostModel(Protocol):
    """Anything that prices kernels; deterministic and free of state that changes."""

    def estimate(self, device: DeviceSpec, kernel: Kernel) -> Estimate:
        """Return the time of `kernel` on `device`."""
        ...
