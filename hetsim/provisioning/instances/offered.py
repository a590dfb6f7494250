"""Instances that there may be of a workload's models on a platform, and what they would do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from hetsim.errors import Infeasible, UsageError
from hetsim.hardware.spec import Platform
from hetsim.provisioning.instances.instances import Instance, in_numbers, quick
from hetsim.provisioning.instances.replicas import Chosen, Replicas
from hetsim.provisioning.rates.ceiling import demand_of
from hetsim.simulation.service.asked import Asked
from hetsim.simulation.service.resolving import Made, resolve_model
from hetsim.workload.arrivals.closed import Closed
from hetsim.workload.deployment import Deployment, DynamicBatching, Instances, Routing, Served
from hetsim.workload.workload import Stream, Workload, by_model

ALONE = "single"
"""What plans a model on one device."""

SPLITS = ("heft", "pipeline")
"""What plans one over several."""

PAIRS_UP_TO = 6
"""Devices up to which every two of them are tried; of more, all together."""

RARE = 1e-9
"""Of all requests: those of a model that comes at a rate of 0, so that it has a place."""


@dataclass(frozen=True, slots=True)
class Refused:
    """An instance that there cannot be.

    Attributes
    ----------
    model : str
    devices : tuple of str
        On which it was tried.
    strategy : str
    why : str
    slow : bool
        It fits, and takes longer alone than is asked.
    """

    model: str
    devices: tuple[str, ...]
    strategy: str
    why: str
    slow: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Offered:
    """What there may be of each model under one way to batch.

    Attributes
    ----------
    workload : Workload
    served : tuple of Served
        The models, with the first of their instances.
    instances : tuple of Instance
    replicas : Replicas
        The same in numbers; its resources are devices, then links.
    resources : tuple of str
    refused : tuple of Refused
    """

    workload: Workload
    served: tuple[Served, ...]
    instances: tuple[Instance, ...]
    replicas: Replicas
    resources: tuple[str, ...]
    refused: tuple[Refused, ...]

    @property
    def limit_s(self) -> dict[int, float]:
        """The shortest latency that is asked of each model, where any is."""
        found = {}
        for at, streams in enumerate(by_model(self.workload).values()):
            limits = [slo.latency_s for stream in streams for slo in stream.slos]
            if limits:
                found[at] = min(limits)
        return found

    def deployment(self, chosen: Chosen, routing: Routing) -> Deployment:
        """Return a set as a deployment; each model has an instance in it."""
        models = []
        for served in self.served:
            entries = tuple(
                self.instances[one].entry
                for one in chosen
                if self.instances[one].model == served.model
            )
            models.append(replace(served, instances=entries, routing=routing))
        return Deployment(tuple(models))


def offered(
    workload: Workload,
    platform: Platform,
    asked: Asked,
    made: Made,
    *,
    batching: DynamicBatching | None = None,
    splits: Sequence[str] = SPLITS,
) -> Offered:
    """Plan every model on each device alone, and over several, and say what each plan asks for.

    An instance is offered where a request that runs alone in it meets the model's objectives: of
    no stream more take longer than its limit than may be late. Batches of a size that does not do
    so are not counted as work that it could do.

    Raises
    ------
    UsageError
        Where clients wait for answers, whose rate is what they get, or nothing comes.
    WorkloadError
        As ``resolve`` does.

    Complexity: a plan for each model, choice of devices, strategy, binding and batch size.
    """
    rates = _rates(workload)
    instances: list[Instance] = []
    refused: list[Refused] = []
    served: list[Served] = []
    for model, streams in by_model(workload).items():
        base = _served(model, streams, batching)
        served.append(base)
        mine: list[Instance] = []
        for devices, strategy in _choices(platform, splits):
            entry = Instances(1, devices, strategy)
            if base.in_flight(entry):
                entry = replace(entry, max_in_flight=_width(platform, devices))
            one = replace(base, instances=(entry,))
            try:
                resolved = resolve_model(one, workload, platform, asked, made)
            except Infeasible as error:
                refused.append(Refused(model, devices, strategy, error.what))
                continue
            if len(resolved.plans) > 1:
                why = "its plan is several replicas, each of which is offered by itself"
                refused.append(Refused(model, devices, strategy, why))
                continue
            new = Instance(model, entry, resolved)
            if any(_same(new, other) for other in mine):
                continue
            if not quick(resolved, 0, workload):
                slowest = max(row[0] for row in resolved.seconds[0])
                why = f"a request alone takes {slowest:.3g} s"
                refused.append(Refused(model, devices, strategy, why, slow=True))
                continue
            mine.append(new)
        instances += mine
    replicas, resources = in_numbers(workload, platform, rates, instances)
    return Offered(workload, tuple(served), tuple(instances), replicas, resources, tuple(refused))


def in_one_line(each: Offered, platform: Platform) -> Offered | None:
    """Return the same instances, each with as many requests under way as its devices have streams.

    The others of its model wait in one line for the first that is free, in the place of being sent
    at once to an instance that they then wait for. None where that is so already.
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
    """Requests a second of each stream, all above 0."""
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
    """Devices, and what plans a model on them: one, every two, and all."""
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


def _same(one: Instance, other: Instance) -> bool:
    """Whether two instances of a model run the same subgraphs on the same devices."""
    return all(
        a.groups == b.groups
        for mine, its in zip(one.resolved.plans[0], other.resolved.plans[0], strict=True)
        for a, b in zip(mine, its, strict=True)
    )
