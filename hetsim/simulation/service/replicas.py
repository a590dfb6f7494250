"""Replicas of autoscaled models over a run, and a lower bound on replica-seconds.

The bound holds even for policies that know all arrivals in advance, start and stop replicas at any
time, send each request, batched or alone, to any instance, and let the most expensive requests be
late or rejected, as many as the objectives allow. It bounds work and constructs no schedule.

**Work.** For each instance one limiting resource is chosen: the streams of a device, a link, or its
concurrent batches, each of which takes at least the latency of its plan without contention. A
replica provides at most one second of it per second alive; so the least share that a request of a
batch needs, over all instances and sizes, is a lower bound on its replica-seconds: the *work* of
the request. Every choice is valid; the one with the most work is used. Three bounds follow, and the
largest is returned.

1. *All work*: the sum over requests that must be answered.
2. *Silence*: requests with an objective come in clusters: what comes within the latency after one
   is of its cluster. Between the end of a cluster, by which it is answered, and the begin of the
   next, either some replica is alive all the time, or one starts before the first request of the
   next is answered that is on time. So it costs the lesser of the silence and of a start, and no
   work of requests that are on time is done in either; what lies between two ends of clusters is
   apart from what lies between two others. Clusters of which all requests are late cost nothing:
   those are taken off that cost most for the requests they have, the last one in part.
3. *Peaks beyond the fewest*: ``min_replicas`` are alive until the last request comes. What comes
   from a to b, and is on time, is done from a until the latency after b. Where its work exceeds
   what the fewest replicas do in that time, others do the rest. A queue of fluid of what they do,
   cut at the latency, finds such times, apart from each other: a cycle from an empty queue
   to its last cut; what is cut in it is the rest. Late requests do at most their own work less.

Where 3. with ``max_replicas`` leaves more than late requests may do, no scaling keeps the
objectives, and the bound is infinite.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from hetsim.simulation.autoscaling.serving import Replica, ScalingServing
from hetsim.simulation.clock.metrics import busy_s
from hetsim.simulation.clock.runs import timeline_of
from hetsim.simulation.service.layout import EngineArguments
from hetsim.simulation.service.resolution import Resolved, devices_of
from hetsim.simulation.serving.setup import Outcomes
from hetsim.workload.autoscaling import Autoscaling
from hetsim.workload.workload import Workload

Array: TypeAlias = np.ndarray[Any, Any]

ROUNDING = 1e-9
"""Relative rounding error of sums, deducted from a bound."""


@dataclass(frozen=True, slots=True)
class ReplicaBound:
    """Lower bound on replica-seconds over all scaling policies; infinite if none is sufficient.

    `work_s` is the work of all requests that must be answered; `binds` names the binding bound:
    "work", "silence", "peaks", or "objectives" if no policy meets them.
    """

    replica_s: float
    work_s: float
    binds: str


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """Requests with the same objective.

    `work_s` is the minimum replica-seconds of each; at most `late` of them may be late or rejected
    (all without an objective); the others take at most `latency_s`, which may be infinite.
    """

    arrival_s: Array
    work_s: Array
    late: int
    latency_s: float

    @property
    def spared_s(self) -> float:
        """Maximum work of the requests that are late."""
        return float(np.sort(self.work_s)[max(len(self.work_s) - self.late, 0) :].sum())


def fewest(
    asked: Sequence[Demand], config: Autoscaling, start_s: float, *, rejects: bool
) -> ReplicaBound:
    """Return a lower bound on replica-seconds over all scaling policies.

    `asked` has each request of a model once; a replica start takes `start_s` at least. `rejects`:
    whether requests may be rejected; otherwise each is answered, late or not. Complexity: O(n log
    n) for n requests.
    """
    bound = [one for one in asked if one.latency_s < math.inf]
    timely_s = sum(float(one.work_s.sum()) - one.spared_s for one in bound)
    all_s = timely_s if rejects else sum(float(one.work_s.sum()) for one in asked)
    found = {"work": all_s}
    last_s = max((float(one.arrival_s[-1]) for one in asked if len(one.arrival_s)), default=0.0)
    found["peaks"] = config.min_replicas * last_s
    if bound and sum(len(one.arrival_s) for one in bound):
        arrival = np.concatenate([one.arrival_s for one in bound])
        order = np.argsort(arrival, kind="stable")
        arrival, work = arrival[order], np.concatenate([one.work_s for one in bound])[order]
        latency_s = max(one.latency_s for one in bound)
        spared_s = sum(one.spared_s for one in bound)
        late = sum(one.late for one in bound)
        if _beyond(arrival, work, latency_s, config.max_replicas) * (1 - ROUNDING) > spared_s:
            return ReplicaBound(math.inf, all_s * (1 - ROUNDING), "objectives")
        found["silence"] = timely_s + _silences(arrival, latency_s, start_s, late)
        peaks_s = _beyond(arrival, work, latency_s, config.min_replicas) - spared_s
        found["peaks"] += max(peaks_s, 0.0)
    binds = max(found, key=lambda name: found[name])
    return ReplicaBound(found[binds] * (1 - ROUNDING), all_s * (1 - ROUNDING), binds)


def _silences(arrival_s: Array, latency_s: float, start_s: float, late: int) -> float:
    """Return the least cost of being ready after each silence, with up to `late` late requests."""
    quiet_s = np.diff(arrival_s) - latency_s
    begins = np.flatnonzero(quiet_s > 0) + 1
    cost = np.minimum(quiet_s[begins - 1], start_s)
    sizes = np.diff(np.append(begins, len(arrival_s)))
    # Skip the most expensive clusters per request: at least as much as any set of whole clusters.
    for at in np.argsort(-cost / sizes, kind="stable"):
        if late <= 0:
            break
        taken = min(late, sizes[at])
        late -= taken
        cost[at] *= 1 - taken / sizes[at]
    return float(cost.sum())


def _beyond(arrival_s: Array, work_s: Array, latency_s: float, replicas: int) -> float:
    """Return the work that `replicas` cannot do in time, at one second per second each."""
    room_s = replicas * latency_s
    queue_s = cut_s = 0.0
    before_s = -math.inf
    for at_s, more_s in zip(arrival_s.tolist(), work_s.tolist(), strict=True):
        queue_s = max(queue_s - replicas * (at_s - before_s), 0.0) if replicas else 0.0
        queue_s += more_s
        if queue_s > room_s:
            cut_s += queue_s - room_s
            queue_s = room_s
        before_s = at_s
    return cut_s


@dataclass(frozen=True, slots=True)
class ReplicaLife:
    """Replica in an instance, within the run.

    Times of its start, earliest first request, last request and end, cut at the end of the run;
    `up_s` equals `gone_s` if it never got a request.
    """

    instance: int
    start_s: float
    up_s: float
    leave_s: float
    gone_s: float


@dataclass(frozen=True, slots=True)
class Scaled:
    """Replicas of one model over a run.

    `lived` are by start; those at the beginning of the run existed before. On average `mean`
    replicas are alive, starting and stopping ones included. After the beginning there are `starts`,
    of `start_s` seconds on average, without replicas that stopped earlier; NaN without any.
    `replica_s` are the seconds of all from start to end, or to the end of the run, `fewest` the
    lower bound over all policies; None with closed-loop clients, whose requests depend on the
    replicas.
    """

    model: str
    config: Autoscaling
    lived: tuple[ReplicaLife, ...] = field(repr=False)
    mean: float
    starts: int
    start_s: float
    replica_s: float
    fewest: ReplicaBound | None

    @property
    def replica_hours(self) -> float:
        """Replica-hours that a cloud bills."""
        return self.replica_s / 3600.0

    @property
    def most(self) -> int:
        """Maximum number of living replicas."""
        return max((alive for _, alive, _ in self.changes()), default=0)

    def changes(self) -> list[tuple[float, int, int]]:
        """Return (time, number of living replicas, number that get requests) at each change."""
        moves: dict[float, list[int]] = {}
        for one in self.lived:
            ran = int(one.up_s < one.leave_s)
            for at_s, alive, up in (
                (one.start_s, 1, 0),
                (one.up_s, 0, ran),
                (one.leave_s, 0, -ran),
                (one.gone_s, -1, 0),
            ):
                both = moves.setdefault(at_s, [0, 0])
                both[0] += alive
                both[1] += up
        found, alive, up = [], 0, 0
        for at_s in sorted(moves):
            alive += moves[at_s][0]
            up += moves[at_s][1]
            found.append((at_s, alive, up))
        return found


def replicas_at_end(ever: Sequence[Replica], duration_s: float) -> tuple[ReplicaLife, ...]:
    """Return the replicas that existed until the end of a run."""
    return tuple(
        ReplicaLife(
            one.place,
            one.start_s,
            min(one.up_s, one.gone_s, duration_s),
            min(one.leave_s, duration_s),
            min(one.gone_s, duration_s),
        )
        for one in ever
        if one.start_s < duration_s or one.start_s == 0
    )


def used_by(one: Resolved) -> list[list[str]]:
    """Return the devices that each instance uses, in the problem's order."""
    return [
        [name for name in one.problem.devices if name in used]
        for used in map(devices_of, one.each(one.plans))
    ]


