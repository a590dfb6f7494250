"""``hetsim report``: an HTML page of saved answers, or of the difference between two."""

from __future__ import annotations

from pathlib import Path

import click

from hetsim.cli.commands import Command
from hetsim.cli.invocation import current
from hetsim.cli.options.common import force_option, verb_options
from hetsim.reporting.output import check_file, write_file


@click.command(
    cls=Command,
    examples=(
        ("hetsim report compare.html -o page.html",
         "Make one page of one saved answer."),
        ("hetsim report before.json after.json -o moved.html",
         "What moved between two answers, and why?"),
        ("hetsim report answers/ -o index.html",
         "Make an index of all answers of a folder."),
    ),
)  # fmt: skip
@click.argument(
    "sources", nargs=-1, required=True, metavar="SOURCE...", type=click.Path(path_type=Path)
)
@click.option(
    "-o",
    "--out",
    "target",
    type=click.Path(path_type=Path),
    metavar="FILE",
    required=True,
    help="Write this HTML file.",
)
@force_option("Overwrite the file of --out.")
@click.option(
    "--index",
    "as_index",
    is_flag=True,
    help="Make an index of two answers of the same kind, and not their difference.",
)
@verb_options
def report(sources: tuple[Path, ...], target: Path, as_index: bool) -> None:
    """Make one HTML file of saved answers; no model is needed.

    A SOURCE is a report.html, the output of --json, a folder of --out or of a sweep, a plan.json,
    or a folder of several of them. Two answers of the same kind give their difference and its
    cause; several answers give an index with one section for each.
    """
    from hetsim.reporting.pages.answers import folder_island, island_of
    from hetsim.reporting.pages.difference import difference_island
    from hetsim.reporting.pages.page import page
    from hetsim.reporting.pages.saved import read_all

    invocation = current()
    check_file(target, force=invocation.force, option="--out")
    found = [left for source in sources for left in read_all(source)]
    if len(found) == 1:
        island = island_of(found[0], invocation.command)
    elif len(found) == 2 and len(sources) == 2 and not as_index and found[0].kind == found[1].kind:
        island = difference_island(found[0], found[1], invocation.command)
    else:
        named = sources[0].name if len(sources) == 1 else f"{len(found)} answers"
        each = [(left, island_of(left, invocation.command)) for left in found]
        island = folder_island(named or "Answers", each, invocation.command)
    write_file(target, page(island), force=invocation.force, option="--out")
    if invocation.as_json:
        invocation.show_json(island.record)
    else:
        invocation.say(island.verdict.say)
        if island.kind == "difference":
            invocation.say(island.verdict.binds)
    invocation.note(f"wrote {target}; open it in a browser")
