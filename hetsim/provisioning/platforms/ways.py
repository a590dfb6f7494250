"""How an instance serves a model: its plans as tasks, and what figures leave open of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hetsim.errors import Infeasible
from hetsim.hardware.spec import Platform
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.provisioning.platforms.question import SLACK, Class, Off, Task, Way
from hetsim.simulation.clock.playing import timeline_of
from hetsim.simulation.clock.templates import template_of
from hetsim.simulation.service.asked import Asked
from hetsim.simulation.service.memory import held
from hetsim.simulation.service.resolving import Made, Resolved, resolve
from hetsim.workload.arrivals.constant import Constant
from hetsim.workload.deployment import Deployment, DynamicBatching, Instances, Served
from hetsim.workload.workload import Stream, Workload


def served_by(model: str, sizes: Sequence[int], by: Instances) -> Served:
    """Return a model as one instance serves it, in batches of these sizes."""
    return Served(
        model,
        strategy=by.strategy or "single",
        batch_sizes=tuple(sizes),
        instances=(by,),
        dynamic_batching=DynamicBatching(sizes[-1]) if len(sizes) > 1 else None,
    )


def requests_for(model: str, classes: Sequence[Class], mine: Sequence[int]) -> Workload:
    """Return a workload that asks for one request of each of some classes of a model."""
    streams = tuple(
        Stream(str(k), model, Constant(1.0), dims=dict(classes[k].variant)) for k in mine
    )
    return Workload(streams, requests=1)


def resolved_for(
    model: str,
    sizes: Sequence[int],
    by: Instances,
    wanted: Workload,
    on: tuple[Platform, Made],
    asked: Asked,
) -> Resolved | None:
    """Return a model as one instance serves it, in as many of these sizes as it has memory for.

    None where it cannot serve it at all, one by one. `on` is a platform and what is made for it.
    """
    platform, made = on
    alone = None
    # What cannot serve one cannot serve more; what is planned once is not planned again.
    for count in (1, *range(len(sizes), 1, -1)):
        served = served_by(model, sizes[:count], by)
        try:
            (one,) = resolve(Deployment((served,)), wanted, platform, asked, made)
        except Infeasible:
            if count == 1:
                return None
            continue
        if count > 1:
            return one
        alone = one
    return alone


def off_of(problem: Problem, p: int) -> Off:
    """Return what is left open of a device and the way to it; none where it is at the bad end."""
    if problem.certain or problem.host is None:
        return Off({}, {})
    known = problem.uncertainty
    return Off(
        *(
            {
                source: weight
                for source, weight in zip(known.sources, row.tolist(), strict=True)
                if weight
            }
            for row in (known.devices[p], known.routes[problem.host, p])
        )
    )


def ways_of(
    one: Resolved, slots: Mapping[str, int], links: Mapping[str, int]
) -> list[tuple[Way, ...]]:
    """Return by class the ways of the one instance of a model, by size.

    Parameters
    ----------
    slots, links : mapping of str to int
        What its devices and links are called in tasks.

    Complexity: that of playing each plan twice.
    """
    at = [one.problem.device_index(name) for name in one.served.instances[0].devices]
    whole = []
    for place in range(len(one.served.sizes)):
        part = replace(
            one,
            served=replace(
                one.served,
                batch_sizes=one.served.sizes[: place + 1],
                dynamic_batching=DynamicBatching(one.served.sizes[place]),
            ),
            plans=tuple(tuple(row[: place + 1] for row in rows) for rows in one.plans),
        )
        (own,) = held((part,))
        whole.append(tuple(own.whole[p] for p in at))
    return [
        tuple(
            _way(size, plan, nbytes, links, slots)
            for size, plan, nbytes in zip(one.served.sizes, row, whole, strict=True)
        )
        for row in one.plans[0]
    ]


def _way(
    size: int,
    plan: Plan,
    held_bytes: tuple[int, ...],
    links: Mapping[str, int],
    slots: Mapping[str, int],
) -> Way:
    template = template_of(plan, plan.problem.contention)
    names = plan.problem.devices
    tasks = [
        Task(slots[names[p]], float(seconds), (), before)
        for p, seconds, before in zip(
            template.group_device, template.duration, template.predecessors, strict=False
        )
    ]
    for transfer, before in zip(
        template.transfers, template.predecessors[template.groups :], strict=True
    ):
        holds = tuple(links[template.links[link]] for link in transfer.resources)
        tasks.append(Task(-1, transfer.seconds, tuple(sorted(holds)), before))
    busy_s = sum(task.seconds for task in tasks if task.slot >= 0)
    quickest_s = timeline_of(plan, contention="none", trace=False).latency_s
    return Way(size, tuple(tasks), busy_s, quickest_s * (1 - SLACK), max(held_bytes), held_bytes)
