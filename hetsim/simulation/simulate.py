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
    """Play `plan` on the virtual clock and return what happened and what it cost.

    Or a workload on a deployment, ``simulate(deployment, workload, platform=platform)``, and
    return what became of its requests: see ``hetsim.simulation.service.serving.serve``. Only
    `platform`, `until_answered`, `within` and `failures` go with it.

    A device that fails loses what it runs and what it holds. Where it comes back, its work
    waits for it; where it does not, the plan's strategy plans without it, and every request
    under way goes on from the values that are left: what is nowhere any more is computed again.
    Weights are where they are needed at once; transfers to and from a lost device are cut off.
    Inputs, and outputs that have arrived, are with the caller and cannot be lost.

    Parameters
    ----------
    plan : Plan or Deployment
    requests : int or Workload
        How many requests run the plan, all arriving at 0; which requests come to a deployment.
    arrivals_s : sequence of float, optional
        When each request arrives, ascending; in place of `requests`.
    contention : "fifo" or "none", optional
        How links behave; absent: as the problem says.
    trace : bool
        Whether to give events and their critical path. Without, and with several requests,
        memory over time is not followed: `peak_memory_bytes` is empty and only the weights
        are checked against the capacity.
    sustained : bool
        Whether devices slow down where together they draw more, over the requests, than the
        ``power_w`` of their platform; see ``hetsim.simulation.power``. Without, each is as fast
        as it is alone, as in a burst.
    failures : sequence of Failure
        With any, memory over time is not followed, and there is no critical path. Of a
        deployment: beside those of the workload.
    platform : Platform
        Of a deployment: what it runs on.
    until_answered : bool
        Of a deployment: whether to end as soon as every objective is met or missed.
    within : float, optional
        Of a deployment: whether to end as soon as the percentiles of its objectives, or the 99th,
        are known that closely, too: half of their intervals over the estimates.

    Raises
    ------
    UsageError
        Where the number of requests, the arrivals or the failures make no sense.
    PlanError
        Where the plan is not a valid partition in executable order.
    Infeasible
        Where a device cannot run what the plan gives it, its memory does not suffice, or no
        device is left that can do the work of a lost one.

    Complexity: O(E log A) for E subgraphs and transfers of all requests, A in flight; and at
    each failure O(A tasks), and V + E of the plan for each way in which requests in flight differ.
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
    # What fails and what is served is loaded by those alone who ask for it.
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
    """Return when each request arrives. Raises UsageError where that makes no sense."""
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
