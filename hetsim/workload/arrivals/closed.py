"""Requests of a fixed number of clients, each of whom waits for the answer to the one before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from hetsim.core.checks import one_of, whole
from hetsim.workload.arrivals.contract import Seconds
from hetsim.workload.checks import not_negative
from hetsim.workload.numbers import Numbers

Think = Literal["constant", "exponential"]
THINKS: tuple[Think, ...] = ("constant", "exponential")
MAX_CONCURRENCY = 2**20
TURNS = 64
"""Turns whose times to think are drawn at a time."""


@dataclass(frozen=True, slots=True)
class Closed:
    """A closed loop: a client thinks, sends a request, waits for its answer, and thinks again.

    When requests come depends on when they are answered, so they cannot be drawn ahead; how long
    each client thinks before each of its requests can.

    Attributes
    ----------
    concurrency : int
        Clients, so the most requests that are under way.
    think_time_s : float
        Mean time from an answer, or the start, to the next request.
    think : "constant" or "exponential"
        How that time is distributed.
    """

    kind: ClassVar[str] = "closed"

    concurrency: int
    think_time_s: float = 0.0
    think: Think = "constant"

    def __post_init__(self) -> None:
        whole(1, MAX_CONCURRENCY)(self.concurrency, "concurrency")
        not_negative(self.think_time_s, "think_time_s")
        one_of(*THINKS)(self.think, "think")

    def think_times_s(self, numbers: Numbers, block: int) -> Seconds:
        """Return how long each client thinks, float64[TURNS, concurrency].

        Row `turn` of block `block` holds the time before request `block * TURNS + turn` of every
        client. Blocks can be asked for in any order; the times of a client do not depend on when
        the others are answered.
        """
        shape = (TURNS, self.concurrency)
        if self.think == "constant":
            return np.full(shape, float(self.think_time_s))
        drawn = numbers.generator("think", block).standard_exponential(shape)
        times: Seconds = drawn * self.think_time_s
        return times
