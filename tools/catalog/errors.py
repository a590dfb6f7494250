"""How far predictions are from what was left out, told so that intervals hold."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import NDArray

from catalog.kin_fits import FittedKin
from catalog.leaving_out import Unseen
from catalog.points import Series
from hetsim.cost.kernels.families import groups_of
from hetsim.hardware.kernel_figures import BATCHES, HALF_WIDTH, FigureError, batch_range

KIN_NETWORKS = 8.0
"""How many networks of its own a device's spread must have to count as much as its kin's."""
SD_LEAST = 0.03
KNOWN = 0.5
"""Variance of what kin say of a network, relative to the usual one of networks that they did not
run, below which they have run it, or its like."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Predictions of points without their network, in two ways.

    Attributes
    ----------
    of_device : sequence of Unseen
        Without the device's rows of it.
    of_kin : sequence of Unseen
        Without any rows of it.
    """

    of_device: Sequence[Unseen]
    of_kin: Sequence[Unseen]

    def of_batch(self, batch: str) -> LeftOut:
        """Return those of a range of batch sizes."""
        return self._only(lambda one: batch_range(one.point.batch) == batch)

    def of_series(self, series: Series) -> LeftOut:
        """Return those of one series."""
        return self._only(lambda one: one.series == series)

    def without(self, networks: Collection[str]) -> LeftOut:
        """Return those of other networks."""
        return self._only(lambda one: one.point.network not in networks)

    def known(self) -> list[Unseen]:
        """Return those of networks that others of the kin have run, or their like."""
        return [one for one in self.of_device if one.surer < KNOWN]

    def _only(self, wanted: Callable[[Unseen], bool]) -> LeftOut:
        return LeftOut(
            [one for one in self.of_device if wanted(one)],
            [one for one in self.of_kin if wanted(one)],
        )


def left_out(kin: FittedKin, with_rows: bool) -> LeftOut:
    """Return what was left out of a kin, for devices with rows of their own or without.

    Without, chips were left out, and the network was told by the kin that ran it, or by others.
    """
    if with_rows:
        return LeftOut(kin.of_chip_out, kin.networks_out)
    return LeftOut(kin.chips_out, [replace(one, effect=one.by_others) for one in kin.chips_out])


def errors_of(kin: FittedKin, series: Series | None) -> tuple[FigureError, ...]:
    """Return the errors of a device by range of batch sizes.

    Parameters
    ----------
    kin : FittedKin
    series : Series or None
        What the device stands on; None for a device without rows.
    """
    every = left_out(kin, series is not None)
    found = []
    for batch in BATCHES:
        pool = every.of_batch(batch)
        own = pool if series is None else pool.of_series(series)
        if own.of_kin:
            found.append(error_of(batch, own, pool))
    return tuple(found)


def error_of(batch: str, own: LeftOut, pool: LeftOut) -> FigureError:
    """Return the error of a device of which `own` was left out, among the `pool` of its kin.

    Widths of intervals are those by which 80 % of the misses are inside, of the device and of its
    kin weighed together on the log scale, widened by Student's t for as few networks as the kin
    has. Of a network that nobody ran it is `sd`; where kin have run it what is left of that
    without `common`.
    """
    misses = _relative(own.of_device or own.of_kin)
    unseen = _relative(own.of_kin)
    spreads = [one.point.spread for one in own.of_kin if one.point.spread is not None]
    sd = _width(own.of_kin, pool.of_kin)
    known = pool.known()
    # Where no two ran a network, nothing says what they have in common.
    alone = min(_width(own.known(), known), sd) if known else sd * math.sqrt(0.5)
    return FigureError(
        batch=batch,
        networks=len({one.point.network for one in own.of_kin}),
        rows=sum(one.point.rows for one in own.of_kin),
        median=float(np.median(misses)),
        p90=float(np.quantile(misses, 0.9)),
        spread=float(np.median(spreads)) if spreads else None,
        sd=sd,
        common=math.sqrt(sd**2 - alone**2),
        unseen_median=float(np.median(unseen)),
        unseen_p90=float(np.quantile(unseen, 0.9)),
    )


def widths(
    pool: LeftOut, wanted: Collection[Series], of_device: bool, noise: float
) -> Iterator[tuple[Unseen, float | None]]:
    """Give predictions of a pool the sd of their intervals, by the misses of other families alone.

    None where there is no other network.

    Parameters
    ----------
    pool : LeftOut
        Of one range of batch sizes.
    wanted : collection of Series
        Whose predictions are asked for.
    of_device : bool
        Which of them.
    noise : float
        Least width of what is not in common.
    """
    asked: defaultdict[tuple[str, Series], list[Unseen]] = defaultdict(list)
    for one in pool.of_device if of_device else pool.of_kin:
        if one.series in wanted:
            asked[one.point.network, one.series].append(one)
    group = groups_of({one.point.network for one in (*pool.of_device, *pool.of_kin)})
    others: dict[str, LeftOut] = {}
    for (network, series), ones in asked.items():
        of = group[network]
        if of not in others:
            others[of] = pool.without({name for name, its in group.items() if its == of})
        rest = others[of]
        own = rest.of_series(series)
        error = error_of(BATCHES[0], own if own.of_kin else rest, rest) if rest.of_kin else None
        for one in ones:
            yield one, None if error is None else error.sd_of(one.surer, noise)


def _relative(found: Sequence[Unseen]) -> NDArray[np.float64]:
    return np.abs(np.expm1([one.total for one in found]))


def _width(own: Sequence[Unseen], pool: Sequence[Unseen]) -> float:
    """Sd of a normal distribution of which as many are within as are of misses."""
    networks = len({one.point.network for one in own})
    of_kin = len({one.point.network for one in pool})
    logs = networks * math.log(_inside(own)) + KIN_NETWORKS * math.log(_inside(pool))
    width = math.exp(logs / (networks + KIN_NETWORKS))
    few = float(scipy.stats.t.ppf(0.9, max(of_kin - 1, 1))) / HALF_WIDTH
    return max(width * min(few, 2.0), SD_LEAST)


def _inside(found: Sequence[Unseen]) -> float:
    if not found:
        return SD_LEAST
    return max(float(np.quantile([abs(one.total) for one in found], 0.8)) / HALF_WIDTH, SD_LEAST)
