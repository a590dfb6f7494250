"""``hetsim workload``: files that say which requests come, and who serves them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hetsim.cli.commands import Family
from hetsim.cli.files import show_checked
from hetsim.cli.invocation import current
from hetsim.cli.options.common import common_options, json_option
from hetsim.errors import WorkloadError

if TYPE_CHECKING:
    from hetsim.workload.files.reader import Sort

SORTS = ("workload", "deployment")


@click.group(cls=Family)
@common_options
def workload() -> None:
    """Files that say which requests come when, and how models are served."""


@workload.command("show")
@click.argument("file")
@json_option
@common_options
def show_workload(file: str) -> None:
    """Draw the requests of a workload FILE, and show what comes of each stream."""
    from hetsim.reporting.tables.workload import workload_record, workload_report
    from hetsim.workload.files.reader import load_workload
    from hetsim.workload.requests import summary

    invocation = current()
    found = load_workload(file)
    with invocation.progress("drawing requests"):
        came, ended = summary(found)
    invocation.answer(
        lambda: workload_record(found, came, ended=ended),
        lambda: workload_report(found, came, ended=ended),
    )


@workload.command("validate")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@json_option
@common_options
def validate_files(files: tuple[str, ...]) -> None:
    """Say of each FILE what it describes, or everything that is wrong with it.

    A file is a YAML description of a workload or a deployment; the traces that a workload
    replays are read, too. Ends with exit code 3 where any is wrong.
    """
    from hetsim.reporting.tables.workload import checked_workload_line, checked_workload_record
    from hetsim.workload.files.reader import check_workload

    checks = [check_workload(file) for file in files]
    record = {
        "schema": "hetsim-workload-validation/1",
        "files": [checked_workload_record(checked) for checked in checks],
    }
    lines = [(one.file, one.errors, checked_workload_line(one)) for one in checks]
    show_checked(record, lines, WorkloadError)


@workload.command("schema")
@click.argument("sort", metavar="[workload|deployment]", type=click.Choice(SORTS), required=False)
@common_options
def show_schema(sort: Sort | None) -> None:
    """Print the JSON Schema of a workload or deployment file, or of both as one."""
    from hetsim.workload.files.reader import workload_schema

    current().show_json(workload_schema(sort))
