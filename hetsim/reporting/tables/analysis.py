"""Explanation, lint findings and node placement of a plan, as tables."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hetsim.analysis.explanation import CriticalStep, Explanation
from hetsim.analysis.lint.lint import Finding, Lint
from hetsim.analysis.lint.suspects import Change
from hetsim.analysis.nodes.facts import CHOICE, Facts, NodeFacts
from hetsim.core.text import Record, fields, plain, tally
from hetsim.core.units import format_bytes, format_seconds
from hetsim.problem.problem import Problem
from hetsim.problem.record import measured_record, problem_record, unpriced_record
from hetsim.reporting.console import Heading, bold, cell, pairs, stack, table, table_of
from hetsim.reporting.formatting import (
    ABSENT,
    count,
    difference_text,
    fold_rows,
    more_text,
    percent,
    time_text,
)
from hetsim.reporting.tables.question import measured_rows, question, unpriced_rows
from hetsim.reporting.tables.verdicts import verdict_of

STEPS_SHOWN = 12
"""Maximum number of critical-path steps that are listed: the longest, in their order."""


def explanation_report(explanation: Explanation) -> RenderableType:
    """Return cost, bottleneck, critical path, and the most helpful changes."""
    return stack(_explained(explanation), _path_table(explanation), _changes_table(explanation))


def _explained(explanation: Explanation) -> RenderableType:
    of, label = "time a request", "load"
    if explanation.objective == "latency":
        of, label = "latency", "critical path"
    problem, bound_s = explanation.plan.problem, explanation.bound_s
    above = "no lower bound"
    if bound_s is not None:
        gap = explanation.cost_s / bound_s - 1.0 if bound_s > 0 else None
        above = f"optimality gap {percent(gap)}"
    return pairs(
        [
            ("plan", plain(explanation.plan.strategy)),
            (of, f"{format_seconds(explanation.cost_s)}, {above}"),
            (label, shares_text(explanation, 6) or ABSENT),
            *measured_rows(problem)[:1],
            *unpriced_rows(problem),
            ("bottleneck", plain(explanation.limited_by) or None),
        ]
    )


def shares_text(explanation: Explanation, most: int) -> str:
    """Return the largest shares of a plan's cost by device and link."""
    whole_s = explanation.cost_s
    return ", ".join(
        f"{plain(name)} {percent(seconds / whole_s if whole_s > 0 else None)}"
        for name, seconds in list(explanation.shares.items())[:most]
    )


def _path_table(explanation: Explanation) -> RenderableType:
    longest = sorted(explanation.path, key=lambda step: (-step.seconds, step.start_s))
    shown, rest = longest[:STEPS_SHOWN], longest[STEPS_SHOWN:]
    made = table_of(
        (step for step in explanation.path if step in shown),
        "#start=start_s",
        "#takes=seconds",
        "on=where",
        ("critical path", lambda step: _named(explanation.plan.problem, step)),
    )
    if not rest:
        return made
    total_s = format_seconds(sum(step.seconds for step in rest))
    return Group(made, Text(f"{count(len(rest), 'shorter step')} take {total_s} in total."))


def _named(problem: Problem, step: CriticalStep) -> str:
    if step.kind == "transfer":
        return step.what
    names = [problem.node_names[v] for v in (step.nodes[0], step.nodes[-1])]
    ends = names[0] if len(step.nodes) == 1 else f"{names[0]} to {names[1]}"
    return f"{step.what}: {count(len(step.nodes), 'node')}, {ends}"


def _changes_table(explanation: Explanation) -> RenderableType:
    if not explanation.changes:
        return Text("No simulated change helps.")
    return table_of(
        explanation.changes,
        "most helpful changes=what",
        "#then=cost_s",
        "#saves=gain%",
        "planned by=strategy",
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
        **fields(explanation, "changes(kind what cost_s gain strategy) changes_tried=tried"),
    }


NAMED = 3
"""Maximum number of nodes that are named; JSON has all."""


