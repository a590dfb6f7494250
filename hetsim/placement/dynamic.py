"""List scheduling without a fixed order: of all ready nodes and devices, the best pair is next."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hetsim.placement.listing import Listing, Schedule, Slot
from hetsim.problem import Problem


class PairRule:
    """What a pair of ready node and device is worth."""

    @abstractmethod
    def score(
        self, nodes: NDArray[np.int64], start: NDArray[np.float64], cost: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return a score [k, P], the smallest is next; inf where `cost` is.

        Parameters
        ----------
        nodes : int array [k]
            The ready nodes.
        start, cost : float array [k, P]
            When each could begin, behind what its device has, and its seconds there.
        """


def schedule_pairs(problem: Problem, homes: Sequence[int] | None, rule: PairRule) -> Schedule:
    """Place pairs until nothing is left; no gap is filled.

    Estimates, memory and errors are those of ``Listing``; ties go to the lower node, then to
    the lower device. O(n W P) for W ready nodes at once.
    """
    listing = Listing(problem, homes)
    waits = [len(before) for before in problem.dag.preds]
    free = [[0.0] * streams for streams in problem.streams]
    nodes = np.array([v for v, count in enumerate(waits) if not count], dtype=np.int64)
    arrival = np.array([listing.ready[v] for v in nodes]).reshape(len(nodes), listing.count)
    cost = np.array([_costs(listing, v) for v in nodes.tolist()]).reshape(arrival.shape)
    while len(nodes):
        soonest = np.array([min(times) for times in free])
        start = np.maximum(arrival, soonest)
        able = cost
        if listing.memory is not None:
            holds = [
                [listing.memory.holds(v, p) for p in range(listing.count)] for v in nodes.tolist()
            ]
            able = np.where(np.array(holds), cost, np.inf)
        scores = rule.score(nodes, start, able)
        lost = ~np.isfinite(able).any(axis=1)
        if lost.any():
            listing.refuse(int(nodes[lost][0]))
        row, device = divmod(int(scores.argmin()), listing.count)
        node = int(nodes[row])
        begin = float(start[row, device])
        end = begin + float(cost[row, device])
        stream = free[device].index(min(free[device]))
        listing.place(node, Slot(end, begin, end, device, stream))
        free[device][stream] = end
        fresh: list[int] = []
        for v in problem.dag.succs[node]:
            waits[v] -= 1
            if not waits[v]:
                fresh.append(v)
        kept = np.arange(len(nodes)) != row
        added = np.array(fresh, dtype=np.int64)
        # Kept by node id, so that argmin breaks ties by it.
        nodes = np.concatenate([nodes[kept], added])
        order = nodes.argsort()
        nodes = nodes[order]
        shape = (len(fresh), listing.count)
        arrived = np.array([listing.ready[v] for v in fresh]).reshape(shape)
        costs = np.array([_costs(listing, v) for v in fresh]).reshape(shape)
        arrival = np.concatenate([arrival[kept], arrived])[order]
        cost = np.concatenate([cost[kept], costs])[order]
    return listing.schedule()


def _costs(listing: Listing, node: int) -> list[float]:
    return [listing.duration(node, device) for device in range(listing.count)]
