"""Simulated workload on a deployment as tables: latencies, objectives, use, autoscaling."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import urlsplit

from rich.console import RenderableType
from rich.table import Table

from hetsim.core.text import plain
from hetsim.core.units import format_bytes, format_percentile, format_seconds
from hetsim.hardware.kernel_figures import weakest
from hetsim.reporting.console import Cell, Column, bold, pairs, stack, table, table_of
from hetsim.reporting.formatting import (
    ABSENT,
    between,
    big,
    count,
    joules,
    latency_text,
    number_text,
    on_time_text,
    percent,
    percentile_lines,
    time_text,
)
from hetsim.reporting.tables.question import STATUSES
from hetsim.reporting.tables.service_record import Fixed, served_rows, service_record
from hetsim.reporting.tables.verdicts import OVERLOADED, verdict_of
from hetsim.simulation.service.cost import Charge, Cost
from hetsim.simulation.service.figures import ends_of
from hetsim.simulation.service.replicas import ReplicaBound, Scaled
from hetsim.simulation.service.service import (
    Failed,
    LatencyPart,
    Loading,
    ModelFailed,
    ModelService,
    Objective,
    Period,
    Service,
    StreamService,
    Use,
)
from hetsim.statistics.intervals import Mean, percentile_at

SHOWN = 3
"""Number of percentiles up to which customary ones are added."""

ROUNDING = 1e-9
"""Rounding error of sums of seconds."""


def service_report(
    service: Service,
    worse: Service | None = None,
    cost: Cost | None = None,
    fixed: Sequence[Fixed] = (),
) -> RenderableType:
    """Return header, latencies and objectives by stream, and use by device and link.

    `worse` is the same workload with pessimistic times, `cost` its cost, `fixed` the same with
    fixed numbers of replicas.
    """
    each_j = service.energy_per_1000_j
    per_1000 = "" if each_j is None else f", {joules(each_j)} per 1000 requests on time"
    rows = [
        *served_rows(service.resolved),
        ("simulated", _played_text(service)),
        *((one.model, _state_text(service, one)) for one in service.models),
        *(("loading", loading_text(service, one)) for one in service.loading),
        *scaled_rows(service),
        *(() if service.failures is None else failed_rows(service.failures)),
        ("bottleneck", f"{service.bottleneck}, {percent(busiest(service))} of the time"),
        ("energy", f"{joules(service.energy_j)} in total{per_1000}{_of_power(service)}"),
        ("price", None if cost is None else cost_text(cost)),
        ("how sure", _sure_text(service, worse)),
    ]
    return stack(
        bold(verdict_of(service_record(service))),
        pairs(rows),
        _latencies(service, worse),
        _parts(service),
        _objectives(service.streams, worse),
        scaled_table(service, cost, fixed) if service.scaled else None,
        _failed_table(service),
        _uses(service),
    )


def _played_text(service: Service) -> str:
    workload = service.workload
    text = f"{count(service.requests, 'request')} over {format_seconds(service.duration_s)}"
    text += f", seed {workload.seed}"
    if workload.warm_up_s:
        text += f", after a warm-up of {format_seconds(workload.warm_up_s)}"
    answers = [one.verdict.answer for stream in service.streams for one in stream.objectives]
    if service.end == "answered" and answers:
        text += "; stopped when every objective was decided"
    elif service.end == "budget" and "undecided" in answers:
        text += "; stopped at --requests with an objective undecided"
    return text


def _state_text(service: Service, one: ModelService) -> str:
    inside = _number(one.queue.mean_inside, one.queue.inside_interval)
    queue = f"{inside} requests in the system on average"
    if not any(math.isnan(use.utilization) for use in one.instances):
        queue += f", {_number(one.queue.mean, one.queue.mean_interval)} of them waiting"
        queue += f" ({'over ' * one.queue.beyond}{one.queue.most} at most)"
    state = one.stability
    if state is None:
        return "no request arrived"
    if state.state == "stable":
        return f"stable; {queue}"
    if state.state == "overloaded":
        rates = f"{state.offered_per_s:.4g}/s arrive and {state.carried_per_s:.4g}/s are answered"
        mine = [stream for stream in service.streams if stream.model == one.model]
        rejects = any(stream.answered < stream.requests for stream in mine)
        return f"overloaded: {rates}; {queue}; {OVERLOADED[rejects]}"
    return (
        f"backlogged: {count(state.backlog, 'request')} waited at the last arrival, and the queue "
        f"was never empty after {format_seconds(state.caught_up_s)}; {queue}"
    )


def _of_power(service: Service) -> str:
    """Provenance of the power figures, and busy links, which have none."""
    platform = service.resolved[0].problem.platform
    assert platform is not None
    statuses = [
        spec.provenance.get(figure, ("estimate", ""))[0]
        for spec in platform.devices.values()
        for figure in ("idle_w", "busy_w")
    ]
    text = f"; power is {STATUSES[weakest(statuses)]}"
    busy = [name for name, use in service.links.items() if use.busy_s > 0]
    return f"{text}; the power of links is unknown ({', '.join(busy)})" if busy else text


def _sure_text(service: Service, worse: Service | None) -> str:
    text = "intervals cover random arrivals"
    if worse is None:
        if all(one.problem.pessimistic for one in service.resolved):
            return f"{text}; all times are pessimistic"
        return f"{text}; times are taken as exact"
    text += "; pessimistic: all times at the upper end of their 80 % interval"
    states = [
        f"{after.model} is then {after.stability.state}"
        for before, after in zip(service.models, worse.models, strict=True)
        if before.stability is not None
        and after.stability is not None
        and before.stability.state != after.stability.state
    ]
    return "; ".join([text, *states])


def _overloaded(service: Service, stream: StreamService) -> bool:
    """Whether a stream's queue grows without limit, so that its latencies depend on the run."""
    return any(one.overloaded for one in service.models if one.model == stream.model)


