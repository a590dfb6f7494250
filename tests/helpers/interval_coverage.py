"""How often intervals of 95 % hold the true figures of known queues."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetsim.simulation.service.figures import chosen
from hetsim.simulation.serving.setup import Outcomes
from hetsim.simulation.serving.tables import SERVED
from hetsim.statistics.intervals import Mean, Percentile, mean_of, percentile_of
from known_queues import BLOCK, Known

Floats = NDArray[np.float64]
Figure = Mean | Percentile

LATE = 1e18


def figures(found: Outcomes, names: Sequence[str], servers: int = 1) -> dict[str, Figure]:
    """What a run says of each figure."""
    gaps = np.diff(found.arrival_s, append=found.arrival_s[-1])
    served = found.why == SERVED
    answered = served.astype(np.float64)

    def mean(seconds: Floats, over: Floats) -> Mean:
        return mean_of(np.where(served, seconds, 0.0), found.fresh, over)

    told: dict[str, Callable[[], Figure]] = {
        "mean": lambda: mean(found.latency_s, answered),
        "p99": lambda: percentile_of(np.where(served, found.latency_s, LATE), found.fresh, 99.0),
        "waiting": lambda: mean(found.begun_s - found.arrival_s, gaps),
        "utilization": lambda: mean((found.finish_s - found.begun_s) / found.size, servers * gaps),
        "throughput": lambda: mean(answered, gaps),
        "rejected": lambda: mean_of(1 - answered, found.fresh),
    }
    return {name: told[name]() for name in names}


class Coverage(NamedTuple):
    """How often intervals held the truth.

    Attributes
    ----------
    held, below, above : int
        Intervals that held it, that were all below it, and all above it.
    enough : int
        Runs that said that they were long enough; the others are not counted.
    half_width : float
        Median of half of an interval, over the truth.
    requests : float
        Mean of the requests that it took.
    """

    held: int
    below: int
    above: int
    enough: int
    half_width: float
    requests: float

    @property
    def share(self) -> float:
        """Of the runs that were long enough."""
        return self.held / self.enough if self.enough else math.nan


def told(known: Known, seed: int, most: int) -> dict[str, tuple[Figure, int]]:
    """Each figure of the first run that is long enough for it, and of how many requests it is.

    It is looked at after a block of 2**14 requests, and whenever there are twice as many.
    """
    found: dict[str, tuple[Figure, int]] = {}
    parts: list[Outcomes] = []
    count = due = 0
    for blocks, part in enumerate(known.play(seed), start=1):
        parts.append(part)
        count += part.requests
        if blocks < max(due, 1):
            continue
        due = 2 * blocks
        parts = [Outcomes.joined(parts)]
        run = parts[0]
        if known.stream >= 0:
            run = chosen(run, run.stream == known.stream)
        missing = [name for name in known.truth if name not in found]
        for name, figure in figures(run, missing, known.servers).items():
            if figure.enough:
                found[name] = figure, count
        if len(found) == len(known.truth) or blocks * BLOCK >= most:
            break
    return found


def ends(figure: Figure) -> tuple[float, float]:
    """An interval."""
    if isinstance(figure, Mean):
        return figure.low, figure.high
    return figure.low_s, figure.high_s


def coverage(known: Known, seeds: Sequence[int], most: int = 2**21) -> dict[str, Coverage]:
    """How often intervals of 95 % hold each true figure."""
    runs = [told(known, seed, most) for seed in seeds]
    found = {}
    for name, truth in known.truth.items():
        each = [run[name] for run in runs if name in run]
        below = above = 0
        widths = []
        for figure, _ in each:
            low, high = ends(figure)
            # What is exact holds the truth but for rounding.
            below += int(high < truth * (1 - 1e-9))
            above += int(low > truth * (1 + 1e-9))
            widths.append((high - low) / 2 / truth)
        many = len(each)
        found[name] = Coverage(
            many - below - above,
            below,
            above,
            many,
            float(np.median(widths)) if many else math.nan,
            float(np.mean([count for _, count in each])) if many else math.nan,
        )
    return found
