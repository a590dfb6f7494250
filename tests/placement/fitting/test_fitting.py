"""What makes plans fit the memory, step by step, against sets of nodes counted anew."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.errors import Infeasible, OutOfMemory
from hetsim.placement.fitting import (
    fitted,
    plan_that_fits,
    relieved,
    spilled,
    squeezed,
)
from hetsim.placement.footprint import (
    Excess,
    Footprint,
    excess,
    overfull,
    refusal,
    weights_that_fit,
)
from hetsim.placement.grouping import groupings
from hetsim.problem.groups import Group
from hetsim.problem.parts import GRAPH_INPUT, Value
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from oracles.every_plan import every_plan, tight_problem
from sweeps import examples

seeds = st.integers(0, 10**6)


def lies(problem: Problem, footprint: Footprint, nodes: set[int], p: int) -> int:
    """Bytes that lie on a device with these nodes at least: weights, and what one needs beside."""
    weights = sum(c.nbytes for c in problem.constants if nodes & set(c.consumers))
    return weights + max([footprint.always[p], *(footprint.beside[v][p] for v in nodes)])


def drawn(seed: int) -> tuple[Problem, Footprint, list[int]]:
    """A problem whose memory hardly suffices, and devices that take its nodes."""
    problem, random = tight_problem(seed, most_nodes=8), Random(seed)
    devices = [random.choice(np.flatnonzero(row).tolist()) for row in problem.supported]
    return problem, Footprint.of(problem), devices


@examples(quick=20, full=600)
@given(seeds)
def test_no_plan_holds_less_than_its_footprint(seed: int) -> None:
    problem = tight_problem(seed, most_nodes=3)
    footprint = Footprint.of(problem)
    for groups in every_plan(replace(problem, capacity_bytes=None)):
        plan = Plan(problem, "any", groups)
        peaks = excess(plan).peaks
        for p in range(len(problem.devices)):
            there = {v for v, q in enumerate(plan.assignment) if q == p}
            assert peaks[p] >= lies(problem, footprint, there, p)
        capacity = problem.capacity_bytes
        assert capacity is not None
        assert overfull(footprint, plan.assignment) == [
            max(
                0,
                lies(problem, footprint, {v for v, q in enumerate(plan.assignment) if q == p}, p)
                - c,
            )
            for p, c in enumerate(capacity)
        ]


def lone(**given: object) -> Problem:
    """A node that reads 7 B of inputs on the host and makes 3 B there, and one elsewhere."""
    asked: dict[str, object] = {
        "tensors": [(-1, 5, (0,)), (-1, 2, (0, 1)), (0, 3, ()), (1, 4, ())],
        "latency_s": 1.0,
        "capacity_bytes": [99, 99],
        "host": 0,
    }
    return Problem.from_arrays([[1.0, 1.0], [1.0, 1.0]], **{**asked, **given})  # type: ignore[arg-type]


def test_a_footprint_has_what_a_node_touches_and_what_the_host_keeps() -> None:
    found = Footprint.of(lone())
    assert found.beside == ((10, 10), (6, 6))
    # Both inputs are there before anything ends, and both outputs at the end.
    assert found.always == (7, 0)
    assert Footprint.of(lone(tensors=[(-1, 5, (0,)), (0, 3, ()), (1, 4, ())])).always == (7, 0)
    assert Footprint.of(lone(tensors=[(-1, 1, (0,)), (0, 3, ()), (1, 4, ())])).always == (7, 0)
    assert Footprint.of(lone(tensors=[(-1, 5, (0,)), (0, 3, ()), (1, 1, ())])).always == (5, 0)
    # Of an input that nobody reads, or where all may be gone at once, nothing is sure.
    unread = Value("unread", 50, GRAPH_INPUT, ())
    problem = lone()
    assert Footprint.of(replace(problem, values=(*problem.values, unread))).always == (7, 0)
    assert Footprint.of(lone(latency_s=0.0, bytes_per_s=np.inf)).always == (0, 0)
    # Without a host nothing is given, and nothing is kept.
    without = Footprint.of(lone(host=None))
    assert without.beside == ((3, 3), (4, 4))
    assert without.always == (0, 0)


def test_what_takes_no_time_is_never_seen_to_hold_anything() -> None:
    idle = replace(lone(), seconds=np.array([[0.0, 1.0], [1.0, 0.0]]))
    found = Footprint.of(idle)
    assert found.beside == ((0, 10), (6, 0))
    # The input of node 0 alone, and its output, may be gone before the others are there.
    assert found.always == (4, 0)
    started = Footprint.of(replace(idle, dispatch_s=(0.5, 0.0)))
    assert started.beside == ((10, 10), (6, 0))
    assert started.always == (7, 0)


@examples(quick=40, full=1500)
@given(seeds)
def test_relief_gives_up_what_costs_least_a_byte(seed: int) -> None:
    problem, footprint, devices = drawn(seed)
    capacity = footprint.capacity
    seconds = problem.shared_seconds
    expected: list[int] | None = list(devices)
    for p in range(len(problem.devices)):
        while expected is not None:
            on = [{v for v, q in enumerate(expected) if q == k} for k in range(len(capacity))]
            if lies(problem, footprint, on[p], p) <= capacity[p]:
                break
            moves = []
            for v in on[p]:
                weights = sum(
                    c.nbytes for c in problem.constants if set(c.consumers) & on[p] == {v}
                )
                freed = weights + max(0, footprint.beside[v][p] - footprint.always[p])
                for q, room in enumerate(capacity):
                    fits = lies(problem, footprint, on[q] | {v}, q) <= room
                    if freed and q != p and problem.supported[v, q] and fits:
                        loss = max(0.0, float(seconds[v, q] - seconds[v, p])) / freed
                        moves.append((loss, v, q))
            if not moves:
                expected = None
                break
            _, v, q = min(moves)
            expected[v] = q
    assert relieved(footprint, devices) == expected


@examples(quick=40, full=1500)
@given(seeds)
def test_what_a_full_device_has_no_room_for_goes_run_by_run(seed: int) -> None:
    problem, footprint, devices = drawn(seed)
    count = len(problem.devices)
    on: list[set[int]] = [set() for _ in range(count)]

    def holds(v: int, p: int) -> bool:
        return lies(problem, footprint, on[p] | {v}, p) <= footprint.capacity[p]

    full: set[int] = set()
    for v, p in enumerate(devices):
        if not holds(v, p):
            full.add(p)
        if p not in full:
            on[p].add(v)
    last = -1
    stuck = False
    for v in range(problem.n):
        if any(v in there for there in on):
            continue
        able = [p for p in range(count) if problem.supported[v, p] and holds(v, p)]
        if not able:
            stuck = True
            break
        if last not in able:
            last = min(able, key=lambda p: (float(problem.shared_seconds[v, p]), p))
        on[last].add(v)
    found = spilled(footprint, devices)
    if stuck:
        assert found is None
    else:
        assert found == [next(p for p in range(count) if v in on[p]) for v in range(problem.n)]


@examples(quick=40, full=1500)
@given(seeds)
def test_the_heaviest_goes_first_where_it_is_quickest(seed: int) -> None:
    problem, footprint, _ = drawn(seed)
    able = problem.supported
    on: list[set[int]] = [set() for _ in problem.devices]
    weight = [sum(problem.constants[c].nbytes for c in held) for held in problem.constants_of]
    if any(lies(problem, footprint, set(), p) > c for p, c in enumerate(footprint.capacity)):
        with pytest.raises(OutOfMemory, match="proven"):
            weights_that_fit(problem, footprint, able)
        return
    for v in sorted(range(problem.n), key=lambda v: (int(able[v].sum()), -weight[v], v)):
        fits = [
            p
            for p in np.flatnonzero(able[v]).tolist()
            if lies(problem, footprint, on[p] | {v}, p) <= footprint.capacity[p]
        ]
        if not fits:
            # The program decides: what it finds fits, too.
            try:
                found = weights_that_fit(problem, footprint, able)
            except OutOfMemory:
                return
            assert found is not None
            assert not any(overfull(footprint, found))
            assert all(able[v, p] for v, p in enumerate(found))
            return
        on[min(fits, key=lambda p: (float(problem.shared_seconds[v, p]), p))].add(v)
    found = weights_that_fit(problem, footprint, able)
    assert found == [next(p for p, there in enumerate(on) if v in there) for v in range(problem.n)]


@examples(quick=8, full=250)
@given(seeds)
def test_squeezing_ends_where_all_fits_and_never_makes_it_worse(seed: int) -> None:
    problem, _, devices = drawn(seed)
    groups = tuple(Group(problem.devices[p], (v,)) for v, p in enumerate(devices))
    before = excess(Plan(problem, "drawn", groups))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hetsim.placement.fitting.PLAYS", 60)
        moved, over = squeezed(problem, groups, seed)
        assert (moved, over) == squeezed(problem, groups, seed)
    assert over.total <= before.total
    assert over == excess(Plan(problem, "squeezed", moved))
    if before.total == 0:
        assert moved == groups


def test_squeezing_finds_the_cut_by_which_it_fits() -> None:
    # Both weights fit neither device with both tensors; apart, each has room for its own.
    problem = Problem.from_arrays(
        [[1.0, 2.0]] * 4,
        [(0, 1, 4), (2, 3, 4)],
        weight_bytes=[3] * 4,
        capacity_bytes=[11, 11],
        dispatch_s=0.5,
    )
    together = (Group("d0", (0, 1, 2, 3)),)
    assert excess(Plan(problem, "one", together)).total > 0
    moved, over = squeezed(problem, together)
    assert over.total == 0
    assert excess(Plan(problem, "two", moved)).total == 0


def test_moves_that_cut_a_composite_are_taken_back() -> None:
    problem = Problem.from_arrays(
        [[1.0, np.inf], [1.0, np.inf], [1.0, 1.0], [1.0, 1.0]],
        [(0, 1, 4), (2, 3, 4)],
        weight_bytes=[3] * 4,
        capacity_bytes=[11, 11],
        composites=[(1, (0, 1), 1.0)],
        dispatch_s=0.5,
    )
    together = (Group("d1", (0, 1)), Group("d1", (2, 3)))
    moved, over = squeezed(problem, together)
    assert over == excess(Plan(problem, "moved", moved))
    assert over.total == 0


def test_devices_are_filled_one_after_another_where_weights_alone_would_alternate() -> None:
    # The heaviest first would put node 1 alone on a device, and pay for two ways in place of one.
    problem = Problem.from_arrays(
        [[1.0, 1.0]] * 4,
        [(v, v + 1, 0) for v in range(3)],
        latency_s=5.0,
        weight_bytes=[9, 9, 4, 4],
        capacity_bytes=[17, 17],
    )
    footprint = Footprint.of(problem)
    assert weights_that_fit(problem, footprint, problem.supported) == [0, 1, 0, 0]
    plan = plan_that_fits(problem)
    assert excess(plan).total == 0
    assert excess(plan).latency_s == 9.0
    # A node that runs on one device alone has its room before the others are dealt out.
    seconds = np.ones((4, 2))
    seconds[3, 0] = np.inf
    plan = plan_that_fits(replace(problem, seconds=seconds, capacity_bytes=(22, 4)))
    assert plan.assignment == (0, 0, 0, 1)


def test_excess_is_what_the_devices_hold_beyond_their_memory() -> None:
    problem = Problem.from_arrays(
        [[1.0, 1.0]] * 2, [(0, 1, 4)], weight_bytes=[10, 20], capacity_bytes=[12, 20]
    )
    plan = Plan(problem, "apart", (Group("d0", (0,)), Group("d1", (1,))))
    found = excess(plan)
    assert found.peaks == (14, 24)
    assert found.total == 2 + 4
    assert excess(Plan(replace(problem, capacity_bytes=(14, 99)), "apart", plan.groups)).total == 0
    assert excess(Plan(replace(problem, capacity_bytes=None), "apart", plan.groups)).total == 0


def test_a_refusal_names_the_device_that_lacks_most_and_of_equals_the_first() -> None:
    problem = Problem.from_arrays([[1.0] * 3], capacity_bytes=[10, 20, 30])
    for peaks, name, needed, held in (
        ((11, 25, 31), "d1", 25, 20),
        ((9, 23, 33), "d1", 23, 20),
        ((13, 23, 33), "d0", 13, 10),
    ):
        error = refusal(problem, Excess(0, peaks, 1.0), "it does not fit")
        assert error.device == name
        assert error.where == f"device '{name}'"
        assert (error.needed_bytes, error.held_bytes, error.over_bytes) == (
            needed,
            held,
            needed - held,
        )
        assert f"the closest needs {needed} B ({needed} bytes) there" in str(error)


@examples(quick=6, full=100)
@given(seeds)
def test_of_what_fits_near_a_plan_the_quickest_is_taken(seed: int) -> None:
    problem, footprint, devices = drawn(seed)
    groups = tuple(Group(problem.devices[p], (v,)) for v, p in enumerate(devices))
    near = Plan(problem, "near", groups)
    found = [devices, relieved(footprint, devices), spilled(footprint, devices)]
    quickest = float("inf")
    for assignment in found:
        if assignment is None:
            continue
        layouts = [groups] if assignment == devices else []
        layouts += [made for _, made in groupings(problem, assignment, range(problem.n))]
        for made in layouts:
            over = excess(Plan(problem, "near", made))
            if over.total == 0:
                quickest = min(quickest, over.latency_s)
    try:
        plan = plan_that_fits(problem, (near,))
    except Infeasible:
        assert quickest == float("inf")
        return
    over = excess(plan)
    assert over.total == 0
    assert over.latency_s <= quickest


def test_a_plan_that_fits_is_left_as_it_is_and_another_says_what_was_moved() -> None:
    problem = Problem.from_arrays(
        [[1.0, 2.0]] * 3, weight_bytes=[8] * 3, capacity_bytes=[24, 24], host=0
    )
    plan = Plan(problem, "mine", (Group("d0", (0, 1, 2)),), "all on d0")
    assert fitted(plan) is plan
    tight = replace(problem, capacity_bytes=(23, 24))
    made = fitted(replace(plan, problem=tight))
    assert sorted(made.assignment) == [0, 0, 1]
    assert made.reason == "all on d0; it did not fit the memory: 1 node moved until it did"
    tighter = replace(problem, capacity_bytes=(8, 24))
    made = fitted(replace(plan, problem=tighter, reason=""))
    assert sorted(made.assignment) == [0, 1, 1]
    assert made.reason == "it did not fit the memory: 2 nodes moved until it did"
    assert made.strategy == "mine"
    # Where the problem says that nothing may move, nothing does.
    closed = replace(tight, seconds=np.array([[1.0, np.inf]] * 3))
    with pytest.raises(OutOfMemory):
        fitted(replace(plan, problem=tight), closed)
