"""Matches of patterns: what fits, what is refused and why, and what the search may take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hash_seeds import SEEDS, printed_here, printed_under
from hetsim.errors import UsageError
from hetsim.graph.graph import Graph, Node
from hetsim.graph.patterns import matching
from hetsim.graph.patterns.matching import Match, Matches, find_matches
from hetsim.graph.patterns.parser import parse_pattern
from hetsim.graph.patterns.pattern import Op, Pattern
from oracles.pattern_matches import jointly_acyclic, oracle_matches
from pattern_builders import DrawnPattern, pattern_graph, random_graph
from sweeps import examples


def found(graph: Graph, *texts: str) -> list[str]:
    """The names of the nodes of each match, the patterns in the order given."""
    patterns = [parse_pattern(f"p{number}", text) for number, text in enumerate(texts)]
    return [names(graph, match.nodes) for match in find_matches(graph, patterns).found]


def names(graph: Graph, nodes: Sequence[int]) -> str:
    return " ".join(graph.nodes[node].name for node in nodes)


def reasons(graph: Graph, *texts: str) -> list[tuple[str, str]]:
    """Nodes and reason of each refused fit."""
    patterns = [parse_pattern(f"p{number}", text) for number, text in enumerate(texts)]
    return [(names(graph, r.nodes), r.reason) for r in find_matches(graph, patterns).refused]


CHAIN = pattern_graph(["a = Conv x", "b = Relu a", "c = Conv b", "d = Exp c"])


def test_a_fit_that_is_cyclic_gives_way_to_a_smaller_one() -> None:
    lines = ["a = MatMul x y", "b = Add a z", "o = Exp b", "c = Clip b o"]
    pattern = "Add!(MatMul) | Clip(Add!(MatMul))"
    graph = pattern_graph(lines)
    assert found(graph, pattern) == ["a b"]
    ((nodes, reason),) = reasons(graph, pattern)
    assert (nodes, reason) == ("a b c", "contracting it would close the cycle b > o > c")


def test_inputs_of_symmetric_ops_stand_in_any_order_unless_told() -> None:
    graph = pattern_graph(["m = MatMul x y", "a = Add z m", "n = MatMul x y", "s = Sub z n"])
    assert found(graph, "Add(MatMul)") == ["m a"]
    assert found(graph, "Add(MatMul, *)") == ["m a"]
    assert found(graph, "Add^(MatMul, *)") == []
    assert found(graph, "Add^(*, MatMul)") == ["m a"]
    assert found(graph, "Sub(MatMul, *)") == []
    assert found(graph, "Sub~(MatMul, *)") == ["n s"]


def test_absent_inputs_are_no_values() -> None:
    graph = pattern_graph(["a = Clip x - c", "b = Clip x", "d = Clip x c c"], constants="c")
    assert found(graph, "Clip(*, *, const)") == ["d"]
    assert found(graph, "Clip(*, _, const)") == ["a", "d"]
    assert found(graph, "Clip(*, _, _)") == ["a", "b", "d"]
    assert found(graph, "Clip(*, *)") == ["d"]


def test_constants_are_members_sorted_and_may_be_shared() -> None:
    graph = pattern_graph(
        ["a = MatMul x w", "b = Add a v", "c = MatMul b w", "d = Add c b"], constants="w v"
    )
    pattern = parse_pattern("p", "Add?(MatMul(*, const), $c:const)")
    assert find_matches(graph, [pattern]).found == (
        Match("p", (0, 1), ("v", "w")),
        Match("p", (2,), ("w",)),
    )
    assert found(graph, "Add($c:const, $c)") == []


def test_dtypes_are_those_of_the_value_that_is_read() -> None:
    graph = pattern_graph(
        ["a = Cast x", "b = Relu a", "c = Cast y", "d = Relu c"],
        dtypes={"a": "float16", "y": "float16"},
    )
    assert found(graph, "Relu(Cast[dtype=float16])") == ["a b"]
    assert found(graph, "Relu(Cast[dtype!=float16])") == ["c d"]
    assert found(graph, "Relu(Cast(*[dtype=float16]))") == ["c d"]
    assert found(graph, "Cast![dtype=int8/float16]") == ["a"]
    unknown = replace(graph, tensors={})
    assert found(unknown, "Relu(Cast[dtype!=float16])") == []


def test_attributes_have_the_defaults_of_the_schema() -> None:
    graph = pattern_graph(
        ["a = Conv x w", "b = Conv x w", "c = my:Conv x w"],
        attributes={"b": {"group": 2, "dilations": (1, 1)}},
    )
    assert found(graph, "Conv[group=1]") == ["a"]
    assert found(graph, "Conv[group!=1]") == ["b"]
    assert found(graph, "Conv/my:Conv[group=1]") == ["a"]
    assert found(graph, "Conv/my:Conv[group=none]") == ["c"]
    assert found(graph, "Conv[dilations=[1,1]]") == ["b"]
    assert found(graph, "Conv[dilations=[1,1]/none, auto_pad=NOTSET]") == ["a", "b"]
    assert found(graph, "Conv[dilations!=[1,1]]") == ["a"]


def test_of_several_ways_the_first_that_may_be_counts() -> None:
    graph = pattern_graph(["a = Conv x w", "b = Relu a", "y = Exp a"], constants="w")
    for text, constants in (
        ("Relu(Conv(*, const)) | Relu(Conv!)", ()),
        ("Relu(Conv!(*, const)) | Relu(Conv!)", ("w",)),
    ):
        assert find_matches(graph, [parse_pattern("p", text)]).found == (
            Match("p", (0, 1), constants),
        )


def test_a_condition_sees_graph_and_node() -> None:
    def second(graph: Graph, node: Node) -> bool:
        return graph.nodes.index(node) == 2

    pattern = Pattern("p", (Op("Conv", condition=second),))
    assert [match.nodes for match in find_matches(CHAIN, [pattern]).found] == [(2,)]


def test_the_ends_may_be_read_outside_and_what_is_shared() -> None:
    lines = ["c = Conv x", "r = Relu c", "s = Sigmoid c", "y = Add s r"]
    graph = pattern_graph(lines)
    read = [("c r", "inner value 'c' is also read by node 's', outside the match")]
    assert reasons(graph, "Relu(Conv)") == read
    assert found(graph, "Relu(Conv!)") == ["c r"]
    assert found(graph, "$c:Conv; Relu($c)") == ["c r"]
    assert found(graph, "Relu($c:Conv); Sigmoid($c)") == ["c r s"]
    output = pattern_graph(lines[:2], outputs="c r")
    assert reasons(output, "Relu(Conv)") == [("c r", "inner value 'c' is an output of the graph")]
    assert found(output, "Relu(Conv!)") == ["c r"]


def test_bodies_of_control_flow_read_from_outside_too() -> None:
    graph = pattern_graph(["c = Conv x", "r = Relu c", "i = If cond"])
    captured = replace(graph.nodes[2], captures=("c",))
    graph = replace(graph, nodes=(*graph.nodes[:2], captured))
    assert reasons(graph, "Relu(Conv)") == [
        ("c r", "inner value 'c' is also read by node 'i', outside the match")
    ]


def test_earlier_patterns_win_and_later_ones_say_over_whom() -> None:
    assert found(CHAIN, "Relu(Conv)", "Conv(Relu)", "Exp(Conv)") == ["a b", "c d"]
    assert found(CHAIN, "Conv(Relu)", "Relu(Conv)", "Exp(Conv)") == ["b c"]
    assert reasons(CHAIN, "Conv(Relu)", "Relu(Conv)", "Exp(Conv)") == [
        ("a b", "node 'b' is in a match of 'p0'"),
        ("c d", "node 'c' is in a match of 'p0'"),
    ]


def test_matches_are_jointly_acyclic_across_patterns() -> None:
    twins = pattern_graph(["a = Conv x z", "b = Exp x w", "c = Relu a w", "d = Neg b z"])
    first, second = "Conv(*, $z); Neg(*, $z)", "Exp(*, $w); Relu(*, $w)"
    assert found(twins, first, second) == ["a d"]
    assert reasons(twins, first, second) == [
        ("b c", "contracting it would close the cycle b > d > a > c")
    ]


def matches(graph: Graph, text: str) -> Matches:
    return find_matches(graph, [parse_pattern("p", text)])


def nodes_found(graph: Graph, text: str) -> list[tuple[int, ...]]:
    return [match.nodes for match in matches(graph, text).found]


def lattice(depth: int) -> Graph:
    """Two values a level, each of both values of the level before."""
    lines = [
        f"{left}{i + 1} = Add {left}{i} {right}{i}"
        for i in range(depth)
        for left, right in (("a", "b"), ("b", "a"))
    ]
    return pattern_graph(lines)


def nested(depth: int, inner: str) -> str:
    return "Add!(" * depth + inner + ")" * depth


def test_ways_that_lead_nowhere_are_not_walked() -> None:
    # There are 2^39 ways down, and none of them ends in a Relu.
    assert nodes_found(lattice(40), nested(39, "Relu")) == []


def test_orders_that_come_to_the_same_are_one() -> None:
    graph = pattern_graph([f"v{i + 1} = Sum v{i} {'x ' * 30}" for i in range(8)])
    wild = ", ".join(["*"] * 30)
    text = f"Sum(Sum(Sum(*, {wild}), {wild}), {wild})"
    assert nodes_found(graph, text) == [(0, 1, 2), (3, 4, 5)]


def test_too_many_ways_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "LEAST_CAP", 10_000)
    steps = 10_000 + 80 * matching.CAP_A_NODE
    with pytest.raises(
        UsageError, match=f"pattern 'p': the search for matches did not finish within {steps} steps"
    ):
        nodes_found(lattice(40), nested(39, "*"))
    ordered = nested(39, "*").replace("Add!", "Add^!")
    assert len(matches(lattice(40), ordered).refused) == 4


@pytest.mark.sweep
def test_many_starts_of_a_second_end_are_an_error_not_a_long_wait() -> None:
    graph = pattern_graph([f"v{i} = {('Relu', 'Exp')[i % 2]} x" for i in range(2000)])
    with pytest.raises(UsageError, match="did not finish"):
        nodes_found(graph, "Relu($x); Exp($x)")


@pytest.mark.sweep
def test_deep_graphs_take_no_deep_recursion() -> None:
    graph = pattern_graph([f"v{i + 1} = Relu v{i}" for i in range(2000)])
    assert len(nodes_found(graph, "Relu(Relu(Relu(Relu(Relu))))")) == 400
    assert len(nodes_found(graph, "Relu(" * 49 + "Relu" + ")" * 49)) == 40
    mixed = pattern_graph([f"v{i + 1} = Op{i % 60} v{i}" for i in range(1200)])
    optional = "".join(f"Op{i}?(" for i in range(49, 0, -1)) + "Op0" + ")" * 49
    assert [len(nodes) for nodes in nodes_found(mixed, optional)] == [50] * 20


SCRIPT = """
from random import Random
from hetsim.graph.patterns.matching import find_matches
from pattern_builders import DrawnPattern, random_graph
for seed in range(40):
    chosen = Random(seed)
    graph = random_graph(chosen, 30)
    drawn = [DrawnPattern(graph, chosen).pattern(f"p{n}") for n in range(4)]
    print(find_matches(graph, [pattern for pattern in drawn if pattern is not None]))