def _shown(streams: Sequence[StreamService]) -> list[float]:
    """Percentiles of the objectives and customary ones."""
    found = {objective.slo.percentile for one in streams for objective in one.objectives}
    for usual in (99.0, 50.0, 90.0):
        if len(found) < SHOWN:
            found.add(usual)
    return sorted(found)


def _latencies(service: Service, worse: Service | None) -> Table:
    """Table of the mean and percentiles of each stream's latency."""
    shown = _shown(service.streams)

    def figures(of: Service, one: StreamService) -> list[list[str]]:
        """Return the mean, then percentiles, each with its interval."""
        mean = [ABSENT]
        if not _overloaded(of, one):
            mean = [time_text(one.mean_s), *_between(one.mean, format_seconds)]
        return [mean, *(percentile_lines(percentile_at(one.percentiles, each)) for each in shown)]

    def pessimistic(one: StreamService) -> list[str]:
        assert worse is not None
        other = worse.streams[service.streams.index(one)]
        known = [percentile_at(other.percentiles, each) for each in shown]
        mean_s = math.nan if _overloaded(worse, other) else other.mean_s
        there = [mean_s, *(math.nan if each is None else each.estimate_s for each in known)]
        return [latency_text(at_s) for at_s in there]

    return table_of(
        service.streams,
        "stream=name",
        "#requests=requests",
        ("#", lambda one: ["mean", *(format_percentile(each) for each in shown)]),
        ("#latency", lambda one: [value for value, *_ in figures(service, one)]),
        (
            "#95 %",
            lambda one: [within[0] if within else "" for _, *within in figures(service, one)],
        ),
        worse is not None and ("#pessimistic", pessimistic),
    )


def loading_text(service: Service, one: Loading) -> str:
    """Return how often a model's weights were loaded onto a device."""
    name = plain(one.model) if len(service.resolved) > 1 else "the model"
    text = f"{name} on {one.device}: loaded {count(one.loads, 'time')}"
    if one.loads:
        each = format_seconds(one.seconds / one.loads)
        text += f", {format_bytes(one.nbytes)} in {each} each"
        if one.seconds > one.loads * one.alone_s * (1 + ROUNDING):
            text += f" ({format_seconds(one.alone_s)} on idle links)"
    return f"{text}; in memory {percent(one.resident)} of the time"


