"""``hetsim compare``: strategies side by side, the main report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hetsim.cli.commands import Command
from hetsim.cli.executor import execute, executor_said, require_equal
from hetsim.cli.files import check_targets, leave, leave_report, pictures_of
from hetsim.cli.invocation import current, given
from hetsim.cli.load import refuse
from hetsim.cli.options.common import output_options, verb_options, wide_option
from hetsim.cli.options.question import (
    judged_options,
    model_options,
    platform_options,
    run_options,
    several_strategies,
    strategies_option,
)
from hetsim.cli.question import (
    comparison_beside,
    read_model,
    read_problem,
    read_strategy_options,
    show_beside,
    show_sensitivities,
    with_affinity,
)
from hetsim.core.units import format_seconds
from hetsim.errors import UsageError

if TYPE_CHECKING:
    from hetsim.analysis.comparison import Comparison, Row
    from hetsim.problem.plan import Plan


@click.command(
    cls=Command,
    examples=(
        ("hetsim compare zoo:resnet50",
         "Which board or machine is fastest, and what does each cost?"),
        ("hetsim compare zoo:resnet50 --platform rock-5b,laptop --execute int8",
         "Which of two boards is faster in int8?"),
        ("hetsim compare zoo:inception_v1 --platform rock-5b",
         "Which strategy is fastest on one board, and does splitting the model pay?"),
    ),
)  # fmt: skip
@click.argument("model")
@platform_options
@strategies_option
@several_strategies(
    "Strategy to compare; repeatable.  [default: single, hetero, heft; on one platform auto, "
    "too; for throughput multi, too]"
)
@click.option(
    "--run",
    "runs",
    is_flag=True,
    help="Run the best split plan, and that of each --strategy named, and check the outputs.",
)
@judged_options
@click.option(
    "--explain",
    "explains",
    is_flag=True,
    help="Say what bounds the best plan, and which three changes would help most.",
)
@run_options
@model_options
@output_options
@wide_option
@verb_options
def compare(
    model: str,
    sustained: bool,
    draws: int,
    strategies: tuple[str, ...],
    runs: bool,
    target_s: float | None,
    explains: bool,
    sensitivities: bool,
    seed: int,
    wide: bool,
    **of_run: object,
) -> None:
    """Compare boards and machines for MODEL, or strategies on one --platform.

    Without --platform: all boards, machines and devices of the catalog, each with the latency of
    its best plan, an 80 % interval, price and power. With one platform: strategies, the best first;
    --trace and --out keep the plan of the first row.
    """
    several = _several_platforms()
    if several is not None:
        for option in given(*ONE_PLATFORM):
            hint = "add --platform NAME, e.g. --platform rock-5b"
            raise UsageError(f"{option} needs one platform", hint=hint)
        _compare_platforms(model, several, strategies, draws, seed, target_s=target_s, wide=wide)
        return
    from hetsim.analysis.comparison import DEFAULT_STRATEGIES
    from hetsim.analysis.comparison import compare as weigh
    from hetsim.reporting.tables.comparison import comparison_record, comparison_report
    from hetsim.reporting.tables.plan import checked_record, outputs_line, precision_lines

    invocation = current()
    for option in () if runs else given("executor", "address", "timeout_s"):
        raise UsageError(f"{option} has no effect without --run", hint="add --run")
    how = executor_said()
    if sustained:
        fixes = dict.fromkeys(("explains", "sensitivities"), "leave --sustained out")
        refuse(fixes, "tells of devices as fast as alone")
    check_targets()
    weighed = invocation.objective or "latency"
    names = tuple(dict.fromkeys(strategies)) or DEFAULT_STRATEGIES[weighed]
    settings = read_strategy_options(names)
    problem = read_problem(model)
    options = with_affinity(settings, problem)
    with invocation.progress(f"comparing {', '.join(names)}"):
        comparison = weigh(
            problem,
            names,
            objective=weighed,
            samples=draws,
            draw_seed=seed,
            sustained=sustained,
            **options,
        )
    record = comparison_record(comparison)
    if target_s is not None:
        record["target_s"] = target_s
    best = comparison.rows[0]
    if not invocation.as_json:
        invocation.show(comparison_report(comparison, wide=wide))
    if invocation.as_json and not best.feasible:
        invocation.show_json(record)
    best = comparison.require()
    assert best.plan is not None
    assert best.timeline is not None
    show_beside(comparison_beside(comparison, names, settings), record)
    if sensitivities:
        show_sensitivities(best.plan, comparison.objective, record)
    if explains:
        _explain(comparison, best.plan, record)
    if explains or problem.measured:
        _next_measurement(comparison, record)
    done = []
    measured = {}
    for row in chosen_to_run(comparison, strategies) if runs else ():
        assert row.plan is not None
        run = execute(row.plan, how, invocation.inputs)
        done.append((row.plan, run))
        measured[f"wall_s {row.strategy}"] = run.wall_s
        wall = (
            f"{row.strategy} on {how.executor}: {format_seconds(run.wall_s)} by the wall clock of "
            "this machine"
        )
        if invocation.as_json:
            invocation.note(wall)
        else:
            invocation.say("")
            invocation.say(wall)
            if run.precision == "device":
                for line in precision_lines(row.plan, run):
                    invocation.say(line)
            invocation.say(
                outputs_line(run.bitwise_equal, run.mismatches, run.tolerance, run.precision)
            )
    if runs:
        record["runs"] = [checked_record(plan, run) for plan, run in done]
    leave(
        best.plan,
        best.timeline,
        record,
        seed=seed,
        measured=measured,
        arrivals_s=[0.0] if weighed == "latency" else None,
    )
    leave_report(
        record, lambda: pictures_of(comparison), lambda: comparison_report(comparison, wide=wide)
    )
    if invocation.as_json:
        invocation.show_json(record)
    for plan, run in done:
        require_equal(run.mismatches, f"plan '{plan.strategy}'")
    comparison.require(target_s)


def _next_measurement(comparison: Comparison, record: dict[str, Any]) -> None:
    """Print the measurement that would most help the choice, or add it to the record."""
    from dataclasses import asdict

    from hetsim.analysis.next_measurement import next_measurement
    from hetsim.reporting.tables.comparison import next_measurement_text

    found = next_measurement(comparison)
    if found is not None:
        told = next_measurement_text(found)
        current().add(record, "next_measurement", asdict(found), told)


def _several_platforms() -> tuple[str, ...] | None:
    """Return the platforms of --platform; empty without it: the catalog. None for a single one."""
    given = current().platform
    if given is None:
        return ()
    if Path(given).exists():
        return None
    names = tuple(dict.fromkeys(name.strip() for name in given.split(",") if name.strip()))
    if len(names) == 1:
        current().platform = names[0]
    return names if len(names) > 1 else None


ONE_PLATFORM = (
    "sustained", "runs", "explains", "sensitivities", "executor", "address", "timeout_s",
    "precision", "trace", "out", "changes", "without", "profiles", "measured", "settings",
    "affinity",
)  # fmt: skip
"""Options about the plans or devices of one platform, by their parameters."""


def _compare_platforms(
    model: str,
    platforms: tuple[str, ...],
    strategies: tuple[str, ...],
    samples: int,
    seed: int,
    *,
    target_s: float | None,
    wide: bool,
) -> None:
    """Print the best platform for a model: of the catalog, or of those named."""
    from hetsim.analysis.platforms import compare_platforms
    from hetsim.cost import DEFAULT_COST
    from hetsim.cost.registry import cost_model
    from hetsim.hardware.catalog import load_platform
    from hetsim.placement.registry import resolve
    from hetsim.reporting.tables.platforms import platforms_record, platforms_report

    invocation = current()
    check_targets()
    # Names are quick to check: their errors come before the model is loaded.
    for name in strategies:
        resolve(name)
    cost = invocation.cost or DEFAULT_COST
    cost_model(cost)
    loaded = [load_platform(name) for name in platforms] or None
    read = read_model(model)
    with invocation.progress("comparing platforms"):
        found = compare_platforms(
            read,
            loaded,
            strategies or None,
            objective=invocation.objective or "latency",
            execute=invocation.execute,
            runtime=invocation.runtime,
            samples=samples,
            seed=seed,
            cost=cost,
            contention=invocation.contention or "fifo",
            pessimistic=invocation.pessimistic,
        )
    record = platforms_record(found)
    if target_s is not None:
        record["target_s"] = target_s
    invocation.answer(lambda: record, lambda: platforms_report(found, wide=wide))
    leave_report(record, dict, lambda: platforms_report(found, wide=True))
    found.require(target_s)


def _explain(comparison: Comparison, plan: Plan, record: dict[str, Any]) -> None:
    from hetsim.analysis.explanation import explain
    from hetsim.reporting.tables.analysis import explanation_record, explanation_report

    invocation = current()
    with invocation.progress(f"explaining {plan.strategy}"):
        explanation = explain(plan, objective=comparison.objective)
    report = explanation_report(explanation)
    invocation.add(record, "explanation", explanation_record(explanation), report)


def chosen_to_run(comparison: Comparison, named: tuple[str, ...]) -> list[Row]:
    """Return the rows that ``--run`` runs: the best split one and those named, best first.

    If there is neither, the best row, so that something is always checked.
    """
    feasible = [row for row in comparison.rows if row.plan is not None]
    split = [row for row in feasible if row.plan is not None and len(row.plan.devices_used) > 1]
    wanted = {row.strategy for row in split[:1]} | set(named)
    return [row for row in feasible if row.strategy in wanted] or feasible[:1]
