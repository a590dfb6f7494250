"""Every merge method gives valid partitions; compact is compared with exhaustive search."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hetsim
from builders import dags, problems
from hetsim.errors import UnsupportedNode, UsageError
from hetsim.graph.dag import Dag
from hetsim.partitioning import compact, stage
from hetsim.partitioning.partition import as_groups, order_groups, problems_of
from hetsim.problem import Problem
from oracles.fewest_groups import fewest_connected

NAMES = ("a", "b", "c")


@settings(max_examples=300)
@given(dags(30), st.data())
@pytest.mark.parametrize("method", [compact, stage])
def test_methods_are_valid(method: object, dag: Dag, data: st.DataObject) -> None:
    device_of = data.draw(st.lists(st.integers(0, 2), min_size=dag.n, max_size=dag.n))
    labels = method.merge(dag, device_of)  # type: ignore[attr-defined]
    parts = order_groups(dag, labels)
    assert parts is not None
    groups = as_groups(parts, device_of, NAMES)
    supported = [[device_of[v] == p for p in range(3)] for v in range(dag.n)]
    assert problems_of(dag, groups, NAMES, supported, connected=method is compact) == []


def set_partitions(items: list[int]) -> Iterator[list[int]]:
    """Yield every way to label `items`, as restricted growth strings."""

    def grow(labels: list[int], used: int) -> Iterator[list[int]]:
        if len(labels) == len(items):
            yield labels
            return
        for label in range(used + 1):
            yield from grow([*labels, label], max(used, label + 1))

    yield from grow([], 0)


def test_compact_is_minimal_on_small_graphs() -> None:
    graphs, missed, missed_elsewhere, more_in_all = 4000, 0, 0, 0
    for seed in range(graphs):
        rng = random.Random(seed)
        n, kinds = rng.randint(6, 11), rng.randint(1, 4)
        pairs = [(u, v) for v in range(n) for u in range(v)]
        edges = rng.sample(pairs, min(len(pairs), rng.randint(n - 2, int(1.6 * n))))
        dag = Dag.from_edges(n, edges)
        device_of = [rng.randrange(kinds) for _ in range(n)]
        count = len(set(compact.merge(dag, device_of)))
        least = fewest_connected(dag, device_of, count)
        missed += count > least
        # With a host, the groups elsewhere are the fewest.
        host = kinds - 1
        labels = compact.merge(dag, device_of, host)
        apart = [device if device != host else -1 - v for v, device in enumerate(device_of)]
        hosted = device_of.count(host)
        elsewhere = len({labels[v] for v in range(n) if device_of[v] != host})
        missed_elsewhere += elsewhere > fewest_connected(dag, apart, n) - hosted
        more_in_all += len(set(labels)) > least
    assert missed <= graphs // 1000
    assert missed_elsewhere <= graphs // 1000
    # Both cannot always be had: a group elsewhere may cost one of the host's.
    assert more_in_all <= graphs // 100


def test_stage_is_minimal_for_one_device_beside_the_host() -> None:
    for seed in range(40):
        rng = random.Random(seed)
        n = rng.randint(3, 6)
        pairs = [(u, v) for v in range(n) for u in range(v)]
        dag = Dag.from_edges(n, rng.sample(pairs, min(len(pairs), n)))
        device_of = [rng.randint(0, 1) for _ in range(n)]
        labels = stage.merge(dag, device_of)
        accelerated = {labels[v] for v in range(n) if device_of[v] == 1}
        # The host's groups do not count: give each host node one of its own.
        least = min(
            len({label for v, label in enumerate(ways) if device_of[v] == 1})
            for ways in set_partitions(list(range(n)))
            if all(ways.count(label) == 1 or device_of[v] == 1 for v, label in enumerate(ways))
            and order_groups(dag, ways) is not None
        )
        assert len(accelerated) == least


def test_compact_falls_back_when_the_budget_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(0)
    n = 300
    dag = Dag.from_edges(n, {tuple(sorted(rng.sample(range(n), 2))) for _ in range(900)})  # type: ignore[misc]
    device_of = [rng.randint(0, 1) for _ in range(n)]
    monkeypatch.setattr(compact, "VISITS_PER_EDGE", 0)
    parts = order_groups(dag, compact.merge(dag, device_of))
    assert parts is not None
    assert problems_of(dag, as_groups(parts, device_of, NAMES), NAMES, connected=True) == []


@settings(deadline=None)
@given(problems())
def test_partition_verb_orders_and_validates(problem: Problem) -> None:
    for info in hetsim.methods():
        made = hetsim.partition(problem, info.name)
        assert made.method == info.name
        assert sorted(v for group in made.groups for v in group.nodes) == list(range(problem.n))
        again = hetsim.partition(problem, info.name)
        assert again == made


def test_a_repaired_partition_says_so() -> None:
    for seed in range(200):
        rng = random.Random(seed)
        n = 12
        pairs = sorted({tuple(sorted(rng.sample(range(n), 2))) for _ in range(20)})
        edges = [(u, v, 1) for u, v in pairs]
        seconds = [[1.0, 1.0 if rng.random() < 0.6 else float("inf")] for _ in range(n)]
        problem = Problem.from_arrays(seconds, edges=edges, host=0)
        if hetsim.partition(problem, "greedy").notes:
            break
    else:
        pytest.fail("no instance needed a repair")
    made = hetsim.partition(problem, "greedy")
    assert "split" in made.notes[0]
    assert hetsim.partition(problem, "compact").notes == ()


def test_priority_decides_and_unknown_names_are_refused() -> None:
    problem = Problem.from_arrays(
        [[1, 1], [1, float("inf")]], edges=[(0, 1, 4)], devices=("cpu", "npu"), host=0
    )
    assert hetsim.partition(problem).groups == (
        hetsim.Group("npu", (0,)),
        hetsim.Group("cpu", (1,)),
    )
    assert len(hetsim.partition(problem, priority=["cpu"]).groups) == 1
    with pytest.raises(UnsupportedNode, match=r"node 'n1'.*npu: inf in seconds"):
        hetsim.partition(problem, priority=["npu"])
    with pytest.raises(UsageError, match="did you mean 'compact'"):
        hetsim.partition(problem, "compakt")
    with pytest.raises(UsageError, match="did you mean 'npu'"):
        hetsim.partition(problem, priority=["npuu"])