def _between(one: Mean | None, told: Callable[[float], str]) -> list[str]:
    """Both ends of an interval as a line; empty if the run is too short."""
    return [between(told(end[0]), told(end[1]))] if (end := ends_of(one)) else []


def _number(value: float, interval: Mean | None) -> str:
    between = " to ".join(f"{end:.4g}" for end in ends_of(interval))
    return f"{value:.4g}" + f" ({between})" * bool(between)


def _parts(service: Service) -> Table:
    """Parts of the latency, each as mean above p99, and rejected requests."""

    def part(one: LatencyPart) -> list[str]:
        return [time_text(one.mean_s), time_text(one.p99_s)]

    def answers(one: StreamService) -> list[str]:
        return [number_text(one.throughput_per_s), *_between(one.throughput, "{:.4g}".format)]

    return table_of(
        service.streams,
        "stream=name",
        ("#answers\na second,\n95 %", answers),
        (
            "#waited,\nmean,\np99",
            lambda one: ABSENT if _overloaded(service, one) else part(one.queue),
        ),
        bool(service.loading) and ("#loaded,\nmean,\np99", lambda one: part(one.loading)),
        ("#served,\nmean,\np99", lambda one: part(one.service)),
        ("#batch,\nmean", lambda one: ABSENT if math.isnan(one.batch) else f"{one.batch:.3g}"),
        "#queue\nfull=full",
        "#timed\nout=expired",
    )


def _objectives(streams: Sequence[StreamService], worse: Service | None) -> Table:
    """Table of all streams' objectives, each with its stream and its index there."""
    found = [(at, k, one) for at, stream in enumerate(streams)
             for k, one in enumerate(stream.objectives)]  # fmt: skip

    def pessimistic(row: tuple[int, int, Objective]) -> str:
        assert worse is not None
        return worse.streams[row[0]].objectives[row[1]].verdict.answer

    return table_of(
        found,
        ("stream", lambda row: streams[row[0]].name),
        ("objective", lambda row: str(row[2].slo)),
        ("#on time", lambda row: on_time_text(row[2].on_time)),
        ("verdict", lambda row: _verdict(row[2])),
        ("MLPerf", lambda row: "valid" if row[2].verdict.mlperf.valid else "invalid"),
        worse is not None and ("pessimistic", pessimistic),
    )


def _verdict(objective: Objective) -> str:
    verdict = objective.verdict
    if verdict.answer == "undecided":
        return f"undecided, needs about {big(verdict.more)} more requests"
    return verdict.answer


def _uses(service: Service) -> Table:
    def row(name: str, use: Use, *more: str) -> tuple[Cell, ...]:
        share = [percent(use.utilization), *_between(use.interval, percent)]
        return (name, time_text(use.busy_s), share, *more)

    rows = [
        row(name, use, joules(use.energy_j), format_bytes(service.memory_bytes[name]))
        for name, use in service.devices.items()
    ]
    links = {name: use for name, use in service.links.items() if use.busy_s > 0}
    rows += [row(name, use, ABSENT, ABSENT) for name, use in links.items()]
    return table(("device or link", "#busy", "#utilization", "#energy", "#memory"), rows)


def busiest(service: Service) -> float:
    """Return the utilization of the bottleneck."""
    shares = [use.utilization for use in (*service.devices.values(), *service.links.values())]
    used = [model.utilization for model in service.models]
    return max([*shares, *(share for share in used if not math.isnan(share))])


