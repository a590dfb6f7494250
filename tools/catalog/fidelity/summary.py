"""Errors of many predictions in a few figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from catalog.fidelity.points import FidelityPoint, Predicted

Choose = Callable[[FidelityPoint], Predicted | None]


@dataclass(frozen=True, slots=True)
class Summary:
    """Errors of predictions that there are.

    Attributes
    ----------
    count : int
    median, p90 : float
        Of relative errors, 0.1 for 10 %.
    within_twice : float
        Share between half and twice the measured time.
    covered : float
        Share of measured times inside the interval.
    """

    count: int
    median: float
    p90: float
    within_twice: float
    covered: float

    @classmethod
    def of(cls, points: Iterable[FidelityPoint], predicted: Choose) -> Summary | None:
        """Summarise; None where nothing is predicted."""
        found = [(point, one) for point in points if (one := predicted(point)) is not None]
        if not found:
            return None
        errors = np.array([one.error(point.measured_s) for point, one in found])
        logs = np.log([one.seconds / point.measured_s for point, one in found])
        return cls(
            count=len(found),
            median=float(np.median(errors)),
            p90=float(np.quantile(errors, 0.9)),
            within_twice=float((np.abs(logs) <= np.log(2)).mean()),
            covered=float(np.mean([one.covers(point.measured_s) for point, one in found])),
        )


def spread(points: Iterable[FidelityPoint]) -> float | None:
    """Return how far the largest of repeated measurements is above the least, by the median."""
    found = [point.highest_s / point.lowest_s - 1 for point in points if point.rows > 1]
    return float(np.median(found)) if found else None
