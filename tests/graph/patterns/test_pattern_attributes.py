"""Attributes of nodes: what is stated, what the schema gives, what a test asks."""

from __future__ import annotations

import pytest

from hetsim.errors import UsageError
from hetsim.graph.graph import Graph, Node
from hetsim.graph.patterns.pattern import check_names
from hetsim.graph.patterns.terms import AttributeTest, AttributeValue, attribute_of
from hetsim.graph.patterns.text import parse_pattern


def graph(**opsets: int) -> Graph:
    return Graph("test", (), {}, (), (), frozenset(), opsets)


def node(op_type: str, domain: str = "", **attributes: object) -> Node:
    return Node(0, "n", op_type, domain, ("x",), ("y",), attributes=attributes)


STANDARD = Graph("test", (), {}, (), (), frozenset(), {"": 17, "ai.onnx.ml": 3})


@pytest.mark.parametrize(
    ("found", "name", "wanted"),
    [
        (node("Conv"), "group", 1),
        (node("Conv", group=4), "group", 4),
        (node("Conv"), "auto_pad", "NOTSET"),
        (node("Conv"), "dilations", None),
        (node("Conv"), "no_such", None),
        (node("Conv", "ai.onnx"), "group", 1),
        (node("Softmax"), "axis", -1),
        (node("Normalizer", "ai.onnx.ml"), "norm", "MAX"),
        (node("Conv", "com.microsoft"), "group", None),
        (node("NoSuchOp"), "group", None),
        (node("ConstantOfShape"), "value", None),
    ],
)
def test_what_is_not_stated_has_the_default_of_the_schema(
    found: Node, name: str, wanted: object
) -> None:
    assert attribute_of(STANDARD, found, name) == wanted


def test_the_default_is_that_of_the_graph_s_version() -> None:
    old = Graph("test", (), {}, (), (), frozenset(), {"": 11})
    named = Graph("test", (), {}, (), (), frozenset(), {"ai.onnx": 11})
    assert attribute_of(old, node("Softmax"), "axis") == 1
    assert attribute_of(named, node("Softmax"), "axis") == 1
    assert attribute_of(graph(), node("Softmax"), "axis") is None


@pytest.mark.parametrize(
    ("stated", "value", "same"),
    [
        (1, 1, True),
        (1, 1.0, True),
        (1, "1", False),
        ("a", "a", True),
        ((1, 2), (1, 2), True),
        ((1, 2), (1,), False),
        ((1,), 1, False),
        (0.10000000149011612, 0.1, True),
        ((0.10000000149011612, 2.0), (0.1, 2), True),
        (0.10000000149011612, 0.1001, False),
        (1.0, 1, True),
        (1.0, 10**300, False),
        (float("inf"), 1e300, True),
        (1, None, False),
    ],
)
def test_values_are_compared_as_onnx_keeps_them(
    stated: object, value: AttributeValue, same: bool
) -> None:
    found = node("Any", a=stated)
    assert AttributeTest("a", (value,)).holds(STANDARD, found) is same
    assert AttributeTest("a", (value,), negated=True).holds(STANDARD, found) is not same
    assert AttributeTest("a", ("other", value)).holds(STANDARD, found) is same


def test_none_asks_for_no_value() -> None:
    assert AttributeTest("dilations", (None,)).holds(STANDARD, node("Conv"))
    assert not AttributeTest("group", (None,)).holds(STANDARD, node("Conv"))
    assert AttributeTest("dilations", ((1, 1),), negated=True).holds(STANDARD, node("Conv"))


@pytest.mark.parametrize(
    "text",
    [
        "Relu(Conv[group=1])",
        "com.microsoft:Whatever[some=1]",
        "ai.onnx.ml:Normalizer[norm=MAX]",
        "Softmax/LogSoftmax[axis=1](Upsample[height_scale=2.0])",
        "Relu(my:Op/Conv[some=1])",
    ],
)
def test_names_that_exist_pass(text: str) -> None:
    assert check_names(parse_pattern("p", text)) is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("Relu(Konv)", "pattern 'p': ONNX has no op 'Konv'; did you mean 'Conv'?"),
        ("Relu?(Clip | Conv[grup=1])", "Conv has no attribute 'grup'; did you mean 'group'?"),
        ("ai.onnx.ml:Normaliser", "no op 'ai.onnx.ml:Normaliser'; did you mean 'Normalizer'?"),
    ],
)
def test_names_that_do_not_exist_are_errors(text: str, complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_names(parse_pattern("p", text))
    assert complaint in str(caught.value)