def failed_rows(failed: Failed) -> Iterator[tuple[str, str]]:
    """Yield lines on failures, and on the availability and recovery of each model."""
    for one in failed.devices:
        yield (
            f"failures of {plain(one.device)}",
            f"{one.failures}, down for {format_seconds(one.down_s)} in total",
        )
    if not failed.devices:
        yield "failures", "none while requests ran"
        return
    for model in failed.models:
        yield f"{plain(model.model)} with failures", _model_text(model)
    lost = sum(stream.lost for stream in failed.streams)
    retried = sum(stream.retried for stream in failed.streams)
    yield (
        "lost work",
        f"{count(lost, 'request')} lost {format_seconds(failed.cut_s)} of device time; "
        f"{count(retried, 'request')} retried",
    )


def _model_text(model: ModelFailed) -> str:
    text = f"available {on_time_text(model.available)} of the time"
    if not model.windows:
        return f"{text}; not affected"
    recoveries = model.recoveries_s
    if recoveries:
        text += f"; recovered in {format_seconds(sum(recoveries) / len(recoveries))}"
        if len(recoveries) > 1:
            text += f" on average of {len(recoveries)}, {format_seconds(max(recoveries))} at most"
    never = len(model.windows) - len(recoveries)
    if never:
        text += "; not recovered from the last failure at the end"
    return text


def cost_text(cost: Cost) -> str:
    """Return the cost of 1000 requests on time and its sources, or the options to give."""
    asks = []
    if cost.unpriced:
        asks.append(
            f"unknown for {', '.join(cost.unpriced)}; give --price {cost.unpriced[0]}=0.53/h "
            "(rented), =1600/3y (purchased), or one for platform"
        )
    if cost.unspread:
        asks.append(f"give --depreciation 3y for {', '.join(cost.unspread)}")
    bought = any(not one.price.rented for one in cost.charges)
    if bought and cost.tariff_usd_per_kwh is None:
        asks.append("give --tariff USD_PER_KWH for electricity")
    if cost.unpriced or not cost.charges:
        return "; ".join(asks)
    said = []
    whole, hardware = cost.per_1000(cost.usd), cost.per_1000(cost.hardware_usd)
    if whole is not None:
        said.append(f"{whole:.3g} USD per 1000 requests on time")
        if bought:
            power = cost.per_1000(cost.electricity_usd)
            said[-1] += (
                f", of which {power:.3g} USD electricity at {cost.tariff_usd_per_kwh:g} USD/kWh"
            )
    elif hardware is not None:
        said.append(f"{hardware:.3g} USD per 1000 requests on time, without electricity")
    elif not cost.on_time:
        said.append("no request was on time")
    longest_s = max(one.rented_s for one in cost.charges)
    said += [charge_text(one, longest_s) for one in cost.charges]
    return "; ".join(said + asks)


def charge_text(one: Charge, longest_s: float) -> str:
    """Return a price, its source, and the share of time for which it was paid."""
    price = one.price
    if price.rented:
        text = f"{one.name}: {price.usd_per_hour:g} USD/h"
        if one.rented_s < longest_s:
            text += f" for {percent(one.rented_s / longest_s)} of the time"
    else:
        text = f"{one.name}: {price.usd:g} USD"
        if one.hourly_usd is not None:
            text += f", {one.hourly_usd:.3g} USD/h"
    where = plain(urlsplit(price.source).netloc or price.source)
    return f"{text} ({where}, {price.of})" if price.of else f"{text} ({where})"


PERCENTILE = 99.0

BINDS = {
    "work": "the total work needs as much",
    "silence": "the total work and a start after each idle period need as much",
    "peaks": "the minimum of replicas and the peaks beyond them need as much",
    "objectives": "the maximum of replicas is too slow for the peak rate",
}


def scaled_rows(service: Service) -> Iterator[tuple[str, str]]:
    """Yield lines on the replicas of each scaled model, and on their lower bound."""
    for one in service.scaled:
        name = f" of {plain(one.model)}" if len(service.scaled) > 1 else ""
        yield f"replicas{name}", _replicas_text(one)
        if one.fewest is not None:
            yield f"lower bound{name}", _fewest_text(one, one.fewest)


