"""Latency over rate: the same requests at some rates, closer or further apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from hetsim.base.text import Record
from hetsim.reporting.tables.service import busiest
from hetsim.service.layout import Setup
from hetsim.service.resolving import Resolved
from hetsim.service.running import Run, engine_of
from hetsim.service.service import Service
from hetsim.service.serving import service_of
from hetsim.workloads.workload import Workload

SHARES = (0.1, 0.3, 0.5, 0.65, 0.75, 0.82, 0.88, 0.93, 0.97, 1.05)
"""Of the ceiling: rates that are looked at; of more, latency grows with the run."""

USUAL = 99.0
"""The percentile of a stream of which nothing is asked."""


def curve_of(
    workload: Workload,
    resolved: Sequence[Resolved],
    setup: Setup,
    factors: Sequence[float],
    tell: Callable[[str], None] | None = None,
) -> Record:
    """Return, as columns, what becomes of a workload at some factors on what comes.

    Complexity: that of playing it so many times.
    """
    streams: list[Record] = [
        {
            "name": one.name,
            "percentile": percentile_of(workload, at),
            "limit_s": min((slo.latency_s for slo in one.slos), default=None),
            "latency_s": [],
            "low_s": [],
            "high_s": [],
            "enough": [],
            "verdict": [],
        }
        for at, one in enumerate(workload.streams)
    ]
    found: Record = {"factor": [], "state": [], "bottleneck": [], "used": [], "streams": streams}
    coming = workload.requests or 0
    for number, factor in enumerate(factors):
        if tell is not None:
            tell(f"rate {number + 1} of {len(factors)}")
        service = _played(workload.faster(factor), resolved, setup, coming * len(factors))
        found["factor"].append(factor)
        found["state"].append(service.state)
        found["bottleneck"].append(service.bottleneck)
        found["used"].append(busiest(service))
        for one, stream in zip(streams, service.streams, strict=True):
            known = {each.percentile: each for each in stream.percentiles}
            at = known.get(one["percentile"])
            one["latency_s"].append(None if at is None else at.estimate_s)
            one["low_s"].append(None if at is None else at.low_s)
            one["high_s"].append(None if at is None else at.high_s)
            one["enough"].append(at is not None and at.enough)
            one["verdict"].append([each.verdict.answer for each in stream.objectives])
    return found


def percentile_of(workload: Workload, stream: int) -> float:
    """Return the percentile that is drawn of a stream: that of its tightest objective."""
    slos = workload.streams[stream].slos
    return min(slos, key=lambda slo: slo.latency_s).percentile if slos else USUAL


def factors_of(ceiling: float, own: Sequence[float]) -> tuple[float, ...]:
    """Return factors on what comes that show how latency grows up to the ceiling, and `own`.

    They are short decimal numbers, so that a command with them can be typed.
    """
    if not math.isfinite(ceiling) or ceiling <= 0:
        ceiling = 2 * max(own, default=1.0)
    found = {short(share * ceiling) for share in SHARES} | set(own)
    return tuple(sorted(found))


def short(value: float) -> float:
    """Return a number of three digits.

    >>> short(123.456)
    123.0
    """
    return float(f"{value:.3g}")


def _played(workload: Workload, resolved: Sequence[Resolved], setup: Setup, coming: int) -> Service:
    engine = engine_of(workload, setup, coming=coming)
    run = Run(workload, setup, engine)
    return service_of(run, resolved, run.play(until_answered=False))
