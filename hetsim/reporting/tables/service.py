"""Simulated workload on a deployment as tables: latencies, objectives, use, autoscaling."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import urlsplit

from rich.console import RenderableType
from rich.table import Table

from hetsim.core.text import plain
from hetsim.core.units import format_bytes, format_seconds
from hetsim.hardware.kernel_figures import weakest
from hetsim.reporting.tables.question import STATUSES, question
from hetsim.reporting.tables.service_record import Fixed, served_text, service_record
from hetsim.reporting.tables.verdicts import verdict_of
from hetsim.reporting.words.console import Cell, bold, pairs, stack, table
from hetsim.reporting.words.text import (
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
from hetsim.simulation.service.cost import Charge, Cost
from hetsim.simulation.service.figures import ends_of
from hetsim.simulation.service.replicas import ReplicaBound, Scaled
from hetsim.simulation.service.service import (
    Failed,
    Loading,
    ModelFailed,
    ModelService,
    Objective,
    Part,
    Period,
    Service,
    StreamService,
    Use,
)
from hetsim.statistics.intervals import Mean, Percentile

SHOWN = 3
"""Percentiles that a line has room for."""

ROUNDING = 1e-9
"""Rounding of sums of seconds."""


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
    rows: list[tuple[str, str]] = []
    for one in service.resolved:
        rows += [row for row in question(one.problem) if row not in rows]
        rows.append(("served", served_text(one)))
    rows.append(("simulated", _played_text(service)))
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
            f"{joules(service.energy_j)} in total"
            + ("" if energy_j is None else f", {joules(energy_j)} per 1000 requests on time")
            + _of_power(service),
        )
    )
    if cost is not None:
        rows.append(("price", cost_text(cost)))
    rows.append(("how sure", _sure_text(service, worse)))
    asks = any(one.objectives for one in service.streams)
    failed = service.failures is not None and bool(service.failures.devices)
    return stack(
        bold(verdict_of(service_record(service))),
        pairs(rows),
        _latencies(service, worse),
        _parts(service, loading=bool(service.loading)),
        _objectives(service.streams, worse) if asks else None,
        scaled_table(service, cost, fixed) if service.scaled else None,
        failed_table(service) if failed else None,
        _uses(service),
    )


def _played_text(service: Service) -> str:
    workload = service.workload
    text = f"{count(service.requests, 'request')} over {format_seconds(service.duration_s)}"
    text += f", seed {workload.seed}"
    if workload.warm_up_s:
        text += f", after a warm-up of {format_seconds(workload.warm_up_s)}"
    ends = {
        "answered": "; stopped when every objective was decided",
        "budget": "; stopped at --requests with an objective undecided",
        "ended": "",
    }
    return text + ends[service.end]


def _state_text(one: ModelService) -> str:
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
        return f"overloaded: {rates}; {queue}; latency grows without limit"
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
    asked = {objective.slo.percentile for one in streams for objective in one.objectives}
    found = set(sorted(asked)[-SHOWN:])
    for usual in (99.0, 50.0, 90.0):
        if len(found) < SHOWN:
            found.add(usual)
    return sorted(found)


def _latencies(service: Service, worse: Service | None) -> Table:
    """Mean and percentiles of each stream's latency."""
    streams = service.streams
    rows: list[tuple[Cell, ...]] = []
    shown = _shown(streams)
    for at, one in enumerate(streams):
        other = None if worse is None else worse.streams[at]
        found, beside = _by_percentile(one), _by_percentile(other)
        mean, *between = [ABSENT]
        if not _overloaded(service, one):
            mean, *between = [time_text(one.mean_s), *_between(one.mean, format_seconds)]
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
        rows.append((one.name, str(one.requests), *zip(*lines, strict=True)))
    worst = [] if worse is None else ["#pessimistic"]
    return table(("stream", "#requests", "#", "#latency", "#95 %", *worst), rows)


