"""Graphs with parameters, constants, results and variables: orders, devices and ports."""

from __future__ import annotations

import random
from typing import Any

import pytest

from hetsim.errors import ModelError
from node_graph import GraphNode, NodeGraph, collect


def graph(nodes: str, edges: str) -> NodeGraph:
    """Nodes as ``name:kind``, edges as ``source>target.port``."""
    split = [edge.replace(".", ">").split(">") for edge in edges.split()]
    return NodeGraph.of(
        [GraphNode(*node.split(":")) for node in nodes.split()],
        [(source, target, int(port)) for source, target, port in split],
    )


def test_cycles_and_dead_nodes_are_named() -> None:
    cycle = graph("a:op b:op r:result", "a>b.0 b>a.0 b>r.0")
    with pytest.raises(ModelError, match=r"node '[ab]': the node depends on itself"):
        cycle.ordered()
    dead = graph("p:parameter a:op b:op r:result", "p>a.0 a>r.0 a>b.0")
    with pytest.raises(ModelError, match="node 'b': no result depends on the node"):
        dead.ordered()


def test_nodes_come_depth_first_from_the_last_parameter_assign_and_result() -> None:
    met = [0, 0]
    for seed in range(60):
        rng = random.Random(seed)
        ops = [f"o{k}" for k in range(rng.randint(1, 8))]
        ends = [f"r{k}" for k in range(rng.randint(1, 3))] + [f"s{k}" for k in range(2)]
        sources: dict[str, list[str]] = {name: [] for name in ("p0", "p1", "c0")}
        for name in [*ops, *ends]:
            above = [one for one in sources if one[0] not in "rs"]
            sources[name] = rng.choices(above, k=1 if name in ends else rng.randint(0, 3))
        if seed % 2:
            read = {source for ports in sources.values() for source in ports}
            sources |= {f"s{u}": [u] for u in (*ops, "c0") if u not in read}
        kinds = {"p": "parameter", "c": "constant", "o": "op", "r": "result", "s": "assign"}
        names = list(sources)
        rng.shuffle(names)
        edges = [(u, v, port) for v, ports in sources.items() for port, u in enumerate(ports)]
        rng.shuffle(edges)
        made = NodeGraph.of([GraphNode(name, kinds[name[0]]) for name in names], edges)
        assert made.sources() == {name: tuple(ports) for name, ports in sources.items()}
        expected: dict[str, None] = {}

        def visit(name: str, sources: Any = sources, expected: Any = expected) -> None:
            for source in sources[name]:
                visit(source)
            expected[name] = None

        for letter in "psr":
            for root in [name for name in reversed(names) if name.startswith(letter)]:
                if root not in expected:
                    visit(root)
        met[len(expected) < len(names)] += 1
        if len(expected) < len(names):
            with pytest.raises(ModelError, match="no result depends on the node"):
                made.ordered()
        else:
            assert made.ordered() == tuple(expected)
    assert min(met) >= 20


def test_a_result_needs_no_entry_and_one_that_it_has_does_not_count() -> None:
    small = graph("p:parameter relu:op r:result", "p>relu.0 relu>r.0")
    assert collect(small, {"p": "cpu", "relu": "cpu"}) == collect(
        small, {"p": "cpu", "relu": "cpu", "r": "npu"}
    )


def test_an_assign_stays_where_its_variable_is_read() -> None:
    edges = [("p", "read", 0), ("read", "add", 0), ("add", "set", 0), ("add", "r", 0)]
    device = {"p": "cpu", "read": "cpu", "add": "npu", "set": "npu", "other": "npu"}

    def found(variable: str | None) -> dict[str, str]:
        nodes = [
            GraphNode("p", "parameter"),
            GraphNode("read", "readvalue", "state"),
            GraphNode("add", "op"),
            GraphNode("set", "assign", variable),
            GraphNode("other", "readvalue", "other state"),
            GraphNode("r", "result"),
            GraphNode("s", "result"),
        ]
        parts = collect(NodeGraph.of(nodes, [*edges, ("other", "s", 0)]), device).subgraphs
        return {name: part.device for part in parts for name in part.nodes}

    assert found("state") == {**device, "set": "cpu", "r": "npu", "s": "npu"}
    assert found("other state")["set"] == "npu"
    assert found(None)["set"] == "npu"
