"""Strategy ``etf``: earliest task first, for devices of unlike speed and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from hetsim.placement.listing.list_schedule import Schedule
from hetsim.placement.listing.ranks import static_levels
from hetsim.placement.listing.ready_pairs import schedule_pairs
from hetsim.placement.starting.constructive import Constructive
from hetsim.problem.problem import Problem


@dataclass(frozen=True, slots=True)
class Etf(Constructive):
    """Of all ready nodes and devices with room the pair that ends first is next.

    Objective: makespan. Ties go to the node with the longer way out. The paper takes the
    pair that begins first, for devices of one speed; where speeds differ, the end is what
    matters. As in the paper a device whose memory would overflow takes nothing more; here
    that is told from weights, and activations are checked by the clock. Beyond the paper:
    what ``list_schedule.Listing`` says; no gap is filled.

    Complexity: O(n W P) for W ready nodes at once, and the grouping.

    Source: B. Jeon et al., Baechi: fast device placement of machine learning graphs,
    SoCC 2020, m-ETF; after J.-J. Hwang et al., SIAM J. Comput. 18(2), 1989.
    """

    name: ClassVar[str] = "etf"
    how: ClassVar[str] = "earliest end first"

    def schedule(self, problem: Problem, homes: Sequence[int] | None = None) -> Schedule:
        """Return the schedule; see ``Listing`` for `homes` and the errors."""
        levels, _ = static_levels(problem)
        order = sorted(range(problem.n), key=lambda v: -levels[v])
        rank = [0] * problem.n
        for place, node in enumerate(order):
            rank[node] = place
        return schedule_pairs(problem, homes, rank=rank)