def _replicas_text(one: Scaled) -> str:
    config = one.config
    text = f"{config.min_replicas} to {config.max_replicas} by Ray Serve's policy at a target of "
    text += f"{config.target_ongoing_requests:g} ongoing requests: {one.mean:.3g} on average, "
    text += f"{one.most} at most, {count(one.starts, 'start')}"
    if not math.isnan(one.start_s):
        text += f" of {format_seconds(one.start_s)}"
    if not config.startup_s:
        text += "; without startup_s a start only loads weights"
    return f"{text}; {one.replica_hours:.4g} replica-hours"


def _fewest_text(one: Scaled, fewest: ReplicaBound) -> str:
    if math.isinf(fewest.replica_s):
        return f"no scaling policy meets every objective: {BINDS[fewest.binds]}"
    text = f"no scaling policy meets every objective with less than {fewest.replica_s / 3600:.4g} "
    text += "replica-hours"
    if one.replica_s > 0:
        text += f", {percent(fewest.replica_s / one.replica_s)} of the simulated ones"
    return f"{text}; {BINDS[fewest.binds]}"


def scaled_table(service: Service, cost: Cost | None, fixed: Sequence[Fixed]) -> Table:
    """Return replica-hours, price and latencies of autoscaling and of fixed numbers of replicas."""
    rows = [(service, cost), *fixed]
    priced = all(each is not None and each.hardware_usd is not None for _, each in rows)

    def name(row: tuple[Service, Cost | None]) -> str:
        if row[0] is service:
            return "autoscaled"
        return f"fixed at {', '.join(str(one.config.max_replicas) for one in row[0].scaled)}"

    def of_stream(at: int, stream: StreamService) -> Iterator[Column]:
        of = f" of {stream.name}" if len(service.streams) > 1 else ""
        yield f"#{format_percentile(PERCENTILE)}{of}", lambda row: _p99(row[0].streams[at])
        if stream.objectives:
            on_time = f"#on time{of}"
            yield (
                on_time,
                lambda row: on_time_text(min(o.on_time for o in row[0].streams[at].objectives)),
            )

    streams = enumerate(service.streams)
    return table_of(
        rows,
        ("replicas", name),
        ("#on average", lambda row: f"{sum(one.mean for one in row[0].scaled):.3g}"),
        ("#most", lambda row: str(sum(one.most for one in row[0].scaled))),
        ("#replica-hours", lambda row: f"{sum(one.replica_hours for one in row[0].scaled):.4g}"),
        priced and ("#USD", lambda row: f"{row[1].hardware_usd:.4g}"),
        *(column for at, stream in streams for column in of_stream(at, stream)),
    )


def _p99(stream: StreamService) -> str:
    if not stream.percentiles:
        return "overloaded" if stream.requests else ABSENT
    return latency_text(stream.p99_s)


def _failed_table(service: Service) -> Table | None:
    """Latencies before, during and after failures by stream; None without failures."""
    failed = service.failures
    if failed is None or not failed.devices:
        return None
    rows = [
        (one.name if when == "before" else "", when, getattr(one, when), stream)
        for one, stream in zip(failed.streams, service.streams, strict=True)
        for when in ("before", "during", "after")
    ]

    def on_time(row: tuple[str, str, Period, StreamService]) -> list[str]:
        _, _, period, stream = row
        if not period.requests:
            return [ABSENT]
        shares = [on_time_text(share) for share in period.on_time]
        if len(shares) > 1:
            names = [str(one.slo) for one in stream.objectives]
            return [f"{name}: {share}" for name, share in zip(names, shares, strict=True)]
        return shares

    return table_of(
        rows,
        ("stream", lambda row: row[0]),
        ("|fail-\nures", lambda row: row[1]),
        ("#requests,\nrejected", lambda row: [str(row[2].requests), str(row[2].rejected)]),
        ("#mean", lambda row: time_text(row[2].mean_s)),
        ("#p50, 95 %", lambda row: percentile_lines(percentile_at(row[2].percentiles, 50.0))),
        ("#p99, 95 %", lambda row: percentile_lines(percentile_at(row[2].percentiles, 99.0))),
        any(stream.objectives for stream in service.streams) and ("on time", on_time),
    )
