"""How much faster devices are by their datasheets than the formula's own physics says.

Physics says that the rate follows the peak and bandwidth the bandwidth (``Prior.slopes``). What
datasheets say beyond that, they say of a device as a whole: a later generation of one unit has a
higher clock, and launches and copies gain by it, too; cores that issue in order reach less of
their peak; drivers of one make of graphics cost more than those of another. It moves all times of
a device alike. One number a device, its *pace*, is regressed on the covariates, which ten chips
can teach. What is left, each parameter's own, follows by slopes that are drawn hard to none.

Each chip counts once, however many settings of it were measured, and one that is far off, by a
wrong figure or a broken driver, counts less: Huber, P. J., Robust estimation of a location
parameter, Annals of Mathematical Statistics 35 (1964). Slopes are drawn to none: Hoerl and
Kennard, Ridge regression, Technometrics 12 (1970).
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from catalog.observing import KinData
from catalog.priors import Prior
from hetsim.hardware.datasheet import COVARIATES, FAMILIES
from hetsim.hardware.kernel_figures import PARAMETERS

Floats = NDArray[np.float64]

_NUMBERS = len(COVARIATES) - len(FAMILIES)
_SLOPE_SD = 0.25

_TIMES = {
    "rate_tflops": -1.0, "bandwidth_gbytes_s": -1.0, "weights_gbytes_s": -1.0,
    "io_gbytes_s": -1.0, "launch_us": 1.0, "dispatch_us": 1.0,
}  # fmt: skip
SLOWER = np.array([_TIMES.get(one.name, 0.0) for one in PARAMETERS])
"""What logs of parameters gain where all seconds are e times as long."""

HUBER = 1.5
_ROUNDS = 12
USUAL, USUAL_CHIPS = 0.35, 4.0
"""Usual deviation of chips from what their datasheets say, and how many chips it counts for."""


def slopes_of(kin: KinData, prior: Prior, mean: Floats) -> tuple[Floats, Floats]:
    """Return slopes [covariates, parameters] of a kin, and how much its series [series] count.

    Parameters
    ----------
    kin : KinData
        Points of weight 0 are not seen.
    prior : Prior
    mean : array [parameters]
        Of the kin, at its usual covariates.
    """
    left = kin.log_seconds - kin.logs(mean + kin.covariates @ prior.slopes)
    seen = kin.weights > 0
    ran = np.bincount(kin.owner, seen, len(kin.series)) > 0
    late = np.zeros(len(kin.series))
    for index, part in enumerate(kin.slices()):
        if ran[index]:
            late[index] = np.median(left[part][seen[part]])
    settings = Counter(one for one, is_so in zip(kin.silicon, ran, strict=True) if is_so)
    once = np.array([1 / max(settings[one], 1) for one in kin.silicon]) * ran
    pace, trust = _regressed(kin.covariates, late, once, prior.pace_sd)
    return prior.slopes + np.outer(pace, SLOWER), trust


def slopes_of_parameters(covariates: Floats, own: Floats, trust: Floats, prior: Prior) -> Floats:
    """Return slopes [covariates, parameters] of what devices differ by [series, parameters].

    Of figures of datasheets alone: that parameters differ between families, few chips tell.
    """
    found = np.zeros((covariates.shape[1], own.shape[1]))
    if not trust.any():
        return found
    numbers = covariates[:, :_NUMBERS]
    square = numbers.T @ (numbers * trust[:, None])
    apart = own - np.average(own, axis=0, weights=trust)
    for parameter, sd in enumerate(prior.own_sd):
        pull = (sd / min(_SLOPE_SD, 5 * sd)) ** 2 * np.eye(_NUMBERS)
        right = numbers.T @ (trust * apart[:, parameter])
        found[:_NUMBERS, parameter] = np.linalg.solve(square + pull, right)
    return found


def _regressed(covariates: Floats, late: Floats, once: Floats, sd: Floats) -> tuple[Floats, Floats]:
    """Return slopes [covariates] of `late` [series], and the weights that they were found by."""
    trust = once.copy()
    if not once.any():
        return np.zeros(covariates.shape[1]), trust
    design = np.column_stack([np.ones(len(late)), covariates])
    scale = 2 * USUAL
    found = np.zeros(design.shape[1])
    for _ in range(_ROUNDS):
        square = design.T @ (design * trust[:, None])
        inverse = np.linalg.inv(square + np.diag([1e-9, *(scale / sd) ** 2]))
        found = inverse @ (design.T @ (trust * late))
        far = np.abs(late - design @ found)
        clipped = np.minimum(far, HUBER * scale)
        # What the slopes take of the chips is no freedom: four chips and two slopes fit anything.
        freedom = max(float(once.sum() - np.trace(inverse @ square)), 0.0)
        usual = USUAL_CHIPS * USUAL**2
        scale = float(np.sqrt((once @ clipped**2 + usual) / (freedom + USUAL_CHIPS)))
        trust = once * np.minimum(1.0, HUBER * scale / np.maximum(far, 1e-9))
    return found[1:], trust
