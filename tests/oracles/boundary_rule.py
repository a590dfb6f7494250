"""The boundary method word for word: rounds over the whole graph, with sets. Slow and plain."""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx

from hetsim.partitioning.methods.boundary import Wiring

Input = tuple[int, int]
"""An input as (node, port); a parameter or a constant has the one input (node, -1)."""


def groups(wiring: Wiring, boundaries: set[Input]) -> list[int]:
    whole = nx.Graph()
    whole.add_nodes_from(range(wiring.n))
    for v, sources in enumerate(wiring.inputs):
        whole.add_edges_from((u, v) for k, u in enumerate(sources) if (v, k) not in boundaries)
    label = [0] * wiring.n
    for part in nx.connected_components(whole):
        for node in part:
            label[node] = min(part)
    return label


def roots(wiring: Wiring) -> set[Input]:
    """Each node that reads nothing has an input of its own."""
    return {(v, -1) for v in range(wiring.n) if wiring.is_source[v] or not wiring.inputs[v]}


def promoted(wiring: Wiring, boundaries: set[Input]) -> set[Input]:
    """The inputs that one round of the re-entry rule promotes."""
    n = wiring.n
    label = groups(wiring, boundaries)
    marks = boundaries | roots(wiring)
    above: list[set[Input]] = []
    for v in range(n):
        mine = {(v, -1)} & marks
        for k, u in enumerate(wiring.inputs[v]):
            mine |= above[u] | ({(v, k)} & marks)
        above.append(mine)

    def source(mark: Input) -> int:
        return wiring.inputs[mark[0]][mark[1]]

    entering = [{m for m in above[v] if label[m[0]] == label[v]} for v in range(n)]
    returning = [
        {m for m in above[v] if m[1] >= 0 and label[source(m)] == label[v]} for v in range(n)
    ]
    sole = iter(wiring.sole)
    alone = {(v, k): next(sole) for v in range(n) for k in range(len(wiring.inputs[v]))}
    found: set[Input] = set()
    for v in range(n):
        if not returning[v]:
            continue
        reach: set[Input] = set()
        for mark in returning[v]:
            reach |= entering[source(mark)]
        for mark in entering[v]:
            if mark[1] >= 0 and label[source(mark)] != label[v]:
                reach |= entering[mark[0]]
        for k, u in enumerate(wiring.inputs[v]):
            if returning[u] & returning[v] or not reach & entering[u]:
                continue
            leaf = (
                alone[v, k]
                and not wiring.is_source[u]
                and not returning[u]
                and all(m[1] < 0 or wiring.is_source[source(m)] for m in entering[u])
            )
            if not leaf:
                found.add((v, k))
    return found - boundaries


def isolated(wiring: Wiring, boundaries: set[Input]) -> set[Input]:
    """The inputs of the node that is isolated next; empty where no groups feed each other."""
    label = groups(wiring, boundaries)
    condensed = nx.DiGraph()
    for v, sources in enumerate(wiring.inputs):
        condensed.add_edges_from((label[u], label[v]) for u in sources if label[u] != label[v])
    cyclic = set().union(
        *(part for part in nx.strongly_connected_components(condensed) if len(part) > 1)
    )

    def leaf(u: int) -> bool:
        only_sources = all(wiring.is_source[s] for s in wiring.inputs[u])
        return not wiring.is_source[u] and wiring.op_readers[u] == 1 and only_sources

    best: tuple[tuple[bool, bool, bool, bool, int, int], set[Input]] | None = None
    for v in range(wiring.n):
        if label[v] not in cyclic:
            continue
        ports = list(enumerate(wiring.inputs[v]))
        inner = [(k, u) for k, u in ports if (v, k) not in boundaries]
        outer = [label[u] for k, u in ports if (v, k) in boundaries]
        if not inner:
            continue
        rank = (
            not any(other != label[v] and other in cyclic for other in outer),
            not any(wiring.op_readers[u] > 1 for _, u in inner),
            any(leaf(u) for _, u in inner),
            len(inner) == 1 and wiring.op_readers[v] <= 1,
            len(inner),
            v,
        )
        if best is None or rank < best[0]:
            best = (rank, {(v, k) for k, _ in inner})
    assert best is not None or not cyclic
    return best[1] if best else set()


def boundary_groups(wiring: Wiring, device_of: Sequence[int]) -> tuple[list[int], set[Input]]:
    """Group labels and boundaries by the rule as it is stated."""
    boundaries = {
        (v, k)
        for v, sources in enumerate(wiring.inputs)
        for k, u in enumerate(sources)
        if device_of[u] != device_of[v]
    }
    while more := promoted(wiring, boundaries):
        boundaries |= more
    while more := isolated(wiring, boundaries):
        boundaries |= more
    return groups(wiring, boundaries), boundaries
