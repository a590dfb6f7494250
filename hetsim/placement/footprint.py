"""Lower bounds on a plan's memory, and assignments whose weights fit."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.core import deadline
from hetsim.core.units import format_bytes
from hetsim.errors import OutOfMemory
from hetsim.placement.listing.list_schedule import Room
from hetsim.problem.columns import transfer_costs
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.runs import SingleRun


@dataclass(frozen=True, eq=False)
class Footprint:
    """Lower bounds on memory, by the rules of ``clock.memory``."""

    problem: Problem  # Has memory capacities
    # [n][P]: Bytes on a device besides weights while it runs a node: all inputs and outputs of the
    # node. 0 if the node may take no time
    beside: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, problem: Problem) -> Footprint:
        """Return the footprint of a problem. O((V + E) P)."""
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
        """Return whether a device can hold the weights of `nodes` and the buffers of each."""
        constants = {c for v in nodes for c in self.problem.constants_of[v]}
        weights = sum(self.problem.constants[c].nbytes for c in constants)
        return weights + max(self.beside[v][p] for v in nodes) <= self.capacity[p]


def refusal(problem: Problem, over: SingleRun, what: str) -> OutOfMemory:
    """Return the error with the device and the excess of the closest plan."""
    assert problem.capacity_bytes is not None
    device = max(range(len(over.lacks)), key=lambda p: (over.lacks[p], -p))
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
"""Maximum number of branch-and-bound nodes; without a time limit the solver is deterministic."""
GAP = 0.05
"""Relative optimality gap at which the solver stops."""
MOST_COLUMNS = 60_000
"""Number of (node, device) pairs above which the solver is not used."""


def weights_that_fit(
    problem: Problem, footprint: Footprint, able: NDArray[np.bool_]
) -> list[int] | None:
    """Return a device per node such that weights and each node's buffers fit, or None."""
    weight = problem.weight_bytes
    choices = able.sum(axis=1).tolist()
    order = sorted(range(problem.n), key=lambda v: (choices[v], -weight[v], v))
    greedy = _in_turn(problem, footprint, able, order)
    if greedy is not None:
        return greedy
    if int(able.sum()) > MOST_COLUMNS:
        return None
    return least_total(problem, footprint, able, transfers=False)


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
        """Return whether a device has enough memory left for a node."""
        beside = max(self.needed[device], self._beside[node][device])
        return self.needs(node, device) + beside <= self.left[device]

    def put(self, v: int, p: int) -> None:
        """Assign a node to a device, even if it does not fit."""
        self.take(v, p)
        self.needed[p] = max(self.needed[p], self._beside[v][p])
        self.device[v] = p

    def move(self, v: int, q: int) -> None:
        """Reassign a node to another device. O(n)."""
        p = self.device[v]
        self.give_back(v, p)
        self.put(v, q)
        self.needed[p] = max((self._beside[u][p] for u in self.on(p)), default=0)

    def freed(self, v: int) -> int:
        """Return the bytes of weights that only this node reads on its device."""
        p = self.device[v]
        self.give_back(v, p)
        nbytes = self.needs(v, p)
        self.take(v, p)
        return nbytes

    def over(self) -> list[int]:
        """Return by device the bytes by which weights and buffers exceed its memory."""
        return [max(0, need - left) for need, left in zip(self.needed, self.left, strict=True)]

    def on(self, p: int) -> list[int]:
        """Return the nodes on a device."""
        return [v for v, device in enumerate(self.device) if device == p]


def quickest_homes(problem: Problem) -> list[int] | None:
    """Return a device per node such that weights fit, assigning by loss per byte; None if it fails.

    The loss of a node is its time on the second fastest device minus that on the fastest. None if
    some node finds no room. O(n P log n).
    """
    if not problem.supported.any(axis=1).all():
        return None
    weight = problem.weight_bytes
    quickest = np.sort(np.where(problem.supported, problem.shared_seconds, np.inf), axis=1)[:, :2]
    loss = np.ptp(quickest, axis=1)
    order = sorted(range(problem.n), key=lambda v: (-loss[v] / max(weight[v], 1), v))
    return _in_turn(problem, Footprint.of(problem), problem.supported, order)


def _in_turn(
    problem: Problem,
    footprint: Footprint,
    allowed: NDArray[np.bool_],
    order: Sequence[int],
) -> list[int] | None:
    """Assign nodes in the given order to their fastest device with room; None if one has none."""
    able = [np.flatnonzero(row).tolist() for row in allowed]
    seconds = problem.shared_seconds.tolist()
    filling = Filling(footprint)
    for v in order:
        roomy = [(seconds[v][p], p) for p in able[v] if filling.holds(v, p)]
        if not roomy:
            return None
        filling.put(v, min(roomy)[1])
    return filling.device


