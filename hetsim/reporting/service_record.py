"""What became of a workload on a deployment, as a record: with queue lengths over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hetsim.confidence.mean import Mean
from hetsim.confidence.percentile import Percentile
from hetsim.problem.record import problem_record
from hetsim.reporting.tables.scaled import Fixed, scaled_record
from hetsim.reporting.tables.service import served_text
from hetsim.reporting.tables.workload import failing_record
from hetsim.reporting.words.cost import cost_record
from hetsim.service.cost import Cost
from hetsim.service.failed import Failed, Period
from hetsim.service.resolving import devices_of
from hetsim.service.service import ModelService, Part, Service, StreamService, Use


def service_record(
    service: Service,
    worse: Service | None = None,
    cost: Cost | None = None,
    fixed: Sequence[Fixed] = (),
) -> dict[str, Any]:
    """Return the record for ``to_json``.

    `worse` is the same at the bad end of what figures may be off by, `cost` what it costs; `fixed`
    is the same where replicas do not come and go.
    """
    workload = service.workload
    first = service.resolved[0].problem
    return {
        "schema": "hetsim-service/1",
        "problem": problem_record(first),
        "served": [
            {
                "model": one.served.model,
                "problem": problem_record(one.problem),
                "text": served_text(one),
                "loading": one.served.loading,
                "batch_sizes": list(one.served.sizes),
                "variants": [dict(dims) for dims in one.variants],
                "instances": [
                    {
                        "count": entry.count,
                        "strategy": plans[0][0].strategy,
                        "devices": sorted(devices_of(plans)),
                        "max_in_flight": one.served.in_flight(entry) or None,
                        "seconds": [list(row) for row in seconds],
                    }
                    for entry, plans, seconds in zip(
                        one.served.instances, one.plans, one.seconds, strict=True
                    )
                ],
            }
            for one in service.resolved
        ],
        "seed": workload.seed,
        "requests": service.requests,
        "duration_s": service.duration_s,
        "warm_up_s": workload.warm_up_s,
        "end": service.end,
        "state": service.state,
        "bottleneck": service.bottleneck,
        "on_time": service.on_time,
        "energy_j": service.energy_j,
        "energy_per_1000_on_time_j": service.energy_per_1000_j,
        "cost": None if cost is None else cost_record(cost),
        "bad_end": None
        if worse is None
        else {
            "state": worse.state,
            "bottleneck": worse.bottleneck,
            "streams": [_stream_record(one) for one in worse.streams],
        },
        "streams": [_stream_record(one) for one in service.streams],
        "models": [_model_record(one) for one in service.models],
        "devices": {
            name: {
                **_use_record(use),
                "energy_per_1000_on_time_j": service.per_1000(use.energy_j),
                "memory_bytes": service.memory_bytes[name],
            }
            for name, use in service.devices.items()
        },
        "links": {name: _use_record(use) for name, use in service.links.items()},
        "loading": [
            {
                "model": one.model,
                "device": one.device,
                "loads": one.loads,
                "nbytes": one.nbytes,
                "alone_s": one.alone_s,
                "seconds": one.seconds,
                "resident": one.resident,
            }
            for one in service.loading
        ],
        **scaled_record(service, fixed),
        **_failures_record(service),
    }


def _stream_record(one: StreamService) -> dict[str, Any]:
    return {
        "name": one.name,
        "model": one.model,
        "requests": one.requests,
        "answered": one.answered,
        "rejected_full": one.full,
        "rejected_expired": one.expired,
        "throughput_per_s": one.throughput_per_s,
        "throughput_interval": _interval_record(one.throughput),
        "latency_mean_s": one.mean_s,
        "latency_mean_interval": _interval_record(one.mean),
        "percentiles": [_percentile_record(each) for each in one.percentiles],
        "queue": _part_record(one.queue),
        "loading": _part_record(one.loading),
        "service": _part_record(one.service),
        "batch_mean": one.batch,
        "objectives": [
            {
                "share_on_time": each.slo.share,
                "latency_s": each.slo.latency_s,
                "on_time": each.on_time,
                "verdict": each.verdict.answer,
                "more_requests": each.verdict.more,
                "mlperf": {
                    "valid": each.verdict.mlperf.valid,
                    "more_requests": each.verdict.mlperf.more,
                },
            }
            for each in one.objectives
        ],
    }


def _model_record(one: ModelService) -> dict[str, Any]:
    state = one.stability
    return {
        "model": one.model,
        "batches": one.batches,
        "stability": None
        if state is None
        else {
            "state": state.state,
            "caught_up_s": state.caught_up_s,
            "backlog": state.backlog,
            "offered_per_s": state.offered_per_s,
            "carried_per_s": state.carried_per_s,
        },
        "queue": {
            "mean": one.queue.mean,
            "mean_interval": _interval_record(one.queue.mean_interval),
            "mean_inside": one.queue.mean_inside,
            "mean_inside_interval": _interval_record(one.queue.inside_interval),
            "most": one.queue.most,
            "beyond_most": one.queue.beyond,
            "window_s": one.queue.window_s,
            "waiting": one.queue.waiting.tolist(),
            "inside": one.queue.inside.tolist(),
        },
        "instances": [_use_record(use) for use in one.instances],
    }


def _failures_record(service: Service) -> dict[str, Any]:
    asked, failed = service.workload.failures, service.failures
    if asked is None or failed is None:
        return {}
    return {"failures": {"asked": failing_record(asked), **failed_record(failed)}}


def failed_record(failed: Failed) -> dict[str, Any]:
    """Return what failures did."""
    return {
        "random": failed.random,
        "cut_off_s": failed.cut_s,
        "devices": [
            {"device": one.device, "failures": one.failures, "down_s": one.down_s}
            for one in failed.devices
        ],
        "models": [
            {
                "model": one.model,
                "available": one.available,
                "outages": one.outages,
                "windows": [
                    {
                        "begin_s": window.begin_s,
                        "works_s": window.works_s,
                        "end_s": window.end_s,
                    }
                    for window in one.windows
                ],
            }
            for one in failed.models
        ],
        "streams": [
            {
                "name": one.name,
                "lost_work": one.lost,
                "retried": one.retried,
                "before": _period_record(one.before),
                "during": _period_record(one.during),
                "after": _period_record(one.after),
            }
            for one in failed.streams
        ],
    }


def _period_record(one: Period) -> dict[str, Any]:
    return {
        "requests": one.requests,
        "answered": one.answered,
        "rejected": one.rejected,
        "latency_mean_s": one.mean_s,
        "percentiles": [_percentile_record(each) for each in one.percentiles],
        "on_time": list(one.on_time),
    }


def _percentile_record(each: Percentile) -> dict[str, Any]:
    return {
        "percentile": each.percentile,
        "latency_s": each.estimate_s,
        "low_s": each.low_s,
        "high_s": each.high_s,
        "confidence": each.confidence,
        "enough": each.enough,
    }


def _part_record(one: Part) -> dict[str, float]:
    return {"mean_s": one.mean_s, "p50_s": one.p50_s, "p99_s": one.p99_s, "max_s": one.max_s}


def _use_record(one: Use) -> dict[str, Any]:
    return {
        "busy_s": one.busy_s,
        "utilization": one.utilization,
        "energy_j": one.energy_j,
        "utilization_interval": _interval_record(one.interval),
    }


def _interval_record(one: Mean | None) -> dict[str, Any] | None:
    if one is None:
        return None
    return {
        "low": one.low,
        "high": one.high,
        "confidence": one.confidence,
        "enough": one.enough,
    }
