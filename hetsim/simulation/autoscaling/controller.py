"""Autoscaling decisions: Ray Serve's policy and controller.

Reproduces Ray Serve 2.60's default policy, bounds and delays
(https://docs.ray.io/en/latest/serve/advanced-guides/advanced-autoscaling.html): the wanted number
of replicas brings the requests of each to the target, rounded up; a factor damps the change; and
the number is applied once more (or fewer) replicas have been wanted for a delay.

The router counts queued requests and those of each replica at fixed intervals, and reports the last
look-back period to the controller at intervals of its own. The controller decides in every turn of
its loop. At equal times the router counts, then reports, then the controller decides.

The queue and each replica have a series of counts (``_get_total_num_requests`` of Ray Serve's
autoscaling state). A count holds until the next one, the last until now. The sum of several series
is a step function that begins with the last of them, but not before its own first step: zero counts
before that are ignored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from hetsim.workload.autoscaling import Aggregation, Autoscaling

Series = Sequence[tuple[float, int]]
"""Counts by time, in ascending order."""

AT_LEAST_S = 1e-3
"""Minimum seconds for which the last count holds."""


class OngoingRequests(NamedTuple):
    """Requests queued or under way, as a function of time.

    At `last_s` the count last changed, to `last`. From the start to then are `long_s` seconds, with
    `beyond` request-seconds above `last`.
    """

    last_s: float = 0.0
    last: int = 0
    long_s: float = 0.0
    beyond: float = 0.0
    highest: int = 0
    lowest: int = 0

    def at(self, now_s: float, aggregation: Aggregation) -> float:
        """Return the aggregate over the time until `now_s`, not before `last_s`.

        Between two counts the result is monotonic in time, in floating point too.
        """
        if aggregation == "max":
            return float(self.highest)
        if aggregation == "min":
            return float(self.lowest)
        since = now_s - self.last_s
        return self.last + self.beyond / (self.long_s + (since if since > 0 else AT_LEAST_S))


def ongoing(series: Sequence[Series]) -> OngoingRequests:
    """Return the sum of several series. O(n log n) for n counts."""
    series = [one for one in series if one]
    if not series:
        return OngoingRequests()
    if len(series) == 1:
        steps = list(series[0])
        since_s = steps[0][0]
    else:
        steps = _summed(series)
        if not steps:
            return OngoingRequests()
        # Counted from the time at which all have begun.
        begin_s = max(one[0][0] for one in series)
        since_s = max(begin_s, steps[0][0]) if begin_s <= steps[-1][0] else steps[0][0]
    last_s, last = steps[-1]
    beyond = []
    for (from_s, count), (until_s, _) in pairwise(steps):
        if until_s > since_s:
            beyond.append((count - last) * (until_s - max(from_s, since_s)))
    counts = [count for time_s, count in steps if time_s >= since_s]
    return OngoingRequests(
        last_s, last, last_s - since_s, math.fsum(beyond), max(counts), min(counts)
    )


def _summed(series: Sequence[Series]) -> list[tuple[float, int]]:
    """Return the sum of several series at each change of one; each is 0 before it begins."""
    changes: dict[float, int] = {}
    for one in series:
        before = 0
        for time_s, count in one:
            if count != before:
                changes[time_s] = changes.get(time_s, 0) + count - before
            before = count
    found, total = [], 0
    for time_s in sorted(changes):
        total += changes[time_s]
        found.append((time_s, total))
    return found


ROUNDING_S = 1e-6
"""Tolerance by which a delay counts as over early, as time differences are rounded."""


class ScalingTrend(NamedTuple):
    """Direction and start of an uninterrupted demand for more (1) or fewer (-1) replicas.

    0 for neither, with `since_s` NaN.
    """

    direction: int = 0
    since_s: float = math.nan


NOWHERE = ScalingTrend()


def wanted(config: Autoscaling, total: float, running: int, target: int) -> int:
    """Return the wanted number of replicas, ignoring bounds and delays.

    `total` requests are queued or under way, and `running` replicas have started. If none has, the
    result is the current `target` or the demand of a first request.
    """
    if running == 0:
        return max(math.ceil(config.up), target) if total > 0 else target
    # In the order of Ray Serve's arithmetic, so that rounding is the same.
    full = running * (total / (config.target_ongoing_requests * running))
    change = full - running
    factor = config.up if change > 0 else config.down
    found = math.ceil(running + factor * change)
    if math.ceil(full) < running and found == running:
        found -= 1
    return max(0, found)


def bounded(config: Autoscaling, replicas: int) -> int:
    """Return the nearest number of replicas within the bounds."""
    return max(config.min_replicas, min(config.max_replicas, replicas))


def goal_of(config: Autoscaling, replicas: int, target: int) -> int:
    """Return the target for the wanted number; the last replica only stops on its own."""
    return bounded(config, max(1, replicas) if target > 1 else replicas)


def decide(
    config: Autoscaling,
    total: float,
    running: int,
    target: int,
    leaning: ScalingTrend,
    now_s: float,
) -> tuple[int, ScalingTrend]:
    """Return the new target and the new leaning.

    `total` requests are queued or under way, aggregated over the look-back period; `running`
    replicas have started and are not stopping.
    """
    many = wanted(config, total, running, target)
    if running == 0 and (many > 0 or total > 0):
        return bounded(config, many), leaning
    direction = (many > target) - (many < target)
    if direction == 0:
        return bounded(config, target), NOWHERE
    if direction != leaning.direction:
        leaning = ScalingTrend(direction, now_s)
    delay_s = config.upscale_delay_s
    if direction < 0:
        delay_s = config.to_zero_delay_s if target == 1 else config.downscale_delay_s
    if now_s - leaning.since_s + ROUNDING_S < delay_s:
        return bounded(config, target), leaning
    return goal_of(config, many, target), NOWHERE


QUEUE = -1
"""Key of the queue, where others are replicas."""


class Controller:
    """Controller of one model; `target` is its current target number of replicas."""

    def __init__(self, config: Autoscaling) -> None:
        self.config = config
        self.target = config.initial
        self._leaning = NOWHERE
        self._turn = 0
        self._records = self._tells = 0
        self._counted: dict[int, list[tuple[float, int]]] = {}
        self._told: dict[int, list[tuple[float, int]]] = {}
        self._running: tuple[int, ...] = ()
        self._ongoing = OngoingRequests()

    @property
    def record_s(self) -> float:
        """Time of the next count."""
        return self._records * self.config.record_interval_s

    @property
    def tell_s(self) -> float:
        """Time of the next report to the controller."""
        return self._tells * self.config.metrics_interval_s

    def record(self, queued: int, under_way: Mapping[int, int]) -> None:
        """Count the queue and each replica's requests, at ``record_s``.

        `under_way` has the replicas known to the router: those that run and ever had a request, or
        that are stopping and still have one.
        """
        now_s = self.record_s
        self._records += 1
        for key, count in {QUEUE: queued, **under_way}.items():
            self._counted.setdefault(key, []).append((now_s, count))

    def tell(self, under_way: Mapping[int, int]) -> None:
        """Report the counts within the look-back period to the controller, at ``tell_s``.

        A replica that was never counted is counted now, for this report only.
        """
        since_s = self.tell_s - self.config.look_back_period_s
        tell_s = self.tell_s
        self._tells += 1
        kept = {
            key: [one for one in series if one[0] > since_s]
            for key, series in self._counted.items()
        }
        self._counted = {key: series for key, series in kept.items() if series}
        self._told = {
            key: list(self._counted.get(key, ((tell_s, count),)))
            for key, count in under_way.items()
        }
        self._told[QUEUE] = list(self._counted.get(QUEUE, ()))
        self._sum_up()

    def see(self, running: tuple[int, ...]) -> None:
        """Set the replicas that run, each by a unique number."""
        if running != self._running:
            self._running = running
            self._sum_up()

    def decide_before(self, now_s: float) -> None:
        """Run all turns before `now_s`, in none of which the target changes."""
        self._turn, target, self._leaning = self._ahead(now_s)
        assert target == self.target

    def decide_at(self, now_s: float) -> None:
        """Decide now, if it is time for a turn."""
        if self._turn * self.config.control_loop_interval_s == now_s:
            self.target, self._leaning = self._decided(self._turn, self._leaning)
            self._turn += 1

    def rests(self, under_way: Mapping[int, int]) -> bool:
        """Return whether nothing changes until a request arrives, given that none is under way.

        True if all counts are zero, all known replicas have been counted, and the target is
        reached.
        """
        if under_way.keys() - self._counted.keys():
            return False
        told = (*self._counted.values(), *self._told.values())
        if any(count for series in told for _, count in series):
            return False
        many = wanted(self.config, 0.0, len(self._running), self.target)
        return goal_of(self.config, many, self.target) == self.target

    def rest_until(self, time_s: float, under_way: Mapping[int, int]) -> None:
        """Record the idle counts and reports before `time_s`."""
        config, every_s = self.config, self.config.record_interval_s
        records = _turns_before(every_s, time_s)
        if records <= self._records:
            return
        back_s = time_s - config.look_back_period_s - config.metrics_interval_s
        since = max(_turns_before(every_s, back_s), 0)
        self._counted = {
            key: [(k * every_s, 0) for k in range(since, records) if k * every_s >= begin_s]
            for key, begin_s in ((key, self._counted[key][0][0]) for key in (QUEUE, *under_way))
        }
        self._records = records
        # Until then no turn changes the target or leans towards a reachable one.
        turns = _turns_before(config.control_loop_interval_s, time_s)
        self._turn, self._leaning = max(self._turn, turns), NOWHERE
        self._tells = max(self._tells, _turns_before(config.metrics_interval_s, time_s))

    def next_s(self) -> float:
        """Return the time of the next count, report or change of target."""
        soon_s = min(self.record_s, self.tell_s)
        turn, target, _ = self._ahead(soon_s)
        if target == self.target:
            return soon_s
        return (turn - 1) * self.config.control_loop_interval_s

    def _sum_up(self) -> None:
        shown = [self._told.get(key, ()) for key in (QUEUE, *self._running)]
        self._ongoing = ongoing(shown)

    def _ahead(self, until_s: float) -> tuple[int, int, ScalingTrend]:
        """Return the next turn, target and leaning after all turns before `until_s`.

        Stops just after the first turn that changes the target.
        """
        turn, leaning = self._turn, self._leaning
        turns = _turns_before(self.config.control_loop_interval_s, until_s)
        if turn < turns and self._running and self._stays(turn, turns - 1):
            return turns, self.target, NOWHERE
        while turn < turns:
            target, leaning = self._decided(turn, leaning)
            turn += 1
            if target != self.target:
                return turn, target, leaning
        return turn, self.target, leaning

    def _stays(self, turn: int, last: int) -> bool:
        """Return whether no turn up to `last` wants a reachable new target.

        The wanted number is monotonic in this time.
        """
        many = [
            wanted(self.config, self._total(at), len(self._running), self.target)
            for at in (turn, last)
        ]
        return many[0] == many[1] and goal_of(self.config, many[0], self.target) == self.target

    def _total(self, turn: int) -> float:
        now_s = turn * self.config.control_loop_interval_s
        return self._ongoing.at(now_s, self.config.aggregation_function)

    def _decided(self, turn: int, leaning: ScalingTrend) -> tuple[int, ScalingTrend]:
        """Return the target and leaning decided in a turn with the current counts."""
        now_s = turn * self.config.control_loop_interval_s
        return decide(
            self.config, self._total(turn), len(self._running), self.target, leaning, now_s
        )


def _turns_before(every_s: float, time_s: float) -> int:
    """Return the number of multiples of an interval, 0 included, before a time."""
    turns = math.ceil(time_s / every_s)
    while turns * every_s < time_s:
        turns += 1
    while turns > 0 and (turns - 1) * every_s >= time_s:
        turns -= 1
    return turns
