"""Load test: measured and simulated latencies, throughput and utilization."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rich.console import RenderableType
from rich.table import Table

from hetsim.core.text import fields
from hetsim.core.units import format_percentile, format_seconds
from hetsim.execution.serving.load_test import Host, Late, LoadTest
from hetsim.reporting.console import Cell, bold, pairs, stack, table
from hetsim.reporting.formatting import (
    ABSENT,
    count,
    number_text,
    on_time_text,
    percent,
    percentile_lines,
    relative_change,
    time_text,
)
from hetsim.reporting.tables.service_record import served_rows, service_record
from hetsim.reporting.tables.verdicts import difference_text, verdict_of
from hetsim.simulation.service.service import StreamService

SHOWN = (50.0, 90.0, 99.0)


def load_test_report(found: LoadTest) -> RenderableType:
    """Return a header, delays by this machine, and simulated next to measured figures."""
    devices = "kernels run at the speed of this machine"
    if found.emulated:
        devices = "emulated: each call and transfer takes at least its modelled time"
    simulated, measured = found.simulated.state, found.measured.state
    stable = simulated == measured == "stable"
    rows = [
        *served_rows(found.measured.resolved),
        ("measured", _played_text(found)),
        ("devices", devices),
        *_host_rows(found.host),
        ("state", None if stable else f"simulated {simulated}, measured {measured}"),
    ]
    line = verdict_of(load_test_record(found))
    return stack(pairs(rows), _latencies(found), _uses(found), bold(line))


def _played_text(found: LoadTest) -> str:
    requests, seconds = found.measured.requests, format_seconds(found.host.wall_s)
    text = f"{count(requests, 'request')} on {found.executor} in {seconds}"
    text += f", seed {found.measured.workload.seed}"
    if found.time_scale != 1:
        text += f"; one workload second lasted {found.time_scale:.4g} s"
    return text


def _host_rows(host: Host) -> list[tuple[str, str]]:
    rows = [("sent", _late_text(host.sent)), ("answered", _late_text(host.answered))]
    calls = count(host.calls, "call")
    if host.modelled_s:
        calls += f", {host.overran} of them longer than modelled"
        if host.overran:
            calls += f" ({percent(host.overrun_s / host.modelled_s)} in total, "
            calls += f"{format_seconds(host.longest_overrun_s)} at most)"
    rows.append(("this host", f"{calls}; dispatch used {percent(host.dispatcher)} of a core"))
    return rows


def _late_text(late: Late) -> str:
    """Return the delay of requests or answers by this machine."""
    parts = (late.mean_s, late.p99_s, late.max_s)
    mean, p99, most = (format_seconds(part) for part in parts)
    return f"{mean} late on average, p99 {p99}, at most {most}"


def _latencies(found: LoadTest) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for told, real in zip(found.simulated.streams, found.measured.streams, strict=True):
        first, *others = _figures(told, real)
        rows += [(told.name, *first), *(("", *row) for row in others)]
    figures = "#simulated, 95 %", "#measured, 95 %", "#difference"
    return table(("stream", "", *figures), rows)


def _figures(told: StreamService, real: StreamService) -> list[tuple[str, Cell, Cell, Cell]]:
    def both(
        what: str, text: Callable[[float], str], a: float, b: float
    ) -> tuple[str, Cell, Cell, Cell]:
        return (what, text(a), text(b), _off(a, b))

    rows = [both("mean", time_text, told.mean_s, real.mean_s)]
    sides = [{one.percentile: one for one in side.percentiles} for side in (told, real)]
    for percentile in SHOWN:
        here, there = (side.get(percentile) for side in sides)
        ends = [math.nan if one is None else one.estimate_s for one in (here, there)]
        lines = percentile_lines(here), percentile_lines(there)
        rows.append((format_percentile(percentile), *lines, _off(*ends)))
    rows.append(both("waited, mean", time_text, told.queue.mean_s, real.queue.mean_s))
    rows.append(both("served, mean", time_text, told.service.mean_s, real.service.mean_s))
    rates = told.throughput_per_s, real.throughput_per_s
    rows.append(both("answers a second", number_text, *rates))
    if told.batch > 1 or real.batch > 1:
        rows.append(both("batch, mean", number_text, told.batch, real.batch))
    if told.answered < told.requests or real.answered < real.requests:
        a, b = (str(side.requests - side.answered) for side in (told, real))
        rows.append(("rejected", a, b, ""))
    for one, other in zip(told.objectives, real.objectives, strict=True):
        told_of, real_of = (
            (on_time_text(side.on_time), side.verdict.answer) for side in (one, other)
        )
        points = f"{100 * (other.on_time - one.on_time):+.3g} points"
        rows.append((f"within {format_seconds(one.slo.latency_s)}", told_of, real_of, points))
    return rows


def _uses(found: LoadTest) -> Table:
    """Utilization of devices and links; devices' own times include transfers."""
    told, real = found.simulated, found.measured
    rows = [
        (name, percent(use.utilization), percent(real.devices[name].utilization))
        for name, use in told.devices.items()
        if use.busy_s > 0 or real.devices[name].busy_s > 0
    ]
    for name, use in told.links.items():
        if use.busy_s > 0:
            share = percent(real.links[name].utilization) if found.emulated else ABSENT
            rows.append((name, percent(use.utilization), share))
    return table(("busy", "#simulated", "#measured"), rows)


def _off(told: float, real: float) -> str:
    share = relative_change(told, real)
    return ABSENT if share is None else difference_text(share)


def load_test_record(found: LoadTest) -> dict[str, Any]:
    """Return the record for ``to_json``; only the times of `host` are wall-clock times."""
    simulated, measured = service_record(found.simulated), service_record(found.measured)
    return {
        "schema": "hetsim-load-test/1",
        "problem": simulated["problem"],
        **fields(found, "emulated time_scale executor start_s host outputs"),
        "simulated": simulated,
        "measured": measured,
        "off_by": [
            _off_by(told, real)
            for told, real in zip(found.simulated.streams, found.measured.streams, strict=True)
        ],
    }


def _off_by(told: StreamService, real: StreamService) -> dict[str, Any]:
    """Relative difference of measured figures from simulated ones; null if undefined."""
    sides = [{one.percentile: one.estimate_s for one in side.percentiles} for side in (told, real)]
    return {
        "name": told.name,
        "latency_mean": relative_change(told.mean_s, real.mean_s),
        "percentiles": [
            {"percentile": at, "latency": relative_change(a, sides[1][at])}
            for at, a in sides[0].items()
            if at in sides[1]
        ],
        "queue_mean": relative_change(told.queue.mean_s, real.queue.mean_s),
        "service_mean": relative_change(told.service.mean_s, real.service.mean_s),
        "throughput": relative_change(told.throughput_per_s, real.throughput_per_s),
    }
