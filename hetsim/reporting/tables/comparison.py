"""Strategies side by side: verdict, table, and intervals by Monte Carlo samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hetsim.analysis.comparison import Comparison, Row
from hetsim.analysis.confidence import Confidence
from hetsim.analysis.next_measurement import LEAST_SHARE, NextMeasurement
from hetsim.analysis.verdict import PlanChoice
from hetsim.core.text import Record, fields, grouped, plain
from hetsim.core.units import format_bytes, format_seconds
from hetsim.problem.record import problem_record
from hetsim.problem.timeline import Timeline
from hetsim.reporting.console import Cell, Heading, bold, pairs, remark, stack, table, table_of
from hetsim.reporting.formatting import (
    ABSENT,
    between,
    bytes_text,
    count,
    fold_rows,
    fold_siblings,
    folded,
    joules,
    name_lines,
    percent,
    ratio,
)
from hetsim.reporting.tables.plan import (
    INTERVAL,
    critical_path,
    deal_text,
    plan_record,
    slower_record,
    timeline_record,
)
from hetsim.reporting.tables.question import named_as_if, question, slower_text, sustained_rows


def comparison_report(comparison: Comparison, *, wide: bool = False) -> RenderableType:
    """Return verdict, table, infeasible strategies, intervals, and header.

    `wide` adds energy, transfers, and one line per device.
    """
    feasible = any(row.feasible for row in comparison.rows)
    notes = [
        remark(row.strategy, deal_text(row.plan))
        for row in comparison.rows
        if row.plan is not None and row.plan.sizes
    ]
    notes += [
        remark(
            row.strategy,
            f"the bottleneck needs {format_seconds(row.bottleneck_s or 0.0)} a request, but "
            "transfers delay it",
        )
        for row in comparison.rows
        if row.lags
    ]
    slower = grouped(
        (slower_text(comparison.problem, row.slower), row.strategy)
        for row in comparison.rows
        if row.slower is not None
    )
    notes += [
        remark(", ".join(names), f"devices slow each other down, {text}")
        for text, names in slower.items()
    ]
    refused = [
        remark(f"{', '.join(folded(names))}: infeasible", reason)
        for reason, names in comparison.refusals.items()
    ]
    sure = comparison.verdict.sure is not None
    return stack(
        bold(verdict(comparison)),
        (wide_table if wide else brief_table)(comparison) if feasible else None,
        notes,
        refused,
        sureness_table(comparison, wide=wide) if sure else None,
        remark("How sure", sureness_text(comparison)) if sure else None,
        comparison_header(comparison),
    )


def row_record(row: Row, busy: Mapping[str, float]) -> Record:
    """Return one strategy of a comparison; `busy` is that of ``Comparison.busy``."""
    return {
        **fields(
            row,
            "strategy feasible reason latency_s speedup_over_best_single speedup_over gap cost_s "
            f"bottleneck_s sure(cost_s{INTERVAL} speedup_over_best_single=speedup{INTERVAL} best "
            "regret_mean_s regret_p90_s regret_mean regret_p90 pays loss_mean loss_p90)",
        ),
        "slower": None if row.plan is None else slower_record(row.plan.problem, row.slower),
        "busy": dict(busy),
        "subgraphs": row.groups,
        "plan": None if row.plan is None else plan_record(row.plan),
        "timeline": None if row.timeline is None else timeline_record(row.timeline),
    }


def comparison_record(comparison: Comparison) -> Record:
    """Return a comparison: the bound, the ceiling on any speed-up, and the rows, best first."""
    return {
        "schema": "hetsim-comparison/1",
        "problem": problem_record(comparison.problem),
        **fields(
            comparison,
            "objective draws draw_seed sustained lower_bound_s=bound_s best_single single_s "
            "speedup_ceiling=ceiling",
        ),
        "copies": None
        if comparison.copies is None
        else {"cost_s": comparison.copies.cost_s, **plan_record(comparison.copies.plan)},
        "verdict": _verdict_record(comparison),
        "rows": [row_record(row, comparison.busy(row)) for row in comparison.rows],
    }


def _verdict_record(comparison: Comparison) -> Record:
    found = comparison.verdict
    choice = "(strategy cost_s devices)"
    return {
        "say": verdict(comparison),
        "sure": None if found.sure is None else sureness_text(comparison),
        **fields(found, f"answer take{choice} tried{choice} over{choice} gain chance"),
    }


def comparison_header(comparison: Comparison) -> Table:
    """Return lower bound, best single device, ceiling on the speed-up, model and platform."""
    rows: list[tuple[str, str]] = []
    unpriced = len(comparison.problem.unpriced)
    if comparison.bound_s is None:
        rows.append(("lower bound", f"none: {count(unpriced, 'node has', 'nodes have')} no price"))
    elif math.isinf(comparison.bound_s):
        rows.append(("lower bound", "none: no device runs some node"))
    else:
        each = " a request" if comparison.objective == "throughput" else ""
        text = f"{format_seconds(comparison.bound_s)}{each}: no plan can be faster"
        rows.append(("lower bound", text))
    if comparison.best_single is None:
        rows.append(("best single", "no device runs the whole model alone"))
    else:
        alone_s = comparison.single_s[comparison.best_single]
        rows.append(("best single", f"{comparison.best_single} alone, {format_seconds(alone_s)}"))
        if comparison.copies is not None:
            used = ", ".join(folded(comparison.copies.plan.devices_used))
            cost_s = format_seconds(comparison.copies.cost_s)
            rows.append(("copies", f"the whole model on each of {used}, {cost_s} a request"))
        if comparison.bound_s is not None:
            gain = f"no plan is more than {ratio(comparison.ceiling)} as fast as the best single"
            rows.append(("ceiling", f"{gain} device"))
    rows += question(comparison.problem)
    if comparison.sustained:
        rows += sustained_rows(comparison.problem)
    return pairs(rows)


def verdict(comparison: Comparison) -> str:
    """Return a sentence or two on whether several devices pay, and which plan to take."""
    found = comparison.verdict
    take, tried = found.take, found.tried
    if take is None:
        return "No strategy found a feasible plan."
    what = f"{_choice(comparison, take)}{_gap(comparison, take)}"
    if found.answer == "no single device":
        return f"Best: {what}. No device runs the whole model alone."
    if found.answer == "nothing split":
        return f"Best: {what}. No strategy that splits was compared."
    if found.answer == "pays":
        head = "Copies pay" if take.copies else "Splitting pays"
        text = _judged(comparison, f"{_gap(comparison, take)}.")
    else:
        head = "Too close to call"
        if found.answer == "does not pay":
            head = "Splitting hardly pays" if found.likely else "Splitting does not pay"
        text = f"take {what}."
        if tried is not None:
            which = "Best" if found.chance is None else "Likeliest"
            kind = "copies" if tried.copies else "split"
            text += f" {which} {kind}: {_judged(comparison, '.')}"
    if found.sure is None and not comparison.problem.certain:
        head = f"By the point estimates alone, {head[0].lower()}{head[1:]}"
    return f"{head}: {text}"


def _cost(comparison: Comparison, one: PlanChoice) -> str:
    each = " a request" if comparison.objective == "throughput" else ""
    return f"{format_seconds(one.cost_s)}{each}"


def _choice(comparison: Comparison, one: PlanChoice, takes: str = ", ") -> str:
    """Plan, its cost and its devices: ``auto, 7.13 ms on cpu, gpu and npu``."""
    text = f"{plan_name(one.strategy)}{takes}{_cost(comparison, one)}"
    if one.strategy.startswith("single:"):
        return text
    *others, last = folded(one.devices)
    used = plain(f"{', '.join(others)} and {last}" if others else last)
    return f"{text} {'with copies ' if one.copies else ''}on {used}"


def _judged(comparison: Comparison, end: str) -> str:
    """Plan on several devices compared to its reference, and the probability to beat it."""
    found = comparison.verdict
    assert found.tried is not None
    assert found.over is not None
    text = f"{_choice(comparison, found.tried, ' takes ')} and is {ratio(found.gain)} as fast as "
    text += f"{plan_name(found.over.strategy)} ({_cost(comparison, found.over)}){end}"
    if found.chance is not None:
        text += f" {_allowing(comparison)}, it is faster in {_samples(found.chance)}."
    return text


def _allowing(comparison: Comparison) -> str:
    return f"Allowing for cost-model error ({comparison.draws} samples)"


def _samples(share: float) -> str:
    # Three digits: a share just below the required one must not be rounded up to it.
    return f"{100 * share:.3g} %"


def _gap(comparison: Comparison, one: PlanChoice) -> str:
    if comparison.problem.unpriced:
        return ", without nodes that have no price"
    if not comparison.bound_s:
        return ""
    gap = percent(one.cost_s / comparison.bound_s - 1.0)
    return ", at the lower bound" if gap == "0 %" else f", optimality gap {gap}"


def names_table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    """Return a plain listing; its last column takes the remaining width."""
    # Columns that may not wrap are cut with dots: `whole` then widens the table.
    *names, last = header
    return table((*(f"|{name}" for name in names), last), rows)


NAME_WIDTH = 12
"""Characters from which a strategy's argument goes on a line of its own, in the wide table."""

