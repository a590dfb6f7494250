"""Candidate instances of a workload's models on a platform, and the sets to simulate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from hetsim.errors import Infeasible, UsageError
from hetsim.hardware.spec import Platform
from hetsim.problem.parts import StorageWidth
from hetsim.provisioning.instances.replicas import (
    Chosen,
    Floats,
    ReplicaChoices,
    RoutedDemand,
    SharedWeights,
    flow_of,
)
from hetsim.provisioning.instances.search import Best, few_of
from hetsim.provisioning.rates.ceiling import demand_of
from hetsim.simulation.clock.metrics import busy_s
from hetsim.simulation.clock.templates import template_of
from hetsim.simulation.service.layout import held_by_instance
from hetsim.simulation.service.replicas import used_by
from hetsim.simulation.service.resolution import ModelOptions, PlanCache, Resolved, resolve_model
from hetsim.workload.arrivals import Closed, Replay
from hetsim.workload.deployment import Deployment, DynamicBatching, Instances, Routing, Served
from hetsim.workload.workload import Stream, Workload, by_model, variant_of


@dataclass(frozen=True, slots=True, eq=False)
class InstanceKind:
    """Candidate instance: its model with it as the only instance, and its entry of a deployment."""

    model: str
    entry: Instances
    resolved: Resolved

    @property
    def strategy(self) -> str:
        """Strategy or saved plan of the instance."""
        assert self.entry.strategy is not None
        return self.entry.strategy

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices that its plans use, in the platform's order."""
        return tuple(used_by(self.resolved)[0])


def quick(resolved: Resolved, size: int, workload: Workload) -> bool:
    """Return whether at most the allowed share of each stream's requests is too slow alone."""
    took = np.array([row[size] for row in resolved.seconds[0]])
    for at, places in resolved.of_stream.items():
        stream = workload.streams[at]
        share = _shares(stream)
        for slo in stream.slos:
            late = float(share[took[list(places)] > slo.latency_s].sum())
            if late > 1 - slo.share + 1e-12:
                return False
    return True


def _shares(stream: Stream) -> Floats:
    """Return the share of a stream's requests of each of its variants."""
    count = len(stream.variants)
    if count == 1 or not isinstance(stream.arrivals, Replay):
        return np.full(count, 1 / count)
    found = np.bincount(variant_of(stream.dims, stream.arrivals.trace()), minlength=count)
    share: Floats = found / found.sum()
    return share


def in_numbers(
    workload: Workload,
    platform: Platform,
    rates: Sequence[float],
    instances: Sequence[InstanceKind],
) -> tuple[ReplicaChoices, tuple[str, ...]]:
    """Return instances as replicas, and the names of their resources: devices, then links.

    `rates` are requests per second of each stream.
    """
    models = {model: at for at, model in enumerate(by_model(workload))}
    demand: dict[tuple[str, int], float] = {}
    for one in {one.model: one for one in instances}.values():
        for at, places in one.resolved.of_stream.items():
            for place, share in zip(places, _shares(workload.streams[at]), strict=True):
                if share > 0:
                    key = (one.model, place)
                    demand[key] = demand.get(key, 0.0) + rates[at] * float(share)
    for model, streams in by_model(workload).items():
        # A model without any instance found is not served.
        if all(one.model != model for one in instances):
            demand[model, 0] = sum(rates[workload.streams.index(stream)] for stream in streams)
    kinds = {key: at for at, key in enumerate(demand)}
    ways: list[tuple[int, int, Floats, float, int]] = []
    limits = []
    for at, one in enumerate(instances):
        served, entry = one.resolved.served, one.entry
        limits.append(float(served.in_flight(entry)) or np.inf)
        counted = [quick(one.resolved, place, workload) for place in range(len(served.sizes))]
        for (model, variant), kind in kinds.items():
            if model != one.model:
                continue
            row = zip(one.resolved.plans[0][variant], one.resolved.seconds[0][variant], strict=True)
            for (plan, took), size, counts in zip(row, served.sizes, counted, strict=True):
                if counts:
                    busy = busy_s(template_of(plan, plan.problem.contention)) / size
                    ways.append((at, kind, busy, took, size))
    names: list[str] = []
    width = np.zeros(0)
    if instances:
        problem = instances[0].resolved.problem
        links = template_of(instances[0].resolved.plans[0][0][0], problem.contention).links
        names = [f"device {name}" for name in problem.devices]
        names += [f"link {name}" for name in links]
        width = np.array([*map(float, problem.streams), *[1.0] * len(links)])
    live, parts = _memory(instances, models, len(platform.devices))
    held = {one.model: one.resolved.problem.held for one in instances}
    replicas = ReplicaChoices(
        model=tuple(models[one.model] for one in instances),
        demand=np.array(list(demand.values())),
        kind_model=tuple(models[model] for model, _ in kinds),
        way_replica=np.array([row[0] for row in ways], dtype=np.int64),
        way_kind=np.array([row[1] for row in ways], dtype=np.int64),
        work=np.array([row[2] for row in ways]).reshape(len(ways), len(names)),
        width=width,
        within_s=np.array([row[3] / row[4] for row in ways]),
        alone_s=np.array([row[3] for row in ways]),
        places=np.array(limits),
        live=live,
        parts=parts,
        room=tuple(spec.memory_bytes for spec in platform.devices.values()),
        held=tuple(
            held.get(model) or (StorageWidth(),) * len(platform.devices) for model in models
        ),
    )
    return replicas, tuple(names)


