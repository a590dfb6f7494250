"""What the clock saw: when each request came and ended, and each of its tasks if traced."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Recording:
    """What the clock saw.

    Attributes
    ----------
    arrival, finish : float array [requests]
    template : int array [requests]
        The replica that a request went to.
    entry_at : int array [requests + 1]
        Where a request's tasks begin in the arrays below; only zeros without a trace.
    start, end : float array [entries]
    sequence : int array [entries]
        The how-manieth start it was.
    stream : int array [entries]
        The stream that ran a subgraph; 0 for transfers.

    The last four are empty where no trace was recorded.
    """

    arrival: NDArray[np.float64]
    finish: NDArray[np.float64]
    template: NDArray[np.int64]
    entry_at: NDArray[np.int64]
    start: NDArray[np.float64]
    end: NDArray[np.float64]
    sequence: NDArray[np.int64]
    stream: NDArray[np.int64]
