"""A start of many tasks: the best schedule of lists both ways at several prices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import hetsim
from hetsim.placement import priced_start as module
from hetsim.placement.objective import measure
from hetsim.placement.priced_start import priced_start
from hetsim.placement.starts import prepared, starts_that_fit
from hetsim.problem.problem import Problem

WITH_LINKS: dict[str, Any] = {"dispatch_s": 0.7, "contention": "fifo", "host": 0}


def layered(n: int, seed: int, **options: Any) -> Problem:
    """Layers of ten nodes on three devices that differ by node."""
    rng = np.random.default_rng(seed)
    edges = {(int(rng.integers(v // 10 * 10 - 10, v // 10 * 10)), v) for v in range(10, n)}
    return Problem.from_arrays(
        rng.uniform(1.0, 20.0, (n, 3)),
        edges=[(u, v, 1 + (u * v) % 20) for u, v in sorted(edges)],
        latency_s=0.5,
        bytes_per_s=1.0,
        **options,
    )


@pytest.mark.group("machine_code")
@pytest.mark.parametrize("options", [{}, WITH_LINKS])
@pytest.mark.parametrize("seed", range(2))
def test_it_is_a_plan_with_its_cost_the_same_by_machine_code(
    options: dict[str, Any], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = layered(120, seed, **options)
    coarse = prepared(problem)
    told: list[Any] = []
    for least in (0, 10**9):
        monkeypatch.setattr(module, "COMPILE_FROM", least)
        monkeypatch.setattr(module, "COMPILE_ANEW_FROM", least)
        start = priced_start(coarse)
        assert start is not None
        start.plan.validate()
        assert start.plan.groups == coarse.spread(start.groups)
        assert start.cost == measure(start.plan, "latency") >= hetsim.lower_bound(problem)
        told.append(start.groups)
    assert told[0] == told[1]


@pytest.mark.parametrize("options", [{}, WITH_LINKS])
def test_it_is_better_than_lists_without_a_price(options: dict[str, Any]) -> None:
    """That is so on all of these; nothing promises it."""
    for seed in range(3):
        coarse = prepared(layered(200, seed, **options))
        priced = priced_start(coarse)
        assert priced is not None
        assert priced.cost < starts_that_fit(coarse, "latency")[1][0].cost


def test_where_a_node_runs_on_no_device_alone_there_is_none() -> None:
    problem = layered(20, 0)
    seconds = problem.seconds.copy()
    seconds[0] = np.inf
    lacking = replace(problem, seconds=seconds)
    assert priced_start(replace(prepared(problem), problem=lacking)) is None