def seconds_of_any(spells: Sequence[tuple[float, float]]) -> float:
    """Return the total seconds in which at least one of the spells lasts. O(n log n)."""
    whole, until_s = 0.0, 0.0
    for begin_s, end_s in sorted(spells):
        whole += max(end_s - max(begin_s, until_s), 0.0)
        until_s = max(until_s, end_s)
    return whole


ALLOWED = 1e-9
"""Tolerance of rounded shares of requests."""


def scaled_of(
    workload: Workload,
    engine: ScalingServing,
    resolved: Sequence[Resolved],
    setup: EngineArguments,
    outcomes: Outcomes,
    duration_s: float,
) -> tuple[Scaled, ...]:
    """Return the replicas of each autoscaled model over a run."""
    found = []
    for at, replicas in engine.replicas.items():
        one = resolved[at]
        config = one.served.autoscaling
        assert config is not None
        ever = [each for each in replicas.ever if each.start_s <= duration_s]
        there = replicas_at_end(ever, duration_s)
        begun = [
            each.up_s - each.start_s for each in ever[config.initial :] if each.up_s < math.inf
        ]
        whole_s = sum(each.gone_s - each.start_s for each in there)
        found.append(
            Scaled(
                model=one.served.model,
                config=config,
                lived=there,
                mean=whole_s / duration_s if duration_s > 0 else float(config.initial),
                starts=len(ever) - config.initial,
                start_s=float(np.mean(begun)) if begun else math.nan,
                replica_s=whole_s,
                fewest=_fewest(workload, one, setup, at, outcomes),
            )
        )
    return tuple(found)


