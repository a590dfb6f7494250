"""Placements of several models on a platform, the best one, and how models share devices."""

from __future__ import annotations

import math
from typing import Any

from rich.console import RenderableType
from rich.table import Table

from hetsim.core.text import fields, grouped, plain
from hetsim.problem.record import problem_record
from hetsim.provisioning.instances.answer import (
    BatchingSearch,
    Interference,
    Placement,
    PlacementOutcome,
)
from hetsim.reporting.console import bold, pairs, stack, table, table_of
from hetsim.reporting.formatting import ABSENT, big, bytes_text, latency_text, percent, time_text
from hetsim.reporting.tables.service_record import served_rows, service_record
from hetsim.reporting.tables.workload import arrivals_record, objectives_record
from hetsim.simulation.service.service import StreamService
from hetsim.workload.deployment import DynamicBatching


def place_report(found: Placement) -> RenderableType:
    """Return a header, one row per placement, the best one, and each model alone and shared."""
    service = found.best.service if found.rows else None
    rows = [
        *([] if service is None else served_rows(service.resolved, served=False)),
        ("objectives", _asked(found)),
        *((_batching(one.batching), _sought(one)) for one in found.sought),
    ]
    best: list[RenderableType] = []
    if found.rows:
        best = [_table(found), _instances(found.best), _devices(found)]
    return stack(pairs(rows), *best, _apart(found.apart), bold(best_sentence(found)))


def factor(value: float) -> str:
    """Return a multiple of the demand."""
    return "any" if math.isinf(value) else f"{value:.3g}x"


def best_sentence(found: Placement) -> str:
    """Return the best placement and its sustained demand, in a sentence."""
    if not found.rows:
        why = found.impossible or "No placement that was tried fits"
        return f"{plain(why[:1].upper() + why[1:])}."
    best = found.best
    where = "; ".join(
        f"{plain(model)} on {' and '.join(dict.fromkeys(mine))}"
        for model, mine in _by_model(best).items()
    )
    asks = any(stream.slos for stream in found.workload.streams)
    says = {
        "meets": "It meets every objective" if asks else "Every model keeps up",
        "misses": "It misses an objective" if asks else "A model does not keep up",
        "undecided": "Whether it meets every objective is undecided",
    }[best.answer]
    text = f"Best: {where}. {says}, and it sustains {factor(best.factor)} the demand."
    if best.answer != "meets" and found.impossible is not None:
        text += f" No placement can: {plain(found.impossible)}."
    return text


def _by_model(row: PlacementOutcome) -> dict[str, list[str]]:
    return grouped((one.model, "+".join(one.devices)) for one in row.instances)


def _asked(found: Placement) -> str:
    workload = found.workload
    told = sum(row.service.requests for row in found.rows if row.service is not None)
    parts = []
    for stream in workload.streams:
        slos = " and ".join(map(str, stream.slos)) or "no objective"
        parts.append(f"{plain(stream.name)}: {slos}")
    rate = f"{found.rate_per_s:.4g}/s in total, seed {workload.seed}"
    rate += f", {big(told)} requests simulated"
    return f"{'; '.join(parts)}; {rate}"


def _batching(batching: DynamicBatching | None) -> str:
    return "unbatched" if batching is None else f"batch size {batching.max_batch_size}"


def _sought(one: BatchingSearch) -> str:
    slow = sum(row.slow for row in one.refused)
    text = f"{one.offered} candidate instances"
    if one.refused:
        text += f", {len(one.refused)} infeasible"
        text += f" ({slow} too slow alone)" if slow else ""
    if not one.factor:
        return f"{text}; no set of them fits"
    gap = f"optimality gap at most {percent(one.gap)}" if math.isfinite(one.gap) else "gap unknown"
    gap = "proven optimal" if one.proved else gap
    return f"{text}; best {factor(one.factor)}, bound {factor(one.bound)}, {gap}"


def _table(found: Placement) -> Table:
    # Best of the batchings and routings of one set of instances.
    best: dict[object, PlacementOutcome] = {}
    for row in found.rows:
        best.setdefault((row.batching, row.places), row)

    def placement(row: PlacementOutcome) -> list[str]:
        lines = [f"{model}: {', '.join(mine)}" for model, mine in _by_model(row).items()]
        return lines if row.batching is None else [*lines, _batching(row.batching)]

    return table_of(
        best.values(),
        ("placement", placement),
        ("#sustains", lambda row: factor(row.factor)),
        ("#meets", lambda row: {"meets": "yes", "misses": "no"}.get(row.answer, row.answer)),
        ("#p99 / limit", lambda row: f"{row.near:.2f}" if 0 < row.near < math.inf else ABSENT),
        "queueing=waits",
        "bottleneck=binds",
    )


