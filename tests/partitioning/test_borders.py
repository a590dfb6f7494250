"""Borders and explanations against their definitions."""

from __future__ import annotations

import re

import networkx as nx
import pytest
from hypothesis import given

import hetsim
from builders import problems
from hetsim.errors import UsageError
from hetsim.partitioning.borders import borders, boundary_values, explain, node_named
from hetsim.partitioning.groups import Group, owners
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem


@given(problems(max_nodes=12))
def test_borders_are_what_crosses(problem: Problem) -> None:
    groups = hetsim.partition(problem).groups
    owner = owners(problem.n, groups)
    crossed = set()
    for index, border in enumerate(borders(problem, groups)):
        for at in border.inputs:
            value = problem.values[at]
            assert value.producer == GRAPH_INPUT or owner[value.producer] != index
            assert any(owner[node] == index for node in value.consumers)
            if value.producer != GRAPH_INPUT:
                crossed.add(at)
        for at in border.outputs:
            value = problem.values[at]
            assert owner[value.producer] == index
            assert value.is_output or any(owner[node] != index for node in value.consumers)
        assert len(set(border.inputs)) == len(border.inputs)
    assert tuple(sorted(crossed)) == boundary_values(problem, groups)


@given(problems(max_nodes=12))
def test_a_named_path_exists_and_leaves_the_group(problem: Problem) -> None:
    groups = hetsim.partition(problem).groups
    owner = owners(problem.n, groups)
    graph = nx.DiGraph(list(problem.dag.edges()))
    for u in range(problem.n):
        for v in range(u + 1, problem.n):
            text = explain(problem, groups, u, v)
            if owner[u] == owner[v]:
                assert "both in group" in text
                continue
            same = groups[owner[u]].device == groups[owner[v]].device
            assert ("are on" in text) != same
            way = text.partition("own result through ")[2]
            path = [int(name) for name in re.findall(r"'n(\d+)'", way)]
            if not path:
                assert "wait for their own" not in text
                continue
            assert nx.is_path(graph, path)
            ends = {owner[path[0]], owner[path[-1]]}
            assert ends == {owner[u], owner[v]}
            assert not ends & {owner[node] for node in path[1:-1]}
            assert len(path) > 2


def chain() -> tuple[Problem, tuple[Group, ...]]:
    inf = float("inf")
    problem = Problem.from_arrays(
        [[1, 1], [1, inf], [1, 1], [1, 1]],
        edges=[(0, 1, 4), (1, 2, 4), (0, 2, 4)],
        devices=("cpu", "npu"),
        host=0,
    )
    return problem, hetsim.partition(problem).groups


def test_what_explain_says() -> None:
    problem, groups = chain()
    assert explain(problem, groups, 0, 2) == (
        "'n0' and 'n2' are in groups 0 and 2 on npu: merged, they would wait for their own "
        "result through 'n0' on npu > 'n1' on cpu > 'n2' on npu"
    )
    assert explain(problem, groups, 0, 1) == (
        "'n0' and 'n1' are on npu and cpu: 'n1', npu: inf in seconds"
    )
    assert explain(problem, groups, 2, 3).endswith("no value leads from one to the other")
    assert explain(problem, groups, 3, 3) == "'n3' and 'n3' are both in group 3 on npu"
    apart = tuple(Group("cpu", (node,)) for node in range(4))
    assert "the method did not make it" in explain(problem, apart, 0, 1)


def test_nodes_are_found_by_name() -> None:
    problem, _ = chain()
    assert node_named(problem, "n2") == 2
    with pytest.raises(UsageError, match="did you mean"):
        node_named(problem, "n22")
