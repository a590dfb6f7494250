"""Borders and explanations against their definitions."""

from __future__ import annotations

import re
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from builders import problems
from full_problems import full_problems
from hetsim.errors import UsageError
from hetsim.partitioning.affinity import Exclusion
from hetsim.partitioning.borders import (
    borders,
    boundary_values,
    crossings,
    explain,
    memory_bytes,
    node_named,
)
from hetsim.partitioning.partition import Partition
from hetsim.problem.groups import Group, owners
from hetsim.problem.parts import StoredConstant
from hetsim.problem.problem import Problem
from sweeps import examples


@st.composite
def cut_problems(draw: st.DrawFn) -> tuple[Problem, tuple[Group, ...]]:
    """With constants, values that are given back, groups in any order and a host, or none."""
    problem = draw(full_problems(max_nodes=7))
    n = problem.n
    readers = draw(st.lists(st.sets(st.integers(0, n - 1), min_size=1), max_size=3))
    given_back = draw(st.sets(st.integers(0, n - 1)))
    problem = replace(
        problem,
        constants=tuple(
            StoredConstant(f"w{k}", 2**k, tuple(sorted(r))) for k, r in enumerate(readers)
        ),
        values=tuple(
            replace(v, nbytes=10**k, is_output=v.is_output or v.producer in given_back)
            for k, v in enumerate(problem.values)
        ),
    )
    label = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    device = draw(st.lists(st.sampled_from(problem.devices), min_size=4, max_size=4))
    groups = [
        Group(device[k], tuple(v for v in range(n) if label[v] == k)) for k in sorted(set(label))
    ]
    return problem, tuple(groups)


@examples(quick=15, full=400)
@given(cut_problems())
def test_all_that_crosses_is_told_once_and_in_order(
    case: tuple[Problem, tuple[Group, ...]],
) -> None:
    problem, groups = case
    values = list(enumerate(problem.values))
    host = None if problem.host is None else problem.devices[problem.host]
    device_of = {v: group.device for group in groups for v in group.nodes}
    between: set[int] = set()
    found = zip(groups, borders(problem, groups), crossings(problem, groups), strict=True)
    for group, border, crossing in found:
        inside = set(group.nodes)
        reads = [k for v in group.nodes for k, value in values if v in value.consumers
                 and value.producer not in inside]  # fmt: skip
        assert border.inputs == tuple(dict.fromkeys(reads))
        gives = [(value.producer, k) for k, value in values if value.producer in inside
                 and (value.is_output or set(value.consumers) - inside)]  # fmt: skip
        assert border.outputs == tuple(k for _, k in sorted(gives))
        assert border.constants == tuple(
            k for k, constant in enumerate(problem.constants) if inside & set(constant.consumers)
        )
        between.update(k for k in border.inputs if problem.values[k].producer >= 0)
        received = sent = 0
        for _, value in values:
            home = host if value.producer < 0 else device_of[value.producer]
            away = {device_of[v] for v in value.consumers}
            if inside & set(value.consumers) and home not in (None, group.device):
                received += value.nbytes
            if value.producer in inside:
                if value.is_output and host is not None:
                    away.add(host)
                sent += value.nbytes * len(away - {group.device})
        assert (crossing.receives_bytes, crossing.sends_bytes) == (received, sent)
        assert memory_bytes(problem, group.nodes) == sum(
            value.nbytes for _, value in values if inside & {value.producer, *value.consumers}
        ) + sum(problem.constants[k].nbytes for k in border.constants)
    assert boundary_values(problem, groups) == tuple(sorted(between))
    made = Partition(groups, "by hand", (), {}, problem)
    assert made.boundary == tuple(problem.values[k] for k in sorted(between))
    assert made.boundary_bytes == sum(value.nbytes for value in made.boundary)
    assert made.borders == borders(problem, groups)


@examples(quick=20, full=100)
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
            way = text.partition("own output through ")[2]
            path = [int(name) for name in re.findall(r"'n(\d+)'", way)]
            if not path:
                assert "depend on its own" not in text
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
        "'n0' and 'n2' are in groups 0 and 2 on npu: one group of both would depend on its own "
        "output through 'n0' on npu > 'n1' on cpu > 'n2' on npu"
    )
    assert explain(problem, groups, 0, 1) == (
        "'n0' and 'n1' are on npu and cpu: 'n1', npu: inf in seconds"
    )
    assert explain(problem, groups, 2, 3).endswith("no value connects them")
    assert explain(problem, groups, 3, 3) == "'n3' and 'n3' are both in group 3 on npu"
    apart = tuple(Group("cpu", (node,)) for node in range(4))
    assert "the method did not make it" in explain(problem, apart, 0, 1)
    problem = Problem.from_arrays(np.ones((3, 3)), edges=[], devices=("npu", "gpu", "cpu"))
    pinned = hetsim.partition(
        problem, pins={"n1": "gpu"}, exclude=[Exclusion("npu", nodes=("n2",))]
    )
    for node, why in ((1, "pinned to gpu"), (2, "'n2' is excluded")):
        assert pinned.explain(0, node).endswith(f"on npu and gpu: 'n{node}', npu: {why}")


def test_nodes_are_found_by_name() -> None:
    problem, _ = chain()
    assert node_named(problem, "n2") == 2
    with pytest.raises(UsageError, match="did you mean"):
        node_named(problem, "n22")
    assert [node_named(problem, node) for node in range(4)] == [0, 1, 2, 3]
    for strange in (-1, 4):
        with pytest.raises(UsageError, match=rf"no node {strange} in .*; use 0 \.\. 3"):
            node_named(problem, strange)
    # A node's own name goes before those of what others stand for.
    named = replace(problem, origins=(("a", "n1"), ("b",), ("a", "c"), ()))
    assert [node_named(named, name) for name in ("n1", "a", "b", "c")] == [1, 0, 1, 2]
    with pytest.raises(UsageError, match=r"no node 'conf' in .*did you mean 'conv'"):
        node_named(replace(named, origins=(("pool",), (), ("conv",), ())), "conf")
