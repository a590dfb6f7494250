"""The groups of the boundary method in large graphs, by machine code."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hetsim.base.code_folder import is_kept
from hetsim.base.machine_code import machine_code
from hetsim.graph.dag import Dag
from hetsim.partitioning.growing.kernels import pop, push
from hetsim.partitioning.methods.boundary import circles, reentries, splits
from hetsim.partitioning.methods.boundary.circles import Circles, cut_circles
from hetsim.partitioning.methods.boundary.reentries import Entry, cut_reentries
from hetsim.partitioning.methods.boundary.splits import Split, Wires, begin

Array = Any


def bounded(wires: Wires, state: Split, rule: Entry, graph: Circles, kind: Array) -> None:
    """Do what ``method.groups_of`` does for a DAG of operations; see `state.label`."""
    begin(wires, state, kind)
    cut_reentries(wires, state, rule)
    cut_circles(wires, state, graph)


PARTS = (
    push, pop, begin, splits.end, splits.promote, splits.last, splits.joined, splits.found,
    splits.split,
    reentries.begin_entry, reentries.unwatch, reentries.watch, reentries.trace,
    reentries.origin_of, reentries.entered, reentries.share, reentries.settle, cut_reentries,
    circles.begin_circles, circles.far, circles.add, circles.drop, circles.mutual,
    circles.separate, circles.closed, circles.cycle, circles.keep, circles.on_cycle,
    circles.holds, circles.rank, circles.isolate, circles.offer, cut_circles,
)  # fmt: skip


@functools.cache
def compiled_bounds() -> Callable[..., Any]:
    """Return ``bounded`` as machine code."""
    return machine_code(bounded, *PARTS, inline=True)


def bounds_are_kept() -> bool:
    """Return whether that is most likely kept."""
    return is_kept(bounded, *PARTS, inline=True)


def groups_of(dag: Dag, device_of: Sequence[int]) -> list[int]:
    """Return a label a node: the groups of ``method.groups_of``."""
    n, preds, succs = dag.n, dag.pred_rows, dag.succ_rows
    edges = preds.node.size

    def ints(*sizes: int) -> list[Array]:
        return [np.empty(size, dtype=np.int64) for size in sizes]

    def flags(size: int) -> Array:
        return np.empty(size, dtype=np.bool_)

    out = np.argsort(preds.node, kind="stable")
    wires = Wires(preds.at, succs.at, preds.node, preds.owner, out)
    state = Split(
        flags(edges), *ints(n, 2 * edges, 2 * edges, n, n, n, n + 1, *[n] * 8, n + 1, n, 3)
    )
    labels = 2 * n + 1
    rule = Entry(
        flags(n), flags(n), *ints(*[n] * 13, 2 * n, labels, n, labels, edges, labels),
        *ints(edges, edges, 2),
    )  # fmt: skip
    ways, ends = 2 * labels, 2 * edges
    room = ints(4 * n + 4, labels, labels, *[ways] * 3, *[labels] * 5, 2 * n + 2, n, 7)
    graph = Circles(*(*ints(labels, ways, ends, ends), flags(edges), *room))
    compiled_bounds()(wires, state, rule, graph, np.array(device_of, dtype=np.int64))
    found: list[int] = state.label.tolist()
    return found
