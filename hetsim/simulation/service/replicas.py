"""From a run of a model whose replicas come and go to what is said of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from hetsim.simulation.autoscaling.serving import ScalingServing
from hetsim.simulation.clock.metrics import busy_seconds
from hetsim.simulation.clock.runs import timeline_of
from hetsim.simulation.clock.templates import PlanTasks
from hetsim.simulation.service.fewest import Asked, Fewest, fewest
from hetsim.simulation.service.layout import Setup
from hetsim.simulation.service.resolving import Resolved
from hetsim.simulation.service.scaled import Lived, Scaled, lived
from hetsim.simulation.serving.setup import Outcomes
from hetsim.workload.workload import Workload

Array: TypeAlias = np.ndarray[Any, Any]

ALLOWED = 1e-9
"""By which a share of requests may be rounded."""


def scaled_of(
    workload: Workload,
    engine: ScalingServing,
    resolved: Sequence[Resolved],
    setup: Setup,
    outcomes: Outcomes,
    duration_s: float,
) -> tuple[Scaled, ...]:
    """Return what became of the replicas of each model that is scaled."""
    return tuple(
        _scaled(workload, engine, resolved[at], setup, at, outcomes, duration_s)
        for at in engine.replicas
    )


def _scaled(
    workload: Workload,
    engine: ScalingServing,
    one: Resolved,
    setup: Setup,
    at: int,
    outcomes: Outcomes,
    duration_s: float,
) -> Scaled:
    config = one.served.autoscaling
    assert config is not None
    ever = [each for each in engine.replicas[at].ever if each.start_s <= duration_s]
    there = lived(ever, duration_s)
    begun = [each for each in ever[config.initial :] if each.up_s < math.inf]
    whole_s = sum(each.gone_s - each.start_s for each in there)
    return Scaled(
        model=one.served.model,
        config=config,
        lived=there,
        mean=whole_s / duration_s if duration_s > 0 else float(config.initial),
        starts=len(ever) - config.initial,
        start_s=float(np.mean([each.up_s - each.start_s for each in begun])) if begun else math.nan,
        replica_s=whole_s,
        fewest=_fewest(workload, one, setup, at, outcomes),
    )


def instances_s(there: Sequence[Lived], instances: int) -> list[float]:
    """Return for how long a replica was alive in the place of each instance."""
    found = [0.0] * instances
    for one in there:
        found[one.instance] += one.gone_s - one.start_s
    return found


def _fewest(
    workload: Workload, one: Resolved, setup: Setup, at: int, outcomes: Outcomes
) -> Fewest | None:
    """What no scaling goes below on these requests; None where clients are among them."""
    config = one.served.autoscaling
    assert config is not None
    mine = [k for k, source in enumerate(setup.sources) if source.model == at]
    if any(client.stream in mine for client in setup.clients):
        return None
    streams = [outcomes.stream == k for k in mine]
    variants = np.concatenate([outcomes.variant[rows] for rows in streams])
    work_s = _works(one, setup, at, np.bincount(variants, minlength=len(one.variants)))
    policy = one.served.queue_policy
    rejects = policy.max_queue_size > 0 or (
        policy.default_timeout_us > 0 and policy.timeout_action == "reject"
    )
    start_s = config.startup_s + _least_load_s(setup, at)
    # Each objective must hold: any one of each stream gives a bound.
    objectives = [workload.streams[k].slos for k in mine]
    quickest = [min(slos, key=lambda slo: slo.latency_s, default=None) for slos in objectives]
    strictest = [max(slos, key=lambda slo: slo.share, default=None) for slos in objectives]
    bounds = []
    for choice in [quickest] if strictest == quickest else [quickest, strictest]:
        asked = []
        for slo, rows in zip(choice, streams, strict=True):
            arrival_s, work = outcomes.arrival_s[rows], work_s[outcomes.variant[rows]]
            counted = arrival_s >= workload.warm_up_s
            if slo is None:
                asked.append(Asked(arrival_s, work, len(work), math.inf))
                continue
            late = int(np.count_nonzero(counted) * (1 - slo.share) + ALLOWED)
            asked.append(Asked(arrival_s[counted], work[counted], late, slo.latency_s))
            before = work[~counted]
            asked.append(Asked(arrival_s[~counted], before, len(before), math.inf))
        bounds.append(fewest(asked, config, start_s, rejects=rejects))
    return max(bounds, key=lambda bound: bound.replica_s)


def _least_load_s(setup: Setup, at: int) -> float:
    """What loading the weights of a replica takes at least, wherever it starts."""
    assert setup.scalings is not None
    scaling = setup.scalings[at]
    assert scaling is not None
    templates = setup.plan_tasks.templates
    return min(
        max((float(templates[k].duration[0]) for k in loads), default=0.0)
        for loads in scaling.loads
    )


def _works(one: Resolved, setup: Setup, at: int, requests: Array) -> Array:
    """The replica-seconds that a request of each variant asks at least; see ``fewest``.

    `requests` is how many there are of each.
    """
    model = setup.models[at]
    problem = one.problem
    width = np.array([*problem.streams, *[1.0] * len(setup.plan_tasks.links)], dtype=np.float64)
    asked: dict[int, Array] = {}
    least_s: dict[int, float] = {}
    for k in np.unique(model.template).tolist():
        template = setup.plan_tasks.templates[k]
        busy = busy_seconds(PlanTasks(setup.plan_tasks.plan, (template,)), (1,))
        asked[k] = np.concatenate([np.asarray(part, dtype=np.float64) for part in busy]) / width
        least_s[k] = timeline_of(template.plan, contention="none", trace=False).latency_s
    variants, instances, _ = model.template.shape
    each = []
    for instance in range(instances):
        rows = []
        for variant in range(variants):
            ways = [
                np.append(asked[k], least_s[k] / model.limits[instance]) / (size + 1)
                for size, k in enumerate(model.template[variant, instance].tolist())
            ]
            rows.append(np.min(ways, axis=0))
        table = np.array(rows)
        # Of what the replica has so much of in a second, the one of which most is asked.
        each.append(table[:, int(np.argmax(requests @ table))])
    return np.asarray(np.min(each, axis=0))
