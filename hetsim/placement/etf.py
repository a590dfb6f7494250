"""Strategy ``etf``: earliest task first, for devices of unlike speed and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hetsim.placement.constructive import Constructive
from hetsim.placement.dynamic import PairRule, schedule_pairs
from hetsim.placement.listing import Schedule
from hetsim.placement.ranks import static_levels
from hetsim.problem import Problem


@dataclass(frozen=True, slots=True)
class Etf(Constructive):
    """Of all ready nodes and devices with room the pair that ends first is next.

    Objective: makespan. Ties go to the node with the longer way out. The paper takes the
    pair that begins first, for devices of one speed; where speeds differ, the end is what
    matters. As in the paper a device whose memory would overflow takes nothing more; here
    that is told from weights, and activations are checked by the clock. Beyond the paper:
    what ``listing.Listing`` says; no gap is filled.

    Complexity: O(n W P) for W ready nodes at once, and the grouping.

    Source: B. Jeon et al., Baechi: fast device placement of machine learning graphs,
    SoCC 2020, m-ETF; after J.-J. Hwang et al., SIAM J. Comput. 18(2), 1989.
    """

    name: ClassVar[str] = "etf"
    how: ClassVar[str] = "earliest end first"

    def schedule(self, problem: Problem, homes: Sequence[int] | None = None) -> Schedule:
        """Return the schedule; see ``Listing`` for `homes` and the errors."""
        levels, _ = static_levels(problem)
        order = np.empty(problem.n, dtype=np.int64)
        order[np.argsort(-np.array(levels), kind="stable")] = np.arange(problem.n)
        return schedule_pairs(problem, homes, _EarliestEnd(order))


class _EarliestEnd(PairRule):
    def __init__(self, place: NDArray[np.int64]) -> None:
        self._place = place

    def score(
        self, nodes: NDArray[np.int64], start: NDArray[np.float64], cost: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the ends; among those that end first, the place by static level."""
        end = start + cost
        first = end.min()
        return np.where(end == first, self._place[nodes, None].astype(np.float64), np.inf)
