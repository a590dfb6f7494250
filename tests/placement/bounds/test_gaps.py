"""Chains, their gaps and what crossing one takes, from the definitions in plain loops."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.placement.bounds.chain import (
    PRICE_STEPS,
    SIDE,
    Gap,
    chain_of,
    crossings,
    lifted,
    through,
    units_of,
)
from hetsim.placement.bounds.paths import Setting, heads, tails
from hetsim.problem.problem import Problem
from oracles.every_join import earliest
from sweeps import examples

seeds = st.integers(0, 2**32 - 1)
INF = float("inf")


def drawn(seed: int, most_nodes: int = 12, most_devices: int = 3) -> Problem:
    """Blocks of branches one after another, some with an edge beside; no two paths alike."""
    draw = np.random.default_rng(seed)
    edges: set[tuple[int, int]] = set()
    last, n = 0, 1
    while n < most_nodes - 3:
        width = int(draw.integers(0, 4))
        inner = range(n, n + width)
        after = n + width
        for v in inner:
            edges.add((last, v) if draw.random() < 0.7 or v == n else (v - 1, v))
            if draw.random() < 0.8:
                edges.add((v, after))
        edges.add((last, after))
        if last and draw.random() < 0.25:
            edges.add((0, after))
        last, n = after, after + 1
    count = int(draw.integers(1, most_devices + 1))
    seconds = draw.uniform(0.01, 3.0, (n, count))
    seconds[draw.random(n) < 0.3] *= 1e-3
    seconds[:, 1:][draw.random((n, count - 1)) < 0.15] = INF
    return Problem.from_arrays(
        seconds,
        [(u, v, int(draw.integers(0, 9))) for u, v in sorted(edges)],
        latency_s=draw.integers(0, 5, (count, count)) / 8,
        bytes_per_s=8.0,
        dispatch_s=draw.integers(0, 8, count) / 8,
        streams=draw.integers(1, 3, count).tolist(),
        contention="none",
    )


@examples(quick=30, full=600)
@given(seeds)
def test_a_chain_is_of_a_longest_path_beside_which_hardly_any_work_lies(seed: int) -> None:
    problem = drawn(seed)
    setting = Setting.of(problem)
    work = setting.shares.min(axis=1)
    graph = nx.DiGraph()
    graph.add_nodes_from(range(problem.n))
    # What a node takes lies on the edges that leave it, and on one to an end behind all.
    graph.add_weighted_edges_from((u, v, work[u]) for u, v in problem.dag.edges())
    graph.add_weighted_edges_from((u, "end", work[u]) for u in range(problem.n))
    path = nx.dag_longest_path(graph)[:-1]
    graph.remove_node("end")
    kept = []
    for node in path:
        known = {node} | nx.ancestors(graph, node) | nx.descendants(graph, node)
        beside = sum(work[v] for v in range(problem.n) if v not in known)
        if beside <= SIDE * work.sum():
            kept.append(node)
    gaps = chain_of(setting)
    assert [gap.nodes[0] for gap in gaps] == kept[:-1]
    assert [gap.nodes[-1] for gap in gaps] == kept[1:]
    for gap in gaps:
        first, last = gap.nodes[0], gap.nodes[-1]
        between = nx.descendants(graph, first) & nx.ancestors(graph, last)
        # Of the nodes of the path between the two, those that are not kept lie in it as well.
        assert gap.nodes == (first, *sorted(between), last)
        at = {node: place for place, node in enumerate(gap.nodes)}
        largest: dict[tuple[int, int], int] = {}
        for value in problem.values:
            for v in value.consumers:
                pair = (value.producer, v)
                largest[pair] = max(largest.get(pair, 0), value.nbytes)
        inner = {p: b for p, b in largest.items() if p[0] in at and p[1] in at and p[1] != first}
        assert gap.before == tuple(
            tuple(sorted((at[u], b) for (u, w), b in inner.items() if w == v)) for v in gap.nodes
        )
        assert gap.least_bytes == min(inner.values())


def quickest_way(setting: Setting, p: int, q: int, nbytes: int) -> float:
    """Travel of so many bytes by whatever devices, with a dispatch at each between."""
    count = setting.shares.shape[1]
    graph = nx.DiGraph()
    graph.add_nodes_from(range(count))
    for a, b in itertools.permutations(range(count), 2):
        travel = float(setting.latency_s[a, b] + setting.per_byte_s[a, b] * nbytes)
        graph.add_edge(a, b, weight=travel + (setting.dispatch_s[b] if b != q else 0.0))
    found: float = nx.dijkstra_path_length(graph, p, q)
    return found


def dealt(setting: Setting, gap: Gap, p: int, q: int, line: set[int]) -> float:
    """X + M + Y by the docstring of ``crossings``, each device a kind of its own."""
    count = setting.shares.shape[1]
    nodes = gap.nodes[1:-1]
    shares, dispatch = setting.shares, setting.dispatch_s
    way = quickest_way(setting, p, q, gap.least_bytes)
    least = sum(min(shares[v, p], shares[v, q]) for v in nodes) + way
    over = [
        quickest_way(setting, p, r, gap.least_bytes)
        + dispatch[r]
        + quickest_way(setting, r, q, gap.least_bytes)
        for r in range(count)
    ]
    for size in range(1, count + 1):
        for chosen in itertools.combinations(range(count), size):
            best = -INF
            steps = PRICE_STEPS[size]
            for parts in itertools.product(range(steps + 1), repeat=size + 1):
                if sum(parts) > steps:
                    continue
                *price, k = (part / steps for part in parts)
                total = sum(
                    min(
                        shares[v, p],
                        shares[v, q],
                        min(
                            (each / setting.streams[r] + k * (v in line)) * shares[v, r]
                            if np.isfinite(shares[v, r])
                            else INF
                            for each, r in zip(price, chosen, strict=True)
                        ),
                    )
                    for v in nodes
                )
                starts = [over[r] for r in chosen]
                total += sum(each * o for each, o in zip(price, starts, strict=True))
                total += k * min(starts) + (1 - k - sum(price)) * max(starts)
                best = max(best, total)
            least = min(least, best)
    return float(least)


@examples(quick=12, full=120)
@given(seeds)
def test_crossing_a_gap_takes_the_least_over_all_sets_of_devices(seed: int) -> None:
    problem = drawn(seed, 8, 2)
    setting = Setting.of(problem)
    gaps = chain_of(setting)
    if not gaps:
        return
    count = len(problem.devices)
    found = crossings(setting, [[p] for p in range(count)], gaps)
    for gap, within, across in zip(gaps, found.within, found.across, strict=True):
        nodes = gap.nodes[1:-1]
        assert within == pytest.approx(setting.shares[list(nodes)].sum(axis=0))
        # A path of most work among the nodes between.
        work = {v: float(setting.shares[v].min()) for v in nodes}
        paths = nx.DiGraph()
        paths.add_nodes_from(["begin", "end"])
        for v in nodes:
            paths.add_edge("begin", v, weight=0.0)
            paths.add_edge(v, "end", weight=work[v])
            paths.add_weighted_edges_from(
                (u, v, work[u]) for u in problem.dag.preds[v] if u in work
            )
        line = set(nx.dag_longest_path(paths)) - {"begin", "end"} if nodes else set()
        for p, q in itertools.product(range(count), repeat=2):
            expected = dealt(setting, gap, p, q, line) + float(setting.dispatch_s[q])
            assert across[p, q] == pytest.approx(expected, rel=1e-9, abs=1e-12)


@examples(quick=20, full=200)
@given(seeds)
def test_the_way_through_a_gap_is_that_of_groups_at_both_ends_and_any_between(seed: int) -> None:
    """Device 0 stands for the group of the first node, the last for that of the last one."""
    problem = drawn(seed, 8)
    setting = Setting.of(problem)
    count = len(problem.devices)
    for gap, p, q in itertools.product(chain_of(setting), range(count), range(count)):
        stands_for = [p, *range(count), q]
        share = setting.shares[np.ix_(gap.nodes, stands_for)]
        share[0] = [0.0, *[INF] * (count + 1)]
        share[-1] = [*[INF] * (count + 1), 0.0]

        def enter(a: int, b: int, nbytes: int, own: Sequence[int] = stands_for) -> float:
            # Nothing is sent to the first group, nor by the last: groups are in no circle.
            if b == 0 or a == len(own) - 1:
                return INF
            s, t = own[a], own[b]
            way = setting.latency_s[s, t] + setting.per_byte_s[s, t] * nbytes if s != t else 0.0
            return float(way + setting.dispatch_s[t])

        found = earliest(
            range(len(gap.nodes)),
            [dict(near) for near in gap.before],
            share,
            np.zeros_like(share),
            enter,
            (1, *setting.streams, 1),
        )
        assert through(setting, gap, p, q) == pytest.approx(found[-1, -1])


@examples(quick=20, full=200)
@given(seeds)
def test_nodes_of_a_chain_start_where_gap_after_gap_lets_them(seed: int) -> None:
    """No later than by the gaps of one group alone, and no sooner than each gap by itself says."""
    problem = drawn(seed, 10)
    setting = Setting.of(problem)
    gaps = chain_of(setting)
    higher = lifted(setting, units_of(problem))
    assert higher.shares is setting.shares
    chain = {gap.nodes[0] for gap in gaps} | {gap.nodes[-1] for gap in gaps}
    for v in set(range(problem.n)) - chain:
        assert higher.arrival_s[v].tolist() == setting.arrival_s[v].tolist()
        assert higher.return_s[v].tolist() == setting.return_s[v].tolist()
    if not gaps:
        return
    count = len(problem.devices)
    found = crossings(setting, [[p] for p in range(count)], gaps)
    head, tail = heads(setting, setting.shares), tails(setting, setting.shares)
    least = np.minimum(
        found.across, np.where(np.eye(count, dtype=bool), found.within[:, None, :], INF)
    )
    for gap, between in zip(gaps, least, strict=True):
        first, last = gap.nodes[0], gap.nodes[-1]
        soonest = (head[first] + setting.shares[first])[:, None] + between
        assert (higher.arrival_s[last] >= soonest.min(axis=0) - 1e-9).all()
        behind = (tail[last] + setting.shares[last])[None, :] + between
        assert (higher.return_s[first] >= behind.min(axis=1) - 1e-9).all()


def test_a_row_of_nodes_is_a_chain_of_gaps_with_nothing_between() -> None:
    problem = Problem.from_arrays(
        [[1.0, 2.0]] * 3, [(0, 1, 4), (1, 2, 8)], latency_s=0.5, bytes_per_s=8.0, dispatch_s=0.25
    )
    setting = Setting.of(problem)
    assert [(gap.nodes, gap.before, gap.least_bytes) for gap in chain_of(setting)] == [
        ((0, 1), ((), ((0, 4),)), 4),
        ((1, 2), ((), ((0, 8),)), 8),
    ]
    found = crossings(setting, units_of(problem), chain_of(setting))
    assert found.within.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    # A dispatch on the same device, the way and a dispatch to another.
    assert found.across.tolist() == [[[0.25, 1.25], [1.25, 0.25]], [[0.25, 1.75], [1.75, 0.25]]]
    assert chain_of(Setting.of(replace(problem, values=()))) == []
    assert chain_of(Setting.of(Problem.from_arrays(np.zeros((0, 2))))) == []