def _memory(
    instances: Sequence[InstanceKind], models: Mapping[str, int], devices: int
) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.int64]], tuple[SharedWeights, ...]]:
    """Return the live bytes of instances' batches, and weights by the instances sharing them."""
    live = np.zeros((len(instances), devices), dtype=np.int64)
    having: dict[tuple[int, int, str], tuple[list[int], int]] = {}
    for at, one in enumerate(instances):
        mine = held_by_instance(one.resolved, one.entry, one.resolved.plans[0])
        live[at] = mine.live
        for p, there in enumerate(mine.constants):
            for name, nbytes in there.items():
                key = (models[one.model], p, name)
                which, most = having.get(key, ([], 0))
                having[key] = ([*which, at], max(most, nbytes))
    together: dict[tuple[int, int, tuple[int, ...]], int] = {}
    for (model, p, _), (which, nbytes) in having.items():
        of = (model, p, tuple(which))
        together[of] = together.get(of, 0) + nbytes
    parts = tuple(
        SharedWeights(model, p, nbytes, which) for (model, p, which), nbytes in together.items()
    )
    return live, parts


ALONE = "single"
"""Strategy for a model on one device."""

SPLITS = ("heft", "pipeline")
"""Strategies for a model on several devices."""

PAIRS_UP_TO = 6
"""Number of devices up to which all pairs are tried; with more, only all together."""

RARE = 1e-9
"""Share of requests assumed for a model with rate 0, so that it gets an instance."""


@dataclass(frozen=True, slots=True)
class RefusedInstance:
    """Infeasible instance, and why; `slow` if it fits but takes too long alone."""

    model: str
    devices: tuple[str, ...]
    strategy: str
    why: str
    slow: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class OfferedReplicas:
    """Candidate replicas of each model for one way to batch.

    `served` has the models with their first instances, `replicas` the instances as numbers, whose
    resources (devices, then links) are named by `resources`.
    """

    workload: Workload
    served: tuple[Served, ...]
    instances: tuple[InstanceKind, ...]
    replicas: ReplicaChoices
    resources: tuple[str, ...]
    refused: tuple[RefusedInstance, ...]

    @property
    def limit_s(self) -> dict[int, float]:
        """Shortest latency limit of each model that has one."""
        found = {}
        for at, streams in enumerate(by_model(self.workload).values()):
            limits = [slo.latency_s for stream in streams for slo in stream.slos]
            if limits:
                found[at] = min(limits)
        return found


def offered(
    workload: Workload,
    platform: Platform,
    asked: ModelOptions,
    made: PlanCache,
    *,
    batching: DynamicBatching | None = None,
    splits: Sequence[str] = SPLITS,
) -> OfferedReplicas:
    """Return every model planned on each device and across several, with the resources used.

    An instance is offered if at most the allowed share of each stream's requests is too slow in it
    alone. Batch sizes for which that does not hold are not counted as capacity.

    Raises UsageError for closed-loop clients or without requests, WorkloadError as ``resolve``. One
    plan per model, choice of devices, strategy, binding and batch size.
    """
    rates = _rates(workload)
    instances: list[InstanceKind] = []
    refused: list[RefusedInstance] = []
    served: list[Served] = []
    for model, streams in by_model(workload).items():
        base = _served(model, streams, batching)
        served.append(base)
        mine: list[InstanceKind] = []
        for devices, strategy in _choices(platform, splits):
            entry = Instances(1, devices, strategy)
            if base.in_flight(entry):
                entry = replace(entry, max_in_flight=_width(platform, devices))
            one = replace(base, instances=(entry,))
            try:
                resolved = resolve_model(one, workload, platform, asked, made)
            except Infeasible as error:
                refused.append(RefusedInstance(model, devices, strategy, error.what))
                continue
            if len(resolved.plans) > 1:
                why = "its plan is several replicas, each of which is offered alone"
                refused.append(RefusedInstance(model, devices, strategy, why))
                continue
            new = InstanceKind(model, entry, resolved)
            if any(_same(new, other) for other in mine):
                continue
            if not quick(resolved, 0, workload):
                slowest = max(row[0] for row in resolved.seconds[0])
                why = f"a request alone takes {slowest:.3g} s"
                refused.append(RefusedInstance(model, devices, strategy, why, slow=True))
                continue
            mine.append(new)
        instances += mine
    replicas, resources = in_numbers(workload, platform, rates, instances)
    return OfferedReplicas(
        workload, tuple(served), tuple(instances), replicas, resources, tuple(refused)
    )


