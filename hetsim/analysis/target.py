"""Whether a plan is as quick as its user asked for."""

from __future__ import annotations

from hetsim.base import checks
from hetsim.base.units import format_seconds
from hetsim.errors import ObjectiveMissed
from hetsim.placement.objective import Objective


def check_target(objective: Objective, reached_s: float, target_s: float, where: str) -> None:
    """Raise ObjectiveMissed where `reached_s` is above `target_s`; `where` names the plan.

    Raises InvalidInput for a target that is no finite number above 0.
    """
    checks.number(above=0)(target_s, "target_s")
    if reached_s > target_s:
        each = " a request" if objective == "throughput" else ""
        raise ObjectiveMissed(
            f"{objective} {format_seconds(reached_s)}{each} misses the target of "
            f"{format_seconds(target_s)} ({reached_s / target_s:.3g}x)",
            where=where,
            hint="`hetsim compare --explain` says what would help most",
            objective=objective,
            target_s=target_s,
            reached_s=reached_s,
        )
