"""The times of tasks where every resource serves them by request, and within a request in order."""

from __future__ import annotations

import heapq
import math

import numpy as np
from numpy.typing import NDArray

from hetsim.simulation.orders import Order

Floats = NDArray[np.float64]


def times_in_order(
    order: Order, duration: Floats, arrival: Floats, template: NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """When the first task of each request starts and its last ends; both its arrival without any.

    Lindley's recursion for each resource, Kiefer and Wolfowitz's for several streams.
    """
    free = [[-math.inf] * streams for streams in order.width]
    starts, ends = [], []
    for came, which in zip(arrival.tolist(), template.tolist(), strict=True):
        ended: list[float] = []
        started: list[float] = []
        for task in order.templates[which]:
            start = max([came, *(ended[k] for k in task.waits), *(free[r][0] for r in task.held)])
            if task.turn >= 0:
                start = max(start, started[task.turn])
            started.append(start)
            ended.append(start + float(duration[task.number]))
            for resource in task.held:
                heapq.heapreplace(free[resource], ended[-1])
        starts.append(min(started, default=came))
        ends.append(max([came, *ended]))
    return np.array(starts), np.array(ends)