def _instances(best: PlacementOutcome) -> Table:
    return table_of(
        best.instances,
        "model=model",
        ("instance on", lambda one: ", ".join(one.devices)),
        "planned by=strategy",
        ("#latency", lambda one: time_text(one.resolved.seconds[0][0][0])),
    )


def _devices(found: Placement) -> Table:
    best = found.best
    rows = []
    service = best.service
    for name, use in best.use.items():
        kind, _, short = name.partition(" ")
        if kind == "link" and use < 0.0005:
            continue
        now = None
        if service is not None:
            now = (service.devices if kind == "device" else service.links).get(short)
        held = best.memory_bytes.get(short) if kind == "device" else None
        memory = None if held is None else found.platform.devices[short].memory_bytes
        busy = ABSENT if now is None else percent(now.utilization)
        rows.append((name, percent(use), busy, bytes_text(held), bytes_text(memory)))
    return table(("device or link", "#busy at peak", "#busy", "#memory", "#capacity"), rows)


def _apart(rows: tuple[Interference, ...]) -> Table:
    def others(row: Interference) -> str:
        if not row.together.percentiles or not math.isfinite(row.others_s):
            return ABSENT
        share = row.others_s / row.together.mean_s if row.together.mean_s else math.nan
        return f"{time_text(max(row.others_s, 0.0))}, {percent(max(share, 0.0))}"

    return table_of(
        rows,
        "stream=stream",
        ("#p99\nalone", lambda row: _p99(row.alone)),
        ("#p99\nshared", lambda row: _p99(row.together)),
        ("#mean\nalone", lambda row: _mean(row.alone)),
        ("#mean\nshared", lambda row: _mean(row.together)),
        ("#waiting\nfor others", others),
    )


def _p99(stream: StreamService) -> str:
    if not stream.requests:
        return "no request"
    return latency_text(stream.p99_s) if stream.percentiles else "overloaded"


def _mean(stream: StreamService) -> str:
    return time_text(stream.mean_s) if stream.percentiles else ABSENT


def place_record(found: Placement) -> dict[str, Any]:
    """Return the record for ``to_json``."""
    workload = found.workload
    first = found.rows[0].instances[0] if found.rows else None
    return {
        "schema": "hetsim-placement/1",
        "problem": None if first is None else problem_record(first.resolved.problem),
        "rate_per_s": found.rate_per_s,
        "seed": workload.seed,
        "arrivals": arrivals_record(workload),
        "objectives": objectives_record(workload.streams),
        **fields(found, "factor bound gap impossible"),
        "verdict": {"say": best_sentence(found)},
        "sought": [_sought_record(one) for one in found.sought],
        "rows": [_row_record(row) for row in found.rows],
        **fields(
            found,
            "apart(stream model alone_p99_s=alone.p99_s together_p99_s=together.p99_s "
            "alone_mean_s=alone.mean_s together_mean_s=together.mean_s others_s)",
        ),
        "service": None
        if not found.rows or found.rows[0].service is None
        else service_record(found.rows[0].service),
    }


def _sought_record(one: BatchingSearch) -> dict[str, Any]:
    batching = one.batching
    return {
        "max_batch_size": 1 if batching is None else batching.max_batch_size,
        "max_queue_delay_us": 0 if batching is None else batching.max_queue_delay_us,
        **fields(
            one,
            "offered factor bound relaxed_bound=relaxed gap proved "
            "refused(model devices strategy why too_slow=slow)",
        ),
    }


def _row_record(row: PlacementOutcome) -> dict[str, Any]:
    return {
        "instances": [
            {
                **fields(one, "model devices strategy"),
                "alone_s": one.resolved.seconds[0][0][0],
            }
            for one in row.instances
        ],
        "max_batch_size": 1 if row.batching is None else row.batching.max_batch_size,
        **fields(row, "waits factor binds utilization_at_factor=use memory_bytes answer"),
        "nearest": row.near if math.isfinite(row.near) else None,
        "requests": 0 if row.service is None else row.service.requests,
    }
