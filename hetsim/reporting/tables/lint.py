"""What costs time, and what takes it away, as a table."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Sequence

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hetsim.analysis.linting.change import Change
from hetsim.analysis.linting.lint import Finding, Lint
from hetsim.base.text import plain
from hetsim.base.units import format_seconds
from hetsim.reporting.lint_record import options_of
from hetsim.reporting.tables.comparison import question, unpriced_rows
from hetsim.reporting.words.console import cell, new_table, pairs
from hetsim.reporting.words.text import ABSENT, count, percent

NAMED = 3
"""Nodes that are named; JSON has all."""


def lint_report(lint: Lint, *, wide: bool = False) -> RenderableType:
    """Return what the plan takes, and the findings that are worth a change, most first.

    `wide`: those too that gain less, or nothing.
    """
    shown = (*lint.findings, *lint.others) if wide else lint.findings
    parts: list[RenderableType] = [pairs(_header(lint))]
    if shown:
        parts += [Text(""), _table(shown)]
        commands = dict.fromkeys(one.change for one in shown if options_of(one.change))
        parts += [Text(""), _commands(commands)] if commands else []
    parts += [Text(""), Text(_summary(lint, wide=wide))]
    return Stack(*parts)


def _header(lint: Lint) -> list[tuple[str, str]]:
    problem = lint.problem
    rows = [*question(problem), *unpriced_rows(problem), ("plan", plain(lint.asked.strategy))]
    if lint.before_s is None:
        rows.append(("infeasible", plain(lint.why)))
    else:
        name = "latency" if lint.asked.objective == "latency" else "seconds a request"
        rows.append((name, format_seconds(lint.before_s)))
    return rows


def _table(shown: Sequence[Finding]) -> Table:
    table = new_table()
    table.add_column(cell("saves"), justify="right", no_wrap=True)
    table.add_column(cell("then"), justify="right", no_wrap=True)
    table.add_column(cell("finding"), overflow="fold", ratio=3)
    table.add_column(cell("costs"), justify="right", no_wrap=True)
    table.add_column(cell("change, planned again"), overflow="fold", ratio=2)
    for one in shown:
        table.add_row(
            cell(_saves(one)),
            cell(format_seconds(one.after_s) if math.isfinite(one.after_s) else "no plan"),
            cell(one.what, *_nodes(one)),
            cell(ABSENT if one.cost_s is None else format_seconds(one.cost_s)),
            cell(one.change.say),
        )
    return table


def _commands(changes: Iterable[Change]) -> Table:
    """Options that make each change, to be copied: below what they do, on a line of their own."""
    table = Table.grid()
    table.add_column(no_wrap=True)
    for change in changes:
        table.add_row(cell(change.say))
        table.add_row(cell(f"  {shlex.join(options_of(change))}"))
    return table


def _saves(one: Finding) -> str:
    if not math.isfinite(one.after_s):
        return ABSENT
    return "all" if one.before_s is None else percent(one.gain)


def _nodes(one: Finding) -> list[str]:
    if not one.nodes:
        return []
    more = len(one.nodes) - NAMED
    return [", ".join(one.nodes[:NAMED]) + (f", +{more} more" if more > 0 else "")]


def _summary(lint: Lint, *, wide: bool) -> str:
    total = len(lint.findings) + len(lint.others)
    if not total:
        return "Nothing was found that could cost time."
    says = "gains" if len(lint.findings) == 1 else "gain"
    least = percent(lint.least)
    text = f"{len(lint.findings)} of {count(total, 'change')} {says} {least} or more"
    text += " by the point estimates"
    if lint.before_s is None:
        text = f"{len(lint.findings)} of {count(total, 'change')} would make it run"
    if lint.others and not wide:
        text += f"; --wide has the {'other' if len(lint.others) == 1 else 'others'}"
    return f"{text}. Each is planned for itself, by {plain(lint.asked.strategy)}."
