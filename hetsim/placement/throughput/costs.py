"""Least cost of a set of nodes on a device over all placements of the others, by device kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hetsim.graph.dag import Dag
from hetsim.hardware.spec import Route
from hetsim.problem.groups import order_groups
from hetsim.problem.parts import GRAPH_INPUT, FusedKernel
from hetsim.problem.problem import Problem

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StageKernel:
    """Nodes that one kind of device runs as one kernel if a stage holds all of them."""

    kind: int
    nodes: tuple[int, ...]
    # Seconds of the whole kernel minus those of its nodes that are supported individually
    delta_s: float
    covers: int  # Nodes of it that are not supported individually


@dataclass(frozen=True, eq=False)
class Costs:
    """Lower bound on the load of a stage, over all placements of the other nodes.

    Exact with staged tensors: compute + fetching + storing. If routes carry the tensors, the
    largest of compute, incoming (over the fastest routes, ``_fan``) and outgoing transfers.
    """

    dag: Dag
    # Values that may move; ``leaves``: whether the value must end on the host
    values: tuple[tuple[int, tuple[int, ...], bool], ...]
    kinds: tuple[tuple[int, ...], ...]  # Identical devices, ascending
    compute_s: Floats  # [n, K]: Seconds alone, over the streams; 0 if not supported individually
    lacks: NDArray[np.bool_]  # [n, K]: Whether a node is not supported individually
    # [n, K]: Least seconds that a node adds to any stage, over the streams; inf if not runnable
    shares_s: Floats
    kernels: tuple[StageKernel, ...]  # Disjoint within a kind
    dispatch_s: Floats  # [K]
    # [K, values]: Seconds for a stage that reads a value from outside; for one that makes it; and
    # in addition to that, if it also has a reader outside
    fetch_s: Floats
    make_s: Floats
    store_s: Floats
    overlapped: bool  # Whether the three parts overlap
    joint: NDArray[np.bool_]  # [K]: Whether incoming and outgoing transfers alternate
    constants: tuple[tuple[int, tuple[int, ...]], ...]
    capacity_bytes: Floats  # [K]: inf if memory is not modelled

    @property
    def n(self) -> int:
        """Number of nodes."""
        return self.dag.n

    @cached_property
    def memory_binds(self) -> bool:
        """Return whether some device cannot hold all constants."""
        return sum(nbytes for nbytes, _ in self.constants) > float(self.capacity_bytes.min())

    def load(self, kind: int, compute_s: Floats, fetch_s: Floats, store_s: Floats) -> Floats:
        """Return the loads of stages on one kind from their three parts."""
        if not self.overlapped:
            return compute_s + fetch_s + store_s
        moved = fetch_s + store_s if self.joint[kind] else np.maximum(fetch_s, store_s)
        return np.maximum(compute_s, moved)


def costs_of(problem: Problem, *, summed: bool = False) -> Costs:
    """Return the costs of `problem`."""
    kept = moving_values(problem)
    fetch_s, make_s, store_s, joint = _moving(problem, kept, summed=summed)
    streams = np.array(problem.streams, dtype=np.float64)
    dispatch_s = np.array(problem.dispatch_s) / streams
    capacity = problem.capacity_bytes
    limits = np.full(len(streams), np.inf) if capacity is None else np.array(capacity, np.float64)
    lacks = ~problem.supported
    compute_s = np.where(lacks, 0.0, problem.seconds) / streams
    shares_s = np.where(problem.runnable, problem.shared_seconds, np.inf) / streams
    kernels = [_as_stages_run(problem, kernel) for kernel in kernels_of(problem)]
    alike: dict[tuple[bytes, object], list[int]] = {}
    for device in range(len(streams)):
        columns = (
            compute_s[:, device], shares_s[:, device], lacks[:, device], fetch_s[device],
            make_s[device], store_s[device],
            [dispatch_s[device], limits[device], joint[device]],
        )  # fmt: skip
        key = np.concatenate([np.asarray(column, np.float64) for column in columns]).tobytes()
        fused = tuple((k.nodes, k.delta_s, k.covers) for k in kernels if k.kind == device)
        alike.setdefault((key, fused), []).append(device)
    # Fastest kinds first, as searches may omit the last of very many.
    found = [tuple(devices) for devices in alike.values()]
    whole_s = np.where(problem.runnable, shares_s, 0.0).sum(axis=0)
    lacking = (~problem.runnable).sum(axis=0)
    kinds = tuple(sorted(found, key=lambda devices: (lacking[devices[0]], whole_s[devices[0]])))
    first = [devices[0] for devices in kinds]
    return Costs(
        dag=problem.dag,
        values=tuple(
            (value.producer, value.consumers, value.is_output and problem.host is not None)
            for value in (problem.values[index] for index in kept)
        ),
        kinds=kinds,
        compute_s=np.ascontiguousarray(compute_s[:, first]),
        lacks=np.ascontiguousarray(lacks[:, first]),
        shares_s=np.ascontiguousarray(shares_s[:, first]),
        kernels=tuple(
            replace(kernel, kind=kind)
            for kind, device in enumerate(first)
            for kernel in kernels
            if kernel.kind == device
        ),
        dispatch_s=dispatch_s[first],
        fetch_s=np.ascontiguousarray(fetch_s[first]),
        make_s=np.ascontiguousarray(make_s[first]),
        store_s=np.ascontiguousarray(store_s[first]),
        overlapped=problem.staging is None,
        joint=joint[first],
        constants=tuple((c.nbytes, c.consumers) for c in problem.constants if c.consumers),
        capacity_bytes=limits[first],
    )


def moving_values(problem: Problem) -> list[int]:
    """Return the indices of values that may move between devices."""
    hosted = problem.host is not None
    return [
        index
        for index, value in enumerate(problem.values)
        if (value.consumers and (value.producer != GRAPH_INPUT or hosted))
        or (value.is_output and hosted)
    ]


def kernels_of(problem: Problem) -> list[FusedKernel]:
    """Return the kernels that take no longer than their parts, as in ``Problem.kernels``."""
    return [
        kernel
        for kernel in problem.fused
        if kernel.seconds <= float(problem.seconds[list(kernel.nodes), kernel.device].sum())
    ]


def _as_stages_run(problem: Problem, kernel: FusedKernel) -> StageKernel:
    """Return a kernel with its device as its kind, and seconds divided by the streams."""
    alone = problem.seconds[list(kernel.nodes), kernel.device]
    finite = np.isfinite(alone)
    delta_s = kernel.seconds - float(alone[finite].sum())
    delta_s /= problem.streams[kernel.device]
    return StageKernel(kernel.device, kernel.nodes, delta_s, int((~finite).sum()))


def _moving(
    problem: Problem, kept: Sequence[int], *, summed: bool
) -> tuple[Floats, Floats, Floats, NDArray[np.bool_]]:
    """Return the seconds of each device for each value: fetch, make, store; and ``joint``."""
    count, host = len(problem.devices), problem.host
    values = [problem.values[index] for index in kept]
    nbytes = np.array([value.nbytes for value in values], dtype=np.float64)
    leaves = np.array([value.is_output and host is not None for value in values], dtype=bool)
    fetch_s, make_s, store_s = (np.zeros((count, len(kept))) for _ in range(3))
    joint = np.zeros(count, dtype=bool)
    if problem.staging is not None:
        streams = np.array(problem.streams, dtype=np.float64)[:, None]
        stored = np.outer(problem.staging.store_s_per_byte, nbytes) / streams
        fetch_s = np.outer(problem.staging.fetch_s_per_byte, nbytes) / streams
        if not problem.staging.ends:
            fetch_s[:, [value.producer == GRAPH_INPUT for value in values]] = 0.0
            return fetch_s, make_s, stored, joint
        return fetch_s, np.where(leaves, stored, 0.0), np.where(leaves, 0.0, stored), joint
    if problem.contention == "none":
        return fetch_s, make_s, store_s, joint
    used: NDArray[np.bool_] = np.asarray(problem.runnable.any(axis=0))
    given = np.array([value.producer == GRAPH_INPUT for value in values], dtype=bool)
    for p in range(count):
        others = [q for q in range(count) if q != p and (used[q] or q == host)]
        ways_in = [problem.routes[q][p] for q in others]
        ways_out = [problem.routes[p][q] for q in others]
        if not others:
            continue
        entry, into = _fan(ways_in)
        leaving, out_of = _fan(ways_out)
        into, out_of = (1, 1) if summed else (into, out_of)
        joint[p] = len(entry) == 1 and entry == leaving
        fetch_s[p] = _least(ways_in, nbytes) / into
        store_s[p] = _least(ways_out, nbytes) / out_of
        if host is not None and host != p:
            inward, outward = problem.routes[host][p], problem.routes[p][host]
            fetch_s[p] = np.where(given, _least([inward], nbytes) / into, fetch_s[p])
            make_s[p] = np.where(leaves, _least([outward], nbytes) / out_of, 0.0)
            store_s[p] = np.where(leaves, 0.0, store_s[p])
        elif host is not None:
            fetch_s[p] = np.where(given, 0.0, fetch_s[p])
    return fetch_s, make_s, store_s, joint


def _least(routes: Sequence[Route], nbytes: Floats) -> Floats:
    found: Floats = np.min([r.latency_s + nbytes / r.bytes_per_s for r in routes], axis=0)
    return found


def _fan(routes: Sequence[Route]) -> tuple[set[int], int]:
    """Return a set of links of which every route has one, and their number."""
    left = [set(route.resources) for route in routes]
    if not all(left):
        return set(), 2**62
    chosen: set[int] = set()
    while left:
        best = max(sorted(set[int]().union(*left)), key=lambda r: sum(r in held for held in left))
        chosen.add(best)
        left = [held for held in left if best not in held]
    return chosen, len(chosen)


@dataclass(frozen=True, eq=False)
class Contracted:
    """Costs over fewer nodes, and the original nodes that each stands for."""

    costs: Costs
    members: tuple[tuple[int, ...], ...]

    def spread(self, nodes: Sequence[int]) -> list[int]:
        """Return the original nodes of `nodes`, ascending."""
        return sorted(v for node in nodes for v in self.members[node])


def contract(costs: Costs) -> Contracted:
    """Merge nodes without cost into a neighbour if that never increases a load.

    A node without compute joins its only producer or only reader if the values to move are then no
    more expensive; sets stay convex. Members of kernels are kept, and nothing is merged if memory
    may be short. O(rounds (V + E)).
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
        # One merge per neighbourhood and round, as the tables above no longer describe it.
        touched.update((node, target), sources, targets, *(readers[x] for x in ins))
        for member in members[node]:
            label[member] = target
        members[target] += members[node]
        # A set that computes is no longer free, whatever its representative.
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
