"""Device families: their mean figures, the networks they ran, and unmeasured members."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetsim.hardware.datasheet import COVARIATES, Datasheet, centred_covariates, covariates
from hetsim.hardware.kernel_figures import (
    INDEX,
    PARAMETERS,
    Basis,
    FigureError,
    KernelFigures,
)

Floats = NDArray[np.float64]

RATE, BANDWIDTH = INDEX["rate_tflops"], INDEX["bandwidth_gbytes_s"]
BEYOND, _WEIGHTS = INDEX["beyond_cache"], INDEX["weights_gbytes_s"]
OF_RATE = [INDEX[name] for name in ("pointwise", "depthwise", "grouped", "matmul", "batched")]
"""Rates relative to that of a dense convolution. Winograd's algorithm saves products: its gain is
not a rate of the unit."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of devices' parameters, as logarithms; infinite where unknown.

    - `flops`, `nbytes` [devices]: peak in FLOP/s, and the memory's bytes/s.
    - `held` [devices, parameters]: values known from elsewhere; NaN for free parameters.
    """

    flops: Floats
    nbytes: Floats
    held: Floats

    @classmethod
    def of(cls, flops_per_s: float | None, bytes_per_s: float | None) -> Limits:
        """Return the limits of one device."""
        known = (math.inf if one is None else math.log(one) for one in (flops_per_s, bytes_per_s))
        flops, nbytes = (np.array([one]) for one in known)
        return cls(flops, nbytes, np.full((1, len(PARAMETERS)), np.nan))

    def bounds(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return the least and the greatest logs [devices, parameters] around `theta`.

        Bounded products, the rate of a form and the bandwidth beyond caches, are bounded by their
        relative factor.
        """
        most = np.full(theta.shape, np.inf)
        most[:, RATE] = self.flops
        rate = np.minimum(theta[:, RATE], self.flops)
        most[:, OF_RATE] = (self.flops - rate)[:, None]
        most[:, BEYOND] = self.nbytes - theta[:, BANDWIDTH]
        most[:, _WEIGHTS] = self.nbytes
        known = ~np.isnan(self.held)
        least = np.where(known, self.held, -np.inf)
        return least, np.where(known, self.held, most)

    def within(self, theta: Floats) -> Floats:
        """Return the logs [devices, parameters] clipped to the limits."""
        least, most = self.bounds(theta)
        return np.clip(theta, least, most)


@dataclass(frozen=True, slots=True)
class ByDatasheet:
    """Prediction of a device family's figures from datasheets.

    - `precision`: that for reading datasheets: that of the family's rows, possibly ``float``.
    - `middle`: typical value of each covariate, by those of `COVARIATES` that are not 0.
    - `slopes`: slope of a parameter's log by covariate, by covariate and parameter.
    - `errors`: errors of chips left out, each predicted by its datasheet.
    - `basis`: measurements behind the family; None if not stated.
    """

    precision: str
    middle: Mapping[str, float]
    slopes: Mapping[str, Mapping[str, float]]
    errors: tuple[FigureError, ...]
    basis: Basis | None = None

    def values(
        self, mean: tuple[float, ...], sheet: Datasheet, limits: Limits | None = None
    ) -> tuple[float, ...]:
        """Return the figures at `sheet` for a device family with this mean, both in SI units.

        Values stay within `limits`, those of the device; absent: those of its datasheet.
        """
        usual = (self.middle.get(name, 0.0) for name in COVARIATES)
        logs = [0.0] * len(PARAMETERS)
        for name, value in zip(
            COVARIATES, centred_covariates(usual, covariates(sheet)), strict=True
        ):
            for parameter, slope in self.slopes.get(name, {}).items():
                logs[INDEX[parameter]] += value * slope
        limits = limits or Limits.of(sheet.flops_per_s, sheet.bytes_per_s)
        theta = np.log(mean) + logs
        return tuple(np.exp(limits.within(theta[None, :])[0]).tolist())

    def figures(
        self, kin: str, runtime: str, source: str, precision: str, values: tuple[float, ...]
    ) -> KernelFigures:
        """Return figures whose parameters are all priors."""
        told = f"the device family's mean at the device's datasheet; {source}"
        return KernelFigures(
            precision=precision,
            values=values,
            provenance={one.name: ("prior", told) for one in PARAMETERS},
            kin=kin,
            runtime=runtime,
            source=told,
            errors=self.errors,
            basis=self.basis,
        )


