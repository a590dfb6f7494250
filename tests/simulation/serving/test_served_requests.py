"""Served requests told again from the rules have the times of the engine, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np

from oracles.random_deployments import CASES, Deployed, deployed, played
from oracles.served_requests import Player, Served, Work
from sweeps import sweep


def works(given: Deployed) -> list[Work]:
    """Each template of a layout."""
    structure = given.case.layout.structure
    tasks = structure.first[-1]
    before: list[list[int]] = [[] for _ in range(tasks)]
    for task in range(tasks):
        for at in range(structure.successor_at[task], structure.successor_at[task + 1]):
            before[structure.successors[at]].append(task)
    found = []
    for begin, end in zip(structure.first, structure.first[1:], strict=False):
        rows: list[Any] = [
            (
                max(structure.device[task], -1),
                float(given.case.duration[task]),
                structure.held[structure.held_at[task] : structure.held_at[task + 1]],
                [other - begin for other in before[task]],
            )
            for task in range(begin, end)
        ]
        found.append(Work(rows, structure.streams))
    return found


def player_of(given: Deployed) -> Player:
    """What is served."""
    work = works(given)
    models = []
    for model in given.models:
        variants, instances, largest = model.template.shape
        table = [
            [[work[model.template[v, i, b]] for b in range(largest)] for v in range(variants)]
            for i in range(instances)
        ]
        models.append(
            Served(
                table,
                list(model.limits),
                model.routing,
                levels=len(model.ranks),
                room=model.max_queue_size,
                timeout_s=model.timeout_s,
                delays=model.timeout_action == "delay",
                preferred=model.preferred,
                delay_s=model.delay_s,
            )
        )
    return Player(list(given.case.layout.structure.streams), given.case.layout.links, models)


@sweep("first", quick=range(0, 80, CASES), full=range(0, 5000, CASES))
def test_random_deployments_are_played_alike(first: int) -> None:
    seen = 0
    for seed in range(first, first + CASES):
        given = deployed(seed)
        if given.requests is not None:
            # It knows no clients that wait for an answer.
            continue
        asks = [
            (given.sources[stream].model, given.sources[stream].level, int(variant))
            for stream, variant in zip(given.stream, given.variant, strict=True)
        ]
        finish, fresh = player_of(given).play(given.case.arrival.tolist(), asks)
        told, _ = played(given, 1, machine_code=False)
        ends = np.where(np.isinf(finish), np.nan, finish)
        assert np.array_equal(ends, told.finish_s, equal_nan=True), seed
        assert np.array_equal(fresh, told.fresh), seed
        seen += 1
    assert seen > CASES / 3
