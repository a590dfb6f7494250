"""The mean of a kin, from what its devices missed of each network on average.

Devices of a kin are not independent: chips of one maker, and runtimes on one chip, miss a network
by more than others together. Taken for independent, a thousand such differences bend the mean to
what they look like: bandwidths beyond the cache that rise, copies that take seven times their
bytes. The mean therefore sees one residual for each network and batch, the average over devices,
with the scatter of networks as its noise. A network far off weighs less: Huber, P. J., Robust
estimation of a location parameter, Annals of Mathematical Statistics 35 (1964).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catalog.observing import KinData
from catalog.priors import Prior

Floats = NDArray[np.float64]

FAR = 0.8
"""Standard deviations from which a network's pull on the mean no longer grows."""
_STEPS = 3
_LONGEST, _SETTLED = 0.8, 0.02
_DAMPING = 1e-3


def common_mean(
    kin: KinData, prior: Prior, mean: Floats, apart: Floats, tau: float, eps: float
) -> Floats:
    """Return the mean [parameters] of a kin whose devices lie `apart` [series, parameters] from it.

    Parameters
    ----------
    kin : KinData
    prior : Prior
    mean : array [parameters]
        To begin from.
    apart : array [series, parameters]
    tau, eps : float
        Scales of what is common to a network, and of one point about it.

    Gauss-Newton with a fixed count of steps; O(points * parameters + parameters^3) each.
    """
    seen = kin.weights > 0
    keys = len(kin.keys)
    devices = np.bincount(kin.key[seen], minlength=keys).astype(np.float64)
    ran = devices > 0
    batches = np.bincount(kin.network[ran], minlength=int(kin.network.max()) + 1)[kin.network]
    each = np.maximum(devices, 1.0)
    # Batches of one network are no independent networks.
    sd = np.sqrt((tau**2 + eps**2 / each) * np.sqrt(np.maximum(batches, 1)))
    pull = prior.mean_sd**-2.0
    for _ in range(_STEPS):
        logs, slopes = kin.logs_and_slopes(mean + apart)
        left = np.bincount(kin.key[seen], (kin.log_seconds - logs)[seen], keys) / each
        average = np.zeros((keys, mean.size))
        np.add.at(average, kin.key[seen], slopes[seen])
        average /= each[:, None]
        weight = np.minimum(1.0, FAR / np.maximum(np.abs(left / sd), 1e-9)) / sd**2
        weight = np.where(ran, weight, 0.0)
        system = average.T @ (average * weight[:, None]) + np.diag(pull)
        right = average.T @ (weight * left) - pull * (mean - prior.mean)
        step = np.linalg.solve(system + _DAMPING * np.diag(np.diag(system)), right)
        longest = float(np.abs(step).max())
        mean = mean + step * min(1.0, _LONGEST / max(longest, 1e-12))
        if longest < _SETTLED:
            break
    return mean