"""


@pytest.mark.sweep
@pytest.mark.parametrize("seed", SEEDS)
def test_every_process_gives_the_same(seed: int) -> None:
    printed = printed_here(SCRIPT)
    assert printed_under(seed, SCRIPT) == printed
    assert "Match(" in printed


@given(st.integers(0, 2**40))
@examples(quick=20, full=800)
def test_matches_are_those_of_the_definition(seed: int) -> None:
    chosen = Random(seed)
    graph = random_graph(chosen, 7)
    drawn = (DrawnPattern(graph, chosen).pattern(f"p{number}") for number in range(3))
    patterns = [pattern for pattern in drawn if pattern is not None]
    found = find_matches(graph, patterns)
    matches, refused = oracle_matches(graph, patterns)
    assert [(m.pattern, m.nodes) for m in found.found] == [m[:2] for m in matches]
    for match, (_, _, constants) in zip(found.found, matches, strict=True):
        assert match.constants in constants
    assert {(r.pattern, r.nodes) for r in found.refused} == refused
    assert all(r.reason for r in found.refused)


@given(st.integers(0, 2**40))
@examples(quick=40, full=150)
def test_matches_are_disjoint_and_jointly_acyclic_on_larger_graphs(seed: int) -> None:
    chosen = Random(seed)
    graph = random_graph(chosen, 60)
    drawn = (DrawnPattern(graph, chosen).pattern(f"p{number}") for number in range(6))
    found = find_matches(graph, [pattern for pattern in drawn if pattern is not None]).found
    for one, other in combinations(found, 2):
        assert not set(one.nodes) & set(other.nodes)
    assert jointly_acyclic(graph, [match.nodes for match in found])
    assert list(found) == sorted(found, key=lambda match: match.nodes)
