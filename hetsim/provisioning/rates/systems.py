"""Systems whose requests are late the later, the closer they come: their times in whole numbers.

A system is *monotone* where no request delays one before it, arrivals that are later make no end
sooner, and times move with the arrivals. With arrivals pulled apart by a factor above 1 each
request sees those before it come earlier, relative to itself, and so takes no longer.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hetsim.provisioning.rates.stretching import Play, units
from hetsim.simulation.orders import Order

NEVER = -1
"""Before all times."""


def in_order(
    order: Order, duration: NDArray[np.float64], template: Sequence[int], exponent: int
) -> Play:
    """Return the system whose devices and links serve tasks in a certain order.

    Parameters
    ----------
    order : Order
        Without `reasons`.
    duration : float array [tasks]
        As the layout has them.
    template : sequence of int
        By request.
    exponent : int
        Of the unit.
    """
    seconds = units(duration.tolist(), exponent)
    tasks = [
        [(seconds[task.number], task.waits, task.held, task.turn) for task in template]
        for template in order.templates
    ]

    def play(arrival: Sequence[int], times: int) -> list[int]:
        scaled = [
            [(took * times, waits, held, turn) for took, waits, held, turn in own] for own in tasks
        ]
        free = [[NEVER] * streams for streams in order.width]
        ends = []
        for came, which in zip(arrival, template, strict=True):
            started: list[int] = []
            ended: list[int] = []
            last = came
            for took, waits, held, turn in scaled[which]:
                start = came if turn < 0 else max(came, started[turn])
                for other in waits:
                    start = max(start, ended[other])
                # The first of a device's streams that is free; a heap has it in front.
                for resource in held:
                    start = max(start, free[resource][0])
                end = start + took
                for resource in held:
                    heapq.heapreplace(free[resource], end)
                started.append(start)
                ended.append(end)
                last = max(last, end)
            ends.append(last)
        return ends

    return play


def pools(
    servers: Sequence[int], pool: Sequence[int], seconds: Sequence[float], exponent: int
) -> Play:
    """Return the system of requests that wait in line for the first of several servers alike.

    Parameters
    ----------
    servers : sequence of int
        By pool.
    pool : sequence of int
        By request: whose line it waits in.
    seconds : sequence of float
        By request: how long it is served.
    exponent : int
        Of the unit.

    Source: J. Kiefer and J. Wolfowitz, On the theory of queues with many servers, Transactions of
    the AMS 78 (1955), https://doi.org/10.1090/S0002-9947-1955-0066408-3.
    """
    takes = units(seconds, exponent)

    def play(arrival: Sequence[int], times: int) -> list[int]:
        free = [[NEVER] * count for count in servers]
        ends = []
        for came, which, took in zip(arrival, pool, takes, strict=True):
            end = max(came, free[which][0]) + took * times
            heapq.heapreplace(free[which], end)
            ends.append(end)
        return ends

    return play
