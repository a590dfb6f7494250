"""List scheduling without a fixed order: of all ready nodes and devices, the best pair is next."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from hetsim.graph.dag import Ints
from hetsim.placement.listing.columns import columns_of
from hetsim.placement.listing.dynamic_kernel import compiled, place_pairs
from hetsim.placement.listing.list_schedule import Listing, Schedule
from hetsim.placement.listing.room import Room
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.templates import flat

COMPILE_FROM = 1_500
"""Nodes from which loading the machine code costs less CPU time than it saves."""


def schedule_pairs(
    problem: Problem,
    homes: Sequence[int] | None,
    *,
    worth: Sequence[float] = (),
    rank: Sequence[int] = (),
    machine_code: bool | None = None,
) -> Schedule:
    """Place pairs until nothing is left; no gap is filled.

    Estimates, memory and errors are those of ``Listing``; ties go to the lower node, then to
    the lower device. O(n W P) for W ready nodes at once.

    Parameters
    ----------
    problem : Problem
    homes : sequence of int, optional
        See ``Listing``.
    worth : [n], seconds
        The pair whose end less its node's worth is least is next.
    rank : [n]
        In place of `worth`: the pair that ends first, of equals that of the least rank.
    machine_code : bool, optional
        Whether numba compiles it; absent: where there are many nodes. The schedule is the same.
    """
    n, count = problem.n, len(problem.devices)
    shared, dag = columns_of(problem), problem.dag
    room = Room(problem, homes) if problem.capacity_bytes is not None else None
    weight_at, weights = flat(problem.constants_of if room is not None else [()] * n)
    held = [readers for row in room.readers for readers in row] if room is not None else []
    lanes = list(accumulate(problem.streams, initial=0))
    device, begin, end = np.full(n, -1), np.zeros(n), np.zeros(n)
    columns = (
        shared.seconds,
        np.array(problem.dispatch_s, dtype=np.float64),
        _ints(lanes),
        np.zeros(lanes[-1]),
        np.zeros(count, dtype=np.int64),
        shared.made_at,
        shared.made_bytes,
        shared.reader_at,
        shared.readers,
        shared.latency,
        shared.bandwidth,
        shared.arrival.copy(),
        np.diff(dag.pred_rows.at),
        dag.succ_rows.at,
        dag.succ_rows.node,
        np.array(worth or np.zeros(n), dtype=np.float64),
        _ints(rank or [0] * n),
        np.array([bool(rank)]),
        _ints(weight_at),
        _ints(weights),
        _ints([c.nbytes for c in problem.constants] if room is not None else []),
        _ints(held),
        _ints(room.left if room is not None else []),
        _ints(room.homes if room is not None else []),
        np.zeros(n * count, dtype=np.int64),
        np.zeros(n, dtype=np.int64),
        device,
        begin,
        end,
    )
    if n >= COMPILE_FROM if machine_code is None else machine_code:
        lost = compiled()(count, *columns)
        made: Any = [column.tolist() for column in (device, begin, end)]
    else:
        rows = [column.tolist() for column in columns]
        lost = place_pairs(count, *rows)
        made = rows[-3:]
    if lost >= 0:
        Listing(problem, homes).refuse(lost)
    return Schedule(tuple(made[0]), tuple(made[1]), tuple(made[2]))


def _ints(numbers: Sequence[int]) -> Ints:
    return np.array(numbers, dtype=np.int64)
