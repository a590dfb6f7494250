"""Graphs with parameters, constants, results and variables: what is refused, and where nodes go."""

from __future__ import annotations

import pytest

from hetsim.errors import ModelError, PlanError
from hetsim.partitioning.ports.node_graph import GraphNode, NodeGraph
from hetsim.partitioning.ports.subgraphs import collect


def graph(nodes: str, edges: str) -> NodeGraph:
    """Nodes as ``name:kind``, edges as ``source>target.port``."""
    split = [edge.replace(".", ">").split(">") for edge in edges.split()]
    return NodeGraph.of(
        [GraphNode(*node.split(":")) for node in nodes.split()],
        [(source, target, int(port)) for source, target, port in split],
    )


@pytest.mark.parametrize(
    ("nodes", "edges", "complaint"),
    [
        ("a:paramter", "", r"node 'a': no kind of node 'paramter'; did you mean 'parameter'"),
        ("a:op a:op", "", "node 'a': the name is used twice"),
        ("abc:parameter r:result", "abd>r.0", "abd > r: no node 'abd'; did you mean 'abc'"),
        ("a:parameter r:result", "a>r.1", r"node 'r': input ports \[1\] have gaps"),
        ("a:op c:constant", "a>c.0", "node 'c': a constant has no inputs"),
        ("a:op r:result", "a>r.0 a>r.1", "node 'r': a result has one input"),
        ("r:result", "", "node 'r': a result has one input"),
        ("p:parameter r:result o:op", "p>r.0 r>o.0", "node 'r': a node reads this result"),
    ],
)
def test_broken_graphs_are_refused(nodes: str, edges: str, complaint: str) -> None:
    with pytest.raises(ModelError, match=complaint):
        graph(nodes, edges)


def test_cycles_and_dead_nodes_are_named() -> None:
    cycle = graph("a:op b:op r:result", "a>b.0 b>a.0 b>r.0")
    with pytest.raises(ModelError, match=r"node '[ab]': the node depends on itself"):
        cycle.ordered()
    dead = graph("p:parameter a:op b:op r:result", "p>a.0 a>r.0 a>b.0")
    with pytest.raises(ModelError, match="node 'b': no result depends on the node"):
        dead.ordered()


def test_affinities_name_every_node_and_no_other() -> None:
    small = graph("p:parameter relu:op r:result", "p>relu.0 relu>r.0")
    with pytest.raises(PlanError, match="affinity: node 'relu' has no device"):
        collect(small, {"p": "cpu"})
    with pytest.raises(PlanError, match="affinity: no node 'rely'; did you mean 'relu'"):
        collect(small, {"p": "cpu", "rely": "cpu"})
    # A result needs no entry, and one that it has does not count.
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


def test_a_constant_is_copied_into_every_reader() -> None:
    shared = graph("p:parameter c:constant a:op b:op r:result", "p>a.0 c>a.1 a>b.0 c>b.1 b>r.0")
    found = collect(shared, {"p": "cpu", "c": "cpu", "a": "cpu", "b": "npu"})
    assert [(part.nodes, part.constants, part.inputs) for part in found.subgraphs] == [
        (("p", "a"), ("c",), ("p",)),
        (("b", "r"), ("c",), ("a",)),
    ]
    assert found.links == (((1, 0), (0, 0)),)


def test_one_output_read_in_two_subgraphs_is_given_out_once() -> None:
    fan = graph(
        "p:parameter a:op b:op c:op d:op r:result s:result",
        "p>a.0 a>b.0 a>b.1 a>c.0 b>d.0 d>r.0 c>s.0",
    )
    found = collect(fan, {"p": "x", "a": "x", "b": "y", "c": "z", "d": "y"})
    assert [part.outputs for part in found.subgraphs] == [("a",), ("s",), ("r",)]
    assert [part.inputs for part in found.subgraphs] == [("p",), ("a",), ("a",)]
    assert found.links == (((1, 0), (0, 0)), ((2, 0), (0, 0)))
    assert (found.parameters, found.results) == (((0, 0),), ((2, 0), (1, 0)))
