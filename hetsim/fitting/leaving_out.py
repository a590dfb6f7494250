"""Predictions of what the fit has not seen: a network, a network on one chip, a chip."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hetsim.fitting.likeness import kin_of, said, traits_of_keys
from hetsim.fitting.mixed import Floats, KinFit, refit, ridge
from hetsim.fitting.observing import KinData
from hetsim.fitting.points import Point, Series
from hetsim.fitting.priors import Prior

STEPS = 6
"""Of a fit without a part, from where the whole fit stands. Two would leave some of it in."""
CHIPS_AT_ONCE = 12
"""How many parts the chips of a kin are left out in."""
NETWORK_PARTS = 10
"""How many parts the networks of a chip are left out in, where kin keep them."""


@dataclass(frozen=True, slots=True)
class Unseen:
    """A measured point and what was predicted for it without it.

    Attributes
    ----------
    series : Series
    point : Point
    miss : float
        Log of predicted over measured, by the form and the device's figures alone.
    effect : float
        What networks of the kin that were not left out add to the log of the prediction.
    """

    series: Series
    point: Point
    miss: float
    effect: float = 0.0

    @property
    def total(self) -> float:
        """Log of what is predicted in all over measured."""
        return self.miss + self.effect


def without_network(kin: KinData, prior: Prior, fit: KinFit) -> list[Unseen]:
    """Predict each network for every device from a fit that no device's rows of it were in.

    Mean, devices and effects are fitted anew without it, from where the whole fit stands;
    variances and slopes of the datasheet stay. The effect is what the other networks say of it.
    """
    places = traits_of_keys(kin, fit)
    count = int(kin.network.max()) + 1
    found = []
    for network in range(count):
        gone = kin.network[kin.key] == network
        left = _left(kin, gone)
        state = refit(left, prior, fit, STEPS)
        theta = state.theta(kin.covariates)
        effects = np.zeros(len(kin.keys))
        if count > 1:
            others = kin_of(left, state, places, kin.log_seconds - kin.logs(theta))
            for key in np.flatnonzero(kin.network == network):
                effects[key] = said(others, places[key], kin.keys[key][1]).effect
        found += _predicted(kin, theta, np.flatnonzero(gone), effects[kin.key])
    return found


def without_chip(kin: KinData, prior: Prior, fit: KinFit) -> list[Unseen]:
    """Predict each chip from its datasheet, by a fit that none of its rows were in.

    The slopes of the datasheet are fitted without it, too; variances stay. The effects are those
    of networks on the other chips. Of more than `CHIPS_AT_ONCE` chips some are left out together.
    """
    chips = np.array([series.chip for series in kin.series])
    names = sorted(set(chips.tolist()))
    found = []
    for part in range(min(len(names), CHIPS_AT_ONCE)):
        gone = np.isin(chips, names[part::CHIPS_AT_ONCE])
        if gone.all():
            continue
        left = _left(kin, gone[kin.owner])
        departure = fit.own + kin.covariates @ fit.slopes
        slopes = ridge(kin.covariates[~gone], departure[~gone], prior)
        own = np.where(gone[:, None], 0.0, departure - kin.covariates @ slopes)
        state = refit(left, prior, replace(fit, slopes=slopes, own=own), STEPS)
        which = np.flatnonzero(gone[kin.owner])
        seen = np.bincount(kin.key, left.weights > 0, len(kin.keys)) > 0
        effects = np.where(seen, state.effects, 0.0)[kin.key]
        found += _predicted(kin, state.expected(kin.covariates), which, effects)
    return found


def without_network_on_chip(kin: KinData, prior: Prior, fit: KinFit) -> list[Unseen]:
    """Predict each network on each chip from a fit without the chip's rows of it.

    Kin may have run the network: the effect is what the form misses of it on them. A part of the
    networks is left out of each chip at once, another one of the next: of each network most
    chips stay. Mean, devices and effects are fitted anew; variances and slopes stay.
    """
    chips = sorted({series.chip for series in kin.series})
    chip = np.array([chips.index(series.chip) for series in kin.series])[kin.owner]
    network = kin.network[kin.key]
    found = []
    for part in range(NETWORK_PARTS):
        gone = (network + chip) % NETWORK_PARTS == part
        left = _left(kin, gone)
        state = refit(left, prior, fit, STEPS)
        seen = np.bincount(kin.key, left.weights > 0, len(kin.keys)) > 0
        effects = np.where(seen, state.effects, 0.0)[kin.key]
        found += _predicted(kin, state.theta(kin.covariates), np.flatnonzero(gone), effects)
    return found


def _left(kin: KinData, gone: NDArray[np.bool_]) -> KinData:
    return replace(kin, weights=np.where(gone, 0.0, kin.weights))


def _predicted(
    kin: KinData, theta: Floats, which: Iterable[int], effects: Floats | None = None
) -> list[Unseen]:
    logs = kin.logs(theta)
    return [
        Unseen(
            kin.series[kin.owner[at]],
            kin.points[at],
            float(logs[at] - kin.log_seconds[at]),
            0.0 if effects is None else float(effects[at]),
        )
        for at in which
    ]
