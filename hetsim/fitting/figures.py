"""Figures of the catalog's devices out of the fits of their kin."""

from __future__ import annotations

import math

import numpy as np

from hetsim.fitting.catalog import Asked
from hetsim.fitting.chips import about, raw_covariates
from hetsim.fitting.errors import errors_of
from hetsim.fitting.kin_fits import FittedKin, Measurements
from hetsim.fitting.kins import runtime_of
from hetsim.hardware.kernel_figures import PARAMETERS, FigureError, KernelFigures

DIGITS = 4


def rounded(value: float, digits: int = DIGITS) -> float:
    """Return `value` to so many significant digits.

    >>> rounded(71234.5), rounded(0.00123456)
    (71230.0, 0.001235)
    """
    if value == 0 or not math.isfinite(value):
        return value
    return round(value, digits - 1 - math.floor(math.log10(abs(value))))


def figures_of(measurements: Measurements, asked: Asked) -> KernelFigures:
    """Return what was fitted for one precision of a device."""
    kin = measurements.fitted(asked.kin)
    data, fit = kin.data, kin.fit
    if asked.series is None:
        covariates = about(data.middle, raw_covariates(asked.datasheet))
        theta, status = fit.expected(covariates), "prior"
        source = f"the kin's mean at the device's datasheet; {_of_kin(kin)}"
    else:
        index = data.series.index(asked.series)
        theta, status = fit.theta(data.covariates)[index], "fitted"
        points = [data.points[at] for at in np.flatnonzero(data.owner == index)]
        networks = len({point.network for point in points})
        rows = sum(point.rows for point in points)
        source = f"{rows} rows of {networks} networks on {asked.series}; {_of_kin(kin)}"
    return KernelFigures(
        precision=asked.precision,
        values=tuple(
            parameter.si(rounded(parameter.in_key_unit(float(np.exp(log)))))
            for parameter, log in zip(PARAMETERS, theta, strict=True)
        ),
        provenance={parameter.name: (status, source) for parameter in PARAMETERS},
        kin=asked.kin,
        runtime=runtime_of(asked.kin),
        source=source,
        errors=tuple(_rounded(error) for error in errors_of(kin, asked.series)),
    )


def _of_kin(kin: FittedKin) -> str:
    chips = len({series.chip for series in kin.data.series})
    networks = len({network for network, _ in kin.data.keys})
    return f"kin: {chips} chips, {networks} networks"


def _rounded(error: FigureError) -> FigureError:
    return FigureError(
        batch=error.batch,
        networks=error.networks,
        rows=error.rows,
        median=rounded(error.median),
        p90=rounded(error.p90),
        spread=None if error.spread is None else rounded(error.spread),
        sd=rounded(error.sd),
        common=rounded(error.common),
    )
