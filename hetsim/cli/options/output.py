"""Options that say what is printed, and what is left on disk."""

from __future__ import annotations

from pathlib import Path

import click

from hetsim.cli.options.values import Decorated, all_of


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


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")

wide_option = click.option(
    "--wide", is_flag=True, help="All columns, and a line for each device; wants 120 columns."
)

report_option = click.option(
    "--report",
    "report",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the answer as one HTML file, with pictures, to look at and to send.",
)

report_options = all_of(
    report_option, click.option("--force", is_flag=True, help="Let --report replace such a file.")
)
"""A report, of verbs that leave nothing else on disk."""

output_options = all_of(
    click.option(
        "--trace",
        "trace",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Write a Chrome trace, to open in ui.perfetto.dev.",
    ),
    click.option(
        "--out",
        "out",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Write plan.json, result.json, trace.json and manifest.json to a new folder.",
    ),
    report_option,
    click.option(
        "--force", is_flag=True, help="Let --trace, --out and --report replace such files."
    ),
)
"""What is left on disk."""
