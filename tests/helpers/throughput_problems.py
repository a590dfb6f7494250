"""Small problems of many kinds, on which the least bottleneck can be found by brute force."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np

from hetsim.hardware.spec import Route
from hetsim.placement.throughput.costs import Costs
from hetsim.problem.parts import FusedKernel, Staging, StoredConstant, Value
from hetsim.problem.problem import Problem

TOPOLOGIES = ("none", "pairs", "star", "bus", "half", "chain", "staged", "staged pairs")


def small(seed: int, most_nodes: int = 6) -> Problem:
    """A problem of up to `most_nodes` nodes on two to four devices, drawn from a seed.

    Links: none, a link a pair and direction, a duplex link to a hub that all routes cross, a bus,
    half-duplex links, links in a row, staging. Some have dispatch, streams, a host with inputs
    and outputs, kernels that fuse, composites, nodes that a device lacks, weights that do not
    fit everywhere, like devices, idle nodes. Times are binary fractions.
    """
    rng = np.random.default_rng(seed)
    count = int(rng.choice([2, 3, 3, 4]))
    n = int(rng.integers(2, (most_nodes if count < 4 else most_nodes - 1) + 1))
    topology = TOPOLOGIES[int(rng.integers(len(TOPOLOGIES)))]
    seconds = rng.integers(0, 12, (n, count)) / 4.0
    if rng.random() < 0.3:
        seconds[rng.integers(n)] = 0.0
    if rng.random() < 0.4:
        seconds[:] = seconds[:, :1]
    elif rng.random() < 0.5:
        seconds[:, 1] = seconds[:, 0]
    if rng.random() < 0.4:
        seconds[rng.random((n, count)) < 0.25] = np.inf
    host = None if rng.random() < 0.3 else int(rng.integers(count))
    largest = int(rng.choice([1, 4, 16, 40]))
    values: list[Value] = []
    for u in range(n):
        density = 0.8 / max(1, n - 1 - u) + 0.15
        readers = tuple(v for v in range(u + 1, n) if rng.random() < density)
        out = not readers or rng.random() < 0.15
        nbytes = int(rng.integers(0, largest + 1))
        if readers or out:
            values.append(Value(f"t{u}", nbytes, u, readers, is_output=bool(out)))
        if readers and rng.random() < 0.2:
            values.append(Value(f"s{u}", int(rng.integers(0, largest + 1)), u, readers[:1]))
    if rng.random() < 0.7:
        fed = tuple(v for v in range(n) if v == 0 or rng.random() < 0.2)
        values.append(Value("in", int(rng.integers(0, largest + 1)), -1, fed))
    staging = None
    if topology.startswith("staged"):
        rates = rng.integers(0, 3, (2, count)) / 8.0
        staging = Staging(
            tuple(rates[0].tolist()), tuple(rates[1].tolist()), ends=bool(rng.random() < 0.5)
        )
    made = Problem.from_arrays(
        seconds,
        devices=[f"d{p}" for p in range(count)],
        host=host,
        contention="none" if topology in ("none", "staged") else "fifo",
        latency_s=rng.integers(0, 4, (count, count)) / 4.0,
        bytes_per_s=2.0 ** rng.integers(1, 5, (count, count)),
        dispatch_s=rng.integers(0, 5, count) / 4.0 if rng.random() < 0.6 else 0.0,
        streams=[int(s) for s in rng.integers(1, 3, count)] if rng.random() < 0.3 else None,
        staging=staging,
        name=f"small {seed} ({topology})",
    )
    fused = _kernels(rng, seconds, values) if rng.random() < 0.4 else ()
    constants: tuple[StoredConstant, ...] = ()
    capacity: tuple[int, ...] | None = None
    if rng.random() < 0.4:
        constants = tuple(
            StoredConstant(
                f"w{v}", int(rng.integers(1, 9)) * 1000, tuple(sorted({v, int(rng.integers(n))}))
            )
            for v in range(n)
            if rng.random() < 0.7
        )
        total = sum(c.nbytes for c in constants) + sum(v.nbytes for v in values)
        # One device may hold everything, or none.
        capacity = tuple(int(total * rng.choice([0.4, 0.7, 1.1])) for _ in range(count))
    made = replace(
        made, values=tuple(values), fused=tuple(fused), constants=constants, capacity_bytes=capacity
    )
    return _linked(made, topology, rng)


def _kernels(
    rng: np.random.Generator, seconds: np.ndarray, values: list[Value]
) -> list[FusedKernel]:
    found: list[FusedKernel] = []
    for p in range(seconds.shape[1]):
        taken: set[int] = set()
        for value in values:
            if value.producer < 0 or not value.consumers or rng.random() < 0.5:
                continue
            nodes = (value.producer, value.consumers[0])
            if taken & set(nodes):
                continue
            alone = float(seconds[list(nodes), p].sum())
            if np.isfinite(alone):
                found.append(FusedKernel(p, nodes, alone * float(rng.choice([0.5, 0.75, 1.25]))))
            else:
                found.append(FusedKernel(p, nodes, float(rng.integers(0, 8)) / 4, "pattern"))
            taken |= set(nodes)
    return found


def _linked(problem: Problem, topology: str, rng: np.random.Generator) -> Problem:
    """Let routes hold the links of a topology; their times stay."""
    count = len(problem.devices)
    hub = int(rng.integers(count))
    names: dict[str, int] = {}

    def link(name: str) -> int:
        return names.setdefault(name, len(names))

    def held(p: int, q: int) -> tuple[int, ...]:
        if topology == "star":
            steps = [link(f"{p}>hub")] if p != hub else []
            return tuple(sorted(steps + ([link(f"hub>{q}")] if q != hub else [])))
        if topology == "bus":
            return (link("bus"),)
        if topology == "half":
            return (link(f"{min(p, q)}<>{max(p, q)}"),)
        if topology == "chain":
            step = 1 if q > p else -1
            return tuple(sorted(link(f"{a}>{a + step}") for a in range(p, q, step)))
        return problem.routes[p][q].resources

    if topology not in ("star", "bus", "half", "chain"):
        return problem
    routes = tuple(
        tuple(
            Route(route.latency_s, route.bytes_per_s, held(p, q) if p != q else ())
            for q, route in enumerate(row)
        )
        for p, row in enumerate(problem.routes)
    )
    return replace(problem, routes=routes, link_names=tuple(names))


def stage_load(costs: Costs, kind: int, inside: set[int]) -> float:
    """What nodes cost a device of a kind as a stage, from the definition of ``Costs``."""
    fetch = sum(
        costs.fetch_s[kind, index]
        for index, (producer, consumers, _) in enumerate(costs.values)
        if producer not in inside and inside & set(consumers)
    )
    made = [x for x, (producer, _, _) in enumerate(costs.values) if producer in inside]
    store = sum(costs.make_s[kind, x] for x in made if costs.values[x][2]) + sum(
        costs.store_s[kind, x] for x in made if not inside >= set(costs.values[x][1])
    )
    whole = [k for k in costs.kernels if k.kind == kind and inside >= set(k.nodes)]
    lacks = sum(costs.lacks[v, kind] for v in inside) - sum(k.covers for k in whole)
    compute = costs.dispatch_s[kind] + sum(costs.compute_s[v, kind] for v in inside)
    compute += sum(k.delta_s for k in whole)
    held = sum(size for size, readers in costs.constants if inside & set(readers))
    if lacks or held > costs.capacity_bytes[kind]:
        return float("inf")
    return float(costs.load(kind, *map(np.float64, (compute, fetch, store))))


def kind_of(costs: Costs) -> dict[int, int]:
    """The kind of each device."""
    return {device: kind for kind, devices in enumerate(costs.kinds) for device in devices}


def least_contiguous(costs: Costs) -> float:
    """Of all assignments to devices that do not feed each other in a circle the least load."""
    kinds, found = kind_of(costs), float("inf")
    for assignment in itertools.product(kinds, repeat=costs.n):
        edges = {(assignment[u], assignment[v]) for u, v in costs.dag.edges()}
        left = set(assignment)
        while free := {p for p in left if not any(q == p != o and o in left for o, q in edges)}:
            left -= free
        if not left:
            sets = {p: {v for v, q in enumerate(assignment) if q == p} for p in set(assignment)}
            loads = (stage_load(costs, kinds[p], nodes) for p, nodes in sets.items())
            found = min(found, max(loads, default=0.0))
    return found


def serial_problem(rng: np.random.Generator, count: int, most: int) -> Problem:
    """Up to `most` nodes; times are multiples of 1/8: sums are exact, and so is a cut."""
    n = int(rng.integers(1, most + 1))
    seconds = rng.integers(0, 40, (n, count)) / 8
    for v in range(n):
        if rng.random() < 0.2:
            seconds[v, rng.integers(count)] = np.inf
    tensors = []
    for u in range(-1, n):
        for _ in range(int(rng.integers(1, 3))):
            readers = [v for v in range(u + 1, n) if rng.random() < 0.3][:3]
            if u >= 0 or readers:
                tensors.append((u, int(rng.integers(0, 33)), readers))
    staged = Staging(tuple(rng.integers(0, 3, count) / 8), tuple(rng.integers(0, 3, count) / 8))
    return Problem.from_arrays(
        seconds,
        tensors=tensors,
        latency_s=rng.integers(0, 8, (count, count)) / 8,
        bytes_per_s=2.0 ** rng.integers(0, 5, (count, count)),
        host=int(rng.integers(count)) if rng.random() < 0.7 else None,
        staging=staged if rng.random() < 0.3 else None,
    )
