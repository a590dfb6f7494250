"""Figures of the catalog's devices out of the fits of their kin."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace

import numpy as np

from catalog.catalog import Asked
from catalog.errors import errors_of
from catalog.kin_fits import FittedKin, Measurements
from catalog.kins import runtime_of
from hetsim.base.units import significant
from hetsim.hardware.datasheet import COVARIATES, about
from hetsim.hardware.datasheet import covariates as covariates_of
from hetsim.hardware.kernel_figures import PARAMETERS, FigureError, KernelFigures
from hetsim.hardware.kin import Kin
from hetsim.hardware.limits import Limits
from hetsim.hardware.unmeasured import ByDatasheet

_SHARES = ("median", "p90", "spread", "sd", "common", "unseen_median", "unseen_p90")
"""Fields of an error that have as many digits as there are worth writing."""


def figures_of(measurements: Measurements, asked: Asked) -> KernelFigures:
    """Return what was fitted for one precision of a device."""
    kin = measurements.fitted(asked.kin)
    data, fit = kin.data, kin.fit
    if asked.series is None:
        covariates = np.array(about(data.middle, covariates_of(asked.datasheet)))
        limits = Limits.of(asked.flops_per_s, asked.bytes_per_s)
        theta, status = limits.within(fit.expected(covariates)[None, :])[0], "prior"
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
            parameter.si(significant(parameter.in_key_unit(float(np.exp(log)))))
            for parameter, log in zip(PARAMETERS, theta, strict=True)
        ),
        provenance={parameter.name: (status, source) for parameter in PARAMETERS},
        kin=asked.kin,
        runtime=runtime_of(asked.kin),
        source=source,
        errors=tuple(_rounded(error) for error in errors_of(kin, asked.series)),
    )


def record_of(measurements: Measurements, name: str) -> Kin:
    """Return what goes to the file of the kin called `name`."""
    kin = measurements.fitted(name)
    data, slopes = kin.data, kin.fit.slopes
    told = ByDatasheet(
        precision=data.series[0].precision,
        middle=_not_zero(COVARIATES, data.middle),
        slopes={
            covariate: found
            for covariate, row in zip(COVARIATES, slopes, strict=True)
            if (found := _not_zero([one.name for one in PARAMETERS], row))
        },
        errors=tuple(_rounded(error) for error in errors_of(kin, None)),
    )
    return replace(measurements.record(name), by_datasheet=told)


def _not_zero(names: Iterable[str], values: Iterable[float]) -> dict[str, float]:
    """Return those that four digits behind the point tell from nothing."""
    rounded = zip(names, (round(float(value), 4) for value in values), strict=True)
    return {name: value for name, value in rounded if value}


def _of_kin(kin: FittedKin) -> str:
    chips = len({series.chip for series in kin.data.series})
    networks = len({network for network, _ in kin.data.keys})
    return f"kin: {chips} chips, {networks} networks"


def _rounded(error: FigureError) -> FigureError:
    shown = {
        name: significant(value) for name in _SHARES if (value := getattr(error, name)) is not None
    }
    return FigureError(**{**asdict(error), **shown})
