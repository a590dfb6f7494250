"""The main report: strategies side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hetsim.comparison import Comparison
from hetsim.problem import Problem
from hetsim.reporting.alike import folded
from hetsim.reporting.comparison_table import brief_table, wide_table
from hetsim.reporting.console import cell, new_table, pairs
from hetsim.reporting.text import count, listed, percent, ratio
from hetsim.text import plain, tally
from hetsim.units import format_seconds

UNPRICED_SHOWN = 3
"""Op types that are not priced, and reasons why, that are listed; the JSON has every node."""

PAYS = 1.05
"""Speed-up over the best single device below which splitting is called not worth it."""


def comparison_report(comparison: Comparison, *, wide: bool = False) -> RenderableType:
    """Return what was asked, the bound, the table, what is not feasible, and the verdict.

    `wide` adds energy, what is transferred, and a line a device.
    """
    parts: list[RenderableType] = [comparison_header(comparison), Text("")]
    if any(row.feasible for row in comparison.rows):
        parts += [(wide_table if wide else brief_table)(comparison), Text("")]
    parts += [
        Text.assemble((plain(f"{', '.join(folded(names))}: infeasible: "), "bold"), plain(reason))
        for reason, names in refusals(comparison).items()
    ]
    parts.append(Text(verdict(comparison), style="bold"))
    return Stack(*parts)


def refusals(comparison: Comparison) -> dict[str, list[str]]:
    """Return the strategies without a plan by the reason for it, in the order of the rows."""
    found: dict[str, list[str]] = {}
    for row in comparison.rows:
        if not row.feasible:
            found.setdefault(row.reason or "", []).append(row.strategy)
    return found


def question(problem: Problem) -> list[tuple[str, str]]:
    """Return the lines that say which model is asked about, on which platform."""
    model, platform = problem.model, problem.platform
    rows: list[tuple[str, str]] = []
    if model is None:
        rows.append(("problem", f"{problem.name}, {count(problem.n, 'node')}"))
    else:
        dims = ", ".join(f"{name}={size}" for name, size in sorted(model.dims.items()))
        bound = f", {dims}" if dims else ""
        rows.append(("model", f"{model.name} ({model.source}), {count(problem.n, 'node')}{bound}"))
    host = "" if problem.host is None else f", host {problem.devices[problem.host]}"
    links = {"fifo": "links first come, first served", "none": "links without contention"}
    rows.append(
        (
            "platform",
            f"{platform.name if platform is not None else 'given as arrays'}: "
            f"{', '.join(folded(problem.devices))}{host}; {links[problem.contention]}",
        )
    )
    return [*rows, *unpriced_rows(problem)]


def unpriced_rows(problem: Problem) -> list[tuple[str, str]]:
    """Return the line that names what is not priced, and why; none where all is."""
    if not problem.unpriced:
        return []
    nodes = listed(tally(problem.op_types[node] for node in problem.unpriced), limit=UNPRICED_SHOWN)
    reasons = tally(problem.unpriced.values())
    whys = "; ".join(plain(why) for why in list(reasons)[:UNPRICED_SHOWN])
    more = len(reasons) - UNPRICED_SHOWN
    whys += f"; +{more} more" if more > 0 else ""
    return [("not priced", f"{count(len(problem.unpriced), 'node')} ({nodes}): {whys}")]


def comparison_header(comparison: Comparison) -> Table:
    """Return model, platform, lower bound, and the proven ceiling on any speed-up."""
    rows = question(comparison.problem)
    unpriced = len(comparison.problem.unpriced)
    if comparison.bound_s is None:
        rows.append(("lower bound", f"none: {count(unpriced, 'node is', 'nodes are')} not priced"))
    elif math.isinf(comparison.bound_s):
        rows.append(("lower bound", "none: a node runs on no device"))
    else:
        none = {
            "latency": "no plan can be faster",
            "throughput": "no plan can take less a request",
        }[comparison.objective]
        rows.append(("lower bound", f"{format_seconds(comparison.bound_s)}: {none}"))
    if comparison.best_single is None:
        rows.append(("best single", "no device runs the whole model alone"))
    else:
        alone_s = comparison.single_s[comparison.best_single]
        rows.append(("best single", f"{comparison.best_single} alone, {format_seconds(alone_s)}"))
        if comparison.bound_s is not None:
            gain = "the most that splitting can gain over it"
            rows.append(("ceiling", f"{ratio(comparison.ceiling)}: {gain}"))
    return pairs(rows)


def verdict(comparison: Comparison) -> str:
    """Return in one sentence what the comparison says about splitting."""
    best = comparison.rows[0] if comparison.rows else None
    if best is None or best.cost_s is None or best.plan is None:
        return "No strategy found a feasible plan."
    each = " a request" if comparison.objective == "throughput" else ""
    name = f"{plain(best.strategy)}, {format_seconds(best.cost_s)}{each}"
    above = ", of what is priced" if comparison.problem.unpriced else _above_bound(best.gap)
    single, gain = comparison.best_single, best.speedup_over_best_single
    if single is None or gain is None:
        return f"Best: {name}{above}; no device runs the whole model alone."
    if all(row.strategy.partition(":")[0] == "single" for row in comparison.rows):
        return f"Best: {name}{above}; no strategy that splits was compared."
    alone = f"{plain(single)} alone"
    if gain <= 1.0:
        alone += f", {format_seconds(comparison.single_s[single])}"
        split = "" if len(best.plan.devices_used) < 2 else f"; the best split is {name}"
        return f"Splitting does not pay here: nothing beats {alone}{split}{above}."
    if len(best.plan.devices_used) < 2:
        return f"Splitting does not pay here; best: {name}, {ratio(gain)} over {alone}{above}."
    if gain < PAYS:
        return f"Splitting hardly pays here: {name}, {ratio(gain)} over {alone}{above}."
    return f"Best: {name}, {ratio(gain)} over {alone}{above}."


def _above_bound(gap: float | None) -> str:
    if gap is None:
        return ""
    over = percent(gap)
    return ", at the lower bound" if over == "0 %" else f", {over} above the lower bound"


def names_table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    """Return a plain listing; its last column takes what width is left."""
    table = new_table()
    columns = list(header)
    for index, name in enumerate(columns):
        last = index == len(columns) - 1
        # What may not wrap is cut with dots: `whole` then knows that it must be wider.
        table.add_column(Text(name), overflow="fold" if last else "ellipsis", no_wrap=not last)
    for row in rows:
        table.add_row(*(cell(text) for text in row))
    return table
