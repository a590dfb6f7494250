"""``hetsim run --emulate``: real time beside the virtual clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from hetsim.cli.invocation import current
from hetsim.cli.options.common import above_zero
from hetsim.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from hetsim.cli.running import Executor
    from hetsim.execution.emulation import Emulation
    from hetsim.graph.inputs.arrays import Inputs
    from hetsim.problem.plan import Plan


def _scale(ctx: click.Context, param: click.Parameter, text: str | None) -> float | None:
    return None if text is None else above_zero(ctx, param, text)


def emulate_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --emulate, --time-scale and --requests."""
    for option in (
        click.option(
            "--requests",
            type=click.IntRange(min=1),
            default=None,
            help="With --emulate: requests in flight.  [default: 1]  At a --rate: how many come.",
        ),
        click.option(
            "--time-scale",
            default=None,
            callback=_scale,
            metavar="X",
            help="With --emulate: real seconds a virtual one.  [default: with room for kernels]",
        ),
        click.option(
            "--emulate",
            is_flag=True,
            help="Let devices and links take their modelled time for real, and compare.",
        ),
    ):
        command = option(command)
    return command


def check_emulate(
    emulate: bool, time_scale: float | None, requests: int | None, others: Mapping[str, bool]
) -> None:
    """Raise UsageError where options do not go together; `others` cannot go with --emulate."""
    if not emulate:
        for name, value in (("--time-scale", time_scale), ("--requests", requests)):
            if value is not None:
                hint = f"add --emulate, or drop {name}"
                if name == "--requests":
                    hint = "add --emulate, or a --rate at which they come"
                raise UsageError(f"{name} needs --emulate", hint=hint)
        return
    for name, given in others.items():
        if given:
            raise UsageError(f"{name} cannot go with --emulate", hint=f"leave {name} out")


def run_emulated(
    plan: Plan,
    how: Executor,
    inputs: Inputs | None,
    time_scale: float | None,
    requests: int,
) -> None:
    """Emulate, and show what was predicted and what was measured."""
    from hetsim.cli.running import require_equal
    from hetsim.execution.emulation import emulate

    invocation = current()
    with invocation.progress(f"emulating {plan.strategy} on {how.executor}"):
        done = emulate(
            plan,
            inputs,
            requests=requests,
            time_scale=time_scale,
            executor=how.executor,
            address=how.address,
            timeout_s=how.timeout_s,
            seed=how.seed,
        )
    invocation.answer(lambda: _record(plan, done), lambda: _report(plan, done))
    require_equal(done.mismatches, f"plan '{plan.strategy}'")


def _record(plan: Plan, done: Emulation) -> dict[str, Any]:
    from hetsim.problem.record import problem_record
    from hetsim.reporting.tables.records import plan_record

    return {
        "schema": "hetsim-emulation/1",
        "problem": problem_record(plan.problem),
        "plan": plan_record(plan),
        "requests": len(done.wall_s),
        "time_scale": done.time_scale,
        "predicted_latency_s": done.predicted.latency_s,
        "measured_latency_s": done.latency_s,
        "predicted_makespan_s": done.predicted.makespan_s,
        "measured_makespan_s": done.makespan_s,
        "wall_s": list(done.wall_s),
        "overrun_s": done.overrun_s,
        "bitwise_equal": done.bitwise_equal,
        "mismatches": list(done.mismatches),
    }


def _report(plan: Plan, done: Emulation) -> RenderableType:
    from rich.console import Group as Stack
    from rich.text import Text

    from hetsim.core.text import plain
    from hetsim.core.units import format_seconds
    from hetsim.reporting.tables.plan import outputs_line, plan_rows
    from hetsim.reporting.tables.question import question
    from hetsim.reporting.words.console import pairs

    predicted, many = done.predicted, len(done.wall_s)
    rows = [*question(plan.problem), *plan_rows(plan)]
    rows.append(("time scale", f"a virtual second lasts {done.time_scale:.4g} s"))
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
            f"at most {format_seconds(done.overrun_s)} of real time a call: kernels of this "
            "machine and messages; a larger --time-scale makes it count less",
        )
    )
    line = outputs_line(done.bitwise_equal, done.mismatches)
    return Stack(pairs(rows), Text(""), Text(plain(line), style="bold"))
