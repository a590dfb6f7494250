"""Runs of nodes in schedule order, on plain numbers: as they stand, or as machine code."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hetsim.base import left_to_python
from hetsim.base.machine_code import machine_code
from hetsim.graph.dag import Dag, Ints

Array = Any
"""A list of numbers, or an array of them where it is compiled."""

KEPT_FROM, COMPILE_FROM = 3_000, 250_000
"""Nodes from which machine code pays, where it is kept, and in all where it is not."""


def label_runs(
    order: Array,
    device: Array,
    pred_at: Array,
    preds: Array,
    cuts: Array,
    opened: Array,
    labels: Array,
) -> None:
    """Label nodes by runs: a node joins its device's open run if no later run feeds it.

    Parameters
    ----------
    order, device : int [n]
        The nodes in schedule order, and where each runs.
    pred_at, preds : int [n + 1], int
        The nodes before each.
    cuts : int [n]
        Whether a run ends with the node.
    opened : int [devices], -1
        Room to work in.
    labels : int [n]
        Out.

    Complexity: O(V + E).
    """
    count = 0
    for node in order:
        run = opened[device[node]]
        joins = run >= 0
        for k in range(pred_at[node], pred_at[node + 1]):
            if labels[preds[k]] > run:
                joins = False
        if not joins:
            run = count
            count += 1
            opened[device[node]] = run
        labels[node] = run
        if cuts[node]:
            opened[device[node]] = -1


@functools.cache
def compiled() -> Callable[..., None]:
    """Return ``label_runs`` as machine code for int64 arrays."""
    return machine_code(label_runs)


def pays(nodes: int) -> bool:
    """Whether runs of so many nodes are for machine code."""
    return left_to_python.pays(compiled, label_runs, nodes, KEPT_FROM, COMPILE_FROM)


def runs(dag: Dag, assignment: Sequence[int], order: Sequence[int], *, cut_at_exits: bool) -> Ints:
    """Return the run of each node; see ``label_runs``.

    Every edge then leads from an earlier run to the same or a later one, so the graph of
    runs is acyclic. With `cut_at_exits` a run ends with a node that feeds another device.
    """
    device = np.asarray(assignment, dtype=np.int64)
    cuts = np.zeros(dag.n, dtype=np.int64)
    if cut_at_exits:
        source = dag.succ_rows.owner
        cuts[source[device[source] != device[dag.succ_rows.node]]] = 1
    columns = (
        np.asarray(order, dtype=np.int64), device, dag.pred_rows.at, dag.pred_rows.node, cuts,
        np.full(int(device.max(initial=0)) + 1, -1), np.empty(dag.n, dtype=np.int64),
    )  # fmt: skip
    if pays(dag.n):
        compiled()(*columns)
        return columns[-1]
    rows = [column.tolist() for column in columns]
    label_runs(*rows)
    return np.array(rows[-1], dtype=np.int64)
