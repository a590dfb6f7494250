"""The main report: strategies side by side."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hetsim.analysis.comparison import Comparison, Row
from hetsim.analysis.verdict import Choice
from hetsim.base.text import plain, tally
from hetsim.base.units import format_seconds
from hetsim.plans.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.reporting.tables.comparison_rows import brief_table, wide_table
from hetsim.reporting.tables.measured import measured_rows
from hetsim.reporting.tables.sureness import plan_name, sureness_line, sureness_table
from hetsim.reporting.words.console import cell, new_table, pairs
from hetsim.reporting.words.like_devices import folded
from hetsim.reporting.words.plan_figures import as_if_rows, shape_rows, taken_off_rows
from hetsim.reporting.words.provenance import figures_rows
from hetsim.reporting.words.sustained import slower_text, sustained_rows
from hetsim.reporting.words.text import count, listed, percent, ratio

UNPRICED_SHOWN = 3
"""Op types that are not priced, and reasons why, that are listed; the JSON has every node."""


def comparison_report(comparison: Comparison, *, wide: bool = False) -> RenderableType:
    """Return the verdict, the table, what is not feasible, how sure that is, and what was asked.

    `wide` adds energy, what is transferred, and a line a device.
    """
    parts: list[RenderableType] = [Text(plain(verdict(comparison)), style="bold"), Text("")]
    if any(row.feasible for row in comparison.rows):
        parts += [(wide_table if wide else brief_table)(comparison), Text("")]
    dealt = [row for row in comparison.rows if row.plan is not None and row.plan.sizes]
    parts += [
        Text.assemble((plain(f"{row.strategy}: "), "bold"), plain(deal_text(row.plan)))
        for row in dealt
        if row.plan is not None
    ]
    lagging = [row for row in comparison.rows if row.lags]
    parts += [
        Text.assemble(
            (plain(f"{row.strategy}: "), "bold"),
            f"the busiest device or link works {format_seconds(row.bottleneck_s or 0.0)} a "
            "request and is idle at times: transfers wait for one another",
        )
        for row in lagging
    ]
    slowed = [row for row in comparison.rows if row.slower is not None]
    parts += [
        Text.assemble((plain(f"{', '.join(names)}: "), "bold"), f"slower than alone, {text}")
        for text, names in _slower(comparison.problem, slowed).items()
    ]
    parts += [Text("")] * bool(dealt or lagging or slowed)
    refused = [
        Text.assemble((plain(f"{', '.join(folded(names))}: infeasible: "), "bold"), plain(reason))
        for reason, names in refusals(comparison).items()
    ]
    parts += [*refused, *[Text("")] * bool(refused)]
    if comparison.verdict.sure is not None:
        parts += [sureness_table(comparison, wide=wide), Text("")]
        parts += [sureness_line(comparison), Text("")]
    return Stack(*parts, comparison_header(comparison))


def _slower(problem: Problem, rows: Iterable[Row]) -> dict[str, list[str]]:
    """Strategies by how much slower their devices are than alone."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.slower is not None:
            found.setdefault(slower_text(problem, row.slower), []).append(row.strategy)
    return found


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
        bound += f", {', '.join(sorted(model.frozen))} frozen" if model.frozen else ""
        rows.append(("model", f"{model.name} ({model.source}), {count(problem.n, 'node')}{bound}"))
        rows.extend(shape_rows(model))
    host = "" if problem.host is None else f", host {problem.devices[problem.host]}"
    links = {"fifo": "links first come, first served", "none": "links without contention"}
    rows.append(
        (
            "platform",
            f"{platform.name if platform is not None else 'given as arrays'}: "
            f"{', '.join(folded(problem.devices))}{host}; {links[problem.contention]}",
        )
    )
    rows += figures_rows(problem)
    if problem.pessimistic:
        rows.append(
            (
                "judged",
                "at the bad end: every device and link, alone or not, at the upper end of its "
                "80 % interval",
            )
        )
    return [
        *rows,
        *as_if_rows(problem),
        *taken_off_rows(problem),
        *measured_rows(problem),
        *unpriced_rows(problem),
    ]


def unpriced_rows(problem: Problem) -> list[tuple[str, str]]:
    """Return the lines that name what is not priced, and what data decide; none without."""
    rows: list[tuple[str, str]] = []
    if problem.unpriced:
        reasons = tally(problem.unpriced.values())
        whys = "; ".join(plain(why) for why in list(reasons)[:UNPRICED_SHOWN])
        more = len(reasons) - UNPRICED_SHOWN
        whys += f"; +{more} more" if more > 0 else ""
        rows.append(("not priced", f"{_named(problem, problem.unpriced)}: {whys}"))
    if problem.unsized:
        whys = "; ".join(plain(why) for why in tally(problem.unsized.values()))
        rows.append(("by FLOP", f"{_named(problem, problem.unsized)}: {whys}"))
    decided = [node for node in problem.least_s if node not in problem.unpriced]
    if decided:
        rows.append(
            (
                "data decide",
                f"{_named(problem, decided)}: counted at the most, by a bound at the least",
            )
        )
    return rows


