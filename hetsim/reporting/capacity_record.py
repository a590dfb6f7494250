"""Which rates a platform carries, as a record."""

from __future__ import annotations

import math
from typing import Any

from hetsim.problem.record import problem_record
from hetsim.reporting.service_record import service_record
from hetsim.reporting.tables.capacity import best_sentence, served_as
from hetsim.reporting.tables.surviving import choices_record
from hetsim.reporting.tables.workload import objectives_record
from hetsim.sizing.answer import Capacity, Carried


def capacity_record(found: Capacity) -> dict[str, Any]:
    """Return the record for ``to_json``."""
    workload = found.workload
    resolved = found.best.resolved
    return {
        "schema": "hetsim-capacity/1",
        "verdict": {"say": best_sentence(found)},
        "problem": problem_record(resolved[0].problem) if resolved else None,
        "rate_per_s": found.rate_per_s,
        "seed": workload.seed,
        "objectives": objectives_record(workload.streams),
        "bound_per_s": found.bound_per_s,
        "impossible": found.impossible,
        "rows": [_row_record(one) for one in found.rows],
    }


def _row_record(row: Carried) -> dict[str, Any]:
    return {
        "name": row.name,
        "served": served_as(row),
        "how": row.how,
        "answer": row.answer,
        "proved": row.proved,
        "one_span": row.one_span is None,
        "why_not_one_span": row.one_span,
        "highest_per_s": row.highest_per_s,
        "any_rate": math.isinf(row.highest_per_s),
        "rates": _rates_record(row),
        "exact_factor": _exact(row),
        "sample_per_s": row.sample_per_s,
        "sample": row.sample,
        "ceiling_per_s": row.ceiling_per_s,
        "ceiling_binds": row.ceiling_binds,
        "utilization": row.utilization,
        "ends": row.ends,
        "requests": row.requests,
        "at": None if row.at is None else service_record(row.at),
        "refused": None if row.refused is None else str(row.refused),
        "losses": [
            {
                "without": list(one.lost),
                "stands_for": choices_record(one.sets),
                "answer": one.carried.answer,
                "how": one.carried.how,
                "highest_per_s": one.carried.highest_per_s,
                "any_rate": math.isinf(one.carried.highest_per_s),
                "rates": _rates_record(one.carried),
                "exact_factor": _exact(one.carried),
                "refused": None if one.carried.refused is None else str(one.carried.refused),
            }
            for one in row.losses
        ],
    }


def _rates_record(row: Carried) -> list[dict[str, Any]]:
    return [
        {
            "low_per_s": one.low_per_s,
            "high_per_s": one.high_per_s,
            "misses_below_per_s": one.misses_below_per_s,
            "misses_above_per_s": one.misses_above_per_s,
        }
        for one in row.rates
    ]


def _exact(row: Carried) -> list[str] | None:
    if row.factor is None:
        return None
    return [str(row.factor.numerator), str(row.factor.denominator)]
