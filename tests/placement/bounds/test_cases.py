"""Cases refute no limit that a schedule keeps, and what they say is the same in machine code."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.core import compile_threshold
from hetsim.placement.bounds.cases import CLOSE, by_cases, highest
from hetsim.placement.bounds.paths import BoundInputs, heads
from hetsim.problem.problem import Problem
from sweeps import examples


def drawn(seed: int, n: int) -> Problem:
    """Nodes that read up to three of those before them, on two or three devices far apart."""
    draw = np.random.default_rng(seed)
    count = int(draw.integers(2, 4))
    edges = {
        (int(u), v, int(draw.integers(0, 20)))
        for v in range(1, n)
        for u in draw.choice(v, min(v, int(draw.integers(1, 4))), replace=False)
    }
    return Problem.from_arrays(
        draw.integers(1, 20, (n, count)).astype(float), edges=sorted(edges), bytes_per_s=1.0
    )


def shortest(problem: Problem) -> float:
    """The shortest schedule of all, by every assignment in every order that the edges allow."""
    seconds, n = problem.seconds, problem.n
    least = float("inf")
    orders = [
        order
        for order in itertools.permutations(range(n))
        if all(
            order.index(value.producer) < order.index(v)
            for value in problem.values
            if value.producer >= 0
            for v in value.consumers
        )
    ]
    for assignment in itertools.product(range(len(problem.devices)), repeat=n):
        for order in orders:
            free, end = [0.0] * len(problem.devices), [0.0] * n
            for v in order:
                begin = free[assignment[v]]
                for value in problem.values:
                    u = value.producer
                    if u >= 0 and v in value.consumers:
                        apart = assignment[u] != assignment[v]
                        begin = max(begin, end[u] + (value.nbytes if apart else 0))
                end[v] = free[assignment[v]] = begin + float(seconds[v, assignment[v]])
            least = min(least, max(end))
    return least


@examples(quick=15, full=100)
@given(st.integers(0, 2**32 - 1))
def test_limits_are_refuted_up_to_the_shortest_schedule(seed: int) -> None:
    problem = drawn(seed, 5)
    setting, optimum = BoundInputs.of(problem), shortest(problem)
    assert not by_cases(setting, optimum, 1000)
    low = float((heads(setting, setting.shares) + setting.shares).min(axis=1).max())
    found = highest(low, float("inf"), lambda limit_s: by_cases(setting, limit_s, 1000))
    assert low <= found <= optimum
    # Orders are not among the cases; on so few nodes little else is missing.
    assert found >= 0.7 * optimum


@pytest.mark.parametrize("seed", range(4))
def test_machine_code_says_what_plain_python_says(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = BoundInputs.of(drawn(seed, 14))
    low = float((heads(setting, setting.shares) + setting.shares).min(axis=1).max())

    def found(compiled: bool) -> float:
        monkeypatch.setattr(compile_threshold, "pays", lambda *_: compiled)
        return highest(low, float("inf"), lambda limit_s: by_cases(setting, limit_s, 60), CLOSE)

    assert found(True) == found(False) > low
