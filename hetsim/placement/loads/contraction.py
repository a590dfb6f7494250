"""Nodes that cost nothing joined to a neighbour, where that never makes a load larger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hetsim.graph.dag import Dag
from hetsim.partitioning.groups import order_groups
from hetsim.placement.loads.costs import Costs
from hetsim.problem.parts import GRAPH_INPUT


@dataclass(frozen=True, eq=False)
class Contracted:
    """Costs over fewer nodes, and which of the original nodes each of them stands for."""

    costs: Costs
    members: tuple[tuple[int, ...], ...]

    def spread(self, nodes: Sequence[int]) -> list[int]:
        """Return what `nodes` stand for, ascending."""
        return sorted(v for node in nodes for v in self.members[node])


def contract(costs: Costs) -> Contracted:
    """Join nodes that cost nothing to a neighbour where that never makes a load larger.

    A node without compute time on any kind goes to its only producer if its one input is read
    by nothing else and is no cheaper to move than its one output, or if its outputs are free to
    move; it goes to its only reader under the mirrored condition. In any contiguous solution it
    can then be moved there: its new device moves what is no dearer than what it moved before,
    its old one moves less, and since the node has one neighbour on that side no set stops being
    convex and no cycle of sets is closed. Members of a kernel stay as they are, and nothing is
    done where memory may not suffice. This holds for the loads of ``Costs``, which know nothing
    of where a tensor comes from; the clock may tell the two apart. O(rounds (V + E)).
    """
    label = list(range(costs.n))
    if not costs.memory_binds:
        idle = ((costs.compute_s == 0.0) & ~costs.lacks).all(axis=1)
        for kernel in costs.kernels:
            idle[list(kernel.nodes)] = False
        members = [[node] for node in range(costs.n)]
        while _join_round(costs, idle, label, members):
            pass
    return _relabel(costs, label)


def _join_round(
    costs: Costs, idle: NDArray[np.bool_], label: list[int], members: list[list[int]]
) -> bool:
    out_s = costs.make_s + costs.store_s
    free = ((costs.fetch_s == 0.0) & (out_s == 0.0)).all(axis=0)
    reads: dict[int, list[int]] = {}
    makes: dict[int, list[int]] = {}
    readers: list[set[int]] = []
    for index, (producer, consumers, _) in enumerate(costs.values):
        source = label[producer] if producer >= 0 else -1
        found = {label[v] for v in consumers} - {source}
        readers.append(found)
        if source >= 0 and (found or costs.values[index][2]):
            makes.setdefault(source, []).append(index)
        for reader in found:
            reads.setdefault(reader, []).append(index)

    def no_cheaper(x: int, y: int) -> bool:
        return bool(
            (costs.fetch_s[:, x] >= costs.fetch_s[:, y]).all()
            and (out_s[:, x] >= out_s[:, y]).all()
        )

    touched: set[int] = set()
    for node in range(costs.n):
        if label[node] != node or not idle[node] or node in touched:
            continue
        ins, outs = reads.get(node, []), makes.get(node, [])
        sources = {label[costs.values[x][0]] if costs.values[x][0] >= 0 else -1 for x in ins}
        targets = {reader for y in outs for reader in readers[y]}
        leaves = any(costs.values[y][2] for y in outs)
        target = -1
        if len(sources) == 1 and -1 not in sources:
            only = len(ins) == 1 and readers[ins[0]] == {node} and not costs.values[ins[0]][2]
            if all(free[y] for y in outs) or (
                only and len(outs) == 1 and not leaves and no_cheaper(ins[0], outs[0])
            ):
                target = next(iter(sources))
        if target < 0 and len(targets) == 1 and not leaves:
            only = len(outs) == 1 and len(ins) == 1
            if all(free[x] for x in ins) or (only and no_cheaper(outs[0], ins[0])):
                target = next(iter(targets))
        if target < 0 or target in touched:
            continue
        # One join a neighbourhood and round: the tables above describe it no longer.
        touched.update((node, target), sources, targets, *(readers[x] for x in ins))
        for member in members[node]:
            label[member] = target
        members[target] += members[node]
        # A set that computes is no longer idle, whoever names it.
        idle[target] = idle[target] and idle[node]
    return bool(touched)


def _relabel(costs: Costs, label: Sequence[int]) -> Contracted:
    parts = order_groups(costs.dag, label)
    if parts is None:
        raise AssertionError("joining idle nodes closed a cycle")
    place = [0] * costs.n
    for index, part in enumerate(parts):
        for node in part:
            place[node] = index
    values: list[tuple[int, tuple[int, ...], bool]] = []
    kept: list[int] = []
    for index, (producer, consumers, leaves) in enumerate(costs.values):
        source = place[producer] if producer >= 0 else GRAPH_INPUT
        readers = tuple(sorted({place[v] for v in consumers} - {source}))
        if readers or leaves:
            values.append((source, readers, leaves))
            kept.append(index)
    shape = (len(parts), len(costs.kinds))
    made = replace(
        costs,
        dag=Dag.from_edges(
            len(parts),
            ((source, v) for source, readers, _ in values if source >= 0 for v in readers),
        ),
        values=tuple(values),
        compute_s=np.array([costs.compute_s[list(p)].sum(axis=0) for p in parts]).reshape(shape),
        shares_s=np.array([costs.shares_s[list(p)].sum(axis=0) for p in parts]).reshape(shape),
        lacks=np.array([costs.lacks[list(p)].any(axis=0) for p in parts], bool).reshape(shape),
        kernels=tuple(
            replace(kernel, nodes=tuple(sorted(place[v] for v in kernel.nodes)))
            for kernel in costs.kernels
        ),
        fetch_s=np.ascontiguousarray(costs.fetch_s[:, kept]),
        make_s=np.ascontiguousarray(costs.make_s[:, kept]),
        store_s=np.ascontiguousarray(costs.store_s[:, kept]),
        constants=tuple(
            (nbytes, tuple(sorted({place[v] for v in consumers})))
            for nbytes, consumers in costs.constants
        ),
    )
    return Contracted(made, tuple(parts))
