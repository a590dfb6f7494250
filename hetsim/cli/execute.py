"""Runs for real: how the verbs start one, and what they say of its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hetsim.cli.invocation import current
from hetsim.errors import OutputsDiffer

if TYPE_CHECKING:
    from hetsim.execution.run import Run
    from hetsim.graph.inputs.arrays import Inputs
    from hetsim.problem.plan import Plan
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
