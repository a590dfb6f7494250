"""What became of a workload on a deployment, as tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hetsim.base.text import plain
from hetsim.base.units import format_bytes, format_seconds
from hetsim.confidence.mean import Mean
from hetsim.confidence.percentile import Percentile
from hetsim.hardware.provenance import weakest
from hetsim.reporting.tables.comparison import question
from hetsim.reporting.tables.failed import failed_rows, failed_table
from hetsim.reporting.tables.scaled import Fixed, scaled_rows, scaled_table
from hetsim.reporting.words.console import cell, new_table, pairs
from hetsim.reporting.words.cost import cost_text
from hetsim.reporting.words.text import (
    ABSENT,
    big,
    count,
    ends,
    joules,
    latency_text,
    number_text,
    percent,
    percentile_lines,
    seconds_text,
)
from hetsim.service.cost import Cost
from hetsim.service.intervals import ends_of
from hetsim.service.resolving import Resolved
from hetsim.service.service import Loading, ModelService, Objective, Part, Service, StreamService

SHOWN = 3
"""Percentiles that a line has room for."""

ROUNDING = 1e-9
"""Of sums of seconds."""


def service_report(
    service: Service,
    worse: Service | None = None,
    cost: Cost | None = None,
    fixed: Sequence[Fixed] = (),
) -> RenderableType:
    """Return what was asked, what became of each stream, and what was used.

    `worse` is the same at the bad end of what figures may be off by, `cost` what it costs; `fixed`
    is the same where replicas do not come and go.
    """
    rows: list[tuple[str, str]] = []
    for one in service.resolved:
        rows += [row for row in question(one.problem) if row not in rows]
        rows.append(("served", served_text(one)))
    rows.append(("played", _played_text(service)))
    rows += [(f"{one.model}", _state_text(one)) for one in service.models]
    energy_j = service.energy_per_1000_j
    rows += [("loading", loading_text(service, one)) for one in service.loading]
    rows += scaled_rows(service)
    if service.failures is not None:
        rows += failed_rows(service.failures)
    rows.append(("bottleneck", f"{service.bottleneck}, {percent(busiest(service))} of the time"))
    rows.append(
        (
            "energy",
            f"{joules(service.energy_j)} in all"
            + ("" if energy_j is None else f", {joules(energy_j)} for 1000 requests on time")
            + _of_power(service),
        )
    )
    if cost is not None:
        rows.append(("price", cost_text(cost)))
    rows.append(("how sure", _sure_text(service, worse)))
    parts: list[RenderableType] = [pairs(rows), "", _latencies(service, worse)]
    parts += ["", _parts(service, loading=bool(service.loading))]
    if any(one.objectives for one in service.streams):
        parts += ["", _objectives(service.streams, worse)]
    if service.scaled:
        parts += ["", scaled_table(service, cost, fixed)]
    if service.failures is not None and service.failures.devices:
        parts += ["", failed_table(service)]
    parts += ["", _uses(service)]
    return Stack(*parts)


def served_text(one: Resolved) -> str:
    """Return how a model is served, in one line."""
    served = one.served
    entries = []
    for entry, plans in zip(served.instances, one.plans, strict=True):
        plan = plans[0][0]
        limit = served.in_flight(entry)
        under_way = f", {limit} under way each" if limit > 1 else ""
        entries.append(
            f"{entry.count} x {plain(plan.strategy)} on {', '.join(plan.devices_used)}{under_way}"
        )
    text = "; ".join(entries)
    batching = served.dynamic_batching
    if batching is not None:
        text += f"; batches of up to {batching.max_batch_size}"
        if batching.preferred_batch_size:
            text += f", best {', '.join(map(str, batching.preferred_batch_size))}"
        text += f", {format_seconds(batching.max_queue_delay_us / 1e6)} of delay"
    if sum(entry.count for entry in served.instances) > 1:
        text += f"; {served.routing.replace('_', ' ')}"
    return text


def _played_text(service: Service) -> str:
    workload = service.workload
    text = f"{count(service.requests, 'request')} in {format_seconds(service.duration_s)}"
    text += f", seed {workload.seed}"
    if workload.warm_up_s:
        text += f", the first {format_seconds(workload.warm_up_s)} not counted"
    ends = {
        "answered": "; ended when all that was asked was answered",
        "budget": "; ended with some of what was asked undecided",
        "ended": "",
    }
    return text + ends[service.end]


def _state_text(one: ModelService) -> str:
    waiting = f"{_number(one.queue.mean_inside, one.queue.inside_interval)} waiting or served"
    waiting += " on average"
    if not any(math.isnan(use.utilization) for use in one.instances):
        waiting += f", {_number(one.queue.mean, one.queue.mean_interval)} of them waiting"
        waiting += f", {'more than ' * one.queue.beyond}{one.queue.most} at most"
    if one.stability is None:
        return "nothing came"
    state = one.stability
    if state.state == "stable":
        return f"stable; {waiting}"
    rates = f"{state.offered_per_s:.4g} requests a second come, {state.carried_per_s:.4g} end"
    if state.state == "overloaded":
        return f"overloaded: {rates}; {waiting}; no latency holds"
    return (
        f"backlogged: {count(state.backlog, 'request')} left at the last arrival, behind since "
        f"{format_seconds(state.caught_up_s)}; {waiting}"
    )


def _of_power(service: Service) -> str:
    """Say what figures of power rest on, and name what is busy and has none."""
    platform = service.resolved[0].problem.platform
    assert platform is not None
    statuses = [
        spec.provenance.get(figure, ("estimate", ""))[0]
        for spec in platform.devices.values()
        for figure in ("idle_w", "busy_w")
    ]
    text = f"; by figures of power, weakest: {weakest(statuses)}"
    busy = [name for name, use in service.links.items() if use.busy_s > 0]
    return f"{text}; none are known of links: {', '.join(busy)}" if busy else text


def _sure_text(service: Service, worse: Service | None) -> str:
    text = "intervals are of chance in what comes, not of what figures may be off by"
    if worse is None:
        if all(one.problem.pessimistic for one in service.resolved):
            return f"{text}: these are at their bad end, each device and link"
        return f"{text}: these are taken as exact"
    text += "; bad end: the same requests, each device and link at the upper end of its 80 % "
    text += "interval"
    states = [
        f"{after.model} is {after.stability.state} there"
        for before, after in zip(service.models, worse.models, strict=True)
        if before.stability is not None
        and after.stability is not None
        and before.stability.state != after.stability.state
    ]
    return "; ".join([text, *states])


def _overloaded(service: Service, stream: StreamService) -> bool:
    """Whether a stream's requests wait ever longer: its latencies are of this run alone."""
    return any(one.overloaded for one in service.models if one.model == stream.model)


