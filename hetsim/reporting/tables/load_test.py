"""A workload for real beside what was simulated of it, as tables."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rich.console import RenderableType
from rich.table import Table

from hetsim.core.text import fields
from hetsim.core.units import format_seconds
from hetsim.execution.serving.load_test import Host, Late, LoadTest, Outputs
from hetsim.reporting.tables.question import question
from hetsim.reporting.tables.service import served_text
from hetsim.reporting.tables.service_record import service_record
from hetsim.reporting.words.console import Cell, bold, pairs, stack, table
from hetsim.reporting.words.text import (
    ABSENT,
    count,
    number_text,
    on_time_text,
    percent,
    percentile_lines,
    relative_change,
    seconds_text,
)
from hetsim.simulation.service.service import StreamService

SHOWN = (50.0, 90.0, 99.0)

TIMES = 2.0
"""From which a difference is told as how many times as much."""


def load_test_report(found: LoadTest) -> RenderableType:
    """Return what was asked, how this machine kept up, and both answers side by side."""
    rows: list[tuple[str, str]] = []
    for one in found.measured.resolved:
        rows += [row for row in question(one.problem) if row not in rows]
        rows.append(("served", served_text(one)))
    rows.append(("played", _played_text(found)))
    rows.append(("devices", _devices_text(found)))
    rows += _host_rows(found.host)
    states = {side.state for side in (found.simulated, found.measured)}
    if states != {"stable"}:
        rows.append(
            ("state", f"simulated {found.simulated.state}, measured {found.measured.state}")
        )
    line = _outputs_line(found.outputs)
    return stack(pairs(rows), _latencies(found), _uses(found), bold(line))


def _played_text(found: LoadTest) -> str:
    requests, seconds = found.measured.requests, format_seconds(found.host.wall_s)
    text = f"{count(requests, 'request')} on {found.executor} in {seconds}"
    text += f", seed {found.measured.workload.seed}"
    if found.time_scale != 1:
        text += f"; a second of the workload lasted {found.time_scale:.4g} s"
    return text


def _devices_text(found: LoadTest) -> str:
    if found.emulated:
        return "emulated: each call and transfer takes its modelled time at least"
    return "this machine's kernels, each as fast as it is here"


def _host_rows(host: Host) -> list[tuple[str, str]]:
    rows = [("sent", _late_text(host.sent)), ("answered", _late_text(host.answered))]
    calls = count(host.calls, "call")
    if host.modelled_s:
        calls += f", {host.overran} of them longer than modelled"
        if host.overran:
            calls += f", by {percent(host.overrun_s / host.modelled_s)} of the time in all"
            calls += f" and {format_seconds(host.longest_overrun_s)} at most"
    rows.append(("this host", f"{calls}; dispatching took {percent(host.dispatcher)} of a core"))
    return rows


def _late_text(late: Late) -> str:
    """Return how late requests or answers were because of this machine."""
    parts = (late.mean_s, late.p99_s, late.max_s)
    mean, p99, most = (format_seconds(part) for part in parts)
    return f"{mean} late on average by this host, {p99} at p99, {most} at most"


def _latencies(found: LoadTest) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for told, real in zip(found.simulated.streams, found.measured.streams, strict=True):
        first, *others = _figures(told, real)
        rows += [(told.name, *first), *(("", *row) for row in others)]
    figures = "#simulated, 95 %", "#measured, 95 %", "#measured\nis off by"
    return table(("stream", "", *figures), rows)


def _figures(told: StreamService, real: StreamService) -> list[tuple[str, Cell, Cell, Cell]]:
    def both(
        what: str, text: Callable[[float], str], a: float, b: float
    ) -> tuple[str, Cell, Cell, Cell]:
        return (what, text(a), text(b), _off(a, b))

    rows = [both("mean", seconds_text, told.mean_s, real.mean_s)]
    sides = [{one.percentile: one for one in side.percentiles} for side in (told, real)]
    for percentile in SHOWN:
        here, there = (side.get(percentile) for side in sides)
        ends = [math.nan if one is None else one.estimate_s for one in (here, there)]
        lines = percentile_lines(here), percentile_lines(there)
        rows.append((f"p{percentile:g}", *lines, _off(*ends)))
    rows.append(both("waited, mean", seconds_text, told.queue.mean_s, real.queue.mean_s))
    rows.append(both("served, mean", seconds_text, told.service.mean_s, real.service.mean_s))
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
        points = f"{100 * (other.on_time - one.on_time):+.2g} points"
        rows.append((f"within {format_seconds(one.slo.latency_s)}", told_of, real_of, points))
    return rows


def _uses(found: LoadTest) -> Table:
    """Devices and links; what links really take is within what devices do."""
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


def _outputs_line(outputs: Outputs | None) -> str:
    if outputs is None:
        return "outputs: not compared"
    if outputs.mismatches:
        return f"outputs differ from the whole model's: {'; '.join(outputs.mismatches[:4])}"
    text = (
        f"outputs of {outputs.alone} of {outputs.compared} requests bitwise equal to the whole "
        "model's on the request alone"
    )
    if outputs.batches:
        text += f"; {count(outputs.batches, 'batch', 'batches')} of the others to its on the batch"
    if outputs.compared < outputs.answered:
        text += f"; {outputs.answered - outputs.compared} not kept to compare"
    return text


def _off(told: float, real: float) -> str:
    share = relative_change(told, real)
    if share is None:
        return ABSENT
    # Nothing is off by -0.0.
    return f"{round(100 * share, 1) + 0.0:+.1f} %" if share < TIMES else f"{1 + share:.3g}x"


def load_test_record(found: LoadTest) -> dict[str, Any]:
    """Return the record for ``to_json``; times of `host` are real, others are the workload's."""
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
    """By what share measured figures are above the simulated ones; null where that is no number."""
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
