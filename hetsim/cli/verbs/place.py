"""``hetsim place``: which instances of which model on which devices."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hetsim.cli.commands import Command
from hetsim.cli.invocation import current
from hetsim.cli.options.common import common_options, force_option, json_option, report_option
from hetsim.cli.options.load import place_options
from hetsim.cli.options.question import (
    contention_option,
    limit_options,
    model_options,
    pessimistic_option,
    platform_options,
    price_options,
)

if TYPE_CHECKING:
    from hetsim.workload.deployment import DynamicBatching, Routing


@click.command(cls=Command)
@platform_options
@click.option(
    "--strategy",
    "strategies",
    multiple=True,
    metavar="NAME",
    help="What plans a model over several devices; repeatable.  [default: heft, pipeline]",
)
@click.option(
    "--placements",
    "most",
    type=click.IntRange(min=1),
    help="How many sets of instances are simulated, of each way to batch.  [default: 4]",
)
@click.option(
    "--requests",
    "most_requests",
    type=click.IntRange(min=1),
    help="After how many drawn requests a run ends undecided, whatever the workload says of its "
    "end.  [default: 1048576]",
)
@place_options
@limit_options
@contention_option
@price_options
@pessimistic_option
@model_options
@click.option(
    "--out",
    "out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the best placement as a deployment, which --deployment takes.",
)
@report_option
@force_option("Let --out and --report replace such files.")
@json_option
@common_options
def place(
    strategies: tuple[str, ...],
    most: int | None,
    most_requests: int | None,
    workload: str | None,
    batchings: tuple[DynamicBatching, ...],
    routing: Routing | None,
    out: Path | None,
    **of_load: object,
) -> None:
    """Say on which devices the models of a --workload are best placed.

    Each model may have instances on every device alone and split over several. Of all sets
    of them that fit the memory, what carries the largest multiple of the demand is found, with
    a bound beside it; the best few are simulated, and each model is shown with the others
    and without.
    """
    from hetsim.cli.files import check_targets
    from hetsim.cli.load import said, told_where, workload_of
    from hetsim.cli.question import read_platform, supposed
    from hetsim.cli.reports import report_of_placement
    from hetsim.cli.under_load import asked_of, with_options
    from hetsim.errors import UsageError
    from hetsim.provisioning.instances.offers import ALONE, MOST, SPLITS
    from hetsim.provisioning.instances.place import place_of
    from hetsim.provisioning.rates.capacity import BUDGET
    from hetsim.reporting.output import check_file, write_file
    from hetsim.reporting.tables.place import best_sentence, place_record, place_report
    from hetsim.workload.deployment import Deployment, Instances, Served
    from hetsim.workload.files.reader import deployment_yaml

    invocation = current()
    if workload is None:
        raise UsageError("no --workload is given", hint="give --workload FILE")
    if out is not None:
        check_file(out, force=invocation.force, option="--out")
    check_targets()
    load, hardware, asked = asked_of(said())
    comes = workload_of(load)
    splits = tuple(dict.fromkeys(strategies)) or SPLITS
    planners = tuple(Instances(strategy=name) for name in splits)
    named = Deployment((Served(comes.streams[0].model, ALONE, instances=planners),))
    seek = partial(
        place_of,
        comes,
        asked=with_options(asked, (named,)),
        batchings=batchings,
        strategies=splits,
        routing=routing,
        most=most or MOST,
        most_requests=most_requests or BUDGET,
    )
    with (
        invocation.progress("looking for the best placement"),
        told_where(comes, workload, named, None),
    ):
        found = seek(hardware)
        was = None
        if supposed():
            was = seek(read_platform(as_it_is=True))
    record = place_record(found)
    if was is not None:
        record["as_it_is"] = place_record(was)
    invocation.answer(lambda: record, lambda: place_report(found))
    if was is not None and not invocation.as_json:
        invocation.say(f"As it is: {best_sentence(was)}")
    report_of_placement(found, load, record, out=out)
    if out is not None and found.rows:
        about = f"{' '.join(invocation.command)}\n{best_sentence(found)}"
        write_file(
            out,
            deployment_yaml(found.deployment, out.parent, about),
            force=invocation.force,
            option="--out",
        )
        invocation.note(f"wrote the best placement to {out}; hetsim simulate --deployment takes it")
    found.require()
