"""What a stage costs at least, and nodes that cost nothing joined, against plain sums."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.hardware.spec import Route
from hetsim.placement.throughput.costs import Costs, contract, costs_of
from hetsim.problem.problem import Problem
from oracles.least_bottleneck import acyclic, busiest
from sweeps import examples
from throughput_problems import small, stage_load

INF = float("inf")
seeds = st.integers(0, 10**6)


@examples(quick=60, full=600)
@given(seeds)
def test_stages_cost_what_the_clock_says_where_nothing_is_left_open(seed: int) -> None:
    """Staged tensors, no contention, or one way between two devices."""
    problem = small(seed, 6)
    staged = problem.staging is not None and problem.contention == "none"
    count = len(problem.devices)
    if not (staged or (problem.staging is None and (count == 2 or problem.contention == "none"))):
        return
    costs = costs_of(problem)
    kind_of = {device: k for k, devices in enumerate(costs.kinds) for device in devices}
    rng = np.random.default_rng(seed)
    for _ in range(12):
        assignment = rng.integers(0, count, problem.n).tolist()
        load_s = max(
            stage_load(costs, kind_of[p], {v for v, q in enumerate(assignment) if q == p})
            for p in set(assignment)
        )
        assert load_s == pytest.approx(busiest(problem, assignment, range(count)))


def least(costs: Costs) -> float:
    """The least of the largest loads, over all contiguous assignments."""
    devices = [kind for kind, those in enumerate(costs.kinds) for _ in those]
    found = INF
    for assignment in itertools.product(range(len(devices)), repeat=costs.n):
        edges = {(assignment[u], assignment[v]) for u, v in costs.dag.edges()}
        edges = {(p, q) for p, q in edges if p != q}
        left = set(assignment)
        while free := {p for p in left if not any(q == p and o in left for o, q in edges)}:
            left -= free
        if not left:
            loads = (
                stage_load(costs, devices[p], {v for v, q in enumerate(assignment) if q == p})
                for p in set(assignment)
            )
            found = min(found, max(loads, default=0.0))
    return found


def with_idle(seed: int) -> Problem:
    """A small problem in which many nodes take no time."""
    problem, rng = small(seed, 5), np.random.default_rng(seed)
    seconds = problem.seconds.copy()
    seconds[rng.random(problem.n) < 0.5] = 0.0
    return replace(problem, seconds=seconds, fused=(), constants=(), capacity_bytes=None)


@examples(quick=25, full=300)
@given(seeds)
def test_joining_idle_nodes_loses_no_stages(seed: int) -> None:
    problem = with_idle(seed)
    costs = costs_of(problem)
    made = contract(costs)
    for size in range(1, made.costs.n + 1):
        for parts in itertools.combinations(range(made.costs.n), size):
            nodes = set(made.spread(parts))
            assert len(nodes) == sum(len(made.members[part]) for part in parts)
            for kind in range(len(costs.kinds)):
                load_s = stage_load(made.costs, kind, set(parts))
                assert load_s == pytest.approx(stage_load(costs, kind, nodes))
    assert least(made.costs) == pytest.approx(least(costs))


def row(seconds: list[float], nbytes: list[int], **given: object) -> Problem:
    """Nodes one after another, on two devices alike with a link of a byte a second each way."""
    return Problem.from_arrays(
        [[s, s] for s in seconds],
        [(v, v + 1, b) for v, b in enumerate(nbytes)],
        bytes_per_s=1.0,
        contention="fifo",
        **given,  # type: ignore[arg-type]
    )


def test_an_idle_node_joins_the_side_from_which_less_moves() -> None:
    def parts(problem: Problem) -> list[tuple[int, ...]]:
        return sorted(contract(costs_of(problem)).members)

    assert parts(row([1.0, 0.0, 1.0], [4, 2])) == [(0, 1), (2,)]
    assert parts(row([1.0, 0.0, 1.0], [2, 4])) == [(0,), (1, 2)]
    assert parts(row([1.0, 0.0, 1.0], [3, 3])) == [(0, 1), (2,)]
    assert parts(row([1.0, 2.0, 1.0], [4, 2])) == [(0,), (1,), (2,)]
    # Nothing costs anything to move: all that is idle joins.
    assert parts(row([1.0, 0.0, 1.0], [0, 0])) == [(0, 1), (2,)]
    # One after another until nothing idle is left beside work.
    assert parts(row([1.0, 0.0, 0.0, 1.0], [4, 3, 2])) == [(0, 1, 2), (3,)]
    # Two read what it reads: moved to its producer it would have both there.
    fork = Problem.from_arrays(
        [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0], [1.0, 1.0]],
        tensors=[(0, 4, (1, 2)), (1, 2, (3,)), (2, 1, ()), (3, 1, ())],
        bytes_per_s=1.0,
        contention="fifo",
    )
    assert parts(fork) == [(0,), (1,), (2,), (3,)]
    # What must end on the host is not carried away by a reader.
    out = Problem.from_arrays(
        [[1.0, 1.0], [0.0, 0.0]], tensors=[(0, 4, (1,)), (1, 2, ())], bytes_per_s=1.0,
        contention="fifo", host=0,
    )  # fmt: skip
    assert parts(out) == [(0,), (1,)]


def test_where_memory_may_not_suffice_and_within_kernels_nothing_is_joined() -> None:
    idle = row([1.0, 0.0, 1.0], [4, 2], weight_bytes=[5, 5, 5], capacity_bytes=[15, 15])
    assert not costs_of(idle).memory_binds
    assert len(contract(costs_of(idle)).members) == 2
    tight = replace(idle, capacity_bytes=(15, 14))
    assert costs_of(tight).memory_binds
    assert len(contract(costs_of(tight)).members) == 3


def test_devices_that_nothing_here_tells_apart_are_one_kind_the_quickest_first() -> None:
    problem = Problem.from_arrays(
        [[3.0, 1.0, 3.0, 2.0]] * 2, [(0, 1, 4)], bytes_per_s=2.0, contention="fifo"
    )
    assert costs_of(problem).kinds == ((1,), (3,), (0, 2))
    assert costs_of(problem).n == 2
    for told in (
        replace(problem, dispatch_s=(0.0, 0.0, 0.5, 0.0)),
        replace(problem, streams=(1, 1, 2, 1)),
        replace(problem, capacity_bytes=(9, 9, 8, 9)),
    ):
        assert (0, 2) not in costs_of(told).kinds
    # What runs a node less comes last, however quick it is with the others.
    lacking = replace(problem, seconds=np.array([[3.0, np.inf, 3.0, 2.0]] * 2))
    assert costs_of(lacking).kinds == ((3,), (0, 2), (1,))


def linked(held: dict[tuple[int, int], tuple[int, ...]], links: int) -> Problem:
    """Three devices; a byte takes a second everywhere, and each way holds these links."""
    problem = Problem.from_arrays(np.ones((2, 3)), [(0, 1, 6)], bytes_per_s=1.0, contention="fifo")
    routes = tuple(
        tuple(Route(r.latency_s, r.bytes_per_s, held.get((p, q), ())) for q, r in enumerate(row))
        for p, row in enumerate(problem.routes)
    )
    return replace(problem, routes=routes, link_names=tuple(f"l{k}" for k in range(links)))


def test_what_comes_in_is_shared_by_as_many_links_as_meet_every_way() -> None:
    pairs = [(p, q) for p in range(3) for q in range(3) if p != q]
    own = costs_of(linked({pair: (k,) for k, pair in enumerate(pairs)}, 6))
    # A link from each of the other two: a half each, in and out.
    assert own.fetch_s.tolist() == [[3.0]]
    assert own.store_s.tolist() == [[3.0]]
    assert not own.joint.any()
    door = costs_of(linked({(p, q): (q, 3 + p) for p, q in pairs}, 6))
    assert door.fetch_s.tolist() == [[6.0]]
    assert not door.joint.any()
    bus = costs_of(linked(dict.fromkeys(pairs, (0,)), 1))
    assert bus.fetch_s.tolist() == [[6.0]]
    assert bus.joint.all()
    # As a guide all comes over one link, wherever it comes from.
    summed = costs_of(linked({pair: (k,) for k, pair in enumerate(pairs)}, 6), summed=True)
    assert summed.fetch_s.tolist() == summed.store_s.tolist() == [[6.0]]
    # A way that holds no link leaves no bound.
    free = costs_of(linked(dict.fromkeys(pairs[1:], (0,)), 1))
    assert sorted(free.fetch_s.ravel().tolist()) == pytest.approx([0.0, 6.0, 6.0], abs=1e-9)


def test_contiguous_is_what_the_oracle_calls_so() -> None:
    problem = row([1.0, 1.0, 1.0], [1, 1])
    assert acyclic(problem, (0, 0, 1))
    assert not acyclic(problem, (0, 1, 0))
