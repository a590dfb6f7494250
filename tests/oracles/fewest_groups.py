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


def fewest_connected(dag: Dag, device_of: Sequence[int], known: int) -> int:
    """The minimum, where `known` groups are possible. Exponential in the inner edges."""
    edges = list(dag.edges())
    inner = [(u, v) for u, v in edges if device_of[u] == device_of[v]]
    best = known

    def search(at: int, labels: list[int], count: int) -> None:
        nonlocal best
        if count < best and acyclic(labels, edges):
            best = count
        # Each edge that is left can save one group at most.
        if at == len(inner) or count - (len(inner) - at) >= best:
            return
        a, b = labels[inner[at][0]], labels[inner[at][1]]
        if a != b:
            search(at + 1, [a if label == b else label for label in labels], count - 1)
        search(at + 1, labels, count)

    search(0, list(range(dag.n)), dag.n)
    return best
