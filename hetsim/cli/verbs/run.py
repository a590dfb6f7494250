"""``hetsim run``: real runs of a plan, on Ray actors or threads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hetsim.cli.commands import Command
from hetsim.cli.executor import execute, executor_said, recovery_lines, require_equal
from hetsim.cli.files import check_targets, leave, leave_report, pictures_of
from hetsim.cli.invocation import current, given
from hetsim.cli.load import OF_LOAD, check_form, options_of
from hetsim.cli.options.common import above_zero, output_options, verb_options
from hetsim.cli.options.load import served_options
from hetsim.cli.options.question import (
    draws_option,
    model_options,
    platform_options,
    run_options,
    strategy_options,
)
from hetsim.cli.question import read_plan
from hetsim.cli.under_load import serve
from hetsim.cli.verbs.compile import compiled_run_record, compiled_run_report
from hetsim.core.text import fields
from hetsim.core.units import format_seconds
from hetsim.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from hetsim.cli.executor import Executor
    from hetsim.execution.emulation import Emulation
    from hetsim.graph.inputs.arrays import Inputs
    from hetsim.problem.plan import Plan

ONE = "hetsim run MODEL"
EMULATE = "hetsim run MODEL --emulate"
LOAD = "hetsim run MODEL --rate RATE"
EMULATE_LOAD = "hetsim run MODEL --rate RATE --emulate"
FOLDER = "hetsim run DIR"

FORMS = {
    **dict.fromkeys(("failures", "draws", "precision", "plain"), (ONE,)),
    **dict.fromkeys(("trace", "out", "report", "force"), (ONE, LOAD, EMULATE_LOAD)),
    **dict.fromkeys(
        ("platform", "execute", "runtime", "changes", "without", "strategy", "objective",
         "contention", "settings", "affinity", "dims", "shapes", "canonical", "frozen",
         "extensions", "profiles", "measured", "cost", "pessimistic"),
        (ONE, EMULATE, LOAD, EMULATE_LOAD),
    ),
    **dict.fromkeys(("emulate", "time_scale"), (EMULATE, EMULATE_LOAD)),
    "requests": (EMULATE, LOAD, EMULATE_LOAD),
}  # fmt: skip
"""Forms of the verb that accept each option; other options are accepted by all."""


@click.command(
    cls=Command, rare="what-if survive",
    examples=(
        ("hetsim run zoo:inception_v1 --platform rock-5b --executor threads",
         "Run the plan in this process, and compare outputs bit by bit."),
        ("hetsim run zoo:inception_v1 --platform rock-5b --emulate",
         "Run it on Ray with devices as slow as the platform's."),
        ("hetsim run plan.json --input x=image.npy",
         "Run a saved plan on one's own input."),
    ),
)  # fmt: skip
@click.argument("source", metavar="[MODEL|PLAN.json|DIR]", required=False)
@platform_options
@strategy_options
@draws_option
@run_options
@click.option(
    "--plain",
    is_flag=True,
    help="Compare also with ONNX Runtime's default session options.",
)
@click.option(
    "--emulate",
    is_flag=True,
    help="Make devices and links as slow as the cost model says, and compare with the simulation.",
)
@click.option(
    "--time-scale",
    callback=above_zero,
    metavar="X",
    help="Real seconds of an emulated second.  [default: enough for this machine's kernels]",
)
@click.option(
    "--requests",
    type=click.IntRange(min=1),
    help="Number of requests, with --emulate or at a --rate.  [default: 1]",
)
@served_options
@model_options
@output_options
@verb_options
def run(
    source: str | None,
    draws: int,
    emulate: bool,
    time_scale: float | None,
    requests: int | None,
    **others: object,
) -> None:
    """Run a plan for real, and check that its outputs equal those of the whole model.

    The argument is a model, which --strategy plans, a saved plan.json, or a folder of `hetsim
    compile`. Exit code 1: an output differs, even in one bit. With --rate, --concurrency or
    --workload, requests arrive in real time, queue and are batched, and the answer has the
    measured figures beside the simulated ones.
    """
    from hetsim.analysis.confidence import spread
    from hetsim.execution.compiled.manifest import is_compiled
    from hetsim.reporting.tables.plan import run_record, run_report

    invocation = current()
    how = executor_said()
    folder = source is not None and is_compiled(Path(source))
    loaded = bool(given(*OF_LOAD))
    form = (EMULATE_LOAD if emulate else LOAD) if loaded else EMULATE if emulate else ONE
    if folder and not loaded:
        form = FOLDER
    check_form(form, FORMS)
    if loaded:
        serve(options_of(), how, emulate=emulate, time_scale=time_scale)
        return
    if source is None:
        raise UsageError(
            "no model is given", hint="give MODEL, PLAN.json, a folder, or --workload FILE"
        )
    check_targets()
    if folder:
        _run_folder(Path(source), how)
        return
    plan = read_plan(source, runs=True)
    if emulate:
        run_emulated(plan, how, invocation.inputs, time_scale, requests or 1)
        return
    done = execute(plan, how, invocation.inputs)
    for line in recovery_lines(done.recoveries):
        invocation.note(line)
    # With replicas each runs one request, and a lost device is lost at another point of each
    # sample: samples would be of other runs.
    other = plan.sizes or done.recoveries
    drawn_over = None if other else spread(plan, samples=draws, draw_seed=how.seed)
    record = run_record(plan, done, drawn_over)
    leave(
        plan,
        done.timeline,
        record,
        seed=how.seed,
        measured={"wall_s": done.wall_s, "compile_s": done.compile_s},
        real=done.events,
        arrivals_s=[0.0] * len(done.timeline.latencies_s),
    )
    leave_report(record, lambda: pictures_of(done), lambda: run_report(plan, done, drawn_over))
    if invocation.as_json:
        invocation.note(f"wall clock {format_seconds(done.wall_s)}")
        invocation.show_json(record)
    else:
        invocation.show(run_report(plan, done, drawn_over))
    require_equal(done.mismatches, f"plan '{plan.strategy}'")


def _run_folder(folder: Path, how: Executor) -> None:
    from hetsim.execution.compiled.run import open_compiled, run_compiled

    invocation = current()
    with invocation.progress(f"checking {folder}"):
        compiled = open_compiled(folder)
    with invocation.progress(f"running {folder}"):
        done = run_compiled(compiled, invocation.inputs, **how.where)
    if invocation.as_json:
        invocation.note(f"wall clock {format_seconds(done.wall_s)}")
        invocation.show_json(compiled_run_record(compiled, done))
    else:
        invocation.show(compiled_run_report(compiled, done))
    require_equal(done.mismatches, f"compiled plan '{folder}'")


def run_emulated(
    plan: Plan,
    how: Executor,
    inputs: Inputs | None,
    time_scale: float | None,
    requests: int,
) -> None:
    """Emulate a plan, and print its predicted and measured latency."""
    from hetsim.execution.emulation import emulate

    invocation = current()
    with invocation.progress(f"emulating {plan.strategy} on {how.executor}"):
        done = emulate(plan, inputs, requests=requests, time_scale=time_scale, **how.where)
    invocation.answer(lambda: _record(plan, done), lambda: _report(plan, done))
    require_equal(done.mismatches, f"plan '{plan.strategy}'")


def _record(plan: Plan, done: Emulation) -> dict[str, Any]:
    from hetsim.problem.record import problem_record
    from hetsim.reporting.tables.plan import plan_record

    return {
        "schema": "hetsim-emulation/1",
        "problem": problem_record(plan.problem),
        "plan": plan_record(plan),
        "requests": len(done.wall_s),
        **fields(
            done,
            "time_scale predicted_latency_s=predicted.latency_s measured_latency_s=latency_s "
            "predicted_makespan_s=predicted.makespan_s measured_makespan_s=makespan_s wall_s "
            "overrun_s bitwise_equal mismatches",
        ),
    }


def _report(plan: Plan, done: Emulation) -> RenderableType:
    from hetsim.reporting.console import bold, pairs, stack
    from hetsim.reporting.tables.plan import outputs_line, plan_rows
    from hetsim.reporting.tables.question import question

    predicted, many = done.predicted, len(done.wall_s)
    rows = [*question(plan.problem), *plan_rows(plan)]
    rows.append(("time scale", f"1 simulated second takes {done.time_scale:.4g} s"))
    for name, told, measured in (
        ("latency", predicted.latency_s, done.latency_s),
        (f"all {many}", predicted.makespan_s, done.makespan_s),
    )[: 1 if many == 1 else 2]:
        off = measured / told - 1 if told else 0.0
        rows.append(
            (
                name,
                f"{format_seconds(told)} predicted, {format_seconds(measured)} measured "
                f"({off:+.1%})",
            )
        )
    rows.append(
        (
            "overrun",
            f"at most {format_seconds(done.overrun_s)} per call, of this machine's kernels and "
            "messages; a larger --time-scale makes it smaller in proportion",
        )
    )
    return stack(pairs(rows), bold(outputs_line(done.bitwise_equal, done.mismatches)))