def _named(problem: Problem, nodes: Collection[int]) -> str:
    ops = listed(tally(problem.op_types[node] for node in nodes), limit=UNPRICED_SHOWN)
    return f"{count(len(nodes), 'node')} ({ops})"


def deal_text(plan: Plan) -> str:
    """Return which replicas get how many requests: ``of 4 requests 3 to gpu, 1 to npu + cpu``."""
    by_share: dict[int, list[str]] = {}
    place = {name: index for index, name in enumerate(plan.problem.devices)}
    in_order = sorted(
        zip(plan.replicas, plan.shares, strict=True),
        key=lambda pair: [place[name] for name in pair[0].devices_used],
    )
    for replica, share in in_order:
        by_share.setdefault(share, []).append(" + ".join(folded(replica.devices_used)))
    told = []
    for share, names in sorted(by_share.items(), reverse=True):
        each = "" if len(names) == 1 else " each"
        told.append(f"{share}{each} to {', '.join(folded(names))}")
    return f"of {len(plan.deal)} requests {'; '.join(told)}"


def comparison_header(comparison: Comparison) -> Table:
    """Return lower bound, the proven ceiling on any speed-up, model, platform and figures."""
    rows: list[tuple[str, str]] = []
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
        if comparison.copies is not None:
            used = ", ".join(folded(comparison.copies.plan.devices_used))
            cost_s = format_seconds(comparison.copies.cost_s)
            rows.append(("all as copies", f"the whole model on each of {used}, {cost_s}"))
        if comparison.bound_s is not None:
            ways = "splitting or copies" if comparison.objective == "throughput" else "splitting"
            gain = f"the most that {ways} can gain over it"
            rows.append(("ceiling", f"{ratio(comparison.ceiling)}: {gain}"))
    rows += question(comparison.problem)
    if comparison.sustained:
        rows += sustained_rows(comparison.problem)
    return pairs(rows)


def verdict(comparison: Comparison) -> str:
    """Return in a sentence or two whether several devices pay, and which plan to take."""
    found = comparison.verdict
    take, tried = found.take, found.tried
    if take is None:
        return "No strategy found a feasible plan."
    what = f"{_choice(comparison, take)}{_above_bound(comparison, take)}"
    fastest = ""
    if found.sure is not None:
        fastest = f" It is the fastest compared in {_samples(comparison, found.sure.best)}."
    if found.answer == "no single device":
        return f"Best: {what}; no device runs the whole model alone.{fastest}"
    if found.answer == "nothing split":
        return f"Best: {what}; no strategy that splits was compared.{fastest}"
    if found.answer == "pays":
        head = "Copies pay" if take.copies else "Splitting pays"
        text = f"{_judged(comparison)}{_above_bound(comparison, take)}."
    else:
        head = "Too close to call"
        if found.answer == "does not pay":
            head = "Splitting hardly pays" if found.likely else "Splitting does not pay"
        text = f"take {what}."
        if tried is None:
            text += fastest
        else:
            which = "best" if found.chance is None else "likeliest"
            text += f" The {which} {'copies' if tried.copies else 'split'}: {_judged(comparison)}."
    if found.sure is None and not comparison.problem.certain:
        head = f"By the point estimates alone, {head[0].lower()}{head[1:]}"
    return f"{head}: {text}"


def _cost(comparison: Comparison, one: Choice) -> str:
    each = " a request" if comparison.objective == "throughput" else ""
    return f"{format_seconds(one.cost_s)}{each}"


def _choice(comparison: Comparison, one: Choice) -> str:
    """A plan, its cost and its devices: ``auto, 7.13 ms on cpu, gpu and npu``."""
    text = f"{plan_name(one.strategy)}, {_cost(comparison, one)}"
    if one.strategy.startswith("single:"):
        return text
    *others, last = folded(one.devices)
    used = plain(f"{', '.join(others)} and {last}" if others else last)
    return f"{text} {'as copies ' if one.copies else ''}on {used}"


def _judged(comparison: Comparison) -> str:
    """The plan on several devices that was judged, over what, and with which chance."""
    found = comparison.verdict
    assert found.tried is not None
    assert found.over is not None
    text = f"{_choice(comparison, found.tried)}, {ratio(found.gain)} over "
    text += plan_name(found.over.strategy)
    if found.answer == "pays":
        text += f" ({_cost(comparison, found.over)})"
    if found.chance is not None:
        text += f", faster in {_samples(comparison, found.chance)}"
    return text


def _samples(comparison: Comparison, share: float) -> str:
    # Three digits: what is just below the share that is asked for must not be rounded up to it.
    return f"{100 * share:.3g} % of {comparison.draws} Monte Carlo samples"


def _above_bound(comparison: Comparison, one: Choice) -> str:
    if comparison.problem.unpriced:
        return ", of what is priced"
    if not comparison.bound_s:
        return ""
    over = percent(one.cost_s / comparison.bound_s - 1.0)
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
