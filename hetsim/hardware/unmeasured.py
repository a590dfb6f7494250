"""What a kin says of a device that nobody measured: its mean, moved by what the datasheet says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hetsim.hardware.datasheet import COVARIATES, Datasheet, about, covariates
from hetsim.hardware.kernel_figures import INDEX, PARAMETERS, FigureError, KernelFigures
from hetsim.hardware.limits import Limits


@dataclass(frozen=True, slots=True)
class ByDatasheet:
    """How figures of a kin follow from datasheets.

    Attributes
    ----------
    precision : str
        In which datasheets are read: that of the kin's rows, ``float`` among them.
    middle : mapping of str to float
        The usual covariate, by those of `COVARIATES` that are not 0.
    slopes : mapping of str to mapping of str to float
        What the log of a parameter gains by one of a covariate: by covariate and parameter.
    errors : tuple of FigureError
        Of chips that were left out, each predicted by its datasheet.
    """

    precision: str
    middle: Mapping[str, float]
    slopes: Mapping[str, Mapping[str, float]]
    errors: tuple[FigureError, ...]

    def values(
        self, mean: tuple[float, ...], sheet: Datasheet, limits: Limits | None = None
    ) -> tuple[float, ...]:
        """Return the figures at `sheet` of a kin with this mean, both in SI units.

        None is beyond `limits`, those of the device; absent: those of its datasheet.
        """
        usual = (self.middle.get(name, 0.0) for name in COVARIATES)
        logs = [0.0] * len(PARAMETERS)
        for name, value in zip(COVARIATES, about(usual, covariates(sheet)), strict=True):
            for parameter, slope in self.slopes.get(name, {}).items():
                logs[INDEX[parameter]] += value * slope
        limits = limits or Limits.of(sheet.flops_per_s, sheet.bytes_per_s)
        theta = np.log(mean) + logs
        return tuple(np.exp(limits.within(theta[None, :])[0]).tolist())

    def figures(
        self, kin: str, runtime: str, source: str, precision: str, values: tuple[float, ...]
    ) -> KernelFigures:
        """Return the record of figures that are a prior in all."""
        told = f"the kin's mean at the device's datasheet; {source}"
        return KernelFigures(
            precision=precision,
            values=values,
            provenance={one.name: ("prior", told) for one in PARAMETERS},
            kin=kin,
            runtime=runtime,
            source=told,
            errors=self.errors,
        )