BUSY_MOST = 14
"""Maximum number of characters of all devices on one line, in the brief table."""


def brief_table(comparison: Comparison) -> Table:
    """Return one line per strategy, best first; like devices are merged."""
    throughput = comparison.objective == "throughput"
    rows = _distinct(comparison)
    return table(
        (
            Heading("strategy", 10),
            *(["#time a\nrequest"] if throughput else []),
            "#latency",
            "#vs best\nsingle",
            "#gap to\nbound",
            "#sub-\ngraphs",
            *([] if throughput else ["#moved"]),
            "#peak\nmemory",
            Heading("device\nbusy, %", 8),
        ),
        (
            (
                name_lines(name),
                *_figures(comparison, row),
                _busy_lines(_busy(comparison, row, each=name != row.strategy)),
            )
            for name, row in rows
        ),
        style=_best_is_green(comparison, rows),
    )


def _best_is_green(comparison: Comparison, rows: Sequence[tuple[str, Row]]) -> Callable[[int], str]:
    best = next((row for row in comparison.rows if row.feasible), None)
    return lambda number: "green" if rows[number][1] is best else ""


def _distinct(comparison: Comparison) -> list[tuple[str, Row]]:
    """Rows, with those that differ only in the sibling merged: ``single:gpu.0-7``."""
    return fold_rows(
        comparison.rows,
        lambda row: row.strategy,
        lambda row: (tuple(_figures(comparison, row)), tuple(_busy(comparison, row, each=True))),
    )


