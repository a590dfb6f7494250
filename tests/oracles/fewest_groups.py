"""The fewest connected groups there are, by trying every set of contractions."""

from __future__ import annotations

from collections.abc import Sequence

from hetsim.graph.dag import Dag


def acyclic(labels: Sequence[int], edges: Sequence[tuple[int, int]]) -> bool:
    """Whether the graph of equal labels has an execution order."""
    between = {(labels[u], labels[v]) for u, v in edges if labels[u] != labels[v]}
    waits = dict.fromkeys(labels, 0)
    for _, target in between:
        waits[target] += 1
    ready = [label for label, count in waits.items() if count == 0]
    done = 0
    while ready:
        source = ready.pop()
        done += 1
        for a, target in between:
            if a == source:
                waits[target] -= 1
                if waits[target] == 0:
                    ready.append(target)
    return done == len(waits)


def fewest_connected(
    dag: Dag, device_of: Sequence[int], known: tuple[int, int], host: int | None = None
) -> tuple[int, int]:
    """The least (groups off the host, groups), where `known` is possible; 0 without a host.

    Exponential in the inner edges.
    """
    edges = list(dag.edges())
    inner = [(u, v) for u, v in edges if device_of[u] == device_of[v]]
    weight = [int(host is not None and device != host) for device in device_of]
    # What contracting each edge and all after it can save at most.
    rest = [(0, 0)]
    for u, _ in reversed(inner):
        rest.append((rest[-1][0] + weight[u], rest[-1][1] + 1))
    rest.reverse()
    best = known

    def search(at: int, labels: list[int], cost: tuple[int, int]) -> None:
        nonlocal best
        if cost < best and acyclic(labels, edges):
            best = cost
        if at == len(inner) or (cost[0] - rest[at][0], cost[1] - rest[at][1]) >= best:
            return
        u, v = inner[at]
        a, b = labels[u], labels[v]
        if a != b:
            merged = [a if label == b else label for label in labels]
            search(at + 1, merged, (cost[0] - weight[u], cost[1] - 1))
        search(at + 1, labels, cost)

    search(0, list(range(dag.n)), (sum(weight), dag.n))
    return best
