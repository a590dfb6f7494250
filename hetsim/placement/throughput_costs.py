"""What the strategies for throughput count, as arrays: by kinds of equal devices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hetsim.graph.dag import Dag
from hetsim.problem import GRAPH_INPUT, Problem

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Costs:
    """The load of a set of nodes on one device, without knowing where the others are.

    With staged tensors the load is compute + fetching + storing, which is exact. Where routes
    carry the tensors, links work beside the devices: the load is the largest of compute, of
    what comes in and of what goes out, each tensor over the fastest route there is. That is
    exact where all routes of a device are alike and a tensor leaves for one other device, and
    too low elsewhere.

    Attributes
    ----------
    dag : Dag
    values : tuple of (producer, consumers, leaves)
        Values that may move; ``leaves``: whether it must go out whatever else.
    kinds : tuple of tuple of int
        Devices that nothing tells apart, ascending.
    compute_s : float array [n, K]
        Divided by the streams; inf where not supported alone.
    dispatch_s : float array [K]
    fetch_s, store_s : float array [K, values]
    overlapped : bool
    constants : tuple of (nbytes, consumers)
    capacity_bytes : float array [K]
        inf where memory is not modelled.
    """

    dag: Dag
    values: tuple[tuple[int, tuple[int, ...], bool], ...]
    kinds: tuple[tuple[int, ...], ...]
    compute_s: Floats
    dispatch_s: Floats
    fetch_s: Floats
    store_s: Floats
    overlapped: bool
    constants: tuple[tuple[int, tuple[int, ...]], ...]
    capacity_bytes: Floats

    @property
    def n(self) -> int:
        """Number of nodes."""
        return self.dag.n

    @cached_property
    def memory_binds(self) -> bool:
        """Whether some device could not hold all constants."""
        return sum(nbytes for nbytes, _ in self.constants) > float(self.capacity_bytes.min())

    def load(self, compute_s: Floats, fetch_s: Floats, store_s: Floats) -> Floats:
        """Combine the three parts, elementwise."""
        if self.overlapped:
            return np.maximum(np.maximum(compute_s, fetch_s), store_s)
        return compute_s + fetch_s + store_s


def costs_of(problem: Problem) -> Costs:
    """Return the costs of `problem`; composites that are not supported alone are left out.

    O((n + values) P + E).
    """
    kept = [
        index
        for index, value in enumerate(problem.values)
        if (value.consumers and (value.producer != GRAPH_INPUT or problem.host is not None))
        or (value.is_output and problem.host is not None)
    ]
    fetch_s, store_s = _moving(problem, kept)
    streams = np.array(problem.streams, dtype=np.float64)
    compute_s = np.where(problem.supported, problem.shared_seconds, np.inf) / streams
    dispatch_s = np.array(problem.dispatch_s) / streams
    capacity = problem.capacity_bytes
    limits = np.full(len(streams), np.inf) if capacity is None else np.array(capacity, np.float64)
    alike: dict[bytes, list[int]] = {}
    for device in range(len(streams)):
        columns = (
            compute_s[:, device], dispatch_s[device : device + 1], limits[device : device + 1],
            fetch_s[device], store_s[device],
        )  # fmt: skip
        alike.setdefault(np.concatenate(columns).tobytes(), []).append(device)
    kinds = tuple(tuple(devices) for devices in alike.values())
    first = [devices[0] for devices in kinds]
    return Costs(
        dag=problem.dag,
        values=tuple(
            (value.producer, value.consumers, value.is_output and problem.host is not None)
            for value in (problem.values[index] for index in kept)
        ),
        kinds=kinds,
        compute_s=np.ascontiguousarray(compute_s[:, first]),
        dispatch_s=dispatch_s[first],
        fetch_s=np.ascontiguousarray(fetch_s[first]),
        store_s=np.ascontiguousarray(store_s[first]),
        overlapped=problem.staging is None,
        constants=tuple((c.nbytes, c.consumers) for c in problem.constants if c.consumers),
        capacity_bytes=limits[first],
    )


def _moving(problem: Problem, kept: list[int]) -> tuple[Floats, Floats]:
    """Return the seconds in which each device fetches and stores each value."""
    count = len(problem.devices)
    nbytes = np.array([problem.values[index].nbytes for index in kept], dtype=np.float64)
    if problem.staging is not None:
        streams = np.array(problem.streams, dtype=np.float64)[:, None]
        return (
            np.outer(problem.staging.fetch_s_per_byte, nbytes) / streams,
            np.outer(problem.staging.store_s_per_byte, nbytes) / streams,
        )
    fetch_s = np.zeros((count, len(kept)))
    store_s = np.zeros((count, len(kept)))
    if problem.contention == "none":
        return fetch_s, store_s
    for p in range(count):
        others = [q for q in range(count) if q != p]
        for out, routes in (
            (fetch_s, [problem.routes[q][p] for q in others]),
            (store_s, [problem.routes[p][q] for q in others]),
        ):
            if routes:
                out[p] = np.min([r.latency_s + nbytes / r.bytes_per_s for r in routes], axis=0)
        if problem.host is not None:
            for place, index in enumerate(kept):
                value = problem.values[index]
                if value.producer == GRAPH_INPUT:
                    route = problem.routes[problem.host][p]
                    fetch_s[p, place] = 0.0 if p == problem.host else route.seconds(value.nbytes)
                if value.is_output and p == problem.host and not value.consumers:
                    store_s[p, place] = 0.0
    return fetch_s, store_s


@dataclass(frozen=True, eq=False)
class Contracted:
    """Costs over fewer nodes, and which of the original nodes each of them stands for."""

    costs: Costs
    members: tuple[tuple[int, ...], ...]


def contract(costs: Costs) -> Contracted:
    """Join nodes that cost nothing to a neighbour where that never makes a load larger.

    A node without compute time on any kind goes to its only producer if its one input is read
    by nothing else and is no cheaper to move than its one output, or if its outputs are free to
    move; it goes to its only reader under the mirrored condition. In any contiguous solution it
    can then be moved there: its new device moves what is no dearer than what it moved before,
    its old one moves less, and since the node has one neighbour on that side no set stops being
    convex and no cycle of sets is closed. Nothing is done where memory may not suffice.
    O(rounds (V + E)).
    """
    label = list(range(costs.n))
    members = [[node] for node in range(costs.n)]
    if not costs.memory_binds:
        idle = (costs.compute_s == 0.0).all(axis=1)
        joined = True
        while joined:
            joined = _join_round(costs, idle, label, members)
    return _relabel(costs, label)


def _join_round(
    costs: Costs, idle: NDArray[np.bool_], label: list[int], members: list[list[int]]
) -> bool:
    free = ((costs.fetch_s == 0.0) & (costs.store_s == 0.0)).all(axis=0)
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
            and (costs.store_s[:, x] >= costs.store_s[:, y]).all()
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
                only and len(outs) == 1 and no_cheaper(ins[0], outs[0])
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


def _relabel(costs: Costs, label: list[int]) -> Contracted:
    from hetsim.partitioning.partition import order_groups

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
    made = Costs(
        dag=Dag.from_edges(
            len(parts),
            ((source, v) for source, readers, _ in values if source >= 0 for v in readers),
        ),
        values=tuple(values),
        kinds=costs.kinds,
        compute_s=np.array([costs.compute_s[list(part)].sum(axis=0) for part in parts]).reshape(
            len(parts), len(costs.kinds)
        ),
        dispatch_s=costs.dispatch_s,
        fetch_s=np.ascontiguousarray(costs.fetch_s[:, kept]),
        store_s=np.ascontiguousarray(costs.store_s[:, kept]),
        overlapped=costs.overlapped,
        constants=tuple(
            (nbytes, tuple(sorted({place[v] for v in consumers})))
            for nbytes, consumers in costs.constants
        ),
        capacity_bytes=costs.capacity_bytes,
    )
    return Contracted(made, tuple(parts))
