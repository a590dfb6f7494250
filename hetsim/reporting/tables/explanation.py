"""What bounds a plan: as text, and as a plain record."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from hetsim.analysis.explanation import Explanation, Step
from hetsim.core.text import Record, fields, plain
from hetsim.core.units import format_seconds
from hetsim.problem.problem import Problem
from hetsim.problem.record import measured_record, unpriced_record
from hetsim.reporting.tables.question import measured_rows, unpriced_rows
from hetsim.reporting.words.console import pairs, stack, table
from hetsim.reporting.words.text import ABSENT, count, percent

STEPS_SHOWN = 12
"""Steps of the critical path that are listed: the longest, in their order."""


def explanation_report(explanation: Explanation) -> RenderableType:
    """Return what the plan costs, what it is made of, its critical path, and what would help."""
    return stack(_summary(explanation), _path_table(explanation), _changes_table(explanation))


def _summary(explanation: Explanation) -> RenderableType:
    of = "latency" if explanation.objective == "latency" else "seconds a request"
    bound_s = explanation.bound_s
    above = "no lower bound"
    if bound_s is not None:
        gap = explanation.cost_s / bound_s - 1.0 if bound_s > 0 else None
        above = f"{percent(gap)} above the lower bound"
    rows = [
        ("plan", plain(explanation.plan.strategy)),
        (of, f"{format_seconds(explanation.cost_s)}, {above}"),
    ]
    whole = explanation.cost_s
    shares = ", ".join(
        f"{plain(name)} {percent(seconds / whole if whole > 0 else None)}"
        for name, seconds in list(explanation.shares.items())[:6]
    )
    label = "critical path" if explanation.objective == "latency" else "load"
    rows.append((label, shares or ABSENT))
    rows += [*measured_rows(explanation.plan.problem)[:1]]
    rows += unpriced_rows(explanation.plan.problem)
    if explanation.limited_by:
        rows.append(("limited by", plain(explanation.limited_by)))
    return pairs(rows)


def _path_table(explanation: Explanation) -> RenderableType:
    longest = sorted(explanation.path, key=lambda step: (-step.seconds, step.start_s))
    shown = set(longest[:STEPS_SHOWN])
    made = table(
        ("#start", "#takes", "on", "critical path"),
        (
            (
                format_seconds(step.start_s),
                format_seconds(step.seconds),
                step.where,
                _named(explanation.plan.problem, step),
            )
            for step in explanation.path
            if step in shown
        ),
    )
    left = len(explanation.path) - len(shown)
    if left <= 0:
        return made
    rest = sum(step.seconds for step in explanation.path if step not in shown)
    note = f"and {count(left, 'shorter step')}, {format_seconds(rest)} in all"
    return Group(made, Text(note))


def _named(problem: Problem, step: Step) -> str:
    if step.kind == "transfer":
        return step.what
    names = [problem.node_names[v] for v in (step.nodes[0], step.nodes[-1])]
    ends = names[0] if len(step.nodes) == 1 else f"{names[0]} to {names[1]}"
    return f"{step.what}: {count(len(step.nodes), 'node')}, {ends}"


def _changes_table(explanation: Explanation) -> RenderableType:
    if not explanation.changes:
        return Text(f"None of {count(explanation.tried, 'change')} tried would make it better.")
    return table(
        ("what would help most", "#then", "#saves", "planned by"),
        (
            (change.what, format_seconds(change.cost_s), percent(change.gain), change.strategy)
            for change in explanation.changes
        ),
    )


def explanation_record(explanation: Explanation) -> Record:
    """Return an explanation for JSON; nodes by name."""
    problem = explanation.plan.problem
    return {
        **fields(explanation, "strategy=plan.strategy objective cost_s lower_bound_s=bound_s"),
        "unpriced": unpriced_record(problem),
        "profiles": measured_record(problem),
        **fields(explanation, "limited_by shares_s=shares"),
        "critical_path": [
            {
                **fields(step, "kind where what"),
                "nodes": [problem.node_names[v] for v in step.nodes],
                **fields(step, "start_s seconds"),
            }
            for step in explanation.path
        ],
        "changes": [
            fields(change, "kind what cost_s gain strategy") for change in explanation.changes
        ],
        "changes_tried": explanation.tried,
    }
