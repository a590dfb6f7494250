"""Sustained rates of a platform, objectives with lost devices, and availability."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hetsim.core.text import fields, grouped, plain, records
from hetsim.core.units import format_percentile, format_seconds
from hetsim.problem.record import problem_record
from hetsim.provisioning.rates.answer import (
    Availability,
    Capacity,
    Choice,
    Loss,
    RateWithoutDevices,
    Survived,
    SustainedRate,
    nearest_miss,
)
from hetsim.reporting.console import bold, pairs, stack, table, table_of
from hetsim.reporting.formatting import (
    ABSENT,
    between,
    big,
    count,
    fold_rows,
    folded,
    latency_text,
    percent,
    share_text,
)
from hetsim.reporting.tables.service_record import served_rows, served_text, service_record
from hetsim.reporting.tables.workload import arrivals_record, objectives_record
from hetsim.simulation.service.service import Service

SHOWN = 12
"""Maximum number of losses that are listed."""


def capacity_report(found: Capacity) -> RenderableType:
    """Return a header, one row per deployment, the bottleneck of each, and the best."""
    bound = found.bound_per_s
    rows = [
        *served_rows(found.best.resolved, served=False),
        ("objectives", _asked(found)),
        ("bound", None if bound is None else f"no deployment sustains {rate(bound)} or more"),
    ]
    reasons = grouped((row.one_span, row.name) for row in found.rows if row.one_span is not None)
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
        [bold(best_sentence(found)), *([Text(beside)] if beside else [])],
    )


def rate(per_s: float) -> str:
    """Return requests per second for tables."""
    return "any rate" if math.isinf(per_s) else f"{per_s:.4g}/s"


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
    if best.utilization is not None:
        text += f", {percent(best.utilization)} of the peak of {plain(best.ceiling_binds)}"
    if found.bound_per_s is not None and not math.isinf(best.highest_per_s):
        text += f" and {percent(best.highest_per_s / found.bound_per_s)} of the bound"
    return f"{text}."


def sized_by_ceiling(best: SustainedRate) -> str:
    """Return the rate to plan for, if the peak is higher."""
    if best.utilization is None or not 0 < best.utilization < 1:
        return ""
    planned, peak = rate(best.highest_per_s), rate(best.ceiling_per_s)
    return f"Plan for {planned} per replica, not for the {peak} peak."


def _losses(row: SustainedRate) -> Table:
    """Table of the best deployment's sustained rate by lost devices, the lowest first."""

    def bottleneck(one: RateWithoutDevices) -> str:
        refused = one.sustained.refused
        return _bottleneck(one.sustained) if refused is None else f"cannot be served: {refused}"

    return table_of(
        row.losses[:SHOWN],
        (f"{row.name} without", lambda one: choices_text(one.sets)),
        ("#sustains", lambda one: _meets(one.sustained)),
        ("#misses\nfrom", lambda one: _misses(one.sustained)),
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


def _meets(row: SustainedRate) -> list[str]:
    if row.refused is not None:
        return ["no plan"]
    if not row.rates:
        return ["none" if row.answer == "misses" else "undecided"]
    lines = []
    for one in row.rates:
        up_to = "up to " * math.isfinite(one.high_per_s)
        begins = f"{one.low_per_s:.4g} to " if one.low_per_s else up_to
        exact = row.factor is not None
        lines.append(begins + (f"{one.high_per_s:.9g}/s" if exact else rate(one.high_per_s)))
    return lines


def _misses(row: SustainedRate) -> list[str]:
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
        f"{format_percentile(slo.percentile)} {format_seconds(one.estimate_s)}",
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
        "arrivals": arrivals_record(workload),
        "objectives": objectives_record(workload.streams),
        **fields(found, "bound_per_s impossible"),
        "rows": [_row_record(one) for one in found.rows],
    }


def _row_record(row: SustainedRate) -> dict[str, Any]:
    return {
        "name": row.name,
        "served": [served_text(one) for one in row.resolved],
        **fields(row, "how answer proved"),
        "one_span": row.one_span is None,
        "why_not_one_span": row.one_span,
        **_span_record(row),
        **fields(row, "sample_per_s sample ceiling_per_s ceiling_binds utilization ends requests"),
        "at": None if row.at is None else service_record(row.at),
        **fields(row, "refused"),
        "losses": [
            {
                "without": list(one.lost),
                "stands_for": choices_record(one.sets),
                **fields(one.sustained, "answer how"),
                **_span_record(one.sustained),
                **fields(one.sustained, "refused"),
            }
            for one in row.losses
        ],
    }


