"""``hetsim partition``: the subgraphs that devices can take whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hetsim.cli.options import (
    common_options,
    json_option,
    model_options,
    platform_option,
)
from hetsim.cli.session import current
from hetsim.errors import UsageError, nearest

if TYPE_CHECKING:
    from hetsim.cli.question import Canonical


@click.command()
@click.argument("model")
@platform_option
@click.option(
    "--method",
    default="compact",
    show_default=True,
    metavar="NAME",
    help="Merge method; `hetsim strategies` lists them.",
)
@click.option(
    "--priority",
    metavar="DEVICE,...",
    help="A node goes to the first of these that supports it.  [default: all, the host last]",
)
@model_options
@json_option
@common_options
def partition(
    model: str,
    platform: str | None,
    method: str,
    priority: str | None,
    dims: dict[str, int],
    shapes: dict[str, tuple[int, ...]],
    canonical: Canonical | None,
    as_json: bool,
) -> None:
    """Cut MODEL into groups of nodes that a device can run whole."""
    from hetsim.cli.question import read_problem
    from hetsim.partitioning.methods import methods
    from hetsim.partitioning.methods import partition as cut
    from hetsim.reporting.plan_table import partition_report
    from hetsim.reporting.result import partition_record

    session = current()
    known = [info.name for info in methods()]
    if method not in known:
        raise UsageError(f"no merge method '{method}'", hint=nearest(method, known))
    order = None if priority is None else [name.strip() for name in priority.split(",")]
    if order is not None and (not all(order) or len(set(order)) != len(order)):
        raise UsageError(
            f"'{priority}' is no list of different devices",
            where="--priority",
            hint="write e.g. --priority npu,gpu,cpu",
        )
    problem = read_problem(model, platform, dims, shapes, canonical)
    with session.progress(f"partitioning with {method}"):
        made = cut(problem, method, priority=order)
    if as_json:
        session.show_json(partition_record(problem, made))
    else:
        session.show(partition_report(problem, made))
