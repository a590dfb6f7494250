"""The runs of ``chain-dp`` for latency: which device has the order from where to where."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.core import left_to_python
from hetsim.core.machine_code import machine_code
from hetsim.placement.loads.costs import Costs, costs_of
from hetsim.placement.throughput.slices import States, segment_loads
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem

Array = Any
"""A list of numbers, or an array of them where it is _follow; matrices lie flat, by row."""

LEAST, COMPILE_FROM = 50_000, 50_000_000
"""Steps of one plan, and of all of a process, that are for machine code."""


def follow_devices(
    table: Array,
    number: Array,
    nbytes: Array,
    latency: Array,
    per_byte: Array,
    enter: Array,
    best: Array,
    through: Array,
    came: Array,
) -> None:
    """Find, place by place, from which device each is reached in the least time.

    Parameters
    ----------
    table : float [n count]
        Seconds of what stands at each place.
    number, nbytes : float [n + 1]
        Values that cross the cut before each place, and their bytes.
    latency, per_byte, enter : float [count count]
        Of changing device, a value, a byte and once; zero on the diagonal.
    best, through : float [count], float [count count]
        Seconds up to the first place, changed to those up to the last; and room to work in.
    came : int [n count]
        Out. Of ways that take as long, staying goes first, then the first device.

    Complexity: O(n count^2).
    """
    count = len(best)
    for at in range(1, len(came) // count):
        values, size = number[at], nbytes[at]
        for p in range(count):
            before = best[p]
            for k in range(p * count, p * count + count):
                through[k] = before + latency[k] * values + per_byte[k] * size + enter[k]
        for q in range(count):
            least, source = through[q], 0
            for p in range(1, count):
                if through[p * count + q] < least:
                    least, source = through[p * count + q], p
            came[at * count + q] = q if through[q * count + q] <= least else source
            best[q] = least + table[at * count + q]


@functools.cache
def _follow() -> Callable[..., None]:
    """Return ``follow_devices`` as machine code for int64 and float64 arrays."""
    return machine_code(follow_devices)


def pays(steps: int) -> bool:
    """Whether so many steps are for machine code."""
    return left_to_python.pays(_follow, follow_devices, steps, LEAST, COMPILE_FROM)


Run = tuple[int, int, int]
"""First place, end place, device."""


def fastest_runs(problem: Problem, order: Sequence[int]) -> list[Run] | None:
    """Return the runs with the least serial time; None where a node is supported nowhere alone.

    O(n P^2 + values).
    """
    n, count = problem.seconds.shape
    if n == 0:
        return []
    nodes = np.asarray(order, dtype=np.int64)
    place = np.empty(n, dtype=np.int64)
    place[nodes] = np.arange(n)
    table = np.where(problem.supported, problem.shared_seconds, np.inf)[nodes]
    values = problem.value_arrays
    read = np.flatnonzero(np.diff(values.readers.at))
    first, last = np.full((2, len(values.producer)), -1, dtype=np.int64)
    if read.size:
        places, starts = place[values.readers.node], values.readers.at[read]
        first[read] = np.minimum.reduceat(places, starts)
        last[read] = np.maximum.reduceat(places, starts)
    given = values.producer == GRAPH_INPUT
    made = np.where(given, -1, place[values.producer])
    # Bytes and number of the values that are needed behind the cut before each place.
    crossing = ~given & (last > made)
    steps = np.stack((made[crossing], last[crossing]), axis=1).ravel() + 1
    signs = np.tile([1.0, -1.0], steps.size // 2)
    nbytes, number = np.zeros((2, n + 1))
    np.add.at(nbytes, steps, signs * np.repeat(values.nbytes[crossing], 2))
    np.add.at(number, steps, signs)
    nbytes, number = np.cumsum(nbytes), np.cumsum(number)
    if problem.host is not None:
        moved = np.where(given, first >= 0, values.leaves)
        where = np.where(given, first, made)[moved]
        size, enters = values.nbytes[moved], given[moved]
        for p in range(count):
            if p != problem.host:
                there, back = problem.routes[problem.host][p], problem.routes[p][problem.host]
                seconds = (
                    np.where(enters, there.latency_s, back.latency_s)
                    + size / np.where(enters, there.bytes_per_s, back.bytes_per_s)
                )  # fmt: skip
                np.add.at(table[:, p], where, seconds)
    latency_s = np.array([[route.latency_s for route in row] for row in problem.routes])
    per_byte_s = np.array([[1.0 / route.bytes_per_s for route in row] for row in problem.routes])
    enter_s = np.broadcast_to(np.array(problem.dispatch_s), (count, count)).copy()
    for matrix in (latency_s, per_byte_s, enter_s):
        np.fill_diagonal(matrix, 0.0)
    columns = [
        column.ravel()
        for column in (
            table, number, nbytes, latency_s, per_byte_s, enter_s,
            np.array(problem.dispatch_s) + table[0], np.empty((count, count)),
            np.zeros((n, count), dtype=np.int64),
        )
    ]  # fmt: skip
    if pays(n * count * count):
        _follow()(*columns)
    else:
        rows = [column.tolist() for column in columns]
        follow_devices(*rows)
        columns = [np.array(row) for row in rows]
    best, came = columns[-3], columns[-1].reshape(n, count)
    device, end = int(best.argmin()), n
    if not np.isfinite(best[device]):
        return None
    runs: list[Run] = []
    for at in range(n - 1, -1, -1):
        before = int(came[at, device]) if at else -1
        if before != device:
            runs.append((at, end, device))
            end, device = at, before
    return runs[::-1]


def fastest_staged_runs(problem: Problem, order: Sequence[int]) -> list[Run] | None:
    """Return the runs with the least serial time where tensors are staged; None where none fit.

    A kind whose devices hold all constants may have any number of runs on its first device; the
    devices of another kind have one run each. O(n^2 K S).
    """
    costs = costs_of(problem)
    n = costs.n
    total = float(sum(nbytes for nbytes, _ in costs.constants))
    again = [bool(limit >= total) for limit in costs.capacity_bytes]
    states = States.of(
        [() if free else kind for kind, free in zip(costs.kinds, again, strict=True)]
    )
    table = segment_loads(costs, order)
    for kind, devices in enumerate(costs.kinds):
        width = problem.streams[devices[0]]
        if width > 1:
            table[kind] = _side_by_side(costs, order, kind, width, table[kind])
    best = np.full((n + 1, states.count), np.inf)
    best[0, 0] = 0.0
    came = np.full((n + 1, states.count, 2), -1, dtype=np.int64)
    for end in range(1, n + 1):
        for kind, free in enumerate(again):
            step = 0 if free else states.stride[kind]
            able = np.arange(states.count) if free else np.flatnonzero(states.room[:, kind])
            through = best[:end, able] + table[kind, :end, end][:, None]
            start = through.argmin(axis=0)
            reached = through[start, np.arange(len(able))]
            better = reached < best[end, able + step]
            target = able[better] + step
            best[end, target] = reached[better]
            came[end, target, 0], came[end, target, 1] = start[better], kind
    state, end = int(best[n].argmin()), n
    if not np.isfinite(best[n, state]):
        return None
    steps: list[tuple[int, int, int]] = []
    while end > 0:
        start_at, kind = int(came[end, state, 0]), int(came[end, state, 1])
        steps.append((start_at, end, kind))
        end, state = start_at, state - (0 if again[kind] else states.stride[kind])
    left = [list(devices) for devices in costs.kinds]
    return [
        (first, last, left[kind][0] if again[kind] else left[kind].pop(0))
        for first, last, kind in reversed(steps)
    ]


def _side_by_side(
    costs: Costs, order: Sequence[int], kind: int, width: int, serial: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the load of every segment on a device with several streams.

    The longest path within the segment, or what the streams need for all of it. O(n E).
    """
    n = costs.n
    place = [0] * n
    for at, node in enumerate(order):
        place[node] = at
    # finish[i, k]: end of the node at place k, in a run that begins at place i <= k.
    finish = np.zeros((n, n))
    longest = np.zeros((n + 1, n + 1))
    for at, node in enumerate(order):
        seconds = float(costs.compute_s[node, kind]) * width
        ready = np.zeros(at + 1)
        for u in costs.dag.preds[node]:
            before = place[u] + 1
            np.maximum(ready[:before], finish[:before, place[u]], out=ready[:before])
        finish[: at + 1, at] = ready + seconds
        longest[: at + 1, at + 1] = np.maximum(longest[: at + 1, at], finish[: at + 1, at])
    return np.maximum(longest, serial)
