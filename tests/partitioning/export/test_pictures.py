"""Pictures hold every node, edge and group once, whatever the names are."""

from __future__ import annotations

import re

import hetsim
from hetsim.partitioning.record import to_dot, to_mermaid
from hetsim.problem.problem import Problem


def awkward() -> Problem:
    plain = Problem.from_arrays(
        [[1, 1], [1, float("inf")], [1, 1]],
        edges=[(0, 1, 4), (1, 2, 4)],
        devices=("cpu", 'n"pu'),
        host=0,
    )
    fields = {name: getattr(plain, name) for name in plain.__dataclass_fields__}
    return Problem(**{**fields, "node_names": ('a"]', "b\n{}", "c\\")})


def test_mermaid() -> None:
    problem = awkward()
    text = to_mermaid(problem, hetsim.partition(problem).groups)
    assert text.startswith("flowchart TD\n")
    assert re.findall(r"n(\d) --> n(\d)", text) == [("0", "1"), ("1", "2")]
    assert sorted(re.findall(r"^    n(\d)\[", text, re.MULTILINE)) == ["0", "1", "2"]
    assert len(re.findall(r"^  subgraph g\d\[\"g\d on ", text, re.MULTILINE)) == 3
    labels = re.findall(r'\["(.*)"\]$', text, re.MULTILINE)
    assert len(labels) == 6
    assert all('"' not in label and "]" not in label for label in labels)


def test_dot() -> None:
    problem = awkward()
    text = to_dot(problem, hetsim.partition(problem).groups)
    assert re.findall(r"n(\d) -> n(\d);", text) == [("0", "1"), ("1", "2")]
    assert len(re.findall(r"subgraph cluster_\d", text)) == 3
    assert text.count("{") - text.count("b\\\\n{}") == text.count("}") - text.count("b\\\\n{}")
    # Quotes are balanced once escaped ones are taken out.
    assert re.sub(r"\\.", "", text).count('"') % 2 == 0
