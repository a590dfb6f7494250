"""Options that say what is printed, and what is left on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hetsim.cli.options.values import Decorated, Decorator, all_of, kept


def common_options(command: Decorated) -> Decorated:
    """Add --debug and --quiet, which may stand before or after the verb."""

    def set_flag(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value:
            setattr(ctx.find_root().obj, str(param.name), True)

    debug = click.option(
        "--debug",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=set_flag,
        help="Show the traceback of an error.",
    )
    quiet = click.option(
        "-q",
        "--quiet",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=set_flag,
        help="No progress or notes on stderr.",
    )
    return debug(quiet(command))


json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    expose_value=False,
    callback=kept(),
    help="Print JSON instead of tables.",
)

wide_option = click.option(
    "--wide", is_flag=True, help="All columns, and a line for each device; wants 120 columns."
)

report_option = click.option(
    "--report",
    type=click.Path(path_type=Path),
    expose_value=False,
    callback=kept(),
    metavar="FILE",
    help="Write the answer as one HTML file, with pictures, to look at and to send.",
)


def force_option(told: str) -> Decorator[Any]:
    """Return --force, which lets what it tells of replace what is there."""
    return click.option("--force", is_flag=True, expose_value=False, callback=kept(), help=told)


report_options = all_of(report_option, force_option("Let --report replace such a file."))
"""A report, of verbs that leave nothing else on disk."""

output_options = all_of(
    click.option(
        "--trace",
        type=click.Path(path_type=Path),
        expose_value=False,
        callback=kept(),
        metavar="FILE",
        help="Write a Chrome trace, to open in ui.perfetto.dev.",
    ),
    click.option(
        "--out",
        type=click.Path(path_type=Path),
        expose_value=False,
        callback=kept(),
        metavar="DIR",
        help="Write plan.json, result.json, trace.json and manifest.json to a new folder.",
    ),
    report_option,
    force_option("Let --trace, --out and --report replace such files."),
)
"""What is left on disk."""
