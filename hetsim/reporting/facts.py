"""Figures that reports derive from a plan and its timeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hetsim.partitioning.partition import Group, owners
from hetsim.problem import GRAPH_INPUT, Problem
from hetsim.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Crossing:
    """What a group exchanges with other devices.

    Attributes
    ----------
    receives_bytes : int
        Values it reads that exist on another device; one that several groups of the
        device read is counted at each.
    sends_bytes : int
        Values it makes, once for each other device that needs them.
    """

    receives_bytes: int
    sends_bytes: int


def crossings(problem: Problem, groups: Sequence[Group]) -> tuple[Crossing, ...]:
    """Return what each group exchanges with other devices. O(V + E)."""
    owner = owners(problem.n, groups)
    receives, sends = [0] * len(groups), [0] * len(groups)
    host = problem.devices[problem.host] if problem.host is not None else None
    for value in problem.values:
        readers = dict.fromkeys(owner[node] for node in value.consumers)
        home = host if value.producer == GRAPH_INPUT else groups[owner[value.producer]].device
        if home is None:
            continue
        away = [group for group in readers if groups[group].device != home]
        for group in away:
            receives[group] += value.nbytes
        if value.producer == GRAPH_INPUT:
            continue
        targets = {groups[group].device for group in away}
        if value.is_output and host is not None and host != home:
            targets.add(host)
        sends[owner[value.producer]] += value.nbytes * len(targets)
    return tuple(Crossing(*both) for both in zip(receives, sends, strict=True))


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """What the latency of one request is made of, in seconds along the critical path."""

    compute_s: float
    transfer_s: float

    @property
    def transfer_share(self) -> float:
        """Part of the path that is spent in transfers, in [0, 1]."""
        whole = self.compute_s + self.transfer_s
        return self.transfer_s / whole if whole > 0 else 0.0


def critical_path(timeline: Timeline) -> CriticalPath | None:
    """Return what the critical path is made of; None where the timeline has no trace."""
    if not timeline.events:
        return None
    spent = {"compute": 0.0, "transfer": 0.0}
    for index in timeline.critical_path:
        event = timeline.events[index]
        spent[event.kind] += event.end_s - event.start_s
    return CriticalPath(spent["compute"], spent["transfer"])


@dataclass(frozen=True, slots=True)
class LatencySpread:
    """Latencies of many requests, in seconds; percentiles are those of the nearest rank."""

    mean_s: float
    p50_s: float
    p90_s: float
    p99_s: float
    max_s: float


def latency_spread(timeline: Timeline) -> LatencySpread:
    """Return mean, percentiles and maximum over all requests. O(n log n)."""
    ordered = sorted(timeline.latencies_s)
    size = len(ordered)

    def at(hundredths: int) -> float:
        return ordered[max(-(-hundredths * size // 100), 1) - 1]

    return LatencySpread(sum(ordered) / size, at(50), at(90), at(99), ordered[-1])
