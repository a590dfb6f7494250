"""The text of patterns: what it says, what it refuses, and that it loses nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetsim.errors import UsageError
from hetsim.graph.patterns.pattern import Pattern
from hetsim.graph.patterns.terms import (
    DTYPES,
    AttributeTest,
    Constant,
    Either,
    Maybe,
    Op,
    Reference,
    Term,
    Wild,
)
from hetsim.graph.patterns.text import parse_pattern


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
        ("Add(*, const)", Op("Add", (Wild(), Constant()))),
        ("Clip(*, _, const)", Op("Clip", (Wild(), Wild(optional=True), Constant()))),
        ("Mul($x, Sigmoid($x))", Op("Mul", (Wild("x"), Op("Sigmoid", (Wild("x"),))))),
        ("Mul($x:const, $x)", Op("Mul", (Constant("x"), Wild("x")))),
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
        ("$x:Relu?(Conv)", "takes no label", "1: <here>$x"),
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
        ("A(_ | *)", "may be absent stands in an alternative"),
        ("A(Relu?(_))", "may be absent stands in an alternative"),
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
    with pytest.raises(UsageError, match="is no text"):
        parse_pattern("p", text)  # type: ignore[arg-type]


@given(st.text(alphabet="Ad$x:(),|;[]=!?~^./'\"\\ 1-*_", max_size=30))
@settings(max_examples=500, deadline=None)
def test_any_text_is_a_pattern_or_a_usage_error(text: str) -> None:
    try:
        assert parse_pattern("p", text).text == text
    except UsageError as error:
        assert "pattern 'p'" in str(error)  # noqa: PT017
