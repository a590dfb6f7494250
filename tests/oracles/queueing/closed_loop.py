"""Clients that think and come again: machine repair, with exponential and constant services."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from oracles.queueing.several_servers import births_and_deaths, stationary


def mean_values(clients: int, think: float) -> tuple[float, float]:
    """Answers a second and mean latency, of one server of exponential services of mean 1.

    M. Reiser and S. Lavenberg, Mean-value analysis of closed multichain queuing networks, Journal
    of the ACM 27 (1980): who comes sees what one client less would leave.
    """
    inside = rate = latency = 0.0
    for n in range(1, clients + 1):
        latency = 1 + inside
        rate = n / (think + latency)
        inside = rate * latency
    return rate, latency


def balanced(clients: int, think: float) -> tuple[float, float]:
    """The same by the balance of births and deaths."""
    inside = _inside(clients, think)
    rate = 1 - float(inside[0])
    return rate, float(np.arange(clients + 1) @ inside) / rate


def late(clients: int, think: float, time: float) -> float:
    """P(latency > time): who comes finds what one client less leaves, each an exponential."""
    found = _inside(clients - 1, think)
    return float(found @ special.gammaincc(np.arange(1, clients + 1), time))


def constant_rate(clients: int, think: float) -> float:
    """Answers a second of one server of constant services of 1, by its chain after services."""
    moves = np.zeros((clients, clients))
    joins = -math.expm1(-1 / think)
    for waiting in range(clients):
        inside = max(waiting, 1)
        outside = clients - inside
        for came in range(outside + 1):
            chance = math.comb(outside, came) * joins**came * (1 - joins) ** (outside - came)
            moves[waiting, inside - 1 + came] += chance
    idle = float(stationary(moves)[0])
    return 1 / (1 + idle * think / clients)


def _inside(clients: int, think: float) -> np.ndarray:  # type: ignore[type-arg]
    away = np.arange(clients, 0, -1.0)
    return births_and_deaths(away / think, np.ones(clients))
