"""Strategy ``heft``: heterogeneous earliest finish time, with insertion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from hetsim.placement.listing.list_schedule import Schedule, scheduled
from hetsim.placement.listing.ranks import by_falling_rank, upward_ranks
from hetsim.placement.starting.constructive import Constructive
from hetsim.problem.problem import Problem


@dataclass(frozen=True, slots=True)
class Heft(Constructive):
    """List scheduling by upward rank; each node goes where it would finish first.

    Objective: makespan. Ranks use mean times over the devices that support a node and mean
    transfer times over pairs of distinct devices. A node may fill a gap between nodes
    scheduled before. Beyond the paper: what ``list_schedule.Listing`` says of tensors, inputs and
    outputs, dispatch and memory. HEFT is a heuristic: it can lose to a single device, and
    the comparison says so.

    Complexity: O(E P + n P log n), and the grouping.

    Source: H. Topcuoglu, S. Hariri, M.-Y. Wu, Performance-effective and low-complexity
    task scheduling for heterogeneous computing, IEEE TPDS 13(3), 2002, section 4.
    """

    name: ClassVar[str] = "heft"
    how: ClassVar[str] = "earliest finish by upward rank"

    def schedule(self, problem: Problem, homes: Sequence[int] | None = None) -> Schedule:
        """Return the schedule; see ``Listing`` for `homes` and the errors."""
        return scheduled(problem, homes, by_falling_rank(upward_ranks(problem)))
