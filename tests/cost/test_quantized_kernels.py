"""Kernels among conversions: which nodes they are of, and what each computes and moves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from datasheets import by_datasheet
from figure_builders import kernel_figures
from hetsim.cost.model import Kernel
from hetsim.cost.quantized import (
    around_floats,
    kernel_sets,
    quantized_kernel,
)
from hetsim.device.support.quantized import Quantized
from hetsim.device.support.rules import Support
from hetsim.graph.graph import Graph
from hetsim.graph.patterns.matching import Match
from hetsim.graph.work import Work, graph_work, node_work
from hetsim.hardware.catalog import load_platform
from hetsim.hardware.spec import DeviceSpec
from kernel_graphs import graph_like, graph_of, node

SPEC = by_datasheet(load_platform("laptop").devices["npu"])
SHAPE = (1, 4, 3, 3)
SIZE = 36
SCALE, ROUND = 2, 4
"""FLOP of an element that is shifted and scaled, and of one that is scaled, rounded and clipped."""

Nodes = list[tuple[str, list[str], list[str], dict[str, Any]]]


def graph(nodes: Nodes, outputs: tuple[str, ...] = (), **shapes: tuple[int, ...]) -> Graph:
    """Values of one shape but for `shapes`: i... are int8, w... floats and k... int8 constants."""
    given = {"s": (), "z": ()} | shapes
    names = {name for _, reads, writes, _ in nodes for name in (*reads, *writes, *given)}
    kinds = {name: "int8" for name in names if name[0] in "ikz"}
    return graph_like(nodes, SHAPE, constants="skwz", outputs=outputs, dtypes=kinds, **given)


def load(source: str, to: str) -> Any:
    return ("DequantizeLinear", [source, "s", "z"], [to], {})


def store(source: str, to: str) -> Any:
    return ("QuantizeLinear", [source, "s", "z"], [to], {})


def floats(source: str, to: str) -> Any:
    """An op that nothing computes in integers."""
    return node("Erf", source, to=to)


def kernels(
    found: Graph,
    no: tuple[int, ...] = (),
    composites: tuple[tuple[int, ...], ...] = (),
    spec: DeviceSpec = SPEC,
) -> list[tuple[tuple[int, ...], str | None]]:
    """Nodes and type of every set; `no` are refused, `composites` kernels already."""
    taken = tuple(v not in no for v in range(len(found.nodes)))
    whole = tuple(Match("p", nodes) for nodes in composites)
    support = Support("npu", taken, {}, whole)
    sets = kernel_sets(Quantized(found, spec), spec, support)
    return sorted(((one.nodes, one.dtype) for one in sets), key=lambda one: one[0])


def test_conversions_join_what_alone_reads_or_makes_what_they_convert() -> None:
    both = [load("i0", "a"), floats("a", "b"), store("b", "i1")]
    assert kernels(graph(both)) == [((0, 1, 2), None)]
    # Where their neighbour is none of this device they stay; several of them are no neighbour.
    assert kernels(graph(both), no=(1,)) == []
    assert kernels(graph(both), no=(0,)) == [((1, 2), None)]
    assert kernels(graph(both), no=(2,)) == [((0, 1), None)]
    assert kernels(graph([*both, floats("a", "c")], ("i1", "c"))) == [((1, 2), None)]
    assert kernels(graph(both, ("a", "i1"))) == [((1, 2), None)]
    assert kernels(graph([*both, floats("b", "c")], ("i1", "c"))) == [((0, 1), None)]
    # Two kernels read it: it is part of neither.
    two = [load("i0", "a"), floats("a", "b"), node("Mul", "a", "b", to="c"), store("c", "i1")]
    assert kernels(graph(two)) == [((2, 3), None)]


def test_what_is_of_floats_alone_joins_as_the_device_declares_or_its_figures_say() -> None:
    nodes = [
        node("Conv", "x", "w", to="c"), node("Relu", "c", to="d"), node("Tan", "d", to="e"),
        load("i0", "a"), floats("a", "b"),
    ]  # fmt: skip
    found = graph(nodes, ("e", "b"), w=(4, 4, 1, 1))
    assert kernels(found) == [((0, 1), None), ((3, 4), None)]
    assert kernels(found, no=(1,)) == [((3, 4), None)]
    assert kernels(found, composites=((1, 2),)) == [((3, 4), None)]
    assert kernels(found, spec=replace(SPEC, fusions=())) == [((3, 4), None)]
    by_figures = replace(SPEC, fusions=(), kernels={"float32": kernel_figures()})
    assert kernels(found, spec=by_figures) == [((0, 1, 2), None), ((3, 4), None)]
    assert kernels(found, no=(2,), spec=by_figures) == [((0, 1), None), ((3, 4), None)]


def test_composites_are_left_as_they_are() -> None:
    nodes = [load("i0", "a"), floats("a", "b"), floats("b", "c"), store("c", "i1")]
    found = graph(nodes)
    assert kernels(found) == [((0, 1), None), ((2, 3), None)]
    assert kernels(found, composites=((1, 2),)) == []
    assert kernels(found, composites=((0, 1),)) == [((2, 3), None)]


def moved(kernel: Kernel) -> dict[str, dict[str, int]]:
    """Bytes of a kernel by what they are and by element type."""
    found: dict[str, dict[str, int]] = {"read": {}, "write": {}, "weight": {}}
    for work in kernel.works:
        for kind, nbytes in (("read", work.read_bytes), ("write", work.write_bytes)):
            if nbytes:
                found[kind][work.dtype] = found[kind].get(work.dtype, 0) + nbytes
        if work.weight_bytes:
            found["weight"]["all"] = found["weight"].get("all", 0) + work.weight_bytes
            found["weight"]["int"] = found["weight"].get("int", 0) + work.integer_bytes
    return found


def kernel_of(found: Graph, *nodes: int, dtype: str | None = None) -> Kernel:
    return quantized_kernel(Quantized(found, SPEC), graph_work(found), nodes, dtype)


def flops(kernel: Kernel) -> int:
    return sum(work.flops for work in kernel.works)


def test_a_kernel_reads_and_writes_integers_where_it_converts_and_floats_elsewhere() -> None:
    nodes = [load("i0", "a"), floats("a", "b"), store("b", "i1")]
    found = graph(nodes)
    alone = node_work(found, found.nodes[1])
    for members, reads, writes in (
        ((0, 1, 2), {"int8": SIZE}, {"int8": SIZE}),
        ((0, 1), {"int8": SIZE}, {"float32": 4 * SIZE}),
        ((1, 2), {"int8": SIZE}, {"int8": SIZE}),
        ((1,), {"int8": SIZE}, {"float32": 4 * SIZE}),
    ):
        kernel = kernel_of(found, *members)
        assert moved(kernel)["read"] == reads, members
        assert moved(kernel)["write"] == writes, members
        assert flops(kernel) == alone.flops
        assert sum(work.exp_elements for work in kernel.works) == alone.exp_elements
    # Who reads it decides what leaves: integers, floats or both.
    both = graph([*nodes, node("Tan", "b", to="t")], ("i1", "t"))
    assert moved(kernel_of(both, 0, 1, 2))["write"] == {"int8": SIZE, "float32": 4 * SIZE}
    out = graph(nodes, ("b", "i1"))
    assert moved(kernel_of(out, 0, 1, 2))["write"] == {"int8": SIZE, "float32": 4 * SIZE}
    unread = graph(nodes, ("i1",))
    assert moved(kernel_of(unread, 0, 1, 2))["write"] == {"int8": SIZE}


def test_what_goes_from_member_to_member_is_not_moved() -> None:
    nodes = [floats("x", "a"), node("Add", "a", "r", to="b"), store("b", "i1")]
    kernel = kernel_of(graph(nodes), 0, 1, 2)
    assert moved(kernel)["read"] == {"float32": 2 * 4 * SIZE}
    assert moved(kernel)["write"] == {"int8": SIZE}


def test_what_a_node_touches_of_its_input_it_touches_of_the_integers() -> None:
    nodes = [load("i0", "t"), node("Gather", "t", "w", to="y", axis=0)]
    sizes = {"i0": (100, 8), "t": (100, 8), "w": (3,), "y": (3, 8)}
    found = graph_of(
        nodes, sizes | {"s": (), "z": ()}, constants=("s", "z", "w"),
        dtypes={"i0": "int8", "z": "int8", "w": "int64"},
    )  # fmt: skip
    work = graph_work(found)[1]
    assert work.read_bytes == 3 * 8 * 4
    kernel = kernel_of(found, 0, 1)
    assert moved(kernel)["read"] == {"int8": 3 * 8}
    assert moved(kernel)["write"] == {"float32": 3 * 8 * 4}


def test_arithmetic_in_integers_is_of_their_type_and_rounds_what_leaves() -> None:
    nodes = [load("i0", "a"), node("Relu", "a", to="b"), node("Add", "b", "r", to="c"),
             store("c", "i1")]  # fmt: skip
    found = graph(nodes)
    works = graph_work(found)
    plain, whole = kernel_of(found, 0, 1, 2, 3), kernel_of(found, 0, 1, 2, 3, dtype="int16")
    assert flops(plain) == works[1].flops + works[2].flops
    # Both scale their operands; the last one rounds.
    assert flops(whole) == flops(plain) + (2 * SCALE + ROUND) * SIZE
    assert {work.dtype for work in whole.works if work.flops} == {"int16"}
    assert {work.dtype for work in plain.works if work.flops} == {"float32"}
    assert moved(whole) == moved(plain)


def test_floats_among_integers_are_converted_as_they_come_and_go() -> None:
    """But constants, integers, and what never leaves; every value once."""
    nodes = [
        ("Split", ["x"], ["a", "b"], {}), node("Add", "a", "b", to="c"),
        node("Mul", "c", "c", to="d"), node("Add", "d", "w", to="e"),
        node("GatherElements", "e", "i0", to="f"),
    ]  # fmt: skip
    half = (1, 2, 3, 3)
    found = graph(nodes, **dict.fromkeys(("a", "b", "c", "d", "w", "e", "f", "i0"), half))
    works = graph_work(found)
    all_made = SCALE * SIZE + ROUND * (6 * SIZE // 2)
    assert around_floats(found, found.nodes, works) == (
        Work(all_made, 0, 0, 0, "quantize", "float32", True),
    )
    (inner,) = around_floats(found, found.nodes, works, ("a", "b", "c", "d", "e"))
    assert inner.flops == SCALE * SIZE + ROUND * SIZE // 2
    (last,) = around_floats(found, found.nodes[4:], works[4:])
    assert last.flops == (SCALE + ROUND) * SIZE // 2
    nothing = Work(0, 0, 0, 0, "other", "float16", True)
    assert around_floats(found, found.nodes[1:2], (nothing,)) == ()
    for busy in (Work(1, 0, 0, 0, "other", "float16", True),
                 Work(0, 1, 0, 0, "other", "float16", True),
                 Work(0, 0, 1, 0, "other", "float16", True)):  # fmt: skip
        (made,) = around_floats(found, found.nodes[1:2], (busy,))
        assert (made.flops, made.dtype) == ((2 * SCALE + ROUND) * SIZE // 2, "float16")
    ids = graph([node("Add", "i0", "i1", to="i2")])
    assert around_floats(ids, ids.nodes, graph_work(ids)) == ()