def _by_percentile(one: StreamService | None) -> dict[float, Percentile]:
    return {} if one is None else {each.percentile: each for each in one.percentiles}


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
    """Both ends of an interval as a line; none where the run is too short."""
    return [between(told(end[0]), told(end[1]))] if (end := ends_of(one)) else []


def _number(value: float, interval: Mean | None) -> str:
    between = " to ".join(f"{end:.4g}" for end in ends_of(interval))
    return f"{value:.4g}" + f" ({between})" * bool(between)


def _parts(service: Service, *, loading: bool) -> Table:
    """Parts of the latency, each as mean above p99, and rejected requests."""
    loaded = ["#loaded,\nmean,\np99"] if loading else []
    return table(
        (
            "stream",
            "#answers\na second,\n95 %",
            "#waited,\nmean,\np99",
            *loaded,
            "#served,\nmean,\np99",
            "#batch,\nmean",
            "#queue\nfull",
            "#timed\nout",
        ),
        (
            (
                one.name,
                [number_text(one.throughput_per_s), *_between(one.throughput, "{:.4g}".format)],
                ABSENT if _overloaded(service, one) else _mean_and_p99(one.queue),
                *([_mean_and_p99(one.loading)] if loading else []),
                _mean_and_p99(one.service),
                ABSENT if math.isnan(one.batch) else f"{one.batch:.3g}",
                str(one.full),
                str(one.expired),
            )
            for one in service.streams
        ),
    )


def _mean_and_p99(part: Part) -> list[str]:
    return [time_text(part.mean_s), time_text(part.p99_s)]


def _objectives(streams: Sequence[StreamService], worse: Service | None) -> Table:
    worst = [] if worse is None else ["pessimistic"]
    return table(
        ("stream", "objective", "#on time", "verdict", "MLPerf", *worst),
        (
            (
                one.name,
                str(objective.slo),
                on_time_text(objective.on_time),
                _verdict(objective),
                "valid" if objective.verdict.mlperf.valid else "invalid",
                *([] if worse is None else [worse.streams[at].objectives[k].verdict.answer]),
            )
            for at, one in enumerate(streams)
            for k, objective in enumerate(one.objectives)
        ),
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


def failed_table(service: Service) -> Table:
    """Return latencies before, during and after failures by stream."""
    failed = service.failures
    assert failed is not None
    objectives = any(stream.objectives for stream in service.streams)
    rows = []
    for one, stream in zip(failed.streams, service.streams, strict=True):
        slos = [str(objective.slo) for objective in stream.objectives]
        periods = {"before": one.before, "during": one.during, "after": one.after}
        for when, period in periods.items():
            on_time = [_on_time(period, slos)] if objectives else []
            name = one.name if when == "before" else ""
            rows.append((name, when, *_period(period), *on_time))
    figures = "#requests,\nrejected", "#mean", "#p50, 95 %", "#p99, 95 %"
    return table(("stream", "|fail-\nures", *figures, *["on time"] * objectives), rows)


def _period(period: Period) -> list[Cell]:
    found = {each.percentile: each for each in period.percentiles}
    return [
        [str(period.requests), str(period.rejected)],
        time_text(period.mean_s),
        *(percentile_lines(found.get(percentile)) for percentile in (50.0, 99.0)),
    ]


def _on_time(period: Period, names: list[str]) -> list[str]:
    if not period.requests:
        return [ABSENT]
    shares = [on_time_text(share) for share in period.on_time]
    if len(shares) > 1:
        shares = [f"{name}: {share}" for name, share in zip(names, shares, strict=True)]
    return shares


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
    """Return a price, its source, and the share of time it was paid for."""
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
    """Return replica-hours, price and latencies of autoscaling beside fixed numbers of replicas."""
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
        return "autoscaled"
    return f"fixed at {', '.join(str(each.config.max_replicas) for each in scaled)}"


def _p99(stream: StreamService) -> str:
    if not stream.percentiles:
        return "overloaded" if stream.requests else ABSENT
    return latency_text(stream.p99_s)
