"""Errors: one tree, all of it on the face, with what a program needs of each in attributes."""

from __future__ import annotations

import copy
import importlib
import pickle
import pkgutil
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

import hetsim
from hetsim.errors import HetsimError, Infeasible, all_refused
from hetsim.partitioning.sizes import SizeRules
from hetsim.placement.constraints import without_devices
from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem


def tree(kind: type[HetsimError] = HetsimError) -> Iterator[type[HetsimError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from tree(child)


def own() -> list[type[HetsimError]]:
    """Every class of the tree that the package defines, with all of its modules loaded."""
    for module in pkgutil.walk_packages(hetsim.__path__, "hetsim."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return [kind for kind in dict.fromkeys(tree()) if kind.__module__.startswith("hetsim")]


def test_every_class_of_the_tree_is_in_errors() -> None:
    for kind in own():
        assert getattr(hetsim.errors, kind.__name__) is kind
        assert kind.__doc__


def test_all_of_an_error_goes_to_other_processes() -> None:
    for kind in own():
        details = {
            entry.name: "some" if entry.name in ("where", "hint", "device") else ("a", "b")
            for entry in fields(kind)
            if entry.name != "what"
        }
        error = kind("it is wrong", **details)
        for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
            assert type(twin) is kind
            assert str(twin) == str(error) == "some: it is wrong; some"
            assert all(
                getattr(twin, entry.name) == getattr(error, entry.name) for entry in fields(kind)
            )
        with pytest.raises(TypeError):
            kind("it is wrong", nonsense=1)  # type: ignore[call-arg]


def two(**more: Any) -> Problem:
    """A node that only the second device runs, before one that both do."""
    return Problem.from_arrays(
        np.array([[np.inf, 1.0], [1.0, 1.0]]), [(0, 1, 8)], devices=("cpu", "npu"), **more
    )


def test_an_unsupported_node_is_told_with_its_op_and_the_devices_asked() -> None:
    problem = two()
    node, op = problem.node_names[0], problem.op_types[0]
    for refused, devices in (
        (lambda: hetsim.plan(problem, "single:cpu"), ("cpu",)),
        (lambda: hetsim.partition(problem, assignment=[0, 0]), ("cpu",)),
        (lambda: hetsim.partition(problem, priority="cpu"), ("cpu",)),
        (lambda: hetsim.plan(problem, "heft", pins={node: "cpu"}), ("cpu", "npu")),
        (lambda: hetsim.partition(problem, affinity=hetsim.Affinity({node: "cpu"})), ("cpu",)),
        (lambda: without_devices(problem, (1,)), ("npu",)),
        (lambda: hetsim.partition(problem, "byoc", priority="npu >> cpu"), ("cpu",)),
    ):
        with pytest.raises(hetsim.errors.UnsupportedNode) as caught:
            refused()
        assert (caught.value.nodes, caught.value.ops) == ((node,), (op,))
        assert caught.value.devices == devices
    nowhere = Problem.from_arrays(np.full((1, 2), np.inf))
    for strategy in ("single", "hetero", "heft", "mincut", "dls", "auto"):
        with pytest.raises(hetsim.errors.UnsupportedNode) as caught:
            hetsim.plan(nowhere, strategy)
        assert caught.value.nodes == nowhere.node_names
        assert caught.value.exit_code == 4


def test_what_does_not_fit_is_told_in_bytes() -> None:
    problem = two(weight_bytes=[30, 20], capacity_bytes=[100, 40])
    plan = Plan(problem, "given", (Group("npu", (0, 1)),))
    for refused in (
        lambda: hetsim.simulate(plan),
        lambda: hetsim.plan(problem, "single:npu"),
    ):
        with pytest.raises(hetsim.errors.OutOfMemory) as caught:
            refused()
        told = caught.value
        assert told.device == "npu"
        assert (told.needed_bytes, told.held_bytes) == (50, 40)
        assert told.over_bytes == 10
        assert f"({told.needed_bytes} bytes" in str(told)
    sizes = SizeRules(fit_weights=True)
    small = two(weight_bytes=[30, 20], capacity_bytes=[100, 20])
    with pytest.raises(hetsim.errors.OutOfMemory) as caught:
        hetsim.partition(small, priority="cpu >> npu", sizes=sizes)
    assert (caught.value.device, caught.value.needed_bytes, caught.value.held_bytes) == (
        "npu",
        30,
        20,
    )


def test_one_kind_of_refusal_stays_that_kind_and_two_are_infeasible() -> None:
    lacking = hetsim.errors.UnsupportedNode("a", nodes=("x",), ops=("Conv",), devices=("cpu",))
    other = hetsim.errors.UnsupportedNode("b", nodes=("x", "y"), ops=("Conv",), devices=("npu",))
    both = all_refused("none", [lacking, other])
    assert isinstance(both, hetsim.errors.UnsupportedNode)
    assert (both.nodes, both.ops, both.devices) == (("x", "y"), ("Conv",), ("cpu", "npu"))
    full = hetsim.errors.OutOfMemory("c", device="cpu", needed_bytes=9, held_bytes=1)
    nearly = hetsim.errors.OutOfMemory("d", device="npu", needed_bytes=3, held_bytes=1)
    least = all_refused("none", [hetsim.errors.OutOfMemory("e"), full, nearly])
    assert isinstance(least, hetsim.errors.OutOfMemory)
    assert (least.device, least.over_bytes) == ("npu", 2)
    assert type(all_refused("none", [lacking, full])) is Infeasible
    assert type(all_refused("none", [])) is Infeasible


def test_single_says_whether_ops_or_memory_are_lacking() -> None:
    runs = np.ones((1, 2))
    small = Problem.from_arrays(runs, weight_bytes=[9], capacity_bytes=[3, 5])
    with pytest.raises(hetsim.errors.OutOfMemory) as caught:
        hetsim.plan(small, "single")
    assert (caught.value.device, caught.value.held_bytes) == (small.devices[1], 5)
    runs[0, 0] = np.inf
    mixed = Problem.from_arrays(runs, weight_bytes=[9], capacity_bytes=[3, 5])
    with pytest.raises(Infeasible) as refused:
        hetsim.plan(mixed, "single")
    assert type(refused.value) is Infeasible


def test_groups_that_wait_for_each_other_are_told() -> None:
    problem = Problem.from_arrays(np.ones((3, 2)), [(0, 1, 1), (1, 2, 1)], devices=("cpu", "npu"))
    with pytest.raises(hetsim.errors.PartitionError, match="cycle") as caught:
        Plan(problem, "given", (Group("cpu", (0, 2)), Group("npu", (1,)))).validate()
    assert sorted(caught.value.cycle) == [0, 1]
    assert len(caught.value.complaints) == 1
    with pytest.raises(hetsim.errors.PartitionError) as caught:
        Plan(problem, "given", (Group("cpu", (0,)), Group("npu", ()))).validate()
    assert caught.value.cycle == ()
    assert len(caught.value.complaints) == 3
    assert issubclass(hetsim.errors.PartitionError, hetsim.errors.PlanError)


def test_devices_that_no_link_joins_are_told() -> None:
    joined = two()
    routes = tuple(
        tuple(replace(route, latency_s=np.inf) for route in row) for row in joined.routes
    )
    apart = replace(joined, routes=routes)
    plan = Plan(apart, "given", (Group("npu", (0,)), Group("cpu", (1,))))
    with pytest.raises(hetsim.errors.NoRoute) as caught:
        hetsim.simulate(plan)
    assert (caught.value.source, caught.value.target) == ("npu", "cpu")
