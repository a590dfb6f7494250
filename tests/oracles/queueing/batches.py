"""One server that takes all that waits, up to a largest batch: by its embedded chain.

N. T. J. Bailey, On queueing processes with bulk service, JRSS B 16 (1954); M. F. Neuts, A general
class of bulk queues with Poisson input, Annals of Mathematical Statistics 38 (1967).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special

from oracles.queueing.several_servers import stationary

Floats = NDArray[np.float64]


def poisson(came: NDArray[np.int64], mean: float | Floats) -> Floats:
    """How likely so many come where so many do on average."""
    found: Floats = np.exp(special.xlogy(came, mean) - mean - special.gammaln(came + 1))
    return found


class BatchServer:
    """Poisson arrivals at `rate`; a batch of b takes ``takes[b - 1]``; none is held back."""

    def __init__(self, rate: float, takes: Sequence[float], states: int = 300) -> None:
        self.rate, self.takes, self.states = rate, tuple(takes), states
        self.largest = len(takes)
        moves = np.zeros((states, states))
        for waiting in range(states):
            size = self.size(waiting)
            came = poisson(np.arange(states), rate * takes[size - 1])
            left = max(waiting - size, 0)
            moves[waiting, left:] = came[: states - left]
            moves[waiting, -1] += max(1 - moves[waiting].sum(), 0.0)
        self.ends = stationary(moves)
        """How likely each number waiting is, as a batch ends."""

    def size(self, waiting: int) -> int:
        """Of the batch that follows: of what waits, else of the next that comes."""
        return min(max(waiting, 1), self.largest)

    def sizes(self) -> Floats:
        """How likely each size of a batch is, from 0 on."""
        found = np.zeros(self.largest + 1)
        for waiting, share in enumerate(self.ends):
            found[self.size(waiting)] += share
        return found

    def cycle(self) -> float:
        """Mean seconds from the end of a batch to that of the next."""
        each = [self.takes[self.size(waiting) - 1] for waiting in range(self.states)]
        return float(self.ends @ each + self.ends[0] / self.rate)

    def mean_wait(self) -> float:
        """From arrival to the batch: what waits over time, by Little's law."""
        waited = 0.0
        for waiting, share in enumerate(self.ends):
            size = self.size(waiting)
            seconds = self.takes[size - 1]
            behind = max(waiting - size, 0)
            waited += share * (behind * seconds + self.rate * seconds**2 / 2)
        return waited / self.cycle() / self.rate

    def utilization(self) -> float:
        """Share of the time that a batch runs."""
        return 1 - float(self.ends[0]) / self.rate / self.cycle()

    def mean_latency(self) -> float:
        """Of a request, with its batch."""
        sizes = self.sizes()
        weights = sizes * np.arange(self.largest + 1)
        return self.mean_wait() + float(weights[1:] @ np.array(self.takes)) / weights.sum()

    def late(self, time: float, points: int = 48) -> float:
        """P(latency > time).

        Who comes finds the server idle, or a batch of it under way since u, uniform over its time,
        with those before it: what waited at its start, and what came in u. After what is left of
        it, whole batches go first; then its own goes, with what came behind it until then.
        """
        cycle = self.cycle()
        late = float(self.takes[0] > time) * self.ends[0] / self.rate
        places, weights = special.roots_legendre(points)
        for waiting in np.flatnonzero(self.ends > 1e-10):
            size = self.size(waiting)
            edges = self._edges(self.takes[size - 1], time)
            half, middle = np.diff(edges)[:, None] / 2, (edges[:-1] + edges[1:])[:, None] / 2
            since = (middle + half * places).ravel()
            found = self._late(time, self.takes[size - 1], max(waiting - size, 0), since)
            late += self.ends[waiting] * float((half * weights).ravel() @ found)
        return late / cycle

    def _edges(self, seconds: float, time: float) -> Floats:
        """Where latencies jump, as what is left of a batch changes: between, they are smooth."""
        batches = np.arange(int(time / self.takes[-1]) + 2)[:, None] * self.takes[-1]
        jumps = (seconds - (time - batches - np.array(self.takes))).ravel()
        return np.unique([0.0, seconds, *jumps[(jumps > 0) & (jumps < seconds)]])

    def _late(self, time: float, seconds: float, behind: int, since: Floats) -> Floats:
        """Of those that came `since` a batch of so many seconds began with `behind` waiting."""
        # More before it than can be done in time: late for sure.
        most = (int(time / self.takes[-1]) + 2) * self.largest
        came = np.arange(max(most - behind, 0))[:, None]
        offered = self.rate * since
        chance = poisson(came, offered)
        # When its own batch goes, its place there, and the most that may be in it to be in time.
        until = seconds - since + (behind + came) // self.largest * self.takes[-1]
        within = (behind + came) % self.largest + 1
        may = np.searchsorted(self.takes, time - until, side="right")
        joined = special.pdtr(np.maximum(may - within, 0), self.rate * until)
        on_time = np.where(may < within, 0.0, np.where(may == self.largest, 1.0, joined))
        found: Floats = 1 - (chance * on_time).sum(axis=0)
        return found


def mean_wait_of_constant(rate: float, seconds: float, largest: int, points: int = 4096) -> float:
    """The same mean of batches that all take as long, by zeros of a generating function.

    With A(z) = exp(rate seconds (z - 1)) of those that come in a batch, what waits as one ends has
    the generating function [sum over n < largest of q(n) (z^largest - z^n) + ...] A(z) / (z^largest
    - A(z)), whose unknown q follow from the zeros of the denominator within the unit circle.
    """
    offered = rate * seconds

    def came(z: complex) -> complex:
        return complex(np.exp(offered * (z - 1)))

    # z = A(z)^(1/largest) w for each root of unity w: a contraction.
    zeros = []
    for k in range(1, largest):
        root = complex(np.exp(2j * math.pi * k / largest))
        z = 0j
        for _ in range(points):
            z = root * complex(np.exp(offered * (z - 1) / largest))
        zeros.append(z)
    # P(z) (z^B - A) = A * [q0 (z^B - 1) + sum_{0<n<B} qn (z^B - z^n)]: for 0 the next to come is
    # served alone, which leaves as many as from 1: as if one had waited, z^0 in the place of z^1.
    rows = [[z**largest - z**n for n in range(largest)] for z in zeros]
    # At 1 both sides are 0: their slopes are equal.
    rows.append([complex(largest - n) for n in range(largest)])
    known = np.zeros(largest, dtype=complex)
    known[-1] = largest - offered
    q = np.linalg.solve(np.array(rows), known).real
    # The mean, by slopes of second order at 1.
    top = sum(q[n] * (largest * (largest - 1) - n * (n - 1)) for n in range(largest))
    first = sum(q[n] * (largest - n) for n in range(largest))
    bottom = largest - offered
    mean = (top + 2 * first * offered - (largest * (largest - 1) - offered**2)) / (2 * bottom)
    cycle = seconds + q[0] / rate
    # Over time: what is behind a batch waits all of it, what comes half of it.
    behind = mean - sum(min(n, largest) * q[n] for n in range(largest)) - largest * (1 - q.sum())
    return float((behind * seconds + rate * seconds**2 / 2) / cycle / rate)
