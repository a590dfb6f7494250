"""``lookahead`` and ``heft`` by their definitions, each node and each trial scheduled anew."""

from __future__ import annotations

from hypothesis import given

from builders import problems
from hetsim.placement.listing.list_schedule import Listing
from hetsim.placement.listing.ranks import by_falling_rank, upward_ranks
from hetsim.problem.problem import Problem
from placement_instances import constructive
from sweeps import examples


def placed(problem: Problem, chosen: list[tuple[int, int]]) -> Listing:
    """A schedule of nodes on devices, in this order."""
    listing = Listing(problem)
    for node, device in chosen:
        listing.place(node, listing.slot(node, device))
    return listing


@examples(quick=20, full=200)
@given(problems(max_nodes=7))
def test_each_node_goes_where_the_last_of_its_children_could_end_first(problem: Problem) -> None:
    order = by_falling_rank(upward_ranks(problem))
    chosen: list[tuple[int, int]] = []
    for node in order:
        scores = []
        children = [v for v in order if v in problem.dag.succs[node]]
        slots = placed(problem, chosen).slots(node)
        for slot in slots:
            trial = [*chosen, (node, slot.device)]
            last = slot.score_s
            for child in children:
                found = placed(problem, trial).earliest(child)
                last = max(last, found.score_s)
                trial.append((child, found.device))
            scores.append((last, slot.score_s))
        best = min(range(len(slots)), key=lambda at: (scores[at], at))
        chosen.append((node, slots[best].device))
    assert constructive("lookahead").schedule(problem) == placed(problem, chosen).schedule()


def test_children_draw_a_node_to_where_they_are_quick() -> None:
    # The first node alone would go to d0; its two readers need d1, far away.
    problem = Problem.from_arrays(
        [[1.0, 2.0], [9.0, 1.0], [9.0, 1.0]], [(0, 1, 8), (0, 2, 8)], bytes_per_s=1.0
    )
    assert constructive("heft").schedule(problem).assignment[0] == 0
    assert constructive("lookahead").schedule(problem).assignment == (1, 1, 1)
