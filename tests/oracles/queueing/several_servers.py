"""Several servers: Erlang's formulas, and constant services.

A. K. Erlang, Solution of some problems in the theory of probabilities of significance in automatic
telephone exchanges (1917); C. D. Crommelin (1932) and G. J. Franx, A simple solution for the M/D/c
waiting time distribution, Operations Research Letters 29 (2001).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, special

Floats = NDArray[np.float64]


def stationary(moves: Floats) -> Floats:
    """The distribution that a chain keeps, by elimination without a difference.

    W. Grassmann, M. Taksar and D. Heyman, Operations Research 33 (1985).
    """
    left = moves.copy()
    for state in range(len(left) - 1, 0, -1):
        left[:state, state] /= left[state, :state].sum()
        left[:state, :state] += np.outer(left[:state, state], left[state, :state])
    found = np.ones(len(left))
    for state in range(1, len(left)):
        found[state] = found[:state] @ left[:state, state]
    return found / found.sum()


def births_and_deaths(births: Floats, deaths: Floats) -> Floats:
    """How likely each number inside is: `births[n]` a second from n, `deaths[n]` from n + 1."""
    rates = np.diag(births, 1) + np.diag(deaths, -1)
    rates -= np.diag(rates.sum(axis=1))
    rates[:, 0] = 1.0
    found: Floats = np.linalg.solve(rates.T, np.eye(len(rates))[0])
    return found


def erlang_b(offered: float, servers: int) -> float:
    """The share that finds all servers busy, where nobody waits; whatever the services."""
    blocked = 1.0
    for server in range(1, servers + 1):
        blocked = offered * blocked / (server + offered * blocked)
    return blocked


def erlang_c(offered: float, servers: int) -> float:
    """The share that waits, of exponential services of mean 1."""
    blocked = erlang_b(offered, servers)
    return blocked / (1 - offered / servers * (1 - blocked))


def late(offered: float, servers: int, time: float) -> float:
    """P(latency > time) of exponential services of mean 1: a wait, if any, and a service."""
    waits, spare = erlang_c(offered, servers), servers - offered
    alone = math.exp(-time)
    if abs(spare - 1) < 1e-9:
        return (1 - waits) * alone + waits * (1 + time) * alone
    both = (spare * alone - math.exp(-spare * time)) / (spare - 1)
    return (1 - waits) * alone + waits * both


def late_by_phases(offered: float, servers: int, time: float, most: int = 400) -> float:
    """The same of one request that is watched: those before it leave, then it is served."""
    arrivals = births_and_deaths(
        np.full(most, offered), np.minimum(np.arange(1, most + 1), servers).astype(float)
    )
    before = most - servers + 1
    rates = np.zeros((before + 1, before + 1))
    # Phase 0: in service. Phase k: k more must leave before it starts.
    rates[0, 0] = -1.0
    for phase in range(1, before + 1):
        rates[phase, phase], rates[phase, phase - 1] = -servers, servers
    begins = np.zeros(before + 1)
    begins[0] = arrivals[:servers].sum()
    begins[1:] = arrivals[servers : servers + before]
    return float((begins @ linalg.expm(rates * time)).sum())


def constant_inside(offered: float, servers: int, most: int | None = None) -> Floats:
    """How likely each number inside is, of constant services of 1.

    What is inside now is what was not being served a service ago, and what came since.
    """
    if most is None:
        most = servers + round(30 / (1 - offered / servers)) + 30
    came = special.pdtr(np.arange(most), offered)
    came = np.diff(came, prepend=0.0)
    moves = np.zeros((most, most))
    for inside in range(most):
        left = max(inside - servers, 0)
        moves[inside, left:] = came[: most - left]
        moves[inside, -1] += 1 - moves[inside].sum()
    return stationary(moves)


def constant_mean_wait(offered: float, servers: int) -> float:
    """Mean wait of constant services of 1: those that wait, by Little's law."""
    inside = constant_inside(offered, servers)
    return float(np.maximum(np.arange(len(inside)) - servers, 0) @ inside) / offered


def constant_waits(offered: float, servers: int, time: float, inside: Floats) -> float:
    """P(wait <= time) of constant services of 1: Franx's sum, of positive parts alone."""
    whole = math.floor(time) + 1
    rest = offered * (whole - time)
    most = whole * servers - 1
    sums = np.cumsum(inside)
    waiting = sums[np.minimum(servers + most - np.arange(most + 1), len(sums) - 1)]
    counts = np.arange(most + 1)
    parts = np.exp(counts * math.log(rest) - rest - special.gammaln(counts + 1))
    return float(waiting @ parts)


def constant_mean_wait_by_sums(offered: float, servers: int, most: int = 20_000) -> float:
    """The same by F. Spitzer's identity (1956): every server gets each `servers`-th request.

    The mean of the greatest sum of a random walk is that of its positive parts at each step n,
    over n; the gaps of n steps are together a gamma variable.
    """
    n = np.arange(1, most + 1)
    shape, reach = n * servers, n * offered
    positive = n * special.gammainc(shape, reach) - shape / offered * special.gammainc(
        shape + 1, reach
    )
    return float((positive / n).sum())


def constant_no_wait_by_sums(offered: float, servers: int, most: int = 20_000) -> float:
    """P(wait = 0), by the same identity."""
    n = np.arange(1, most + 1)
    return math.exp(-float((special.gammainc(n * servers, n * offered) / n).sum()))
