"""Which nodes are one kernel: by definition on drawn graphs and the zoo, and case by case."""

from __future__ import annotations

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from hetsim.cost.kernels.fusion import Uses, epilogues
from hetsim.graph.graph import Graph, Node, Tensor
from hetsim.graph.loading import load_model
from hetsim.graph.work import graph_work
from hetsim.graph.zoo import models as zoo
from kernel_graphs import graph_of
from sweeps import sweep

SHAPE = (1, 4, 3, 3)
OPS = {
    "Conv": (1, 1), "Relu": (1, 1), "Sigmoid": (1, 1), "Softplus": (1, 1), "Tanh": (1, 1),
    "Add": (2, 1), "Mul": (2, 1), "Reshape": (1, 1), "Softmax": (1, 1), "Mystery": (2, 2),
}  # fmt: skip
"""Operands and results of the ops that are drawn."""


@st.composite
def graphs(draw):
    count = draw(st.integers(1, 14))
    values, nodes = ["x"], []
    tensors = {"x": SHAPE, "w": (4, 4, 1, 1)}
    for v in range(count):
        op = draw(st.sampled_from(sorted(OPS)))
        reads, writes = OPS[op]
        recent = st.sampled_from(values[-4:])
        inputs = [draw(recent) for _ in range(reads)]
        outputs = [f"v{v}.{i}" for i in range(writes)]
        tensors.update(dict.fromkeys(outputs, SHAPE))
        values += outputs
        if op == "Conv":
            inputs.append("w")
        domain = "mine" if op == "Mystery" else ""
        nodes.append(Node(v, f"n{v}", op, domain, tuple(inputs), tuple(outputs)))
    read = {name for node in nodes for name in node.reads}
    outputs = [name for name in values[1:] if name not in read]
    kept = draw(st.lists(st.sampled_from(values[1:]), max_size=2, unique=True))
    return Graph(
        "drawn",
        tuple(nodes),
        {name: Tensor(name, "float32", shape) for name, shape in tensors.items()},
        ("x",),
        tuple(dict.fromkeys([*outputs, *kept])),
        frozenset({"w"}),
        {"": 20},
    )


def check(graph, supported, kinds=None):
    """Whether the sets are kernels that a device could run one after the other."""
    works = graph_work(graph)
    sets = epilogues(graph, works, supported, kinds)
    members = [v for one in sets for v in one]
    assert len(members) == len(set(members))
    assert all(supported[v] for v in members)
    dag = nx.DiGraph(list(graph.edges()))
    dag.add_nodes_from(range(len(graph.nodes)))
    uses = Uses.of(graph)
    home = {v: v for v in dag}
    for one in sets:
        assert len(one) > 1
        assert list(one) == sorted(one)
        for v in one:
            home[v] = one[0]
        inside = set(one)
        leaves = set().union(*(nx.descendants(dag, v) for v in one)) - inside
        assert not any(nx.descendants(dag, v) & inside for v in leaves), "not convex"
        # Nothing but what one member makes is seen outside.
        inner = uses.inner(one)
        makers = {v for v in one for name in graph.nodes[v].writes if name not in inner}
        assert len(makers) <= 1
        if kinds is not None:
            moving = [v for v in one if works[v].flops]
            assert len({kinds[v] for v in moving}) == 1
    merged = nx.DiGraph((home[u], home[v]) for u, v in dag.edges if home[u] != home[v])
    assert nx.is_directed_acyclic_graph(merged)
    return sets


@given(graphs(), st.data())
def test_kernels_are_disjoint_convex_and_close_no_cycle(graph, data):
    n = len(graph.nodes)
    flags = st.lists(st.integers(0, 7).map(bool), min_size=n, max_size=n)
    supported = data.draw(flags)
    kinds = data.draw(st.none() | flags)
    check(graph, supported, kinds)


@sweep("name", quick=zoo.names()[::3], full=zoo.names())
def test_kernels_of_the_zoo(name):
    graph = load_model(f"zoo:{name}").graph
    sets = check(graph, [True] * len(graph.nodes))
    # A convolution that one activation alone reads is never launched without it.
    readers, inside = graph.consumers(), {v: one for one in sets for v in one}
    for node in graph.nodes:
        after = [r for name in node.writes for r in readers.get(name, ())]
        if node.op_type == "Conv" and [graph.nodes[r].op_type for r in after] == ["Relu"]:
            assert after[0] in inside[node.id]


def sets_of(graph, supported=None, kinds=None):
    return check(graph, supported or [True] * len(graph.nodes), kinds)


def residual(*, read_again=False):
    """Two convolutions, and their sum."""
    nodes = [
        ("Conv", ["x", "w"], ["a"], {}), ("Conv", ["x", "w"], ["b"], {}),
        ("Add", ["b", "a"], ["s"], {}), ("Relu", ["s"], ["y"], {}),
    ]  # fmt: skip
    if read_again:
        nodes.append(("Softmax", ["b"], ["z"], {}))
    shapes = {"w": (4, 4, 1, 1)} | dict.fromkeys("xabsy", SHAPE)
    outputs = ["y"]
    if read_again:
        shapes["z"], outputs = SHAPE, ["y", "z"]
    return graph_of(nodes, shapes, constants=("w",), outputs=outputs)


def test_a_sum_joins_the_operand_that_is_done_last_and_that_none_else_reads():
    assert sets_of(residual()) == ((1, 2, 3),)
    assert sets_of(residual(read_again=True)) == ((0, 2, 3),)
