"""Verb ``simulate``: a plan on the virtual clock, with optional device failures."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast, overload

import numpy as np
from numpy.typing import NDArray

from hetsim.core import checks
from hetsim.errors import UsageError
from hetsim.hardware.spec import Platform
from hetsim.problem.parts import Contention, check_contention
from hetsim.problem.plan import Plan
from hetsim.problem.timeline import Timeline
from hetsim.simulation.clock.memory import check_capacity, resident_weights
from hetsim.simulation.clock.runs import timeline_of
from hetsim.simulation.power import within_power

if TYPE_CHECKING:
    from hetsim.simulation.service.service import Service
    from hetsim.workload.deployment import Deployment
    from hetsim.workload.failure import Failure
    from hetsim.workload.workload import Workload


@overload
def simulate(
    plan: Plan,
    requests: int = 1,
    *,
    arrivals_s: Sequence[float] | None = None,
    contention: Contention | None = None,
    trace: bool = True,
    sustained: bool = False,
    failures: Sequence[Failure] = (),
) -> Timeline: ...


@overload
def simulate(
    plan: Deployment,
    requests: Workload,
    *,
    platform: Platform,
    until_answered: bool = False,
    within: float | None = None,
    failures: Sequence[Failure] = (),
) -> Service: ...


@checks.takes(
    plan=checks.instance("hetsim.problem.plan:Plan", "hetsim.workload.deployment:Deployment"),
    platform=checks.instance("hetsim.hardware.spec:Platform"),
    until_answered=checks.flag,
    within=checks.number(above=0),
    contention=checks.text,
    trace=checks.flag,
    sustained=checks.flag,
    failures=checks.sequence(checks.instance("hetsim.workload.failure:Failure")),
)
def simulate(
    plan: Plan | Deployment,
    requests: int | Workload = 1,
    *,
    arrivals_s: Sequence[float] | None = None,
    contention: Contention | None = None,
    trace: bool = True,
    sustained: bool = False,
    failures: Sequence[Failure] = (),
    platform: Platform | None = None,
    until_answered: bool = False,
    within: float | None = None,
) -> Timeline | Service:
    """Simulate `plan` on the virtual clock and return its timeline and resource use.

    Or simulate a workload on a deployment, ``simulate(deployment, workload, platform=platform)``,
    and return the outcomes: see ``hetsim.simulation.service.serving.serve``. Only `platform`,
    `until_answered`, `within` and `failures` apply to it.

    A device that fails loses its running tasks and its values. If it returns, its work waits for
    it; otherwise the plan's strategy replans without it, and every request under way continues from
    the remaining values: missing ones are recomputed. Weights are available at once where needed;
    transfers to and from a lost device are cut off. Inputs, and outputs that have arrived, are with
    the caller and cannot be lost.

    Parameters
    ----------
    plan : Plan or Deployment
    requests : int or Workload
        Number of requests for a plan, all arriving at 0; or the workload of a deployment.
    arrivals_s : sequence of float, optional
        Arrival of each request, ascending, instead of `requests`.
    contention : "fifo" or "none", optional
        Link contention; absent: that of the problem.
    trace : bool
        Whether to record events and their critical path. Without, and with several requests, memory
        over time is not tracked: `peak_memory_bytes` is empty and only the weights are checked
        against the capacity.
    sustained : bool
        Whether devices slow down if their total mean power exceeds the ``power_w`` of their
        platform; see ``hetsim.simulation.power``. Without, each runs at full speed, as in a burst.
    failures : sequence of Failure
        With any, memory over time and the critical path are not recorded. For a deployment: in
        addition to those of the workload.
    platform : Platform
        Platform of a deployment.
    until_answered : bool
        For a deployment: whether to end as soon as every objective is met or missed.
    within : float, optional
        For a deployment: end only once the percentiles of its objectives, or the 99th, are that
        precise: half-width of their intervals over the estimates.

    Raises
    ------
    UsageError
        If the number of requests, the arrivals or the failures are invalid.
    PlanError
        If the plan is not a valid partition in executable order.
    Infeasible
        If a device cannot run its nodes or has too little memory, or no device remains that can do
        the work of a lost one.

    Complexity: O(E log A) for E subgraphs and transfers of all requests, A in flight; and at each
    failure O(A tasks), plus V + E of the plan for each distinct continuation.
    """
    if not isinstance(plan, Plan):
        own = (arrivals_s, contention, sustained or None, None if trace else 1)
        if any(value is not None for value in own):
            raise UsageError(
                "arrivals_s, contention, trace and sustained apply to a plan",
                hint="use platform, until_answered, within and failures with a deployment",
            )
        return _served(plan, requests, platform, until_answered, within, failures)
    if platform is not None or until_answered or within or _is_workload(requests):
        raise UsageError(
            "a workload, platform, until_answered and within apply to a deployment",
            hint="use the number of requests or arrivals_s",
        )
    # Failures and serving are imported only if used.
    injected: Sequence[Failure] = ()
    if failures:
        from hetsim.workload.failure import check_failures

        injected = check_failures(failures, plan.problem.devices)
    arrival = arrivals(cast("int", requests), arrivals_s)
    rule = plan.problem.contention if contention is None else check_contention(contention)
    if sustained:
        burst = timeline_of(plan, arrival, contention=rule, trace=False)
        plan = within_power(plan, burst)
    if not injected:
        return timeline_of(plan, arrival, contention=rule, trace=trace)
    from hetsim.placement.planning import replan
    from hetsim.simulation.failures.clock import FailingClock, failed_timeline

    played = FailingClock(plan, arrival.tolist(), injected, rule, replan)
    weights = resident_weights(played.versions[0].plan_tasks)
    check_capacity(plan.problem, weights, weights)
    played.play()
    return failed_timeline(played, arrival.tolist(), weights, trace=trace)


def _is_workload(requests: int | Workload) -> bool:
    if isinstance(requests, int):
        return False
    from hetsim.workload.workload import Workload

    return isinstance(requests, Workload)


def _served(
    deployment: Deployment,
    requests: int | Workload,
    platform: Platform | None,
    until_answered: bool,
    within: float | None,
    failures: Sequence[Failure],
) -> Service:
    from hetsim.simulation.service.serving import serve
    from hetsim.workload.failure import Failing
    from hetsim.workload.workload import Workload

    if not isinstance(requests, Workload) or platform is None:
        raise UsageError(
            "simulating a deployment needs a workload and a platform",
            hint="call simulate(deployment, workload, platform=platform)",
        )
    if failures:
        mine = requests.failures or Failing()
        more = replace(mine, injected=(*mine.injected, *failures))
        requests = replace(requests, failures=more)
    return serve(deployment, requests, platform, until_answered=until_answered, within=within)


def arrivals(requests: int, arrivals_s: Sequence[float] | None) -> NDArray[np.float64]:
    """Return the arrival of each request. Raises UsageError if they are invalid."""
    try:
        count = operator.index(requests)
    except TypeError:
        raise UsageError(
            f"requests is {checks.shown(requests)}", hint="use a whole number"
        ) from None
    if count < 1:
        raise UsageError(f"{count} requests to simulate", hint="use 1 or more")
    if arrivals_s is None:
        try:
            return np.zeros(count)
        except (ValueError, MemoryError):
            raise UsageError(f"{count} requests are too many to simulate") from None
    try:
        arrival = np.array(arrivals_s, dtype=np.float64)
    except (TypeError, ValueError):
        raise UsageError("arrivals_s are not numbers", hint="give seconds") from None
    if arrival.ndim != 1 or len(arrival) == 0:
        raise UsageError(
            f"arrivals_s has shape {arrival.shape}", hint="give one time per request, 1 or more"
        )
    if count not in (1, len(arrival)):
        raise UsageError(f"{count} requests but {len(arrival)} arrivals", hint="use one of the two")
    if not np.isfinite(arrival).all() or (arrival < 0).any():
        raise UsageError("arrivals_s has a negative or infinite time", hint="start at 0 or later")
    late = np.flatnonzero(np.diff(arrival) < 0)
    if len(late):
        raise UsageError(
            f"arrivals_s does not ascend at index {late[0] + 1}", hint="sort the arrivals"
        )
    return arrival