def _shown(streams: Sequence[StreamService]) -> list[float]:
    """A few percentiles: those of objectives, and what is customary."""
    asked = {objective.slo.percentile for one in streams for objective in one.objectives}
    found = set(sorted(asked)[-SHOWN:])
    for usual in (99.0, 50.0, 90.0):
        if len(found) < SHOWN:
            found.add(usual)
    return sorted(found)


def _latencies(service: Service, worse: Service | None) -> Table:
    """A line a figure of each stream's latency: the mean, and a few percentiles."""
    streams = service.streams
    table = new_table()
    table.add_column("stream", overflow="fold")
    for name in ("requests", "", "latency", "95 %", *(() if worse is None else ("bad end",))):
        table.add_column(Text(name, justify="right"), justify="right", no_wrap=True)
    shown = _shown(streams)
    for at, one in enumerate(streams):
        other = None if worse is None else worse.streams[at]
        found, beside = _by_percentile(one), _by_percentile(other)
        mean, *between = [ABSENT]
        if not _overloaded(service, one):
            mean, *between = [seconds_text(one.mean_s), *_between(one.mean, format_seconds)]
        lines = [("mean", mean, *(between or [""]))]
        for percentile in shown:
            value, *between = percentile_lines(found.get(percentile))
            lines.append((f"p{percentile:g}", value, *(between or [""])))
        if worse is not None and other is not None:
            there = [math.nan if _overloaded(worse, other) else other.mean_s]
            for percentile in shown:
                known = beside.get(percentile)
                there.append(math.nan if known is None else known.estimate_s)
            lines = [(*line, latency_text(s)) for line, s in zip(lines, there, strict=True)]
        table.add_row(
            cell(one.name),
            str(one.requests),
            *(cell(*column) for column in zip(*lines, strict=True)),
        )
    return table


def _by_percentile(one: StreamService | None) -> dict[float, Percentile]:
    return {} if one is None else {each.percentile: each for each in one.percentiles}


