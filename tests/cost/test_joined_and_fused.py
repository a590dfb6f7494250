"""Several nodes as one kernel: which a device declares, and what goes from one to another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hetsim.cost.kernels.fusion import Uses, joined_kernel
from hetsim.cost.prices import fused_chains
from hetsim.graph.graph import Graph
from hetsim.graph.work import graph_work
from hetsim.hardware.catalog import load_platform
from hetsim.hardware.variants import executing
from kernel_graphs import chain, graph_of
from sweeps import examples

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


@examples(quick=60, full=600)
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
