"""Sustained rates of a platform: one row a deployment, and what limits it."""

from __future__ import annotations

import math
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hetsim.core.text import fields, plain
from hetsim.core.units import format_seconds
from hetsim.problem.record import problem_record
from hetsim.provisioning.rates.answer import Capacity, Carried, Without, nearest_miss
from hetsim.reporting.tables.question import question
from hetsim.reporting.tables.redundancy import choices_record, choices_text
from hetsim.reporting.tables.service_record import served_text, service_record
from hetsim.reporting.tables.workload import objectives_record
from hetsim.reporting.words.console import pairs, stack, table_of
from hetsim.reporting.words.text import ABSENT, between, big, count, percent
from hetsim.simulation.service.service import Service

SHOWN = 12
"""Losses that are listed."""


def capacity_report(found: Capacity) -> RenderableType:
    """Return header, a row a deployment, what limits each, and the best."""
    rows: list[tuple[str, str]] = []
    for one in found.best.resolved:
        rows += [row for row in question(one.problem) if row not in rows]
    rows.append(("objectives", _asked(found)))
    if found.bound_per_s is not None:
        rows.append(("bound", f"no deployment sustains {rate(found.bound_per_s)} or more"))
    reasons: dict[str, list[str]] = {}
    for row in found.rows:
        if row.one_span is not None:
            reasons.setdefault(row.one_span, []).append(row.name)
    beside = sized_by_ceiling(found.best)
    between = [
        Text(f"{plain('; '.join(names))}: rates between the simulated ones may miss: {plain(why)}")
        for why, names in reasons.items()
    ]
    return stack(
        pairs(rows),
        _table(found),
        _losses(found.best),
        [Text(f"{plain(row.name)}: {plain(row.ends)}.") for row in found.rows],
        between,
        [Text(best_sentence(found), style="bold"), *([Text(beside)] if beside else [])],
    )


def rate(per_s: float) -> str:
    """Return requests a second as tables have them."""
    return "any" if math.isinf(per_s) else f"{per_s:.4g}/s"


def best_sentence(found: Capacity) -> str:
    """Return the rate that the best deployment sustains, in a sentence."""
    best = found.best
    if best.refused is not None:
        return "No deployment can serve the requests."
    if not best.rates:
        proof = f": {found.impossible}" if found.impossible else ""
        if best.answer == "misses":
            return f"No rate meets the objectives{proof}."
        return f"It is undecided whether any rate meets the objectives{proof}."
    text = f"Best: {plain(best.name)} sustains {'exactly ' * (best.factor is not None)}"
    text += rate(best.highest_per_s)
    if best.utilization is not None and not math.isinf(best.utilization):
        text += f", {percent(best.utilization)} of the peak of {plain(best.ceiling_binds)}"
    if found.bound_per_s is not None and not math.isinf(best.highest_per_s):
        text += f" and {percent(best.highest_per_s / found.bound_per_s)} of the bound"
    return f"{text}."


def sized_by_ceiling(best: Carried) -> str:
    """Return the rate to plan for, where the peak is higher."""
    if best.utilization is None or not 0 < best.utilization < 1:
        return ""
    planned, peak = rate(best.highest_per_s), rate(best.ceiling_per_s)
    return f"Plan for {planned} per replica, not for the {peak} peak."


def _losses(row: Carried) -> Table:
    """Sustained rate of the best deployment by lost devices, the lowest first."""

    def bottleneck(one: Without) -> str:
        refused = one.carried.refused
        return _bottleneck(one.carried) if refused is None else f"cannot be served: {refused}"

    return table_of(
        row.losses[:SHOWN],
        (f"{row.name} without", lambda one: choices_text(one.sets)),
        ("#sustains", lambda one: _meets(one.carried)),
        ("#misses\nfrom", lambda one: _misses(one.carried)),
        ("bottleneck", bottleneck),
    )


def _asked(found: Capacity) -> str:
    workload = found.workload
    parts = []
    for stream in workload.streams:
        if not stream.slos:
            continue
        kind = "a share" if stream.arrivals is None else stream.arrivals.kind
        name = f"{plain(stream.name)}: " if len(workload.streams) > 1 else ""
        parts.append(f"{name}{' and '.join(map(str, stream.slos))}, {kind} arrivals")
    told = sum(row.requests for row in found.rows)
    most = max((len(one.lost) for row in found.rows for one in row.losses), default=0)
    if most:
        parts.append(f"with any {count(most, 'device') if most > 1 else 'one device'} lost")
    return f"{'; '.join(parts)}; seed {workload.seed}, {big(told)} requests simulated"


def _table(found: Capacity) -> Table:
    return table_of(
        found.rows,
        "strategy=name",
        ("#sustains", _meets),
        ("#misses\nfrom", _misses),
        ("#peak", lambda row: ABSENT if row.refused is not None else rate(row.ceiling_per_s)),
        "#of\npeak=utilization",
        ("latency", lambda row: _there(row.at)),
        ("bottleneck", _bottleneck),
    )


def _meets(row: Carried) -> list[str]:
    if row.refused is not None:
        return ["no plan"]
    if not row.rates:
        return ["none" if row.answer == "misses" else "undecided"]
    lines = []
    for one in row.rates:
        begins = "up to " if one.low_per_s == 0 else f"{one.low_per_s:.4g} to "
        exact = row.factor is not None
        lines.append(begins + (f"{one.high_per_s:.9g}/s" if exact else rate(one.high_per_s)))
    return lines


def _misses(row: Carried) -> list[str]:
    if row.factor is not None:
        return ["any above"]
    above = [one.misses_above_per_s for one in row.rates]
    return [ABSENT if one is None else rate(one) for one in above] or [ABSENT]


def _there(at: Service | None) -> list[str]:
    nearest = None if at is None else nearest_miss(at)
    if nearest is None:
        return [ABSENT]
    slo, one = nearest
    interval = between(format_seconds(one.low_s), format_seconds(one.high_s))
    return [
        f"p{slo.percentile:g} {format_seconds(one.estimate_s)}",
        interval if one.enough else "too few requests",
    ]


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
        "served": [served_text(one) for one in row.resolved],
        "how": row.how,
        "answer": row.answer,
        "proved": row.proved,
        "one_span": row.one_span is None,
        "why_not_one_span": row.one_span,
        **_span_record(row),
        **fields(row, "sample_per_s sample ceiling_per_s ceiling_binds utilization ends requests"),
        "at": None if row.at is None else service_record(row.at),
        "refused": None if row.refused is None else str(row.refused),
        "losses": [
            {
                "without": list(one.lost),
                "stands_for": choices_record(one.sets),
                "answer": one.carried.answer,
                "how": one.carried.how,
                **_span_record(one.carried),
                "refused": None if one.carried.refused is None else str(one.carried.refused),
            }
            for one in row.losses
        ],
    }


def _span_record(row: Carried) -> dict[str, Any]:
    """The rates that meet; of a trace, exactly."""
    factor = row.factor
    exact = None if factor is None else [str(factor.numerator), str(factor.denominator)]
    return {
        "highest_per_s": row.highest_per_s,
        "any_rate": math.isinf(row.highest_per_s),
        "rates": [fields(one) for one in row.rates],
        "exact_factor": exact,
    }


def _bottleneck(row: Carried) -> str:
    return ABSENT if row.at is None else row.at.bottleneck
