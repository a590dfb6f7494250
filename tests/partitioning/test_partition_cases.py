"""Published and found partition cases, by every merge method that needs devices alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from builders import CASES
from hetsim.graph.dag import Dag
from hetsim.partitioning.methods import compact, convex, greedy, stage
from hetsim.problem.groups import order_groups

Merge = Callable[[Dag, Sequence[int]], list[int]]
METHODS: dict[str, Merge] = {
    "compact": compact.merge,
    "convex": convex.merge,
    "greedy": greedy.merge,
    "stage": stage.merge,
}

RECORDS: dict[str, dict[str, Any]] = {
    case["id"]: case for case in json.loads((CASES / "partition_cases.json").read_text())["cases"]
}

COUNTED = [case_id for case_id, record in RECORDS.items() if "min_connected" in record]
EXPECTED_ONLY = ["torch-fx-14", "torch-fx-order", "trt-exclude-relu"]
MERGING = COUNTED + EXPECTED_ONLY
MUTUAL = ("relax-bug-1-backend", "relax-bug-2-backends")
"""Cases in which the published greedy ends in groups that feed each other."""
DEEP = "torch-deep-chain"


@dataclass(frozen=True)
class Case:
    """A case as a DAG; devices 0 .. accelerators-1 by priority, then the host."""

    record: dict[str, Any]
    dag: Dag
    device_of: tuple[int, ...]
    accelerators: int

    @classmethod
    def of(cls, case_id: str) -> Case:
        record = RECORDS[case_id]
        index = {name: v for v, name in enumerate(record["nodes"])}
        dag = Dag.from_edges(len(index), [(index[u], index[v]) for u, v in record["edges"]])
        ranked = record["priority"]
        device_of = [len(ranked)] * dag.n
        for rank in reversed(range(len(ranked))):
            for name in record["supported"][ranked[rank]]:
                device_of[index[name]] = rank
        return cls(record, dag, tuple(device_of), len(ranked))

    @property
    def host_apart(self) -> tuple[int, ...]:
        """Devices with one of its own for every host node: the minima leave these unmerged."""
        return tuple(
            device if device < self.accelerators else self.accelerators + v
            for v, device in enumerate(self.device_of)
        )

    def accelerated(self, labels: Sequence[int]) -> set[tuple[str, frozenset[str]]]:
        """The accelerators' groups, by name."""
        groups: dict[int, set[int]] = {}
        for v, label in enumerate(labels):
            groups.setdefault(label, set()).add(v)
        return {
            (
                self.record["priority"][self.device_of[min(group)]],
                frozenset(self.record["nodes"][v] for v in group),
            )
            for group in groups.values()
            if self.device_of[min(group)] < self.accelerators
        }

    @property
    def fewest(self) -> int:
        """The fewest connected groups; where not counted, the expected answer is the only one."""
        if "min_connected" in self.record:
            return int(self.record["min_connected"])
        assert self.record["unique"]
        return len(self.record["expect"])

    def expected(self) -> set[tuple[str, frozenset[str]]]:
        return {(group["device"], frozenset(group["nodes"])) for group in self.record["expect"]}


@pytest.mark.parametrize("case_id", MERGING)
def test_compact_has_the_fewest_connected_groups(case_id: str) -> None:
    case = Case.of(case_id)
    groups = case.accelerated(compact.merge(case.dag, case.host_apart))
    assert len(groups) == case.fewest
    if case.record["connected"] and case.record.get("unique"):
        assert groups == case.expected()


@pytest.mark.parametrize("case_id", COUNTED)
def test_stage_has_the_fewest_groups_of_any_kind(case_id: str) -> None:
    case = Case.of(case_id)
    groups = case.accelerated(stage.merge(case.dag, case.device_of))
    assert len(groups) == case.record["min_any"]
    if not case.record["connected"]:
        assert groups == case.expected()


@pytest.mark.parametrize("case_id", COUNTED)
def test_convex_has_as_many_groups_as_the_patent(case_id: str) -> None:
    case = Case.of(case_id)
    groups = case.accelerated(convex.merge(case.dag, case.host_apart))
    assert len(groups) == case.record["ref_patent"]
    if case.record["kind"] == "patent":
        assert groups == case.expected()


@pytest.mark.parametrize("case_id", MERGING)
def test_greedy_reaches_the_minimum_on_these_cases(case_id: str) -> None:
    case = Case.of(case_id)
    labels, repaired = greedy.solve(case.dag, case.host_apart)
    assert len(case.accelerated(labels)) == case.fewest
    assert bool(repaired) == (case_id in MUTUAL)


@pytest.mark.parametrize("method", METHODS)
def test_a_chain_longer_than_the_recursion_limit(method: str) -> None:
    record = RECORDS[DEEP]
    assert record["supported"] == "first two nodes only, then host"
    n = record["chain_length"]
    dag = Dag.from_edges(n, [(v, v + 1) for v in range(n - 1)])
    device_of = [0, 0] + [1] * (n - 2)
    labels = METHODS[method](dag, device_of)
    assert len({labels[v] for v in range(n) if device_of[v] == 0}) == record["expect_groups"]
    parts = order_groups(dag, labels)
    assert parts == [(0, 1), tuple(range(2, n))]
