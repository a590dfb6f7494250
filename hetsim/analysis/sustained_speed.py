"""Sustained speed of plans within shared power and memory bandwidth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from hetsim.errors import OutOfMemory
from hetsim.hardware.spec import Platform
from hetsim.placement.objective import kept_s, seconds_a_request
from hetsim.problem.parts import Contention, Slowdown, scaled
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.problem.repriced import SLOWEST, RepricedModel, moved_bytes
from hetsim.problem.timeline import Timeline
from hetsim.simulation.power import slowdown
from hetsim.simulation.simulate import simulate

Floats = NDArray[np.float64]

TURNS = 60
"""Maximum number of iterations until power and slowdown agree."""

AGREED = 1e-6
"""Relative change of an iteration at which they agree."""

FOLLOWED = 1000
"""Number of requests up to which simultaneous work of devices is tracked."""


def shares_something(platform: Platform | None) -> bool:
    """Return whether a platform states resources shared by its devices."""
    return platform is not None and (platform.power_w is not None or bool(platform.memories))


@dataclass(frozen=True, slots=True)
class SustainedSpeed:
    """Problem with the times of its devices under shared memory bandwidth.

    Prices for one plan are reused for the next.
    """

    problem: Problem
    _priced: dict[tuple[str, ...], RepricedModel] = field(default_factory=dict, repr=False)

    def of_requests(
        self, plan: Plan, arrivals_s: Sequence[float] = (0.0,), *,
        contention: Contention | None = None,
    ) -> Plan:  # fmt: skip
        """Return the plan with devices slowed by each other over some requests.

        First by memory, then, at these times, by power. The bandwidth left to a device is that of
        the memory minus the mean use by others while it computes; power is a mean over the
        makespan. Returns the plan itself if nothing is shared. Devices are never faster than in
        `plan`, so bounds hold.
        """
        if plan.problem.slower is not None or not shares_something(plan.problem.platform):
            return plan

        def play(one: Plan) -> Timeline:
            # Whether memory holds all of them is checked by the caller's timeline.
            with suppress(OutOfMemory):
                if len(arrivals_s) <= FOLLOWED:
                    return simulate(one, arrivals_s=arrivals_s, contention=contention)
            return simulate(one, arrivals_s=arrivals_s, contention=contention, trace=False)

        burst = play(plan)
        busy = np.array([burst.device_busy_s[name] for name in plan.problem.devices])
        beside = (
            overlaps(plan.problem, burst)
            if burst.events
            else steady(busy, burst.makespan_s, plan.problem.streams)
        )
        memory = self._by_memory(plan, beside)
        slower = _slowed(plan, Slowdown(1.0, memory))
        timeline = burst if slower is plan else play(slower)
        return _slowed(plan, Slowdown(slowdown(slower, timeline), memory))

    def of_stream(self, plan: Plan) -> Plan:
        """Return the plan with devices slowed by each other under an unlimited backlog.

        As ``of_requests``, with each device busy for the ratio of its load to the largest,
        independent of the others.
        """
        if plan.problem.slower is not None or not shares_something(plan.problem.platform):
            return plan
        streams = plan.problem.streams
        busy = np.array(seconds_a_request(plan)[0]) * np.array(streams)
        memory = self._by_memory(plan, steady(busy, kept_s(plan), streams))
        slower = _slowed(plan, Slowdown(1.0, memory))
        load_s, _ = seconds_a_request(slower)
        every_s = kept_s(slower)
        used = {
            name: min(1.0, own / every_s) if every_s > 0 else 0.0
            for name, own in zip(plan.problem.devices, load_s, strict=True)
        }
        once = simulate(slower, trace=False)
        power = slowdown(slower, replace(once, device_utilization=used))
        return _slowed(plan, Slowdown(power, memory))

    def _by_memory(self, plan: Plan, beside: Floats) -> tuple[float, ...]:
        """Return the slowdown by device from shared memory; `beside`: devices busy together."""
        problem = plan.problem
        platform = problem.platform
        assert platform is not None
        slower = np.ones(len(problem.devices))
        for memory in platform.memories:
            if memory.devices not in self._priced:
                self._priced[memory.devices] = RepricedModel(self.problem, memory.devices)
            own = [problem.devices.index(name) for name in memory.devices]
            # For all devices at the efficiency of the best.
            reached = memory.bytes_per_s * max(
                platform.devices[name].memory_efficiency for name in memory.devices
            )
            slower[own] = _agreed(plan, own, beside, reached, self._priced[memory.devices])
        return tuple(slower.tolist())


def _agreed(
    plan: Plan, own: Sequence[int], beside: Floats, most: float, priced: RepricedModel
) -> list[float]:
    """Return factors of the devices `own` of one memory at which use and slowdown agree.

    While a device computes, it gets the bandwidth left by concurrent tasks. A slower device uses
    less. Uses the geometric mean of two iterations, as a single one oscillates.
    """
    problem = plan.problem
    groups: dict[int, list[tuple[Sequence[int], int]]] = {p: [] for p in own}
    for replica, share in zip(plan.replicas, plan.shares, strict=True):
        for group in replica.groups:
            p = problem.devices.index(group.device)
            if p in groups:
                groups[p].append((group.nodes, share))
    draws = {}
    for p in own:
        spent_s = sum(count * problem.group_seconds(p, nodes) for nodes, count in groups[p])
        moved = sum(count * moved_bytes(problem, p, nodes) for nodes, count in groups[p])
        draws[p] = moved / spent_s if spent_s > 0 else 0.0
    slower = dict.fromkeys(own, 1.0)
    for _ in range(TURNS):
        turn: dict[int, float] = {}
        for p in own:
            others = sum(draws[q] / slower[q] * float(beside[p, q]) for q in own)
            left = max(1.0 / SLOWEST, 1.0 - others / most)
            turn[p] = math.sqrt(slower[p] * priced.slower(p, groups[p], 1.0 / left))
        change = max(abs(turn[p] / slower[p] - 1.0) for p in own)
        slower = turn
        if change < AGREED:
            break
    return [slower[p] for p in own]


def _slowed(plan: Plan, slower: Slowdown) -> Plan:
    """Return the plan with slower devices; itself if none is slower."""
    if max(slower.factors) <= 1.0:
        return plan
    problem = plan.problem
    count = len(problem.devices)
    found = scaled(problem, np.array(slower.factors), np.ones((count, count)))
    return replace(plan, problem=replace(found, slower=slower))


def overlaps(problem: Problem, timeline: Timeline) -> Floats:
    """Return the mean number of tasks of q that run while a task of p does: float array [p, q].

    Includes other tasks of p itself; 0 if p has none. O(E log E + E P^2).
    """
    count = len(problem.devices)
    at = {name: p for p, name in enumerate(problem.devices)}
    moments: list[tuple[float, int, int]] = []
    for event in timeline.events:
        if event.kind == "compute" and event.end_s > event.start_s:
            moments.append((event.start_s, 1, at[event.device]))
            moments.append((event.end_s, -1, at[event.device]))
    running, before = np.zeros(count), 0.0
    together = np.zeros((count, count))
    for moment, change, p in sorted(moments):
        together += (moment - before) * (np.outer(running, running) - np.diag(running))
        running[p] += change
        before = moment
    busy = np.array([timeline.device_busy_s[name] for name in problem.devices])
    return together / np.where(busy > 0, busy, 1.0)[:, None]


def steady(busy: Floats, span_s: float, streams: Sequence[int]) -> Floats:
    """Return the same from busy seconds only, summed over a device's streams.

    Devices are assumed independent; `span_s` is the total time.
    """
    running = busy / span_s if span_s > 0 else np.zeros_like(busy)
    beside = np.tile(running, (len(busy), 1))
    np.fill_diagonal(beside, running * (1.0 - 1.0 / np.array(streams)))
    return beside
