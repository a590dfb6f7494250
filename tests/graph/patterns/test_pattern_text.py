"""Patterns as text and as terms, and the attributes that they test."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.errors import UsageError
from hetsim.graph.graph import Graph, Node
from hetsim.graph.patterns.matching import find_matches
from hetsim.graph.patterns.parser import parse_pattern
from hetsim.graph.patterns.pattern import (
    DTYPES,
    AttributeTest,
    AttributeValue,
    Either,
    Maybe,
    Op,
    Pattern,
    Reference,
    Term,
    Wild,
    WildConstant,
    attribute_of,
    check_names,
)
from pattern_builders import pattern_graph
from sweeps import examples


def ends(text: str) -> tuple[Term, ...]:
    return parse_pattern("p", text).ends


def end(text: str) -> Term:
    (only,) = ends(text)
    return only


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("Relu", Op("Relu")),
        ("Relu(Conv)", Op("Relu", (Op("Conv"),))),
        ("Relu()", Op("Relu")),
        ("com.microsoft:Gelu", Op("com.microsoft:Gelu")),
        ("Clip/my.own:Relu6", Op(("Clip", "my.own:Relu6"))),
        ("Clip/Relu?(Conv)", Maybe(Op(("Clip", "Relu"), (Op("Conv"),)))),
        ("Add(*, const)", Op("Add", (Wild(), WildConstant()))),
        ("Clip(*, _, const)", Op("Clip", (Wild(), Wild(optional=True), WildConstant()))),
        ("Mul($x, Sigmoid($x))", Op("Mul", (Wild("x"), Op("Sigmoid", (Wild("x"),))))),
        ("Mul($x:const, $x)", Op("Mul", (WildConstant("x"), Wild("x")))),
        (
            "Add(Relu($t), $t:Add($x, *))",
            Op(
                "Add",
                (Op("Relu", (Reference("t"),)), Op("Add", (Wild("x"), Wild()), label="t")),
            ),
        ),
        (
            "Concat($s:Split.1, $s.0)",
            Op("Concat", (Op("Split", label="s", port=1), Reference("s", 0))),
        ),
        ("A | B(C) | D", Either((Op("A"), Op("B", (Op("C"),)), Op("D")))),
        ("A((B | C), D | E)", Op("A", (Either((Op("B"), Op("C"))), Either((Op("D"), Op("E")))))),
        ("A!.1[x=0]", Op("A", attributes=(AttributeTest("x", (0,)),), port=1, shared=True)),
        ("Conv!", Op("Conv", shared=True)),
        ("Sub~(*)", Op("Sub", (Wild(),), any_order=True)),
        ("Add^!(*)", Op("Add", (Wild(),), any_order=False, shared=True)),
        ("Conv[group=1]", Op("Conv", attributes=(AttributeTest("group", (1,)),))),
        (
            "Conv[dilations=[1, 1]/none, auto_pad!=SAME_LOWER]",
            Op(
                "Conv",
                attributes=(
                    AttributeTest("dilations", ((1, 1), None)),
                    AttributeTest("auto_pad", ("SAME_LOWER",), negated=True),
                ),
            ),
        ),
        (
            "Conv[dtype=float16/float32].0(*[dtype=int8])",
            Op(
                "Conv",
                (Wild(dtypes=frozenset({"int8"})),),
                dtypes=frozenset({"float16", "float32"}),
            ),
        ),
        ("A[dtype!=int8]", Op("A", dtypes=DTYPES - {"int8"})),
        ("A[dtype=int8/bool, dtype!=bool]", Op("A", dtypes=frozenset({"int8"}))),
        ("A['dtype'=1]", Op("A", attributes=(AttributeTest("dtype", (1,)),))),
        (" A [ x = -1e3 ] ( * ) ", Op("A", (Wild(),), attributes=(AttributeTest("x", (-1e3,)),))),
    ],
)  # fmt: skip
def test_text_says(text: str, term: Term) -> None:
    assert end(text) == term


def test_ends_are_separated_by_semicolons() -> None:
    assert ends("Relu($c:Conv);\n Sigmoid($c)") == (
        Op("Relu", (Op("Conv", label="c"),)),
        Op("Sigmoid", (Reference("c"),)),
    )


def test_a_pattern_keeps_its_text_and_is_equal_without_it() -> None:
    parsed = parse_pattern("p", "Relu( Conv )")
    built = Pattern("p", (Op("Relu", (Op("Conv"),)),))
    assert parsed.text == "Relu( Conv )"
    assert parsed == built
    assert hash(parsed) == hash(built)
    assert parsed != parse_pattern("q", "Relu(Conv)")


@pytest.mark.parametrize(
    ("text", "what", "place"),
    [
        ("", "expected an op type", "1: <here>"),
        ("Add(", "expected an op type", "5: Add(<here>"),
        ("Add(MatMul, ]", "found ']'", "13: Add(MatMul, <here>]"),
        ("Add(MatMul *)", "expected ',', '|' or ')'", "12: Add(MatMul <here>*)"),
        ("Add(*,)", "expected an op type", "7: Add(*,<here>)"),
        ("(Add", "expected '|' or ')'", "5: (Add<here>"),
        ("Add)", "expected ';', '|' or the end", "4: Add<here>)"),
        ("Relu?", "expected '(' and the input", "6: Relu?<here>"),
        ("$x:Relu?(Conv)", "cannot have a label", "1: <here>$x"),
        ("$(A)", "the name of a label", "2: $<here>(A)"),
        ("$x:(A)", "an op type, '*' or 'const'", "4: $x:<here>(A)"),
        ("A/", "expected an op type", "3: A/<here>"),
        ("A[x]", "expected '=' or '!='", "4: A[x<here>]"),
        ("A[=1]", "the name of an attribute", "3: A[<here>=1]"),
        ("A[x=]", "expected a number", "5: A[x=<here>]"),
        ("A[x=[1,]]", "expected a number", "8: A[x=[1,<here>]]"),
        ("A[x=[1 2]]", "expected ',' or ']'", "8: A[x=[1 <here>2]]"),
        ("A[x=1 y=2]", "expected ',', '/' or ']'", "7: A[x=1 <here>y"),
        ("A[x='a]", "expected a number", "5: A[x=<here>'a]"),
        ("A[x=1.2.3]", "expected a number", "5: A[x=<here>1.2.3]"),
        ("A[dtype=flot32]", "did you mean 'float32'", "9: A[dtype=<here>flot32]"),
        ("A[dtype=1]", "expected a dtype", "9: A[dtype=<here>1]"),
        ("A(*[axis=1])", "no attribute 'axis'", "4: A(*<here>[axis=1])"),
        ("A~^(*)", "'^' repeats or contradicts", "3: A~<here>^(*)"),
        ("A!!(*)", "'!' repeats", "3: A!<here>!(*)"),
        ("A[x=1]![y=1]", "'[' repeats", "8: A[x=1]!<here>[y=1]"),
        ("B($t:A(*), $t:A)", "$t describes two nodes", "12: B($t:A(*), <here>$t:A)"),
        ("B($split:A, $spilt.1)", "did you mean 'split'", "13: B($split:A, <here>$spilt.1)"),
        ("Add(%)", "found '%'", "5: Add(<here>%)"),
        ("(" * 200 + "A", "brackets are open", "<here>"),
        ("A(" * 5000, "brackets are open", "<here>"),
    ],
)
def test_an_error_shows_name_place_and_what_was_expected(text: str, what: str, place: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_pattern("mine", text)
    assert caught.value.where == "pattern 'mine'"
    assert what in str(caught.value)
    assert place in str(caught.value)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("*", "end 1 may stand for no node"),
        ("$x", "end 1 may stand for no node"),
        ("Relu?(*)", "end 1 may stand for no node"),
        ("Relu; Conv", "end 2 shares no label"),
        ("Relu($x) | Conv; Conv($x)", "end 2 shares no label"),
        ("Relu?($c:Conv($x)); Clip?(Conv); Exp($c)", "end 2 shares no label"),
        ("$t:Add($t)", "node $t is an input of itself"),
        ("A($b:B($a)); $a:A($b)", "is an input of itself"),
        ("A($x:const, $x:Relu)", "'x' stands for a node and for a value"),
        ("A(_ | *)", "optional value stands in an alternative"),
        ("A(Relu?(_))", "optional value stands in an alternative"),
        ("; ".join(["A($x)"] * 600), "more than 1000 terms"),
        ("$a0:A; " + "; ".join(f"$a{i}:A($a{i - 1})" for i in range(1, 60)), "50 levels"),
    ],
)
def test_an_error_of_the_whole_pattern_shows_the_text(text: str, what: str) -> None:
    with pytest.raises(UsageError, match=r"^pattern 'mine' \(") as caught:
        parse_pattern("mine", text)
    assert what in caught.value.what
    assert text[:40] in str(caught.value.where)


@pytest.mark.parametrize("text", [None, 3, ["Relu"]])
def test_what_is_no_text_is_an_error(text: object) -> None:
    with pytest.raises(UsageError, match="is not text"):
        parse_pattern("p", text)  # type: ignore[arg-type]


@given(st.text(alphabet="Ad$x:(),|;[]=!?~^./'\"\\ 1-*_", max_size=30))
@examples(quick=160, full=500)
def test_any_text_is_a_pattern_or_a_usage_error(text: str) -> None:
    try:
        assert parse_pattern("p", text).text == text
    except UsageError as error:
        assert "pattern 'p'" in str(error)  # noqa: PT017


def test_patterns_with_callables_are_equal_to_themselves_alone() -> None:
    ends = (Op("Relu"),)
    one = Pattern("p", ends, check=lambda graph, nodes: True)
    assert one == one
    assert one != Pattern("p", ends, check=lambda graph, nodes: True)


def test_a_labelled_term_may_stand_in_several_places() -> None:
    shared = Op("Relu", (Wild(),), label="s")
    pattern = Pattern("p", (Op("Add", (Op("Exp", (shared,)), Op("Neg", (shared,)))),))
    graph = pattern_graph(["s = Relu x", "a = Exp s", "b = Neg s", "y = Add a b"])
    assert [match.nodes for match in find_matches(graph, [pattern]).found] == [(0, 1, 2, 3)]


def deep(levels: int) -> Op:
    term = Op("Relu")
    for _ in range(levels - 1):
        term = Op("Relu", (term,))
    return term


def wide(levels: int) -> Op:
    term = Op("Add")
    for _ in range(levels - 1):
        term = Op("Add", (term, term))
    return term


@pytest.mark.parametrize(
    ("ends", "complaint"),
    [
        ((), "it has no end"),
        ((Maybe(Op("Relu")),), "has no input to replace it"),
        ((Maybe(Op("Relu", (Op("Conv"),), label="r")),), "cannot have a label"),
        ((Either(()),), "a choice is empty"),
        ((Op(()),), "a node has no op type"),
        ((Op(("Relu", "")),), "a node has no op type"),
        ((Op("Relu", port=-1),), "no output -1"),
        ((Op("Relu", (Reference("t"),)),), "no node has label 't'"),
        ((Op("Relu", (Op("A", label="t"), Reference("t", -1))),), "no output -1"),
        ((Op("B", (Op("A", label="t"), Op("C", label="t"))),), "'t' describes two nodes"),
        ((Op("A", (Wild(dtypes=frozenset({"float33"})),)),), "did you mean 'float32'"),
        ((Op("A", dtypes=frozenset({"half"})),), "no dtype 'half'"),
        ((Op("A", (Wild("x", optional=True),)),), "optional value has a label"),
        ((deep(51),), "more than 50 levels"),
        ((deep(20_000),), "more than 50 levels"),
        ((wide(40),), "more than 1000 terms"),
    ],
)
def test_a_pattern_that_breaks_a_rule_is_refused(ends: tuple[Term, ...], complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        Pattern("p", ends)
    assert complaint in str(caught.value)
    assert caught.value.where == "pattern 'p'"


def test_as_many_levels_as_are_allowed_are() -> None:
    graph = pattern_graph([f"v{i + 1} = Relu v{i}" for i in range(50)])
    assert len(find_matches(graph, [Pattern("p", (deep(50),))]).found) == 1


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
