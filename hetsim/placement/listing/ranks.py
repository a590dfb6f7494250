"""Ranks of the nodes of a problem, for list schedulers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hetsim.problem.columns import made_by
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem


def mean_seconds(problem: Problem) -> list[float]:
    """Return each node's mean seconds over its supported devices, or 0 without one."""
    supported = problem.supported
    weights = np.where(supported, problem.shared_seconds, 0.0)
    means: list[float] = (weights.sum(axis=1) / supported.sum(axis=1).clip(min=1)).tolist()
    return means


def mean_route(problem: Problem) -> tuple[float, float]:
    """Return the mean latency and mean seconds per byte over pairs of distinct devices."""
    pairs = [route for p, row in enumerate(problem.routes) for q, route in enumerate(row) if p != q]
    count = max(len(pairs), 1)
    return (
        sum(route.latency_s for route in pairs) / count,
        sum(1.0 / route.bytes_per_s for route in pairs) / count,
    )


def upward_ranks(problem: Problem) -> list[float]:
    """Return the upward rank of each node in seconds: its longest mean path to an exit."""
    weights = mean_seconds(problem)
    latency_s, per_byte_s = mean_route(problem)
    made = made_by(problem)
    ranks = [0.0] * problem.n
    for node in range(problem.n - 1, -1, -1):
        tail = 0.0
        for value in made[node]:
            consumers = value.consumers
            if len(consumers) == 1:
                ahead = ranks[consumers[0]]
            else:
                ahead = max([ranks[v] for v in consumers]) if consumers else 0.0
            if consumers or problem.host is not None:
                ahead += latency_s + per_byte_s * value.nbytes
            if ahead > tail:
                tail = ahead
        ranks[node] = weights[node] + tail
    return ranks


def downward_ranks(problem: Problem) -> list[float]:
    """Return the downward rank of each node in seconds: its longest mean path from an entry."""
    weights = mean_seconds(problem)
    latency_s, per_byte_s = mean_route(problem)
    ranks = [0.0] * problem.n
    if problem.host is not None:
        for value in problem.values:
            if value.producer == GRAPH_INPUT:
                for v in value.consumers:
                    ranks[v] = max(ranks[v], latency_s + per_byte_s * value.nbytes)
    for node, values in enumerate(made_by(problem)):
        behind = ranks[node] + weights[node]
        for value in values:
            arrival = behind + latency_s + per_byte_s * value.nbytes
            for v in value.consumers:
                ranks[v] = max(ranks[v], arrival)
    return ranks


def static_levels(problem: Problem) -> tuple[list[float], list[float]]:
    """Return (static level, median time) by node in seconds."""
    table = np.where(problem.supported, problem.shared_seconds, np.nan)
    table[~problem.supported.any(axis=1)] = 0.0
    medians: list[float] = np.nanmedian(table, axis=1).tolist() if problem.n else []
    levels = [0.0] * problem.n
    for node in range(problem.n - 1, -1, -1):
        ahead = max((levels[v] for v in problem.dag.succs[node]), default=0.0)
        levels[node] = medians[node] + ahead
    return levels, medians


def rounded(ranks: Sequence[float]) -> list[float]:
    """Return `ranks` divided by the largest, rounded to 12 digits."""
    top = max(ranks, default=0.0) or 1.0
    return [round(rank / top, 12) for rank in ranks]


def by_falling_rank(ranks: Sequence[float]) -> list[int]:
    """Return the nodes in descending order of rank, ties by id."""
    return sorted(range(len(ranks)), key=[-rank for rank in rounded(ranks)].__getitem__)
