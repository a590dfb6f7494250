"""Patterns built of terms: equality, and the rules that every pattern holds."""

from __future__ import annotations

import pytest

from hetsim.errors import UsageError
from hetsim.graph.patterns.matching import find_matches
from hetsim.graph.patterns.pattern import Pattern
from hetsim.graph.patterns.terms import (
    Either,
    Maybe,
    Op,
    Reference,
    Term,
    Wild,
)
from pattern_builders import pattern_graph


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
        ((), "it has no ends"),
        ((Wild(),), "end 1 may stand for no node"),
        ((Maybe(Op("Relu", (Wild(),))),), "end 1 may stand for no node"),
        ((Op("Relu"), Op("Exp")), "end 2 shares no label"),
        ((Maybe(Op("Relu")),), "has no input to stand in for it"),
        ((Maybe(Op("Relu", (Op("Conv"),), label="r")),), "takes no label"),
        ((Either(()),), "a choice is empty"),
        ((Op(()),), "a node has no op type"),
        ((Op(("Relu", "")),), "a node has no op type"),
        ((Op("Relu", port=-1),), "no output -1"),
        ((Op("Relu", (Reference("t"),)),), "no node has label 't'"),
        ((Op("Relu", (Op("A", label="t"), Reference("t", -1))),), "no output -1"),
        ((Op("B", (Op("A", label="t"), Op("C", label="t"))),), "'t' describes two nodes"),
        ((Op("B", (Op("A", label="t"), Wild("t"))),), "stands for a node and for a value"),
        ((Op("A", (Reference("t"),), label="t"),), "$t is an input of itself"),
        ((Op("A", (Wild(dtypes=frozenset({"float33"})),)),), "did you mean 'float32'"),
        ((Op("A", dtypes=frozenset({"half"})),), "no dtype 'half'"),
        ((Op("A", (Wild("x", optional=True),)),), "may be absent has a label"),
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
