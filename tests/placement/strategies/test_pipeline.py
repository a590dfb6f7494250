"""Strategy pipeline: published splits, and cuts by memory."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from builders import CASES, problems
from hetsim.errors import UnsupportedNode, UsageError
from hetsim.placement.strategies.baselines import split
from hetsim.problem.parts import StoredConstant
from hetsim.problem.problem import Problem
from sweeps import examples

RECORD = json.loads((CASES / "hetero_cases.json").read_text())["memory_split_cases"]


@pytest.mark.parametrize("case", RECORD["cases"], ids=lambda case: ",".join(case["priorities"]))
def test_published_splits(case: dict[str, Any]) -> None:
    memory = RECORD["device_bytes"]
    problem = Problem.from_arrays(
        [[1.0] * len(memory)] * 4,
        [(v, v + 1, 12) for v in range(3)],
        devices=list(memory),
        weight_bytes=[12] * 4,
        capacity_bytes=list(memory.values()),
    )
    # Published without activations, beside which not all of the splits fit.
    order = [problem.devices.index(name) for name in case["priorities"]]
    found = [problem.devices[device] for device in split(problem, order)]
    assert found == [case["assigned"][f"add{k}"] for k in range(1, 5)]


def test_the_cut_with_the_fewest_bytes_is_taken() -> None:
    # 40 nodes of 5 bytes; 100 of 240 wanted: cuts from 79.2 to 87.5 of 200 bytes are allowed.
    tensors = [(v, 4 if v == 16 else 400, (v + 1,)) for v in range(39)]
    problem = Problem.from_arrays(
        [[1.0, 1.0]] * 40, tensors=tensors, weight_bytes=[5] * 40, capacity_bytes=[100, 1000]
    )
    assert split(problem, (0, 1)).index(1) == 17


def test_what_a_device_does_not_take_goes_on() -> None:
    seconds = np.ones((4, 2))
    seconds[1, 0] = np.inf
    problem = Problem.from_arrays(seconds, weight_bytes=[1] * 4, capacity_bytes=[100, 100])
    assert split(problem, (0, 1)) == [0, 1, 0, 0]
    seconds[1, 1] = np.inf
    problem = Problem.from_arrays(seconds, weight_bytes=[1] * 4, capacity_bytes=[100, 100])
    with pytest.raises(UnsupportedNode, match=r"'n1'.*d0: inf in seconds; d1: inf in seconds"):
        split(problem, (0, 1))


def test_without_capacities_there_is_nothing_to_split_by() -> None:
    with pytest.raises(UsageError, match="no memory capacities"):
        hetsim.plan(Problem.from_arrays([[1.0]]), "pipeline")


@examples(quick=20, full=100)
@given(problems(max_nodes=12), st.data())
def test_every_node_is_placed_where_it_runs(problem: Problem, data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(0, 50), min_size=problem.n, max_size=problem.n))
    problem = replace(
        problem,
        constants=tuple(
            StoredConstant(f"w{v}", size, (v,)) for v, size in enumerate(sizes) if size
        ),
        capacity_bytes=tuple(data.draw(st.integers(1, 400)) for _ in problem.devices),
    )
    # Device 0 takes every node.
    order = [*range(1, len(problem.devices)), 0]
    found = split(problem, order)
    assert all(problem.supported[v, device] for v, device in enumerate(found))


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
    shared = replace(row([36, 36]), constants=(StoredConstant("w", 30, tuple(range(6))),))
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
