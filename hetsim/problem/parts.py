"""What a Problem is made of: what moves, what stays, what runs as one, what goes by the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hetsim.errors import InvalidInput, nearest

Contention = Literal["none", "fifo"]
GRAPH_INPUT = -1
"""Producer of a value that the caller provides."""


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor that may have to move between devices.

    Attributes
    ----------
    name : str
    nbytes : int
    producer : int
        Node id, or GRAPH_INPUT for an input of the model.
    consumers : tuple of int
        Node ids, ascending, unique; empty for a value that is only an output.
    is_output : bool
        Whether it must end on the host.
    """

    name: str
    nbytes: int
    producer: int
    consumers: tuple[int, ...]
    is_output: bool = False


@dataclass(frozen=True, slots=True)
class Constant:
    """Weights: resident on every device that runs one of its consumers, once each."""

    name: str
    nbytes: int
    consumers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Slower:
    """By what factor devices are slower than alone, as others are busy as well.

    Attributes
    ----------
    power : float
        Of all devices, as their clocks fall.
    memory : tuple of float
        By device, as others draw on its memory.
    """

    power: float
    memory: tuple[float, ...]

    @property
    def factors(self) -> tuple[float, ...]:
        """By device, of both."""
        return tuple(self.power * factor for factor in self.memory)


@dataclass(frozen=True, slots=True)
class FusedKernel:
    """Nodes that one device runs as one kernel when they are in one subgraph.

    Attributes
    ----------
    device : int
    nodes : tuple of int
        Ascending; the kernels of one device are disjoint.
    seconds : float
        Replaces the sum of the nodes' own times.
    pattern : str
        The pattern by which the device supports these nodes as a whole, even those that it
        does not support alone. ``""``: a fusion that saves time and nothing else.
    """

    device: int
    nodes: tuple[int, ...]
    seconds: float
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class Held:
    """How a device holds tensors of which a model says another width.

    Attributes
    ----------
    wide_bits, bits : int
        An element in the graph, and on the device.
    kept_bytes : int
        Of tensors that are held as wide as the graph says, at the most.
    """

    wide_bits: int = 1
    bits: int = 1
    kept_bytes: int = 0

    @classmethod
    def within(cls, capacity: int, wide_bits: int, bits: int, kept_bytes: int) -> Held:
        """Return how memory of `capacity` bytes holds them.

        As the graph says where what is kept leaves no room to gain.
        """
        made = cls(wide_bits, bits, kept_bytes if wide_bits > bits else 0)
        return cls() if wide_bits > bits and made.room(capacity) <= capacity else made

    def room(self, nbytes: int) -> int:
        """Return how many bytes of the graph's types fit `nbytes` of the device, at the least."""
        kept = (self.wide_bits - self.bits) * self.kept_bytes
        return max(0, (nbytes * self.wide_bits - kept) // self.bits)

    def nbytes(self, stated: int) -> int:
        """Return the bytes on the device of `stated` bytes of the graph's types, at the most."""
        kept = (self.wide_bits - self.bits) * min(self.kept_bytes, stated)
        return -(-(stated * self.bits + kept) // self.wide_bits)


@dataclass(frozen=True, slots=True)
class Staging:
    """What the device that moves tensors pays for each: to go through the host's memory, say.

    Or to convert them, where it computes in another precision than they cross in.

    A subgraph fetches each tensor that it reads from outside once, and puts each tensor that is
    needed outside there once, however many subgraphs read it. Both are part of its time, before
    and after its kernels.

    Attributes
    ----------
    fetch_s_per_byte, store_s_per_byte : tuple of float
        By device; 0 for a device that computes in that memory.
    ends : bool
        Whether inputs and outputs of the model count, where there is a host, or only what goes
        from one subgraph to another.
    """

    fetch_s_per_byte: tuple[float, ...]
    store_s_per_byte: tuple[float, ...]
    ends: bool = True


def shared_out(seconds: float, alone: NDArray[np.float64]) -> NDArray[np.float64]:
    """Split a fused kernel's `seconds` over its members, which take `alone` by themselves.

    In proportion to those times and never above them, so that a sum over whole kernels is exact;
    members that are not supported alone (inf) get what the others leave, in equal parts.
    """
    shares = alone.copy()
    finite = np.isfinite(alone)
    total = float(alone[finite].sum())
    if total > seconds:
        shares[finite] = alone[finite] * (seconds / total)
    shares[~finite] = max(0.0, seconds - total) / max(1, int((~finite).sum()))
    return shares


def check_contention(contention: str) -> Contention:
    """Return `contention` where it is known. Raises InvalidInput otherwise."""
    if contention == "none":
        return "none"
    if contention == "fifo":
        return "fifo"
    raise InvalidInput(
        f"unknown contention '{contention}'", hint=nearest(str(contention), ("fifo", "none"))
    )
