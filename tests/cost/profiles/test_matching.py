"""Kernels matched to nodes: by name with what they take along, inside others, and conversions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hetsim.graph.loading import model_of
from matched_kernels import SHAPE, conv, matched, model
from onnx_builders import make_model, op, value

BEHIND = model(
    op("Exp", "x", "a", "first"), conv("a", "c", "conv"), op("Relu", "c", "r", "relu"),
    op("Sin", "r", "y", "last"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "nodes"),
    [("FusedConv", {"conv", "relu"}), ("Conv2d", {"conv", "relu"}), ("Relu", {"relu"}),
     ("", {"relu"}), ("FusedMatMul", {"relu"})],
)  # fmt: skip
def test_a_kernel_named_after_a_function_ran_the_convolution_that_it_says(
    kind: str, nodes: set[str]
) -> None:
    assert matched(BEHIND, "first", ("relu", kind), "last").nodes[1] == nodes


def test_a_dense_node_is_taken_along_where_it_is_free_and_feeds_that_kernel_alone() -> None:
    ran = ("relu", "FusedConv")
    # It has a kernel of its own, or ran elsewhere.
    assert matched(BEHIND, "first", "conv", ran, "last").nodes[2] == {"relu"}
    assert matched(BEHIND, "conv", ran, "last", own="011").nodes[1] == {"relu"}
    # Another node reads it.
    nodes = [
        conv("x", "c", "conv"), op("Relu", "c", "r", "relu"), op("Sin", "c", "z", "sine"),
        op("Add", "r z", "y", "add"),
    ]  # fmt: skip
    found = matched(model(*nodes), ran, ordered=False)
    assert found.nodes == [{"relu"}]
    both = matched(model(*nodes), ("add", "FusedConv"), ordered=False)
    assert both.nodes == [{"add"}]
    # A kernel that names its dense node takes none before it.
    two = model(conv("x", "a", "one"), conv("a", "b", "two"), op("Relu", "b", "y", "relu"))
    assert matched(two, ("two + relu", "Conv"), ordered=False).nodes == [{"two", "relu"}]
    assert matched(two, ran, ordered=False).nodes == [{"two", "relu"}]


@pytest.mark.parametrize("between", range(6))
def test_a_dense_node_is_looked_for_four_steps_back(between: int) -> None:
    nodes = [conv("x", "v0", "conv")]
    nodes += [op("Sin", f"v{k}", f"v{k + 1}", f"s{k}") for k in range(between)]
    nodes.append(op("Relu", f"v{between}", "y", "relu"))
    (found,) = matched(model(*nodes), ("relu", "FusedConv"), ordered=False).nodes
    taken = {"conv", "relu", *(f"s{k}" for k in range(between))}
    assert found == (taken if between < 4 else {"relu"})


def test_only_what_is_light_lies_between() -> None:
    pool = op("MaxPool", "c", "p", "pool", kernel_shape=[1, 1])
    made = model(conv("x", "c", "conv"), pool, op("Relu", "p", "y", "relu"))
    assert matched(made, ("relu", "FusedConv"), ordered=False).nodes == [{"relu"}]


GATE = (
    op("Exp", "x", "a", "first"), op("Mul", "a s", "m", "scale"), op("Sigmoid", "m", "g", "open"),
    op("Mul", "a g", "p", "gate"), op("Sin", "p", "y", "last"),
)  # fmt: skip


def test_a_gate_is_its_product_with_what_opens_it() -> None:
    made = model(*GATE)
    quick = ("gate", "QuickGelu")
    assert matched(made, "first", quick, "last").nodes[1] == {"scale", "open", "gate"}
    # Under another name it is the product alone: the rest runs within what made it.
    found = matched(made, "first", ("gate", "Mul"), "last")
    assert found.nodes == [{"first", "scale", "open"}, {"gate"}, {"last"}]
    assert found.inside == {"scale", "open"}
    # What another kernel ran, or another node reads, is no part of it.
    assert matched(made, "first", "open", quick, "last").nodes[2] == {"gate"}
    assert matched(made, "scale", "first", quick, "last").nodes[2] == {"open", "gate"}
    read = model(*GATE, op("Cos", "g", "z", "other"), outputs="y z")
    assert matched(read, "first", quick, "last", "other").nodes[1] == {"gate"}
    # A function that opens no gate stays with what it is of.
    tanh = [op("Tanh", "m", "g", "open") if node.name == "open" else node for node in GATE]
    assert matched(model(*tanh), "first", quick, "last").nodes[1] == {"gate"}


LINE = model(
    op("Exp", "x", "a", "a"), op("Softmax", "a", "b", "b"), op("Sin", "b", "c", "c"),
    op("MaxPool", "c", "d", "d", kernel_shape=[1, 1]), op("Cos", "d", "e", "e"),
    op("Tanh", "e", "y", "f"),
)  # fmt: skip


def test_light_nodes_between_measured_ones_ran_within_what_makes_what_they_read() -> None:
    found = matched(LINE, "a", "d", "f", ordered=False)
    assert found.nodes == [{"a", "b", "c"}, {"d", "e"}, {"f"}]
    assert found.inside == {"b", "c", "e"}
    assert found.placed == set()
    # A pool is none that others take in, nor what lies beside it without another measured one.
    found = matched(LINE, "a", "c", "f", ordered=False)
    assert (found.nodes, found.inside) == ([{"a", "b"}, {"c"}, {"f"}], {"b"})
    # Neighbours that ran elsewhere, or not at all, tell nothing.
    found = matched(LINE, "a", "d", "f", own="101", ordered=False)
    assert (found.nodes, found.inside) == ([{"a"}, set(), {"f"}], set())


def test_at_the_ends_only_functions_of_single_elements_ran_inside() -> None:
    first, last = matched(LINE, "b", "c", "d", "e"), matched(LINE, "a", "b", "c", "d", "e")
    assert (first.nodes[0], first.inside) == ({"a", "b"}, {"a", "f"})
    assert (last.nodes[-1], last.inside) == ({"e", "f"}, {"f"})
    for kind in ("Softmax", "ReduceMax"):
        more: dict[str, Any] = {"keepdims": 1} if kind == "ReduceMax" else {}
        begins = model(op(kind, "x", "a", "a", **more), op("Sin", "a", "y", "b"))
        assert matched(begins, "b").nodes == [{"b"}]
        ends = model(op("Sin", "x", "a", "a"), op(kind, "a", "y", "b", **more))
        assert matched(ends, "a").nodes == [{"a"}]
    # One that leaves the graph in the middle is an end, too.
    out = model(
        op("Exp", "x", "a", "a"), op("Softmax", "a", "b", "b"), op("Sin", "b", "y", "c"),
        outputs="b y",
    )  # fmt: skip
    assert matched(out, "a", "c").nodes == [{"a"}, {"c"}]
    moves = model(op("Transpose", "x", "a", "a", perm=[0, 1, 3, 2]), op("Sin", "a", "y", "b"))
    assert matched(moves, "b").nodes == [{"a", "b"}]


def test_of_several_makers_the_last_and_of_several_readers_the_first_takes_it_in() -> None:
    made = model(
        op("Exp", "x", "a", "a"), op("Sin", "x", "b", "b"), op("Add", "a b", "c", "c"),
        op("Cos", "c", "d", "d"), op("Tanh", "c", "e", "e"), op("Mul", "d e", "y", "f"),
    )  # fmt: skip
    assert matched(made, "a", "b", "d", "e", "f").nodes[1] == {"b", "c"}
    assert matched(made, "b", "a", "d", "e", "f").nodes[1] == {"a", "c"}
    begin = model(
        op("Exp", "x", "a", "a"), op("Sin", "a", "b", "b"), op("Cos", "a", "c", "c"),
        op("Add", "b c", "y", "d"),
    )  # fmt: skip
    assert matched(begin, "c", "b", "d").nodes[0] == {"a", "c"}


REORDER = ("reorder_1", "ReorderInput")


def test_a_conversion_counts_to_what_runs_next_and_the_last_to_the_one_before() -> None:
    found = matched(BEHIND, REORDER, "first", ("x", "Cast"), "conv", "relu", "last", REORDER)
    assert found.nodes == [
        {"first"}, {"first"}, {"conv"}, {"conv"}, {"relu"}, {"last"}, {"last"},
    ]  # fmt: skip
    # Between those of another unit it is none of its own; nothing is before or behind.
    found = matched(BEHIND, "first", REORDER, "conv", "relu", "last", own="10011")
    assert found.nodes[1] == set()
    found = matched(BEHIND, "first", REORDER, "conv", "relu", "last", own="11001")
    assert found.nodes[1] == {"last"}
    assert matched(BEHIND, "first", REORDER, "conv", own="110").nodes[1] == {"first"}
    assert matched(BEHIND, REORDER, "mystery").nodes == [set(), set()]
    # Where the order means nothing it stays alone, as does what is no conversion.
    assert matched(BEHIND, REORDER, "first", ordered=False).nodes[0] == set()
    assert matched(BEHIND, ("reorder_1", "Mystery"), "first").nodes[0] == set()


def test_names_that_are_two_nodes_of_the_file_count_once_each() -> None:
    first, again = ("conv", "Conv", {"index": 1}), ("conv", "Conv", {"index": 2})
    found = matched(BEHIND, "first", first, again, "relu", "last", ordered=False)
    assert found.nodes[1:3] == [{"conv"}, set()]
    # By the same name without a number it ran twice.
    found = matched(BEHIND, "first", "conv", "conv", "relu", "last")
    assert found.nodes[1:3] == [{"conv"}, {"conv"}]
    found = matched(BEHIND, "first", "conv", first, "relu", "last", ordered=False)
    assert found.nodes[1:3] == [{"conv"}, {"conv"}]


def test_a_range_is_what_no_other_kernel_has() -> None:
    whole = "{ForeignNode[first...last]}"
    assert matched(BEHIND, whole).nodes == [{"first", "conv", "relu", "last"}]
    assert matched(BEHIND, whole, "conv").nodes == [{"first", "relu", "last"}, {"conv"}]
    found = matched(BEHIND, "{ForeignNode[conv...relu]}", "first", "last", ordered=False)
    assert found.nodes[0] == {"conv", "relu"}
    found = matched(BEHIND, whole, "conv", own="10", ordered=False)
    assert found.nodes[0] == {"first", "relu", "last"}


def test_nodes_that_are_constants_here_are_folded() -> None:
    nodes = [
        op("Exp", "s", "e", "folded"), op("Mul", "x e", "m", "mul"), op("Sin", "m", "y", "last"),
    ]  # fmt: skip
    made = model_of(
        make_model(nodes, [value("x", SHAPE)], [value("y", SHAPE)], {"s": np.float32(2.0)}),
        canonical="basic",
    )
    found = matched(made, "folded", "mul", "last")
    assert (found.nodes, found.folded) == ([set(), {"mul"}, {"last"}], {0})
    assert matched(BEHIND, "conv", "nothing").folded == set()
