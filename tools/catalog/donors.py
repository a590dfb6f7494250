"""The strong baseline: another device's times of the network, scaled by one factor."""

from __future__ import annotations

import numpy as np

from catalog.observing import KinData
from catalog.points import Series
from catalog.sisters import chip_groups

LEAST_COMMON = 3
"""Networks that two must have in common beside the one that is predicted."""


def donors(data: KinData, series: Series) -> dict[int, float]:
    """Return log seconds by index of the points of `series`, of one factor from the best donor.

    The donor is the series of another chip, no sister, that ran the network at the batch and whose
    times of the other networks follow those of `series` best, by the median of what a factor
    leaves; the factor is the median over those. It has run the network: it knows more than a
    prediction of what nobody ran. Points without a donor are absent.

    O(points * series * keys).
    """
    times = np.full((len(data.series), len(data.keys)), np.nan)
    times[data.owner, data.key] = data.log_seconds
    group = chip_groups(data)
    own = data.series.index(series)
    found = {}
    for at in np.flatnonzero(data.owner == own).tolist():
        key = data.key[at]
        others = data.network != data.network[key]
        ratios = times[own, others] - times[:, others]
        may = (~np.isnan(ratios)).sum(axis=1) >= LEAST_COMMON
        may &= (group != group[own]) & ~np.isnan(times[:, key])
        if not may.any():
            continue
        candidates = np.flatnonzero(may)
        factors = np.nanmedian(ratios[candidates], axis=1)
        left = np.nanmedian(np.abs(ratios[candidates] - factors[:, None]), axis=1)
        best = int(np.argmin(left))
        found[at] = float(times[candidates[best], key] + factors[best])
    return found
