"""Runs for real: how they start, devices made to fail (--inject), and what is said of both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import click

from hetsim.cli.invocation import current
from hetsim.core.text import fields
from hetsim.errors import OutputsDiffer, UsageError

if TYPE_CHECKING:
    from hetsim.execution.dispatch.device_states import Recovery
    from hetsim.execution.run import Run
    from hetsim.graph.inputs.arrays import Inputs
    from hetsim.problem.plan import Plan
    from hetsim.problem.timeline import Timeline
    from hetsim.workload.failure import Failure


@dataclass(frozen=True, slots=True)
class Executor:
    """Where and how a plan is executed; the fields are the options of ``run_options``."""

    executor: Literal["ray", "threads"]
    address: str | None
    seed: int
    timeout_s: float
    precision: Literal["graph", "device"]
    failures: tuple[Failure, ...] = ()
    plain: bool = False


def execute(plan: Plan, how: Executor, inputs: Inputs | None = None) -> Run:
    """Run `plan` and compare its outputs with those of the whole model."""
    from hetsim.execution.run import run

    on = {"ray": "Ray", "threads": "threads"}[how.executor]
    with current().progress(f"running {plan.strategy} on {on}"):
        return run(
            plan,
            inputs,
            executor=how.executor,
            address=how.address,
            timeout_s=how.timeout_s,
            seed=how.seed,
            precision=how.precision,
            failures=how.failures,
            plain=how.plain,
        )


def require_equal(mismatches: Sequence[str], where: str) -> None:
    """Raise OutputsDiffer, naming the outputs, where a run's differ from the whole model's."""
    if mismatches:
        raise OutputsDiffer(
            f"outputs differ from those of the whole model: {'; '.join(mismatches)}",
            where=where,
            mismatches=tuple(mismatches),
        )


def _read(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> tuple[Failure, ...]:
    if not given:
        return ()
    from hetsim.workload.failure import parse_failures

    try:
        return tuple(failure for text in given for failure in parse_failures(text))
    except UsageError as error:
        raise UsageError(error.what, where=f"--inject {error.where}", hint=error.hint) from None


inject_option = click.option(
    "--inject",
    "failures",
    metavar="FAILURE",
    multiple=True,
    callback=_read,
    help="Let a device fail: 'kill gpu.0 at 3ms', 'kill gpu at 3ms for 5ms' (it comes back), "
    "'hang npu at 3ms for 5ms' (taken for dead after 5ms). Commas between several; repeatable.",
)


def cost_record(timeline: Timeline, calm: Timeline) -> dict[str, Any]:
    """Return what failures did to a simulation, against the same one without any."""
    lost = [event for event in timeline.events if event.lost]
    return {
        "injected": [
            fields(event, "kind=name device at_s=start_s until_s=end_s")
            for event in timeline.events
            if event.kind == "failure"
        ],
        "lost_events": len(lost),
        "lost_compute_s": sum(e.end_s - e.start_s for e in lost if e.kind == "compute"),
        "latency_without_s": calm.latency_s,
        "makespan_without_s": calm.makespan_s,
    }


def cost_lines(record: dict[str, Any], timeline: Timeline) -> Iterator[str]:
    """Say the same in words."""
    from hetsim.core.units import format_seconds

    for failure in record["injected"]:
        yield (
            f"{failure['device']}: {failure['kind']} at {format_seconds(failure['at_s'])}, "
            f"down until {format_seconds(failure['until_s'])}"
        )
    if not record["injected"]:
        yield "no failure: all requests ended before the first"
    more_s = timeline.makespan_s - record["makespan_without_s"]
    yield (
        f"cost of the failures: {format_seconds(more_s)} on "
        f"{format_seconds(record['makespan_without_s'])}, "
        f"{format_seconds(record['lost_compute_s'])} of work lost"
    )


def recovery_lines(recoveries: Sequence[Recovery]) -> Iterator[str]:
    """Say what a real run got over, one line each."""
    from hetsim.core.units import format_seconds

    for found in recoveries:
        yield (
            f"{found.device}: {found.kind} at {format_seconds(found.at_s)}, {found.how} in "
            f"{format_seconds(found.seconds)}"
        )