def lint_report(lint: Lint, *, wide: bool = False) -> RenderableType:
    """Return the latency, and the findings whose changes save time, the largest saving first.

    `wide`: with all other findings.
    """
    shown = (*lint.findings, *lint.others) if wide else lint.findings
    left = len(lint.findings) + len(lint.others) - len(shown)
    hidden = f" --wide lists {left} more." if left else ""
    return stack(
        pairs(_header(lint)),
        _table(shown),
        _commands(dict.fromkeys(one.change for one in shown if options_of(one.change))),
        bold(verdict_of(lint_record(lint)) + hidden),
    )


def _header(lint: Lint) -> list[tuple[str, str]]:
    problem = lint.problem
    rows = [*question(problem), ("plan", plain(lint.asked.strategy))]
    if lint.before_s is None:
        rows.append(("infeasible", plain(lint.why)))
    else:
        name = "latency" if lint.asked.objective == "latency" else "time a request"
        rows.append((name, format_seconds(lint.before_s)))
    return rows


def _table(shown: Sequence[Finding]) -> Table:
    def figures(one: Finding) -> tuple[str, str]:
        """Return the saving of a change, and the latency of the plan with it."""
        if not math.isfinite(one.after_s):
            return ABSENT, "no plan"
        return "all" if one.before_s is None else percent(one.gain), format_seconds(one.after_s)

    return table_of(
        shown,
        ("#saves", lambda one: figures(one)[0]),
        ("#then", lambda one: figures(one)[1]),
        ("finding", lambda one: (one.what, *_nodes(one))),
        "#costs=cost_s",
        "change=change.say",
    )


def _commands(changes: Iterable[Change]) -> Table:
    """Table of changes, their options on a line of their own."""
    table = Table.grid()
    table.add_column(no_wrap=True)
    for change in changes:
        table.add_row(cell(change.say))
        table.add_row(cell(f"  {shlex.join(options_of(change))}"))
    return table


def _nodes(one: Finding) -> list[str]:
    if not one.nodes:
        return []
    return [more_text(", ".join(one.nodes[:NAMED]), len(one.nodes) - NAMED)]


def lint_record(lint: Lint) -> Record:
    """Return findings in seconds; ``findings`` gain at least ``least``, the largest gain first."""
    return {
        "schema": "hetsim-lint/1",
        "problem": problem_record(lint.problem),
        **fields(lint, "strategy=asked.strategy"),
        "options": {} if lint.plan is None else dict(sorted(lint.plan.options.items())),
        **fields(lint, "objective=asked.objective before_s infeasible=why? least"),
        "findings": [_finding(lint.problem, one) for one in lint.findings],
        "others": [_finding(lint.problem, one) for one in lint.others],
    }


