"""``hetsim sweep``: a grid of questions, one row of answers for each point."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from hetsim.cli.commands import Command
from hetsim.cli.files import check_targets, leave_report, pictures_of
from hetsim.cli.invocation import current
from hetsim.cli.options.common import report_options, verb_options
from hetsim.cli.options.question import address_option, executor_option


@click.command(
    cls=Command,
    examples=(
        ("hetsim sweep grid.yaml -o answers",
         "Answer every point; the same command continues an interrupted sweep."),
        ("hetsim sweep grid.yaml -o answers --front p99_s,energy_per_1000_j",
         "Which points are on the Pareto front of P99 and energy?"),
        ("hetsim inspect --schema grid",
         "What may a grid file contain?"),
    ),
)  # fmt: skip
@click.argument("file", metavar="GRID.yaml")
@click.option(
    "-o",
    "--out",
    "folder",
    required=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of the rows; points that it holds are not answered again.",
)
@executor_option("Answer points as Ray tasks on all cores, or one by one in this process.")
@address_option
@click.option(
    "--front",
    metavar="COLUMN[:min|max],...",
    help="Show the Pareto front of these columns in place of all rows, e.g. p99_s,energy_j.",
)
@report_options
@verb_options
def sweep(
    file: str,
    folder: Path,
    executor: Literal["ray", "threads"],
    address: str | None,
    front: str | None,
) -> None:
    """Answer every point of a grid of models, platforms, strategies, precisions and workloads.

    Each point is one row of DIR/rows.jsonl, in the order of the grid, with its answer or its
    error. A sweep that was interrupted continues where it stopped.
    """
    from hetsim.reporting.tables.sweep import progress_text, sweep_record, sweep_report
    from hetsim.sweeping.files.reader import load_grid
    from hetsim.sweeping.verb import sweep as answer_all

    invocation = current()
    check_targets()
    wishes = [] if front is None else front.split(",")
    grid = load_grid(file)
    with invocation.progress(f"sweeping {grid.size} points") as tell:
        found = answer_all(
            grid,
            folder,
            executor=executor,
            address=address,
            front=wishes,
            tell=lambda so_far: tell(progress_text(so_far), left_s=so_far.left_s),
        )
    record = sweep_record(found)
    leave_report(record, lambda: pictures_of(found), lambda: sweep_report(found))
    invocation.answer(lambda: record, lambda: sweep_report(found))
