"""Kernels without a name of the model's, matched by what ran before and after them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hetsim.cost.profiles.claims import Claims, elements_of, parts_of
from hetsim.cost.profiles.record import TimedKernel
from hetsim.cost.profiles.units import DENSE, LIGHT, dense_class, is_conversion, is_opaque
from hetsim.graph.graph import Graph

_TOKEN = re.compile(r"_token_\d+$")


def by_place(claims: Claims, own: Sequence[bool], *, sure: bool) -> set[int]:
    """Match kernels without a name by where they stand; return them.

    `sure`: the profile is of this model; else only compiled subgraphs are taken to be.
    """
    count = len(claims.kernels)
    named = [bool(nodes) for nodes in claims.nodes]
    lower, upper = _windows(claims, count)
    placed: set[int] = set()
    gap: list[int] = []
    for index in range(count + 1):
        if index < count and not named[index]:
            kernel = claims.kernels[index]
            # What says neither a node nor an op may be anything.
            tells = is_opaque(kernel) or (sure and kernel.op != "")
            if own[index] and index not in claims.folded and tells:
                gap.append(index)
            continue
        if gap:
            first = gap[0]
            open_nodes = [
                v for v in range(len(lower)) if claims.free(v) and lower[v] < first < upper[v]
            ]
            placed.update(_fill(claims, gap, open_nodes, lower))
        gap = []
    return placed


def _windows(claims: Claims, count: int) -> tuple[list[int], list[int]]:
    """By node: the last named kernel that must come before it, and the first one after it."""
    n = len(claims.graph.nodes)
    lower, upper = [-1] * n, [count] * n
    for v in range(n):
        for u in claims.dag.preds[v]:
            lower[v] = max(lower[v], *(claims.homes[u] or [lower[u]]))
    for v in reversed(range(n)):
        for u in claims.dag.succs[v]:
            upper[v] = min(upper[v], *(claims.homes[u] or [upper[u]]))
    return lower, upper


def _fill(
    claims: Claims, gap: Sequence[int], open_nodes: Sequence[int], lower: Sequence[int]
) -> list[int]:
    """Give the kernels of one gap the parts of the graph that fit there."""
    taken: set[int] = set()
    wanted: list[tuple[int, tuple[int, ...]]] = []
    for index in gap:
        kernel = claims.kernels[index]
        fit = [
            v for v in open_nodes
            if is_conversion(kernel) and v not in taken and _may_be(claims.graph, v, kernel)
        ]  # fmt: skip
        if fit:
            best = max(fit, key=lambda v: (lower[v], -v))
            taken.add(best)
            wanted.append((index, (best,)))
    open_nodes = [v for v in open_nodes if v not in taken]
    for index in gap:
        kernel = claims.kernels[index]
        if is_conversion(kernel):
            continue
        dense = dense_class(kernel)
        anything = is_opaque(kernel)
        alike = {v for v in open_nodes if claims.graph.nodes[v].op_type == kernel.op}
        allowed = [
            v for v in open_nodes
            if anything or claims.classes[v] in LIGHT or claims.classes[v] == dense
            or v in alike or (dense == "attention" and claims.classes[v] == "matmul")
        ]  # fmt: skip
        parts = parts_of(claims.dag, allowed)
        if dense is not None and not anything:
            parts = [part for part in parts if any(claims.classes[v] in DENSE for v in part)]
        if parts:
            best_part = max(
                parts,
                key=lambda part: (
                    not alike.isdisjoint(part),
                    taken.isdisjoint(part),
                    max(lower[v] for v in part),
                    -part[0],
                ),
            )
            taken.update(best_part)
            wanted.append((index, best_part))
    for index, part in wanted:
        claims.claim(index, part)
    return [index for index, _ in wanted]


def _may_be(graph: Graph, v: int, kernel: TimedKernel) -> bool:
    """Whether a conversion may be node `v`: op type, size, and the stem of a name made up."""
    node = graph.nodes[v]
    made_up = node.name not in node.origins
    same_stem = _TOKEN.sub("", node.name) == _TOKEN.sub("", kernel.name)
    return (
        node.op_type == kernel.op
        and _same_size(graph, v, kernel)
        and (same_stem if made_up else True)
    )


def _same_size(graph: Graph, v: int, kernel: TimedKernel) -> bool:
    """Whether a node's first output has as many elements as the kernel's, where both are known."""
    return kernel.elements is None or elements_of(graph, v) in (None, kernel.elements)
