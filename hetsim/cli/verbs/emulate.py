"""``hetsim run --emulate``: a run with emulated devices beside its simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetsim.cli.invocation import current
from hetsim.cli.running import require_equal
from hetsim.core.text import fields, plain
from hetsim.core.units import format_seconds

if TYPE_CHECKING:
    from rich.console import RenderableType

    from hetsim.cli.running import Executor
    from hetsim.execution.emulation import Emulation
    from hetsim.graph.inputs.arrays import Inputs
    from hetsim.problem.plan import Plan


def run_emulated(
    plan: Plan,
    how: Executor,
    inputs: Inputs | None,
    time_scale: float | None,
    requests: int,
) -> None:
    """Emulation of a plan: prints predicted and measured latency."""
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
        **fields(
            done,
            "time_scale predicted_latency_s=predicted.latency_s measured_latency_s=latency_s "
            "predicted_makespan_s=predicted.makespan_s measured_makespan_s=makespan_s wall_s "
            "overrun_s bitwise_equal mismatches",
        ),
    }


def _report(plan: Plan, done: Emulation) -> RenderableType:
    from rich.console import Group as Stack
    from rich.text import Text

    from hetsim.reporting.tables.plan import outputs_line, plan_rows
    from hetsim.reporting.tables.question import question
    from hetsim.reporting.words.console import pairs

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
    line = outputs_line(done.bitwise_equal, done.mismatches)
    return Stack(pairs(rows), Text(""), Text(plain(line), style="bold"))
