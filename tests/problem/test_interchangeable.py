"""Two devices change places only where nothing at all tells them apart."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np

from hetsim.problem.parts import FusedKernel, Staging
from hetsim.problem.problem import Problem, interchangeable, kinds_of
from sweeps import sweep

ALIKE: dict[str, Any] = {
    "seconds": np.ones((3, 4)),
    "edges": [(0, 1, 8), (1, 2, 8)],
    "latency_s": np.full((4, 4), 2.0),
    "bytes_per_s": np.full((4, 4), 16.0),
    "weight_bytes": [1, 1, 1],
    "capacity_bytes": [9, 9, 9, 9],
    "dispatch_s": np.full(4, 0.5),
    "streams": [2, 2, 2, 2],
}


def problem(**other: Any) -> Problem:
    return Problem.from_arrays(**{**ALIKE, **other})


def nearly_alike(rng: random.Random) -> Problem:
    """Three or four devices, most of what they have the same."""
    count = rng.randint(3, 4)

    def mostly(value: float, other: float) -> list[Any]:
        return [other if rng.random() < 0.03 else value for _ in range(count)]

    problem = Problem.from_arrays(
        [mostly(1.0, 2.0) for _ in range(3)],
        edges=[(0, 1, 8), (1, 2, 8)],
        latency_s=[mostly(2.0, 1.0) for _ in range(count)],
        bytes_per_s=[mostly(16.0, 8.0) for _ in range(count)],
        capacity_bytes=rng.choice([None, mostly(9, 8)]),
        dispatch_s=mostly(0.5, 0.25),
        streams=mostly(2, 1),
        staging=rng.choice([None, Staging(tuple(mostly(0.0, 1.0)), tuple(mostly(0.0, 1.0)))]),
        host=rng.choice([None, rng.randrange(count)]),
    )
    pairs = [(0, 1), (1, 2)]
    rng.shuffle(pairs)
    fused = tuple(
        FusedKernel(device, nodes, seconds)
        for nodes in pairs
        for device, seconds in enumerate(mostly(1.5, 1.0))
        if rng.random() < 0.95
    )
    return replace(
        problem,
        fused=fused if rng.random() < 0.5 else (),
        least_s={0: tuple(mostly(0.75, 0.5))} if rng.random() < 0.5 else {},
    )


def as_told(problem: Problem, order: list[int]) -> object:
    """All that a problem says of its devices, as if they stood in another order."""
    capacity, staging = problem.capacity_bytes, problem.staging
    return [
        (
            p == problem.host, problem.seconds[:, p].tolist(), problem.least_seconds[:, p].tolist(),
            problem.dispatch_s[p], problem.streams[p], None if capacity is None else capacity[p],
            None if staging is None else staging.fetch_s_per_byte[p],
            None if staging is None else staging.store_s_per_byte[p],
            sorted((k.nodes, k.seconds) for k in problem.fused if k.device == p),
            [(problem.routes[p][q].latency_s, problem.routes[p][q].bytes_per_s) for q in order
             if q != p],
        )
        for p in order
    ]  # fmt: skip


@sweep("seeds", quick=[range(150)], full=[range(150), range(150, 3000)], ids=["some", "more"])
def test_two_change_places_where_the_problem_is_the_same_with_them_exchanged(seeds: range) -> None:
    found = [0, 0]
    for seed in seeds:
        exchanged(nearly_alike(random.Random(seed)), found)
    assert min(found) > 100


def exchanged(problem: Problem, found: list[int]) -> None:
    devices = range(len(problem.devices))
    change_places = interchangeable(problem)
    for a in devices:
        for b in devices:
            if a == b:
                continue
            order = list(devices)
            order[a], order[b] = b, a
            same = as_told(problem, order) == as_told(problem, list(devices))
            may = same and problem.host not in (a, b)
            assert change_places(a, b) == may
            found[may] += 1
    kinds = kinds_of(problem, devices)
    assert sorted(device for kind in kinds for device in kind) == list(devices)
    for kind in kinds:
        assert kind == sorted(kind)
        assert all(change_places(kind[0], device) for device in kind[1:])
    for one, kind in enumerate(kinds):
        assert not any(change_places(other[0], kind[0]) for other in kinds[:one])