def _finding(problem: Problem, one: Finding) -> Record:
    gains = one.before_s is not None and math.isfinite(one.after_s)
    return {
        **fields(one, "kind device? what nodes file_nodes cost_s"),
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
    """Return the command-line options of a change; pins go to a file."""
    words = [word for text in change.what_if for word in ("--what-if", text)]
    if change.execute:
        words += ["--execute", ",".join(f"{name}={how}" for name, how in change.execute)]
    return words


SHOWN = 20
"""Maximum number of nodes that are listed."""


PAGE_NODES = 300
"""Maximum number of nodes that a page lists."""


def nodes_report(facts: Facts, *, wide: bool = False, most: int = SHOWN) -> RenderableType:
    """Return a header, and the nodes off their preferred device, or refused by some device.

    `wide`: every node, in the graph's order; else at most `most`.
    """
    listed = _listed(facts)
    shown = facts.nodes if wide else listed[:most]
    told: list[RenderableType] = []
    if shown:
        told.append(_of_plan(shown) if facts.plan is not None else _of_problem(facts, shown))
    left = 0 if wide else len(facts.nodes) - len(shown)
    if left:
        more = len(listed) - len(shown)
        what = "off the preferred device" if facts.plan is not None else "not on every device"
        those = f", {more} of them {what}" if more else ""
        told.append(Text(f"{count(left, 'more node')}{those}; --wide lists all."))
    header = pairs(_nodes_header(facts))
    return stack(header, told) if shown else stack([header, *told])


def _nodes_header(facts: Facts) -> list[tuple[str, str]]:
    problem = facts.problem
    folded = sum(not standing for standing in facts.standing_for.values())
    rows = [
        *question(problem),
        (
            "nodes",
            f"{problem.n} after optimisation, {len(facts.file_nodes)} in the file, {folded} folded",
        ),
    ]
    if facts.wanted is not None:
        able = sum(facts.wanted in node.able for node in facts.nodes[: problem.n])
        rows.append(("preferred", f"{plain(facts.wanted)}, which runs {able} of {problem.n}"))
    if facts.plan is None:
        able_of = fold_rows(
            [(name, sum(name in node.able for node in facts.nodes)) for name in problem.devices],
            lambda one: one[0],
            lambda one: one[1],
        )
        rows.append(
            ("supported", ", ".join(f"{plain(name)} {able}" for name, (_, able) in able_of))
        )
        return rows
    replicas = f", {facts.replicas} replicas" if facts.replicas > 1 else ""
    rows.append(("plan", plain(facts.plan.strategy) + replicas))
    runs = tally(node.device for node in facts.nodes if node.device is not None)
    seconds = {
        name: sum(node.seconds or 0.0 for node in facts.nodes if node.device == name)
        for name in runs
    }
    rows.append(
        (
            "runs",
            "; ".join(
                f"{plain(name)} {count(number, 'node')}, {format_seconds(seconds[name])}"
                for name, number in runs.items()
            ),
        )
    )
    fallen = [node for node in facts.nodes if node.falls_back]
    moves_s = sum(node.moves_s for node in fallen)
    moved = sum(node.moved_bytes for node in fallen)
    lasts_s = sum((node.cost_s or 0.0) - node.moves_s for node in fallen if node.cost_s is not None)
    rows.append(
        (
            "elsewhere",
            f"{count(len(fallen), 'node')}: {difference_text(lasts_s)} in kernels, "
            f"{difference_text(moves_s)} in transfers ({format_bytes(round(moved))})"
            if fallen
            else "none",
        )
    )
    return rows


def _listed(facts: Facts) -> list[NodeFacts]:
    """Nodes off their preferred device, the most expensive first; or nodes that devices refuse."""
    if facts.plan is not None:
        fallen = [node for node in facts.nodes if node.falls_back]
        return sorted(fallen, key=lambda node: -(node.cost_s or 0.0))
    return [
        node
        for node in facts.nodes
        if any(one.takes == "no" and facts.wanted in (None, one.device) for one in node.devices)
    ]


def _of_plan(shown: Sequence[NodeFacts]) -> Table:
    return table_of(
        shown,
        (Heading("node", 8), "name"),
        (Heading("op", 6), "op"),
        ("#runs on", lambda node: _on(node.device, node.seconds)),
        (
            "#preferred",
            lambda node: _on(node.preferred, node.preferred_s, supposed=node.supposed),
        ),
        ("#transfers", lambda node: format_seconds(node.moves_s) if node.falls_back else ABSENT),
        ("#cost", lambda node: difference_text(node.cost_s) if node.falls_back else ABSENT),
        (
            Heading("why not", 9),
            lambda node: "by choice" if node.why.startswith(CHOICE) else node.why,
        ),
    )


def _on(device: str | None, seconds: float | None, *, supposed: bool = False) -> str:
    """Device and a time on it, in brackets if the device cannot run the node."""
    if device is None or seconds is None:
        return device or ABSENT
    told = format_seconds(seconds)
    return f"{device} ({told})" if supposed else f"{device} {told}"


def _of_problem(facts: Facts, shown: Sequence[NodeFacts]) -> Table:
    devices = fold_rows(
        range(len(facts.problem.devices)),
        lambda p: facts.problem.devices[p],
        lambda p: tuple((one.takes, one.seconds) for one in (n.devices[p] for n in facts.nodes)),
    )
    refused = any(one.takes == "no" for node in shown for one in node.devices)
    rows = []
    for node in shown:
        said = [(name, node.devices[p]) for name, p in devices]
        reasons = [f"{name}: {one.reason}" for name, one in said if one.takes == "no"]
        times = [time_text(one.seconds) for _, one in said]
        rows.append((node.name, node.op, *times, *([reasons] if refused else [])))
    why = [Heading("why not", 12)] * refused
    return table((Heading("node", 8), Heading("op", 6), *(f"#{d}" for d, _ in devices), *why), rows)
