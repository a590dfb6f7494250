"""How many replicas there should be: Ray Serve's own policy, as a pure function.

What Ray Serve 2.60 decides by its default policy, bounds and delays included
(https://docs.ray.io/en/latest/serve/advanced-guides/advanced-autoscaling.html):
so many replicas are wanted as bring the requests of each to the target, rounded up; a factor damps
the change; more, or fewer, must have been wanted for a while before they are had.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from hetsim.workloads.autoscaling import Autoscaling

ROUNDING_S = 1e-6
"""By which a delay counts as over sooner: differences of times are rounded."""


class Leaning(NamedTuple):
    """Since when, and whether, more or fewer replicas have been wanted without a break.

    Attributes
    ----------
    direction : int
        1: more; -1: fewer; 0: neither.
    since_s : float
        NaN where neither.
    """

    direction: int = 0
    since_s: float = math.nan


NOWHERE = Leaning()


def wanted(config: Autoscaling, total: float, running: int, target: int) -> int:
    """Return how many replicas are wanted, regardless of bounds and delays.

    Parameters
    ----------
    config : Autoscaling
    total : float
        Requests queued or under way.
    running : int
        Replicas that have started. Without any it is the target, or what a first request wants.
    target : int
        Replicas that there are to be at present.
    """
    if running == 0:
        return max(math.ceil(config.up), target) if total > 0 else target
    # In the order of Ray Serve's arithmetic, so that it rounds alike.
    full = running * (total / (config.target_ongoing_requests * running))
    change = full - running
    factor = config.up if change > 0 else config.down
    found = math.ceil(running + factor * change)
    if math.ceil(full) < running and found == running:
        found -= 1
    return max(0, found)


def bounded(config: Autoscaling, replicas: int) -> int:
    """Return the nearest number within the bounds."""
    return max(config.min_replicas, min(config.max_replicas, replicas))


def goal_of(config: Autoscaling, replicas: int, target: int) -> int:
    """Return the target that `replicas` wanted lead to: the last one goes only by itself."""
    return bounded(config, max(1, replicas) if target > 1 else replicas)


def delay_s(config: Autoscaling, direction: int, target: int) -> float:
    """Return how long more, or fewer, replicas than `target` must have been wanted."""
    if direction > 0:
        return config.upscale_delay_s
    return config.to_zero_delay_s if target == 1 else config.downscale_delay_s


def over(config: Autoscaling, leaning: Leaning, target: int, now_s: float) -> bool:
    """Return whether they have been wanted for so long."""
    waited = now_s - leaning.since_s + ROUNDING_S
    return waited >= delay_s(config, leaning.direction, target)


def decide(
    config: Autoscaling, total: float, running: int, target: int, leaning: Leaning, now_s: float
) -> tuple[int, Leaning]:
    """Return the new target, and where it leans.

    Parameters
    ----------
    config : Autoscaling
    total : float
        Requests queued or under way, aggregated over the look-back period.
    running : int
        Replicas that have started and are not to go.
    target : int
        Replicas that there are to be at present.
    leaning : Leaning
    now_s : float
    """
    many = wanted(config, total, running, target)
    if running == 0 and (many > 0 or total > 0):
        return bounded(config, many), leaning
    direction = (many > target) - (many < target)
    if direction == 0:
        return bounded(config, target), NOWHERE
    if direction != leaning.direction:
        leaning = Leaning(direction, now_s)
    if not over(config, leaning, target, now_s):
        return bounded(config, target), leaning
    return goal_of(config, many, target), NOWHERE