def least_total(
    problem: Problem, footprint: Footprint, able: NDArray[np.bool_], *, transfers: bool = True
) -> list[int] | None:
    """Return the devices of least total time that hold the weights and each node's buffers.

    Solves an integer program with HiGHS: a column for each node on each device, for each constant
    there, for the weights of each device and, with `transfers`, for each tensor moved to a device,
    at the cost of its fastest route and a dispatch. None if BRANCHES find nothing. Raises
    OutOfMemory if no solution exists.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    count, capacity = len(problem.devices), footprint.capacity
    nodes = [(v, p) for v, p in np.argwhere(able).tolist()]
    column = {pair: index for index, pair in enumerate(nodes)}
    cost, most = problem.shared_seconds[tuple(np.array(nodes).T)].tolist(), [1.0] * len(nodes)
    entries: list[tuple[int, int, float]] = []
    low: list[float] = []
    high: list[float] = []

    def row(cells: Sequence[tuple[int, float]], least: float, most: float) -> None:
        entries.extend((len(low), index, amount) for index, amount in cells)
        low.append(least)
        high.append(most)

    def new(seconds: float, largest: float = 1.0) -> int:
        cost.append(seconds)
        most.append(largest)
        return len(cost) - 1

    for v in range(problem.n):
        row([(column[v, p], 1.0) for p in range(count) if (v, p) in column], 1.0, 1.0)
    kept: list[list[tuple[int, float]]] = [[] for _ in range(count)]
    for constant in problem.constants:
        for p in range(count):
            readers = [column[v, p] for v in constant.consumers if (v, p) in column]
            there = new(0.0)
            kept[p].append((there, constant.nbytes / max(capacity[p], 1)))
            for index in readers:
                row([(index, 1.0), (there, -1.0)], -np.inf, 0.0)
    for p in range(count):
        unit = max(capacity[p], 1)
        weights = new(0.0, capacity[p] / unit)
        row([*kept[p], (weights, -1.0)], 0.0, 0.0)
        for v in range(problem.n):
            beside = footprint.beside[v][p]
            if (v, p) in column and beside > capacity[p]:
                most[column[v, p]] = 0.0
            elif not transfers and (v, p) in column and beside:
                cells = [(weights, 1.0), (column[v, p], beside / unit)]
                row(cells, -np.inf, capacity[p] / unit)
    latency_s, per_byte_s = transfer_costs(problem)
    np.fill_diagonal(latency_s, np.inf)
    for value in problem.values if transfers else ():
        u, way_s = value.producer, latency_s + per_byte_s * value.nbytes
        sources = [p for p in range(count) if (u, p) in column]
        if u == GRAPH_INPUT and problem.host is not None:
            sources = [problem.host]
        for q in range(count):
            readers = [column[v, q] for v in value.consumers if (v, q) in column]
            least_s = min((float(way_s[p, q]) for p in sources), default=np.inf)
            if readers and least_s < np.inf:
                moved = new(least_s + problem.dispatch_s[q])
                here = [(column[u, q], -1.0)] if (u, q) in column else []
                for index in readers:
                    row([(index, 1.0), *here, (moved, -1.0)], -np.inf, 0.0)
            if value.is_output and problem.host not in (None, q) and (u, q) in column:
                cost[column[u, q]] += float(way_s[q, problem.host])
    options: Any = {"node_limit": BRANCHES, "mip_rel_gap": GAP}
    if deadline.is_set():
        options["time_limit"] = max(deadline.left_s(), 0.0)
    rows, columns, amounts = (list(part) for part in zip(*entries, strict=True))
    matrix = coo_array((amounts, (rows, columns)), shape=(len(low), len(cost))).tocsr()
    found = milp(
        np.array(cost) / (max(cost) or 1.0),
        integrality=(np.arange(len(cost)) < len(nodes)).astype(np.int64),
        bounds=Bounds(np.zeros(len(cost)), np.array(most)),
        constraints=LinearConstraint(matrix, np.array(low), np.array(high)),
        options=options,
    )
    if found.status == 2:
        raise _proof(problem, footprint)
    if found.x is None:
        return None
    chosen = np.full(able.shape, -1.0)
    chosen[able] = found.x[: len(nodes)]
    assignment = [int(p) for p in chosen.argmax(axis=1)]
    fits = transfers or not any(Filling(footprint, assignment).over())
    return assignment if fits else None


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
