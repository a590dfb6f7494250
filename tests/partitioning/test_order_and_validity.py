"""Orders, validity and edges that are found on arrays, against the rules as they are stated."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import networkx as nx

import hetsim
from hetsim.errors import PartitionError
from hetsim.graph.dag import Dag
from hetsim.problem.groups import Group, order_groups
from hetsim.problem.problem import Problem
from hetsim.problem.validator import check
from sweeps import sweep


def random_edges(rng: random.Random, n: int) -> list[tuple[int, int]]:
    reach = rng.choice((2, 6, n))
    pairs = ((max(0, v - rng.randint(1, reach)), v) for v in range(1, n) for _ in range(3))
    return sorted({pair for pair in pairs if rng.random() < 0.6})


def graphs(seed: int, count: int) -> Iterator[tuple[random.Random, Dag]]:
    rng = random.Random(seed)
    for _ in range(count):
        n = rng.randint(1, 40)
        yield rng, Dag.from_edges(n, random_edges(rng, n))


def in_order(
    dag: Dag, labels: Sequence[int], rank: Sequence[float] | None
) -> list[tuple[int, ...]] | None:
    """At every step the group of the least rank among those that could stand next."""
    members: dict[int, list[int]] = {}
    for node, label in enumerate(labels):
        members.setdefault(label, []).append(node)
    waiting = list(members.values())
    done: set[int] = set()
    order: list[tuple[int, ...]] = []
    while waiting:
        ready = [
            nodes
            for nodes in waiting
            if all(u in done or u in nodes for v in nodes for u in dag.preds[v])
        ]
        if not ready:
            return None
        ranks = range(dag.n) if rank is None else rank
        least = min(ready, key=lambda nodes: min((ranks[v], v) for v in nodes))
        waiting.remove(least)
        done.update(least)
        order.append(tuple(least))
    return order


@sweep("seed", quick=[0], full=range(20))
def test_the_least_rank_comes_first_among_groups_that_could_stand_next(seed: int) -> None:
    circles = 0
    for rng, dag in graphs(seed, 200):
        # Few circles, or none: labels that ascend along most edges.
        nodes = range(dag.n)
        ways = (
            [v // rng.randint(1, 3) for v in nodes],
            [rng.randrange(40) for _ in nodes],
            [-(10**9) * (v // 2) for v in nodes],
        )
        labels = rng.choice(ways)
        rank = rng.choice((None, [rng.choice((0.0, 1.5, -2.0)) for _ in range(dag.n)]))
        expected = in_order(dag, labels, rank)
        assert order_groups(dag, labels, rank) == expected
        circles += expected is None
    assert 10 < circles < 190


def is_valid(problem: Problem, groups: Sequence[Group], *, connected: bool) -> bool:
    """By the rules as they are stated, on sets."""
    dag, [pair] = problem.dag, [kernel.nodes for kernel in problem.composites]
    place = {v: at for at, group in enumerate(groups) for v in group.nodes}
    if sorted(v for group in groups for v in group.nodes) != list(range(dag.n)):
        return False
    if any(place[u] > place[v] for u, v in dag.edges()):
        return False
    for group in groups:
        nodes = set(group.nodes)
        if not nodes or list(group.nodes) != sorted(nodes) or group.device not in problem.devices:
            return False
        whole = group.device == "d1" and nodes >= set(pair)
        column = problem.devices.index(group.device)
        if any(not problem.supported[v, column] and not (whole and v in pair) for v in nodes):
            return False
        graph = nx.Graph()
        graph.add_nodes_from(nodes)
        graph.add_edges_from((u, v) for u in nodes for v in dag.succs[u] if v in nodes)
        if whole:
            nx.add_path(graph, pair)
        if connected and not nx.is_connected(graph):
            return False
    return True


@sweep("seed", quick=[0], full=range(20))
def test_what_breaks_a_rule_is_refused_and_nothing_else(seed: int) -> None:
    """Right partitions, and ones that were broken in every way."""
    broken = 0
    for rng, dag in graphs(seed, 60):
        table = [[1.0, 1.0 if rng.random() < 0.6 else float("inf")] for _ in range(dag.n)]
        pair = tuple(sorted(rng.sample(range(dag.n), 2))) if dag.n > 1 else (0,)
        problem = Problem.from_arrays(
            table, [(u, v, 1) for u, v in dag.edges()], composites=[(1, pair, 1.0)]
        )
        method = rng.choice(("stage", "compact"))
        groups = list(hetsim.partition(problem, method).groups)
        for way in range(8):
            made = damaged(rng, groups, way, dag.n)
            for connected in (False, True):
                told = complaints(problem, made, connected=connected)
                assert (told == ()) == is_valid(problem, made, connected=connected)
                broken += told != ()
    assert broken > 100


def damaged(rng: random.Random, groups: Sequence[Group], way: int, n: int) -> list[Group]:
    """The groups, or with a fault in them."""
    made = list(groups)
    at = rng.randrange(len(made))
    group = made[at]
    if way == 1:
        made[at] = Group("d1" if group.device == "d0" else "d0", group.nodes)
    elif way == 2:
        made[at] = Group("unknown", group.nodes)
    elif way == 3:
        made[at] = Group(group.device, group.nodes[1:])
    elif way == 4:
        made[at] = Group(group.device, tuple(sorted({*group.nodes, rng.randrange(n)})))
    elif way == 5:
        made.reverse()
    elif way == 6:
        made[at] = Group(group.device, group.nodes[::-1])
    elif way == 7:
        other = made.pop(rng.randrange(len(made)))
        if made:
            last = made[-1]
            made[-1] = Group(last.device, tuple(sorted(last.nodes + other.nodes)))
    return made


def complaints(problem: Problem, groups: Sequence[Group], *, connected: bool) -> tuple[str, ...]:
    try:
        check(problem, groups, connected=connected)
    except PartitionError as error:
        return error.complaints
    return ()
