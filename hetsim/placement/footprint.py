"""Bytes that every plan needs, and assignments whose weights fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetsim.core.units import format_bytes
from hetsim.errors import OutOfMemory
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.runs import once


@dataclass(frozen=True, eq=False)
class Footprint:
    """Lower bounds on memory, by the rules of ``clock.memory``."""

    problem: Problem  # With memory capacities
    # [n][P]: What lies on a device beside its weights while it runs a node: all that the node reads
    # and makes. 0 where the node may take no time
    beside: tuple[tuple[int, ...], ...]
    # [P]: What lies there at some instant whoever runs what: on the host all inputs, then all
    # outputs
    always: tuple[int, ...]

    @classmethod
    def of(cls, problem: Problem) -> Footprint:
        """Count them. O((V + E) P)."""
        count = len(problem.devices)
        touched = [0] * problem.n
        for value in problem.values:
            if value.producer != GRAPH_INPUT:
                touched[value.producer] += value.nbytes
            elif problem.host is None:
                continue
            for v in value.consumers:
                touched[v] += value.nbytes
        seconds = problem.shared_seconds.tolist()
        beside = tuple(
            tuple(
                touched[v] if seconds[v][p] > 0 or problem.dispatch_s[p] > 0 else 0
                for p in range(count)
            )
            for v in range(problem.n)
        )
        always = [0] * count
        if problem.host is not None:
            always[problem.host] = max(_inputs(problem), _outputs(problem))
        return cls(problem, beside, tuple(always))

    @property
    def capacity(self) -> tuple[int, ...]:
        """Bytes by device."""
        assert self.problem.capacity_bytes is not None
        return self.problem.capacity_bytes


def _lasts(problem: Problem, nodes: tuple[int, ...]) -> bool:
    """Whether each of `nodes` takes time on the host."""
    host = problem.host
    assert host is not None
    return all(
        problem.dispatch_s[host] > 0 or float(problem.shared_seconds[v, host]) > 0 for v in nodes
    )


def _moves_slowly(problem: Problem, nbytes: int, *, away: bool) -> bool:
    """Whether a tensor takes time between the host and every other device."""
    host = problem.host
    assert host is not None
    others = [p for p in range(len(problem.devices)) if p != host]
    routes = [problem.routes[host][p] if away else problem.routes[p][host] for p in others]
    return all(route.seconds(nbytes) > 0 for route in routes)


def _inputs(problem: Problem) -> int:
    """Bytes of the inputs that are sure to be on the host together when a request arrives."""
    return sum(
        value.nbytes
        for value in problem.values
        if value.producer == GRAPH_INPUT
        and value.consumers
        and _lasts(problem, value.consumers)
        and _moves_slowly(problem, value.nbytes, away=True)
    )


def _outputs(problem: Problem) -> int:
    """Bytes of the outputs that are sure to be there together just before it ends."""
    return sum(
        value.nbytes
        for value in problem.values
        if value.is_output
        and value.producer != GRAPH_INPUT
        and _lasts(problem, (value.producer,))
        and _moves_slowly(problem, value.nbytes, away=False)
    )


@dataclass(frozen=True, slots=True)
class Excess:
    """Bytes of a plan beyond its devices' memory."""

    total: int  # Bytes over all devices; 0 where it fits
    peaks: tuple[int, ...]  # The most bytes that each device holds
    latency_s: float


def excess(plan: Plan) -> Excess:
    """Simulate one request and count. Raises as ``simulate``, except OutOfMemory."""
    latency_s, peaks, _ = once(plan)
    capacity = plan.problem.capacity_bytes
    total = 0
    if capacity is not None:
        total = sum(max(0, peak - held) for peak, held in zip(peaks, capacity, strict=True))
    return Excess(total, peaks, latency_s)


def refusal(problem: Problem, over: Excess, what: str) -> OutOfMemory:
    """Return the error with the device and excess of the closest plan."""
    assert problem.capacity_bytes is not None
    lacks = [peak - held for peak, held in zip(over.peaks, problem.capacity_bytes, strict=True)]
    device = max(range(len(lacks)), key=lambda p: (lacks[p], -p))
    peak, held = (
        problem.held_bytes(device, nbytes)
        for nbytes in (over.peaks[device], problem.capacity_bytes[device])
    )
    return OutOfMemory(
        f"{what}; the closest plan needs {format_bytes(peak)} ({peak} bytes) there and it has "
        f"{format_bytes(held)} ({held} bytes)",
        where=f"device '{problem.devices[device]}'",
        hint="add memory or a device, or remove pins and exclusions",
        device=problem.devices[device],
        needed_bytes=peak,
        held_bytes=held,
    )


