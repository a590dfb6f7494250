"""Strategies give valid plans, published makespans, and clear refusals."""

from __future__ import annotations

import numpy as np
import pytest

import hetsim
from hetsim.errors import UnsupportedNode, UsageError
from hetsim.placement.bounds.lower_bound import critical_path_bound
from hetsim.problem.groups import Group
from hetsim.problem.problem import Problem


def test_bound_of_one_node_is_exact() -> None:
    problem = Problem.from_arrays(
        [[8.0, 2.0]],
        tensors=[(-1, 4, (0,)), (0, 2, ())],
        latency_s=0.5,
        bytes_per_s=4.0,
        dispatch_s=[0.25, 1.0],
        host=0,
    )
    # On d1: input 1.5, dispatch 1, run 2, output 1; on d0: dispatch 0.25, run 8.
    assert critical_path_bound(problem) == 5.5
    assert hetsim.simulate(hetsim.plan(problem, "heft")).latency_s == 5.5


def test_single_picks_the_fastest_and_lists_missing_ops() -> None:
    problem = Problem.from_arrays(
        [[4.0, 1.0, 1.0], [4.0, 2.0, np.inf]],
        edges=[(0, 1, 0)],
        devices=("cpu", "gpu", "npu"),
        host=0,
    )
    assert hetsim.plan(problem, "single").strategy == "single:gpu"
    with pytest.raises(UnsupportedNode, match=r"'npu' does not support: Task \(1\)"):
        hetsim.plan(problem, "single:npu")
    with pytest.raises(UsageError, match="did you mean 'gpu'"):
        hetsim.plan(problem, "single:gpuu")
    hopeless = Problem.from_arrays([[1.0, np.inf], [np.inf, 1.0]])
    with pytest.raises(UnsupportedNode, match="no device can run the whole model"):
        hetsim.plan(hopeless, "single")


def test_hetero_follows_the_priority() -> None:
    problem = Problem.from_arrays(
        [[1.0, 9.0, 9.0], [1.0, 9.0, np.inf], [1.0, np.inf, np.inf]],
        edges=[(0, 1, 8), (1, 2, 8)],
        devices=("cpu", "gpu", "npu"),
        host=0,
    )
    plan = hetsim.plan(problem, "hetero:npu,gpu,cpu")
    assert plan.groups == (Group("npu", (0,)), Group("gpu", (1,)), Group("cpu", (2,)))
    assert hetsim.plan(problem, "hetero").assignment == (1, 1, 0)
    with pytest.raises(UnsupportedNode, match="gpu: inf in seconds"):
        hetsim.plan(problem, "hetero:npu,gpu")
    assert hetsim.plan(problem, "hetero", method="stage").options == {"method": "stage"}
