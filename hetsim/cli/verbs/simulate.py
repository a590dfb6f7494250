"""``hetsim simulate``: one plan on the virtual clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hetsim.cli.commands import Command
from hetsim.cli.invocation import current
from hetsim.cli.options.common import common_options, from_zero, json_option, output_options
from hetsim.cli.options.load import load_options
from hetsim.cli.options.question import (
    draws_option,
    model_options,
    platform_options,
    seed_option,
    sensitivities_option,
    strategy_options,
    sustained_option,
    target_option,
)
from hetsim.cli.running import inject_option

if TYPE_CHECKING:
    from hetsim.core.text import Record
    from hetsim.problem.plan import Plan
    from hetsim.problem.timeline import Timeline
    from hetsim.workload.failure import Failure

FOLLOWED = 1000
"""Requests up to which memory is followed over time; beyond, the weights alone are checked."""


@click.command(
    cls=Command,
    examples=(
        ("hetsim simulate zoo:resnet50 --platform laptop --strategy heft",
         "How long does one request take, and what does each device do?"),
        ("hetsim simulate zoo:resnet50 --platform laptop --rate 100 --slo p99=50ms",
         "Which percentiles do 100 requests a second see?"),
        ("hetsim simulate zoo:resnet50 --platform laptop --target 7ms",
         "Does the plan meet 7 ms? Exit code 5: it misses."),
    ),
)  # fmt: skip
@click.argument("source", metavar="[MODEL|PLAN.json]", required=False)
@platform_options
@strategy_options
@sustained_option
@draws_option
@seed_option
@target_option
@sensitivities_option
@click.option(
    "--requests",
    type=click.IntRange(min=1),
    help="How many.  [default: 1; at a --rate until each --slo is answered, else 65536]",
)
@click.option(
    "--interval-ms",
    default="0",
    callback=from_zero,
    show_default=True,
    metavar="MS",
    help="Time from one request's arrival to the next's.",
)
@load_options
@inject_option
@model_options
@output_options
@json_option
@common_options
def simulate(
    source: str | None,
    sustained: bool,
    draws: int,
    seed: int,
    target_s: float | None,
    sensitivities: bool,
    requests: int | None,
    interval_ms: float,
    failures: tuple[Failure, ...],
    **of_load: object,
) -> None:
    """Play a plan on the virtual clock: latency, utilization, memory, energy.

    The argument is a model, which is planned for by --strategy, or a saved plan.json. With --rate,
    --concurrency or --workload requests come at times of their own, and wait for each other:
    percentiles with intervals, and verdicts on each --slo. `hetsim workload` tells of the files.
    """
    from hetsim.analysis.comparison import check_target
    from hetsim.analysis.sureness import spread
    from hetsim.analysis.sustaining import Sustaining
    from hetsim.cli.files import check_targets, leave, leave_report
    from hetsim.cli.load import OF_LOAD, given, said
    from hetsim.cli.question import (
        kept_as_supposed,
        plan_beside,
        read_plan,
        show_beside,
        show_sensitivities,
        supposed,
    )
    from hetsim.cli.running import cost_lines, cost_record
    from hetsim.cli.under_load import play as under_load
    from hetsim.errors import UsageError
    from hetsim.placement.objective import kept_s
    from hetsim.reporting.tables.plan import simulation_report
    from hetsim.reporting.tables.records import simulation_record, slower_record
    from hetsim.simulation.simulate import simulate as play

    if given(*OF_LOAD):
        under_load(said())
        return
    if source is None:
        raise UsageError("no model is given", hint="give MODEL, PLAN.json, or --workload FILE")
    invocation = current()
    requests = requests or 1
    check_targets()
    contention, objective = invocation.contention, invocation.objective
    plan = read_plan(source, plays=True, supposes=True)
    was = None
    if source.endswith(".json") and supposed():
        was, plan = plan, kept_as_supposed(plan)
    arrivals_s = [request * interval_ms / 1e3 for request in range(requests)]
    asked = plan
    if sustained:
        plan = Sustaining(plan.problem).of_requests(plan, arrivals_s, contention=contention)
    with invocation.progress(f"simulating {requests} requests of {plan.strategy}"):
        traced = requests <= FOLLOWED or bool(failures)
        timeline = play(
            plan, arrivals_s=arrivals_s, contention=contention, trace=traced, failures=failures
        )
        drawn = timeline
        if not traced and not (invocation.trace is invocation.out is invocation.report is None):
            drawn = play(plan, arrivals_s=arrivals_s, contention=contention)
        calm = timeline
        if failures:
            calm = play(plan, arrivals_s=arrivals_s, contention=contention, trace=False)
    drawn_over = None
    # A failure at a time hits another task in each draw: what that costs is not told so.
    if not failures:
        with invocation.progress(f"drawing {draws} times what figures may be off by"):
            drawn_over = spread(
                plan, arrivals_s, contention=contention, samples=draws, draw_seed=seed
            )
        if drawn_over is None and draws and not plan.problem.certain:
            invocation.note("too many tasks for an interval: give fewer --requests or --samples")
    record = simulation_record(asked, timeline, drawn_over)
    record["sustained"] = sustained
    record["slower"] = slower_record(plan.problem, plan.problem.slower)
    if target_s is not None:
        record["target_s"] = target_s
    if failures:
        record["failures"] = cost_record(timeline, calm)
    if not invocation.as_json:
        invocation.show(simulation_report(plan, timeline, drawn_over, sustained=sustained))
        if failures:
            for line in cost_lines(record["failures"], timeline):
                invocation.show(line)
    show_beside(plan_beside(asked, was), record)
    if sensitivities:
        show_sensitivities(asked, objective or "latency", record)
    leave(asked, drawn, record, seed=seed, arrivals_s=arrivals_s)
    one = requests == 1 and not (failures or sustained)
    leave_report(
        record,
        lambda: _pictures(plan, drawn, alone=one),
        lambda: simulation_report(plan, timeline, drawn_over, sustained=sustained),
    )
    if invocation.as_json:
        invocation.show_json(record)
    if target_s is not None:
        weighed = objective or "latency"
        # Every request is to meet it.
        reached_s = max(timeline.latencies_s) if weighed == "latency" else kept_s(plan)
        check_target(weighed, reached_s, target_s, f"plan '{plan.strategy}'")


def _pictures(plan: Plan, timeline: Timeline, *, alone: bool) -> Record:
    """What the page draws; of one request `alone` other speeds of devices, too."""
    from hetsim.reporting.pages.alternatives import speeds_picture
    from hetsim.reporting.pages.subgraphs import plans_picture
    from hetsim.reporting.pages.timeline_of_trace import pictures_of

    command, contention = current().command, current().contention
    found = {**pictures_of([(plan.strategy, plan, timeline)]), **plans_picture([plan])}
    if alone:
        found["speeds"] = speeds_picture(plan, command, "simulate", contention=contention)
    return found
