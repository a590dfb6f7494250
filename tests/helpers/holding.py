"""Whether intervals hold the truth as often as they say."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
import scipy

from interval_coverage import coverage
from known_queues import Known
from sweeps import sweep

QUICK, FULL, MORE = 10, 400, 2000
"""Seeds each time, in the sweep, and where chance may have made what those say."""


def bounds(seeds: int) -> tuple[int, int]:
    """How many intervals of 95 % hold the truth: 93 to 97 % of many seeds.

    Of few, fewer than the least come by chance once in 100,000 times, and all may.
    """
    if seeds >= FULL:
        return round(0.93 * seeds), round(0.97 * seeds)
    return int(scipy.stats.binom.ppf(1e-5, seeds, 0.95)), seeds


def at_loads(*loads: float) -> Callable[..., pytest.MarkDecorator]:
    """A few seeds of every other load each time, all loads and many seeds in the sweep."""
    quick, few = ([(load, QUICK) for load in some] for some in (loads[1::2], loads))
    return sweep("load, seeds", quick=quick, full=few + [(load, FULL) for load in loads])


def holds(known: Known, seeds: int, names: Iterable[str] | None = None) -> None:
    """Each figure is within its interval as often as it should be.

    Of intervals that do so in 95 of 100, one set of 400 in fifteen has less than 93 or more than
    97 of 100. Then 2,000 say which: as many again, within the same bounds.
    """
    wanted = set(names or known.truth)
    known = known._replace(truth={k: v for k, v in known.truth.items() if k in wanted})
    outside = _outside(known, seeds)
    if outside and seeds >= FULL:
        truth = {name: known.truth[name] for name in outside}
        outside = _outside(known._replace(truth=truth), MORE)
    assert not outside


def _outside(known: Known, seeds: int) -> dict[str, str]:
    least, most = bounds(seeds)
    return {
        name: f"held {one.held} of {one.enough}, {one.below} below, {one.above} above"
        for name, one in coverage(known, range(seeds)).items()
        if one.enough < seeds or not least <= one.held <= most
    }
