"""Size rules: what they promise holds on every result, and published cases come out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from builders import CASES, problems
from hetsim.errors import UsageError
from hetsim.partitioning.groups import component_counts, owners
from hetsim.partitioning.sizes import SizeRules, gain_s
from hetsim.partitioning.validator import problems_of
from hetsim.problem.problem import Problem
from sweeps import examples

INF = float("inf")


def case_problem(name: str) -> tuple[dict[str, Any], Problem]:
    cases = json.loads((CASES / "partition_cases.json").read_text())["cases"]
    case = next(case for case in cases if case["id"] == name)
    ids = {node: index for index, node in enumerate(case["nodes"])}
    seconds = [
        [1.0 if node in case["supported"].get(device, ()) else INF for device in case["priority"]]
        + [10.0]
        for node in case["nodes"]
    ]
    problem = Problem.from_arrays(
        seconds,
        edges=[(ids[u], ids[v], 1) for u, v in case["edges"]],
        devices=(*case["priority"], "host"),
        host=len(case["priority"]),
    )
    return case, problem


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("trt-single-op-dropped", SizeRules(min_nodes=5)),
        ("min-size-readopt", SizeRules(min_nodes=2)),
        ("tflite-largest-n", SizeRules(min_nodes=2, max_groups=2)),
    ],
)
def test_published_cases(name: str, rules: SizeRules) -> None:
    case, problem = case_problem(name)
    made = hetsim.partition(problem, sizes=rules)
    found = {
        (group.device, frozenset(case["nodes"][node] for node in group.nodes))
        for group in made.groups
        if group.device != "host"
    }
    assert found == {(entry["device"], frozenset(entry["nodes"])) for entry in case["expect"]}
    host = {
        case["nodes"][v] for group in made.groups if group.device == "host" for v in group.nodes
    }
    assert host == set(case["host"])
    assert set(made.left) == {case["nodes"].index(name) for name in case["host"]}
    assert all(made.left.values())


@examples(quick=50, full=200)
@given(
    problems(max_nodes=14),
    st.integers(1, 4),
    st.none() | st.integers(1, 3),
    st.none() | st.integers(4, 6),
)
def test_rules_hold_on_every_result(
    problem: Problem, least: int, most_groups: int | None, most_nodes: int | None
) -> None:
    rules = SizeRules(least, most_groups, most_nodes)
    for info in hetsim.methods():
        made = hetsim.partition(problem, info.name, sizes=rules)
        supported = problem.supported.tolist()
        assert problems_of(problem.dag, made.groups, problem.devices, supported) == []
        owner = owners(problem.n, made.groups)
        if "connected" in info.promises:
            assert max(component_counts(problem.dag, owner, len(made.groups)), default=1) == 1
        # The host supports every node, so whatever breaks a rule has somewhere to go.
        for device in problem.devices[1:]:
            sizes = [len(group.nodes) for group in made.groups if group.device == device]
            assert all(size >= least for size in sizes)
            assert most_groups is None or len(sizes) <= most_groups
        assert most_nodes is None or all(len(group.nodes) <= most_nodes for group in made.groups)


def test_a_dropped_group_is_offered_to_the_next_device() -> None:
    problem = Problem.from_arrays(
        [[1.0, INF, 9.0], [INF, 2.0, 9.0], [1.0, 2.0, 9.0], [INF, 2.0, 9.0]],
        edges=[(0, 1, 1), (1, 2, 1), (2, 3, 1)],
        devices=("npu", "gpu", "cpu"),
        host=2,
    )
    made = hetsim.partition(problem, sizes=SizeRules(min_nodes=2))
    assert [(group.device, group.nodes) for group in made.groups] == [
        ("cpu", (0,)),
        ("gpu", (1, 2, 3)),
    ]
    assert made.left == {0: "npu: a group of 1 nodes is below min_nodes 2; gpu: inf in seconds"}


def test_groups_are_ranked_by_gain_not_by_size() -> None:
    # Three cheap nodes against one dear one: the dear one is worth more on the device.
    seconds = [[0.5, 1.0]] * 3 + [[INF, 1.0]] + [[1.0, 50.0]]
    problem = Problem.from_arrays(
        seconds, edges=[(v, v + 1, 0) for v in range(4)], devices=("npu", "cpu"), host=1
    )
    made = hetsim.partition(problem, sizes=SizeRules(max_groups=1))
    assert [group.nodes for group in made.groups if group.device == "npu"] == [(4,)]
    assert gain_s(problem, 0, [4], [1]) == 49.0
    assert gain_s(problem, 0, [0, 1, 2], [1, 1, 1]) == 1.5


def test_weights_must_fit() -> None:
    problem = Problem.from_arrays(
        [[1.0, 9.0], [INF, 1.0], [1.0, 5.0]],
        edges=[(0, 1, 0), (1, 2, 0)],
        devices=("npu", "cpu"),
        weight_bytes=[60, 0, 60],
        capacity_bytes=[100, 1000],
        host=1,
    )
    made = hetsim.partition(problem, sizes=SizeRules(fit_weights=True))
    assert [group.nodes for group in made.groups if group.device == "npu"] == [(0,)]
    assert "its weights no longer fit the 100 B of memory" in made.left[2]
    assert len(hetsim.partition(problem).groups) == 3


def test_numbers_that_make_no_sense() -> None:
    problem = Problem.from_arrays([[1.0, 1.0]])
    for rules, complaint in (
        (SizeRules(min_nodes=0), "min_nodes is 0"),
        (SizeRules(max_groups=0), "max_groups is 0"),
        (SizeRules(min_nodes=3, max_nodes_per_group=2), "no group could be kept"),
    ):
        with pytest.raises(UsageError, match=complaint):
            hetsim.partition(problem, sizes=rules)
    with pytest.raises(UsageError, match="sizes cannot change an assignment"):
        hetsim.partition(problem, assignment=[0], sizes=SizeRules())
