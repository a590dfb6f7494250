"""Figures that reports derive from a plan and its timeline."""

from __future__ import annotations

from dataclasses import dataclass

from hetsim.timeline import Timeline


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
    """Return what the critical path is made of; None where the timeline has no path."""
    if not timeline.critical_path:
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
