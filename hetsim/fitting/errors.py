"""How far predictions are from what was left out, told so that intervals hold."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from hetsim.fitting.kin_fits import FittedKin
from hetsim.fitting.leaving_out import Unseen
from hetsim.fitting.points import Series
from hetsim.hardware.kernel_figures import BATCHES, HALF_WIDTH, FigureError, batch_range

KIN_NETWORKS = 8.0
"""How many networks of its own a device's spread must have to count as much as its kin's."""
SD_LEAST = 0.03


def errors_of(kin: FittedKin, series: Series | None) -> tuple[FigureError, ...]:
    """Return the errors of a device by range of batch sizes.

    Parameters
    ----------
    kin : FittedKin
    series : Series or None
        What the device stands on: networks were left out of it and of all its kin. None for a
        device without rows: chips were left out, and each network was told by the others.

    The width of intervals is that by which 80 % of the misses are inside, of the device and of
    its kin weighed together on the log scale, widened by Student's t for as few networks as the
    kin has. What devices have in common of it is what networks are missed by on average.
    """
    unseen = kin.chips_out if series is None else kin.networks_out
    found = []
    for batch in BATCHES:
        pool = [one for one in unseen if batch_range(one.point.batch) == batch]
        own = pool if series is None else [one for one in pool if one.series == series]
        if own:
            found.append(error_of(batch, own, pool))
    return tuple(found)


def error_of(batch: str, own: Sequence[Unseen], pool: Sequence[Unseen]) -> FigureError:
    """Return the error of a device of which `own` was left out, among the `pool` of its kin."""
    misses = np.array([one.of_new for one in own])
    relative = np.abs(np.expm1(misses))
    spreads = [one.point.spread for one in own if one.point.spread is not None]
    networks = len({one.point.network for one in own})
    of_kin = len({one.point.network for one in pool})
    width = math.exp(
        (networks * math.log(_width(np.abs(misses))) + KIN_NETWORKS * math.log(_pooled(pool)))
        / (networks + KIN_NETWORKS)
    )
    freedom = max(of_kin - 1, 1)
    sd = width * min(float(student.ppf(0.9, freedom)) / HALF_WIDTH, 2.0)
    sd = max(sd, SD_LEAST)
    return FigureError(
        batch=batch,
        networks=networks,
        rows=sum(one.point.rows for one in own),
        median=float(np.median(relative)),
        p90=float(np.quantile(relative, 0.9)),
        spread=float(np.median(spreads)) if spreads else None,
        sd=sd,
        common=sd * math.sqrt(_share_in_common(pool)),
    )


def _width(misses: NDArray[np.float64]) -> float:
    """Sd of a normal distribution of which as many are within as are of `misses`."""
    return max(float(np.quantile(misses, 0.8)) / HALF_WIDTH, SD_LEAST)


def _pooled(pool: Sequence[Unseen]) -> float:
    return _width(np.array([abs(one.of_new) for one in pool]))


def _share_in_common(pool: Sequence[Unseen]) -> float:
    """Share of the variance of misses that is of networks, missed alike on all devices of a kin.

    Never all: a device differs from its kin on a network that they ran, too. Half where no
    network was run by two.
    """
    misses: defaultdict[str, list[float]] = defaultdict(list)
    for one in pool:
        misses[one.point.network].append(one.of_new)
    means = np.array([float(np.mean(found)) for found in misses.values()])
    about = [
        (miss - mean) * math.sqrt(len(found) / (len(found) - 1))
        for found, mean in zip(misses.values(), means.tolist(), strict=True)
        if len(found) > 1
        for miss in found
    ]
    if not about:
        return 0.5
    common, own = _width(np.abs(means)) ** 2, _width(np.abs(np.array(about))) ** 2
    return common / (common + own)
