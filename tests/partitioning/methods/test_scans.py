"""Methods give the same groups with machine code, for which large graphs go, as without it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hetsim.core.machine_code import Compiled
from hetsim.partitioning import scans
from hetsim.partitioning.methods import byoc, compact, convex
from hetsim.partitioning.scans import repair
from merge_graphs import SHAPES, drawn_labels, of_shape, random_graphs
from sweeps import sweep


class OnArrays:
    """What would be compiled, called on the same arrays as it stands."""

    def __init__(self, code: Compiled) -> None:
        self.plain = code.plain

    def __call__(self, *arguments: object) -> object:
        with np.errstate(all="ignore"):
            return self.plain(*arguments)


def either_way(call: Callable[[], object], *, compiled: bool) -> tuple[object, object]:
    """What a call gives on arrays, by machine code or as it stands, and on lists."""
    found = []
    for which in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(scans.compile_threshold, "pays", lambda *_, **_more: which)  # noqa: B023
            for name in () if compiled else ("_SCAN", "_WALK"):
                patch.setattr(scans, name, OnArrays(getattr(scans, name)))
            found.append(call())
    return found[0], found[1]


SEEDS = [(0, False), *((seed, True) for seed in range(50))]


@sweep("seed, compiled", quick=SEEDS[:1], full=SEEDS)
def test_methods_give_the_same(seed: int, compiled: bool) -> None:
    """Whether the budget lasts or runs out: as if graphs were large, with budgets of all sizes."""
    cut_short = lasted = 0
    for rng, dag, kind in random_graphs(seed):
        visits = rng.choice((0, 1, 256))
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {
                "THOROUGH_UP_TO": rng.choice((0, 10_000)),
                "LEAST_BUDGETED": 1,
                "VISITS_WITH_HOST": visits,
            }.items():
                patch.setattr(compact, name, value)
            for module in (byoc, compact, convex):
                patch.setattr(module, "VISITS_PER_EDGE", visits)
            for host in (None, 0):
                quick, plain = either_way(lambda: compact.merge(dag, kind, host), compiled=compiled)  # noqa: B023
                assert quick == plain
            for merge in (byoc.merge_with_notes, convex.merge_with_notes):
                quick, plain = either_way(lambda: merge(dag, kind), compiled=compiled)  # noqa: B023
                assert quick == plain
                cut_short += plain[1] != ()  # type: ignore[index]
                lasted += plain[1] == ()  # type: ignore[index]
    assert cut_short > 0
    assert lasted > 100


@pytest.mark.sweep
@pytest.mark.parametrize("shape", SHAPES)
def test_methods_give_the_same_on_graphs_of_every_shape(shape: str) -> None:
    for dag, kind in of_shape(shape):
        for solve in (byoc.merge, compact.merge, convex.merge):
            quick, plain = either_way(lambda: solve(dag, kind), compiled=True)  # noqa: B023
            assert quick == plain


@sweep("seed, compiled", quick=SEEDS[:1], full=SEEDS)
def test_groups_are_repaired_the_same(seed: int, compiled: bool) -> None:
    broken = 0
    for rng, dag, _ in random_graphs(seed):
        labels = drawn_labels(rng, dag)
        quick, plain = either_way(lambda: repair(dag, labels), compiled=compiled)  # noqa: B023
        assert quick == plain
        broken += plain[1] != ()  # type: ignore[index]
    assert broken > 10
