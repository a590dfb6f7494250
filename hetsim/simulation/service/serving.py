"""Simulation of a workload on a deployment to its end, or until all objectives are decided."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hetsim.errors import UsageError, WorkloadError
from hetsim.hardware.spec import Platform
from hetsim.problem.plan import Plan
from hetsim.simulation.autoscaling.serving import ScalingServing
from hetsim.simulation.clock.metrics import busy_seconds, energies, share
from hetsim.simulation.clock.templates import PlanTasks
from hetsim.simulation.failures.serving import FailingServing
from hetsim.simulation.service.failures import failed
from hetsim.simulation.service.figures import (
    NEVER_S,
    chosen,
    latencies,
    queue_of,
    stream_service,
    with_lengths,
    with_uses,
)
from hetsim.simulation.service.layout import EngineArguments, check_together, load_s, set_up
from hetsim.simulation.service.replicas import Scaled, instances_s, scaled_of
from hetsim.simulation.service.resolution import ModelOptions, PlanCache, Resolved, kept_as, resolve
from hetsim.simulation.service.run import (
    RecordedRequests,
    ServiceRun,
    check_room,
    engine_of,
    expected,
    most_requests,
)
from hetsim.simulation.service.service import (
    Failed,
    KeptRequests,
    Loading,
    ModelService,
    Service,
    Use,
)
from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.setup import Outcomes
from hetsim.statistics.verdict import CONFIDENCE, End
from hetsim.workload.arrivals import Mmpp, Replay
from hetsim.workload.deployment import Deployment
from hetsim.workload.failure import Failure
from hetsim.workload.workload import Workload

Busy = tuple[Sequence[float], Sequence[float]]
"""Seconds by device, summed over its streams, and by link."""


def serve(
    deployment: Deployment,
    workload: Workload,
    platform: Platform,
    *,
    asked: ModelOptions | None = None,
    made: PlanCache | None = None,
    until_answered: bool = False,
    within: float | None = None,
    most_tasks: float = math.inf,
    machine_code: bool | None = None,
    keep: int = 0,
) -> Service:
    """Simulate `workload` on `deployment` on the virtual clock, and return the results.

    Parameters
    ----------
    asked : ModelOptions, optional
        Options for reading, pricing and planning models.
    made : PlanCache, optional
        Problems and plans of other workloads on the same platform with the same `asked`.
    until_answered : bool
        Whether to end as soon as every objective is met or missed, after `requests` or `duration_s`
        at most; checked after 16,384 requests, and at each doubling.
    within : float, optional
        Relative half-width of intervals: continues until the percentile of each objective, or the
        99th of a stream without one, is that precise, and objectives are decided. If gaps between
        requests are independent and no latency depends on later requests, percentiles are those
        over all such runs; see ``statistics.batches``.
    most_tasks : float
        Task events after which `until_answered` ends as well, but after at least 16,384 requests.
    machine_code : bool, optional
        Whether numba compiles the clock; absent: for many requests. The result is the same.
    keep : int
        Number of first requests to keep one by one, in ``Service.kept``.

    Raises
    ------
    WorkloadError, UsageError, UnsupportedNode, Infeasible
        As ``resolve``.
    OutOfMemory
        If the served models together do not fit a device.
    UsageError
        If there are no requests or only warm-up, `until_answered` without an objective, or `within`
        is not above 0.

    Complexity: that of the plans, plus O(tasks) per request. Memory: the outcome of each request.
    """
    if until_answered and not any(stream.slos for stream in workload.streams):
        raise UsageError(
            "no stream has an objective to decide", hint="add one, or give the number of requests"
        )
    if within is not None and not 0 < within < math.inf:
        raise UsageError(
            f"percentiles within {within:g}", hint=("use a value above 0, e.g. 0.02 for 2 %")
        )
    resolved = resolve(deployment, workload, platform, asked, made)
    return played(
        workload,
        resolved,
        set_up(resolved, workload, check_together(resolved, platform)),
        until_answered=until_answered,
        within=within,
        most_tasks=most_tasks,
        machine_code=machine_code,
        keep=keep,
    )


def played(
    workload: Workload,
    resolved: Sequence[Resolved],
    setup: EngineArguments,
    *,
    until_answered: bool = False,
    within: float | None = None,
    most_tasks: float = math.inf,
    until_overloaded: bool = False,
    confidence: float = CONFIDENCE,
    machine_code: bool | None = None,
    keep: int = 0,
) -> Service:
    """Simulate a resolved setup; see ``serve``.

    `until_overloaded`: end once no model keeps up; `confidence`: probability of no wrong verdict.
    """
    early = until_answered or within is not None
    if until_answered and within is None and math.isfinite(most_tasks) and not workload.traces:
        most = most_requests(setup, most_tasks)
        workload = replace(workload, requests=min(most, workload.requests or most))
    coming = expected(workload)
    if math.isfinite(coming) and not early:
        check_room(coming)
    engine = engine_of(workload, setup, machine_code=machine_code, early=early)
    run = ServiceRun(workload, setup, engine, machine_code=machine_code)
    end = run.play(
        until_answered=until_answered,
        within=within,
        until_overloaded=until_overloaded,
        confidence=confidence,
    )
    service = service_of(run, resolved, end)
    happened = tuple(engine.happened) if isinstance(engine, FailingServing) else ()
    return keeping(service, run.outcomes(), keep, happened)


def keeping(
    service: Service, outcomes: Outcomes, keep: int, happened: Sequence[Failure] = ()
) -> Service:
    """Return the service with its first `keep` requests one by one; 0: none."""
    if not keep:
        return service
    columns: Any = (column[:keep].copy() for column in outcomes)
    return replace(service, kept=KeptRequests(Outcomes(*columns), tuple(happened)))


def service_of(
    run: ServiceRun,
    resolved: Sequence[Resolved],
    end: End,
    busy: Busy | None = None,
) -> Service:
    """Return the figures of a finished run.

    `busy`: measured seconds by device and by link, without intervals; absent: those of the
    templates that ran. Raises WorkloadError without requests after the warm-up.
    """
    workload, engine, setup = run.workload, run.engine, run.setup
    outcomes, modelled = run.outcomes(), busy is None
    if not len(outcomes.arrival_s):
        raise WorkloadError(
            ("the workload has no requests"), hint="use a rate above 0, or a longer duration"
        )
    duration_s = max(float(engine.now_s), 0.0)
    counted = outcomes.arrival_s >= workload.warm_up_s
    if not counted.any():
        raise WorkloadError(
            f"all {len(counted)} requests come within the warm-up",
            hint="use a shorter warm_up_s",
            key=("warm_up_s",),
        )
    scaled: tuple[Scaled, ...] = ()
    if isinstance(engine, ScalingServing):
        scaled = scaled_of(workload, engine, resolved, setup, outcomes, duration_s)
    lived = {one.model: one.lived for one in scaled}
    models = []
    for at, one in enumerate(resolved):
        own, kept_up = run.of_model(at)
        limits = setup.models[at].limits
        there_s = [duration_s] * len(limits)
        if one.served.model in lived:
            there_s = instances_s(lived[one.served.model], len(limits))
        instances = _instances(own, limits, there_s)
        said = ModelService(
            one.served.model,
            kept_up,
            queue_of(engine.lengths, at, duration_s),
            instances,
            int(np.sum(engine.ran[np.unique(setup.models[at].template)])),
            _used(instances, limits, there_s),
        )
        models.append(said if said.overloaded else with_lengths(said, own, duration_s))
    ended = outcomes.finish_s[counted & (outcomes.why == 0)]
    last_s = max(float(outcomes.arrival_s[-1]), float(ended.max(initial=0.0)))
    streams_said = []
    on_time = 0
    for at, stream in enumerate(workload.streams):
        mine = run.counted(at)
        streams_said.append(
            stream_service(
                stream,
                mine,
                [(slo, run.verdicts[at, k]) for k, slo in enumerate(stream.slos)]
                if (at, 0) in run.verdicts
                else [],
                alone_s=setup.alone_s[setup.sources[at].model],
                stability=models[setup.sources[at].model].stability,
                begin_s=workload.warm_up_s,
                end_s=last_s,
                innovation=run.innovation(at, mine),
            )
        )
        within_s = max((slo.latency_s for slo in stream.slos), default=NEVER_S / 2)
        on_time += int(
            np.count_nonzero(latencies(chosen(outcomes, outcomes.stream == at)) <= within_s)
        )
    failures: Failed | None = None
    if isinstance(engine, FailingServing):
        busy = engine.busy_seconds()
        names = [one.served.model for one in resolved]
        failures = failed(workload, engine, setup, outcomes, names)
    if busy is None:
        busy = busy_seconds(setup.plan_tasks, engine.ran.tolist())
    devices, links = _uses(setup.plan_tasks, busy, duration_s)
    if modelled and not any(model.overloaded for model in models):
        devices, links = with_uses((devices, links), setup, outcomes, duration_s)
    loading, highest = _loading(engine, resolved, setup, duration_s)
    return Service(
        workload=workload,
        resolved=tuple(resolved),
        streams=tuple(streams_said),
        models=tuple(models),
        devices=devices,
        links=links,
        requests=len(outcomes.arrival_s),
        duration_s=duration_s,
        on_time=on_time,
        energy_j=sum(use.energy_j for use in devices.values()),
        memory_bytes={
            name: stays + most
            for name, stays, most in zip(devices, setup.memory.stays, highest, strict=True)
        },
        bottleneck=_bottleneck(devices, links, models),
        end=end,
        loading=loading,
        failures=failures,
        scaled=scaled,
    )


def _loading(
    engine: Serving | RecordedRequests,
    resolved: Sequence[Resolved],
    setup: EngineArguments,
    duration_s: float,
) -> tuple[tuple[Loading, ...], Sequence[int]]:
    """Return the loads by model and device, and the maximum shared bytes on each device."""
    problem = resolved[0].problem
    if setup.turns is None or not isinstance(engine, Serving):
        return (), [0] * len(problem.devices)
    found = engine.residency
    loading = tuple(
        Loading(
            one.served.model,
            problem.devices[p],
            int(found.loads[m, p]),
            setup.memory.held[m].weights[p],
            load_s(one.problem, p, setup.memory.held[m].weights[p]),
            float(found.loading_s[m, p]),
            share(float(found.resident_s[m, p]), duration_s),
        )
        for m, one in enumerate(resolved)
        for p in np.flatnonzero(setup.turns.weight[m]).tolist()
    )
    return loading, found.most.tolist()


def _uses(
    plan_tasks: PlanTasks, busy: Busy, duration_s: float
) -> tuple[dict[str, Use], dict[str, Use]]:
    """Return devices and links by name, with their utilization over the whole run."""
    problem = plan_tasks.plan.problem
    device_busy, link_busy = busy
    joules = energies(problem, device_busy, duration_s)
    devices = {
        name: Use(busy_s, share(busy_s, duration_s * width), energy_j)
        for name, busy_s, width, energy_j in zip(
            problem.devices, device_busy, problem.streams, joules, strict=True
        )
    }
    links = {
        name: Use(busy_s, share(busy_s, duration_s), math.nan)
        for name, busy_s in zip(plan_tasks.links, link_busy, strict=True)
    }
    return devices, links


def _instances(
    outcomes: Outcomes, limits: Sequence[int], there_s: Sequence[float]
) -> tuple[Use, ...]:
    """Return the utilization of each instance over the time that it existed."""
    served = outcomes.why == 0
    # Each request of a batch gets an equal share of the batch's time.
    under_way = (outcomes.finish_s - outcomes.sent_s)[served] / outcomes.size[served]
    busy = np.bincount(outcomes.instance[served], under_way, minlength=len(limits))
    return tuple(
        Use(busy_s, share(busy_s, whole_s * limit) if limit else math.nan, math.nan)
        for busy_s, limit, whole_s in zip(busy.tolist(), limits, there_s, strict=True)
    )


def _used(instances: Sequence[Use], limits: Sequence[int], there_s: Sequence[float]) -> float:
    """Return the utilization of all instances together, each weighted by its existence."""
    if not all(limits):
        return math.nan
    if len(set(there_s)) == 1:
        return sum(use.utilization for use in instances) / len(instances)
    whole_s = sum(limit * each_s for limit, each_s in zip(limits, there_s, strict=True))
    return share(sum(use.busy_s for use in instances), whole_s)


def _bottleneck(
    devices: Mapping[str, Use], links: Mapping[str, Use], models: Sequence[ModelService]
) -> str:
    """Return the name of the most utilized; of equal ones the first, devices before all others."""
    uses = [(use.utilization, f"device {name}") for name, use in devices.items()]
    uses += [(use.utilization, f"link {name}") for name, use in links.items()]
    for model in models:
        if not math.isnan(model.utilization):
            uses.append((model.utilization, f"instances of {model.model}"))
    return max(uses, key=lambda use: use[0])[1]


def at_pessimistic_end(service: Service, platform: Platform) -> Service | None:
    """Return the result of the same requests and plans at the pessimistic end of all times.

    Every device and link takes the upper end of its own 80 % interval, all at once. If no model
    keeps up, only the requests until that shows count. None if the times are exact, or pessimistic
    already.
    """
    plans = (plan for one in service.resolved for rows in one.plans for row in rows for plan in row)
    if all(plan.problem.certain for plan in plans):
        return None
    return _again(service, platform, [kept_as(one, Plan.at_bad_end) for one in service.resolved])


def fixed(service: Service, platform: Platform) -> tuple[Service, ...]:
    """Return the results of the same requests with a constant minimum, and maximum, of replicas.

    Uses the first instances of each scaled model, at least one; empty if none is scaled.
    """
    if not service.scaled:
        return ()
    return tuple(
        _again(service, platform, [_always(one, most=most) for one in service.resolved])
        for most in (False, True)
    )


def _again(service: Service, platform: Platform, resolved: Sequence[Resolved]) -> Service:
    workload = replace(service.workload, requests=service.requests, duration_s=None)
    setup = set_up(resolved, workload, check_together(resolved, platform))
    arrivals = [workload.arrivals_of(stream)[0] for stream in workload.streams]
    # With other requests or replicas, a model may catch up again.
    changes = any(isinstance(one, Mmpp | Replay) for one in arrivals)
    steady = not changes and workload.failures is None and setup.scalings is None
    return played(workload, resolved, setup, until_overloaded=steady)


def _always(one: Resolved, *, most: bool) -> Resolved:
    config = one.served.autoscaling
    if config is None:
        return one
    many = config.max_replicas if most else max(config.min_replicas, 1)
    always = replace(config, min_replicas=many, max_replicas=many, initial_replicas=None)
    return replace(one, served=replace(one.served, autoscaling=always))
