"""The boundary method gives what OpenVINO's HETERO plugin gives, case by case.

`hetero_cases.json` also says how subgraphs are connected, how devices are masked, who supports a
node (query cases) and how constants fill a memory (memory-split cases). That is not about how
groups are merged, and nothing here reads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto

import hetsim
from builders import CASES
from hetsim.errors import ModelError
from hetsim.graph.graph import Graph, Node
from hetsim.graph.model import Model
from hetsim.partitioning.methods.boundary import Wiring, execution_order, groups_of
from hetsim.problem.problem import Problem

FILE = json.loads((CASES / "hetero_cases.json").read_text())
RANDOM = json.loads((CASES / "hetero_random.json").read_text())["cases"]
MODELS = json.loads((CASES / "hetero_models.json").read_text())["models"]
KINDS = {"p": "parameter", "c": "constant", "o": "op", "r": "result"}
ROOTS = ("result", "assign", "parameter")


def cut(
    kinds: Mapping[str, str], edges: Sequence[Sequence[Any]], affinity: Mapping[str, str]
) -> tuple[dict[str, int], dict[str, str]]:
    """The group of every node, in execution order, and its device: a result's is its producer's."""
    reads: dict[str, list[str]] = {name: [] for name in kinds}
    for source, target, _ in sorted(edges, key=lambda edge: int(edge[2])):
        reads[target].append(source)
    names = list(kinds)
    index = {name: v for v, name in enumerate(names)}
    roots = [index[name] for root in ROOTS for name in names if kinds[name] == root]
    ports = [[(index[source], 0) for source in reads[name]] for name in names]
    order = [names[v] for v in execution_order(ports, roots, names)]
    assert sorted(order) == sorted(names)
    device = {n: affinity[reads[n][0] if kinds[n] == "result" else n] for n in order}
    at = {name: v for v, name in enumerate(order)}
    wiring = Wiring.of_ports(
        [[(at[source], 0) for source in reads[name]] for name in order], [kinds[n] for n in order]
    )
    numbers = {name: k for k, name in enumerate(dict.fromkeys(device.values()))}
    found = groups_of(wiring, [numbers[one] for one in device.values()])
    return dict(zip(order, found.label, strict=True)), device


def groups(ids: Mapping[str, int]) -> set[frozenset[str]]:
    """The names that have each of the ids."""
    return {frozenset(name for name in ids if ids[name] == one) for one in set(ids.values())}


@pytest.mark.parametrize("case", FILE["cases"], ids=lambda case: case["name"])
def test_subgraphs_and_ids(case: dict[str, Any]) -> None:
    kinds = {node["name"]: node["kind"] for node in case["nodes"]}
    affinity = {node["name"]: node["affinity"] for node in case["nodes"]}
    label, device = cut(kinds, case["edges"], affinity)
    expected, wheel = case["expected"], case["wheel_2026_4_1"]
    assert list(label) == wheel["ordered_ops"]
    own = groups({name: label[name] for name in label if kinds[name] != "constant"})
    assert len(own) == wheel["n_submodels"]
    assert all(len({device[name] for name in part}) == 1 for part in own)
    if expected["n_subgraphs"] is not None:
        got = {(device[min(part)], part) for part in own}
        assert got == {(x["affinity"], frozenset(x["nodes"])) for x in expected["subgraphs"]}
        assert len(got) == expected["n_subgraphs"]
    for ids in (wheel["subgraph_id_per_node"], expected.get("subgraph_id_per_node", {})):
        assert groups({name: label[name] for name in ids}) == groups(ids)


@pytest.mark.parametrize("case", RANDOM, ids=range(len(RANDOM)))
def test_random_graphs_have_the_ids_of_the_plugin(case: dict[str, Any]) -> None:
    names = [f"n{at}" for at in range(len(case["kinds"]))]
    edges = [
        (names[source], names[target], port)
        for target, sources in enumerate(case["inputs"])
        for port, source in enumerate(sources)
    ]
    kinds = {name: KINDS[kind] for name, kind in zip(names, case["kinds"], strict=True)}
    label, _ = cut(kinds, edges, dict(zip(names, case["devices"], strict=True)))
    ids = {n: wanted for n, wanted in zip(names, case["ids"], strict=True) if wanted is not None}
    assert groups({name: label[name] for name in ids}) == groups(ids)


def test_a_cycle_is_named() -> None:
    kinds = {"a": "op", "b": "op", "r": "result"}
    with pytest.raises(ModelError, match=r"node '[ab]': the node depends on itself"):
        cut(kinds, [("a", "b", 0), ("b", "a", 0), ("b", "r", 0)], dict.fromkeys(kinds, "cpu"))


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
