"""The boundary method gives what OpenVINO's HETERO plugin gives, case by case.

`hetero_cases.json` also holds query cases (who supports a node) and memory-split cases (how
constants fill a device's memory). They are not about how groups are merged; they belong to
the tests of support and of memory, and nothing here reads them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto

import hetsim
from builders import CASES
from hetsim.graph.graph import Graph, Node
from hetsim.graph.model import Model
from hetsim.problem.problem import Problem
from node_graph import GraphNode, NodeGraph, Subgraph, Subgraphs, collect

FILE = json.loads((CASES / "hetero_cases.json").read_text())
RANDOM = json.loads((CASES / "hetero_random.json").read_text())["cases"]
MODELS = json.loads((CASES / "hetero_models.json").read_text())["models"]
KINDS = {"p": "parameter", "c": "constant", "o": "op", "r": "result"}


def graph_of(case: Mapping[str, Any]) -> tuple[NodeGraph, dict[str, str]]:
    nodes = [GraphNode(node["name"], node["kind"]) for node in case["nodes"]]
    edges = [(source, target, port) for source, target, port in case["edges"]]
    return NodeGraph.of(nodes, edges), {node["name"]: node["affinity"] for node in case["nodes"]}


def random_graph(case: Mapping[str, Any]) -> tuple[NodeGraph, dict[str, str]]:
    names = [f"n{at}" for at in range(len(case["kinds"]))]
    nodes = [GraphNode(name, KINDS[kind]) for name, kind in zip(names, case["kinds"], strict=True)]
    edges = [
        (names[source], names[target], port)
        for target, sources in enumerate(case["inputs"])
        for port, source in enumerate(sources)
    ]
    return NodeGraph.of(nodes, edges), dict(zip(names, case["devices"], strict=True))


def joined(graph: NodeGraph, found: Subgraphs) -> tuple[set[tuple[str, str]], list[str]]:
    """Merge the subgraphs back along the links: the edges, and the parameters as they come."""
    feeds = dict(found.links)
    sources = graph.sources()
    edges: set[tuple[str, str]] = set()
    parameters: list[str] = []
    for at, part in enumerate(found.subgraphs):
        readable = {*part.nodes, *part.constants}
        own = {name for name in part.inputs if name in part.nodes}
        parameters += [name for name in part.inputs if name in own]
        for port, name in enumerate(part.inputs):
            if name not in own:
                there, output = feeds.pop((at, port))
                assert found.subgraphs[there].outputs[output] == name
                assert name in found.subgraphs[there].nodes
                readable.add(name)
        for name in part.nodes:
            edges |= {(source, name) for source in sources[name] if source in readable}
    assert not feeds
    return edges, parameters


@pytest.fixture(params=FILE["cases"], ids=lambda case: case["name"])
def case(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = request.param
    return found


def test_all_cases_are_there_and_all_that_they_expect_is_known() -> None:
    assert len(FILE["cases"]) == 18
    assert {key for case in FILE["cases"] for key in case["expected"]} == {
        "n_subgraphs",
        "subgraphs",
        "subgraph_order_is_significant_for_mapping",
        "subgraph_id_per_node",
        "mapping",
        "constants_per_subgraph",
        "parameters_per_subgraph",
        "results_per_subgraph",
        "total_sinks",
        "merge_back",
        "incremental_masking",
        "partial_masking",
    }


def test_subgraphs_and_ids(case: dict[str, Any]) -> None:
    graph, affinity = graph_of(case)
    found = collect(graph, affinity)
    expected, wheel = case["expected"], case["wheel_2026_4_1"]
    assert graph.ordered() == tuple(wheel["ordered_ops"])
    got = [{"affinity": part.device, "nodes": list(part.nodes)} for part in found.subgraphs]
    if expected["n_subgraphs"] is not None:
        assert len(got) == expected["n_subgraphs"]
        wanted = expected["subgraphs"]
        if not expected["subgraph_order_is_significant_for_mapping"]:
            got.sort(key=str)
            wanted = sorted(wanted, key=str)
        assert got == wanted
    assert len(got) == wheel["n_submodels"]
    named = wheel["subgraph_id_per_node"]
    groups = [sorted(name for name in part.nodes if name in named) for part in found.subgraphs]
    assert sorted(filter(None, groups)) == wheel["op_groups"]
    ids = found.subgraph_id_per_node
    assert {name: ids[name] for name in named} == named
    assert ids == expected.get("subgraph_id_per_node", ids)
    assert found.plain == ()


def test_mappings(case: dict[str, Any]) -> None:
    graph, affinity = graph_of(case)
    found = collect(graph, affinity)
    mapping = case["expected"].get("mapping")
    if mapping is not None:
        assert [list(port) for port in found.parameters] == mapping["model_input_to_subgraph_input"]
        assert [list(port) for port in found.results] == mapping["model_output_to_subgraph_output"]
        links = [{"to": list(to), "from": list(origin)} for to, origin in found.links]
        assert links == mapping["subgraph_input_from_subgraph_output"]
    for names, ports, side in (
        (case["model_inputs"], found.parameters, "inputs"),
        (case["model_outputs"], found.results, "outputs"),
    ):
        assert [getattr(found.subgraphs[at], side)[port] for at, port in ports] == names


def test_counts_of_ports_constants_and_sinks(case: dict[str, Any]) -> None:
    graph, affinity = graph_of(case)
    parts = collect(graph, affinity).subgraphs
    expected = case["expected"]
    counts = {
        "constants_per_subgraph": [len(part.constants) for part in parts],
        "parameters_per_subgraph": [len(part.inputs) for part in parts],
        "results_per_subgraph": [len(part.outputs) for part in parts],
        "total_sinks": sum(len(part.sinks) for part in parts),
    }
    assert counts | {key: expected[key] for key in counts if key in expected} == counts


def test_merging_back(case: dict[str, Any]) -> None:
    graph, affinity = graph_of(case)
    edges, parameters = joined(graph, collect(graph, affinity))
    assert edges == {(source, target) for source, target, _ in graph.edges}
    # What merging back does not restore is the order of the model's parameters.
    same = case["expected"].get("merge_back", {"structurally_equal": True})["structurally_equal"]
    assert (parameters == case["model_inputs"]) == same


def ops_of(graph: NodeGraph, parts: tuple[Subgraph, ...]) -> list[list[str]]:
    ops = graph.named("op")
    return [[name for name in part.nodes if name in ops] for part in parts]


def own_entries(found: Subgraphs) -> int:
    """Each subgraph made into one op brings itself, its inputs and its outputs."""
    return sum(1 + len(part.inputs) + len(part.outputs) for part in found.subgraphs)


@pytest.mark.parametrize(
    "case",
    [case for case in FILE["cases"] if "incremental_masking" in case["expected"]],
    ids=lambda case: case["name"],
)
def test_devices_masked_one_after_the_other(case: dict[str, Any]) -> None:
    graph, affinity = graph_of(case)
    masking = case["expected"]["incremental_masking"]
    first = masking["after_first_device"]
    default = first["default_device"]
    whole = collect(graph, affinity)
    later = {name for name, device in affinity.items() if device != "MOCK.0"}
    one = collect(
        graph, {name: default if name in later else device for name, device in affinity.items()}
    ).without(default)
    assert ops_of(graph, one.subgraphs) == first["device_subgraphs"]
    assert list(one.plain) == first["left_as_plain_ops"]
    assert (one.parameters, one.results, one.links) == ((), (), ())
    assert whole.without(default) is whole
    sizes = [len(affinity) - len(later)]
    sizes.append(sizes[-1] + own_entries(one))
    sizes.append(sizes[-1] + len(later))
    sizes.append(sizes[-1] + own_entries(whole) - own_entries(one))
    assert sizes == masking["table_size"]


@pytest.mark.parametrize(
    "case",
    [case for case in FILE["cases"] if "partial_masking" in case["expected"]],
    ids=lambda case: case["name"],
)
def test_nodes_of_the_default_device_stay_plain(case: dict[str, Any]) -> None:
    graph, affinity = graph_of(case)
    masking = case["expected"]["partial_masking"]
    found = collect(graph, affinity).without("TEST")
    assert ops_of(graph, found.subgraphs) == masking["device_subgraphs"]
    assert list(found.plain) == masking["plain_ops"]
    assert masking["mapping"] == "empty"
    assert (found.parameters, found.results, found.links) == ((), (), ())


@pytest.mark.parametrize("number", range(len(RANDOM)))
def test_random_graphs_have_the_ids_of_the_plugin(number: int) -> None:
    case = RANDOM[number]
    graph, affinity = random_graph(case)
    found = collect(graph, affinity)
    ids = [found.subgraph_id_per_node[node.name] for node in graph.nodes]
    assert [
        got if wanted is not None else None for got, wanted in zip(ids, case["ids"], strict=True)
    ] == case["ids"]
    edges, _ = joined(graph, found)
    assert edges == {(source, target) for source, target, _ in graph.edges}
    assert all(there < here for (here, _), (there, _) in found.links)


def problem_of(record: Mapping[str, Any]) -> Problem:
    """The model's graph on two devices that take every node; values are named by number."""
    count = record["inputs"] + record["constants"]
    nodes: list[Node] = []
    for at, (reads, outputs) in enumerate(record["nodes"]):
        writes = tuple(str(value) for value in range(count, count + outputs))
        nodes.append(Node(at, f"n{at}", "Op", "", tuple(map(str, reads)), writes))
        count += outputs
    graph = Graph(
        name=record["model"],
        nodes=tuple(nodes),
        tensors={},
        inputs=tuple(map(str, range(record["inputs"]))),
        outputs=tuple(map(str, record["outputs"])),
        constants=frozenset(
            str(record["inputs"] + number) for number in range(record["constants"])
        ),
        opsets={},
    )
    readers = graph.consumers()
    tensors = [
        (node.id, 1, readers.get(name, ()))
        for node in nodes
        for name in node.writes
        if name in readers or name in graph.outputs
    ]
    problem = Problem.from_arrays(np.ones((len(nodes), 2)), tensors=tensors)
    model = Model(record["model"], "", graph, ModelProto(), None, "", "none", {}, {}, (), ())
    return replace(problem, model=model)


@pytest.mark.parametrize("record", MODELS, ids=lambda record: record["model"])
def test_models_have_the_groups_of_the_plugin(record: dict[str, Any]) -> None:
    """Ops that share a constant or an input are joined; one value at two ports is read twice."""
    problem = problem_of(record)
    assert len(record["runs"]) == 6
    for devices, run in record["runs"].items():
        made = hetsim.partition(problem, "boundary", assignment=[int(p) for p in run["devices"]])
        wanted: dict[int, list[int]] = {}
        for node, subgraph in enumerate(run["ids"]):
            wanted.setdefault(subgraph, []).append(node)
        assert {group.nodes for group in made.groups} == set(map(tuple, wanted.values())), devices
