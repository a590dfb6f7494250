"""What joins which kernel, by the form of the kernel and what lies between, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from hetsim.cost.kernels.fusion import epilogues, joints
from hetsim.graph.graph import Graph
from hetsim.graph.work import graph_work
from kernel_graphs import graph_like, node

SHAPE = (1, 4, 3, 3)
Nodes = list[tuple[str, list[str], list[str], dict[str, Any]]]
Sets = tuple[tuple[int, ...], ...]


def graph(nodes: Nodes, *, outputs: tuple[str, ...] = (), **shapes: tuple[int, ...]) -> Graph:
    return graph_like(nodes, SHAPE, outputs=outputs, **shapes)


def sets(found: Graph, *, kinds: Any = None, no: tuple[int, ...] = (), **joins: set[str]) -> Sets:
    """The kernels of several nodes; `no` are refused, `joins` is what joins by form, if any."""
    supported = [v not in no for v in range(len(found.nodes))]
    said = {form: frozenset(words) for form, words in joins.items()} or None
    return epilogues(found, graph_work(found), supported, kinds, said)


CONV = node("Conv", "x", "w", to="c")
WEIGHT = {"w": (4, 4, 1, 1)}
MAKERS: dict[str, tuple[Any, bool, bool]] = {
    "conv": (CONV, True, True),
    "depthwise": (node("Conv", "x", "wd", to="c", group=4), True, True),
    "transposed": (node("ConvTranspose", "x", "w", to="c"), True, True),
    "product": (node("MatMul", "x", "r", to="c"), True, True),
    "function": (node("Erf", "x", to="c"), True, True),
    "softmax": (node("Softmax", "x", to="c"), True, False),
    "norm": (node("InstanceNormalization", "x", "w1", "w2", to="c"), True, False),
    "pool": (node("MaxPool", "x", to="c", kernel_shape=(1, 1)), True, False),
    "slice": (node("Slice", "x", "w1", "w2", to="c"), True, False),
    "concat": (node("Concat", "x", to="c", axis=1), True, False),
    "transpose": (node("Transpose", "x", to="c", perm=(0, 1, 3, 2)), True, False),
    "resize": (node("Resize", "x", "", "w1", to="c"), False, False),
    "gather": (node("GatherElements", "x", "r", to="c"), False, False),
    "mean": (node("ReduceMean", "x", to="c"), False, False),
}


@pytest.mark.parametrize("name", MAKERS)
def test_which_kernels_take_in_functions_and_sums(name: str) -> None:
    maker, functions, sums = MAKERS[name]
    shapes = WEIGHT | {"wd": (4, 1, 1, 1), "w1": (4,), "w2": (4,), "r": SHAPE, "": ()}
    afters = [
        (node("Relu", "c"), functions), (node("Add", "c", "s"), sums),
        (node("Mul", "s", "c"), sums), (node("Add", "c", "w1"), functions),
    ]  # fmt: skip
    for after, joins in afters:
        found = graph([maker, after], **shapes)
        assert sets(found) == (((0, 1),) if joins else ()), after


def test_only_what_one_reader_reads_and_keeps_its_size_is_joined() -> None:
    twice = [CONV, node("Relu", "c"), node("Softmax", "c", to="z")]
    assert sets(graph(twice, outputs=("y", "z"), **WEIGHT)) == ()
    given_out = [CONV, node("Relu", "c")]
    assert sets(graph(given_out, outputs=("c", "y"), **WEIGHT)) == ()
    larger = graph([CONV, node("Add", "c", "r")], **WEIGHT, y=(2, 4, 3, 3), r=(2, 4, 3, 3))
    assert sets(larger) == ()
    # Of what makes several values none is taken.
    two = [("MaxPool", ["x"], ["c", "i"], {"kernel_shape": (1, 1)}), node("Relu", "c")]
    assert sets(graph(two)) == ()
    # What the last member does not make is not within reach.
    behind = [CONV, node("Relu", "c", to="a"), node("Erf", "a", to="b"), node("Add", "b", "x")]
    assert sets(graph(behind, **WEIGHT)) == ((0, 1, 2, 3),)


def test_what_is_no_function_of_single_elements_joins_nothing() -> None:
    trained = [CONV, node("BatchNormalization", "c", "w1", "w2", "w3", "w4", training_mode=1)]
    shapes = WEIGHT | {f"w{k}": (4,) for k in range(1, 5)}
    assert sets(graph(trained, **shapes)) == ()
    trained[1][3]["training_mode"] = 0
    assert sets(graph(trained, **shapes)) == ((0, 1),)
    two = [CONV, ("BatchNormalization", ["c", "w1", "w2", "w3", "w4"], ["y", "m"], {})]
    assert sets(graph(two, m=(4,), **shapes)) == ()
    assert sets(graph([CONV, node("Softmax", "c")], **WEIGHT)) == ()


def test_views_between_are_members_where_all_of_them_can_be() -> None:
    flat = (1, 36)
    nodes = [
        CONV, node("Reshape", "c", "w1", to="a"), node("Flatten", "a", to="b"), node("Relu", "b"),
    ]  # fmt: skip
    shapes = WEIGHT | {"w1": (2,), "a": flat, "b": flat, "y": flat}
    assert sets(graph(nodes, **shapes)) == ((0, 1, 2, 3),)
    for refused in (1, 2):
        assert sets(graph(nodes, **shapes), no=(refused,)) == ()
    for out in ("c", "a", "b"):
        assert sets(graph(nodes, outputs=(out, "y"), **shapes)) == ()
    # A view that another node reads ends there, too.
    more = [*nodes, node("Softmax", "a", to="z")]
    assert sets(graph(more, outputs=("y", "z"), **shapes, z=flat)) == ()
    # One by a shape that is computed is none, but a kernel of its own.
    computed = [*nodes]
    computed[1] = node("Reshape", "c", "s", to="a")
    assert sets(graph(computed, **shapes, s=(2,))) == ((1, 2, 3),)


def gated(product: str = "Mul", *more: Any, outputs: tuple[str, ...] = (), **shapes: Any) -> Graph:
    nodes = [CONV, node("Sigmoid", "c", to="s"), node(product, "s", "c"), *more]
    return graph(nodes, outputs=outputs, **WEIGHT, **shapes)


def test_a_gate_is_a_function_and_its_product_with_what_it_is_of() -> None:
    assert sets(gated()) == sets(gated("Add")) == ((0, 1, 2),)
    assert sets(gated("MatMul")) == sets(gated("Concat")) == ()
    # Another reader of either value, or one that leaves the graph.
    other = node("Softmax", "c", to="z")
    assert sets(gated("Mul", other, outputs=("y", "z"))) == ((1, 2),)
    other = node("Softmax", "s", to="z")
    assert sets(gated("Mul", other, outputs=("y", "z"))) == ()
    assert sets(gated(outputs=("y", "s"))) == ()
    assert sets(gated(outputs=("y", "c"))) == ((1, 2),)
    # A product with something else.
    nodes = [CONV, node("Sigmoid", "c", to="s"), node("Mul", "s", "r")]
    assert sets(graph(nodes, **WEIGHT)) == ((0, 1, 2),)
    # Refused, or of another kind, it is none.
    assert sets(gated(), no=(2,)) == sets(gated(), no=(1,)) == ()
    assert sets(gated(), kinds=[1, 1, 1]) == ((0, 1, 2),)
    assert sets(gated(), kinds=[1, 1, 0]) == ()
    assert sets(gated(), kinds=[0, 1, 1]) == ((1, 2),)
    # A product that is larger than what it is of.
    wide = (5, 4, 3, 3)
    nodes = [CONV, node("Sigmoid", "c", to="s"), ("Mul", ["s", "c"], ["y"], {})]
    assert sets(graph(nodes, **WEIGHT, y=wide)) == ()


def test_gates_alone_and_behind_kernels_where_something_is_said() -> None:
    word = {"Sigmoid/gate"}
    assert sets(gated(), pointwise=word) == ((0, 1, 2),)
    assert sets(gated(), elementwise=word) == ((1, 2),)
    assert sets(gated(), pointwise={"Sigmoid"}) == ()
    more = gated("Mul", node("Relu", "y", to="z"))
    assert sets(more, elementwise={"Sigmoid/gate", "Sigmoid>Relu"}) == ((1, 2, 3),)
    assert sets(more, elementwise={"Sigmoid/gate"}) == ((1, 2),)
    assert sets(more, pointwise={*word, "Relu"}) == ((0, 1, 2, 3),)
    first = [node("Erf", "x", to="c"), node("Sigmoid", "c", to="s"), node("Mul", "c", "s")]
    assert sets(graph(first), elementwise={"Erf>Sigmoid/gate"}) == ((0, 1, 2),)
    found = joints(graph(first), graph_work(graph(first)))
    words = [(one.form, one.word, one.root, one.nodes) for one in found]
    assert words == [
        ("elementwise", "Sigmoid/gate", 1, (1, 2)),
        ("elementwise", "Erf>Sigmoid/gate", 0, (1, 2)),
    ]


NORM = node("LayerNormalization", "a", "w1", to="n")


def summed(*before: Any, first: Any = None, **shapes: Any) -> Graph:
    sum_ = first or node("Add", "x", "r", to="a")
    return graph([*before, sum_, NORM, node("Relu", "n")], w1=(3,), **shapes)


def test_a_norm_begins_with_the_sum_that_it_alone_reads() -> None:
    said: dict[str, set[str]] = {"normalization": {"Add/before"}}
    assert sets(summed(), **said) == ((0, 1),)
    assert sets(summed(), normalization={"Add/before", "Relu"}) == ((0, 1, 2),)
    assert sets(summed(), normalization={"Relu"}) == ((1, 2),)
    assert sets(summed(), elementwise={"Add/before"}) == ()
    assert sets(summed(), kinds=[1, 1, 0], **said) == ((0, 1),)
    assert sets(summed(), kinds=[1, 0, 0], **said) == ()
    assert sets(summed(), no=(0,), **said) == ()
    assert sets(summed(first=node("Sum", "x", "r", to="a")), **said) == ((0, 1),)
    # What is no sum of two values that nodes make, or has become part of another kernel.
    for first in (node("Mul", "x", "r", to="a"), node("Add", "x", "w1", to="a")):
        assert sets(summed(first=first), **said) == ()
    before = node("Erf", "q", to="x")
    joined = {"elementwise": {"Erf>Add/2"}, **said}
    assert sets(summed(before), **joined) == ((0, 1),)
    # A norm of what the graph is given begins with nothing.
    assert sets(graph([NORM], a=SHAPE, w1=(3,)), **said) == ()