def _span_record(row: SustainedRate) -> dict[str, Any]:
    """Rates that meet the objectives; exact for a trace."""
    factor = row.factor
    exact = None if factor is None else [str(factor.numerator), str(factor.denominator)]
    return {
        "highest_per_s": row.highest_per_s,
        "any_rate": math.isinf(row.highest_per_s),
        "rates": records(row.rates),
        "exact_factor": exact,
    }


def _bottleneck(row: SustainedRate) -> str:
    return ABSENT if row.at is None else row.at.bottleneck


CHOICES_SHOWN = 3
"""Maximum number of choices of lost devices in one line."""


def choice_text(choice: Choice) -> str:
    """Return a choice of lost devices such as ``2 of gpu.0-7 and cpu``, or ``none``."""
    parts = [
        plain(", ".join(folded(names)))
        if count == len(names)
        else f"{count} of {plain(', '.join(folded(names)))}"
        for count, names in choice
    ]
    return " and ".join(parts) or "none"


def choices_text(choices: Sequence[Choice]) -> str:
    """Return several choices of lost devices."""
    shown = [choice_text(one) for one in choices[:CHOICES_SHOWN]]
    if len(choices) > CHOICES_SHOWN:
        shown.append(f"{len(choices) - CHOICES_SHOWN} more")
    return "; or ".join(shown)


def surviving_report(found: Survived) -> RenderableType:
    """Return one row per loss, the worst first, notes, and the answer."""
    made = table_of(
        (found.intact, *found.losses[:SHOWN]),
        ("without", lambda one: choices_text(one.sets)),
        "answer=answer",
        ("tightest objective", lambda one: nearest_text(one.service)),
        ("bottleneck", lambda one: ABSENT if one.service is None else one.service.bottleneck),
    )
    left = len(found.losses) - SHOWN
    more = [Text(f"{left} more losses are less severe.")] * (left > 0)
    told = [Text(line) for line in _notes(found)]
    return stack(made, [*more, *told, bold(surviving_sentence(found))])


def nearest_text(service: Service | None) -> str:
    """Return the percentile that is nearest to its limit, or furthest beyond it."""
    if service is None:
        return "cannot be served"
    nearest = nearest_miss(service)
    if nearest is None:
        return service.state
    slo, one = nearest
    limit = format_seconds(slo.latency_s)
    return f"{format_percentile(slo.percentile)} {latency_text(one.estimate_s)} of {limit}"


def _notes(found: Survived) -> list[str]:
    notes = []
    if found.unused:
        names = plain(", ".join(folded(found.unused)))
        notes.append(f"No model runs on {names}: losing one of them changes nothing.")
    for one in found.losses[:SHOWN]:
        if one.anew and one.refused is None:
            models = plain(", ".join(one.anew))
            notes.append(f"Without {choices_text(one.sets)}, {models} is replanned.")
    return [*notes, "A lost device loses its work; its links and the host's data stay."]


def surviving_sentence(found: Survived) -> str:
    """Return the answer, and the worst loss, in one sentence."""
    lost = f"any {'one device' if found.most == 1 else count(found.most, 'device')} lost"
    if found.intact.answer == "misses":
        return f"It misses with all devices: {nearest_text(found.intact.service)}."
    worst = found.worst
    if worst.lost:
        text = f"{worst.answer}, {nearest_text(worst.service)}"
        if worst.refused is not None:
            text = f"it cannot be served: {plain(worst.refused.what)}"
        case = f"worst case without {choices_text(worst.sets)}: {text}"
    else:
        case = f"no loss changes anything: {nearest_text(worst.service)}"
    if found.answer == "meets":
        return f"The objectives hold with {lost}; {case}."
    if found.answer == "undecided":
        return f"It is undecided whether the objectives hold with {lost}; {case}."
    proof = f" ({plain(found.impossible)})" if found.impossible is not None else ""
    return f"The objectives do not hold with {lost}{proof}; {case}."


