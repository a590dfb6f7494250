"""Real runs of a plan, and reports of injected failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

import click

from hetsim.cli.invocation import current
from hetsim.core.text import records
from hetsim.core.units import format_seconds
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
    """Options of real runs, named as in ``run_options``."""

    executor: Literal["ray", "threads"]
    address: str | None
    seed: int
    timeout_s: float
    precision: Literal["graph", "device"]
    failures: tuple[Failure, ...] = ()
    plain: bool = False

    @property
    def where(self) -> dict[str, Any]:
        """Return the arguments of every function that runs a plan."""
        named = ("executor", "address", "timeout_s", "seed")
        return {name: getattr(self, name) for name in named}


def executor_said() -> Executor:
    """Return the options of the verb about real runs."""
    params = click.get_current_context().params
    known = {one.name: params[one.name] for one in fields(Executor) if one.name in params}
    found = Executor(**known)
    if found.address is not None and found.executor != "ray":
        raise UsageError("--address needs --executor ray")
    return found


def execute(plan: Plan, how: Executor, inputs: Inputs | None = None) -> Run:
    """Return a run of `plan`, with its outputs compared to those of the whole model."""
    from hetsim.execution.run import run

    on = {"ray": "Ray", "threads": "threads"}[how.executor]
    with current().progress(f"running {plan.strategy} on {on}"):
        return run(
            plan, inputs, precision=how.precision, failures=how.failures, plain=how.plain,
            **how.where,
        )  # fmt: skip


def require_equal(mismatches: Sequence[str], where: str) -> None:
    """Raise OutputsDiffer, naming the outputs, if a run's differ from the whole model's."""
    if mismatches:
        raise OutputsDiffer(
            f"outputs differ from those of the whole model: {'; '.join(mismatches)}",
            where=where,
            mismatches=tuple(mismatches),
        )


def cost_record(timeline: Timeline, calm: Timeline) -> dict[str, Any]:
    """Return the cost of failures in a simulation, relative to the same without failures."""
    lost = [event for event in timeline.events if event.lost]
    return {
        "injected": records(
            (event for event in timeline.events if event.kind == "failure"),
            "kind=name device at_s=start_s until_s=end_s",
        ),
        "lost_events": len(lost),
        "lost_compute_s": sum(e.end_s - e.start_s for e in lost if e.kind == "compute"),
        "latency_without_s": calm.latency_s,
        "makespan_without_s": calm.makespan_s,
    }


def cost_lines(record: dict[str, Any], timeline: Timeline) -> Iterator[str]:
    """Yield lines about the cost of failures in a simulation."""
    for failure in record["injected"]:
        yield (
            f"{failure['device']}: {failure['kind']} at {format_seconds(failure['at_s'])}, "
            f"down until {format_seconds(failure['until_s'])}"
        )
    if not record["injected"]:
        yield "no device failed: all requests ended before the first failure"
    yield (
        f"all requests end at {format_seconds(timeline.makespan_s)}, without the failures at "
        f"{format_seconds(record['makespan_without_s'])}; "
        f"{format_seconds(record['lost_compute_s'])} of compute is lost"
    )


def recovery_lines(recoveries: Sequence[Recovery]) -> Iterator[str]:
    """Yield lines about the failures that a real run recovered from."""
    for found in recoveries:
        yield (
            f"{found.device}: {found.kind} at {format_seconds(found.at_s)}, {found.how} in "
            f"{format_seconds(found.seconds)}"
        )
