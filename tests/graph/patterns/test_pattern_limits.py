"""What the search does not walk, where it gives up, and that every process does the same."""

from __future__ import annotations

import pytest

from hash_seeds import QUICK, SEEDS, printed_here, printed_under
from hetsim.errors import UsageError
from hetsim.graph.graph import Graph
from hetsim.graph.patterns import search
from hetsim.graph.patterns.matching import Matches, find_matches
from hetsim.graph.patterns.text import parse_pattern
from pattern_builders import pattern_graph
from sweeps import sweep


def matches(graph: Graph, text: str) -> Matches:
    return find_matches(graph, [parse_pattern("p", text)])


def found(graph: Graph, text: str) -> list[tuple[int, ...]]:
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
    assert found(lattice(40), nested(39, "Relu")) == []


def test_orders_that_come_to_the_same_are_one() -> None:
    graph = pattern_graph([f"v{i + 1} = Sum v{i} {'x ' * 30}" for i in range(8)])
    wild = ", ".join(["*"] * 30)
    text = f"Sum(Sum(Sum(*, {wild}), {wild}), {wild})"
    assert found(graph, text) == [(0, 1, 2), (3, 4, 5)]


def test_too_many_ways_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "LEAST_CAP", 10_000)
    steps = 10_000 + 80 * search.CAP_A_NODE
    with pytest.raises(
        UsageError, match=f"pattern 'p': it may fit in too many ways: {steps} steps do not find"
    ):
        found(lattice(40), nested(39, "*"))
    ordered = nested(39, "*").replace("Add!", "Add^!")
    assert len(matches(lattice(40), ordered).refused) == 4


def test_many_starts_of_a_second_end_are_an_error_not_a_long_wait() -> None:
    graph = pattern_graph([f"v{i} = {('Relu', 'Exp')[i % 2]} x" for i in range(2000)])
    with pytest.raises(UsageError, match="too many ways"):
        found(graph, "Relu($x); Exp($x)")


def test_deep_graphs_take_no_deep_recursion() -> None:
    graph = pattern_graph([f"v{i + 1} = Relu v{i}" for i in range(2000)])
    assert len(found(graph, "Relu(Relu(Relu(Relu(Relu))))")) == 400
    assert len(found(graph, "Relu(" * 49 + "Relu" + ")" * 49)) == 40
    mixed = pattern_graph([f"v{i + 1} = Op{i % 60} v{i}" for i in range(1200)])
    optional = "".join(f"Op{i}?(" for i in range(49, 0, -1)) + "Op0" + ")" * 49
    assert [len(nodes) for nodes in found(mixed, optional)] == [50] * 20


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


@sweep("seed", quick=QUICK, full=SEEDS)
def test_every_process_gives_the_same(seed: int) -> None:
    printed = printed_here(SCRIPT)
    assert printed_under(seed, SCRIPT) == printed
    assert "Match(" in printed
