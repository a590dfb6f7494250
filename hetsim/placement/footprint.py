"""Bytes that every plan needs, and assignments whose weights fit."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetsim.core.units import format_bytes
from hetsim.errors import OutOfMemory
from hetsim.placement.listing.list_schedule import Room
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
        return cls(problem, beside)

    @property
    def capacity(self) -> tuple[int, ...]:
        """Bytes by device."""
        assert self.problem.capacity_bytes is not None
        return self.problem.capacity_bytes

    def holds(self, nodes: Collection[int], p: int) -> bool:
        """Whether a device has memory for the weights of `nodes` and what one needs beside."""
        constants = {c for v in nodes for c in self.problem.constants_of[v]}
        weights = sum(self.problem.constants[c].nbytes for c in constants)
        return weights + max(self.beside[v][p] for v in nodes) <= self.capacity[p]


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
    greedy = _greedy(problem, footprint, able)
    if greedy is not None:
        return greedy
    if int(able.sum()) > MOST_COLUMNS:
        return None
    return _program(problem, footprint, able)


class Filling(Room):
    """Memory of devices during assignment: weights, and buffers of the nodes."""

    def __init__(self, footprint: Footprint, assignment: Sequence[int] = ()) -> None:
        problem = footprint.problem
        super().__init__(problem, [-1] * problem.n)
        self._beside = footprint.beside
        self.needed = [0] * len(problem.devices)
        self.device = [-1] * problem.n
        for v, p in enumerate(assignment):
            self.put(v, p)

    def holds(self, node: int, device: int) -> bool:
        """Whether a device has memory left for a node."""
        beside = max(self.needed[device], self._beside[node][device])
        return self.needs(node, device) + beside <= self.left[device]

    def put(self, v: int, p: int) -> None:
        """Put a node on a device, even without room."""
        self.take(v, p)
        self.needed[p] = max(self.needed[p], self._beside[v][p])
        self.device[v] = p

    def move(self, v: int, q: int) -> None:
        """Put a node on another device. O(n)."""
        p = self.device[v]
        self.give_back(v, p)
        self.put(v, q)
        self.needed[p] = max((self._beside[u][p] for u in self.on(p)), default=0)

    def freed(self, v: int) -> int:
        """Return bytes of weights that only this node reads on its device."""
        p = self.device[v]
        self.give_back(v, p)
        nbytes = self.needs(v, p)
        self.take(v, p)
        return nbytes

    def over(self) -> list[int]:
        """Return the excess of weights and each node's buffers on each device, in bytes."""
        return [max(0, need - left) for need, left in zip(self.needed, self.left, strict=True)]

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

    count, capacity = len(problem.devices), footprint.capacity
    nodes = [(v, p) for v, p in np.argwhere(able).tolist()]
    column = {pair: index for index, pair in enumerate(nodes)}
    read_on: dict[tuple[int, int], list[int]] = {}
    for v, p in nodes:
        for c in problem.constants_of[v]:
            read_on.setdefault((c, p), []).append(column[v, p])
    there = {key: len(nodes) + index for index, key in enumerate(read_on)}
    # Behind these the weights of each device.
    total = len(nodes) + len(there) + count
    entries: list[tuple[int, int, float]] = []
    low: list[float] = []
    high: list[float] = []

    def row(cells: Sequence[tuple[int, float]], least: float, most: float) -> None:
        entries.extend((len(low), index, amount) for index, amount in cells)
        low.append(least)
        high.append(most)

    for v in range(problem.n):
        row([(column[v, p], 1.0) for p in range(count) if (v, p) in column], 1.0, 1.0)
    for key, readers in read_on.items():
        for index in readers:
            row([(index, 1.0), (there[key], -1.0)], -np.inf, 0.0)
    full: NDArray[np.float64] = np.ones(total)
    for p in range(count):
        unit, weights = float(max(capacity[p], 1)), total - count + p
        full[weights] = capacity[p] / unit
        cells = [
            (index, problem.constants[c].nbytes / unit) for (c, q), index in there.items() if q == p
        ]
        row([*cells, (weights, -1.0)], 0.0, 0.0)
        for v in range(problem.n):
            beside = footprint.beside[v][p]
            if (v, p) in column and beside > capacity[p]:
                full[column[v, p]] = 0.0
            elif (v, p) in column and beside:
                cells = [(weights, 1.0), (column[v, p], beside / unit)]
                row(cells, -np.inf, capacity[p] / unit)
    cost = np.zeros(total)
    cost[: len(nodes)] = problem.shared_seconds[tuple(np.array(nodes).T)]
    cost /= cost.max(initial=0.0) or 1.0
    rows, columns, amounts = (list(part) for part in zip(*entries, strict=True))
    matrix = coo_array((amounts, (rows, columns)), shape=(len(low), total)).tocsr()
    found = milp(
        cost,
        integrality=(np.arange(total) < len(nodes)).astype(np.int64),
        bounds=Bounds(np.zeros(total), full),
        constraints=LinearConstraint(matrix, np.array(low), np.array(high)),
        options={"node_limit": BRANCHES, "mip_rel_gap": 0.05},
    )
    if found.status == 2:
        raise _proof(problem, footprint)
    if found.x is None:
        return None
    chosen = np.full(able.shape, -1.0)
    chosen[able] = found.x[: len(nodes)]
    assignment = [int(p) for p in chosen.argmax(axis=1)]
    return None if any(Filling(footprint, assignment).over()) else assignment


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
