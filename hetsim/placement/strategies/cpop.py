"""Strategy ``cpop``: the critical path on one device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hetsim.graph.dag import topological_order
from hetsim.placement.listing.list_schedule import Schedule, scheduled
from hetsim.placement.listing.ranks import downward_ranks, rounded, upward_ranks
from hetsim.placement.listing.room import INFINITY
from hetsim.placement.starting.constructive import Constructive
from hetsim.problem.problem import Problem


@dataclass(frozen=True, slots=True)
class Cpop(Constructive):
    """The nodes of the longest mean path go to the one device that runs them quickest.

    Objective: makespan. The ready node with the longest mean path through it is next; off
    the critical path it goes where it would finish first. Where the chosen device does not
    take a node of the path, that node goes like the others. Beyond the paper: what
    ``list_schedule.Listing`` says.

    Complexity: O(E P + n P log n), and the grouping.

    Source: H. Topcuoglu, S. Hariri, M.-Y. Wu, Performance-effective and low-complexity
    task scheduling for heterogeneous computing, IEEE TPDS 13(3), 2002, section 4.
    """

    name: ClassVar[str] = "cpop"
    how: ClassVar[str] = "critical path on one device"

    def schedule(self, problem: Problem, homes: Sequence[int] | None = None) -> Schedule:
        """Return the schedule; see ``Listing`` for `homes` and the errors."""
        up, down = upward_ranks(problem), downward_ranks(problem)
        priority = rounded([a + b for a, b in zip(up, down, strict=True)])
        path = _critical_path(problem, priority)
        count = len(problem.devices)
        alone = np.where(problem.supported, problem.shared_seconds, np.inf)
        seconds: list[list[float]] = alone[path].tolist()
        sums = [sum(row[p] for row in seconds) for p in range(count)]
        if min(sums, default=INFINITY) == INFINITY:
            # None takes the whole path: the one that takes most of it, then the quickest.
            taken = [[row[p] for row in seconds] for p in range(count)]
            scores = [
                (sum(s == INFINITY for s in row), sum(s for s in row if s < INFINITY))
                for row in taken
            ]
            chosen = min(range(count), key=lambda p: (*scores[p], p))
        else:
            chosen = min(range(count), key=lambda p: (sums[p], p))
        order = topological_order(problem.dag.succs, [-rank for rank in priority])
        assert order is not None
        only = np.full(problem.n, -1)
        only[path] = chosen
        return scheduled(problem, homes, order, only=only.tolist())


def _critical_path(problem: Problem, priority: list[float]) -> list[int]:
    """From the entry of highest priority along the successors of highest priority."""
    entries = [v for v in range(problem.n) if not problem.dag.preds[v]]
    path: list[int] = []
    ahead: tuple[int, ...] = tuple(entries)
    while ahead:
        path.append(max(ahead, key=lambda v: (priority[v], -v)))
        ahead = problem.dag.succs[path[-1]]
    return path
