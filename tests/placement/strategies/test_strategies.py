"""Strategies give valid plans, published makespans, and clear refusals."""

from __future__ import annotations

import numpy as np
import pytest

import hetsim
from builders import placement_case
from hetsim.errors import UnsupportedNode, UsageError
from hetsim.placement.bounds.lower_bound import critical_path_bound, lower_bound
from hetsim.placement.listing.ranks import upward_ranks
from hetsim.placement.strategies.list_scheduling import Heft
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


def test_heft_reproduces_the_published_schedule() -> None:
    problem, record = placement_case("topcuoglu2002")
    ranks = upward_ranks(problem)
    published = [108.0, 77.0, 80.0, 80.0, 69.0, 63.333, 42.667, 35.667, 44.333, 14.667]
    assert ranks == pytest.approx(published, abs=1e-3)
    assert Heft().schedule(problem).makespan_s == record["reference"]["published"]["HEFT"] == 80
    plan = hetsim.plan(problem, "heft")
    assert hetsim.simulate(plan).latency_s == 80
    assert lower_bound(problem) <= record["reference"]["optimum"]


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
    for text, complaint in (
        ("hetero:npu,,cpu", "not a list of different devices"),
        ("hetero:npu,npu", "not a list of different devices"),
        ("hetero:tpu", "did you mean"),
        ("heft:x", "takes no argument"),
        ("hefd", "did you mean 'heft'"),
    ):
        with pytest.raises(UsageError, match=complaint):
            hetsim.plan(problem, text)
    with pytest.raises(UsageError, match="no option 'methd'; did you mean 'method'"):
        hetsim.plan(problem, "hetero", methd="stage")
    assert hetsim.plan(problem, "hetero", method="stage").options == {"method": "stage"}
