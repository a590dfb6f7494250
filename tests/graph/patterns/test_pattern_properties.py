"""Random patterns in random graphs, against trying every assignment."""

from __future__ import annotations

from itertools import combinations
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from hetsim.graph.patterns.matching import find_matches
from oracles.pattern_matches import jointly_acyclic, oracle_matches
from pattern_builders import DrawnPattern, random_graph
from sweeps import examples


@given(st.integers(0, 2**40))
@examples(quick=200, full=800)
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
@examples(quick=50, full=150)
def test_matches_are_disjoint_and_jointly_acyclic_on_larger_graphs(seed: int) -> None:
    chosen = Random(seed)
    graph = random_graph(chosen, 60)
    drawn = (DrawnPattern(graph, chosen).pattern(f"p{number}") for number in range(6))
    found = find_matches(graph, [pattern for pattern in drawn if pattern is not None]).found
    for one, other in combinations(found, 2):
        assert not set(one.nodes) & set(other.nodes)
    assert jointly_acyclic(graph, [match.nodes for match in found])
    assert list(found) == sorted(found, key=lambda match: match.nodes)
