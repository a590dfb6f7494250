"""Which nodes are one kernel: by definition on drawn graphs and the zoo, and case by case."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from hetsim.cost.kernels.fusion import Uses, epilogues, joined_kernel
from hetsim.cost.prices import fused_chains
from hetsim.graph.graph import Graph, Node, Tensor
from hetsim.graph.loading import load_model
from hetsim.graph.work import graph_work
from hetsim.graph.zoo import models as zoo
from hetsim.hardware.catalog import load_platform
from hetsim.hardware.variants import executing
from kernel_graphs import chain, graph_of
from sweeps import examples, sweep

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


@examples(quick=20, full=100)
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


SPEC = load_platform("laptop").devices["npu"]
SIZE = 4 * 36
"""Bytes of a value."""


def drawn(count: int, picks: list[list[int]], outputs: list[int]) -> Graph:
    """Sums and functions of any values before them; x is the first, w a constant."""
    names = ["x", "w"]
    nodes: list[Any] = []
    for v in range(count):
        reads = [names[k % len(names)] for k in picks[v]]
        nodes.append(("Add" if len(reads) > 1 else "Relu", reads, [f"v{v}"], {}))
        names.append(f"v{v}")
    kept = sorted({f"v{k % count}" for k in outputs} | {f"v{count - 1}"})
    return graph_of(
        nodes, dict.fromkeys(names, (1, 4, 3, 3)), constants=("w",), outputs=tuple(kept)
    )


@examples(quick=35, full=600)
@given(
    st.integers(1, 7).flatmap(
        lambda count: st.tuples(
            st.just(count),
            st.lists(st.lists(st.integers(0, 8), min_size=1, max_size=2), min_size=7, max_size=7),
            st.lists(st.integers(0, 6), max_size=2),
            st.sets(st.integers(0, count - 1), min_size=1),
        )
    )
)
def test_a_kernel_reads_each_value_of_others_once_and_writes_what_others_read(
    asked: tuple[int, list[list[int]], list[int], set[int]],
) -> None:
    count, picks, outputs, chosen = asked
    graph, members = drawn(count, picks, outputs), sorted(chosen)
    works = graph_work(graph)
    found = joined_kernel(Uses.of(graph), members).works
    made = {name for v in members for name in graph.nodes[v].writes}
    read = {name for v in members for name in graph.nodes[v].reads} - made - graph.constants
    assert sum(work.read_bytes for work in found) == SIZE * len(read)
    readers = graph.consumers()
    leaves = {
        name
        for name in made
        if name in graph.outputs or not readers.get(name) or not set(readers[name]) <= set(members)
    }
    assert sum(work.write_bytes for work in found) == SIZE * len(leaves)
    for work, v in zip(found, members, strict=True):
        assert work.flops == works[v].flops
        assert work.weight_bytes == works[v].weight_bytes
    assert Uses.of(graph).inner(members) == made - leaves


def fused(graph: Graph, *chains: Any, no: tuple[int, ...] = ()) -> tuple[tuple[int, ...], ...]:
    steps = tuple(tuple((op,) if isinstance(op, str) else op for op in one) for one in chains)
    supported = [v not in no for v in range(len(graph.nodes))]
    return fused_chains(graph, replace(SPEC, fusions=steps, quantized=frozenset()), supported)


def test_a_chain_fits_node_by_node_the_longest_first_and_each_node_once() -> None:
    graph = chain("Conv", "Relu", "Conv", "Relu", "Sin", "Sin")
    assert fused(graph, ("Conv", "Relu")) == ((0, 1), (2, 3))
    assert fused(graph, ("Conv", "Relu"), ("Conv", "Relu", "Sin")) == ((0, 1), (2, 3, 4))
    assert fused(graph, ("Relu", "Conv"), ("Conv", "Relu")) == ((0, 1), (2, 3))
    assert fused(graph, ("Relu", ("Conv", "Sin"))) == ((1, 2), (3, 4))
    assert fused(graph, ("Sin", "Sin", "Sin")) == ()
    assert fused(graph, ("Conv", "Relu"), no=(1,)) == ((2, 3),)
    assert fused(graph, ("Conv", "Relu"), no=(0, 2)) == ()


def test_where_it_executes_in_integers_a_product_and_its_activation_are_one_kernel() -> None:
    plain = replace(SPEC, fusions=((("Sin",), ("Cos",)),))
    graph = chain("Conv", "Clip", "Conv", "Relu", "Conv", "Sigmoid", "Sin", "Cos")
    for spec in (plain, executing(plain, "float16", "npu")):
        assert fused_chains(graph, spec, [True] * 8) == ((6, 7),)
    spec = executing(plain, "int8", "npu")
    assert fused_chains(graph, spec, [True] * 8) == ((0, 1), (2, 3), (6, 7))
