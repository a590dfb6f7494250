"""Strategy ``lookahead``: where the children would finish first."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import ClassVar

from hetsim.placement.listing.list_schedule import Listing, Schedule, Slot
from hetsim.placement.listing.ranks import by_falling_rank, upward_ranks
from hetsim.placement.starting.constructive import Constructive
from hetsim.problem.problem import Problem


@dataclass(frozen=True, slots=True)
class Lookahead(Constructive):
    """Each node goes where the last of its children could finish first.

    Objective: makespan. Nodes go by upward rank. For each device that takes the node, its
    children are scheduled one after another where each would finish first, by what is known
    of their other parents; that is taken back, and the device kept on which the last child
    ended first. Beyond the paper: what ``list_schedule.Listing`` says.

    Complexity: O(E P^2 log n), and the grouping.

    Source: L. F. Bittencourt, R. Sakellariou, E. R. M. Madeira, DAG scheduling using a
    lookahead variant of the heterogeneous earliest finish time algorithm, PDP 2010.
    """

    name: ClassVar[str] = "lookahead"
    how: ClassVar[str] = "earliest finish of the children"

    def schedule(self, problem: Problem, homes: Sequence[int] | None = None) -> Schedule:
        """Return the schedule; see ``Listing`` for `homes` and the errors."""
        listing = Listing(problem, homes)
        order = by_falling_rank(upward_ranks(problem))
        place = [0] * problem.n
        for index, node in enumerate(order):
            place[node] = index
        for node in order:
            children = sorted(problem.dag.succs[node], key=place.__getitem__)
            slots = listing.slots(node)
            if children and len(slots) > 1:
                scores = [(_last(listing, node, slot, children), slot.score_s) for slot in slots]
                best = min(range(len(slots)), key=lambda index: (*scores[index], index))
            else:
                best = min(range(len(slots)), key=lambda index: (slots[index].score_s, index))
            listing.place(node, slots[best])
        return listing.schedule()


def _last(listing: Listing, node: int, slot: Slot, children: list[int]) -> float:
    """When the last child would end."""
    last = slot.score_s
    with ExitStack() as trials:
        trials.enter_context(listing.trial(node, slot))
        for child in children:
            found = listing.earliest(child)
            last = max(last, found.score_s)
            trials.enter_context(listing.trial(child, found))
    return last
