"""``hetsim nodes``: which unit runs each node, which others could, why not, and what it costs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hetsim.cli.commands import Command
from hetsim.cli.invocation import current
from hetsim.cli.options.common import (
    common_options,
    force_option,
    json_option,
    report_option,
    wide_option,
)
from hetsim.cli.options.question import (
    device_option,
    model_options,
    platform_options,
    strategy_options,
)
from hetsim.errors import UsageError

if TYPE_CHECKING:
    from hetsim.analysis.nodes.facts import Facts
    from hetsim.core.text import Record
    from hetsim.problem.plan import Plan
    from hetsim.problem.problem import Problem


@click.command(cls=Command)
@click.argument("source", metavar="[MODEL|PLAN.json]", required=False)
@platform_options
@strategy_options
@device_option
@click.option(
    "-o",
    "--out",
    "files",
    type=click.Path(path_type=Path),
    metavar="FILE",
    multiple=True,
    help="Write it as .json, .csv, or .model-explorer.json, node data for Model Explorer: of the "
    "device, or as .seconds, .cost or .why.model-explorer.json. Repeatable.",
)
@report_option
@force_option("Let --out and --report replace such files.")
@click.option(
    "--schema", is_flag=True, help="Print the JSON Schema of what --json prints, and end."
)
@model_options
@wide_option
@json_option
@common_options
def nodes(
    source: str | None,
    device: str | None,
    files: tuple[Path, ...],
    schema: bool,
    wide: bool,
) -> None:
    """Say of each node which devices take it, in how long, and why the others do not.

    With --strategy, or a saved plan: where it runs, and what it costs that it is not on its
    preferred device, the time there and the transfers. The preferred device is the one that takes a
    node in the least time; --device wants all of them on one. --wide lists every node.
    """
    from hetsim.analysis.nodes.files import form_of
    from hetsim.analysis.nodes.nodes import nodes as ask
    from hetsim.analysis.nodes.record import nodes_record, nodes_schema
    from hetsim.cli.files import check_targets, leave_report
    from hetsim.reporting.output import check_file, write_file
    from hetsim.reporting.tables.analysis import PAGE_NODES, nodes_report

    invocation = current()
    if schema:
        invocation.show_json(nodes_schema())
        return
    if source is None:
        raise UsageError("no model is given", hint="give MODEL or PLAN.json")
    for path in files:
        form_of(path)
        check_file(path, force=invocation.force, option="--out")
    check_targets()
    asked = _asked(source)
    with invocation.progress("asking every device"):
        told = ask(asked, device=device)
    for path in files:
        write_file(path, told.to_file(path), force=invocation.force, option="--out")
        invocation.note(f"wrote {path}")
    record = nodes_record(told)
    leave_report(record, lambda: _pictures(told), lambda: nodes_report(told, most=PAGE_NODES))
    invocation.answer(lambda: record, lambda: nodes_report(told, wide=wide))


def _pictures(told: Facts) -> Record:
    """What the page draws: with a plan, its subgraphs."""
    from hetsim.reporting.pages.subgraphs import plans_picture

    return plans_picture([] if told.plan is None else [told.plan])


def _asked(source: str) -> Problem | Plan:
    """Read the plan, or plan where a strategy is named; else ask what could be."""
    from hetsim.cli.question import read_plan, read_problem

    invocation = current()
    if source.endswith(".json") or invocation.strategy is not None:
        return read_plan(source)
    for option, given in (
        ("--objective", invocation.objective),
        ("--set", invocation.settings),
        ("--affinity", invocation.affinity),
    ):
        if given:
            raise UsageError(f"{option} is for a plan", hint="name a --strategy, e.g. heft")
    return read_problem(source)
