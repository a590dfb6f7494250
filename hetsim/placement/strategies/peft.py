"""Strategy ``peft``: earliest finish time with an optimistic look at the way out."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hetsim.placement.listing.list_schedule import Listing, Schedule
from hetsim.placement.listing.ranks import made_by, mean_route, rounded, travel_matrices
from hetsim.placement.starting.constructive import Constructive
from hetsim.problem.problem import Problem


@dataclass(frozen=True, slots=True)
class Peft(Constructive):
    """Each node goes where its finish and the best that can follow are earliest.

    Objective: makespan. The optimistic cost of a node on a device is the longest way from
    there to an exit when every later node chooses freely, mean transfers where it changes
    device. Ready nodes go by their mean optimistic cost. Beyond the paper: an output's way
    back to the host counts as the end of the way, and what ``list_schedule.Listing`` says.

    Complexity: O(E P^2 + n P log n), and the grouping.

    Source: H. Arabnejad, J. G. Barbosa, List scheduling algorithm for heterogeneous systems
    by an optimistic cost table, IEEE TPDS 25(3), 2014.
    """

    name: ClassVar[str] = "peft"
    how: ClassVar[str] = "earliest finish with an optimistic cost table"

    def schedule(self, problem: Problem, homes: Sequence[int] | None = None) -> Schedule:
        """Return the schedule; see ``Listing`` for `homes` and the errors."""
        listing = Listing(problem, homes)
        table = optimistic_costs(problem)
        able = problem.supported
        sums = np.where(able, table, 0.0).sum(axis=1) / able.sum(axis=1).clip(min=1)
        ranks, ahead = rounded(sums.tolist()), table.tolist()
        waits = [len(before) for before in problem.dag.preds]
        queue = [(-ranks[v], v) for v, count in enumerate(waits) if not count]
        heapq.heapify(queue)
        while queue:
            _, node = heapq.heappop(queue)
            costs = ahead[node]
            best = min(
                listing.slots(node),
                key=lambda slot: (slot.end_s + costs[slot.device], slot.end_s, slot.device),
            )
            listing.place(node, best)
            for v in problem.dag.succs[node]:
                waits[v] -= 1
                if not waits[v]:
                    heapq.heappush(queue, (-ranks[v], v))
        return listing.schedule()


def optimistic_costs(problem: Problem) -> NDArray[np.float64]:
    """Return the optimistic cost table [n, P] in seconds; inf where nothing can follow."""
    count = len(problem.devices)
    latency_s, per_byte_s = mean_route(problem)
    lat, bandwidth = travel_matrices(problem)
    seconds = np.where(problem.supported, problem.shared_seconds, np.inf)
    moved = 1.0 - np.eye(count)
    kept: dict[int, NDArray[np.float64]] = {}
    table = np.zeros((problem.n, count))
    through = np.zeros((problem.n, count))
    made = made_by(problem)
    for node in range(problem.n - 1, -1, -1):
        row = table[node]
        for value in made[node]:
            if value.is_output and problem.host is not None:
                host = problem.host
                np.maximum(row, lat[:, host] + value.nbytes / bandwidth[:, host], out=row)
            if value.nbytes not in kept:
                kept[value.nbytes] = moved * (latency_s + per_byte_s * value.nbytes)
            travel = kept[value.nbytes]
            for v in value.consumers:
                np.maximum(row, (through[v] + travel).min(axis=1), out=row)
        np.add(row, seconds[node], out=through[node])
    return table
