"""``hetsim simulate``: latency of one plan, under load, and the highest rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hetsim.cli.commands import Command
from hetsim.cli.executor import cost_lines, cost_record
from hetsim.cli.files import check_targets, leave, leave_report, pictures_of
from hetsim.cli.invocation import current, given
from hetsim.cli.load import OF_LOAD, check_form, options_of, refuse, single_value
from hetsim.cli.options.common import duration, output_options, per_second, verb_options
from hetsim.cli.options.load import load_options
from hetsim.cli.options.question import (
    judged_options,
    model_options,
    platform_options,
    seed_option,
    several_strategies,
)
from hetsim.cli.question import (
    kept_as_supposed,
    plan_beside,
    read_plan,
    show_beside,
    show_sensitivities,
    supposed,
)
from hetsim.cli.under_load import find_rates
from hetsim.cli.under_load import play as under_load
from hetsim.errors import UsageError

if TYPE_CHECKING:
    from hetsim.workload.deployment import DynamicBatching
    from hetsim.workload.failure import Failure

FOLLOWED = 1000
"""Maximum number of requests with memory tracked over time; beyond, only weights are checked."""

ONE = "hetsim simulate MODEL"
LOAD = "hetsim simulate MODEL --rate RATE"
SEARCH = "hetsim simulate MODEL --max-rate"

FORMS = {
    **dict.fromkeys(("interval_s", "draws", "sustained", "target_s"), (ONE,)),
    **dict.fromkeys(("sensitivities", "failures", "trace", "out"), (ONE, LOAD)),
    **dict.fromkeys(
        ("rate", "speedup", "concurrency", "think_s", "within", "duration_s", "mtbf", "mttr",
         "availability", "available", "prices", "tariff", "lifetime"),
        (LOAD,),
    ),
}  # fmt: skip
"""Forms of the verb that accept each option; other options are accepted by all."""

FIXES = {
    "interval_s": "give --arrivals constant for evenly spaced requests",
    "draws": "leave it out, or give --pessimistic for the slow end of the 80 % intervals",
    "target_s": "give --slo, e.g. --slo p99=50ms",
    "rate": "leave it out, or ask for one rate with --target-rate",
}
"""Options to give instead."""


@click.command(
    cls=Command,
    rare="survive",
    examples=(
        ("hetsim simulate zoo:resnet50 --platform laptop --strategy heft",
         "How long does one request take, and what does each device do?"),
        ("hetsim simulate zoo:resnet50 --platform laptop --rate 100 --slo p99=50ms",
         "Which percentiles do 100 requests a second see?"),
        ("hetsim simulate zoo:resnet50 --platform laptop --max-rate --slo p99=20ms",
         "Which rate does the platform sustain with P99 below 20 ms?"),
    ),
)  # fmt: skip
@click.argument("source", metavar="[MODEL|PLAN.json]", required=False)
@click.option(
    "--max-rate",
    is_flag=True,
    help="Find the highest rate that meets every --slo, by strategy and batching.",
)
@click.option(
    "--target-rate",
    callback=per_second,
    metavar="RATE",
    help="Like --max-rate, with exit code 5 where nothing sustains RATE, e.g. 100/s.",
)
@platform_options
@several_strategies(
    "Strategy to plan with; repeatable with --max-rate.  [default: heft; with --max-rate "
    "single and heft]"
)
@judged_options
@seed_option
@click.option(
    "--requests",
    type=click.IntRange(min=1),
    help="Number of requests; with --max-rate, most of each simulation.  [default: 1; under load "
    "until each --slo is decided]",
)
@click.option(
    "--interval",
    "interval_s",
    default="0",
    callback=duration(zero=True),
    show_default=True,
    metavar="TIME",
    help="Time between the arrivals of two requests, e.g. 5ms.",
)
@load_options
@model_options
@output_options
@verb_options
def simulate(
    source: str | None,
    max_rate: bool,
    target_rate: float | None,
    strategies: tuple[str, ...],
    batchings: tuple[DynamicBatching, ...],
    sustained: bool,
    draws: int,
    seed: int,
    target_s: float | None,
    sensitivities: bool,
    requests: int | None,
    interval_s: float,
    failures: tuple[Failure, ...],
    **of_load: object,
) -> None:
    """Simulate a plan: latency, utilization, memory and energy.

    The argument is a model, which --strategy plans, or a saved plan.json. With --rate,
    --concurrency or --workload, requests queue: the answer has percentiles with confidence
    intervals and a verdict on each --slo. --max-rate finds the highest rate that meets them.
    """
    from hetsim.analysis.comparison import check_target
    from hetsim.analysis.confidence import spread
    from hetsim.analysis.sustained_speed import SustainedSpeed
    from hetsim.placement.objective import kept_s
    from hetsim.reporting.tables.plan import simulation_record, simulation_report, slower_record
    from hetsim.simulation.simulate import simulate as play

    invocation = current()
    search = max_rate or target_rate is not None
    form = SEARCH if search else LOAD if given(*OF_LOAD) else ONE
    check_form(form, FORMS, FIXES)
    if search:
        load = options_of(strategy=strategies[0] if strategies else None, batching=None)
        find_rates(load, strategies, batchings, target_rate)
        return
    invocation.strategy = single_value("--strategy", strategies)
    if form == LOAD:
        under_load(options_of())
        return
    if source is None:
        raise UsageError("no model is given", hint="give MODEL, PLAN.json, or --workload FILE")
    if sustained:
        refuse({"sensitivities": "leave --sustained out"}, "tells of devices as fast as alone")
    if failures:
        refuse({"sensitivities": "leave --inject out"}, "tells of devices that do not fail")
    requests = requests or 1
    check_targets()
    contention, objective = invocation.contention, invocation.objective
    plan = read_plan(source, plays=True, supposes=True)
    was = None
    if source.endswith(".json") and supposed():
        was, plan = plan, kept_as_supposed(plan)
    arrivals_s = [request * interval_s for request in range(requests)]
    asked = plan
    if sustained:
        plan = SustainedSpeed(plan.problem).of_requests(plan, arrivals_s, contention=contention)
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
    # A failure at a given time hits another task in each sample, so there is no interval.
    if not failures:
        with invocation.progress(f"simulating {draws} Monte Carlo samples"):
            drawn_over = spread(
                plan, arrivals_s, contention=contention, samples=draws, draw_seed=seed
            )
        if drawn_over is None and draws and not plan.problem.certain:
            invocation.note("too many tasks for an interval; give fewer --requests or --samples")
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
    leave_report(
        record,
        lambda: pictures_of(drawn),
        lambda: simulation_report(plan, timeline, drawn_over, sustained=sustained),
    )
    if invocation.as_json:
        invocation.show_json(record)
    if target_s is not None:
        weighed = objective or "latency"
        # Every request must meet it.
        reached_s = max(timeline.latencies_s) if weighed == "latency" else kept_s(plan)
        check_target(weighed, reached_s, target_s, f"plan '{plan.strategy}'")
