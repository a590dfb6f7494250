"""A coarse problem stands for the fine one: the same plan costs the same on both."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from builders import problems
from hetsim.errors import Infeasible
from hetsim.placement import coarsening as chains
from hetsim.placement.coarsening import coarsen, contract_chains, fewer, pays_to_coarsen
from hetsim.problem.coarse import Coarse, uncoarsened
from hetsim.problem.groups import Group, as_groups, order_groups
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from placement_instances import model_like
from sweeps import examples


def check_coarse(coarse: Coarse) -> None:
    """Tasks cover the nodes once; values, weights and support are those of the members."""
    fine, problem = coarse.fine, coarse.problem
    assert sorted(v for nodes in coarse.members for v in nodes) == list(range(fine.n))
    assert all(coarse.task_of[v] == t for t, nodes in enumerate(coarse.members) for v in nodes)
    for u, v in fine.dag.edges():
        a, b = coarse.task_of[u], coarse.task_of[v]
        assert a == b or (a < b and b in problem.dag.succs[a])
    assert sum(map(len, problem.dag.succs)) <= sum(map(len, fine.dag.succs))
    for task, nodes in enumerate(coarse.members):
        for device in range(len(fine.devices)):
            whole = not fine.unsupported(device, nodes)
            assert bool(problem.supported[task, device]) is whole
        assert problem.supported[task].any() or not fine.runnable[list(nodes)].any(axis=1).all()
    weights = [(c.name, c.nbytes) for c in problem.constants]
    assert weights == [(c.name, c.nbytes) for c in fine.constants]


@examples(quick=15, full=60)
@given(model_like(problems(max_nodes=12)), st.integers(1, 12))
def test_tasks_stand_for_their_members(problem: Problem, most: int) -> None:
    check_coarse(coarsen(problem))
    few = coarsen(problem, most)
    check_coarse(few)
    assert few.problem.n <= coarsen(problem).problem.n


@examples(quick=20, full=60)
@given(model_like(problems(max_nodes=12)), st.integers(1, 12))
def test_fewer_tasks_are_unions_of_the_tasks(problem: Problem, most: int) -> None:
    coarse = coarsen(problem)
    few = fewer(coarse, most)
    check_coarse(few)
    assert few.problem.n <= coarse.problem.n
    groups = few.spread([Group("d0", (task,)) for task in range(few.problem.n)])
    assert coarse.gathered(groups) is not None


@examples(quick=15, full=60)
@given(model_like(problems(max_nodes=12)), st.integers(1, 12), st.data())
def test_a_plan_costs_the_same_on_both(problem: Problem, most: int, data: st.DataObject) -> None:
    problem = replace(problem, capacity_bytes=None, contention="none")
    coarse = coarsen(problem, most)
    tasks = coarse.problem
    assignment = [
        data.draw(st.sampled_from(np.flatnonzero(row).tolist())) for row in tasks.supported
    ]
    parts = order_groups(tasks.dag, range(tasks.n))
    assert parts is not None
    candidates = [
        as_groups(parts, assignment, tasks.devices),
        hetsim.partition(tasks, assignment=assignment).groups,
    ]
    for groups in candidates:
        on_tasks = hetsim.simulate(Plan(tasks, "coarse", groups))
        spread = Plan(problem, "fine", coarse.spread(groups))
        assert coarse.gathered(spread.groups) == groups
        on_nodes = hetsim.simulate(spread)
        hetsim.check_timeline(problem, spread, on_nodes, bound_s=0.0)
        if tasks.fused:
            # Of kernels that span tasks the coarse problem knows the union alone.
            assert on_nodes.latency_s <= on_tasks.latency_s + 1e-9
        else:
            assert on_nodes.latency_s == pytest.approx(on_tasks.latency_s, rel=1e-12)
            assert on_nodes.transferred_bytes == on_tasks.transferred_bytes


def test_a_plan_that_cuts_a_task_is_none_of_tasks() -> None:
    problem = Problem.from_arrays([[1.0], [1.0]], edges=[(0, 1, 1)], dispatch_s=0.5)
    coarse = coarsen(problem)
    assert coarse.problem.n == 1
    assert coarse.gathered((Group("d0", (0,)), Group("d0", (1,)))) is None
    assert coarse.gathered((Group("d0", (0, 1)),)) == (Group("d0", (0,)),)


@examples(quick=15, full=60)
@given(model_like(problems(max_nodes=12)), st.integers(1, 12), st.data())
def test_tasks_are_cut_where_a_plan_splits_them_and_nowhere_else(
    problem: Problem, most: int, data: st.DataObject
) -> None:
    coarse = coarsen(problem, most)
    labels = [data.draw(st.integers(0, v)) for v in range(problem.n)]
    parts = order_groups(problem.dag, labels) or [(v,) for v in range(problem.n)]
    groups = as_groups(parts, [0] * problem.n, problem.devices)
    cut = coarse.cut_by(groups)
    gathered = cut.gathered(groups)
    assert gathered is not None
    assert cut.spread(gathered) == groups
    whole = {frozenset(a) & frozenset(b) for a in coarse.members for b in parts} - {frozenset()}
    assert set(map(frozenset, cut.members)) == whole


def test_what_moves_between_two_tasks_is_the_sum_of_what_both_read() -> None:
    """At the very byte where a split begins to pay, by what the transfer takes."""
    seconds = np.array([[1.0, 4.0], [4.0, 1.0]])
    for nbytes, tasks in ((7, 2), (8, 1)):
        # Apart 2 + 8/4 + 1, together 5: no gain left.
        problem = Problem.from_arrays(
            seconds,
            tensors=[(0, nbytes - 3, [1]), (0, 3, [1])],
            bytes_per_s=4.0,
            dispatch_s=1.0,
        )
        assert coarsen(problem).problem.n == tasks


def test_composites_become_one_task() -> None:
    seconds = np.array([[1.0, np.inf], [1.0, np.inf], [1.0, 1.0]])
    problem = Problem.from_arrays(
        seconds, [(0, 1, 9), (1, 2, 9)], composites=[(1, (0, 1), 0.25)], dispatch_s=0.1
    )
    coarse = coarsen(problem)
    assert coarse.members[0][:2] == (0, 1)
    assert coarse.problem.supported[0].all()
    plan = hetsim.plan(problem, "heft")
    assert plan.devices_used == ("d1",)
    hetsim.check_timeline(problem, plan, hetsim.simulate(plan))


def test_what_costs_nothing_to_start_is_not_coarsened() -> None:
    problem = Problem.from_arrays([[1.0], [1.0]], edges=[(0, 1, 1)])
    assert not pays_to_coarsen(problem)
    assert pays_to_coarsen(replace(problem, dispatch_s=(0.5,)))
    assert uncoarsened(problem).problem is problem


def test_models_shrink_to_tens_of_tasks() -> None:
    problem = Problem.of(hetsim.load_model("zoo:resnet50"), hetsim.load_platform("laptop"))
    coarse = coarsen(problem)
    check_coarse(coarse)
    assert coarse.problem.n <= 60


seeds = st.integers(0, 10**6)
INF = float("inf")


def latency(problem: Problem, *groups: Group) -> float:
    try:
        return hetsim.simulate(Plan(problem, "any", groups), trace=False).latency_s
    except Infeasible:
        return INF


@examples(quick=25, full=600)
@given(seeds)
def test_two_in_a_row_are_joined_where_no_split_is_quicker_than_both_on_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 4))
    seconds = rng.integers(0, 9, (2, count)) / 4
    seconds[rng.random((2, count)) < 0.2] = INF
    seconds[np.isinf(seconds).all(axis=1), 0] = 1.0
    nbytes = int(rng.integers(0, 9))
    problem = Problem.from_arrays(
        seconds,
        [(0, 1, nbytes)],
        latency_s=rng.integers(0, 3, (count, count)) / 4,
        bytes_per_s=8.0,
        dispatch_s=0.25,
    )
    names = problem.devices
    whole = [latency(problem, Group(name, (0, 1))) for name in names]
    gains = any(
        latency(problem, Group(names[p], (0,)), Group(names[q], (1,))) < min(whole[p], whole[q])
        for p, q in itertools.permutations(range(count), 2)
    )
    joined = coarsen(problem).problem.n == 1
    assert joined == (min(whole) < INF and not gains)


def test_what_makes_an_output_keeps_its_end() -> None:
    # Joined with its reader it would give its output later.
    tensors: list[tuple[int, int, tuple[int, ...]]] = [(0, 1, (1,)), (1, 1, ()), (0, 1, ())]
    problem = Problem.from_arrays([[1.0, 1.0]] * 2, tensors=tensors, dispatch_s=0.5)
    assert coarsen(problem).problem.n == 2
    assert coarsen(replace(problem, values=problem.values[:2])).problem.n == 1


def fork(seconds: list[list[float]], nbytes: tuple[int, int], **given: object) -> Problem:
    """A node read by two others, each by a tensor of its own, and one that reads both of these."""
    return Problem.from_arrays(
        seconds,
        tensors=[(0, nbytes[0], (1,)), (0, nbytes[1], (2,)), (1, 0, (3,)), (2, 0, (3,))],
        bytes_per_s=8.0,
        dispatch_s=0.5,
        **given,  # type: ignore[arg-type]
    )


def parts(problem: Problem, most: int) -> set[tuple[int, ...]]:
    return set(coarsen(problem, most).members)


def test_above_the_limit_the_largest_tensors_and_smallest_tasks_go_first() -> None:
    like = [[4.0, 4.0]] * 4
    assert parts(fork(like, (80, 8)), 4) == {(0,), (1,), (2,), (3,)}
    assert parts(fork(like, (80, 8)), 3) == {(0, 1), (2,), (3,)}
    assert parts(fork(like, (8, 80)), 3) == {(0, 2), (1,), (3,)}
    # Of edges that save the same the one whose task stays small.
    uneven = [[4.0, 4.0], [9.0, 9.0], [4.0, 4.0], [4.0, 4.0]]
    assert parts(fork(uneven, (8, 8)), 3) in ({(0, 2), (1,), (3,)}, {(0,), (1,), (2, 3)})
    # A pair whose devices are not the same loses by it.
    unlike = [[1.0, 9.0], [9.0, 1.0], [1.0, 9.0], [5.0, 5.0]]
    assert (0, 2) in parts(fork(unlike, (8, 8)), 3)
    unlike = [[1.0, 9.0], [1.0, 9.0], [9.0, 1.0], [5.0, 5.0]]
    assert (0, 1) in parts(fork(unlike, (8, 8)), 3)


def test_what_no_device_takes_together_is_never_joined() -> None:
    apart = fork([[1.0, INF], [INF, 1.0], [INF, 1.0], [INF, 1.0]], (8, 8))
    assert parts(apart, 1) == {(0,), (1, 2, 3)}
    row = Problem.from_arrays([[1.0, INF], [INF, 1.0]], [(0, 1, 8)], dispatch_s=0.5)
    assert parts(row, 1) == {(0,), (1,)}


def hubs(rng: np.random.Generator, n: int) -> Problem:
    """A graph of short edges, with a few nodes that are read by, or read, half of the others."""
    seconds = rng.uniform(1.0, 2.0, (n, 3)) if rng.random() < 0.5 else np.ones((n, 3))
    edges = {(v - int(rng.integers(1, 6)), v) for v in range(6, n) if rng.random() < 0.5}
    for hub in rng.integers(0, n, 3).tolist():
        for v in np.flatnonzero(rng.random(n) < 0.5).tolist():
            if v != hub:
                edges.add((min(v, hub), max(v, hub)))
    return Problem.from_arrays(
        seconds,
        [(u, v, int(rng.integers(0, 9))) for u, v in sorted(edges)],
        bytes_per_s=8.0,
        dispatch_s=0.5,
    )


def rebuilt(problem: Problem, labels: list[int]) -> dict[tuple[int, int], int]:
    """The bytes from task to task, a task told by its least node."""
    found: dict[tuple[int, int], int] = {}
    for value in problem.values:
        if value.producer < 0:
            continue
        u = labels[value.producer]
        for v in sorted({labels[w] for w in value.consumers} - {u}):
            found[u, v] = found.get((u, v), 0) + value.nbytes
    return found


@examples(quick=10, full=200)
@given(seeds, st.sampled_from([0, 4, 16]), st.integers(1, 30))
def test_graphs_with_hubs_shrink_to_tasks_that_close_no_cycle(
    seed: int, wide: int, most: int
) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(7, 80))
    problem = hubs(rng, n)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chains, "WIDE", wide)
        labels = contract_chains(problem, list(range(n)), most)
    assert all(labels[label] == label <= v for v, label in enumerate(labels))
    assert order_groups(problem.dag, labels) is not None
    # None is left that could be joined and would be asked for.
    rows = rebuilt(problem, labels)
    producers, readers = Counter(v for _, v in rows), Counter(u for u, _ in rows)
    if len(set(labels)) > most:
        assert all(producers[v] > 1 and readers[u] > 1 for u, v in rows)