BRANCHES = 2_000
"""Nodes of the solver's tree; it is deterministic where time is not its limit."""
MOST_COLUMNS = 60_000
"""Pairs of node and device above which the solver is not asked."""


def weights_that_fit(
    problem: Problem, footprint: Footprint, able: NDArray[np.bool_]
) -> list[int] | None:
    """Return a device per node such that weights and each node's buffers fit."""
    if any(a > held for a, held in zip(footprint.always, footprint.capacity, strict=True)):
        raise _proof(problem, footprint)
    greedy = _greedy(problem, footprint, able)
    if greedy is not None:
        return greedy
    if int(able.sum()) > MOST_COLUMNS:
        return None
    return _program(problem, footprint, able)


def overfull(footprint: Footprint, assignment: Sequence[int]) -> list[int]:
    """Return the excess of weights and each node's buffers on each device, in bytes."""
    problem = footprint.problem
    needed = list(footprint.always)
    for v, p in enumerate(assignment):
        needed[p] = max(needed[p], footprint.beside[v][p])
    for constant in problem.constants:
        for p in {assignment[v] for v in constant.consumers}:
            needed[p] += constant.nbytes
    return [max(0, n - held) for n, held in zip(needed, footprint.capacity, strict=True)]


class Filling:
    """Memory of devices during assignment: weights, and buffers of the nodes."""

    def __init__(self, footprint: Footprint) -> None:
        self.problem, self._print = footprint.problem, footprint
        count = len(self.problem.devices)
        self._nbytes = [constant.nbytes for constant in self.problem.constants]
        self.readers = [[0] * len(self._nbytes) for _ in range(count)]
        self.held, self.needed = [0] * count, list(footprint.always)
        self.device = [-1] * self.problem.n

    def bytes_read_by(self, v: int, p: int, readers: int) -> int:
        """Return bytes of a node's weights that this number of nodes on a device read."""
        own, there = self.problem.constants_of[v], self.readers[p]
        return sum(self._nbytes[c] for c in own if there[c] == readers)

    def holds(self, v: int, p: int) -> bool:
        """Whether a device has memory left for a node."""
        total = self.held[p] + self.bytes_read_by(v, p, 0)
        beside = max(self.needed[p], self._print.beside[v][p])
        return total + beside <= self._print.capacity[p]

    def put(self, v: int, p: int) -> None:
        """Put a node on a device, even without room."""
        self.held[p] += self.bytes_read_by(v, p, 0)
        for c in self.problem.constants_of[v]:
            self.readers[p][c] += 1
        self.needed[p] = max(self.needed[p], self._print.beside[v][p])
        self.device[v] = p

    def move(self, v: int, q: int) -> None:
        """Put a node on another device. O(n)."""
        p = self.device[v]
        self.held[p] -= self.bytes_read_by(v, p, 1)
        for c in self.problem.constants_of[v]:
            self.readers[p][c] -= 1
        self.put(v, q)
        beside, always = self._print.beside, self._print.always[p]
        self.needed[p] = max([always, *(beside[u][p] for u in self.on(p))])

    def on(self, p: int) -> list[int]:
        """Return the nodes on a device."""
        return [v for v, device in enumerate(self.device) if device == p]


def _greedy(problem: Problem, footprint: Footprint, allowed: NDArray[np.bool_]) -> list[int] | None:
    able = [np.flatnonzero(row).tolist() for row in allowed]
    weight = [sum(problem.constants[c].nbytes for c in held) for held in problem.constants_of]
    seconds = problem.shared_seconds.tolist()
    filling = Filling(footprint)
    for v in sorted(range(problem.n), key=lambda v: (len(able[v]), -weight[v], v)):
        roomy = [(seconds[v][p], p) for p in able[v] if filling.holds(v, p)]
        if not roomy:
            return None
        filling.put(v, min(roomy)[1])
    return filling.device


