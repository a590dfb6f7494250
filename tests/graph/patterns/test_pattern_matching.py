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


def test_a_value_of_no_known_dtype_fits_no_test_of_it() -> None:
    graph = replace(pattern_graph(["a = Cast x", "b = Relu a"]), tensors={})
    assert found(graph, "Relu(Cast)") == ["a b"]
    assert found(graph, "Relu(Cast[dtype!=float16])") == []


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


def test_an_inner_value_is_no_output_of_the_graph_unless_shared() -> None:
    output = pattern_graph(["c = Conv x", "r = Relu c"], outputs="c r")
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
@examples(quick=50, full=800)
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
