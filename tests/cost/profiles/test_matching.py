"""Kernels matched to nodes: by name, by place, inside others, and conversions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hetsim.graph.loading import model_of
from hetsim.graph.model import Model
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


BRANCHES = model(
    op("Exp", "x", "a", "a"), op("Sin", "a", "b1", "b1"), op("Softmax", "b1", "b2", "b2"),
    op("Cos", "x", "c1", "c1"), op("Softmax", "c1", "c2", "c2"), op("Add", "b2 c2", "y", "y"),
)  # fmt: skip
"""Two ways to a sum; a softmax leads each of them out."""


def test_an_unnamed_kernel_runs_what_can_run_between_its_neighbours() -> None:
    one = ("fused_op", "Softmax")
    found = matched(BRANCHES, "a", one, "c1", "c2", "y")
    assert (found.nodes[1], found.placed) == ({"b1", "b2"}, {1})
    # Before what it reads it cannot be, nor behind what reads it.
    found = matched(BRANCHES, one, "a", "c1", "c2", "y")
    assert found.nodes[0] == set()
    found = matched(BRANCHES, "a", "c1", "c2", "y", one)
    assert (found.nodes[4], found.placed) == (set(), set())
    # What another unit ran, or nothing is known of, is none.
    assert matched(BRANCHES, "a", one, "c1", "c2", "y", own="10111").placed == set()
    assert matched(BRANCHES, "a", ("fused_op", ""), "c1", "c2", "y").placed == set()
    assert matched(BRANCHES, "a", one, "c1", "c2", "y", ordered=False).placed == set()


def test_of_several_parts_it_is_the_one_that_became_ready_last() -> None:
    one = ("fused_op", "Softmax")
    assert matched(BRANCHES, "a", "c1", one, "y").nodes[2] == {"c2"}
    assert matched(BRANCHES, "c1", "a", one, "y").nodes[2] == {"b1", "b2"}
    two = matched(BRANCHES, "a", "c1", one, ("other_op", "Softmax"), "y")
    assert (two.nodes[2], two.nodes[3]) == ({"c2"}, {"b1", "b2"})
    assert two.placed == {2, 3}


def test_places_mean_something_where_half_of_the_named_kernels_are_of_this_model() -> None:
    one = ("fused_op", "Softmax")
    for others, sure in ((2, True), (3, True), (4, False)):
        more = [f"other{k}" for k in range(others)]
        found = matched(BRANCHES, "a", one, "c1", "c2", "y", *more)
        # Of the five with this one four are known.
        assert (found.placed == {1}) == (1 + others <= 4) == sure
    # A compiled part is of what it stands for whatever else is there.
    compiled = ("__myl_Something", "")
    found = matched(BRANCHES, "a", compiled, "c1", "c2", "y", *(f"other{k}" for k in range(9)))
    assert (found.nodes[1], found.placed) == ({"b1", "b2"}, {1})


def shaped() -> Model:
    """Two moves of one kind between functions, of unlike sizes."""
    nodes = [
        op("Exp", "x", "a", "a"), op("ReduceMax", "a", "h", "h", keepdims=1),
        op("Transpose", "a", "t", "t", perm=[0, 1, 3, 2]),
        op("Transpose", "h", "u", "u", perm=[0, 1, 3, 2]), op("Add", "t u", "y", "y"),
    ]  # fmt: skip
    return model_of(make_model(nodes, [value("x", SHAPE)], [value("y", SHAPE)]), canonical="none")


def test_a_conversion_is_a_node_of_its_type_and_size() -> None:
    def places(**said: Any) -> list[set[str]]:
        return matched(shaped(), "a", "h", ("moved", "Transpose", said), "y").nodes

    assert places(elements=36)[2] == {"t"}
    assert places(elements=1)[2] == {"u"}
    # Without a size it is the one that became ready last; of another size it is none.
    assert places()[2] == {"u"}
    other = places(elements=7)
    assert other == [{"a", "t"}, {"h", "u"}, {"y"}, {"y"}]
    two = matched(
        shaped(), "a", "h", ("m1", "Transpose"), ("m2", "Transpose"), ("m3", "Transpose"), "y"
    )
    assert [two.nodes[k] for k in (2, 3)] == [{"u"}, {"t"}]
    assert two.placed == {2, 3}
    assert matched(shaped(), "a", "h", ("moved", "Reshape"), "y").placed == set()
