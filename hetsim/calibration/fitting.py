"""Parameters of the formula fitted to what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from hetsim.calibration.points import Network, Point
from hetsim.cost.kernels.totals import Networks, log_total_and_gradient
from hetsim.hardware.kernel_figures import INDEX, PARAMETERS

_FORM_OFF, _WHOLE_OFF = 0.10, 0.05
"""How far the formula may be from kernels and from networks, as a deviation of the logarithm."""

_CLOCK_S = 0.7e-6
"""Uncertainty of one kernel's time in a profile of whole microseconds."""

_EVALUATIONS = 60
_NO_DISPATCH = np.log(1e-15)
_LONG_S = 1.5e-3
_APART = 0.1
_DISTURBED = (0.3, 1.15)
"""What long kernels may be scaled by, that the kernels of a network add up to what it takes."""

_FAR = 2.0
"""Deviations at which a residual's loss begins to grow linearly."""


@dataclass(frozen=True, slots=True)
class Overheads:
    """What the profiler adds.

    Attributes
    ----------
    profiler_s : float
        To the time of each kernel.
    dispatch_s : float
        What a run takes beside its kernels.
    """

    profiler_s: float
    dispatch_s: float


@dataclass(frozen=True, slots=True)
class Fit:
    """Fitted parameters.

    Attributes
    ----------
    log_values : float array [PARAMETERS]
        Logarithms in SI units.
    overheads : Overheads
    """

    log_values: NDArray[np.float64]
    overheads: Overheads


def overheads(networks: Sequence[Network]) -> Overheads:
    """Return what runs take beside their kernels, and what the profiler adds to each of those.

    The time of a run without the profiler is what its kernels take under it, less what the
    profiler adds to each of them, and a constant. By least absolute deviations, as networks that
    others disturbed are far off. (0, 0) where no kernels were timed.
    """
    timed = [one for one in networks if one.launches]
    if len(timed) < 3:
        return Overheads(0.0, 0.0)
    launches = np.array([one.launches for one in timed], dtype=np.float64)
    apart = np.array([one.seconds - one.timed_s for one in timed])
    scale = np.array([0.02 * one.seconds for one in timed]) + 2e-6

    def off(micro: NDArray[np.float64]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = (micro[0] * 1e-6 - micro[1] * 1e-6 * launches - apart) / scale
        return found

    solved = least_squares(
        off, (5.0, 1.0), loss="cauchy", bounds=((0.0, 0.0), (200.0, 5.0)), max_nfev=100
    )
    return Overheads(float(solved.x[1]) * 1e-6, float(solved.x[0]) * 1e-6)


def undisturbed(network: Network, found: Overheads) -> list[tuple[Point, float]]:
    """Return the points of a network with the seconds that they took while the process ran.

    The profiler's clock goes on where the process has to wait for others, which hits long
    kernels: these are scaled so that all add up to the processor's time of a run. Empty where
    they cannot be, and where the runtime told of none.
    """
    alone = [point.seconds - found.profiler_s * point.launches for point in network.points]
    of_kernels = network.timed_s - found.profiler_s * network.launches
    long_s = sum(seconds for seconds in alone if seconds > _LONG_S)
    factor = 1.0
    missed_s = of_kernels - (network.seconds - found.dispatch_s)
    if abs(missed_s) > _APART * network.seconds:
        if long_s < abs(missed_s):
            return []
        factor = 1.0 - missed_s / long_s
    if not _DISTURBED[0] < factor < _DISTURBED[1]:
        return []
    return [
        (point, seconds * (factor if seconds > _LONG_S else 1.0))
        for point, seconds in zip(network.points, alone, strict=True)
        if seconds > _CLOCK_S
    ]


def fit(
    networks: Sequence[Network], mean: NDArray[np.float64], deviation: NDArray[np.float64]
) -> Fit:
    """Fit the parameters to kernels where their times are known, and to whole networks.

    Weighted least squares of logarithms, with a loss that grows linearly for what is far off,
    and a normal prior on the logarithm of every parameter.

    Parameters
    ----------
    networks : sequence of Network
    mean, deviation : float array [PARAMETERS]
        The prior.

    O(evaluations * kernels * PARAMETERS).
    """
    found = overheads(networks)
    tables = []
    seconds: list[float] = []
    off: list[float] = []
    which: list[int] = []
    for network in networks:
        tables.append(
            (network.rows, np.ones(len(network.rows)), network.weight_bytes, network.io_bytes)
        )
        seconds.append(network.seconds)
        off.append(float(np.hypot(_WHOLE_OFF, network.spread)))
        which.append(0)
        for point, alone_s in undisturbed(network, found):
            tables.append((point.rows, np.ones(len(point.rows)), network.weight_bytes, 0.0))
            seconds.append(alone_s)
            off.append(float(np.hypot(_FORM_OFF, _CLOCK_S / alone_s)))
            which.append(1)
    laid = Networks.of(tables)
    target, scale = np.log(seconds), np.array(off)
    kinds = np.array(which, dtype=np.int64)
    alone = INDEX["dispatch_us"]

    def at(z: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        own = mean + deviation * z
        kernel = own.copy()
        kernel[alone] = _NO_DISPATCH
        logs, slopes = log_total_and_gradient(np.stack([own, kernel]), laid, kinds)
        slopes[kinds == 1, alone] = 0.0
        return logs, slopes

    def residuals(z: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.concatenate([(at(z)[0] - target) / scale, z])

    def jacobian(z: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.concatenate([at(z)[1] * deviation / scale[:, None], np.eye(len(PARAMETERS))])

    solved = least_squares(
        residuals,
        np.zeros(len(PARAMETERS)),
        jac=jacobian,
        loss="soft_l1",
        f_scale=_FAR,
        max_nfev=_EVALUATIONS,
    )
    return Fit(mean + deviation * solved.x, found)
