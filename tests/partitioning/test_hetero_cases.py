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
from openvino_graph import OpenvinoGraph

FILE = json.loads((CASES / "hetero_cases.json").read_text())
RANDOM = json.loads((CASES / "hetero_random.json").read_text())["cases"]
MODELS = json.loads((CASES / "hetero_models.json").read_text())["models"]
KINDS = {"p": "parameter", "c": "constant", "o": "op", "r": "result"}


def random_graph(case: Mapping[str, Any]) -> tuple[OpenvinoGraph, dict[str, str]]:
    names = [f"n{at}" for at in range(len(case["kinds"]))]
    kinds = {name: KINDS[kind] for name, kind in zip(names, case["kinds"], strict=True)}
    sources = [[names[source] for source in sources] for sources in case["inputs"]]
    graph = OpenvinoGraph(kinds, dict(zip(names, sources, strict=True)))
    return graph, dict(zip(names, case["devices"], strict=True))


@pytest.mark.parametrize("case", FILE["cases"], ids=lambda case: case["name"])
def test_subgraphs_and_ids(case: dict[str, Any]) -> None:
    graph = OpenvinoGraph.of({node["name"]: node["kind"] for node in case["nodes"]}, case["edges"])
    affinity = {node["name"]: node["affinity"] for node in case["nodes"]}
    ids, parts = graph.collected(affinity)
    expected, wheel = case["expected"], case["wheel_2026_4_1"]
    assert graph.ordered() == wheel["ordered_ops"]
    if expected["n_subgraphs"] is not None:
        assert len(parts) == expected["n_subgraphs"]
        assert sorted(parts) == sorted(part["nodes"] for part in expected["subgraphs"])
    assert len(parts) == wheel["n_submodels"]
    named = wheel["subgraph_id_per_node"]
    groups = [sorted(name for name in part if name in named) for part in parts]
    assert sorted(filter(None, groups)) == wheel["op_groups"]
    assert {name: ids[name] for name in named} == named
    assert ids == expected.get("subgraph_id_per_node", ids)


@pytest.mark.parametrize("number", range(len(RANDOM)))
def test_random_graphs_have_the_ids_of_the_plugin(number: int) -> None:
    case = RANDOM[number]
    graph, affinity = random_graph(case)
    ids, _ = graph.collected(affinity)
    assert [
        got if wanted is not None else None
        for got, wanted in zip(ids.values(), case["ids"], strict=True)
    ] == case["ids"]


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
