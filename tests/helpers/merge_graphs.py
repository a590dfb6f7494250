"""Graphs in which merge methods meet all that can happen to groups, and their nodes' kinds."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from hetsim.graph.dag import Dag, joined
from hetsim.partitioning import condensed
from hetsim.partitioning.scans import graph_of_groups

GRAPHS = 100


def layers(n: int, rng: random.Random) -> Dag:
    """Layers of 12 nodes; few edges skip some."""
    edges = set()
    for v in range(12, n):
        for _ in range(rng.randint(1, 2)):
            back = min(rng.randint(1, 9) if rng.random() < 0.05 else 1, v // 12)
            edges.add(((v // 12 - back) * 12 + rng.randrange(12), v))
    return Dag.from_edges(n, edges)


def blocks(n: int, rng: random.Random) -> Dag:
    """Blocks of ten nodes with branches that meet, bypassed by edges to their ends."""
    edges = set()
    for at in range(0, n - 10, 10):
        edges |= {(at, at + k) for k in (1, 2, 3, 6)} | {(at + k, at + 4) for k in (1, 2)}
        edges |= {(at + 3, at + 5), (at + 6, at + 9)} | {(at + k, at + k + 1) for k in range(4, 10)}
    return Dag.from_edges(n, edges)


def anywhere(n: int, rng: random.Random) -> Dag:
    """Edges between any two nodes, few of them."""
    pairs = (sorted(rng.sample(range(n), 2)) for _ in range(3 * n // 2))
    return Dag.from_edges(n, {(u, v) for u, v in pairs})


def fan(n: int, rng: random.Random) -> Dag:
    """One node feeds all, all feed one, and some each other."""
    edges = {(0, v) for v in range(1, n)} | {(v, n - 1) for v in range(1, n - 1)}
    edges |= {(v, v + rng.randint(1, 3)) for v in range(1, n - 4) if rng.random() < 0.3}
    return Dag.from_edges(n, edges)


def chain(n: int, rng: random.Random) -> Dag:
    return Dag.from_edges(n, [(v, v + 1) for v in range(n - 1)])


def islands(n: int, rng: random.Random) -> Dag:
    """Nodes without edges, and pairs."""
    return Dag.from_edges(n, [(v, v + 1) for v in range(0, n - 1, 3)])


SHAPES: dict[str, Callable[[int, random.Random], Dag]] = {
    one.__name__: one for one in (layers, blocks, anywhere, fan, chain, islands)
}


def random_graphs(seed: int) -> Iterator[tuple[random.Random, Dag, list[int]]]:
    """Layered, uniformly random and long-edged ones, and the kind of each node."""
    rng = random.Random(f"compiled {seed}")
    for _ in range(GRAPHS):
        n = rng.choice((0, 1, 2, 5, 12, 30, 60, 120))
        reach, kinds = rng.choice((2, 8, n)), rng.randint(1, 3)
        edges = {
            (max(0, v - rng.randint(1, reach)), v)
            for v in range(1, n)
            for _ in range(rng.choice((0, 1, 1, 2, 3)))
        }
        yield rng, Dag.from_edges(n, edges), [rng.randrange(kinds) for _ in range(n)]


def of_shape(shape: str, n: int = 600) -> Iterator[tuple[Dag, list[int]]]:
    """Large enough for windows to be moved, cycles of many groups and heaps that are cleared."""
    for seed in range(2):
        rng = random.Random(f"{shape} {seed}")
        dag = SHAPES[shape](n, rng)
        for share in (0.1, 0.3):
            yield dag, [int(rng.random() < share) for _ in range(dag.n)]


def drawn_labels(rng: random.Random, dag: Dag) -> list[int]:
    """Groups that are connected by half of the edges, in circles or not."""
    return joined(dag.n, [edge for edge in dag.edges() if rng.random() < 0.5])


class Condensed:
    """The graph of a DAG's groups on lists, contracted edge by edge."""

    def __init__(self, dag: Dag) -> None:
        lists: Any = [array.tolist() for array in graph_of_groups(dag)]
        self.groups, self.search = lists[:4], lists[9:]
        self.preds, self.succs = ([one[way] for one in lists[4:9]] for way in range(2))
        self.parent, self.position, self.following = lists[:3]

    def find(self, node: int) -> int:
        return condensed.find(self.parent, node)

    def contract(self, u: int, v: int) -> bool:
        return condensed.contract(self.groups, self.preds, self.succs, self.search, u, v)
