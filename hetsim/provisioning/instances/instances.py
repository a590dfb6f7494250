"""Instances that there may be, and what they ask for and hold, in numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hetsim.hardware.spec import Platform
from hetsim.problem.parts import Held
from hetsim.provisioning.instances.replicas import Floats, Part, Replicas
from hetsim.provisioning.rates.ceiling import busy_s
from hetsim.simulation.clock.templates import template_of
from hetsim.simulation.service.memory import InstanceHeld, held_by_instance
from hetsim.simulation.service.resolving import Resolved
from hetsim.workload.arrivals.replay import Replay
from hetsim.workload.deployment import Instances
from hetsim.workload.dimensions import variant_of
from hetsim.workload.workload import Stream, Workload, by_model


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """One instance that there may be.

    Attributes
    ----------
    model : str
    entry : Instances
        As the deployment has it.
    resolved : Resolved
        Its model, served by it alone.
    """

    model: str
    entry: Instances
    resolved: Resolved

    @property
    def strategy(self) -> str:
        """What plans it."""
        assert self.entry.strategy is not None
        return self.entry.strategy

    @property
    def devices(self) -> tuple[str, ...]:
        """Those that its plans use, in the platform's order."""
        problem = self.resolved.problem
        used = {
            group.device for row in self.resolved.plans[0] for one in row for group in one.groups
        }
        return tuple(name for name in problem.devices if name in used)


def quick(resolved: Resolved, size: int, workload: Workload) -> bool:
    """Whether no more requests of any stream take longer alone than may be late."""
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
    """The part of a stream's requests that each of its variants is."""
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
    instances: Sequence[Instance],
) -> tuple[Replicas, tuple[str, ...]]:
    """Return instances as replicas, and the names of their resources: devices, then links.

    `rates`: requests a second of each stream.
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
        # Nothing serves a model that no instance was found for.
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
    replicas = Replicas(
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
        held=_held(instances, models, len(platform.devices)),
    )
    return replicas, tuple(names)


def _memory(
    instances: Sequence[Instance], models: Mapping[str, int], devices: int
) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.int64]], tuple[Part, ...]]:
    """What batches of each have live, and weights by the instances that have them in common."""
    live = np.zeros((len(instances), devices), dtype=np.int64)
    having: dict[tuple[int, int, str], tuple[list[int], int]] = {}
    for at, one in enumerate(instances):
        mine: InstanceHeld = held_by_instance(one.resolved, one.entry, one.resolved.plans[0])
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
    parts = tuple(Part(model, p, nbytes, which) for (model, p, which), nbytes in together.items())
    return live, parts


def _held(
    instances: Sequence[Instance], models: Mapping[str, int], devices: int
) -> tuple[tuple[Held, ...], ...]:
    found = {one.model: one.resolved.problem.held for one in instances}
    plain = (Held(),) * devices
    return tuple(found.get(model) or plain for model in models)
