"""List scheduling without a fixed order: of all ready nodes and devices, the best pair is next."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from hetsim.placement.listing.dynamic_kernel import compiled, place_pairs
from hetsim.placement.listing.list_schedule import Listing, Schedule
from hetsim.placement.listing.ranks import made_by, travel_matrices
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
    listing = Listing(problem, homes)
    n, count = problem.n, listing.count
    made = made_by(problem)
    latency_s, bytes_per_s = travel_matrices(problem)
    values = [value for row in made for value in row]
    reader_at, readers = flat([value.consumers for value in values])
    follower_at, followers = flat(problem.dag.succs)
    device, begin, end = [-1] * n, [0.0] * n, [0.0] * n
    room = listing.memory
    weight_at, weights = flat(problem.constants_of if room is not None else [()] * n)
    held = [readers for row in room.readers for readers in row] if room is not None else []
    lanes = list(accumulate(problem.streams, initial=0))
    columns: dict[str, tuple[type, list[Any]]] = {
        "seconds": (float, [s for row in listing.seconds for s in row]),
        "dispatch": (float, list(problem.dispatch_s)),
        "lane_at": (int, lanes),
        "lane_free": (float, [0.0] * lanes[-1]),
        "lane_of": (int, [0] * count),
        "made_at": (int, list(accumulate((len(row) for row in made), initial=0))),
        "made_bytes": (float, [float(value.nbytes) for value in values]),
        "reader_at": (int, reader_at),
        "readers": (int, readers),
        "latency": (float, latency_s.ravel().tolist()),
        "bandwidth": (float, bytes_per_s.ravel().tolist()),
        "arrival": (float, [s for row in listing.ready for s in row]),
        "waits": (int, [len(before) for before in problem.dag.preds]),
        "follower_at": (int, follower_at),
        "followers": (int, followers),
        "worth": (float, list(worth) or [0.0] * n),
        "rank": (int, list(rank) or [0] * n),
        "earliest": (bool, [bool(rank)]),
        "weight_at": (int, weight_at),
        "weights": (int, weights),
        "weight_bytes": (int, [c.nbytes for c in problem.constants] if room is not None else []),
        "held": (int, held),
        "left": (int, list(room.left) if room is not None else []),
        "home": (int, list(room.homes) if room is not None else []),
        "near": (int, [0] * (n * count)),
        "queue": (int, [0] * n),
        "device": (int, device),
        "begin": (float, begin),
        "end": (float, end),
    }
    if n >= COMPILE_FROM if machine_code is None else machine_code:
        kinds = {int: np.int64, float: np.float64, bool: np.bool_}
        arrays: dict[str, Any] = {
            name: np.array(row, dtype=kinds[kind]) for name, (kind, row) in columns.items()
        }
        lost = compiled()(count, *arrays.values())
        device, begin, end = (arrays[name].tolist() for name in ("device", "begin", "end"))
    else:
        lost = place_pairs(count, *(row for _, row in columns.values()))
    if lost >= 0:
        listing.refuse(lost)
    return Schedule(tuple(device), tuple(begin), tuple(end))
