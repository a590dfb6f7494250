"""What became of replicas that come and go, beside as many all along: words, tables, records."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from rich.table import Table

from hetsim.core.text import plain
from hetsim.core.units import format_seconds
from hetsim.reporting.words.console import table
from hetsim.reporting.words.text import ABSENT, count, latency_text, on_time_text, percent
from hetsim.simulation.service.cost import Cost
from hetsim.simulation.service.fewest import Fewest
from hetsim.simulation.service.scaled import Scaled
from hetsim.simulation.service.service import Service, StreamService

Fixed: TypeAlias = tuple[Service, Cost]
"""The same requests with as many replicas all along, and what that costs."""

PERCENTILE = 99.0

BINDS = {
    "work": "by the work of all requests",
    "silence": "by their work, and what it takes to be there after each silence",
    "peaks": "by the fewest replicas, and what of peaks they cannot do in time",
    "objectives": "more comes than the most replicas can do in time",
}


def scaled_rows(service: Service) -> Iterator[tuple[str, str]]:
    """Yield how replicas came and went, model by model, and what nobody goes below."""
    for one in service.scaled:
        name = f" of {plain(one.model)}" if len(service.scaled) > 1 else ""
        yield f"replicas{name}", _replicas_text(one)
        if one.fewest is not None:
            yield f"fewest{name}", _fewest_text(one, one.fewest)


def _replicas_text(one: Scaled) -> str:
    config = one.config
    text = f"{config.min_replicas} to {config.max_replicas} by Ray Serve's policy, for "
    text += f"{config.target_ongoing_requests:g} requests each: {one.mean:.3g} on average, "
    text += f"{one.most} at most, {count(one.starts, 'start')}"
    if not math.isnan(one.start_s):
        text += f" of {format_seconds(one.start_s)}"
    if not config.startup_s:
        text += "; no startup_s given: a start takes no longer than its weights over the links"
    return f"{text}; {one.replica_hours:.4g} replica-hours"


def _fewest_text(one: Scaled, fewest: Fewest) -> str:
    if math.isinf(fewest.replica_s):
        return f"no scaling keeps every objective: {BINDS[fewest.binds]}"
    text = f"no scaling that keeps every objective needs fewer than {fewest.replica_s / 3600:.4g} "
    text += "replica-hours"
    if one.replica_s > 0:
        text += f", {percent(fewest.replica_s / one.replica_s)} of these"
    return f"{text}; {BINDS[fewest.binds]}"


def scaled_table(service: Service, cost: Cost | None, fixed: Sequence[Fixed]) -> Table:
    """Return replica-hours, price and latencies beside those of the fewest and most, all along."""
    beside = [service, *(one for one, _ in fixed)]
    costs = [cost, *(each for _, each in fixed)]
    priced = [each for each in costs if each is not None and each.hardware_usd is not None]
    usd = ["#USD"] if len(priced) == len(beside) else []
    headings = ["replicas", "#on average", "#most", "#replica-hours", *usd]
    for stream in service.streams:
        of = f" of {stream.name}" if len(service.streams) > 1 else ""
        headings += [f"#p{PERCENTILE:g}{of}", *[f"#on time{of}"] * bool(stream.objectives)]
    rows = []
    for at, one in enumerate(beside):
        row = [
            _name(one.scaled, fixed=at > 0),
            f"{sum(each.mean for each in one.scaled):.3g}",
            str(sum(each.most for each in one.scaled)),
            f"{sum(each.replica_hours for each in one.scaled):.4g}",
        ]
        if usd:
            row.append(f"{priced[at].hardware_usd:.4g}")
        for stream in one.streams:
            row.append(_p99(stream))
            if stream.objectives:
                row.append(on_time_text(min(each.on_time for each in stream.objectives)))
        rows.append(row)
    return table(headings, rows)


def _name(scaled: Sequence[Scaled], *, fixed: bool) -> str:
    if not fixed:
        return "come and go"
    return f"{', '.join(str(each.config.max_replicas) for each in scaled)} all along"


def _p99(stream: StreamService) -> str:
    if not stream.percentiles:
        return "overloaded" if stream.requests else ABSENT
    return latency_text(stream.p99_s)