def surviving_record(found: Survived) -> dict[str, Any]:
    """Return the record for ``to_json``."""
    return {
        **fields(found, "most answer worst=worst.lost impossible unused"),
        "losses": [_loss_record(one) for one in (found.intact, *found.losses)],
    }


def _loss_record(one: Loss) -> dict[str, Any]:
    nearest = None if one.service is None else nearest_miss(one.service)
    return {
        "without": list(one.lost),
        "stands_for": choices_record(one.sets),
        **fields(one, "choices answer"),
        "percentile": None if nearest is None else nearest[0].percentile,
        "latency_s": None if nearest is None else nearest[1].estimate_s,
        "limit_s": None if nearest is None else nearest[0].latency_s,
        **fields(one, "bottleneck=service.bottleneck state=service.state"),
        "requests": 0 if one.service is None else one.service.requests,
        **fields(one, "planned_again=anew refused"),
    }


def choices_record(sets: Sequence[Choice]) -> list[list[dict[str, Any]]]:
    """Return choices of lost devices as a record."""
    return [[{"down": down, "of": list(names)} for down, names in one] for one in sets]


STATES_SHOWN = 12
"""Maximum number of states, and of devices, that are listed."""

HOW = {
    "refused": "cannot be served",
    "not asked": "too rare to simulate",
}


def availability_report(found: Availability) -> RenderableType:
    """Return the states, the likeliest first, the devices, and the answer."""

    def rare(one: Loss) -> str:
        chance = one.chance
        return share_text(chance) if chance > Fraction(1, 2) else f"{100 * float(chance):.3g} %"

    def why(one: Loss) -> str:
        return HOW[one.how] if one.service is None else nearest_text(one.service)

    states = table_of(
        found.states[:STATES_SHOWN],
        ("down", lambda one: choices_text(one.sets)),
        ("#of the time", rare),
        "answer=answer",
        ("tightest objective", why),
    )
    rows = fold_rows(found.devices, lambda one: one.device, lambda one: (one.share, one.source))
    devices = table(
        ("device", "#up", "source"),
        ((name, share_text(one.share), one.source) for name, one in rows[:STATES_SHOWN]),
    )
    left = len(found.states) - STATES_SHOWN
    more = [Text(f"{left} more states are rarer.")] * (left > 0)
    text = "Devices are assumed to fail independently, and each state to last."
    return stack(states, [*more, devices], [Text(text), bold(availability_sentence(found))])


def _digits(minutes: float) -> str:
    return f"{minutes:.0f}" if minutes >= 100 else f"{minutes:.3g}"


def availability_sentence(found: Availability) -> str:
    """Return the availability and whether its target is met, in a sentence."""
    low, high = found.low, found.high
    between = share_text(low)
    least, most = found.minutes_a_month
    lost = _digits(most)
    if low != high:
        between += f" to {share_text(high)}"
        lost = f"{_digits(least)} to {lost}"
    answer = {"meets": "met", "misses": "missed", "undecided": "undecided"}[found.answer]
    proof = f": {plain(found.impossible)}" if found.impossible is not None else ""
    return (
        f"The objectives hold {between} of the time and fail {lost} minutes a month; the target "
        f"of {float(100 * found.target):.12g} % is {answer}{proof}."
    )


def availability_record(found: Availability) -> dict[str, Any]:
    """Return the record for ``to_json``; shares are fractions, as text, and also floats."""
    return {
        "target": _share(found.target),
        **fields(found, "answer"),
        "low": _share(found.low),
        "high": _share(found.high),
        **fields(found, "missed_minutes_a_month=minutes_a_month impossible"),
        "states": [
            {
                "down": list(one.lost),
                "stands_for": choices_record(one.sets),
                "chance": _share(one.chance),
                **fields(one, "answer how planned_again=anew"),
                "p99_s": one.service and [stream.p99_s for stream in one.service.streams],
            }
            for one in found.states
        ],
        "devices": [
            {"device": one.device, "up": _share(one.share), "source": one.source}
            for one in found.devices
        ],
    }


def _share(share: Fraction) -> dict[str, Any]:
    return {"exact": str(share), "share": float(share)}
