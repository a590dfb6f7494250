"""What ``pipeline`` counts where it cuts, and whom it asks in which order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hetsim
from hetsim.errors import UsageError
from hetsim.placement.strategies.baselines import split
from hetsim.problem.parts import Constant
from hetsim.problem.problem import Problem


def row(capacity: list[int], **given: object) -> Problem:
    """Six nodes of 10 bytes each."""
    return Problem.from_arrays(
        np.ones((6, len(capacity))),
        [(v, v + 1, 1) for v in range(5)],
        weight_bytes=[10] * 6,
        capacity_bytes=capacity,
        **given,  # type: ignore[arg-type]
    )


def test_each_device_gets_the_part_of_what_is_needed_that_it_holds() -> None:
    # 72 bytes are needed for 60: half of them on the first.
    assert split(row([36, 36]), (0, 1)) == [0, 0, 0, 1, 1, 1]
    assert split(row([36, 36]), (1, 0)) == [1, 1, 1, 0, 0, 0]
    assert split(row([24, 24, 24]), (0, 1, 2)) == [0, 0, 1, 1, 2, 2]
    assert split(row([72, 10]), (0, 1)) == [0] * 6
    # Together they hold too little: by their part of the memory.
    assert split(row([12, 24]), (0, 1)) == [0, 0, 1, 1, 1, 1]
    # With the host behind them what it holds is not to be shared out.
    assert split(row([12, 24, 9], host=2), (0, 1, 2)) == [0, 1, 1, 2, 2, 2]
    # A shared weight is placed once.
    shared = replace(row([36, 36]), constants=(Constant("w", 30, tuple(range(6))),))
    assert split(shared, (0, 1)) == [0] * 6


def test_devices_are_asked_in_the_order_given() -> None:
    problem = row([36, 36, 36], devices=("a", "b", "c"), host=0)
    plan = hetsim.plan(problem, "pipeline:c,b")
    assert plan.strategy == "pipeline:c,b"
    assert plan.assignment == (2, 2, 2, 1, 1, 1)
    assert plan.reason == "stages by memory over c > b"
    # Without a list in the platform's order, the host last.
    every = hetsim.plan(problem, "pipeline")
    assert every.assignment == (1, 1, 1, 2, 2, 2)
    assert every.reason == "stages by memory over b > c > a"
    with pytest.raises(UsageError):
        hetsim.plan(problem, "pipeline:c,c")