def instances_s(there: Sequence[ReplicaLife], instances: int) -> list[float]:
    """Return by instance the seconds with a living replica."""
    found = [0.0] * instances
    for one in there:
        found[one.instance] += one.gone_s - one.start_s
    return found


def _fewest(
    workload: Workload, one: Resolved, setup: EngineArguments, at: int, outcomes: Outcomes
) -> ReplicaBound | None:
    """Return the lower bound over all policies for these requests; None with closed loops."""
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
    # All objectives must hold, so any one of each stream gives a bound.
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
                asked.append(Demand(arrival_s, work, len(work), math.inf))
                continue
            late = int(np.count_nonzero(counted) * (1 - slo.share) + ALLOWED)
            asked.append(Demand(arrival_s[counted], work[counted], late, slo.latency_s))
            before = work[~counted]
            asked.append(Demand(arrival_s[~counted], before, len(before), math.inf))
        bounds.append(fewest(asked, config, start_s, rejects=rejects))
    return max(bounds, key=lambda bound: bound.replica_s)


def _least_load_s(setup: EngineArguments, at: int) -> float:
    """Return the minimum seconds to load a replica's weights, over all instances."""
    assert setup.scalings is not None
    scaling = setup.scalings[at]
    assert scaling is not None
    templates = setup.plan_tasks.templates
    return min(
        max((float(templates[k].duration[0]) for k in loads), default=0.0)
        for loads in scaling.loads
    )


def _works(one: Resolved, setup: EngineArguments, at: int, requests: Array) -> Array:
    """Return the minimum replica-seconds of a request of each variant; see ``fewest``."""
    model = setup.models[at]
    problem = one.problem
    width = np.array([*problem.streams, *[1.0] * len(setup.plan_tasks.links)], dtype=np.float64)
    asked: dict[int, Array] = {}
    least_s: dict[int, float] = {}
    for k in np.unique(model.template).tolist():
        template = setup.plan_tasks.templates[k]
        asked[k] = busy_s(template) / width
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
        # Of a replica's limited resources, the one that requests need most.
        each.append(table[:, int(np.argmax(requests @ table))])
    return np.asarray(np.min(each, axis=0))
