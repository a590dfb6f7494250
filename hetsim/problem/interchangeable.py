"""Which devices of a Problem can change places: no time and no room would be another."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from hetsim.problem.problem import Problem


def interchangeable(problem: Problem) -> Callable[[int, int], bool]:
    """Return the test whether two devices, by index, can change places.

    They are no host; nodes, kernels and what staging asks cost them the same; they hold as much;
    and every way to and from the one is as fast as that of the other. Which links these ways
    share with others is not looked at. A test is O(n + P).
    """
    own = [_own(problem, device) for device in range(len(problem.devices))]
    ways = [[(route.latency_s, route.bytes_per_s) for route in row] for row in problem.routes]

    def change_places(a: int, b: int) -> bool:
        if problem.host in (a, b) or own[a] != own[b]:
            return False
        if not np.array_equal(problem.seconds[:, a], problem.seconds[:, b]):
            return False
        if not np.array_equal(problem.least_seconds[:, a], problem.least_seconds[:, b]):
            return False
        return ways[a][b] == ways[b][a] and all(
            ways[a][p] == ways[b][p] and ways[p][a] == ways[p][b]
            for p in range(len(ways))
            if p not in (a, b)
        )

    return change_places


def kinds_of(problem: Problem, devices: Iterable[int]) -> list[list[int]]:
    """Return `devices` by kinds, in their order: each can change places with its kind's first.

    O(P^2) tests of ``interchangeable``.
    """
    change_places = interchangeable(problem)
    kinds: list[list[int]] = []
    for device in devices:
        for kind in kinds:
            if change_places(kind[0], device):
                kind.append(device)
                break
        else:
            kinds.append([device])
    return kinds


def _own(problem: Problem, device: int) -> object:
    """What a device has that no node, and no other device, has a part in."""
    staging = problem.staging
    return (
        problem.streams[device],
        problem.dispatch_s[device],
        None if problem.capacity_bytes is None else problem.capacity_bytes[device],
        None
        if staging is None
        else (staging.fetch_s_per_byte[device], staging.store_s_per_byte[device]),
        sorted((k.nodes, k.seconds, k.pattern) for k in problem.fused if k.device == device),
    )
