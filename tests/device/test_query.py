"""Published queries of several devices, and how names of devices are read."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

import hetsim
from builders import CASES
from hetsim.device.device import Device, SimulatedDevice
from hetsim.device.query import devices_named, query
from hetsim.device.registry import platform_devices
from hetsim.errors import UsageError
from hetsim.graph.graph import Graph, Node, Tensor
from hetsim.hardware.spec import SupportRule
from hetsim.partitioning.deconflict import device_order
from hetsim.problem.problem import Problem

FILE = json.loads((CASES / "hetero_cases.json").read_text())
QUERIES = FILE["query_cases"]
SPEC = hetsim.load_device("rockchip-rk3588-npu")


def mocks() -> dict[str, Device]:
    """Devices ``MOCK0.0`` to ``MOCK1.1`` as the cases describe them."""
    found: dict[str, Device] = {}
    for kind, about in QUERIES["devices"].items():
        rule = SupportRule(
            ops=frozenset(about["op_types"]), static_shapes_only=not about["dynamic_shapes"]
        )
        for number in about["ids"]:
            name = f"{kind}.{number}"
            found[name] = SimulatedDevice(name, replace(SPEC, support=rule), about["ids"])
    return found


def chain(batch: int | str) -> Graph:
    """input + const_val, minus const_val, reshaped by reshape_val."""
    nodes = (
        Node(0, "add", "Add", "", ("input", "const_val"), ("a",), origins=("add",)),
        Node(1, "sub", "Subtract", "", ("a", "const_val"), ("b",), origins=("sub",)),
        Node(2, "reshape", "Reshape", "", ("b", "reshape_val"), ("res",), origins=("reshape",)),
    )
    names = ("input", "const_val", "a", "b", "reshape_val", "res")
    tensors = {name: Tensor(name, "float32", (batch, 3)) for name in names}
    constants = frozenset({"const_val", "reshape_val"})
    return Graph("chain", nodes, tensors, ("input",), ("res",), constants, {"": 20})


def with_unread_input() -> Graph:
    node = Node(0, "add", "Add", "", ("input1", "const_val"), ("res",), origins=("add",))
    names = ("input1", "input2", "const_val", "res")
    tensors = {name: Tensor(name, "float32", (1, 3)) for name in names}
    inputs = ("input1", "input2")
    return Graph("two", (node,), tensors, inputs, ("res",), frozenset({"const_val"}), {"": 20})


@pytest.mark.parametrize("case", QUERIES["cases"], ids=lambda case: ",".join(case["priorities"]))
def test_who_takes_what(case: dict[str, Any]) -> None:
    graph = chain("N" if case.get("dynamic_batch") else 1)
    if "model" in case:
        graph = with_unread_input()
    # The cases also use ids that no device reports, as the mock's query does not look at them.
    kinds = mocks()
    devices = {n: SimulatedDevice(n, kinds[f"{n[:5]}.0"].spec) for n in case["priorities"]}
    found = query(graph, devices_named(case["priorities"], devices))
    assert found == case["assigned"]
    known = {*graph.inputs, *graph.constants, *graph.outputs, *(node.name for node in graph.nodes)}
    assert known - found.keys() == set(case["unassigned"])


def test_a_constant_goes_to_the_first_device_asked_that_takes_a_reader() -> None:
    # Its first reader, the Add of `chain`, is taken by the second device alone.
    kinds = mocks()
    rule = replace(kinds["MOCK1.0"].spec, support=SupportRule(ops=frozenset({"Subtract"})))
    devices = [SimulatedDevice("first", rule), SimulatedDevice("second", kinds["MOCK0.0"].spec)]
    found = query(chain(1), devices)
    assert (found["add"], found["sub"]) == ("second", "first")
    assert (found["const_val"], found["input"], found["reshape_val"]) == (
        "first",
        "second",
        "second",
    )


def test_errors_of_the_cases() -> None:
    assert len(QUERIES["errors"]) == 6
    devices = mocks()
    # Priorities naming an unregistered device; empty priorities.
    with pytest.raises(UsageError, match=r"no device 'MOCK0.9'; did you mean 'MOCK0"):
        devices_named("MOCK0.9", devices)
    with pytest.raises(UsageError, match="not a list of devices"):
        devices_named("", devices)
    with pytest.raises(UsageError, match="no device is given"):
        query(chain(1), [])
    # A device with no number is the first of its kind.
    assert devices_named("MOCK1,MOCK0", devices)[0].name == "MOCK1.0"
    # An unknown property.
    with pytest.raises(UsageError, match="no property 'MULTI'"):
        devices["MOCK0.0"].set_property("MULTI", 1)
    # Affinities on some nodes alone are completed by priority here; unknown devices are errors.
    problem = Problem.from_arrays([[1.0, 2.0]] * 2, devices=("MOCK0.0", "MOCK1.0"))
    some = hetsim.Affinity({"n0": "MOCK1.0"})
    assert len(hetsim.partition(problem, affinity=some).groups) == 2
    with pytest.raises(hetsim.HetsimError, match=r"no device 'MOCK2.0'"):
        hetsim.partition(problem, affinity=hetsim.Affinity({"n0": "MOCK2.0"}))
    # Another policy than that by memory.
    with pytest.raises(UsageError, match="no strategy 'tensor_parallel'"):
        hetsim.plan(problem, "tensor_parallel")


def test_a_kind_stands_for_all_of_its_devices() -> None:
    platform = hetsim.load_platform("gpu-server-8")
    devices = platform_devices(platform)

    def names(text: str) -> list[str]:
        return [device.name for device in devices_named(text, devices)]

    every = [f"gpu.{i}" for i in range(8)]
    assert names("gpu,cpu") == ["gpu.0", "cpu"]
    assert names("multi:gpu") == every
    assert names("hetero:gpu.3,gpu,cpu") == ["gpu.3", *every[:3], *every[4:], "cpu"]
    with pytest.raises(UsageError, match=r"no device 'gpx'; choose from: cpu, gpu.0"):
        names("multi:gpx")
    problem = Problem.from_arrays([[1.0] * 3], devices=("gpu.0", "gpu.1", "cpu"))
    assert device_order(problem, "gpu,cpu") == (0, 1, 2)
    assert device_order(problem, "gpu.1,gpu") == (1, 0)
    assert hetsim.plan(problem, "hetero:gpu,cpu").groups[0].device == "gpu.0"
