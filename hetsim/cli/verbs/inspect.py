"""``hetsim inspect``: the contents of a model, plan or YAML file, and their device support."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from hetsim.cli.commands import Command
from hetsim.cli.files import check_targets, leave_report, pictures_of
from hetsim.cli.invocation import current, given
from hetsim.cli.options.common import force_option, limit, report_option, verb_options, wide_option
from hetsim.cli.options.question import (
    device_option,
    model_options,
    platform_options,
    strategy_options,
)
from hetsim.cli.question import (
    DEFAULT_STRATEGY,
    read_model,
    read_plan,
    read_platform,
    read_problem,
    read_strategy_options,
    with_affinity,
)
from hetsim.cli.verbs.devices import contents_of
from hetsim.core.files import siblings
from hetsim.core.text import cut
from hetsim.core.units import format_seconds
from hetsim.errors import HetsimError, InvalidInput, ObjectiveMissed, UsageError
from hetsim.reporting.output import check_file, write_file

if TYPE_CHECKING:
    from rich.console import RenderableType

    from hetsim.analysis.lint.lint import Lint
    from hetsim.cli.options.common import Limit
    from hetsim.core.text import Record
    from hetsim.problem.plan import Plan
    from hetsim.problem.problem import Problem

Mode = Literal["", "--nodes", "--lint"]

_OF_PLANS = (
    "strategy", "objective", "settings", "affinity", "contention", "profiles", "measured", "cost",
    "pessimistic", "device", "report",
)  # fmt: skip
"""Options about making or judging plans."""

_OF_PLATFORMS = ("execute", "runtime", "changes", "without")

HARDWARE = ("device", "link", "platform", "fitted", "family", "prices")
SCHEMAS = (*HARDWARE, "hardware", "catalog", "workload", "deployment", "grid", "nodes")
"""Kinds of files that have a JSON Schema; `hardware` is any of the first."""

HOLDS = "a device, link, platform, workload, deployment, catalog or grid"


@click.command(
    cls=Command,
    examples=(
        ("hetsim inspect model.onnx --platform rock-5b",
         "Which device runs which op, and why do the others not?"),
        ("hetsim inspect zoo:inception_v1 --platform rock-5b --lint",
         "What costs time, and how much does each change save?"),
        ("hetsim inspect my-board.yaml workload.yaml",
         "Is everything in these files right?"),
    ),
)  # fmt: skip
@click.argument("files", metavar="[MODEL|FILE]...", nargs=-1)
@click.option(
    "--nodes",
    "mode",
    flag_value="--nodes",
    default="",
    help="Show for each node the time on each device, and why a device cannot run it. With "
    "--strategy, or of a plan.json: where it runs, and the cost of each fallback.",
)
@click.option(
    "--lint",
    "mode",
    flag_value="--lint",
    help="Show what costs time, each with the change that saves it and the time after planning "
    "again.",
)
@click.option(
    "--schema",
    type=click.Choice(SCHEMAS),
    metavar="KIND",
    help="Print the JSON Schema of a kind of file, e.g. device, platform, workload or grid. "
    "Editors complete and check YAML by it.",
)
@platform_options
@strategy_options
@device_option
@click.option(
    "--fail-on",
    metavar="TIME|PERCENT",
    callback=limit,
    help="With --lint: end with exit code 5 if one change saves this much or more, e.g. 2ms or 5%.",
)
@click.option(
    "-o",
    "--out",
    "written",
    type=click.Path(path_type=Path),
    metavar="FILE",
    multiple=True,
    help="With --nodes: write them as .json, .csv or .model-explorer.json (node data for Model "
    "Explorer: the device; .seconds, .cost or .why.model-explorer.json: that). Repeatable.",
)
@report_option
@force_option("Let --out and --report overwrite files.")
@model_options
@wide_option
@verb_options
def inspect(
    files: tuple[str, ...],
    mode: Mode,
    schema: str | None,
    device: str | None,
    fail_on: Limit | None,
    written: tuple[Path, ...],
    wide: bool,
) -> None:
    """Show what is in a model, a saved plan or a YAML file, and whether it is valid.

    A model: ops, FLOPs, bytes, inputs, outputs; with --platform, which device supports which op.
    A file of a device, link, platform, catalog, workload, deployment or grid: its contents, or
    every error with its line (exit code 3). Several files are only checked.
    """
    if schema is not None:
        current().show_json(_schema(schema))
        return
    _check_options(mode)
    if not files:
        raise UsageError("MODEL or FILE is missing", hint="give e.g. model.onnx or zoo:resnet50")
    if len(files) > 1 and (mode or not all(_is_yaml(file) for file in files)):
        raise UsageError(
            f"{mode or 'a model'} takes one file, and {len(files)} are given",
            hint="call hetsim once for each; YAML files can be checked together",
        )
    if mode == "--nodes":
        _nodes(files[0], device, written, wide=wide)
    elif mode == "--lint":
        _lint(files[0], device, fail_on, wide=wide)
    elif all(_is_yaml(file) for file in files):
        _check_files(files, wide=wide)
    elif files[0].endswith(".json"):
        _show_plan(files[0])
    else:
        _show_model(files[0], wide=wide)


def _is_yaml(file: str) -> bool:
    return file.endswith((".yaml", ".yml"))


def _check_options(mode: Mode) -> None:
    """Refuse options that the mode does not use."""
    for option in given(*_OF_PLANS) if not mode else ():
        raise UsageError(f"{option} needs --nodes or --lint", hint="add one of them")
    for option in given("fail_on") if mode != "--lint" else ():
        raise UsageError(f"{option} needs --lint", hint="add --lint")
    for option in given("written") if mode != "--nodes" else ():
        raise UsageError(f"{option} needs --nodes", hint="add --nodes")


def _schema(kind: str) -> Mapping[str, Any]:
    if kind == "nodes":
        from hetsim.analysis.nodes.record import nodes_schema

        return nodes_schema()
    if kind == "grid":
        from hetsim.sweeping.files.reader import grid_schema

        return grid_schema()
    if kind == "catalog":
        from hetsim.hardware.files.inventory import catalog_schema

        return catalog_schema()
    if kind in ("workload", "deployment"):
        from hetsim.workload.files.reader import workload_schema

        return workload_schema("workload" if kind == "workload" else "deployment")
    from hetsim.hardware.files.json_schema import json_schema

    sorts: Any = {"hardware": None, "family": "kin"}
    return json_schema(sorts.get(kind, kind))


def _show_model(source: str, *, wide: bool) -> None:
    """Show ops, work and interface of a model, and which device of a platform supports them."""
    from hetsim.hardware.catalog import device_names, platform_names
    from hetsim.hardware.variants import platform_executing
    from hetsim.problem.of_model import platform_as_asked
    from hetsim.reporting.tables.inspection import (
        inspect_model,
        inspection_record,
        inspection_report,
    )

    invocation = current()
    if source in (*platform_names(), *device_names()) and not Path(source).exists():
        hint = f"'hetsim devices show {source}' shows it"
        raise UsageError(f"'{source}' is a name of the catalog and not a file", hint=hint)
    hardware = None if invocation.platform is None else read_platform()
    if hardware is None:
        for option in given(*_OF_PLATFORMS):
            raise UsageError(f"{option} needs a platform", hint="give --platform, too")
    else:
        platform_executing(hardware, invocation.execute)
    read = read_model(source)
    if hardware is not None:
        hardware = platform_as_asked(read, hardware, invocation.execute)
    inspection = inspect_model(read, hardware)
    invocation.answer(
        lambda: inspection_record(inspection, hardware),
        lambda: inspection_report(inspection, wide=wide),
    )


def _show_plan(source: str) -> None:
    from hetsim.reporting.tables.plan import plan_report

    plan = read_plan(source)
    if current().as_json:
        click.echo(plan.to_json(), nl=False)
    else:
        current().show(plan_report(plan))


def _nodes(source: str, device: str | None, files: tuple[Path, ...], *, wide: bool) -> None:
    """Show the device of each node, the others that support it, refusals and costs."""
    from hetsim.analysis.nodes.files import form_of
    from hetsim.analysis.nodes.nodes import nodes as ask
    from hetsim.analysis.nodes.record import nodes_record
    from hetsim.reporting.tables.analysis import PAGE_NODES, nodes_report

    invocation = current()
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
    leave_report(record, lambda: pictures_of(told), lambda: nodes_report(told, most=PAGE_NODES))
    invocation.answer(lambda: record, lambda: nodes_report(told, wide=wide))


def _asked(source: str) -> Problem | Plan:
    """Return the saved plan, the plan by --strategy, or the problem alone."""
    if source.endswith(".json") or current().strategy is not None:
        return read_plan(source)
    for option in given("objective", "settings", "affinity"):
        raise UsageError(f"{option} needs a plan", hint="give --strategy, too, e.g. heft")
    return read_problem(source)


def _lint(model: str, device: str | None, fail_on: Limit | None, *, wide: bool) -> None:
    """Show the costs in time, and the saving of each change if the same strategy plans again."""
    from hetsim.analysis.lint.lint import lint as look
    from hetsim.reporting.tables.analysis import lint_record, lint_report

    invocation = current()
    check_targets()
    name = invocation.strategy or DEFAULT_STRATEGY
    options = read_strategy_options((name,))
    problem = read_problem(model)
    options = with_affinity(options, problem)
    with invocation.progress("planning after every change"):
        found = look(
            problem, name, device=device, objective=invocation.objective or "latency", **options
        )
    record = lint_record(found)
    leave_report(record, dict, lambda: lint_report(found, wide=True))
    invocation.answer(lambda: record, lambda: lint_report(found, wide=wide))
    if fail_on is not None:
        _check_saving(found, fail_on)


def _check_saving(found: Lint, limit: Limit) -> None:
    """Raise ObjectiveMissed if one change saves at least as much as --fail-on."""
    for one in (*found.findings, *found.others):
        if (one.gain if limit.share else one.gain_s) >= limit.amount:
            saves = (
                "makes it run"
                if one.before_s is None
                else f"saves {format_seconds(one.gain_s)} ({100 * one.gain:.3g} %)"
            )
            raise ObjectiveMissed(
                f"a change {saves}, and --fail-on is {limit.text}: {one.what}; {one.change.say}",
                where=found.problem.name,
                objective=found.asked.objective,
                target_s=0.0 if limit.share else limit.amount,
                reached_s=one.gain_s,
            )


@dataclass(frozen=True, slots=True)
class InspectedFile:
    """Checked YAML file: its kind, its errors, and its contents for display.

    `line` describes a valid file; `contents` gives its record and report, for kinds that have one.
    """

    file: str
    kind: str | None
    errors: tuple[HetsimError, ...]
    line: str = ""
    name: str | None = None
    contents: Callable[[], tuple[Record, RenderableType]] | None = None
    doubts: tuple[str, ...] = ()


def _check_files(files: tuple[str, ...], *, wide: bool) -> None:
    """Show one line per file and per error; for a single valid file the contents, too."""
    from hetsim.reporting.formatting import errors_record

    invocation = current()
    for file in files:
        if not Path(file).exists():
            raise UsageError("no such file", where=file, hint=siblings(Path(file)))
    checks = [_checked(file, wide=wide) for file in files]
    wrong = sum(bool(one.errors) for one in checks)
    contents = checks[0].contents if len(checks) == 1 and not wrong else None
    record, report = (None, None) if contents is None else contents()
    if invocation.as_json:
        invocation.show_json(
            record
            or {
                "schema": "hetsim-validation/1",
                "files": [
                    {
                        "file": one.file,
                        "valid": not one.errors,
                        "sort": one.kind,
                        "name": one.name,
                        "errors": errors_record(one.errors),
                    }
                    for one in checks
                ],
            }
        )
    else:
        for one in checks:
            for told in [cut(str(error)) for error in one.errors] or [one.line]:
                invocation.say(told)
            for doubt in one.doubts:
                invocation.say(f"{one.file}: warning: {doubt}")
        if report is not None:
            invocation.say("")
            invocation.show(report)
    if wrong:
        told = "the file" if len(checks) == 1 else f"{wrong} of {len(checks)} files"
        raise InvalidInput(f"{told} cannot be used")


def _checked(file: str, *, wide: bool) -> InspectedFile:
    """Read a YAML file as the kind that its keys indicate."""
    from hetsim.hardware.files.yaml_source import read_yaml

    try:
        keys = read_yaml(Path(file), file, holds=HOLDS).data.keys()
    except InvalidInput as error:
        return InspectedFile(file, None, (error,))
    if keys & {"kinds", "hosts"}:
        from hetsim.hardware.files.inventory import load_catalog

        return _loaded(
            file,
            "catalog",
            load_catalog,
            lambda found: ", ".join(one.name for one in (*found.kinds, *found.hosts)),
        )
    # Devices have streams, too.
    if keys & {"models", "streams"} and not keys & {"kind", "peak_tflops"}:
        if not keys & {"platforms", "platform", "strategies", "workloads"}:
            return _checked_workload(file)
        from hetsim.reporting.formatting import count
        from hetsim.sweeping.files.reader import load_grid

        return _loaded(file, "grid", load_grid, lambda found: count(found.size, "point"))
    from hetsim.hardware.files.checking import check_file
    from hetsim.reporting.tables.hardware import checked_line

    found = check_file(file)
    kind = found.sort
    line = "" if found.errors else checked_line(found)
    if kind not in ("device", "link", "platform"):
        return InspectedFile(file, kind, found.errors, line, found.name)
    contents = partial(contents_of, file, kind, wide=wide)
    return InspectedFile(file, kind, found.errors, line, found.name, contents, found.doubts)


def _loaded(
    file: str, kind: str, load: Callable[[str], Any], text: Callable[[Any], str]
) -> InspectedFile:
    """Read a file of which only a line is shown, with `text` of its content."""
    try:
        found = load(file)
    except InvalidInput as error:
        return InspectedFile(file, kind, (error,))
    return InspectedFile(file, kind, (), f"{file}: valid {kind} ({text(found)})")


def _checked_workload(file: str) -> InspectedFile:
    from hetsim.reporting.tables.workload import (
        checked_workload_line,
        workload_record,
        workload_report,
    )
    from hetsim.workload.files.reader import check_workload
    from hetsim.workload.requests import summary
    from hetsim.workload.workload import Workload

    found = check_workload(file)

    def contents() -> tuple[Record, RenderableType]:
        assert isinstance(found.found, Workload)
        with current().progress("drawing requests"):
            came, ended = summary(found.found)
        return (
            workload_record(found.found, came, ended=ended),
            workload_report(found.found, came, ended=ended),
        )

    line = "" if found.errors else checked_workload_line(found)
    shown = isinstance(found.found, Workload)
    return InspectedFile(file, found.sort, found.errors, line, None, contents if shown else None)
