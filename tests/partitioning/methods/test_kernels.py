"""The rounds of ``greedy`` for machine code, read by Python: the same groups as without.

Nothing is compiled, so that many small graphs are tried in the time that numba takes for one.
"""

from __future__ import annotations

import functools

import pytest

from hetsim.graph.dag import Dag
from hetsim.partitioning.growing import selecting
from hetsim.partitioning.methods import greedy
from merge_graphs import SHAPES, of_shape, random_graphs
from sweeps import sweep


def by_kernels(dag: Dag, kind: list[int]) -> greedy.GreedyResult:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(greedy, "COMPILE_FROM", 0)
        patch.setattr(greedy, "compiled_select", functools.cache(lambda: selecting.select))
        return greedy.solve(dag, kind)


@sweep("seed", quick=[0], full=range(40))
def test_greedy_selects_the_same(seed: int) -> None:
    for rng, dag, kind in random_graphs(seed):
        most = rng.random()
        few = [one * (rng.random() < most) for one in kind]
        assert by_kernels(dag, few) == greedy.solve(dag, few)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_on_graphs_of_every_shape(shape: str) -> None:
    """Large enough for windows to be moved, cycles of many groups and heaps that are cleared."""
    for dag, kind in of_shape(shape, 80):
        assert by_kernels(dag, kind) == greedy.solve(dag, kind)
