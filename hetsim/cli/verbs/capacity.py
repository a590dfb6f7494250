"""``hetsim capacity``: which rates a platform carries within what is asked of latencies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from hetsim.cli.commands import Command
from hetsim.cli.invocation import current
from hetsim.cli.options.common import above_zero, common_options, json_option, report_options
from hetsim.cli.options.load import capacity_options
from hetsim.cli.options.question import (
    contention_option,
    limit_options,
    model_options,
    objective_option,
    pessimistic_option,
    platform_options,
    price_options,
    seed_option,
)

if TYPE_CHECKING:
    from hetsim.cli.load import Load
    from hetsim.workload.deployment import Deployment, DynamicBatching
    from hetsim.workload.workload import Slo, Workload

DEFAULT_STRATEGIES = ("single", "heft")


@click.command(cls=Command)
@click.argument("source", metavar="[MODEL|PLAN.json]", required=False)
@platform_options
@click.option(
    "--strategy",
    "strategies",
    multiple=True,
    metavar="NAME",
    help="Strategy to compare; repeatable.  [default: single, heft]",
)
@objective_option
@limit_options
@contention_option
@price_options
@pessimistic_option
@seed_option
@click.option(
    "--target-rate",
    callback=above_zero,
    metavar="PER_SECOND",
    help="End with exit code 5 where nothing carries so many requests a second.",
)
@click.option(
    "--requests",
    "most_requests",
    type=click.IntRange(min=1),
    help="After how many a run at one rate ends undecided.  [default: 1048576]",
)
@capacity_options
@model_options
@report_options
@json_option
@common_options
def capacity(
    strategies: tuple[str, ...],
    target_rate: float | None,
    most_requests: int | None,
    workload: str | None,
    slos: tuple[Slo, ...],
    survive: int | None,
    batchings: tuple[DynamicBatching, ...],
    **of_load: object,
) -> None:
    """Say which rates meet each --slo, by strategy and batching.

    The argument is a model, or a saved plan. Without --workload its requests come by --arrivals;
    a workload comes faster or slower as a whole, and where it has a trace the answer is of
    that trace. The answer is proved where it can be: the highest rate that meets, the lowest
    that misses, and what is undecided between.
    """
    from hetsim.cli.files import check_targets
    from hetsim.cli.load import said, told_where, workload_of
    from hetsim.cli.question import read_platform, supposed
    from hetsim.cli.reports import report_of_capacity
    from hetsim.cli.under_load import asked_of, with_options
    from hetsim.errors import UsageError
    from hetsim.provisioning.rates.capacity import BUDGET, capacity
    from hetsim.reporting.tables.capacity import best_sentence, capacity_record, capacity_report

    invocation = current()
    check_targets()
    if workload is None and not slos:
        raise UsageError("nothing is asked of latencies", hint="give --slo, e.g. --slo p99=50ms")
    strategy = strategies[0] if strategies else None
    load, hardware, asked = asked_of(said(rate=1.0, requests=1, strategy=strategy))
    comes = workload_of(load)
    named = dict(_named(load, comes, strategies, batchings))
    asked = with_options(asked, tuple(named.values()))
    most = most_requests or BUDGET
    first = next(iter(named.values()))
    told = told_where(comes, load.workload, first, load.deployment)
    with invocation.progress("looking for the rates that meet it"), told:
        limits: dict[str, int] = {"most_requests": most, "losses": survive or 0}
        found = capacity(named, comes, platform=hardware, settings=asked, **limits)
        was = None
        if supposed():
            as_it_is = read_platform(as_it_is=True)
            was = capacity(named, comes, platform=as_it_is, settings=asked, **limits)
    record = capacity_record(found)
    if target_rate is not None:
        record["target_per_s"] = target_rate
    if was is not None:
        record["as_it_is"] = capacity_record(was)
    report_of_capacity(load, named, found, hardware, record)
    invocation.answer(lambda: record, lambda: capacity_report(found))
    if was is not None and not invocation.as_json:
        invocation.say(f"As it is: {best_sentence(was)}")
    found.require(target_rate)


def _named(
    load: Load,
    workload: Workload,
    strategies: Sequence[str],
    batchings: Sequence[DynamicBatching],
) -> Iterator[tuple[str, Deployment]]:
    """Give the deployments that are compared: without batches, and with each of those named."""
    from hetsim.cli.load import OF_DEPLOYMENT, deployment_of, refuse

    if load.deployment is not None:
        refuse(
            {"strategies": OF_DEPLOYMENT["strategy"], "batchings": OF_DEPLOYMENT["batching"]},
            "cannot go with --deployment, which says it itself",
        )
        yield load.deployment, deployment_of(load, workload)
        return
    names = dict.fromkeys(strategies) or dict.fromkeys(DEFAULT_STRATEGIES)
    if load.plan is not None:
        names = {load.plan: None}
    for strategy in names:
        own = replace(load, strategy=None if load.plan is not None else strategy)
        yield strategy, deployment_of(own, workload)
        for batching in dict.fromkeys(batchings):
            with_batches = replace(own, batching=batching)
            yield _told(strategy, batching), deployment_of(with_batches, workload)


def _told(strategy: str, batching: DynamicBatching) -> str:
    waits = f" in {batching.max_queue_delay_us} us" if batching.max_queue_delay_us else ""
    return f"{strategy}, batches of {batching.max_batch_size}{waits}"
