"""Which chips of a kin are one chip under two names, by what was measured on them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catalog.observing import KinData

ALIKE = 0.02
"""Times that are apart by less than this, by the median over networks, are of one silicon: runs of
one board differ by as much."""
LEAST_NETWORKS = 20
"""That two must have in common: of few, some pair among thousands is alike by chance."""


def chip_groups(kin: KinData) -> NDArray[np.intp]:
    """Return a number for each series, the same for those of one chip and of its sisters.

    What is left out of a chip has to be left out of its sisters too: else it is told by itself.
    Hailo-10H and Hailo-15H are 0.9 % apart over 43 networks, a fifth of their figures the same.

    Returns
    -------
    int array [series]
        From 0, by the names of the chips.

    O(series^2 * keys).
    """
    names = sorted({series.chip for series in kin.series})
    chip = np.array([names.index(series.chip) for series in kin.series], dtype=np.intp)
    times = np.full((len(kin.series), len(kin.keys)), np.nan)
    times[kin.owner, kin.key] = kin.log_seconds
    group = np.arange(len(names))
    for one in range(len(times)):
        apart = np.abs(times[:one] - times[one])
        enough = (~np.isnan(apart)).sum(axis=1) >= LEAST_NETWORKS
        for other in np.flatnonzero(enough).tolist():
            if chip[other] != chip[one] and np.nanmedian(apart[other]) < ALIKE:
                first, second = sorted((int(group[chip[one]]), int(group[chip[other]])))
                group[group == second] = first
    found: NDArray[np.intp] = np.unique(group[chip], return_inverse=True)[1].astype(np.intp)
    return found


def dies(kin: KinData) -> NDArray[np.str_]:
    """Return the name of the die of each series [series], by what is known and what was measured.

    A datasheet of one tells of all its cards: whole, cut, or at another clock.
    """
    found = np.array(kin.silicon)
    groups = chip_groups(kin)
    for group in range(int(groups.max()) + 1):
        same = np.isin(found, found[groups == group])
        found[same] = min(found[same].tolist())
    return found
