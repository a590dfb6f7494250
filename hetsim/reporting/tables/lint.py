"""What costs time, and what takes it away, as a table."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hetsim.analysis.lint.lint import Finding, Lint
from hetsim.analysis.lint.suspects import Change
from hetsim.core.text import Record, fields, plain
from hetsim.core.units import format_seconds
from hetsim.problem.problem import Problem
from hetsim.problem.record import problem_record
from hetsim.reporting.tables.question import question, unpriced_rows
from hetsim.reporting.words.console import cell, pairs, stack, table
from hetsim.reporting.words.text import ABSENT, count, more_text, percent, time_text

NAMED = 3
"""Nodes that are named; JSON has all."""


def lint_report(lint: Lint, *, wide: bool = False) -> RenderableType:
    """Return what the plan takes, and the findings that are worth a change, most first.

    `wide`: those too that gain less, or nothing.
    """
    shown = (*lint.findings, *lint.others) if wide else lint.findings
    commands = dict.fromkeys(one.change for one in shown if options_of(one.change))
    return stack(
        pairs(_header(lint)),
        _table(shown) if shown else None,
        _commands(commands) if commands else None,
        Text(_summary(lint, wide=wide)),
    )


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
    return table(
        ("#saves", "#then", "finding", "#costs", "change, planned again"),
        (
            (
                _saves(one),
                format_seconds(one.after_s) if math.isfinite(one.after_s) else "no plan",
                (one.what, *_nodes(one)),
                time_text(one.cost_s),
                one.change.say,
            )
            for one in shown
        ),
    )


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
    return [more_text(", ".join(one.nodes[:NAMED]), len(one.nodes) - NAMED)]


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


def lint_record(lint: Lint) -> Record:
    """Return what was found, in seconds; ``findings`` gain at least ``least``, most first."""
    return {
        "schema": "hetsim-lint/1",
        "problem": problem_record(lint.problem),
        "strategy": lint.asked.strategy,
        "options": {} if lint.plan is None else dict(sorted(lint.plan.options.items())),
        "objective": lint.asked.objective,
        "before_s": lint.before_s,
        "infeasible": lint.why or None,
        "least": lint.least,
        "findings": [_finding(lint.problem, one) for one in lint.findings],
        "others": [_finding(lint.problem, one) for one in lint.others],
    }


def _finding(problem: Problem, one: Finding) -> Record:
    gains = one.before_s is not None and math.isfinite(one.after_s)
    return {
        "kind": one.kind,
        "device": one.device or None,
        **fields(one, "what nodes file_nodes cost_s"),
        "change": {
            "what": one.change.say,
            "options": options_of(one.change),
            "pins": dict(one.change.pins),
            "takes": {
                device: [problem.node_names[node] for node in nodes]
                for device, nodes in one.change.takes
            },
        },
        "after_s": one.after_s if math.isfinite(one.after_s) else None,
        "gain_s": one.gain_s if gains else None,
        "gain": one.gain if gains else None,
    }


def options_of(change: Change) -> Sequence[str]:
    """Return the words that ask for the change on the command line; pins are for a file."""
    words = [word for text in change.what_if for word in ("--what-if", text)]
    if change.execute:
        words += ["--execute", ",".join(f"{name}={how}" for name, how in change.execute)]
    return words
