"""Platforms compared: the fastest for a model, its interval, price and power."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hetsim.analysis.platforms import PlatformComparison, PlatformRow
from hetsim.core.text import Record, fields, grouped, plain
from hetsim.core.units import format_seconds, significant, three_digits
from hetsim.hardware.price import Offer
from hetsim.problem.record import weakest_of
from hetsim.reporting.console import Heading, bold, pairs, remark, stack, table_of
from hetsim.reporting.formatting import (
    ABSENT,
    between,
    count,
    folded,
    joules,
    more_text,
    percent,
    ratio,
    time_text,
)
from hetsim.reporting.tables.comparison import plan_name
from hetsim.reporting.tables.question import shape_rows, unpriced_rows

NEAR = 0.1
"""Share above the fastest within which the cheapest is named."""

ALONE_SHOWN = 10
"""Maximum number of single devices listed next to platforms; `wide` lists all."""

LEAST = 0.1
"""Smallest lower end of an interval that is shown in the unit of the upper one."""

NAMED = 3
"""Maximum number of platforms that a sentence names."""

SHORT = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
"""Precisions as a narrow column names them."""


def platforms_report(found: PlatformComparison, *, wide: bool = False) -> RenderableType:
    """Return the verdict, platforms and devices alone best first, failures, and the question.

    `wide` lists all devices alone, and adds strategy, energy and the least certain figure.
    """
    whole = [row for row in found.feasible if not row.alone]
    lone = [row for row in found.feasible if row.alone]
    shown = lone if wide or not whole else lone[:ALONE_SHOWN]
    left = lone[len(shown) :]
    refused = grouped((row.reason, row.name) for row in found.rows if row.taken is None)
    more = ""
    if left:
        slowest = time_text(left[-1].cost_s)
        more = f"{count(len(left), 'slower device')} up to {slowest}: add --wide to list all."
    return stack(
        [
            bold(platforms_verdict(found)),
            *map(Text, filter(None, (platforms_sure(found), platforms_beside(found)))),
        ],
        _table(found, "board or machine", whole, wide=wide),
        _table(found, "device alone", shown, wide=wide),
        [Text(more)] if more else None,
        [
            remark(", ".join(names), f"cannot run the model: {reason}")
            for reason, names in refused.items()
        ],
        pairs(_header(found)),
    )


def platforms_verdict(found: PlatformComparison) -> str:
    """Return a sentence on the fastest platform."""
    best = found.best
    if best is None:
        return f"None of {count(len(found.rows), 'platform')} runs the model."
    kinds = {row.alone for row in found.peers}
    among = [row for row in found.rows if row.alone in kinds]
    which = "platforms"
    if len(kinds) == 1:
        which = "devices alone" if best.alone else "boards and machines"
    first = f"Of {len(among)} {which}, {best.name} is fastest: "
    if len(among) == 1:
        first = f"{best.name}: "
    within = "" if best.interval is None else f" (80 %: {_interval(best)})"
    return plain(f"{first}{_cost(found, best)}{within} on {_used(best)}.")


def platforms_sure(found: PlatformComparison) -> str:
    """Return the share of the samples in which the best is fastest; empty without samples."""
    best = found.best
    if best is None or best.fastest is None or len(found.peers) == 1:
        return ""
    share = percent(best.fastest)
    return f"Allowing for cost-model error ({found.samples} samples), it is fastest in {share}."


def platforms_beside(found: PlatformComparison) -> str:
    """Return the sentences on the cheapest platform, and on devices without host and links."""
    best, peers = found.best, {id(row) for row in found.peers}
    if best is None:
        return ""
    told = _cheapest(found)
    if best.alone:
        told.append("Hosts and links of devices alone are not counted.")
    faster = [row for row in found.feasible if id(row) not in peers
              and (row.cost_s or 0.0) < (best.cost_s or 0.0)]  # fmt: skip
    if faster:
        first = more_text(f"{faster[0].name} ({_cost(found, faster[0])})", len(faster) - 1)
        told.append(f"Faster as a device alone, host and links not counted: {first}.")
    return plain(" ".join(told))


def _cheapest(found: PlatformComparison) -> list[str]:
    """Sentences on the cheapest peers, near the best and of all, to buy and to rent."""
    near: list[str] = []
    of_all: list[str] = []
    for rented, do in ((False, "buy"), (True, "rent")):
        least = found.cheapest(rented=rented)
        for row, told in ((found.cheapest(rented=rented, within=NEAR), near), (least, of_all)):
            if row is not None and (told is of_all or row is not least):
                price = price_text(row.offer(rented=rented))
                told.append(f"{row.name} ({price}, {_cost(found, row)}) to {do}")
    parts = [f"cheapest within {percent(NEAR)}: {', '.join(near)}"] if near else []
    parts += [f"cheapest{' of all' if near else ''}: {', '.join(of_all)}"] if of_all else []
    if not parts:
        return []
    text = "; ".join(parts)
    if any(not row.offers for row in found.peers):
        return [f"By known prices, {text}."]
    return [f"{text[0].upper()}{text[1:]}."]


def _cost(found: PlatformComparison, row: PlatformRow) -> str:
    each = " a request" if found.objective == "throughput" else ""
    return f"{time_text(row.cost_s)}{each}"


def _interval(row: PlatformRow) -> str:
    """Interval with both ends in one unit, if the lower one has two digits in it."""
    if row.interval is None:
        return ABSENT
    low, high = format_seconds(row.interval.low), format_seconds(row.interval.high)
    number, _, unit = high.partition(" ")
    if row.interval.high and row.interval.low / row.interval.high * float(number) >= LEAST:
        low = f"{three_digits(row.interval.low / row.interval.high * float(number))} {unit}"
    return between(low, high)


def _used(row: PlatformRow) -> str:
    """Devices of a plan in a sentence: ``npu alone in float16``, ``cpu and npu with heft``."""
    assert row.taken is not None
    used = [f"{name} in {kind}" for kind, name in _by_precision(row)]
    if len(row.devices) == 1:
        name, _, kind = used[0].partition(" in ")
        return f"{name} alone in {kind}"
    text = f"{' and '.join(used)} with {row.taken.strategy}"
    if row.speedup is None:
        return f"{text}; no device runs the whole model"
    return f"{text}, {ratio(row.speedup)} as fast as {row.comparison.best_single} alone"


def _by_precision(row: PlatformRow) -> list[tuple[str, str]]:
    """Precisions, each with the devices of the plan that compute in it."""
    found = grouped((kind, name) for name, kind in row.precisions.items())
    return [(kind, ", ".join(folded(names))) for kind, names in found.items()]


def price_text(offer: Offer | None) -> str:
    """Return ``$249``, ``$0.53/h``, or ``$2,198+`` of its devices; a dash without an offer."""
    if offer is None:
        return ABSENT
    if offer.usd_per_hour is not None:
        digits = 3 if offer.usd_per_hour >= 1 else 2
        return f"${offer.usd_per_hour:.{digits}g}/h"
    return f"${offer.usd or 0.0:,.0f}{'+' * (offer.kind == 'parts')}"


def _table(
    found: PlatformComparison, what: str, rows: Sequence[PlatformRow], *, wide: bool
) -> Table:
    sampled = any(row.interval is not None for row in rows)
    peers = {id(row) for row in found.peers}
    ranked = sampled and len(peers) > 1 and any(id(row) in peers for row in rows)
    several = wide and any(len(row.platform.devices) > 1 for row in rows)

    def runs_on(row: PlatformRow) -> list[str]:
        used = [f"{names} {SHORT.get(kind, kind)}" for kind, names in _by_precision(row)]
        return used if several else [*used, *_gain(row)]

    def weakest(row: PlatformRow) -> str:
        problem = row.comparison.problem
        return weakest_of(problem.evidence, problem.link_evidence)

    return table_of(
        rows,
        f"|{what}=name",
        ("#time a\nrequest" if found.objective == "throughput" else "#latency", "cost_s"),
        sampled and ("#80 % of\nsamples", lambda row: _interval(row).replace(" to ", "-")),
        ranked and ("#wins\n%", lambda row: percent(row.fastest).removesuffix(" %")),
        (Heading("runs on", 10), runs_on),
        several and (Heading("best\nsingle", 7), _single),
        ("#price", lambda row: [price_text(one) for one in row.offers] or ABSENT),
        ("#busy\nW", lambda row: f"{significant(row.busy_w, 3):.6g}" if row.busy_w else ABSENT),
        wide and ("strategy", lambda row: plan_name(row.taken.strategy)),
        wide
        and ("#energy a\nrequest", lambda row: joules(row.energy_j) if row.energy_j else ABSENT),
        wide and ("least certain\nfigure", weakest),
        style=lambda at: "" if at else "green",
    )


def _single(row: PlatformRow) -> list[str]:
    """Best single device; for another plan, its time and the speed-up over it."""
    single = row.comparison.best_single
    if single is None:
        return [ABSENT]
    if row.devices == (single,):
        return [single]
    return [single, format_seconds(row.comparison.single_s[single]), ratio(row.speedup)]


def _gain(row: PlatformRow) -> list[str]:
    """Speed-up of a split plan over the best single device."""
    single = row.comparison.best_single
    split = single is not None and len(row.devices) > 1
    return [f"{ratio(row.speedup)} {single} alone"] if split else []


def _header(found: PlatformComparison) -> list[tuple[str, str]]:
    model, rows = found.model, found.rows
    bound = "".join(f", {name}={size}" for name, size in sorted(model.dims.items()))
    lines = [("model", f"{model.name} ({model.source}), "
              f"{count(len(model.graph.nodes), 'node')}{bound}"), *shape_rows(model)]  # fmt: skip
    searched = "" if "auto" in found.strategies else "; --strategy auto searches longer"
    lines.append(("tried", f"{', '.join(found.strategies)}{searched}"))
    if any(row.alone for row in rows):
        lines.append(("alone", "a single device; its host and its links are not counted"))
    if len(found.peers) > 1 and any(row.fastest is not None for row in rows):
        lines.append(("wins", f"share of {found.samples} Monte Carlo samples in which none of "
                      f"the {len(found.peers)} is faster"))  # fmt: skip
    lines.append(("precision", "that each device computes most of the model in; --execute int8 or "
                  "float16: all devices that have it"))  # fmt: skip
    as_if = _named(
        f"{row.name} ({', '.join(dict.fromkeys(executed.values()))})"
        for row in rows
        if (executed := row.comparison.problem.executed)
    )
    if as_if:
        lines.append(("as if", f"priced in another precision than the model's: {as_if}"))
    lines += _hints(found)
    unknown = sum(not row.offers for row in rows)
    told = ["US dollars, to buy or an hour of rent (/h)"]
    if any(offer.kind == "parts" for row in rows for offer in row.offers):
        told.append("+: the sum of its devices' prices")
    if unknown:
        told.append(f"no price is known of {unknown} of {len(rows)}")
    lines.append(("price", "; ".join(told)))
    lines.append(("busy W", "power of all devices busy, by their datasheets, within the limit of "
                  "the board"))  # fmt: skip
    if rows:
        lines += unpriced_rows(rows[0].comparison.problem)
    return [(label, plain(text)) for label, text in lines]


def _hints(found: PlatformComparison) -> list[tuple[str, str]]:
    """Lines on devices that support no node of the model as given, but would in int8."""
    by_device = grouped((name, row.name) for row in found.rows for name in row.integer_only)
    return [
        ("int8", f"{name} of {_named(rows)} takes int8 only: add --execute {name}=int8")
        for name, rows in by_device.items()
    ]


def _named(names: Iterable[str]) -> str:
    listed = list(names)
    return more_text(", ".join(listed[:NAMED]), len(listed) - NAMED)


def platforms_record(found: PlatformComparison) -> Record:
    """Return the comparison as a record: rows best first, then those without a plan."""
    best = found.best
    return {
        "schema": "hetsim-platforms/1",
        "model": fields(found.model, "name source sha256 canonical dims shapes"),
        **fields(found, "objective strategies samples seed"),
        "verdict": {
            "say": platforms_verdict(found),
            "sure": platforms_sure(found) or None,
            "beside": platforms_beside(found) or None,
            "fastest": None if best is None else best.name,
            "takes_s": None if best is None else best.cost_s,
            **{
                f"cheapest_to_{do}{near}": None if row is None else row.name
                for rented, do in ((False, "buy"), (True, "rent"))
                for near, within in (("", None), ("_near", NEAR))
                for row in [found.cheapest(rented=rented, within=within)]
            },
        },
        "rows": [_row_record(row) for row in found.rows],
    }


def _row_record(row: PlatformRow) -> Record:
    problem, comparison = row.comparison.problem, row.comparison
    return {
        **fields(row, "name alone"),
        "feasible": row.taken is not None,
        **fields(
            row,
            "reason latency_s=taken.latency_s cost_s interval_s=interval(p10=low p90=high) "
            "fastest_share=fastest strategy=taken.strategy devices precisions "
            "best_single=comparison.best_single",
        ),
        "best_single_s": comparison.single_s.get(comparison.best_single or ""),
        **fields(row, "speedup_over_best_single=speedup offers busy_w energy_j integer_only"),
        "weakest": weakest_of(problem.evidence, problem.link_evidence),
        **fields(row, "platform(source sha256 runtime)"),
        "execute": problem.executed,
    }