def loading_text(service: Service, one: Loading) -> str:
    """Return how often a model's weights were loaded onto a device, in one line."""
    name = plain(one.model) if len(service.resolved) > 1 else "the model"
    text = f"{name} on {one.device}: loaded {count(one.loads, 'time')}"
    if one.loads:
        each = format_seconds(one.seconds / one.loads)
        text += f", {format_bytes(one.nbytes)} in {each} each"
        if one.seconds > one.loads * one.alone_s * (1 + ROUNDING):
            text += f" ({format_seconds(one.alone_s)} where links are free)"
    return f"{text}; in memory {percent(one.resident)} of the time"


def _between(one: Mean | None, told: Callable[[float], str]) -> list[str]:
    """A line of both ends of an interval; none where there is none, or the run is too short."""
    return [ends(told(end[0]), told(end[1]))] if (end := ends_of(one)) else []


def _number(value: float, interval: Mean | None) -> str:
    between = " to ".join(f"{end:.4g}" for end in ends_of(interval))
    return f"{value:.4g}" + f" ({between})" * bool(between)


def _parts(service: Service, *, loading: bool) -> Table:
    """Of what latencies are made, a mean above its 99th percentile, and what was rejected."""
    streams = service.streams
    table = new_table()
    table.add_column("stream", overflow="fold")
    for name in (
        "answers\na second,\n95 %",
        "waited,\nmean,\np99",
        *(("loaded,\nmean,\np99",) if loading else ()),
        "served,\nmean,\np99",
        "batch,\nmean",
        "queue\nfull",
        "timed\nout",
    ):
        table.add_column(Text(name, justify="right"), justify="right", no_wrap=True)
    for one in streams:
        table.add_row(
            cell(one.name),
            cell(
                number_text(one.throughput_per_s),
                *_between(one.throughput, "{:.4g}".format),
            ),
            ABSENT if _overloaded(service, one) else _mean_and_p99(one.queue),
            *((_mean_and_p99(one.loading),) if loading else ()),
            _mean_and_p99(one.service),
            ABSENT if math.isnan(one.batch) else f"{one.batch:.3g}",
            str(one.full),
            str(one.expired),
        )
    return table


def _mean_and_p99(part: Part) -> Text:
    return cell(seconds_text(part.mean_s), seconds_text(part.p99_s))


def _objectives(streams: Sequence[StreamService], worse: Service | None) -> Table:
    table = new_table()
    for name in ("stream", "objective"):
        table.add_column(name, overflow="fold")
    table.add_column(Text("on time", justify="right"), justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    table.add_column("MLPerf", overflow="fold")
    if worse is not None:
        table.add_column("bad end", overflow="fold")
    for at, one in enumerate(streams):
        for k, objective in enumerate(one.objectives):
            table.add_row(
                cell(one.name),
                cell(str(objective.slo)),
                f"{100 * objective.on_time:.4g} %",
                cell(_verdict(objective)),
                "valid" if objective.verdict.mlperf.valid else "invalid",
                *(() if worse is None else (worse.streams[at].objectives[k].verdict.answer,)),
            )
    return table


def _verdict(objective: Objective) -> str:
    verdict = objective.verdict
    if verdict.answer == "undecided":
        return f"undecided, some {big(verdict.more)} more would tell"
    return verdict.answer


def _uses(service: Service) -> Table:
    table = new_table()
    table.add_column("device or link", overflow="fold")
    for name in ("busy", "utilization", "energy", "memory"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, use in service.devices.items():
        table.add_row(
            cell(name),
            seconds_text(use.busy_s),
            cell(percent(use.utilization), *_between(use.interval, percent)),
            joules(use.energy_j),
            format_bytes(service.memory_bytes[name]),
        )
    for name, use in service.links.items():
        if use.busy_s > 0:
            table.add_row(
                cell(name),
                seconds_text(use.busy_s),
                cell(percent(use.utilization), *_between(use.interval, percent)),
                ABSENT,
                ABSENT,
            )
    return table


def busiest(service: Service) -> float:
    """Return how much of its time the bottleneck is used."""
    shares = [use.utilization for use in (*service.devices.values(), *service.links.values())]
    used = [model.utilization for model in service.models]
    return max([*shares, *(share for share in used if not math.isnan(share))])
