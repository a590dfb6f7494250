"""What machine code is made of, read by Python: the same groups as the methods give without it.

Nothing is compiled, so that many small graphs are tried in the time that numba takes for one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from hetsim.graph.dag import Dag
from hetsim.partitioning.growing import compiled, fewest, kernels, levels, selecting, walking
from hetsim.partitioning.growing.repair import repair
from hetsim.partitioning.methods import byoc, compact, convex, greedy, stage
from merge_graphs import (
    SHAPES,
    by_plain_loops,
    drawn_labels,
    of_shape,
    random_graphs,
)
from sweeps import sweep


def by_kernels(call: Callable[[], object]) -> object:
    """What a call gives where everything is for machine code, with Python in its place."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("pays", "scan_pays"):
            patch.setattr(compiled, name, lambda *_: True)
        for module, name, function in (
            (compiled, "compiled_scan", kernels.scan),
            (compiled, "compiled_walk", walking.walk),
            (compiled, "compiled_select", selecting.select),
            (stage, "compiled_levels", levels.levels),
        ):
            made = functools.cache(lambda function=function: function)
            patch.setattr(module, name, made)
        return call()


@sweep("seed", quick=[0], full=range(40))
def test_methods_give_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On two devices or three; what groups feed each other, is repaired."""
    monkeypatch.setattr(fewest, "SEARCHED_UP_TO", 1)
    for rng, dag, kind in random_graphs(seed):
        most = rng.random()
        few = [one * (rng.random() < most) for one in kind]
        for solve in (greedy.solve, byoc.merge, convex.merge):
            assert by_kernels(lambda: solve(dag, few)) == solve(dag, few)  # noqa: B023
        for merge, host in (
            (stage.merge, None),
            (stage.merge, 1),
            (stage.merge, 9),
            (compact.merge, 0),
        ):
            plain = merge(dag, kind, host)
            assert by_kernels(lambda: merge(dag, kind, host)) == plain  # noqa: B023


@sweep("seed", quick=range(2), full=range(40))
def test_groups_are_repaired_the_same(seed: int) -> None:
    broken = 0
    for rng, dag, _ in random_graphs(seed):
        labels = drawn_labels(rng, dag)
        plain = repair(dag, labels)
        assert by_kernels(lambda: repair(dag, labels)) == plain  # noqa: B023
        broken += plain[1] != ()
    assert broken > 10


@sweep("seed", quick=range(2), full=range(40))
def test_searches_cost_what_they_do_in_plain_loops(seed: int) -> None:
    """Whatever the budget, both end at the same node."""
    for rng, dag, kind in random_graphs(seed):
        groups = (
            None
            if rng.random() < 0.3
            else convex.merge(dag, [k * 2 + rng.randrange(2) for k in kind])
        )
        plain, taken = by_plain_loops(dag, kind, groups)

        def scanned(
            budget: int, dag: Dag = dag, kind: list[int] = kind, groups: Any = groups
        ) -> Any:
            return by_kernels(
                lambda: compiled.scanned(dag.pred_rows, dag.succ_rows, kind, budget, groups=groups)
            )

        assert scanned(taken) == (plain, True)
        assert not taken or not scanned(taken - 1)[1]


@sweep("seed", quick=[0], full=range(40))
def test_methods_end_at_the_same_step(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = 0
    for rng, dag, kind in random_graphs(seed):
        for module, merge in (
            (byoc, byoc.merge_with_notes),
            (convex, convex.merge_with_notes),
        ):
            monkeypatch.setattr(module, "VISITS_PER_EDGE", rng.choice((0.1, 0.3, 1)))
            monkeypatch.setattr(walking, "SWEEP_AFTER", rng.choice((0, 0.1, 0.5)))
            monkeypatch.setattr(walking, "LANDMARKS", rng.choice((0, 1, 2, 62)))
            plain = merge(dag, kind)
            assert by_kernels(lambda: merge(dag, kind)) == plain  # noqa: B023
            ended += plain[1] != ()
    assert ended > 5


@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_on_graphs_of_every_shape(shape: str) -> None:
    """Large enough for windows to be moved, cycles of many groups and heaps that are cleared."""
    for dag, kind in of_shape(shape, 80):
        for solve in (greedy.solve, byoc.merge, convex.merge, compact.merge):
            assert by_kernels(lambda: solve(dag, kind)) == solve(dag, kind)  # noqa: B023
