"""The verb ``simulate``: a plan on the virtual clock, with devices that fail where asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hetsim.base import checks
from hetsim.placement.replan import replan
from hetsim.plans.plan import Plan
from hetsim.plans.timeline import Event, Timeline
from hetsim.problem.parts import Contention, check_contention
from hetsim.simulation.clock import playing as clock
from hetsim.simulation.clock.memory import check_capacity, resident_weights
from hetsim.simulation.clock.metrics import energy, held_by_device
from hetsim.simulation.failures.clock import FailingClock
from hetsim.simulation.failures.failure import Failure, check_failures
from hetsim.simulation.failures.remaining_tasks import Task
from hetsim.simulation.power import within_power


@checks.takes(
    plan=checks.instance("hetsim.plans.plan:Plan"),
    contention=checks.text,
    trace=checks.flag,
    sustained=checks.flag,
    failures=checks.sequence(checks.instance("hetsim.simulation.failures.failure:Failure")),
)
def simulate(
    plan: Plan,
    requests: int = 1,
    *,
    arrivals_s: Sequence[float] | None = None,
    contention: Contention | None = None,
    trace: bool = True,
    sustained: bool = False,
    failures: Sequence[Failure] = (),
) -> Timeline:
    """Play `plan` on the virtual clock and return what happened and what it cost.

    A device that fails loses what it runs and what it holds. Where it comes back, its work
    waits for it; where it does not, the plan's strategy plans without it, and every request
    under way goes on from the values that are left: what is nowhere any more is computed again.
    Weights are where they are needed at once; transfers to and from a lost device are cut off.
    Inputs, and outputs that have arrived, are with the caller and cannot be lost.

    Parameters
    ----------
    plan : Plan
    requests : int
        How many requests run the plan, all arriving at 0.
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
        With any, memory over time is not followed, and there is no critical path.

    Raises
    ------
    UsageError
        Where the number of requests, the arrivals or the failures make no sense.
    PlanError
        Where the plan is not a valid partition in executable order.
    Infeasible
        Where a device cannot run what the plan gives it, its memory does not suffice, or no
        device is left that can do the work of a lost one.

    Complexity: O(E log A) for E subgraphs and transfers of all requests, A in flight, with an
    clock that is some ten times slower where there are failures.
    """
    failing = check_failures(failures, plan.problem.devices)
    if sustained:
        burst = clock.simulate(
            plan, requests, arrivals_s=arrivals_s, contention=contention, trace=False
        )
        plan = within_power(plan, burst)
    if not failing:
        return clock.simulate(
            plan, requests, arrivals_s=arrivals_s, contention=contention, trace=trace
        )
    arrival = clock.arrivals(requests, arrivals_s).tolist()
    rule = plan.problem.contention if contention is None else check_contention(contention)
    played = FailingClock(plan, arrival, failing, rule, replan)
    weights = resident_weights(played.versions[0].plan_tasks)
    check_capacity(plan.problem, weights, weights)
    played.play()
    return _timeline(played, arrival, weights, trace=trace)


def _timeline(
    played: FailingClock, arrival: Sequence[float], weights: Sequence[int], *, trace: bool
) -> Timeline:
    problem = played.versions[0].plan.problem
    links = played.versions[0].plan_tasks.links
    makespan = max(played.finish)
    device_busy = [0.0] * len(problem.devices)
    link_busy = [0.0] * len(links)
    # What a request had no more use for may go on after its end: time is counted to the end.
    log = [task for task in played.log if task.start <= makespan]
    moves = [task for task in log if task.device < 0]
    for task in log:
        spent = min(task.end, makespan) - task.start
        if task.device >= 0:
            device_busy[task.device] += spent
        for link in task.resources:
            link_busy[link] += spent
    whole = [makespan * width for width in problem.streams]
    return Timeline(
        latencies_s=tuple(end - came for came, end in zip(arrival, played.finish, strict=True)),
        makespan_s=makespan,
        events=_events(played, log, makespan) if trace else (),
        device_busy_s=dict(zip(problem.devices, device_busy, strict=True)),
        link_busy_s=dict(zip(links, link_busy, strict=True)),
        device_utilization={
            name: min(busy / most, 1.0) if most > 0 else 0.0
            for name, busy, most in zip(problem.devices, device_busy, whole, strict=True)
        },
        link_utilization={
            name: min(busy / makespan, 1.0) if makespan > 0 else 0.0
            for name, busy in zip(links, link_busy, strict=True)
        },
        transfers=len(moves),
        transferred_bytes=sum(problem.values[task.value].nbytes for task in moves),
        transfer_s=sum(task.end - task.start for task in moves),
        peak_memory_bytes={},
        weight_bytes=held_by_device(problem, weights),
        energy_j=energy(problem, device_busy, makespan),
        critical_path=(),
    )


def _events(played: FailingClock, log: Sequence[Task], makespan: float) -> tuple[Event, ...]:
    """Failures and tasks by (start, request, version of the plan, plan order)."""
    problem = played.versions[0].plan.problem
    found: list[tuple[tuple[float, int, int, int], Event]] = []
    for at, failure in enumerate(played.happened):
        device = problem.devices.index(failure.device)
        until = failure.back_s if math.isfinite(failure.back_s) else max(makespan, failure.at_s)
        tracks = tuple(f"{failure.device}/{stream}" for stream in range(problem.streams[device]))
        event = Event("failure", failure.kind, -1, failure.at_s, until, tracks, failure.device)
        found.append(((failure.at_s, -1, 0, at), event))
    for task in log:
        place = (task.start, task.request, task.version, task.index)
        found.append((place, _event(played, task)))
    found.sort(key=lambda entry: entry[0])
    return tuple(event for _, event in found)


def _event(played: FailingClock, task: Task) -> Event:
    version = played.versions[task.version]
    problem = version.plan.problem
    ours = task.version == 0
    if task.device >= 0:
        name = problem.devices[task.device]
        return Event(
            kind="compute",
            name=f"g{task.group}" if ours else f"g{task.group} of plan {task.version + 1}",
            request=task.request,
            start_s=task.start,
            end_s=task.end,
            tracks=(f"{name}/{task.stream}",),
            device=name,
            group=task.group if ours else -1,
            lost=task.lost,
        )
    value = problem.values[task.value]
    return Event(
        kind="transfer",
        name=value.name,
        request=task.request,
        start_s=task.start,
        end_s=task.end,
        tracks=tuple(version.plan_tasks.links[link] for link in task.resources),
        device=problem.devices[task.target],
        source=problem.devices[task.source],
        group=task.group if ours else -1,
        nbytes=value.nbytes,
        lost=task.lost,
    )
