"""What is done otherwise where there are many nodes says what is done where there are few."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.placement.bounds import area, paths
from hetsim.placement.bounds.area import _broken
from hetsim.placement.bounds.lower_bound import lower_bound
from hetsim.problem.problem import Problem
from sweeps import examples

seeds = st.integers(0, 2**32 - 1)


def layered(seed: int, n: int, widest: int) -> Problem:
    """Nodes that read up to `widest` of those before them, on two to four devices."""
    draw = np.random.default_rng(seed)
    count = int(draw.integers(2, 5))
    seconds = draw.integers(1, 40, (n, count)) / 8
    seconds[:, 1:][draw.random((n, count - 1)) < 0.15] = np.inf
    edges = {
        (int(u), v, int(draw.integers(0, 30)))
        for v in range(1, n)
        for u in draw.choice(v, min(v, int(draw.integers(1, widest + 1))), replace=False)
    }
    return Problem.from_arrays(
        seconds, edges=sorted(edges), latency_s=0.25, bytes_per_s=8.0,
        dispatch_s=draw.integers(0, 8, count) / 8, streams=draw.integers(1, 3, count).tolist(),
    )  # fmt: skip


@examples(quick=30, full=300)
@given(seeds, st.integers(1, 40), st.booleans())
def test_the_fullest_window_is_found_of_all(seed: int, n: int, thinned: bool) -> None:
    draw = np.random.default_rng(seed)
    limit, width = 20.0, int(draw.integers(1, 4))
    head, tail = draw.integers(0, 14, (2, n)).astype(float)
    work = draw.random(n)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(area, "MATRIX", 4 if thinned else 14)
        found = _broken(head, tail, work, np.ones(n), limit, 0, width)
    windows = {
        (a, b): work[(head >= a) & (tail >= b)].sum() - width * (limit - a - b) / limit
        for a in set(head.tolist())
        for b in set(tail.tolist())
        if a + b <= limit
    }
    assert all(windows[a, b] > 0 for _, a, b in found)
    fullest = max(windows.values(), default=0.0)
    if not thinned:
        assert bool(found) == (fullest > 1e-7)
        assert not found or windows[found[0][1:]] == pytest.approx(fullest)


@examples(quick=1, full=40)
@given(seeds)
def test_bounds_are_about_the_same_by_both(seed: int) -> None:
    problem = layered(seed, 80, 4)
    few = lower_bound(problem), lower_bound(problem, "throughput")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(area, "LARGE", 0)
        patch.setattr(area, "LARGE_MATRIX", 20)
        for module in (area, paths):
            patch.setattr(module, "COMPILE_FROM", 0)
        many = lower_bound(problem), lower_bound(problem, "throughput")
    assert many == pytest.approx(few, rel=0.01)
