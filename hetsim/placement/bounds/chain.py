"""A chain of nodes that the work of a model lies between, rather than beside."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hetsim.placement.bounds.paths import Setting

SIDE = 0.003
"""Work beside a node of the chain, as a share of all work, up to which it is kept."""

Near = tuple[tuple[tuple[int, int], ...], ...]
"""By node of a gap: (neighbour's place in the gap, bytes)."""


@dataclass(frozen=True, slots=True)
class Gap:
    """What lies between two nodes of a chain that follow one another.

    Attributes
    ----------
    nodes : tuple of int
        The two, and between them, in the graph's order, what the first reaches and what reaches
        the second.
    before : by node, tuple of (place in `nodes`, bytes)
        Producers among `nodes`.
    least_bytes : int
        Of the smallest tensor among them.
    """

    nodes: tuple[int, ...]
    before: Near
    least_bytes: int


def chain_of(setting: Setting) -> list[Gap]:
    """Return the gaps of a chain: nodes of a longest path beside which hardly any work lies.

    Nodes on the path stand at 0, 1, ...; any other lies beside those behind the last that
    reaches it and before the first that it reaches. Any nodes of a path would do for a bound;
    work that lies beside one of the chain is in no gap, and so in no sum over gaps.

    O(V + E).
    """
    path = _longest(setting)
    place = {node: at for at, node in enumerate(path)}
    behind, ahead = _reached(setting, place)
    kept = _kept(setting, place, behind, ahead)
    # By place on the path: the gap that begins at it or holds it.
    gap_of = (np.searchsorted(kept, np.arange(len(path)), side="right") - 1).tolist()
    inside: list[list[int]] = [[] for _ in kept[1:]]
    chosen = {path[at] for at in kept}
    for v in range(len(setting.shares)):
        if v in chosen or behind[v] < 0 or ahead[v] == len(path):
            continue
        gap = gap_of[behind[v]]
        if 0 <= gap < len(inside) and ahead[v] <= kept[gap + 1]:
            inside[gap].append(v)
    return [
        _gap(setting, (path[first], *inside[gap], path[last]))
        for gap, (first, last) in enumerate(pairwise(kept))
    ]


def _longest(setting: Setting) -> list[int]:
    """Return the path of most work, each node on the device that suits it best."""
    ends = setting.shares.min(axis=1).tolist()
    came_from = [-1] * len(ends)
    for v, near in enumerate(setting.before.rows):
        longest = -1.0
        for u, _ in near:
            if ends[u] > longest:
                longest, came_from[v] = ends[u], u
        ends[v] += max(longest, 0.0)
    path = []
    v = int(np.argmax(ends)) if ends else -1
    while v >= 0:
        path.append(v)
        v = came_from[v]
    return path[::-1]


def _reached(setting: Setting, place: dict[int, int]) -> tuple[list[int], list[int]]:
    """Return by node the last of the path before it, and the first behind it; -1 and its length."""
    n, length = len(setting.shares), len(place)
    behind, ahead = [-1] * n, [length] * n
    for v, near in enumerate(setting.before.rows):
        behind[v] = max((place.get(u, behind[u]) for u, _ in near), default=-1)
    for v in range(n - 1, -1, -1):
        ahead[v] = min((place.get(w, ahead[w]) for w, _ in setting.after.rows[v]), default=length)
    return behind, ahead


def _kept(
    setting: Setting, place: dict[int, int], behind: list[int], ahead: list[int]
) -> list[int]:
    """Return the places of the path beside which there is little work, ascending."""
    work = setting.shares.min(axis=1)
    beside = np.zeros(len(place) + 1)
    for v, seconds in enumerate(work.tolist()):
        if v not in place and behind[v] + 1 < ahead[v]:
            beside[behind[v] + 1] += seconds
            beside[ahead[v]] -= seconds
    # The difference of sums is 0 but for rounding where there is none.
    little = (SIDE + 1e-9) * float(work.sum())
    kept: list[int] = np.flatnonzero(beside.cumsum()[:-1] <= little).tolist()
    return kept


def _gap(setting: Setting, nodes: tuple[int, ...]) -> Gap:
    if len(nodes) == 2:
        first, last = nodes
        nbytes = dict(setting.before.rows[last])[first]
        return Gap(nodes, ((), ((0, nbytes),)), nbytes)
    at = {node: k for k, node in enumerate(nodes)}
    before: Near = (
        (),
        *(tuple((at[u], b) for u, b in setting.before.rows[v] if u in at) for v in nodes[1:]),
    )
    return Gap(nodes, before, min(b for near in before for _, b in near))
