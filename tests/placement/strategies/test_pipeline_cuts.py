"""What ``pipeline`` counts where it cuts, and whom it asks in which order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

import hetsim
from builders import problems
from hetsim.errors import UsageError
from hetsim.placement.strategies.baselines import _crossing, _placed, split
from hetsim.problem.parts import GRAPH_INPUT, Constant
from hetsim.problem.problem import Problem
from placement_instances import model_like
from sweeps import examples


@examples(quick=40, full=400)
@given(model_like(problems(max_nodes=9)))
def test_bytes_placed_and_bytes_across_are_those_of_the_nodes(problem: Problem) -> None:
    left = [v for v in range(problem.n) if v % 3 != 1]
    across = _crossing(problem, left)
    placed = _placed(problem, left)
    assert len(across) == len(left) + 1
    for k in range(len(left) + 1):
        front, rest = set(left[:k]), set(left[k:])
        assert across[k] == sum(
            value.nbytes
            for value in problem.values
            if value.producer != GRAPH_INPUT
            and value.producer in front
            and rest.intersection(value.consumers)
        )
        if k:
            there = (c for c in problem.constants if front.intersection(c.consumers))
            assert placed[k - 1] == sum(c.nbytes for c in there)


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
