"""What strategies for throughput share: swaps, memory that is found out, claims and refusals."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.errors import Infeasible
from hetsim.placement.bounds.lower_bound import bound_of
from hetsim.placement.grouping import plan_of_stages
from hetsim.placement.objective import bottleneck, measure
from hetsim.placement.throughput.search import (
    LEAST,
    bound_of_one_copy,
    claim,
    first_supported,
    no_feasible_stages,
    search_stages,
    swapped,
    within_memory,
)
from hetsim.placement.throughput.stage_moves import StageMoves
from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from oracles.least_bottleneck import busiest
from sweeps import examples
from throughput_problems import small

seeds = st.integers(0, 10**6)
INF = float("inf")


@examples(quick=20, full=200)
@given(seeds)
def test_no_two_devices_gain_by_a_swap_of_their_stages(seed: int) -> None:
    problem = small(seed, 6)
    moves = StageMoves(problem, contiguous=True)
    count = len(problem.devices)
    start = first_supported(moves)
    assert start.assignment == [int(row.argmax()) for row in problem.runnable]
    found = swapped(moves, start)
    assert found.load_s <= start.load_s
    if start.load_s < INF:
        assert found.load_s == pytest.approx(busiest(problem, found.assignment, range(count)))
        # Whole stages alone have moved.
        pairs = set(zip(start.assignment, found.assignment, strict=True))
        assert len(pairs) == len(set(start.assignment)) == len(set(found.assignment))
        for a, b in itertools.combinations(range(count), 2):
            swap = {a: b, b: a}
            trial = moves.layout([swap.get(p, p) for p in found.assignment])
            assert trial.load_s >= found.load_s * (1 - 1e-8)


def tight(capacity: int, **given: object) -> Problem:
    """Two nodes that hand over a wide tensor; weights fit beside each other on either device."""
    return Problem.from_arrays(
        np.ones((3, 2)),
        [(0, 1, 50), (1, 2, 0)],
        weight_bytes=[10] * 3,
        capacity_bytes=[capacity, 1000],
        **given,  # type: ignore[arg-type]
    )


def on(problem: Problem, *devices: int) -> Plan:
    stages = [([v], p) for v, p in enumerate(devices)]
    return plan_of_stages(problem, "made", stages, f"{LEAST} all plans")


def test_what_the_clock_finds_too_large_is_asked_anew_with_less_room() -> None:
    problem = tight(60)
    rooms: list[tuple[int, ...]] = []

    def solve(left: Problem) -> Plan:
        assert left.capacity_bytes is not None
        rooms.append(left.capacity_bytes)
        # It keeps two nodes on the first device while their weights fit.
        return on(left, 0, 0, 1) if left.capacity_bytes[0] >= 20 else on(left, 1, 1, 1)

    found, cost = within_memory(problem, solve)
    assert cost == measure(found, "throughput")
    assert found.problem is problem
    assert found.assignment == (1, 1, 1)
    # Each time what was over, and twice as much: at last too little for two.
    assert rooms[0] == (60, 1000)
    assert [room for room, _ in rooms] == sorted({room for room, _ in rooms}, reverse=True)
    assert all(host == 1000 for _, host in rooms)
    assert found.reason == "not proven least: live activations do not fit the plan that would be"
    # What fits at once keeps its claim.
    assert within_memory(tight(90), solve)[0].reason == f"{LEAST} all plans"


def test_claims_say_what_is_proven_and_by_how_much_the_rest_may_miss() -> None:
    problem = Problem.from_arrays([[1.0]])
    for load_s, contiguous_s, any_s, text in (
        (2.0, 2.0, 2.0, "least bottleneck of all plans that run a node on one device"),
        (2.0, 2.0, 1.0, "least bottleneck of all contiguous stages"),
        (2.0, 1.0, 1.6, "not proven least: at most 25.00% above any plan"),
        (2.0, 1.6, 1.0, "not proven least: at most 25.00% above contiguous stages"),
        (2.0, 0.0, 0.0, "not proven least"),
    ):
        assert claim(problem, load_s, contiguous_s, any_s) == text
    unpriced = replace(problem, unpriced={0: "no rule"})
    assert claim(unpriced, 2.0, 2.0, 2.0) == "not proven least"


def test_one_copy_takes_no_less_than_its_longest_node() -> None:
    problem = Problem.from_arrays([[8.0, 9.0], [1.0, 1.0]], streams=[2, 1])
    # On the two streams of the first device 4 s a request, where the area says less.
    assert bound_of(problem, "throughput") < 3.9
    assert bound_of_one_copy(problem) == pytest.approx(4.0)
    level = Problem.from_arrays([[1.0, 1.0]] * 6)
    assert bound_of_one_copy(level) == pytest.approx(3.0)
    assert bound_of_one_copy(replace(level, unpriced={0: "no rule"})) == 0.0
    assert bound_of_one_copy(Problem.from_arrays(np.zeros((0, 2)))) == 0.0


def test_a_search_of_stages_starts_from_what_is_known_and_says_where_it_met_nothing() -> None:
    problem = Problem.from_arrays(
        [[1.0, 4.0], [4.0, 1.0], [1.0, 4.0]], [(0, 1, 0), (1, 2, 0)], dispatch_s=1.0
    )
    known = Plan(problem, "known", (Group("d0", (0,)), Group("d1", (1,)), Group("d0", (2,))))
    assert bottleneck(known) == 4.0
    assert bottleneck(search_stages(problem, [known], 1, lambda tried: 0, 0)) == 4.0
    # Of few nodes all assignments are searched: none known, no move, and no cut would do.
    assert bottleneck(search_stages(problem, [], 1, lambda tried: 0, 0)) == 4.0
    # And where a cut does, nothing more is found.
    row = Problem.from_arrays(np.ones((4, 2)), [(v, v + 1, 0) for v in range(3)], dispatch_s=1.0)
    assert bottleneck(search_stages(row, [], 1, lambda tried: 0, 0)) == 3.0
    turns: list[int] = []

    def twice(tried: int) -> int:
        turns.append(tried)
        return 30 if tried < 60 else 0

    search_stages(problem, [known], 1, twice, 0)
    assert turns == [0, 30, 60]
    # Weights that fit nowhere: nothing was met.
    heavy = Problem.from_arrays([[1.0, 1.0]], weight_bytes=[9], capacity_bytes=[8, 8])
    with pytest.raises(Infeasible, match="no stages were found") as caught:
        search_stages(heavy, [], 1, lambda tried: 0, 0)
    assert str(caught.value) == str(no_feasible_stages(heavy))
