"""Predictions of what the fit has not seen: a family of networks, a network on a chip, a chip."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from catalog.likeness import Said, called, said
from catalog.mixed import Floats, KinFit, refit, with_slopes
from catalog.observing import KinData
from catalog.points import Point, Series
from catalog.priors import Prior
from catalog.sisters import chip_groups, dies
from hetsim.cost.kernels.families import groups_of

STEPS = 6
"""Of a fit without a part, from where the whole fit stands. Two would leave some of it in."""
CHIPS_AT_ONCE = 12
"""How many parts the chips of a kin are left out in."""
NETWORK_PARTS = 20
"""How many parts the networks of a chip are left out in at most, where kin keep them."""


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
        What networks of the kin add to the log of the prediction: the network itself among them
        where other chips ran it.
    by_others : float
        The same by other networks alone.
    surer : float
        Variance of `effect` relative to the usual one of networks that no device of the kin ran.
    """

    series: Series
    point: Point
    miss: float
    effect: float = 0.0
    by_others: float = 0.0
    surer: float = 1.0

    @property
    def total(self) -> float:
        """Log of what is predicted in all over measured."""
        return self.miss + self.effect

    @property
    def predicted_s(self) -> float:
        """Seconds that are predicted in all."""
        return self.point.seconds * math.exp(self.total)

    @property
    def of_new(self) -> float:
        """The same as if no chip had run the network."""
        return self.miss + self.by_others


def without_family(kin: KinData, prior: Prior, fit: KinFit) -> list[Unseen]:
    """Predict each family of networks for every device from a fit without any device's rows of it.

    A network alone would be told by its siblings: BERT of 384 tokens by that of 128. Where all
    networks of the kin are of one family, each network is left out alone. Mean, devices and
    effects are fitted anew, from where the whole fit stands; variances and slopes of the datasheet
    stay. The effect is what the other networks say of it.
    """
    of_key = [called(file) for file, _ in kin.keys]
    group = groups_of(of_key)
    groups = np.array([group[name] for name in of_key])
    names = sorted(set(group.values()))
    found = []
    for name in names:
        gone = (groups == name)[kin.key]
        left = _left(kin, gone)
        state = refit(left, prior, fit, STEPS)
        theta = state.theta(kin.covariates)
        found += _predicted(kin, theta, gone, said(left, state) if len(names) > 1 else None)
    return found


def without_chip(kin: KinData, prior: Prior, fit: KinFit) -> list[Unseen]:
    """Predict each chip from its datasheet, by a fit that none of its rows were in.

    The slopes of the datasheet are fitted without it, too; variances stay. The effects are those
    of networks on the other chips. Chips of one die are left out together, and of more than
    `CHIPS_AT_ONCE` some.
    """
    chips = dies(kin)
    names = sorted(set(chips.tolist()))
    found = []
    for part in range(min(len(names), CHIPS_AT_ONCE)):
        gone = np.isin(chips, names[part::CHIPS_AT_ONCE])
        if gone.all():
            continue
        left = _left(kin, gone[kin.owner])
        state = with_slopes(left, prior, fit)
        state = replace(state, own=np.where(gone[:, None], 0.0, state.own))
        state = with_slopes(left, prior, refit(left, prior, state, STEPS))
        theta = kin.limits.within(state.expected(kin.covariates))
        found += _predicted(kin, theta, gone[kin.owner], said(left, state))
    return found


def without_network_on_chip(kin: KinData, prior: Prior, fit: KinFit) -> list[Unseen]:
    """Predict each network on each chip from a fit without the chip's rows of it.

    Kin may have run the network: the effect is what the form misses of it on them. All series of
    the chip and of its sisters lose it, at all batches. A part of the networks is left out of each
    chip at once, another one of the next: of each network most chips stay. Mean, devices and
    effects are fitted anew; variances and slopes stay.
    """
    chip = chip_groups(kin)[kin.owner]
    network = kin.network[kin.key]
    parts = min(max(int(network.max()) + 1, 2), NETWORK_PARTS)
    found = []
    for part in range(parts):
        gone = (network + chip) % parts == part
        left = _left(kin, gone)
        if (left.weights > 0).any():
            state = refit(left, prior, fit, STEPS)
            found += _predicted(kin, state.theta(kin.covariates), gone, said(left, state))
    return found


def _left(kin: KinData, gone: NDArray[np.bool_]) -> KinData:
    return replace(kin, weights=np.where(gone, 0.0, kin.weights))


def _predicted(
    kin: KinData, theta: Floats, gone: NDArray[np.bool_], known: Said | None
) -> list[Unseen]:
    misses = kin.logs(theta) - kin.log_seconds
    found = []
    for at in np.flatnonzero(gone):
        one = Unseen(kin.series[kin.owner[at]], kin.points[at], float(misses[at]))
        if known is not None:
            key = kin.key[at]
            one = replace(
                one,
                effect=float(known.effects[key]),
                by_others=float(known.by_others[key]),
                surer=float(known.surer[key]),
            )
        found.append(one)
    return found
