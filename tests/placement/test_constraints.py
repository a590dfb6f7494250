"""Pins, exclusions, fewer devices and less memory hold for every strategy that takes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from builders import problems
from hetsim.errors import InvalidInput, UnsupportedNode, UsageError
from hetsim.partitioning.affinity import Exclusion
from hetsim.placement.constraints import (
    check_runnable,
    narrowed,
    only_devices,
    with_less,
    without_devices,
)
from hetsim.problem.parts import FusedKernel
from hetsim.problem.problem import Problem
from placement_instances import CONSTRUCTIVE, played
from sweeps import examples
from three_nodes import three

QUICK: dict[str, dict[str, Any]] = {
    **{name: {} for name in CONSTRUCTIVE},
    "local-search": {"moves": 200},
    "auto": {"search": False},
}


@examples(quick=3, full=12)
@given(problems(max_nodes=8), st.data())
def test_constraints_hold(problem: Problem, data: st.DataObject) -> None:
    node = data.draw(st.integers(0, problem.n - 1))
    device = data.draw(st.sampled_from(np.flatnonzero(problem.supported[node]).tolist()))
    other = data.draw(st.integers(0, problem.n - 1))
    exclude = (Exclusion(None, nodes=(problem.node_names[other],)),)
    pins = {problem.node_names[node]: problem.devices[device]}
    most = data.draw(st.integers(1, len(problem.devices)))
    for strategy, options in QUICK.items():
        plan, _ = played(problem, strategy, pins=pins, exclude=exclude, **options)
        assert plan.assignment[node] == device
        # Device 0 takes every node, and what is pinned stays.
        assert plan.assignment[other] == (device if other == node else 0)
        assert plan.problem is problem
        few, _ = played(problem, strategy, max_devices=most, **options)
        assert len(few.devices_used) <= most


def test_the_one_device_that_takes_all_is_found_where_closing_others_ends_nowhere() -> None:
    inf = float("inf")
    seconds = [[1.0, inf, 0.0]] * 3 + [[1.0, 0.0, inf]]
    problem = Problem.from_arrays(seconds)
    for strategy, options in QUICK.items():
        plan, latency = played(problem, strategy, max_devices=1, **options)
        assert plan.devices_used == ("d0",)
        assert latency == 4.0
    nowhere = Problem.from_arrays([[inf, 1.0, inf], [1.0, inf, inf], [inf, inf, 1.0]])
    with pytest.raises(UnsupportedNode, match="no plan found with at most 2 devices"):
        played(nowhere, "heft", max_devices=2)


def test_exact_holds_them_too() -> None:
    problem = Problem.from_arrays(
        [[3.0, 1.0, 2.0]] * 4, edges=[(0, 1, 1), (2, 3, 1)], devices=("a", "b", "c")
    )
    assert played(problem, "exact")[1] == 3.0
    assert played(problem, "exact", max_devices=1)[1] == 4.0
    plan, latency = played(problem, "exact", pins={"n0": "a"})
    assert plan.assignment[0] == 0
    assert latency == 4.0
    assert played(problem, "exact", exclude=(Exclusion("b", ops=("Task",)),))[1] == 6.0


def test_nonsense_is_refused() -> None:
    problem = Problem.from_arrays([[1.0, np.inf], [np.inf, 1.0]])
    with pytest.raises(UsageError, match="max_devices is 0"):
        hetsim.plan(problem, "heft", max_devices=0)
    with pytest.raises(UnsupportedNode, match="at most 1 device"):
        hetsim.plan(problem, "heft", max_devices=1)
    with pytest.raises(UnsupportedNode, match=r"'n0'.*d0: pinned elsewhere; d1: inf in seconds"):
        hetsim.plan(problem, "heft", pins={"n0": "d1"})
    with pytest.raises(UnsupportedNode, match=r"'n1'.*leave it no device.*'n1' is excluded"):
        hetsim.plan(problem, "heft", exclude=(Exclusion("d1", nodes=("n1",)),))
    with pytest.raises(InvalidInput, match="no node 'n7'"):
        hetsim.plan(problem, "heft", pins={"n7": "d1"})
    with pytest.raises(InvalidInput, match="no device 'd7'"):
        hetsim.plan(problem, "heft", pins={"n0": "d7"})
    with pytest.raises(UsageError, match="no device 'd7'"):
        hetsim.plan(problem, "heft", capacity_bytes={"d0": 7, "d1": 7, "d7": 7})


INF = float("inf")


def test_closed_devices_run_nothing_and_what_runs_nowhere_else_is_named() -> None:
    problem = three()
    problem = replace(problem, fused=tuple(FusedKernel(p, (0, 1), 1.5) for p in range(3)))
    left = without_devices(problem, (0, 2))
    assert np.isfinite(left.seconds).tolist() == [[False, True, False]] * 3
    assert [kernel.device for kernel in left.fused] == [1]
    assert left.devices == problem.devices
    lacking = replace(problem, seconds=np.array([[1.0, 1.0, INF], [1.0, INF, INF], [1.0] * 3]))
    lacking = replace(lacking, fused=())
    with pytest.raises(UnsupportedNode, match="without 'a'") as caught:
        without_devices(lacking, (0,))
    assert caught.value.where == "node 'n1' (Task)"
    assert caught.value.nodes == ("n1",)
    assert caught.value.devices == ("a",)
    assert only_devices(problem, ()) is problem
    kept = only_devices(problem, ("c", "a"))
    assert kept.runnable.tolist() == [[True, False, True]] * 3
    open_to = np.ones((3, 3), dtype=bool)
    open_to[1, 2] = False
    some = narrowed(problem, open_to)
    assert np.isinf(some.seconds[1, 2])
    assert [kernel.device for kernel in some.fused] == [0, 1]
    check_runnable(some)
    with pytest.raises(UnsupportedNode):
        check_runnable(replace(lacking, seconds=np.array([[INF] * 3, [1.0] * 3, [1.0] * 3])))


def test_a_device_of_which_no_byte_is_left_is_closed() -> None:
    problem = three(weight_bytes=[9] * 3, capacity_bytes=[20, 30, 40])
    assert with_less(problem, 1, 10).capacity_bytes == (20, 20, 40)
    assert with_less(problem, 1, 29).runnable.all()
    for nbytes in (30, 31):
        closed = with_less(problem, 1, nbytes)
        assert closed.capacity_bytes == (20, 0, 40)
        assert closed.runnable.tolist() == [[True, False, True]] * 3
