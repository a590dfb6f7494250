"""Which nodes a runtime does in blocks of channels, by what it asks of each: case by case."""

from __future__ import annotations

from typing import Any

import pytest

from hetsim.cost.kernels.form import COLUMN, FORMS, row_of
from hetsim.cost.kernels.layouts import copies_of, copy_work
from hetsim.graph.graph import Graph
from kernel_graphs import graph_of

BLOCK = 16
IMAGE = (1, 32, 6, 6)
ALL = 32 * 36
"""Elements of an image."""

Nodes = list[tuple[str, list[str], list[str], dict[str, Any]]]


def graph(nodes: Nodes, *, outputs: tuple[str, ...] = (), **shapes: tuple[int, ...]) -> Graph:
    """Images, but for `shapes`; what begins with w is a constant."""
    names = dict.fromkeys(name for _, reads, writes, _ in nodes for name in (*reads, *writes))
    given = {name: IMAGE for name in names if name} | {"w": (32, 32, 1, 1)} | shapes
    constants = tuple(name for name in given if name.startswith("w"))
    return graph_of(nodes, given, constants=constants, outputs=outputs or None)


def conv(source: str = "x", result: str = "c", weight: str = "w", **attributes: Any) -> Any:
    return ("Conv", [source, weight], [result], attributes)


def then(op: str, *reads: str, result: str = "y", **attributes: Any) -> Any:
    return (op, list(reads), [result], attributes)


def copied(found: Graph) -> list[tuple[int, int]]:
    return [(copy.node, copy.elements) for copy in copies_of(found, BLOCK)]


IN, LAST = (0, ALL), (1, ALL)
"""Copies of an image into blocks for node 0, and of what node 1 makes out of them."""


@pytest.mark.parametrize(
    "after",
    [
        then("Relu", "c"), then("Sigmoid", "c"), then("Tanh", "c"), then("LeakyRelu", "c"),
        then("Clip", "c"), then("MaxPool", "c"), then("AveragePool", "c"), then("Resize", "c"),
        then("Upsample", "c"), then("GlobalMaxPool", "c"), then("GlobalAveragePool", "c"),
        then("BatchNormalization", "c", "w1"), then("Mul", "c", "w4"), then("Mul", "c", "w3"),
        then("Concat", "c", axis=1), conv("c", "y"),
    ],
    ids=lambda node: f"{node[0]} {len(node[1])} {node[1][-1]}",
)  # fmt: skip
def test_what_has_a_kernel_for_blocks_keeps_them(after: Any) -> None:
    shapes = {"w1": (32,), "w3": (32, 1, 1), "w4": (1, 32, 1, 1)}
    assert copied(graph([conv(), after], **shapes)) == [IN, LAST]


@pytest.mark.parametrize(
    "after",
    [
        then("Erf", "c"), then("Add", "c", "w4"), then("Mul", "c", "w0"), then("Mul", "c", "w1"),
        then("Mul", "c", "w2"), then("Mul", "c", "w6"), then("Add", "c", "p"),
        then("HardSigmoid", "c"), then("Concat", "c", axis=2), then("Concat", "c"),
        then("Softmax", "c"), then("Mul", "c", "w5"), then("Sum", "c"),
    ],
    ids=lambda node: f"{node[0]} {len(node[1])} {node[1][-1]}",
)  # fmt: skip
def test_what_has_none_reads_a_copy(after: Any) -> None:
    """Scales that are not one a channel, sums with constants, functions without a kernel."""
    shapes = {
        "w0": (), "w1": (1, 1), "w2": (6, 6), "w4": (1, 32, 1, 1), "w5": (1, 16, 1, 1),
        "w6": (32, 6, 1),
    }  # fmt: skip
    found = copied(graph([conv(), after], **shapes))
    assert found == [IN, (0, ALL)]


@pytest.mark.parametrize(
    ("op", "kept"),
    [("MaxPool", True), ("AveragePool", True), ("GlobalMaxPool", False),
     ("GlobalAveragePool", False), ("Relu", False), ("Resize", False), ("Concat", False),
     ("BatchNormalization", False)],
)  # fmt: skip
def test_pools_of_windows_alone_begin_without_a_convolution(op: str, kept: bool) -> None:
    assert copied(graph([then(op, "x")])) == ([IN, (0, ALL)] if kept else [])
    # Of channels that fill no block none does.
    odd = (1, 24, 6, 6)
    assert copied(graph([then(op, "x")], x=odd, y=odd)) == []


