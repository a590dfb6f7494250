"""What a kin knows of networks: how far the formula was from each that its devices ran."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hetsim.hardware.datasheet import Datasheet
from hetsim.hardware.kernel_figures import KernelFigures
from hetsim.hardware.limits import Limits
from hetsim.hardware.unmeasured import ByDatasheet

TRAITS = (
    # Twice the root of the share of the time that kernels of these forms take.
    "dense", "pointwise", "depthwise", "grouped", "transposed", "matmul", "normalization",
    "elementwise", "movement", "resize", "recurrent",
    # What is usual about its kernels, as logarithms and roots.
    "seconds", "kernels", "columns", "rows", "launch", "weights",
)  # fmt: skip
"""What tells networks apart, whatever they are called; ``hetsim.cost.kernels.likeness`` derives
them from the kernels of a network, priced at the mean figures of the kin."""


@dataclass(frozen=True, slots=True)
class KnownNetwork:
    """A network that devices of a kin ran.

    Attributes
    ----------
    name : str
        For reports; nothing is decided by it.
    batch : int
    devices : int
        How many ran it.
    effect : float
        Logarithm of measured over predicted, what these devices have in common.
    traits : tuple of float
        In the order of `TRAITS`, at its batch.
    alone : tuple of float
        The same of one sample, by which it is known again at other batches.
    """

    name: str
    batch: int
    devices: int
    effect: float
    traits: tuple[float, ...]
    alone: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Heard:
    """A network that no device of a kin ran, but devices with another runtime of its maker did.

    Attributes
    ----------
    network : KnownNetwork
        With the effect of which `share` is expected.
    share : float
        Of the variance of effects, what is known by those of the others: above 0, below 1.
    """

    network: KnownNetwork
    share: float


@dataclass(frozen=True, slots=True)
class Kin:
    """Devices with one runtime and precision: their mean, and what it misses of networks.

    Effects are jointly normal: of variance ``sd**2``, of which networks at a distance d of
    traits share the part ``shared * exp(-d**2 / 2 / length**2)``, and batches of one network the
    more of the rest the nearer they are.

    Attributes
    ----------
    name, runtime, source : str
    activation_bytes, weight_bytes : float
        That one element of floats takes.
    mean : tuple of float
        Figures, in the order of ``PARAMETERS``, in SI units.
    sd : float
        Standard deviation of effects.
    shared : float
        From 0, a network says nothing of others, to 1.
    length : float
        How far along the traits a network says something of another.
    noise : float
        Standard deviation of one device's effect about the common one.
    networks : tuple of KnownNetwork
    heard : tuple of Heard
        What kins of the same maker's runtimes say of networks that it did not run.
    by_datasheet : ByDatasheet or None
        What it says of devices that nobody measured.
    """

    name: str
    runtime: str
    source: str
    activation_bytes: float
    weight_bytes: float
    mean: tuple[float, ...]
    sd: float
    shared: float
    length: float
    noise: float
    networks: tuple[KnownNetwork, ...]
    heard: tuple[Heard, ...] = ()
    by_datasheet: ByDatasheet | None = None

    def figures(
        self, precision: str, sheet: Datasheet, limits: Limits | None = None
    ) -> KernelFigures:
        """Return the figures of a device of which `sheet` alone is known, where it says some."""
        assert self.by_datasheet is not None
        values = self.by_datasheet.values(self.mean, sheet, limits)
        return self.by_datasheet.figures(self.name, self.runtime, self.source, precision, values)


@dataclass(frozen=True, slots=True)
class Likely:
    """What a kin's networks say of another one.

    Attributes
    ----------
    effect : float
        Logarithm of the factor on the formula's seconds.
    sd : float
        Its standard deviation.
    usual_sd : float
        The same for the networks of the kin, each told by the others: what the errors of
        predictions of networks that were left out have in them.
    noise : float
        Standard deviation of one device's effect about the common one.
    same : bool
        Whether the kin ran this very network, as far as its kernels tell.
    networks : tuple of str
        Those that it is like, the most alike first; empty where there is none.
    """

    effect: float
    sd: float
    usual_sd: float
    noise: float
    same: bool
    networks: tuple[str, ...]

    @property
    def surer(self) -> float:
        """Variance relative to the usual one of networks that none of the kin ran."""
        return (self.sd / self.usual_sd) ** 2 if self.usual_sd > 0 else 1.0

    @property
    def factor(self) -> float:
        """By what the formula's seconds are multiplied."""
        return math.exp(self.effect)

    def __str__(self) -> str:
        if not self.networks:
            return "like no network of its kin"
        names = f"{'as' if self.same else 'like'} {', '.join(self.networks)}"
        return f"{names}: {100 * (self.factor - 1):+.0f} %"
