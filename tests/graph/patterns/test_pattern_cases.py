"""Published cases of pattern matching: TVM's composites and fusion by pattern."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from builders import CASES
from hetsim.graph.graph import Graph
from hetsim.graph.patterns.matching import find_matches
from hetsim.graph.patterns.parser import parse_pattern
from hetsim.graph.patterns.pattern import Pattern
from pattern_builders import pattern_graph

CASE_BY_ID: Mapping[str, dict[str, Any]] = {
    case["id"]: case
    for case in json.loads((CASES / "partition_cases.json").read_text())["cases"]
    if case["kind"] == "pattern"
}

TEXT = {
    "relu(add(*,*))": "relu(add(*, *))",
    "add(add(x,t),t) where t=add(x,y)": "add~(add~($x, $t), $t:add~($x, $y))",
    "abs(add)": "abs(add)",
    "relu(abs)": "relu(abs)",
    "relu(abs(add))": "relu(abs(add))",
    "mul(add(x,y),sub(x,y)) with the same x,y": "mul(add($x, $y), sub($x, $y))",
    "relu(get_item0(batch_norm))": "relu(get_item0(batch_norm))",
    "relu(bias_add(conv2d)) if layout == NCHW": "relu(bias_add(conv2d[layout=NCHW]))",
    "relu(bias_add(conv2d)) if layout == NHWC": "relu(bias_add(conv2d[layout=NHWC]))",
    "add(relu(conv2d),*)": "add(relu(conv2d), *)",
    "add(matmul) | clip(add(matmul))": "add(matmul) | clip(add(matmul))",
}
"""The sources' patterns in the grammar of ``hetsim.graph.patterns.parser``."""

INPUTS = {"add": 2, "sub": 2, "mul": 2, "matmul": 2}


def graph_of(case: Mapping[str, Any]) -> Graph:
    """The case's nodes; what its edges leave open reads the graph's inputs, by port."""
    lines = []
    for name in case["nodes"]:
        op = case["ops"][name]
        reads = [source for source, target in case["edges"] if target == name]
        reads += [f"in{port}" for port in range(len(reads), INPUTS.get(op, 1))]
        lines.append(f"{name} = {op} {' '.join(reads)}")
    return pattern_graph(lines, attributes=case.get("attrs"))


def expected(case: Mapping[str, Any]) -> list[tuple[str, tuple[str, ...]]]:
    return [(match["pattern"], tuple(match["nodes"])) for match in case["matches"]]


def matched(graph: Graph, patterns: list[Pattern]) -> list[tuple[str, tuple[str, ...]]]:
    return [
        (match.pattern, tuple(graph.nodes[node].name for node in match.nodes))
        for match in find_matches(graph, patterns).found
    ]


@pytest.mark.parametrize("name", CASE_BY_ID)
def test_matches_are_those_of_the_source(name: str) -> None:
    case = CASE_BY_ID[name]
    patterns = [parse_pattern(label, TEXT[text]) for label, text in case["patterns"]]
    assert matched(graph_of(case), patterns) == expected(case)


def test_what_is_read_outside_is_the_reason_where_the_source_raises() -> None:
    graph = graph_of(CASE_BY_ID["relax-pattern-cyclic"])
    (refusal,) = find_matches(graph, [parse_pattern("p", "add(relu(conv2d))")]).refused
    assert refusal.nodes == (0, 1, 3)
    assert refusal.reason == "inner value 'conv' is also read by node 'gelu', outside the match"
    (refusal,) = find_matches(graph, [parse_pattern("p", "add(relu(conv2d!))")]).refused
    assert refusal.reason == "contracting it would close the cycle conv > gelu > add"