@pytest.mark.parametrize(
    ("weights", "attributes", "blocks"),
    [
        ((32, 32, 1, 1), {}, True),
        ((32, 36, 1, 1), {}, True),
        ((32, 34, 1, 1), {}, False),
        ((30, 32, 1, 1), {}, True),
        ((32, 16, 1, 1), {"group": 2}, True),
        ((16, 16, 1, 1), {"group": 2}, False),
        ((64, 8, 1, 1), {"group": 4}, False),
        ((64, 32, 1, 1), {"group": 2}, True),
        ((48, 16, 1, 1), {"group": 2}, False),
        ((36, 1, 1, 1), {"group": 36}, True),
        ((34, 1, 1, 1), {"group": 34}, False),
        ((64, 1, 1, 1), {"group": 32}, False),
        ((32, 32, 1, 1), {"group": "odd"}, True),
    ],
)
def test_convolutions_in_blocks_by_their_channels(
    weights: tuple[int, ...], attributes: dict[str, Any], blocks: bool
) -> None:
    """Groups of one channel, or of whole blocks; a dense one whose channels are aligned."""
    group = attributes.get("group", 1)
    channels = weights[1] * (group if isinstance(group, int) else 1)
    shapes = {"x": (1, channels, 6, 6), "c": (1, weights[0], 6, 6), "w": weights}
    # Into whole blocks; what leaves them is as large as it is.
    filled = -(-channels // BLOCK) * BLOCK * 36
    expected = [(0, filled), (0, weights[0] * 36)] if blocks else []
    assert copied(graph([conv(**attributes)], **shapes)) == expected


def test_weights_of_another_type_keep_a_convolution_plain() -> None:
    shapes = {"x": IMAGE, "w": (32, 32, 1, 1), "c": IMAGE}
    for dtype, blocks in (("float32", True), ("float16", False)):
        made = graph_of([conv()], shapes, constants=("w",), dtypes={"w": dtype})
        assert bool(copies_of(made, BLOCK)) == blocks


def test_an_image_of_few_channels_is_read_in_plain_order_also_out_of_blocks() -> None:
    narrow = (1, 8, 6, 6)
    nodes = [conv("x", "a", "w1"), conv("a", "y", "w2")]
    found = copied(graph(nodes, w1=(8, 32, 1, 1), a=narrow, w2=(32, 8, 1, 1)))
    # The first makes blocks, which the second cannot read.
    assert found == [(0, ALL), (0, 8 * 36), (1, ALL)]


def test_functions_within_a_convolution_are_so_where_nothing_else_reads_it() -> None:
    for op in ("LeakyRelu", "Clip"):
        nodes = [conv(), then(op, "c", result="l"), then("Relu", "c")]
        assert copied(graph(nodes, outputs=("l", "y"))) == [IN, (0, ALL), (2, ALL)]
        # Of a sum it is none.
        nodes = [conv(), conv("x", "d"), then("Add", "c", "d", result="s"), then(op, "s")]
        assert copied(graph(nodes)) == [IN, (2, ALL)]


@pytest.mark.parametrize("of_sum", [False, True])
def test_a_gate_is_within_its_convolution_whole_or_not_at_all(of_sum: bool) -> None:
    nodes: Nodes = [conv()]
    source, last = "c", 0
    if of_sum:
        nodes = [conv(), conv("x", "d"), then("Add", "c", "d", result="s")]
        source, last = "s", 2
    gate = [then("HardSigmoid", source, result="h"), then("Mul", source, "h")]
    assert copied(graph([*nodes, *gate])) == [IN, (last + 2, ALL)]
    out = (last, ALL)
    # Another product, another reader, and no gate.
    other = [then("HardSigmoid", source, result="h"), then("Mul", "x", "h")]
    assert copied(graph([*nodes, *other])) == [IN, out]
    more = [*gate, then("Erf", source, result="z")]
    assert copied(graph([*nodes, *more], outputs=("y", "z"))) == [IN, out]
    alone = [then("HardSigmoid", source)]
    assert copied(graph([*nodes, *alone])) == [IN, out]


@pytest.mark.parametrize("op", ["Add", "Sum", "Mul"])
def test_sums_are_of_images_of_one_shape(op: str) -> None:
    nodes = [conv(), conv("p", "d"), then(op, "c", "d")]
    assert copied(graph(nodes)) == [IN, (1, ALL), (2, ALL)]
    one = (1, 32, 1, 1)
    assert copied(graph(nodes, p=one, d=one)) == [IN, (1, 32), (0, ALL), (1, 32)]


def test_joined_channels_fill_whole_blocks() -> None:
    narrow = (1, 24, 6, 6)
    nodes = [conv(), conv("x", "d", "w2"), then("Concat", "c", "d", axis=1)]
    found = copied(graph(nodes, w2=(24, 32, 1, 1), d=narrow, y=(1, 56, 6, 6)))
    assert found == [IN, (0, ALL), (1, 24 * 36)]


def test_what_has_no_image_or_several_results_is_plain() -> None:
    flat = (1, 32, 6)
    shapes = {"x": flat, "c": flat, "w": (32, 32, 1), "y": flat}
    assert copied(graph([conv()], **shapes)) == []
    assert copied(graph([then("MaxPool", "x")], **shapes)) == []
    two = [("MaxPool", ["x"], ["y", "z"], {})]
    assert copied(graph(two, outputs=("y", "z"))) == []
    assert copied(graph([("Relu", ["w"], ["y"], {})])) == []


def test_a_value_that_leaves_the_graph_is_copied_out_once() -> None:
    nodes = [conv(), then("Relu", "c"), then("Erf", "c", result="z")]
    assert copied(graph(nodes, outputs=("c", "y", "z"))) == [IN, (0, ALL), LAST]


def test_a_copy_reads_and_writes_all_of_it_and_is_known_by_its_block() -> None:
    work = copy_work(1000, 8)
    row = row_of((work,), lambda _: 1.0, 1.0)
    moved = [row[COLUMN[name]] for name in ("read_bytes", "write_bytes", "weight_bytes", "flops")]
    assert moved == [4000, 4000, 0, 0]
    assert (FORMS[int(row[COLUMN["form"]])], row[COLUMN["groups"]]) == ("movement", 8)
    assert all(row[COLUMN[name]] == 1 for name in ("rows", "columns", "depth", "positions"))
