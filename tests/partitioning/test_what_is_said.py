"""What a partition says: why nodes are where they are, what was dropped, and what cannot be."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

import hetsim
from hetsim.errors import InvalidInput, UnsupportedNode
from hetsim.partitioning.affinity import Exclusion
from hetsim.partitioning.deconflict import deconflict, device_order
from hetsim.partitioning.flow import as_resolution, partition
from hetsim.partitioning.housekeeping import Housekeeping
from hetsim.partitioning.regions import Region, annotate
from hetsim.problem.parts import StorageWidth
from hetsim.problem.problem import Problem

INF = float("inf")
NAMES = ("npu", "gpu", "cpu")


def chain(seconds: list[list[float]], **given: Any) -> Problem:
    edges = [(v, v + 1, 4) for v in range(len(seconds) - 1)]
    return Problem.from_arrays(seconds, edges, devices=NAMES, host=2, **given)


PLAIN = chain([[1.0, 2.0, 9.0], [INF, 2.0, 9.0], [INF, INF, 9.0], [1.0, 2.0, 9.0]], name="arrays")


def test_each_node_on_the_default_device_has_its_reason() -> None:
    assert partition(PLAIN).left == {2: "npu: inf in seconds; gpu: inf in seconds"}
    pins = {"n0": "cpu", "n2": "cpu", "n3": "gpu"}
    assert partition(PLAIN, pins=pins).left == {0: "pinned to it", 2: "pinned to it"}
    away = partition(PLAIN, exclude=[Exclusion(nodes=("n0", "n3")), Exclusion("gpu", ("Task",))])
    assert away.left == {
        0: "npu: 'n0' is excluded; gpu: op Task is excluded",
        1: "npu: inf in seconds; gpu: op Task is excluded",
        2: "npu: inf in seconds; gpu: op Task is excluded",
        3: "npu: 'n3' is excluded; gpu: op Task is excluded",
    }
    chosen = partition(PLAIN, choose=lambda node, offers: "cpu" if node == 3 else None)
    assert chosen.left == {2: "npu: inf in seconds; gpu: inf in seconds", 3: "chosen for it"}
    assert partition(PLAIN, priority=["cpu"]).left == {}
    edge = partition(PLAIN, housekeeping=Housekeeping("default", nodes=frozenset({0, 3})))
    assert edge.left == {
        0: "housekeeping: at the edge of a group",
        2: "npu: inf in seconds; gpu: inf in seconds",
        3: "housekeeping: at the edge of a group",
    }
    assert partition(PLAIN, assignment=[2, 2, 2, 2]).left == {}


def test_what_was_dropped_is_said_once_and_of_each_of_its_nodes() -> None:
    problem = chain([[INF, INF, 9.0]] * 3, composites=[(0, (0, 1), 0.5), (1, (1, 2), 0.5)])
    made = partition(problem, "compact")
    assert made.notes == ("gpu: pattern 'composite1' at 'n1' was dropped: 'n1' went to npu",)
    assert made.left == {
        2: "npu: inf in seconds; gpu: inf in seconds; "
        "gpu: pattern 'composite1' was dropped: 'n1' went to npu"
    }
    (dropped,) = deconflict(annotate(problem)).dropped
    assert dropped.region == Region("gpu", (1, 2), "composite1")


def test_an_error_of_support_holds_what_a_program_may_ask() -> None:
    with pytest.raises(UnsupportedNode) as caught:
        partition(PLAIN, "byoc", priority="cpu,npu")
    assert (caught.value.nodes, caught.value.ops, caught.value.devices) == (
        ("n1", "n2"), ("Task",), ("npu",)
    )  # fmt: skip
    with pytest.raises(UnsupportedNode) as caught:
        partition(PLAIN, priority="npu,gpu")
    assert (caught.value.nodes, caught.value.devices) == (("n2",), ("npu", "gpu"))


def test_priority_by_memory_goes_by_what_the_devices_themselves_hold() -> None:
    problem = chain([[1.0] * 3], capacity_bytes=[8, 9, 9])
    assert device_order(problem, "by-memory") == (1, 2, 0)
    # 8 bytes of the graph's own types are 2 on the one that holds them at a quarter.
    held = replace(
        problem,
        capacity_bytes=(12, 9, 8),
        held=(StorageWidth(32, 8), StorageWidth(), StorageWidth()),
    )
    assert device_order(held, "by-memory") == (1, 2, 0)
    several = Problem.from_arrays(
        [[1.0] * 4], devices=("gpu.0", "cpu", "gpu.1", "gpu.2"), host=1
    )  # fmt: skip
    assert device_order(several, "gpu,cpu") == (0, 2, 3, 1)
    assert device_order(several, "gpu.1,cpu,gpu") == (2, 1, 0, 3)
    assert device_order(several) == (0, 2, 3, 1)
    assert device_order(replace(several, host=None)) == (0, 1, 2, 3)


@pytest.mark.parametrize("device", NAMES)
def test_a_given_assignment_keeps_whole_kernels_whole(device: str) -> None:
    """Those that a device needs go before those that it can do without."""
    at = NAMES.index(device)
    seconds = [[9.0] * 3 for _ in range(4)]
    seconds[1][at] = seconds[2][at] = INF
    composites = [(at, (0, 3), 1.0), (at, (1, 2), 1.0)]
    # Kept whole together, 0 with 3 and 1 with 2 would wait for each other.
    problem = Problem.from_arrays(
        seconds, [(0, 1, 4), (2, 3, 4)], devices=NAMES, composites=composites
    )
    whole = as_resolution(problem, [at] * 4)
    assert whole.atoms == ((1, 2),)
    assert whole.order == (at,)
    other = (at + 1) % 3
    apart = as_resolution(problem, [at, other, other, at])
    assert apart.atoms == ((0, 3),)
    assert apart.order == tuple(sorted((at, other)))
    with pytest.raises(UnsupportedNode, match=r"'n2' .* is assigned to a device"):
        as_resolution(problem, [at, other, at, at])
    for wrong in ([at] * 3, [at] * 5, [at, at, at, 3], [at, at, at, -1]):
        with pytest.raises(InvalidInput, match="assignment"):
            as_resolution(problem, wrong)


def test_the_record_of_a_partition_says_all_of_each_group() -> None:
    platform = hetsim.load_platform("laptop")
    problem = Problem.of(hetsim.load_model("zoo:squeezenet"), platform, execute={"npu": "int8"})
    made = hetsim.partition(problem, assignment=[v // 20 % 3 for v in range(problem.n)])
    record = json.loads(made.to_json())
    assert (record["schema"], record["method"]) == ("hetsim-partition/1", made.method)
    assert record["boundary"] == [
        {"tensor": value.name, "nbytes": value.nbytes} for value in made.boundary
    ]
    assert record["boundary_bytes"] == made.boundary_bytes
    told = zip(record["groups"], made.groups, made.borders, strict=True)
    for index, (entry, group, border) in enumerate(told):
        device = problem.devices.index(group.device)
        assert (entry["id"], entry["device"]) == (index, group.device)
        assert entry["nodes"] == [problem.node_names[v] for v in group.nodes]
        for key, ids, names in (
            ("inputs", border.inputs, problem.values),
            ("outputs", border.outputs, problem.values),
            ("constants", border.constants, problem.constants),
        ):
            assert entry[key] == [names[at].name for at in ids]
        assert entry["seconds"] == problem.group_seconds(device, group.nodes)
        assert sum(entry["ops"].values()) == len(group.nodes)
        held = {at for v in group.nodes for at in problem.values_of[v]}
        nbytes = sum(problem.values[at].nbytes for at in held)
        nbytes += sum(problem.constants[at].nbytes for at in border.constants)
        assert entry["memory_bytes"] == problem.held_bytes(device, nbytes)
        assert len(set(entry["origins"])) == len(entry["origins"])
        assert set(entry["origins"]) == {n for v in group.nodes for n in problem.origins[v]}
    left = hetsim.partition(PLAIN)
    assert json.loads(left.to_json())["left"] == {"n2": left.left[2]}