def _program(problem: Problem, footprint: Footprint, able: NDArray[np.bool_]) -> list[int] | None:
    """Ask HiGHS: a column for each node on each device, each constant there, and its weights."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    n, count = problem.n, len(problem.devices)
    capacity = footprint.capacity
    column: dict[tuple[int, int], int] = {}
    for v, p in np.argwhere(able).tolist():
        column[v, p] = len(column)
    nodes = len(column)
    there: dict[tuple[int, int], int] = {}
    for c, constant in enumerate(problem.constants):
        for p in range(count):
            if constant.nbytes and any((v, p) in column for v in constant.consumers):
                # A constant with one reader is where that is.
                only = column.get((constant.consumers[0], p))
                alone = len(constant.consumers) == 1 and only is not None
                there[c, p] = only if alone and only is not None else nodes + len(there)
    shared = sorted({index for index in there.values() if index >= nodes})
    place = {index: nodes + at for at, index in enumerate(shared)}
    there = {key: place.get(index, index) for key, index in there.items()}
    total = nodes + len(shared) + count
    entries: list[tuple[int, int, float]] = []
    low: list[float] = []
    high: list[float] = []

    def row(cells: Sequence[tuple[int, float]], least: float, most: float) -> None:
        entries.extend((len(low), index, amount) for index, amount in cells)
        low.append(least)
        high.append(most)

    for v in range(n):
        row([(column[v, p], 1.0) for p in range(count) if (v, p) in column], 1.0, 1.0)
    for (c, p), index in there.items():
        if index >= nodes:
            for v in problem.constants[c].consumers:
                if (v, p) in column:
                    row([(column[v, p], 1.0), (index, -1.0)], -np.inf, 0.0)
    full: NDArray[np.float64] = np.ones(total)
    for p in range(count):
        unit = float(max(capacity[p], 1))
        weights = nodes + len(shared) + p
        full[weights] = (capacity[p] - footprint.always[p]) / unit
        cells = [
            (index, problem.constants[c].nbytes / unit) for (c, q), index in there.items() if q == p
        ]
        row([*cells, (weights, -1.0)], 0.0, 0.0)
        for v in range(n):
            beside = footprint.beside[v][p]
            if (v, p) in column and beside > footprint.always[p]:
                if beside > capacity[p]:
                    full[column[v, p]] = 0.0
                    continue
                cells = [(weights, 1.0), (column[v, p], beside / unit)]
                row(cells, -np.inf, capacity[p] / unit)
    seconds = problem.shared_seconds
    cost = np.zeros(total)
    scale = max((float(seconds[v, p]) for v, p in column), default=0.0) or 1.0
    for (v, p), index in column.items():
        cost[index] = float(seconds[v, p]) / scale
    rows, columns, amounts = (list(part) for part in zip(*entries, strict=True))
    matrix = coo_array((amounts, (rows, columns)), shape=(len(low), total)).tocsr()
    integral = np.ones(total, dtype=np.int64)
    integral[nodes + len(shared) :] = 0
    found = milp(
        cost,
        integrality=integral,
        bounds=Bounds(np.zeros(total), full),
        constraints=LinearConstraint(matrix, np.array(low), np.array(high)),
        options={"node_limit": BRANCHES, "mip_rel_gap": 0.05},
    )
    if found.status == 2:
        raise _proof(problem, footprint)
    if found.x is None:
        return None
    assignment = [0] * n
    chosen = np.full((n, count), -1.0)
    for (v, p), index in column.items():
        chosen[v, p] = found.x[index]
    assignment = [int(p) for p in chosen.argmax(axis=1)]
    return None if any(overfull(footprint, assignment)) else assignment


def _proof(problem: Problem, footprint: Footprint) -> OutOfMemory:
    weights = sum(constant.nbytes for constant in problem.constants)
    held = ", ".join(
        f"{name} {format_bytes(problem.held_bytes(p, nbytes))}"
        for p, (name, nbytes) in enumerate(zip(problem.devices, footprint.capacity, strict=True))
        if problem.runnable[:, p].any()
    )
    return OutOfMemory(
        f"no assignment to devices fits: the nodes' weights need {format_bytes(weights)}, plus "
        f"their inputs and outputs, on {held} (proven)",
        where=problem.name,
        hint="add memory or a device, or remove pins and exclusions",
    )
