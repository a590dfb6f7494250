"""Strategy ``peft``: earliest finish time with an optimistic look at the way out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hetsim.core import left_to_python
from hetsim.core.machine_code import machine_code
from hetsim.graph.dag import topological_order
from hetsim.placement.listing.columns import columns_of
from hetsim.placement.listing.list_schedule import Schedule, scheduled
from hetsim.placement.listing.ranks import mean_route, rounded
from hetsim.placement.starting.constructive import Constructive
from hetsim.problem.problem import Problem

Array = Any
"""A list of numbers, or an array of them where it is _look_ahead; matrices lie flat, by row."""

INFINITY = float("inf")

LEAST, COMPILE_FROM = 10_000, 20_000_000
"""Readers times devices of one plan, and of all of a process, that are for machine code."""


def look_ahead(
    count: int,
    host: int,
    latency_s: float,
    per_byte_s: float,
    seconds: Array,
    made_at: Array,
    made_bytes: Array,
    leaves: Array,
    reader_at: Array,
    readers: Array,
    latency: Array,
    bandwidth: Array,
    table: Array,
    through: Array,
) -> None:
    """Fill in `table`, from the last node to the first.

    Parameters
    ----------
    count, host : int
        Devices, and the one where outputs end; -1: they end anywhere.
    latency_s, per_byte_s : float
        Of transfers, on average.
    seconds ... bandwidth
        As in ``columns.Columns``.
    table, through : float [n count]
        Out, zeros before: the longest way out behind a node on a device where later nodes choose
        freely, and that with the node itself.

    Complexity: O(E count).
    """
    for node in range(len(made_at) - 2, -1, -1):
        row = node * count
        for value in range(made_at[node], made_at[node + 1]):
            if leaves[value] and host >= 0:
                for p in range(count):
                    way = (
                        latency[p * count + host] + made_bytes[value] / bandwidth[p * count + host]
                    )
                    if way > table[row + p]:
                        table[row + p] = way
            moved = latency_s + per_byte_s * made_bytes[value]
            for k in range(reader_at[value], reader_at[value + 1]):
                after = readers[k] * count
                least, second, where = INFINITY, INFINITY, -1
                for q in range(count):
                    if where < 0 or through[after + q] < least:
                        least, second, where = through[after + q], least, q
                    elif through[after + q] < second:
                        second = through[after + q]
                for p in range(count):
                    # Where it stays, or where another device is quickest.
                    way = (second if p == where else least) + moved
                    if through[after + p] < way:
                        way = through[after + p]
                    if way > table[row + p]:
                        table[row + p] = way
        for p in range(count):
            through[row + p] = table[row + p] + seconds[row + p]


@functools.cache
def _look_ahead() -> Callable[..., None]:
    """Return ``look_ahead`` as machine code for int64 and float64 arrays."""
    return machine_code(look_ahead)


def pays(work: int) -> bool:
    """Whether so many readers times devices are for machine code."""
    return left_to_python.pays(_look_ahead, look_ahead, work, LEAST, COMPILE_FROM)


@dataclass(frozen=True, slots=True)
class Peft(Constructive):
    """Each node goes where its finish and the best that can follow are earliest.

    Objective: makespan. The optimistic cost of a node on a device is the longest way from
    there to an exit when every later node chooses freely, mean transfers where it changes
    device. Ready nodes go by their mean optimistic cost. Beyond the paper: an output's way
    back to the host counts as the end of the way, and what ``list_schedule.Listing`` says.

    Complexity: O(E P^2 + n P log n), and the grouping.

    Source: H. Arabnejad, J. G. Barbosa, List scheduling algorithm for heterogeneous systems
    by an optimistic cost table, IEEE TPDS 25(3), 2014.
    """

    name: ClassVar[str] = "peft"
    how: ClassVar[str] = "earliest finish with an optimistic cost table"

    def schedule(self, problem: Problem, homes: Sequence[int] | None = None) -> Schedule:
        """Return the schedule; see ``Listing`` for `homes` and the errors."""
        table = optimistic_costs(problem)
        able = problem.supported
        sums = np.where(able, table, 0.0).sum(axis=1) / able.sum(axis=1).clip(min=1)
        keys = [-rank for rank in rounded(sums.tolist())]
        order = topological_order(problem.dag.succs, keys)
        assert order is not None
        return scheduled(problem, homes, order, ahead=table)


def optimistic_costs(problem: Problem) -> NDArray[np.float64]:
    """Return the optimistic cost table [n, P] in seconds; inf where nothing can follow."""
    count = len(problem.devices)
    latency_s, per_byte_s = mean_route(problem)
    columns = columns_of(problem)
    given = (
        columns.seconds, columns.made_at, columns.made_bytes, columns.leaves, columns.reader_at,
        columns.readers, columns.latency, columns.bandwidth,
        np.zeros(problem.n * count), np.empty(problem.n * count),
    )  # fmt: skip
    host = -1 if problem.host is None else problem.host
    if pays(len(columns.readers) * count):
        _look_ahead()(count, host, latency_s, per_byte_s, *given)
        return given[-2].reshape(problem.n, count)
    rows = [column.tolist() for column in given]
    look_ahead(count, host, latency_s, per_byte_s, *rows)
    return np.array(rows[-2], dtype=np.float64).reshape(problem.n, count)
