"""The verb ``lower_bound``: what no plan that obeys the constraints can go below."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from hetsim.core import checks
from hetsim.partitioning.affinity.affinity import Affinity, Exclusion
from hetsim.placement.bounds.lower_bound import bound_of, quick_bound_of
from hetsim.placement.constraints import Constrained, checked_fields, with_affinity
from hetsim.placement.narrowing import narrowed
from hetsim.placement.objective import Objective, check_objective
from hetsim.problem.interchangeable import kinds_of
from hetsim.problem.problem import Problem

MOST_CHOICES = 64
"""Choices of devices that are weighed for ``max_devices``; of alike devices any counts once."""


@checks.takes(
    problem=checks.instance("hetsim.problem.problem:Problem"),
    objective=checks.text,
    affinity=checks.instance("hetsim.partitioning.affinity.affinity:Affinity"),
)
def lower_bound(
    problem: Problem,
    objective: Objective = "latency",
    *,
    affinity: Affinity | None = None,
    pins: Mapping[str, str] | None = None,
    exclude: Sequence[Exclusion] = (),
    max_devices: int | None = None,
    capacity_bytes: Mapping[str, int] | None = None,
) -> float:
    """Return seconds that no plan can go below; inf where none is feasible, as far as is seen.

    0, which claims nothing, where ``problem.unpriced`` names nodes.

    For ``latency``: no plan's end-to-end latency. For ``throughput``: no plan's seconds a
    request at its most loaded device, and so no rate of requests above its inverse. Both hold
    without contention, and so with it. ``lower_bound.bound_of`` says how they come about.

    Parameters
    ----------
    problem : Problem
    objective : "latency" or "throughput"
    affinity, pins, exclude, max_devices, capacity_bytes
        As ``plan`` takes them, see ``Constrained``: the bound is then of the plans that obey
        them. It is never below that of the same memory without the others.

    Raises
    ------
    UsageError
        For an unknown objective or device, or an option of the wrong kind.
    InvalidInput
        For a pin or an exclusion that names nothing.
    UnsupportedNode
        Where they leave a node without a device.

    Complexity: that of ``bound_of``, twice with pins or exclusions. With `max_devices` once more
    for each choice of so many devices that a quick bound does not rule out; where there are more
    than MOST_CHOICES, the number is left out of account.
    """
    given: dict[str, Any] = {
        "pins": {} if pins is None else pins,
        "exclude": exclude,
        "max_devices": max_devices,
        "capacity_bytes": {} if capacity_bytes is None else capacity_bytes,
    }
    if affinity is not None:
        given = with_affinity(given, affinity, problem)
    return bound_under(Constrained(**checked_fields(Constrained, given)), problem, objective)


def bound_under(
    limits: Constrained, problem: Problem, objective: Objective, met_s: float = float("inf")
) -> float:
    """Return what ``lower_bound`` does, of constraints in one record; `met_s` as ``bound_of``."""
    check_objective(objective)
    limits.check()
    wide = Constrained(capacity_bytes=limits.capacity_bytes).narrow(problem)
    found = bound_of(wide, objective, met_s)
    left = wide
    if limits.pins or limits.exclude:
        left = limits.narrow(problem)
        found = max(found, bound_of(left, objective, met_s))
    if limits.max_devices is not None:
        found = max(found, _of_few(left, limits.max_devices, objective))
    return found


def stated_bound(
    problem: Problem,
    objective: Objective = "latency",
    limits: Constrained | None = None,
    met_s: float = float("inf"),
) -> float | None:
    """Return ``lower_bound``, or None where a node that is not priced leaves nothing to state.

    `met_s`: the latency of a plan under the same limits, which makes it no larger, but quicker.
    """
    found = bound_under(limits or Constrained(), problem, objective, met_s)
    return None if problem.unpriced and np.isfinite(found) else found


def _of_few(problem: Problem, most: int, objective: Objective) -> float:
    """Return the least bound over all choices of `most` devices; 0 where there are too many."""
    usable = np.flatnonzero(problem.runnable.any(axis=0)).tolist()
    if most >= len(usable) or not problem.runnable.any(axis=1).all():
        return 0.0
    choices = list(islice(_choices(kinds_of(problem, usable), most), MOST_CHOICES + 1))
    if len(choices) > MOST_CHOICES:
        return 0.0
    quick: list[tuple[float, int, Problem]] = []
    for index, devices in enumerate(choices):
        open_to = np.zeros((problem.n, len(problem.devices)), dtype=np.bool_)
        open_to[:, list(devices)] = True
        left = narrowed(problem, open_to)
        quick.append((quick_bound_of(left, objective), index, left))
    least = float("inf")
    for at_least_s, _, left in sorted(quick, key=lambda entry: entry[:2]):
        if at_least_s >= least:
            break
        least = min(least, max(at_least_s, bound_of(left, objective)))
    return least


def _choices(kinds: Sequence[Sequence[int]], most: int) -> Iterator[tuple[int, ...]]:
    """Give every choice of `most` devices, of each kind its first ones."""
    if not kinds:
        if most == 0:
            yield ()
        return
    first, rest = kinds[0], kinds[1:]
    for count in range(min(most, len(first)), -1, -1):
        for others in _choices(rest, most - count):
            yield (*first[:count], *others)
