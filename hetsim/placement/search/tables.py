"""A problem and a draft in the arrays that the kernel of the search takes."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.placement.listing.ranks import travel_matrices
from hetsim.placement.listing.room import Room
from hetsim.placement.search.evaluation import Draft
from hetsim.placement.search.records import (
    COUNTS,
    CUT,
    FIGURES,
    LIMIT,
    LONGEST,
    LOOKED,
    SHIFTED,
    STEP,
    Asked,
    Search,
)
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.templates import flat

MARKED_FROM = 4 * STEP
"""Nodes from which marks save more time than they take."""


def asked_of(problem: Problem, *, grouped: bool, binds: bool) -> Asked:
    """Return the problem in arrays. O(V + E + sizes P^2).

    Parameters
    ----------
    problem : Problem
    grouped : bool
        Whether subgraphs count, as ``Estimator.grouped`` says.
    binds : bool
        Whether weights must fit.
    """
    n, host = problem.n, problem.host
    latency_s, bytes_per_s = travel_matrices(problem)
    fifo = problem.contention == "fifo"
    size_of = {
        nbytes: k for k, nbytes in enumerate(dict.fromkeys(v.nbytes for v in problem.values))
    }
    travel_s = [latency_s + nbytes / bytes_per_s for nbytes in size_of]
    read_value: list[list[int]] = [[] for _ in range(n)]
    read_from: list[list[int]] = [[] for _ in range(n)]
    given: list[list[int]] = [[] for _ in range(n)]
    made: list[list[int]] = [[] for _ in range(n + 1)]
    outputs: list[tuple[int, int]] = []
    input_s = np.zeros((n, len(problem.devices)))
    for index, value in enumerate(problem.values):
        if value.producer == GRAPH_INPUT:
            if host is None:
                continue
            made[n].append(index)
            for v in value.consumers:
                given[v].append(index)
                input_s[v] = np.maximum(input_s[v], travel_s[size_of[value.nbytes]][host])
            continue
        made[value.producer].append(index)
        for v in value.consumers:
            read_value[v].append(index)
            read_from[v].append(value.producer)
        if value.is_output and host is not None:
            outputs.append((index, value.producer))
    seconds = np.where(problem.supported, problem.shared_seconds, np.inf)
    level, tail = seconds.min(axis=1, initial=np.inf).tolist(), [0.0] * n
    for v in range(n - 1, -1, -1):
        tail[v] = max((level[w] for w in problem.dag.succs[v]), default=0.0)
        level[v] += tail[v]
    able = [np.flatnonzero(row).tolist() for row in problem.supported]
    holds = [route.resources if fifo else () for row in problem.routes for route in row]
    fields: Any = {
        "nodes": n,
        "devices": len(problem.devices),
        "host": -1 if host is None else host,
        "fifo": int(fifo),
        "grouped": int(grouped),
        "binds": int(binds),
        "seconds": _floats(seconds),
        "input_s": _floats(input_s),
        "level": _floats(level),
        "tail": _floats(tail),
        "dispatch_s": _floats(problem.dispatch_s),
        "lane_at": _ints(np.cumsum([0, *problem.streams])),
        **_rows("pred", problem.dag.preds),
        **_rows("succ", problem.dag.succs),
        **_rows("able", able),
        "takes": _ints(problem.supported),
        "movable": _ints([v for v, devices in enumerate(able) if len(devices) > 1]),
        "read_at": _ints(flat(read_value)[0]),
        "read_value": _ints(flat(read_value)[1]),
        "read_from": _ints(flat(read_from)[1]),
        **_rows("given", given),
        **_rows("made", made),
        **_rows("reader", [value.consumers for value in problem.values]),
        "leaves": _ints([value.is_output and host is not None for value in problem.values]),
        "size": _ints([size_of[value.nbytes] for value in problem.values]),
        "travel_s": _floats(travel_s),
        "out_value": _ints([value for value, _ in outputs]),
        "out_from": _ints([producer for _, producer in outputs]),
        **_rows("hold", holds),
        **_rows("constant", problem.constants_of),
        "nbytes": _ints([constant.nbytes for constant in problem.constants]),
    }
    return Asked(**fields)


def search_of(asked: Asked, links: int, draft: Draft, room: Room | None) -> Search:
    """Return the state in which nothing was tried yet; its twister is to be ``seeded``."""
    n, count = asked.nodes, asked.devices
    place = [0] * n
    for index, v in enumerate(draft.order):
        place[v] = index
    left = room.left if room is not None else [0] * count
    readers = room.readers if room is not None else [[0] * len(asked.nbytes)] * count
    counts, none = np.zeros(COUNTS, dtype=np.int64), np.zeros(n, dtype=np.int64)
    # Subgraphs go on behind a mark.
    wide = int(asked.lane_at[-1]) + 2 * count + 1
    marks = 0 if asked.grouped or n < MARKED_FROM else (1 + n // STEP) * wide
    counts[LOOKED] = counts[CUT] = counts[SHIFTED] = -1
    fields: Any = {
        "order": _ints(draft.order),
        "place": _ints(place),
        "device": _ints(draft.device),
        "cut": _ints(draft.cut),
        "best_order": none.copy(),
        "best_device": none.copy(),
        "best_cut": none.copy(),
        "label": none.copy(),
        "member_at": np.zeros(n + 1, dtype=np.int64),
        "member": none.copy(),
        "last": np.zeros(count, dtype=np.int64),
        "ends": np.zeros(n),
        "lanes": np.zeros(int(asked.lane_at[-1])),
        "turn": np.zeros(count),
        "ahead": np.zeros(count),
        "load": np.zeros(count),
        "whole": np.zeros(count),
        "done": np.zeros(count),
        "kept": np.zeros(n),
        "marks": np.zeros(marks),
        "changed_marks": np.zeros(marks),
        "busy": np.zeros(links),
        "arrival": np.zeros(len(asked.size) * count),
        "targets": np.zeros(count, dtype=np.int64),
        "left": _ints(left),
        "readers": _ints(readers),
        "node": np.zeros(LONGEST, dtype=np.int64),
        "own": np.zeros(LONGEST, dtype=np.int64),
        "twister": np.zeros(625, dtype=np.int64),
        "counts": counts,
        "figures": np.zeros(FIGURES),
    }
    fields["figures"][LIMIT] = np.inf
    return Search(**fields)


def seeded(search: Search, rng: random.Random) -> None:
    """Let the search draw what `rng` would draw next."""
    search.twister[:] = rng.getstate()[1]


def drafted(search: Search) -> Draft:
    """Return the best draft."""
    return Draft(
        search.best_order.tolist(),
        search.best_device.tolist(),
        [bool(cut) for cut in search.best_cut.tolist()],
    )


def _rows(name: str, rows: Sequence[Iterable[int]]) -> dict[str, NDArray[np.int64]]:
    offsets, entries = flat(rows)
    return {f"{name}_at": _ints(offsets), name: _ints(entries)}


def _ints(numbers: Any) -> NDArray[np.int64]:
    return np.ascontiguousarray(numbers, dtype=np.int64).reshape(-1)


def _floats(numbers: Any) -> NDArray[np.float64]:
    return np.ascontiguousarray(numbers, dtype=np.float64).reshape(-1)
