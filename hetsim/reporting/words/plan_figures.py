"""Figures that reports derive from a plan and its timeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hetsim.base.text import plain, tally
from hetsim.plans.timeline import Timeline
from hetsim.reporting.words.like_devices import folded
from hetsim.reporting.words.text import listed

if TYPE_CHECKING:
    from hetsim.graph.model import Model
    from hetsim.problem.problem import Problem


WAYS_SHOWN = 2
"""Nodes of control flow that a header names."""


def shape_rows(model: Model) -> list[tuple[str, str]]:
    """Return the lines that say what was made of a model where that is not as always.

    A graph that is too large to be rewritten, and what a run measured: shapes, and ways through
    control flow.
    """
    rows = []
    if model.unoptimised is not None:
        rows.append(("graph", f"as in the file: {model.unoptimised}"))
    seen = model.observed
    if seen is None:
        return rows
    by_data = sum(model.graph.tensors[name].measured for name in seen.shapes)
    others = len(seen.shapes) - by_data
    parts = []
    if by_data:
        parts.append(f"{by_data} depend on data: with other inputs they may be others")
    if others:
        parts.append(f"{others} that inference does not find")
    if parts:
        rows.append(("shapes", f"measured by a run with {seen.source}: {'; '.join(parts)}"))
    ways = [f"{turns:g} turns of {path}" for path, turns in seen.trips.items() if "/" not in path]
    if seen.given:
        ways += [f"{to} of {path}" for path, to in seen.branches.items() if "/" not in path]
    if ways:
        shown = ", ".join(ways[:WAYS_SHOWN])
        more = f", +{len(ways) - WAYS_SHOWN} more" if len(ways) > WAYS_SHOWN else ""
        rows.append(("control", f"as in a run with {seen.source}: {shown}{more}"))
    return [(name, plain(text)) for name, text in rows]


def as_if(executed: Mapping[str, str]) -> str:
    """Return what devices execute as if: ``int8 on npu, float16 on gpu.0-7``, and what that is."""
    by_precision: dict[str, list[str]] = {}
    for device, precision in executed.items():
        by_precision.setdefault(precision, []).append(device)
    told = [f"{kind} on {', '.join(folded(names))}" for kind, names in by_precision.items()]
    return f"{', '.join(told)}: priced so; values cross links in the model's own types"


def as_if_rows(problem: Problem) -> list[tuple[str, str]]:
    """Return the line that says which devices execute the model as if in another precision."""
    return [("as if", as_if(problem.executed))] if problem.executed else []


def taken_off_rows(problem: Problem) -> list[tuple[str, str]]:
    """Return the line that names conversions which compilers leave to the host; none without."""
    from hetsim.device.support.taken_off import taken_off

    if problem.model is None or problem.platform is None:
        return []
    graph = problem.model.graph
    by_device = {name: taken_off(spec, graph) for name, spec in problem.platform.devices.items()}
    nodes = {v for found in by_device.values() for v in found}
    if not nodes:
        return []
    names = ", ".join(name for name, found in by_device.items() if found)
    what = listed(tally(problem.op_types[v] for v in sorted(nodes)), limit=2)
    return [
        ("taken off", f"{names}: {what} at the model's ends, which its compiler leaves to the host")
    ]


def device_as_if(problem: Problem, device: str) -> str:
    """Return the name of a device, and what it executes as if: ``npu, as if int8``."""
    precision = problem.executed.get(device)
    return device if precision is None else f"{device}, as if {precision}"


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """What the latency of one request is made of, in seconds along the critical path.

    ``shares_s`` has them by device, and by links as they are held together; largest first.
    """

    compute_s: float
    transfer_s: float
    shares_s: Mapping[str, float] = field(default_factory=dict)

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
    shares: dict[str, float] = {}
    for index in timeline.critical_path:
        event = timeline.events[index]
        seconds = event.end_s - event.start_s
        spent[event.kind] += seconds
        held = " + ".join(event.tracks) or f"{event.source}>{event.device}"
        where = event.device if event.kind == "compute" else held
        shares[where] = shares.get(where, 0.0) + seconds
    ordered = dict(sorted(shares.items(), key=lambda share: -share[1]))
    return CriticalPath(spent["compute"], spent["transfer"], ordered)


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
