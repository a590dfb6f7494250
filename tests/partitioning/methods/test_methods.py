"""Every merge method gives valid partitions; compact is compared with exhaustive search."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import dags
from hetsim.graph.dag import Dag
from hetsim.partitioning.methods import compact, stage
from hetsim.problem.groups import as_groups, order_groups
from hetsim.problem.validator import problems_of
from merge_graphs import random_graphs
from oracles.fewest_groups import fewest_connected
from sweeps import examples, sweep

NAMES = ("a", "b", "c")


def set_partitions(items: list[int]) -> Iterator[list[int]]:
    """Yield every way to label `items`, as restricted growth strings."""

    def grow(labels: list[int], used: int) -> Iterator[list[int]]:
        if len(labels) == len(items):
            yield labels
            return
        for label in range(used + 1):
            yield from grow([*labels, label], max(used, label + 1))

    yield from grow([], 0)


def size(labels: Sequence[int], device_of: Sequence[int], host: int | None) -> tuple[int, int]:
    """Groups off the host, 0 where there is none, and groups in all."""
    groups = dict(zip(labels, device_of, strict=True))
    off = [device for device in groups.values() if host is not None and device != host]
    return len(off), len(groups)


@sweep("graphs", quick=[300], full=[300, 1500])
def test_compact_is_minimal_on_small_graphs(graphs: int) -> None:
    both = 0
    for seed in range(graphs):
        rng = random.Random(seed)
        n, kinds = rng.randint(6, 11), rng.randint(1, 4)
        pairs = [(u, v) for v in range(n) for u in range(v)]
        edges = rng.sample(pairs, min(len(pairs), rng.randint(n - 2, int(1.6 * n))))
        dag = Dag.from_edges(n, edges)
        device_of = [rng.randrange(kinds) for _ in range(n)]
        found = size(compact.merge(dag, device_of), device_of, None)
        assert found == fewest_connected(dag, device_of, found)
        host = kinds - 1
        hosted = size(compact.merge(dag, device_of, host), device_of, host)
        assert hosted == fewest_connected(dag, device_of, hosted, host)
        both += hosted[1] == found[1]
    # Both cannot always be had: a group elsewhere may cost one of the host's.
    assert graphs * 0.99 < both < graphs


def test_stage_is_minimal_on_two_devices() -> None:
    for seed in range(150):
        rng = random.Random(seed)
        n = rng.randint(3, 6)
        pairs = [(u, v) for v in range(n) for u in range(v)]
        dag = Dag.from_edges(n, rng.sample(pairs, min(len(pairs), n)))
        device_of = [rng.randint(0, 1) for _ in range(n)]
        valid = [
            list(ways)
            for ways in set_partitions(list(range(n)))
            if len({(ways[v], device_of[v]) for v in range(n)}) == len(set(ways))
            and order_groups(dag, ways) is not None
        ]
        least = min(size(ways, device_of, None) for ways in valid)
        assert size(stage.merge(dag, device_of), device_of, None) == least
        for host in (0, 1):
            off = min(size(ways, device_of, host)[0] for ways in valid)
            assert size(stage.merge(dag, device_of, host), device_of, host)[0] == off


def copies(one: Dag, count: int) -> Dag:
    """Many copies of a graph side by side, their nodes dealt out in turn."""
    edges = [(u * count + k, v * count + k) for u, v in one.edges() for k in range(count)]
    return Dag.from_edges(one.n * count, edges)


def test_compact_scans_large_graphs_from_both_ends() -> None:
    """From the sources alone the scan leaves one group too many in each of the copies."""
    edges = [(0, 1), (0, 2), (0, 3), (0, 4), (1, 3), (1, 4), (2, 3), (2, 4)]
    kinds = [1, 1, 0, 1, 1]
    for mirrored in (False, True):
        one = Dag.from_edges(5, [(4 - v, 4 - u) for u, v in edges] if mirrored else edges)
        kinds = kinds[::-1] if mirrored else kinds
        fewest = size(compact.merge(one, kinds), kinds, None)
        assert fewest == fewest_connected(one, kinds, fewest)
        count = compact.THOROUGH_UP_TO // 5 + 1
        device_of = [kind for kind in kinds for _ in range(count)]
        found = compact.merge(copies(one, count), device_of)
        assert len(set(found)) == fewest[1] * count


@examples(quick=20, full=60)
@given(dags(9), st.data())
def test_compact_of_large_graphs_by_definition(dag: Dag, data: st.DataObject) -> None:
    """With few nodes, as if they were many: groups are valid, and the others' come first."""
    device_of = data.draw(st.lists(st.integers(0, 2), min_size=dag.n, max_size=dag.n))
    visits = data.draw(st.sampled_from([compact.VISITS_WITH_HOST, 0]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compact, "THOROUGH_UP_TO", 0)
        patch.setattr(compact, "LEAST_BUDGETED", 1)
        patch.setattr(compact, "VISITS_WITH_HOST", visits)
        for host in (None, 0):
            labels = compact.merge(dag, device_of, host)
            parts = order_groups(dag, labels)
            assert parts is not None
            groups = as_groups(parts, device_of, NAMES)
            assert problems_of(dag, groups, NAMES, connected=True) == []
            # An edge within a device is left open only where closing it would close a circle.
            for u, v in dag.edges():
                if visits and device_of[u] == device_of[v] and labels[u] != labels[v]:
                    joined = [labels[u] if label == labels[v] else label for label in labels]
                    assert order_groups(dag, joined) is None


def test_compact_makes_the_fewest_groups_beside_the_host_of_large_graphs() -> None:
    """Scanned with the host's nodes among them, every copy has two groups elsewhere, not one."""
    edges = [(0, 2), (0, 4), (0, 6), (1, 3), (1, 4), (2, 3), (2, 5), (2, 6), (4, 6)]
    kinds = [1, 0, 1, 0, 1, 0, 1]
    one = Dag.from_edges(7, edges)
    count = compact.THOROUGH_UP_TO // 7 + 1
    device_of = [kind for kind in kinds for _ in range(count)]
    assert fewest_connected(one, kinds, (1, 4), 0) == (1, 4)
    found = compact.merge(copies(one, count), device_of, 0)
    assert size(found, device_of, 0) == (count, 4 * count)


def test_compact_falls_back_when_the_budget_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(0)
    n = 300
    dag = Dag.from_edges(n, {tuple(sorted(rng.sample(range(n), 2))) for _ in range(900)})  # type: ignore[misc]
    device_of = [rng.randint(0, 1) for _ in range(n)]
    monkeypatch.setattr(compact, "VISITS_PER_EDGE", 0)
    parts = order_groups(dag, compact.merge(dag, device_of))
    assert parts is not None
    assert problems_of(dag, as_groups(parts, device_of, NAMES), NAMES, connected=True) == []


def test_compact_ends_early_where_there_are_no_fewer_groups() -> None:
    met = 0
    for _, dag, device_of in random_graphs(0):
        for host in (None, 0):
            labels = compact.merge(dag, device_of, host)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(compact, "MOST_COUNTED", -1)
                assert compact.merge(dag, device_of, host) == labels
            least, found = compact._least(dag, device_of, host), size(labels, device_of, host)
            assert least[0] <= found[0]
            assert least[1] <= found[1]
            met += least == found
    assert met > 100
