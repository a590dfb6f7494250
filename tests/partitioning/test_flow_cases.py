"""Published cases of whole flows: regions, de-conflict, housekeeping, constants, memory."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

import hetsim
from builders import CASES
from hetsim.errors import OutOfMemory
from hetsim.partitioning.affinity import Affinity, Exclusion
from hetsim.partitioning.borders import borders, memory_bytes
from hetsim.partitioning.deconflict import BY_MEMORY
from hetsim.partitioning.housekeeping import Housekeeping
from hetsim.partitioning.methods.registry import methods
from hetsim.partitioning.partition import Partition
from hetsim.partitioning.regions import Region, annotate
from hetsim.partitioning.sizes import SizeRules
from hetsim.problem.parts import StoredConstant, Value
from hetsim.problem.problem import Problem

INF = float("inf")
RECORDS: dict[str, dict[str, Any]] = {
    case["id"]: case for case in json.loads((CASES / "partition_cases.json").read_text())["cases"]
}
CONNECTED = [info.name for info in methods() if "connected" in info.promises]


def problem_of(record: dict[str, Any]) -> Problem:
    """The case with its devices by priority and a host; constants are no nodes.

    Housekeeping nodes compute nothing: every device can run them.
    """
    constants = record.get("constants", ())
    nodes = [name for name in record["nodes"] if name not in constants]
    at = {name: v for v, name in enumerate(nodes)}
    regions = record.get("regions", {})
    idle = record.get("housekeeping", ())
    devices = record["priority"]

    def seconds(node: str, device: str) -> float:
        alone = (
            [node] in regions[device] if device in regions else node in record["supported"][device]
        )
        return 1.0 if alone or node in idle else INF

    problem = Problem.from_arrays(
        [[*(seconds(node, device) for device in devices), 9.0] for node in nodes],
        [(at[u], at[v], 4) for u, v in record["edges"] if u in at],
        devices=(*devices, "host"),
        host=len(devices),
        composites=[
            (devices.index(device), [at[name] for name in region], 0.5)
            for device, own in regions.items()
            for region in own
            if len(region) > 1
        ],
    )
    read = {
        name: tuple(sorted(at[v] for u, v in record["edges"] if u == name)) for name in constants
    }
    leaving = tuple(
        Value(f"{name} as a whole", 8, at[name], (), is_output=True)
        for name in record.get("whole_tuple_escapes", ())
    )
    escaped = {value.producer for value in leaving}
    return replace(
        problem,
        node_names=tuple(nodes),
        constants=tuple(StoredConstant(name, 16, readers) for name, readers in read.items()),
        values=tuple(
            replace(value, is_output=value.producer in escaped) for value in problem.values
        ),
    )


def accelerated(problem: Problem, made: Partition) -> set[tuple[str, frozenset[str]]]:
    return {
        (group.device, frozenset(problem.node_names[v] for v in group.nodes))
        for group in made.groups
        if group.device != "host"
    }


def expected(record: dict[str, Any]) -> set[tuple[str, frozenset[str]]]:
    return {(group["device"], frozenset(group["nodes"])) for group in record["expect"]}


@pytest.mark.parametrize("method", CONNECTED)
@pytest.mark.parametrize(
    "case_id", ["rfc-priority-acl-over-dnnl", "rfc-priority-dnnl-over-acl", "rfc-partial-overlap"]
)
def test_a_region_that_loses_a_node_is_dropped_whole(case_id: str, method: str) -> None:
    record = RECORDS[case_id]
    problem = problem_of(record)
    priority = " >> ".join([*record["priority"], "host"])
    made = hetsim.partition(problem, method, priority=priority)
    assert accelerated(problem, made) == expected(record)
    host = {problem.node_names[v] for g in made.groups if g.device == "host" for v in g.nodes}
    assert host == set(record["host"])
    dropped = [note for note in made.notes if "was dropped" in note]
    assert bool(dropped) == (case_id != "rfc-priority-acl-over-dnnl")


@pytest.mark.parametrize(
    ("case_id", "rules"),
    [
        ("trt-single-op-dropped", SizeRules(min_nodes=5)),
        ("min-size-readopt", SizeRules(min_nodes=2)),
        ("tflite-largest-n", SizeRules(min_nodes=2, max_groups=2)),
    ],
)
def test_what_the_size_rules_leave_is_on_the_host(case_id: str, rules: SizeRules) -> None:
    record = RECORDS[case_id]
    problem = problem_of(record)
    made = hetsim.partition(problem, sizes=rules)
    assert accelerated(problem, made) == expected(record)
    assert {problem.node_names[v] for v in made.left} == set(record["host"])
    assert all(made.left.values())


@pytest.mark.parametrize("method", CONNECTED)
def test_a_callable_decides_before_priority(method: str) -> None:
    record = RECORDS["rfc-custom-deconflict"]
    problem = problem_of(record)
    wanted = record["custom_deconflict"]
    asked: list[tuple[str, tuple[str, ...]]] = []

    def choose(node: int, offers: tuple[Region, ...]) -> str | None:
        asked.append((problem.node_names[node], tuple(offer.device for offer in offers)))
        return wanted.get(problem.node_names[node])

    made = hetsim.partition(problem, method, choose=choose)
    assert accelerated(problem, made) == expected(record)
    assert asked == [("a", ("X", "host")), ("b", ("X", "Y", "host")), ("c", ("X", "host"))]


@pytest.mark.parametrize("method", CONNECTED)
@pytest.mark.parametrize(
    ("case_id", "mode"),
    [
        ("relax-projection-chain", "follow"),
        ("relax-projection-escapes", "follow"),
        ("torch-fx-14", "follow"),
        ("torch-fx-18", "follow"),
        ("torch-fx-15b", "default"),
    ],
)
def test_housekeeping_nodes_follow_or_stay(case_id: str, mode: Any, method: str) -> None:
    record = RECORDS[case_id]
    problem = problem_of(record)
    idle = frozenset(record["nodes"].index(name) for name in record["housekeeping"])
    made = hetsim.partition(problem, method, housekeeping=Housekeeping(mode, nodes=idle))
    assert accelerated(problem, made) == expected(record)


@pytest.mark.parametrize("method", CONNECTED)
@pytest.mark.parametrize("case_id", ["executorch-constants-follow", "shared-constant-no-bridge"])
def test_a_constant_is_copied_into_each_group_that_reads_it(case_id: str, method: str) -> None:
    record = RECORDS[case_id]
    problem = problem_of(record)
    made = hetsim.partition(problem, method)
    names = [constant.name for constant in problem.constants]
    copies = dict.fromkeys(names, 0)
    found: set[tuple[str, frozenset[str]]] = set()
    for group, border in zip(made.groups, borders(problem, made.groups), strict=True):
        members = {problem.node_names[v] for v in group.nodes}
        own = {names[index] for index in border.constants}
        for name in own:
            copies[name] += 1
        if group.device != "host":
            # The one case counts constants as members, the other keeps their source apart.
            found.add(
                (group.device, frozenset(members | own if "copies" not in record else members))
            )
    assert found == expected(record)
    if "copies" in record:
        assert copies == record["copies"]


def loads(record: dict[str, Any], weights: list[int]) -> Problem:
    """Independent nodes with these weights on the devices of a memory case."""
    names, capacities = zip(*record["devices"], strict=True)
    return Problem.from_arrays(
        [[1.0] * len(names)] * len(weights),
        devices=names,
        weight_bytes=weights,
        capacity_bytes=capacities,
    )


def test_everything_fits_the_largest_device() -> None:
    record = RECORDS["mem-single-fits"]
    made = hetsim.partition(
        loads(record, [40, 40, 40]), "stage", priority=BY_MEMORY, sizes=SizeRules(fit_weights=True)
    )
    assert {group.device for group in made.groups} == {record["expect_device"]}


def test_more_than_all_devices_hold_is_an_error() -> None:
    record = RECORDS["mem-not-enough"]
    assert record["error"]
    problem = loads(record, [4] * (record["total_bytes"] // 4))
    with pytest.raises(OutOfMemory, match="device 'd1'"):
        hetsim.partition(problem, priority=BY_MEMORY, sizes=SizeRules(fit_weights=True))


def test_a_node_larger_than_every_device_is_an_error_that_names_it() -> None:
    record = RECORDS["mem-node-too-large"]
    assert record["error"]
    largest = record["largest_node_bytes"]
    assert sum(capacity for _, capacity in record["devices"]) > largest + 10
    problem = loads(record, [10, largest])
    with pytest.raises(OutOfMemory, match="of node 'n1'"):
        hetsim.partition(problem, priority=BY_MEMORY, sizes=SizeRules(fit_weights=True))


def test_memory_is_accounted_node_by_node() -> None:
    record = RECORDS["mem-accounting"]
    floats = 4 * 4
    problem = Problem.from_arrays(
        [[1.0]] * 3,
        tensors=[(-1, floats, (0, 1, 2)), (-1, floats, (0,))] + [(v, floats, ()) for v in range(3)],
        weight_bytes=[0, floats, floats],
    )
    assert memory_bytes(problem, (0, 1, 2)) == record["used"]
    assert memory_bytes(problem, (0, 2)) == record["after_remove"]


@pytest.mark.parametrize("method", CONNECTED)
@pytest.mark.parametrize("case_id", [i for i, r in RECORDS.items() if "outputs" in r])
def test_what_leaves_a_group_is_listed_once_as_it_is_made(case_id: str, method: str) -> None:
    """Two of the cases list the outputs of the same graph in two orders: ours is the graph's."""
    record = RECORDS[case_id]
    problem = problem_of(record)
    made = hetsim.partition(problem, method)
    assert accelerated(problem, made) == expected(record)
    exchanged = borders(problem, made.groups)
    found: dict[frozenset[str], list[int]] = {}
    for group, border in zip(made.groups, exchanged, strict=True):
        leaving = [problem.values[index].producer for index in border.outputs]
        assert leaving == sorted(leaving)
        ends = [v for v in group.nodes if not problem.dag.succs[v]]
        found[frozenset(problem.node_names[v] for v in group.nodes)] = [*leaving, *ends]
    for members, outputs in record["outputs"].items():
        made_there = {problem.node_names[v] for v in found[frozenset(members.split())]}
        assert made_there == set(outputs)