TRAITS = (
    # Twice the root of the time share of kernels of these forms.
    "dense", "pointwise", "depthwise", "grouped", "transposed", "matmul", "normalization",
    "elementwise", "movement", "resize", "recurrent",
    # Typical properties of its kernels, as logarithms and roots.
    "seconds", "kernels", "columns", "rows", "launch", "weights",
)  # fmt: skip
"""Traits that distinguish networks, whatever their names; ``hetsim.cost.kernels.similarity``
derives them from a network's kernels, priced at the mean figures of the family."""


@dataclass(frozen=True, slots=True)
class KnownNetwork:
    """Network that devices of a family ran.

    - `name`: for reports only.
    - `devices`: number of devices that ran it.
    - `effect`: common part of these devices' log ratio of measured to predicted.
    - `traits`: in the order of `TRAITS`, at its batch.
    - `alone`: the same for one sample, which identifies it at other batches.
    """

    name: str
    batch: int
    devices: int
    effect: float
    traits: tuple[float, ...]
    alone: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class RelatedNetwork:
    """Network that only devices with another runtime of the same maker ran.

    - `network`: the network, `share` of whose effect is expected.
    - `share`: share of the variance of effects known from the others: above 0, below 1.
    """

    network: KnownNetwork
    share: float


@dataclass(frozen=True, slots=True)
class Kin:
    """Device family: devices with one runtime and precision, their mean, and errors by network.

    Effects are jointly normal with variance ``sd**2``: networks at a distance d of traits share the
    part ``shared * exp(-d**2 / 2 / length**2)``, and batches of one network share more of the rest
    the closer they are.

    - `activation_bytes`, `weight_bytes`: bytes per float element.
    - `mean`: figures, in the order of ``PARAMETERS``, in SI units.
    - `sd`: standard deviation of effects.
    - `shared`: from 0 (networks are independent) to 1.
    - `length`: length scale of correlation along the traits.
    - `noise`: standard deviation of one device's effect about the common one.
    - `heard`: predictions from families with the same maker's runtimes for networks it did not run.
    - `by_datasheet`: prediction for unmeasured devices.
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
    heard: tuple[RelatedNetwork, ...] = ()
    by_datasheet: ByDatasheet | None = None

    def figures(
        self, precision: str, sheet: Datasheet, limits: Limits | None = None
    ) -> KernelFigures:
        """Return the figures of a device known only by `sheet`, if the sheet suffices."""
        assert self.by_datasheet is not None
        values = self.by_datasheet.values(self.mean, sheet, limits)
        return self.by_datasheet.figures(self.name, self.runtime, self.source, precision, values)


@dataclass(frozen=True, slots=True)
class Likely:
    """Prediction of another network from the networks of a device family.

    - `effect`: logarithm of the factor on the formula's seconds.
    - `sd`: its standard deviation.
    - `usual_sd`: the same for networks of the family, each predicted by the others, as contained in
    cross-validation errors.
    - `noise`: standard deviation of one device's effect about the common one.
    - `same`: whether the family ran this network, judging by its kernels.
    - `apart`: distance of traits to the nearest network that the family ran; infinite without one.
    - `networks`: similar networks, the most similar first; empty without any.
    """

    effect: float
    sd: float
    usual_sd: float
    noise: float
    same: bool
    networks: tuple[str, ...]
    apart: float = 0.0

    @property
    def surer(self) -> float:
        """Variance relative to the usual one of networks that no device of the family ran."""
        return (self.sd / self.usual_sd) ** 2 if self.usual_sd > 0 else 1.0

    @property
    def factor(self) -> float:
        """Factor on the formula's seconds."""
        return math.exp(self.effect)

    def __str__(self) -> str:
        if not self.networks:
            return "like none of the family's networks"
        names = f"{'as' if self.same else 'like'} {', '.join(self.networks)}"
        return f"{names}: {100 * (self.factor - 1):+.0f} %"
