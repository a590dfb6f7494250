"""Kernels without a name of the model's: what they ran follows from what ran around them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hetsim.graph.loading import model_of
from hetsim.graph.model import Model
from matched_kernels import SHAPE, matched, model
from onnx_builders import make_model, op, value

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


def products() -> Model:
    """A product of weights, one of two values, and functions beside them."""
    return model(
        op("Exp", "x", "a", "a"), op("MatMul", "a x", "m", "m"), op("Sin", "a", "z", "z"),
        op("Add", "m z", "y", "y"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "nodes"),
    [("FusedMatMul", {"m"}), ("Gemm", {"m"}), ("FusedConv", set()), ("Attention", {"m"}),
     ("Sin", {"z"}), ("BiasGelu", {"z"}), ("LSTM", set())],
)  # fmt: skip
def test_a_kernel_of_a_product_is_none_of_functions_alone(kind: str, nodes: set[str]) -> None:
    """One that says no product is one of what is light; attention is products, too."""
    assert matched(products(), "a", ("fused", kind), "y").nodes[1] == nodes


def test_a_kernel_is_what_has_its_op_type_first() -> None:
    made = model(
        op("Exp", "x", "a", "a"), op("Sin", "a", "b", "b"), op("Cos", "x", "c", "c"),
        op("MaxPool", "x", "p", "p", kernel_shape=[1, 1]), op("Add", "b c", "d", "d"),
        op("Mul", "d p", "y", "y"),
    )  # fmt: skip
    for kind, nodes in (("Sin", {"b"}), ("Cos", {"c"}), ("MaxPool", {"p"}), ("Tanh", {"b"})):
        assert matched(made, "a", ("fused", kind), "d", "y").nodes[1] == nodes


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


def test_conversions_of_a_gap_are_taken_before_its_other_kernels() -> None:
    found = matched(
        shaped(), "a", "h", ("fused", "Gelu"), ("moved", "Transpose", {"elements": 36}), "y"
    )
    assert found.nodes[2:4] == [{"u"}, {"t"}]


def test_what_is_folded_has_no_place() -> None:
    nodes = [
        op("Exp", "s", "e", "folded"), op("Sin", "x", "a", "a"), op("Mul", "a e", "m", "m"),
        op("Cos", "m", "y", "y"),
    ]  # fmt: skip
    made = model_of(
        make_model(nodes, [value("x", SHAPE)], [value("y", SHAPE)], {"s": np.float32(2.0)}),
        canonical="basic",
    )
    found = matched(made, "a", ("folded", "Exp"), "y")
    assert (found.nodes[1], found.placed, found.folded) == (set(), set(), {1})
