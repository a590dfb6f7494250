"""Of all ready nodes and devices the best pair is next, by machine code or not."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import problems
from hetsim.errors import OutOfMemory
from hetsim.placement.listing.list_schedule import Listing, Slot, takes
from hetsim.placement.listing.ranks import static_levels
from hetsim.placement.listing.ready_pairs import schedule_pairs
from hetsim.problem.problem import Problem
from placement_instances import model_like
from sweeps import examples


@pytest.mark.group("machine_code")
@examples(quick=10, full=30)
@given(model_like(problems(max_nodes=10)), st.data())
def test_the_best_pair_is_next(problem: Problem, data: st.DataObject) -> None:
    """From the definition, pair by pair; machine code or not, with memory and without."""
    levels, medians = static_levels(problem)
    worth = [level + median for level, median in zip(levels, medians, strict=True)]
    rank = list(range(problem.n))[::-1]
    able = [np.flatnonzero(row).tolist() for row in problem.supported]
    homes = [data.draw(st.sampled_from([-1, *devices])) for devices in able]
    asked: list[dict[str, Any]] = [{"worth": worth}, {"rank": rank}]
    given = [(replace(problem, capacity_bytes=None), None), (problem, None), (problem, homes)]
    for options, (left, kept) in itertools.product(asked, given):
        told = pairs_of(left, kept, options)
        for machine_code in (False, True):
            if told is None:
                with pytest.raises(OutOfMemory):
                    schedule_pairs(left, kept, **options, machine_code=machine_code)
                continue
            made = schedule_pairs(left, kept, **options, machine_code=machine_code)
            pairs = zip(made.assignment, made.start_s, made.end_s, strict=True)
            assert [*pairs] == told


def pairs_of(
    problem: Problem, homes: list[int] | None, options: dict[str, Any]
) -> list[tuple[int, float, float]] | None:
    """Device, start and end by node; None where a node that is ready finds no device."""
    made, count = [(0, 0.0, 0.0)] * problem.n, len(problem.devices)
    listing = Listing(problem, homes)
    free = [[0.0] * streams for streams in problem.streams]
    left = set(range(problem.n))
    while left:
        pairs = []
        for v in sorted(left):
            if not left.isdisjoint(problem.dag.preds[v]):
                continue
            able = [p for p in range(count) if takes(listing.lists, v, p)]
            if not able:
                return None
            for p in able:
                begin = max(listing.lists.ready[v * count + p], min(free[p]))
                near = any(made[u][0] == p for u in problem.dag.preds[v])
                length = problem.shared_seconds[v, p]
                end = begin + (length if near else length + problem.dispatch_s[p])
                first = "rank" in options
                key = (end, options["rank"][v]) if first else (end - options["worth"][v], v)
                pairs.append((key, p, v, begin, end))
        _, p, v, begin, end = min(pairs)
        made[v] = (p, begin, end)
        free[p][free[p].index(min(free[p]))] = end
        listing.place(v, Slot(end, begin, end, p, 0))
        left.remove(v)
    return made
