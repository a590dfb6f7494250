"""``hetsim workload``: files that say which requests come, and who serves them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hetsim.cli.given_once import Family
from hetsim.cli.invocation import current
from hetsim.cli.options.output import common_options, json_option
from hetsim.errors import WorkloadError

if TYPE_CHECKING:
    from hetsim.workloads.files.reader import Sort

SORTS = ("workload", "deployment")


@click.group(cls=Family)
@common_options
def workload() -> None:
    """Files that say which requests come when, and how models are served."""


@workload.command("show")
@click.argument("file")
@json_option
@common_options
def show_workload(file: str, as_json: bool) -> None:
    """Draw the requests of a workload FILE, and show what comes of each stream."""
    from hetsim.reporting.tables.workload import workload_record, workload_report
    from hetsim.workloads.files.reader import load_workload
    from hetsim.workloads.summary import summary

    invocation = current()
    found = load_workload(file)
    with invocation.progress("drawing requests"):
        came, ended = summary(found)
    if as_json:
        invocation.show_json(workload_record(found, came, ended=ended))
    else:
        invocation.show(workload_report(found, came, ended=ended))


@workload.command("validate")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@json_option
@common_options
def validate_files(files: tuple[str, ...], as_json: bool) -> None:
    """Say of each FILE what it describes, or everything that is wrong with it.

    A file is a YAML description of a workload or a deployment; the traces that a workload
    replays are read, too. Ends with exit code 3 where any is wrong.
    """
    from hetsim.base.text import cut
    from hetsim.reporting.tables.workload import checked_workload_line, checked_workload_record
    from hetsim.reporting.words.text import count
    from hetsim.workloads.files.reader import check_workload

    invocation = current()
    checks = [check_workload(file) for file in files]
    if as_json:
        invocation.show_json(
            {
                "schema": "hetsim-workload-validation/1",
                "files": [checked_workload_record(checked) for checked in checks],
            }
        )
    else:
        for checked in checks:
            for error in checked.errors:
                invocation.say(cut(str(error)))
            if not checked.errors:
                invocation.say(checked_workload_line(checked))
    wrong = [checked.file for checked in checks if checked.errors]
    if wrong:
        raise WorkloadError(f"{len(wrong)} of {count(len(files), 'file')} cannot be used")


@workload.command("schema")
@click.argument("sort", metavar="[workload|deployment]", type=click.Choice(SORTS), required=False)
@common_options
def show_schema(sort: Sort | None) -> None:
    """Print the JSON Schema of a workload or deployment file, or of both as one."""
    from hetsim.workloads.files.json_schema import workload_schema

    current().show_json(workload_schema(sort))
