"""Predictions beside measurements of what the parameters were not fitted to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hetsim.calibration.fitting import Fit
from hetsim.calibration.points import Network
from hetsim.cost.kernels.correction import factors
from hetsim.cost.kernels.form import streamed_share
from hetsim.cost.kernels.totals import kernels_seconds
from hetsim.hardware.kernel_correction import Correction
from hetsim.hardware.kernel_figures import HALF_WIDTH, INDEX, FigureError

_COVERED = 0.8
_FEWEST = 2


@dataclass(frozen=True, slots=True)
class Judged:
    """A network that was not fitted to.

    Attributes
    ----------
    name : str
    measured_s, predicted_s : float
    spread : float
        Relative, of the repeats.
    part : bool
        Whether it is a part of a network.
    """

    name: str
    measured_s: float
    predicted_s: float
    spread: float
    part: bool

    @property
    def error(self) -> float:
        """Prediction over measurement, less one."""
        return self.predicted_s / self.measured_s - 1.0


def predicted_s(network: Network, fitted: Fit, corrections: Sequence[Correction]) -> float:
    """Return what a network takes by the figures: kernels, dispatch, inputs and outputs."""
    values = np.exp(fitted.log_values)
    streamed = streamed_share(values[INDEX["weights_on_chip_mib"]], network.weight_bytes)
    kernels = kernels_seconds(values, network.rows, streamed)
    kernels = kernels * factors(corrections, network.rows, network.weight_bytes)
    moved = network.io_bytes / values[INDEX["io_gbytes_s"]]
    return float(kernels.sum() + values[INDEX["dispatch_us"]] + moved)


def judge(
    networks: Sequence[Network], fitted: Fit, corrections: Sequence[Correction]
) -> tuple[Judged, ...]:
    """Return prediction and measurement of each network, in their order."""
    return tuple(
        Judged(
            network.name,
            network.seconds,
            predicted_s(network, fitted, corrections),
            network.spread,
            "/" in network.name,
        )
        for network in networks
    )


def median_and_p90(judged: Sequence[Judged]) -> tuple[float, float] | None:
    """Return the median and the 90th percentile of the relative errors; None of none."""
    if not judged:
        return None
    errors = np.abs([one.error for one in judged])
    return float(np.median(errors)), float(np.quantile(errors, 0.9))


def figure_errors(judged: Sequence[Judged]) -> tuple[FigureError, ...]:
    """Return the error that the device file states: of whole networks at batch 1.

    The machine stands for its whole kin: what is missed on it is missed on every copy of it.
    """
    whole = [one for one in judged if not one.part]
    found = median_and_p90(whole)
    if found is None or len(whole) < _FEWEST:
        return ()
    logs = np.abs([np.log(one.predicted_s / one.measured_s) for one in whole])
    sd = max(float(np.quantile(logs, _COVERED)) / HALF_WIDTH, 1e-3)
    return (
        FigureError(
            batch="1",
            networks=len(whole),
            rows=len(whole),
            median=found[0],
            p90=found[1],
            spread=float(np.median([one.spread for one in whole])),
            sd=sd,
            common=sd,
        ),
    )