def test_an_op_type_can_be_excluded_by_name() -> None:
    record = RECORDS["trt-exclude-relu"]
    names = record["nodes"]
    problem = replace(
        Problem.from_arrays(
            [[1.0, 9.0]] * len(names),
            [(names.index(u), names.index(v), 4) for u, v in record["edges"]],
            devices=(*record["priority"], "host"),
            host=1,
        ),
        node_names=tuple(names),
        op_types=tuple(name.rstrip("2") for name in names),
    )
    excluded = Affinity(exclude=(Exclusion(ops=tuple(record["options"]["exclude_ops"])),))
    made = hetsim.partition(
        problem, affinity=excluded, sizes=SizeRules(min_nodes=record["options"]["min_size"])
    )
    assert accelerated(problem, made) == expected(record)
    assert made.left[names.index("relu")] == "trt: op relu is excluded"


def test_regions_are_listed_without_a_decision() -> None:
    problem = problem_of(RECORDS["rfc-priority-acl-over-dnnl"])
    regions = annotate(problem)
    assert list(regions.of_device("ACL")) == [Region("ACL", (0, 1, 2), "composite0")]
    assert [region.nodes for region in regions.of_device("DNNL")] == [(0,), (1,), (2,), (3,)]
    assert [(r.device, r.nodes) for r in regions.holding(1)] == [
        ("ACL", (0, 1, 2)),
        ("DNNL", (1,)),
        ("host", (1,)),
    ]
