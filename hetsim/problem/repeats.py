"""Repeated layers of a problem: nodes with the same costs as those one period before."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hetsim.graph.dag import Ints
from hetsim.problem.columns import cached
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem

PERIODS, LEAST = 50, 3
"""Number of periods to examine, those that match most nodes, and the minimum period: fewer nodes
are hardly a layer."""


class Repeat(NamedTuple):
    """Nodes `first` to ``first + nodes`` in graph order, each equal to the one `period` before."""

    first: int
    nodes: int
    period: int


@cached
def repeats(problem: Problem) -> tuple[Repeat, ...]:
    """Return the repeated layers, longest first; they share no node, and each has two periods.

    Nodes are equal if they take the same seconds on every device and produce the same bytes for as
    many readers. A period is found at a node without an equal one closer. Edges are not compared,
    so results built on a repeat must be checked. O(PERIODS n).
    """
    kind = _kinds(problem)
    order = np.argsort(kind, kind="stable")
    apart = np.diff(order)[np.diff(kind[order]) == 0]
    periods, often = np.unique(apart[apart >= LEAST], return_counts=True)
    found: list[Repeat] = []
    for period in periods[np.argsort(-often * periods, kind="stable")][:PERIODS].tolist():
        alike = np.concatenate(([False], kind[period:] == kind[:-period], [False]))
        edges = np.flatnonzero(alike[1:] != alike[:-1])
        found += [
            Repeat(first, stop - first + period, period)
            for first, stop in edges.reshape(-1, 2).tolist()
            if stop - first >= period
        ]
    taken = np.zeros(problem.n, dtype=np.bool_)
    kept: list[Repeat] = []
    for repeat in sorted(found, key=lambda one: (-one.nodes, one.period, one.first)):
        own = slice(repeat.first, repeat.first + repeat.nodes)
        if not taken[own].any():
            taken[own] = True
            kept.append(repeat)
    return tuple(kept)


def _kinds(problem: Problem) -> Ints:
    values = problem.value_arrays
    made = values.producer != GRAPH_INPUT
    source = values.producer[made]
    nbytes, readers = np.zeros(problem.n), np.zeros(problem.n)
    np.add.at(nbytes, source, values.nbytes[made])
    np.add.at(readers, source, np.diff(values.readers.at)[made])
    rows = np.column_stack((problem.seconds, nbytes, readers))
    kind: Ints = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    return kind
