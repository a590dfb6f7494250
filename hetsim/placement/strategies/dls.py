"""Strategy ``dls``: dynamic level scheduling."""

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
class Dls(Constructive):
    """Of all ready nodes and devices the pair of highest dynamic level is next.

    Objective: makespan. The dynamic level of a pair is the node's static level, its longest
    way out over median times, less when it could begin there, plus what the device is
    quicker than the median. Beyond the paper: dispatch is part of a node's time, and what
    ``list_schedule.Listing`` says; no gap is filled.

    Complexity: O(n W P) for W ready nodes at once, and the grouping.

    Source: G. C. Sih, E. A. Lee, A compile-time scheduling heuristic for interconnection-
    constrained heterogeneous processor architectures, IEEE TPDS 4(2), 1993, section III.
    """

    name: ClassVar[str] = "dls"
    how: ClassVar[str] = "highest dynamic level first"

    def schedule(self, problem: Problem, homes: Sequence[int] | None = None) -> Schedule:
        """Return the schedule; see ``Listing`` for `homes` and the errors."""
        levels, medians = static_levels(problem)
        worth = [level + median for level, median in zip(levels, medians, strict=True)]
        return schedule_pairs(problem, homes, worth=worth)