def in_one_line(each: OfferedReplicas, platform: Platform) -> OfferedReplicas | None:
    """Return the same instances, with one concurrent batch per stream of their devices.

    Other requests of a model wait in one queue for the first free instance. None if nothing
    changes.
    """
    if not each.instances or np.isfinite(each.replicas.places).all():
        return None
    widths = [_width(platform, one.entry.devices) for one in each.instances]
    instances = tuple(
        replace(one, entry=replace(one.entry, max_in_flight=width))
        for one, width in zip(each.instances, widths, strict=True)
    )
    replicas = replace(
        each.replicas,
        places=np.array(widths, dtype=np.float64),
        live=each.replicas.live * np.array(widths)[:, None],
    )
    return replace(each, instances=instances, replicas=replicas)


def _width(platform: Platform, devices: Sequence[str]) -> int:
    return sum(platform.devices[name].streams for name in devices)


def _rates(workload: Workload) -> tuple[float, ...]:
    """Return the requests per second of each stream, all above 0."""
    for stream in workload.streams:
        if isinstance(stream.arrivals, Closed):
            raise UsageError(
                f"the clients of '{stream.name}' wait for answers, and have no rate of their own",
                hint="give arrivals at a rate, and simulate the placement with the clients",
            )
    rates = demand_of(workload)
    return tuple(max(rate, RARE * sum(rates)) for rate in rates)


def _served(model: str, streams: Sequence[Stream], batching: DynamicBatching | None) -> Served:
    levels = max((stream.priority or 0 for stream in streams), default=0)
    sizes = () if batching is None else batching.powers
    return Served(
        model,
        ALONE,
        batch_sizes=sizes,
        dynamic_batching=batching,
        priority_levels=levels,
        default_priority_level=levels,
    )


def _choices(platform: Platform, splits: Sequence[str]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield devices and a strategy for a model on them: one, every pair, and all."""
    names = tuple(platform.devices)
    for name in names:
        yield (name,), ALONE
    several: list[tuple[str, ...]] = []
    if len(names) <= PAIRS_UP_TO:
        several += combinations(names, 2)
    if len(names) > 1 and names not in several:
        several.append(names)
    for devices in several:
        for strategy in splits:
            yield devices, strategy


def _same(one: InstanceKind, other: InstanceKind) -> bool:
    """Return whether two instances of a model run the same subgraphs on the same devices."""
    return all(
        a.groups == b.groups
        for mine, its in zip(one.resolved.plans[0], other.resolved.plans[0], strict=True)
        for a, b in zip(mine, its, strict=True)
    )


MOST = 4
"""Maximum number of sets of instances to simulate, for each way to batch."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """Set of replicas of one way to batch, with the demand that it sustains."""

    offered: OfferedReplicas
    chosen: Chosen
    flow: RoutedDemand
    routing: Routing

    @property
    def deployment(self) -> Deployment:
        """Return the set as a deployment with an instance of each model."""
        mine = [self.offered.instances[one] for one in self.chosen]
        return Deployment(
            tuple(
                replace(
                    served,
                    instances=tuple(one.entry for one in mine if one.model == served.model),
                    routing=self.routing,
                )
                for served in self.offered.served
            )
        )


def candidates(
    found: Sequence[tuple[OfferedReplicas, Best]], most: int, routing: Routing
) -> list[Candidate]:
    """Return the sets to simulate, at most `most` for each way to batch; best first."""
    rows = [
        Candidate(each, chosen, flow, routing)
        for each, best in found
        for chosen, flow in few_of(best, each.replicas, most)
    ]
    rows.sort(key=lambda one: -one.flow.rounded)
    return rows


def served_ways(one: Candidate, platform: Platform, *, routing: Routing | None) -> list[Candidate]:
    """Return the candidate with each queueing discipline of its requests.

    Requests are sent at once, to the instance with the earliest finish or the fewest batches, or
    they wait in one queue for a free instance. Omits equivalent ones, and those whose concurrent
    batches do not fit the memory.
    """
    several = len(one.chosen) > len(one.offered.replicas.models)
    routings: list[Routing] = [one.routing if routing is None else routing]
    if several and routing is None:
        routings.append("shortest_queue")
    found = [replace(one, routing=each) for each in dict.fromkeys(routings)]
    line = in_one_line(one.offered, platform)
    if line is not None and line.replicas.fits(one.chosen):
        flow = flow_of(line.replicas, one.chosen)
        found.append(replace(one, offered=line, flow=flow, routing=routings[-1]))
    return found
