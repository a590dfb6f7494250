"""Simulated workloads as plain records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from hetsim.core.text import fields, plain
from hetsim.core.units import format_seconds
from hetsim.problem.record import problem_record
from hetsim.reporting.tables.question import question
from hetsim.reporting.tables.workload import FAILING, arrivals_record, objectives_record
from hetsim.simulation.service.cost import Cost
from hetsim.simulation.service.replicas import Scaled
from hetsim.simulation.service.resolution import Resolved, devices_of
from hetsim.simulation.service.service import Service

Fixed: TypeAlias = tuple[Service, Cost]
"""Service of the same requests with a fixed number of replicas, and its cost."""


def served_text(one: Resolved) -> str:
    """Return the deployment of a model: replicas, devices, batching and routing."""
    served = one.served
    entries = []
    for entry, plans in zip(served.instances, one.plans, strict=True):
        plan = plans[0][0]
        limit = served.in_flight(entry)
        under_way = f", {limit} in flight each" if limit > 1 else ""
        entries.append(
            f"{entry.count} x {plain(plan.strategy)} on {', '.join(plan.devices_used)}{under_way}"
        )
    text = "; ".join(entries)
    batching = served.dynamic_batching
    if batching is not None:
        text += f"; batch size up to {batching.max_batch_size}"
        if batching.preferred_batch_size:
            text += f", preferred {', '.join(map(str, batching.preferred_batch_size))}"
        text += f", queue delay up to {format_seconds(batching.max_queue_delay_us / 1e6)}"
    if sum(entry.count for entry in served.instances) > 1:
        text += f"; {served.routing.replace('_', ' ')}"
    return text


def served_rows(resolved: Sequence[Resolved], *, served: bool = True) -> list[tuple[str, str]]:
    """Return lines on the questions of models, each once, and on how they are `served`."""
    rows: list[tuple[str, str]] = []
    for one in resolved:
        rows += [row for row in question(one.problem) if row not in rows]
        rows += [("served", served_text(one))] * served
    return rows


def service_record(
    service: Service,
    worse: Service | None = None,
    cost: Cost | None = None,
    fixed: Sequence[Fixed] = (),
) -> dict[str, Any]:
    """Return the record for ``to_json``.

    `worse` is the same workload with pessimistic times, `cost` its cost, `fixed` the same with
    fixed numbers of replicas.
    """
    first, failures = service.resolved[0].problem, {}
    if service.failures is not None:
        asked = fields(service, f"asked=workload.{FAILING}")
        failures = {"failures": asked | fields(service.failures, _FAILED)}
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
        "arrivals": arrivals_record(service.workload),
        "objectives": objectives_record(service.workload.streams),
        **fields(
            service,
            "seed=workload.seed requests duration_s warm_up_s=workload.warm_up_s end state "
            "bottleneck on_time energy_j energy_per_1000_on_time_j=energy_per_1000_j",
        ),
        "cost": None if cost is None else cost_record(cost),
        "bad_end": None if worse is None else fields(worse, f"state bottleneck streams({_STREAM})"),
        **fields(service, f"streams({_STREAM}) models({_MODEL})"),
        "devices": {
            name: {
                **fields(use, _USE),
                "energy_per_1000_on_time_j": service.per_1000(use.energy_j),
                "memory_bytes": service.memory_bytes[name],
            }
            for name, use in service.devices.items()
        },
        **fields(
            service,
            f"links({_USE}) loading(model device loads nbytes alone_s seconds resident)",
        ),
        **_scaled_record(service, fixed),
        **failures,
    }


_INTERVAL = "(low high confidence enough)"
_PART = "(mean_s p50_s p99_s max_s)"
_PERCENTILES = "percentiles(percentile latency_s=estimate_s low_s high_s confidence enough)"
_STREAM = (
    "name model requests answered rejected_full=full rejected_expired=expired throughput_per_s "
    f"throughput_interval=throughput{_INTERVAL} latency_mean_s=mean_s "
    f"latency_mean_interval=mean{_INTERVAL} {_PERCENTILES} queue{_PART} loading{_PART} "
    f"service{_PART} batch_mean=batch "
    "objectives(share_on_time=slo.share latency_s=slo.latency_s on_time verdict=verdict.answer "
    "more_requests=verdict.more mlperf=verdict.mlperf(valid more_requests=more))"
)
_USE = f"busy_s utilization energy_j utilization_interval=interval{_INTERVAL}"
_MODEL = (
    "model batches stability(state caught_up_s backlog offered_per_s carried_per_s) "
    f"queue(mean mean_interval{_INTERVAL} mean_inside mean_inside_interval="
    f"inside_interval{_INTERVAL} most beyond_most=beyond window_s waiting inside) "
    f"instances({_USE})"
)
_PERIOD = f"(requests answered rejected latency_mean_s=mean_s {_PERCENTILES} on_time)"
_FAILED = (
    "random cut_off_s=cut_s devices(device failures down_s) "
    "models(model available outages windows(begin_s works_s end_s)) "
    f"streams(name lost_work=lost retried before{_PERIOD} during{_PERIOD} after{_PERIOD})"
)


def _scaled_record(service: Service, fixed: Sequence[Fixed]) -> dict[str, Any]:
    """Record of autoscaling; empty if no model is scaled."""
    if not service.scaled:
        return {}
    return {
        "autoscaling": {
            "models": [_scaled_model(one) for one in service.scaled],
            "fixed": [_fixed_record(one, cost) for one, cost in fixed],
        }
    }


def _fixed_record(one: Service, cost: Cost) -> dict[str, Any]:
    return {
        **fields(
            one,
            "models=scaled(model replicas=config.max_replicas replica_seconds=replica_s)",
        ),
        "hardware_usd": cost.hardware_usd,
        "streams": [
            {
                **fields(stream, "name p99_s"),
                "on_time": [each.on_time for each in stream.objectives],
            }
            for stream in one.streams
        ],
    }


def _scaled_model(one: Scaled) -> dict[str, Any]:
    changes = one.changes()
    return {
        **fields(
            one,
            "model config replicas_mean=mean replicas_most=most starts start_mean_s=start_s "
            "replica_seconds=replica_s replica_hours "
            "fewest(replica_seconds=replica_s work_seconds=work_s binds)",
        ),
        "over_time": {
            "at_s": [at_s for at_s, _, _ in changes],
            "alive": [alive for _, alive, _ in changes],
            "running": [running for _, _, running in changes],
        },
    }


def cost_record(cost: Cost) -> dict[str, Any]:
    """Return the record for JSON."""
    return {
        **fields(cost, "usd hardware_usd electricity_usd tariff_usd_per_kwh"),
        "usd_per_1000_on_time": cost.per_1000(cost.usd),
        **fields(
            cost,
            "unpriced no_lifetime=unspread charges(name usd_per_hour=price.usd_per_hour "
            "usd=price.usd years=price.years hourly_usd energy_j rented_s of=price.of "
            "source=price.source)",
        ),
    }