def _figures(comparison: Comparison, row: Row) -> list[str]:
    timeline = row.timeline
    throughput = comparison.objective == "throughput"
    if timeline is None:
        return ["no plan", *[ABSENT] * 5]
    return [
        *([format_seconds(row.cost_s or 0.0)] if throughput else []),
        format_seconds(timeline.latency_s),
        ratio(row.speedup_over_best_single),
        percent(row.gap, sign=True),
        str(row.groups),
        *([] if throughput else [format_bytes(timeline.transferred_bytes)]),
        bytes_text(max(timeline.peak_memory_bytes.values(), default=None)),
    ]


def _busy(comparison: Comparison, row: Row, *, each: bool) -> list[str]:
    """Devices of the plan with their utilization: ``gpu 91``, ``gpu.0-7 8.8 to 10``.

    `each`: the row stands for several that use one device each.
    """
    if row.timeline is None or row.plan is None:
        return []
    found = []
    busy = comparison.busy(row)
    for name, devices in fold_siblings(row.plan.devices_used):
        run = [busy[device] for device in devices]
        low, high = (percent(of).removesuffix(" %") for of in (min(run), max(run)))
        found.append(f"{'each' if each else name} {low if low == high else f'{low} to {high}'}")
    return found


def wide_table(comparison: Comparison) -> Table:
    """Return one row per strategy, best first; within it one line per device, like ones merged."""
    latency = {"latency": "#latency", "throughput": "#latency,\ns a request"}
    rows = _distinct(comparison)
    return table(
        (
            Heading("strategy", 10),
            latency[comparison.objective],
            "#vs best\nsingle",
            "#gap to\nbound",
            "#sub-\ngraphs",
            "#transfers,\nbytes, %\nof latency",
            "#energy",
            Heading("device", 7),
            "#vs it\nalone",
            "#busy",
            "#peak\nmemory",
        ),
        (_row_cells(comparison, row, name) for name, row in rows),
        style=_best_is_green(comparison, rows),
        lines=True,
    )


def _row_cells(comparison: Comparison, row: Row, name: str) -> list[Cell]:
    problem = comparison.problem
    timeline = row.timeline
    if timeline is None:
        return [name_lines(name, NAME_WIDTH), "no plan", *[ABSENT] * 9]
    path = critical_path(timeline)
    requests = len(timeline.latencies_s)
    busy = comparison.busy(row)
    executed = problem.executed
    devices = fold_rows(
        problem.devices,
        str,
        lambda device: (_looks(row, timeline, busy, device), executed.get(device)),
    )
    names = [named_as_if(name, executed.get(device)) for name, device in devices]
    figures = zip(*(_looks(row, timeline, busy, device) for _, device in devices), strict=True)
    shown = name_lines(name, NAME_WIDTH)
    if name != row.strategy:
        shown.append(f"({row.strategy.partition(':')[2]} here)")
    cost = [format_seconds(row.cost_s or 0.0)] if comparison.objective == "throughput" else []
    return [
        shown,
        [format_seconds(timeline.latency_s), *cost],
        ratio(row.speedup_over_best_single),
        percent(row.gap, sign=True),
        str(row.groups),
        [
            f"{timeline.transfers / requests:.3g}",
            format_bytes(round(timeline.transferred_bytes / requests)),
            percent(path["transfer_share"] if path is not None else None),
        ],
        joules(timeline.energy_j / requests) if any((*problem.idle_w, *problem.busy_w)) else ABSENT,
        names,
        *figures,
    ]


