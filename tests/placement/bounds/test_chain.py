"""What gaps of a chain add to the bound: never above any plan, and where that is worth most."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from hetsim.placement.bounds.lower_bound import lower_bound, with_free_fusions
from hetsim.problem.groups import as_groups, order_groups
from hetsim.problem.parts import FusedKernel, Staging
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from sweeps import examples


@st.composite
def blocks(draw: st.DrawFn, max_nodes: int, max_devices: int = 2, *, free: bool = False) -> Problem:
    """Blocks one after another: each a node, branches of up to two nodes, and where they join.

    `free`: most kernels take what their first node takes alone, and all links are alike.
    """
    edges: list[tuple[int, int]] = []
    last, n = 0, 1
    while n < max_nodes:
        ends = []
        for _ in range(draw(st.integers(1, 3))):
            tip = last
            for _ in range(draw(st.integers(0 if ends else 1, 2))):
                if n < max_nodes - 1:
                    edges.append((tip, n))
                    tip, n = n, n + 1
            ends.append(tip)
        if n >= max_nodes:
            break
        edges += [(tip, n) for tip in sorted(set(ends))]
        last, n = n, n + 1
    eighths = st.integers(0, 24).map(lambda k: k / 8)
    count = draw(st.integers(1, max_devices))
    seconds = np.array([[draw(eighths) for _ in range(count)] for _ in range(n)])
    for v, p in itertools.product(range(n), range(1, count)):
        if draw(st.integers(0, 5)) == 0:
            seconds[v, p] = np.inf
    fused: list[FusedKernel] = []
    for p in range(count):
        # Neighbours on one device, as one kernel that takes less than they do alone.
        for u, v in draw(st.lists(st.sampled_from(edges), max_size=2)) if edges else ():
            alone_s = float(seconds[[u, v], p].sum())
            taken = {w for kernel in fused if kernel.device == p for w in kernel.nodes}
            if alone_s < np.inf and not taken & {u, v}:
                less = draw(st.sampled_from([0.125, 0.5, 0.75]))
                fused.append(FusedKernel(p, tuple(sorted((u, v))), alone_s * less))
    if free:
        apart = [pair for pair in edges if pair[1] == pair[0] + 1][:: draw(st.integers(1, 2)) + 1]
        fused = [
            FusedKernel(
                p, pair, float(seconds[pair[0], p]) + draw(st.sampled_from([0.0, 0.0, 0.5]))
            )
            for pair in apart
            for p in range(count)
            if (seconds[list(pair), p] < np.inf).all()
        ]
    rates = st.tuples(*[st.sampled_from([0.0, 0.125]) for _ in range(count)])
    latency = np.array([[draw(eighths) for _ in range(count)] for _ in range(count)])
    latency[:] = latency[0, 0] if free else latency
    made = Problem.from_arrays(
        seconds,
        tensors=[
            (u, draw(st.integers(0, 8)), tuple(w for v, w in edges if v == u)) for u in range(n)
        ],
        latency_s=latency.tolist(),
        bytes_per_s=draw(st.sampled_from([1.0, 4.0, 16.0])),
        dispatch_s=[draw(eighths) for _ in range(count)],
        streams=[draw(st.integers(1, 2)) for _ in range(count)],
        staging=draw(st.none() | st.builds(Staging, rates, rates, st.booleans())),
    )
    return replace(made, fused=tuple(fused))


def every_grouping(problem: Problem) -> Iterator[Plan]:
    """Every partition of the nodes into groups without a circle, on every device of each."""

    def labels(start: list[int]) -> Iterator[list[int]]:
        if len(start) == problem.n:
            yield start
            return
        for label in range(max(start, default=-1) + 2):
            yield from labels([*start, label])

    for chosen in labels([]):
        parts = order_groups(problem.dag, chosen)
        if parts is None:
            continue
        able = [np.flatnonzero(problem.runnable[list(part)].all(axis=0)).tolist() for part in parts]
        for devices in itertools.product(*able):
            assignment = [0] * problem.n
            for part, device in zip(parts, devices, strict=True):
                for v in part:
                    assignment[v] = device
            yield Plan(problem, "any", as_groups(parts, assignment, problem.devices))


@examples(quick=7, full=150)
@given(blocks(max_nodes=5))
def test_no_grouping_of_any_kind_is_below(problem: Problem) -> None:
    assert_below_every_grouping(problem)


@examples(quick=4, full=150)
@given(blocks(max_nodes=5, free=True))
def test_no_grouping_is_below_where_pairs_fuse_for_nothing(problem: Problem) -> None:
    assert_below_every_grouping(problem)


def assert_below_every_grouping(problem: Problem) -> None:
    bound = lower_bound(problem)
    for plan in every_grouping(problem):
        assert bound <= hetsim.simulate(plan).latency_s


def fork(dispatch_s: float, latency_s: float, streams: int = 1) -> Problem:
    """A node, four of 1 s side by side, and one that joins them, on two devices alike."""
    edges = [(0, v, 0) for v in range(1, 5)] + [(v, 5, 0) for v in range(1, 5)]
    return Problem.from_arrays(
        np.ones((6, 2)), edges=edges, latency_s=latency_s, dispatch_s=[dispatch_s] * 2,
        streams=[streams] * 2,
    )  # fmt: skip


def test_work_side_by_side_pays_for_leaving_a_group_and_coming_back() -> None:
    # Six in one group take 6 s and a dispatch; two of the four elsewhere cost two more dispatches
    # and, as the last two are a group of their own, save 2 s.
    cheap = fork(dispatch_s=0.125, latency_s=0.125)
    assert lower_bound(cheap) == pytest.approx(0.125 + 2.0 + 2.0 + 2 * 0.125, abs=0.26)
    dear = fork(dispatch_s=1.0, latency_s=0.5)
    assert lower_bound(dear) == pytest.approx(7.0)
    assert hetsim.simulate(hetsim.plan(dear, "single")).latency_s == pytest.approx(7.0)
    # Streams side by side are of groups, too.
    assert lower_bound(fork(dispatch_s=2.0, latency_s=0.0, streams=4)) == pytest.approx(8.0)


def test_a_kernel_that_a_chain_cuts_is_paid_for_in_parts() -> None:
    # Fused, both take 2 s on either device; 1 s on each would be less, but for what fusing saves.
    problem = Problem.from_arrays([[2.0, 4.0], [4.0, 2.0]], edges=[(0, 1, 0)])
    assert lower_bound(problem) == pytest.approx(4.0)
    fused = tuple(FusedKernel(p, (0, 1), 3.0) for p in range(2))
    assert lower_bound(replace(problem, fused=fused)) == pytest.approx(3.0)


def test_what_fuses_for_nothing_is_never_apart() -> None:
    # Two branches of a product and its activation.
    seconds = [[1.0, 2.0]] * 6
    pairs = [(1, 2), (3, 4)]
    edges = [(0, 1, 8), (0, 3, 8), *((u, v, 8) for u, v in pairs), (2, 5, 8), (4, 5, 8)]
    fused = tuple(FusedKernel(p, pair, seconds[0][p]) for pair in pairs for p in range(2))
    problem = replace(Problem.from_arrays(seconds, edges=edges, bytes_per_s=4.0), fused=fused)
    assert with_free_fusions(problem).n == 4
    # A device that does not fuse one; a larger tensor behind both.
    assert with_free_fusions(replace(problem, fused=fused[1:])).n == 5
    larger = Problem.from_arrays(
        seconds, edges=[(u, v, 9 if u in (2, 4) else 8) for u, v, _ in edges], bytes_per_s=4.0
    )
    assert with_free_fusions(replace(larger, fused=fused)).n == 6
