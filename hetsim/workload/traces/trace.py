"""A trace of requests: when they came, and what is told of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Requests that came somewhere.

    Attributes
    ----------
    format : str
        What the file was read as.
    arrival_s : float64[requests]
        Ascending, from the first time of the file on, or from an earlier one that was asked for.
    columns : mapping of str to int64[requests]
        What was asked for of each request, e.g. how many tokens it brought.
    """

    format: str
    arrival_s: np.ndarray[Any, np.dtype[np.float64]]
    columns: Mapping[str, np.ndarray[Any, np.dtype[np.int64]]]

    @property
    def rate_per_s(self) -> float:
        """Requests a second from the first to the last; infinite where all came at once."""
        span_s = float(self.arrival_s[-1] - self.arrival_s[0])
        gaps = len(self.arrival_s) - 1
        if not gaps:
            return 0.0
        return gaps / span_s if span_s else float("inf")