def _looks(
    row: Row, timeline: Timeline, busy: Mapping[str, float], device: str
) -> tuple[str, str, str]:
    return (
        ratio(row.speedup_over.get(device)),
        percent(busy.get(device)),
        bytes_text(timeline.peak_memory_bytes.get(device)),
    )


def _busy_lines(busy: list[str]) -> list[str]:
    together = ", ".join(busy) or ABSENT
    return [together] if len(together) <= BUSY_MOST else busy


def sureness_table(comparison: Comparison, *, wide: bool = False) -> Table:
    """Return one line per row with a plan, in the order of the comparison; like devices are merged.

    `wide` adds the regret in seconds, the share of samples in which the row is no slower than the
    best device alone, and its relative loss against that.
    """
    counted = "latency" if comparison.objective == "latency" else "time a request"

    def cost(sure: Confidence) -> str:
        return between(format_seconds(sure.cost_s.low), format_seconds(sure.cost_s.high))

    def speedup(sure: Confidence) -> str:
        if sure.speedup is None:
            return ABSENT
        ends = (ratio(one).removesuffix("x") for one in (sure.speedup.low, sure.speedup.high))
        return f"{between(*ends)}x"

    columns: list[tuple[str, Callable[[Confidence], str]]] = [
        (f"#{counted},\n80 % interval", cost),
        ("#vs best\nsingle", speedup),
        ("#fastest\nin, %", lambda sure: percent(sure.best).removesuffix(" %")),
        ("#mean\nregret", lambda sure: percent(sure.regret_mean, sign=True)),
        ("#P90\nregret", lambda sure: percent(sure.regret_p90, sign=True)),
    ]
    if wide:
        columns += [
            ("#mean\nregret", lambda sure: format_seconds(sure.regret_mean_s)),
            ("#P90\nregret", lambda sure: format_seconds(sure.regret_p90_s)),
            ("#pays\nin, %", lambda sure: percent(sure.pays).removesuffix(" %")),
            ("#mean\nloss", lambda sure: percent(sure.loss_mean, sign=True)),
            ("#P90\nloss", lambda sure: percent(sure.loss_p90, sign=True)),
        ]
    rows = [(row.strategy, row.sure) for row in comparison.rows if row.sure is not None]
    alike = fold_rows(rows, lambda row: row[0], lambda row: tuple(of(row[1]) for _, of in columns))
    return table_of(
        ((name, sure) for name, (_, sure) in alike),
        (Heading("strategy", 10), lambda row: name_lines(row[0])),
        *((heading, lambda row, of=of: of(row[1])) for heading, of in columns),
    )


def sureness_text(comparison: Comparison) -> str:
    """Return how often the chosen plan is fastest, and its regret."""
    found = comparison.verdict
    assert found.take is not None
    assert found.sure is not None
    told = f"{_allowing(comparison)}, {plan_name(found.take.strategy)} is fastest in "
    told += f"{_samples(found.sure.best)}. "
    if found.sure.regret_mean == 0:
        told += "No other plan is faster in any sample."
    else:
        told += f"On average it is {percent(found.sure.regret_mean)} slower than the best choice; "
        told += f"in the worst 10 %, over {percent(found.sure.regret_p90)}."
    tried, over = found.tried, found.over
    if tried is None or over is None or len(over.devices) > 1:
        return told
    for row in comparison.rows:
        if row.strategy == tried.strategy and row.sure is not None and row.sure.loss_mean:
            told += f" The expected loss of {plan_name(tried.strategy)} against "
            told += f"{plan_name(over.strategy)} is {percent(row.sure.loss_mean)}."
    return told


def plan_name(strategy: str) -> str:
    """Return a strategy as text; ``npu alone`` for ``single:npu``."""
    kind, _, device = strategy.partition(":")
    return plain(f"{device} alone" if kind == "single" and device else strategy)


def next_measurement_text(found: NextMeasurement) -> Text:
    """Return the sentence on the measurement that would most help to choose between two plans."""
    now = (
        f"The choice between {found.taken} and {found.other} is wrong with a probability of "
        f"{percent(found.wrong)}"
    )
    if found.wrong - found.wrong_after < LEAST_SHARE:
        return Text(f"{now}; no single measurement reduces that by 1 point.")
    what = "this model" if found.model_itself else "a network that it runs as a whole"
    return Text(
        f"{now}. Measure {what} on {found.device} next: this is expected to reduce it to "
        f"{percent(found.wrong_after)}."
    )
