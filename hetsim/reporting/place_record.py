"""Where models are placed, as a record."""

from __future__ import annotations

import math
from typing import Any

from hetsim.placing.answer import Apart, Placed, Placement, Sought
from hetsim.problem.record import problem_record
from hetsim.reporting.service_record import service_record
from hetsim.reporting.tables.place import best_sentence
from hetsim.reporting.tables.workload import objectives_record


def place_record(found: Placement) -> dict[str, Any]:
    """Return the record for ``to_json``."""
    workload = found.workload
    first = found.rows[0].instances[0] if found.rows else None
    return {
        "schema": "hetsim-placement/1",
        "problem": None if first is None else problem_record(first.resolved.problem),
        "rate_per_s": found.rate_per_s,
        "seed": workload.seed,
        "objectives": objectives_record(workload.streams),
        "factor": found.factor,
        "bound": found.bound,
        "gap": found.gap,
        "impossible": found.impossible,
        "verdict": {"say": best_sentence(found)},
        "sought": [_sought_record(one) for one in found.sought],
        "rows": [_row_record(row) for row in found.rows],
        "apart": [_apart_record(row) for row in found.apart],
        "service": None
        if not found.rows or found.rows[0].service is None
        else service_record(found.rows[0].service),
    }


def _sought_record(one: Sought) -> dict[str, Any]:
    batching = one.batching
    return {
        "max_batch_size": 1 if batching is None else batching.max_batch_size,
        "max_queue_delay_us": 0 if batching is None else batching.max_queue_delay_us,
        "offered": one.offered,
        "factor": one.factor,
        "bound": one.bound,
        "relaxed_bound": one.relaxed,
        "gap": one.gap,
        "proved": one.proved,
        "refused": [
            {
                "model": row.model,
                "devices": list(row.devices),
                "strategy": row.strategy,
                "why": row.why,
                "too_slow": row.slow,
            }
            for row in one.refused
        ],
    }


def _row_record(row: Placed) -> dict[str, Any]:
    return {
        "instances": [
            {
                "model": one.model,
                "devices": list(one.devices),
                "strategy": one.strategy,
                "alone_s": one.resolved.seconds[0][0][0],
            }
            for one in row.instances
        ],
        "max_batch_size": 1 if row.batching is None else row.batching.max_batch_size,
        "waits": row.waits,
        "factor": row.factor,
        "binds": row.binds,
        "utilization_at_factor": dict(row.use),
        "memory_bytes": dict(row.memory_bytes),
        "answer": row.answer,
        "nearest": row.near if math.isfinite(row.near) else None,
        "requests": 0 if row.service is None else row.service.requests,
    }


def _apart_record(row: Apart) -> dict[str, Any]:
    return {
        "stream": row.stream,
        "model": row.model,
        "alone_p99_s": row.alone.p99_s,
        "together_p99_s": row.together.p99_s,
        "alone_mean_s": row.alone.mean_s,
        "together_mean_s": row.together.mean_s,
        "others_s": row.others_s,
    }
