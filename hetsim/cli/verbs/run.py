"""``hetsim run``: one plan for real, on Ray actors or threads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
from click.core import ParameterSource

from hetsim.cli.commands import Command
from hetsim.cli.invocation import current
from hetsim.cli.options.common import common_options, json_option, output_options
from hetsim.cli.options.load import load_options
from hetsim.cli.options.question import (
    draws_option,
    model_options,
    platform_options,
    run_options,
    strategy_options,
)
from hetsim.cli.running import inject_option, recovery_lines
from hetsim.cli.verbs.emulate import check_emulate, emulate_options, run_emulated
from hetsim.errors import UsageError

if TYPE_CHECKING:
    from hetsim.core.text import Record
    from hetsim.execution.run import Run
    from hetsim.problem.plan import Plan
    from hetsim.workload.failure import Failure


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
    help="Compare with ONNX Runtime's default session options, too.",
)
@inject_option
@emulate_options
@load_options
@model_options
@output_options
@json_option
@common_options
def run(
    source: str | None,
    draws: int,
    executor: Literal["ray", "threads"],
    address: str | None,
    seed: int,
    timeout_s: float,
    precision: Literal["graph", "device"],
    plain: bool,
    failures: tuple[Failure, ...],
    emulate: bool,
    time_scale: float | None,
    requests: int | None,
    **of_load: object,
) -> None:
    """Run a plan for real and check that its outputs are those of the whole model.

    The argument is a model, which is planned for by --strategy, a saved plan.json, or a
    folder that `hetsim compile` wrote. The run ends with exit code 1 where an output differs
    in a single bit. With --rate, --concurrency or --workload requests come by the wall clock, wait
    for each other and are batched, and what became of them stands beside the simulation.
    """
    from hetsim.analysis.sureness import spread
    from hetsim.cli.files import check_targets, leave, leave_report
    from hetsim.cli.load import OF_LOAD, OF_SIMULATION, given, said
    from hetsim.cli.question import read_plan
    from hetsim.cli.running import Executor, execute, require_equal
    from hetsim.cli.under_load import serve
    from hetsim.core.units import format_seconds
    from hetsim.execution.compiled.manifest import is_compiled
    from hetsim.reporting.tables.plan import run_report
    from hetsim.reporting.tables.records import run_record

    invocation = current()
    if address is not None and executor != "ray":
        raise UsageError("--address needs --executor ray")
    for option in given(*OF_SIMULATION):
        raise UsageError(
            f"{option} is simulated, and not taken by a run", hint="give it to hetsim simulate"
        )
    how = Executor(executor, address, seed, timeout_s, precision, failures, plain)
    if given(*OF_LOAD):
        if time_scale is not None and not emulate:
            raise UsageError("--time-scale needs --emulate", hint="add --emulate, or drop it")
        serve(said(), how, emulate=emulate, time_scale=time_scale)
        return
    if source is None:
        raise UsageError(
            "no model is given", hint="give MODEL, PLAN.json, a folder, or --workload FILE"
        )
    others = {
        "--inject": bool(failures),
        "--trace": invocation.trace is not None,
        "--out": invocation.out is not None,
        "--report": invocation.report is not None,
        "--precision device": precision == "device",
        "--plain": plain,
    }
    check_emulate(emulate, time_scale, requests, others)
    check_targets()
    if is_compiled(Path(source)):
        _run_folder(Path(source), executor, address, timeout_s, seed)
        return
    plan = read_plan(source, runs=True)
    if emulate:
        run_emulated(plan, how, invocation.inputs, time_scale, requests or 1)
        return
    done = execute(plan, how, invocation.inputs)
    for line in recovery_lines(done.recoveries):
        invocation.note(line)
    drawn_over = spread(plan, samples=draws, draw_seed=seed)
    record = run_record(plan, done, drawn_over)
    leave(
        plan,
        done.timeline,
        record,
        seed=seed,
        measured={"wall_s": done.wall_s, "compile_s": done.compile_s},
        real=done.events,
        arrivals_s=[0.0] * len(done.timeline.latencies_s),
    )
    leave_report(record, lambda: _pictures(plan, done), lambda: run_report(plan, done, drawn_over))
    if invocation.as_json:
        invocation.note(f"wall clock {format_seconds(done.wall_s)}")
        invocation.show_json(record)
    else:
        invocation.show(run_report(plan, done, drawn_over))
    require_equal(done.mismatches, f"plan '{plan.strategy}'")


def _pictures(plan: Plan, done: Run) -> Record:
    """What the page draws."""
    from hetsim.reporting.pages.subgraphs import plans_picture
    from hetsim.reporting.pages.timeline_of_trace import pictures_of

    played = [(plan.strategy, plan, done.timeline)]
    return {**pictures_of(played, done.events), **plans_picture([plan])}


_FIXED = (
    "platform", "execute", "changes", "without", "strategy", "objective", "contention", "settings",
    "affinity", "precision", "dims", "shapes", "canonical", "frozen", "extensions", "profiles",
    "cost", "trace", "out", "report", "force", "failures", "plain", "emulate", "time_scale",
    "requests", "draws", "pessimistic",
)  # fmt: skip
"""Options that a compiled plan has fixed, or that need its timeline."""


def _run_folder(
    folder: Path,
    executor: Literal["ray", "threads"],
    address: str | None,
    timeout_s: float,
    seed: int,
) -> None:
    from hetsim.cli.running import require_equal
    from hetsim.cli.verbs.compile import compiled_run_record, compiled_run_report
    from hetsim.core.units import format_seconds
    from hetsim.execution.compiled.run import open_compiled, run_compiled

    invocation, context = current(), click.get_current_context()
    for option in context.command.params:
        wrote = context.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE
        if wrote and option.name in _FIXED:
            raise UsageError(
                f"{option.opts[0]} cannot go with a compiled plan",
                hint=f"leave {option.opts[0]} out, or give the model in place of the folder",
            )
    with invocation.progress(f"checking {folder}"):
        compiled = open_compiled(folder)
    with invocation.progress(f"running {folder}"):
        done = run_compiled(
            compiled,
            invocation.inputs,
            executor=executor,
            address=address,
            timeout_s=timeout_s,
            seed=seed,
        )
    if invocation.as_json:
        invocation.note(f"wall clock {format_seconds(done.wall_s)}")
        invocation.show_json(compiled_run_record(compiled, done))
    else:
        invocation.show(compiled_run_report(compiled, done))
    require_equal(done.mismatches, f"compiled plan '{folder}'")
