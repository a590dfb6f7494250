"""Service order of devices and links, if it is known before the simulation.

If it is, the outcome of a request never depends on later requests. This makes the capacity of a
trace exact (``hetsim.provisioning.rates.exact_rate``) and allows percentiles over all runs instead
of one (``hetsim.statistics.batches``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetsim.simulation.clock.templates import TemplateLayout
from hetsim.simulation.clock.virtual_time import VirtualTime
from hetsim.simulation.serving.setup import Clients, ModelSetup, RequestSource


class OrderedTask(NamedTuple):
    """Task of a template, by its `number` in the layout.

    It waits for the template's tasks `waits`, by index, and holds devices, then links, `held`. The
    task `turn` must start on its device before it; -1 for none.
    """

    number: int
    waits: tuple[int, ...]
    held: tuple[int, ...]
    turn: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """Tasks of each template in the order in which every resource serves them.

    Each task follows all that it waits for. A resource is *in order* if it serves by request, and
    within a request in this order. If all are, a task starts at the latest of: the ends of all that
    it waits for, its turn, and the time its resources are free of earlier tasks.

    The following holds for all arrival times and durations, including zero:

    1. *Of one template, the ends of a task come by request*, in the order in which the clock
       handles events, not in time alone: by induction over the tasks. What it waits for ends
       so, hence it is ready so. Resources in order start it so; without any it starts when it
       is ready. It lasts equally long each time, ``+`` and ``max`` of floats are monotone, and
       of equal times the clock takes the earlier request's end first.
    2. *A link is in order* where all that one request moves over it is ready at one event, and
       either one template alone uses the link, or all are ready when their request comes.
       Transfers queue when they are ready; requests are ready by request, by 1 or because
       they are admitted so; and what one event makes ready queues by task.
    3. *A device is in order* that one template alone uses, or on which the first subgraph of
       every template waits for nothing, if what else it runs of a request never lets it turn
       to a later request: on one stream each subgraph waits for nothing but those before it
       there and what the first of them waited for; on several for nothing but the latter.
       When a stream is free the earliest request's is there, so it is taken.

    Attributes
    ----------
    templates : tuple of tuple of OrderedTask
    width : tuple of int
        Streams by resource; 1 for links.
    reasons : tuple of str
        Reasons why the order is not certain, one per resource without a proof.
    """

    templates: tuple[tuple[OrderedTask, ...], ...]
    width: tuple[int, ...]
    reasons: tuple[str, ...]


def order_of(layout: TemplateLayout, duration: NDArray[np.float64]) -> Order | None:
    """Return the tasks in order, or None if some subgraph never starts.

    `duration` [tasks] only selects one of several orders of a request's transfers: that of a
    request alone. Complexity: O((tasks + dependencies) (log tasks + devices)).
    """
    structure, first = layout.structure, layout.first
    devices = len(structure.streams)
    before: list[list[int]] = [[] for _ in range(first[-1])]
    for task in range(first[-1]):
        for at in range(structure.successor_at[task], structure.successor_at[task + 1]):
            before[structure.successors[at]].append(task)
    holds = [
        [structure.device[task]]
        if structure.device[task] >= 0
        else [
            devices + structure.held[at]
            for at in range(structure.held_at[task], structure.held_at[task + 1])
        ]
        for task in range(first[-1])
    ]
    found: list[list[int]] = []
    for template in range(len(first) - 1):
        order = _order(layout, template, duration)
        if order is None:
            return None
        found.append(order)
    width = (*structure.streams, *[1] * layout.links)
    used: list[list[list[int]]] = [[[] for _ in found] for _ in width]
    for template, order in enumerate(found):
        for task in order:
            for resource in holds[task]:
                used[resource][template].append(task)
    reasons = []
    for resource, tasks in enumerate(used):
        if resource < devices:
            reason = _device(layout, resource, tasks, before)
        else:
            reason = _link(layout, resource - devices, tasks, before)
        if reason:
            reasons.append(reason)
    templates = []
    for order in found:
        place = {task: at for at, task in enumerate(order)}
        last: dict[int, int] = {}
        mine = []
        for at, number in enumerate(order):
            device = structure.device[number]
            waits = tuple(place[other] for other in before[number])
            mine.append(OrderedTask(number, waits, tuple(holds[number]), last.get(device, -1)))
            # On one stream, the previous task has ended.
            if device >= 0 and width[device] > 1:
                last[device] = at
        templates.append(tuple(mine))
    return Order(tuple(templates), width, tuple(reasons))


def foreseeable(
    layout: TemplateLayout,
    duration: NDArray[np.float64],
    models: Sequence[ModelSetup],
    sources: Sequence[RequestSource],
    clients: Sequence[Clients] = (),
) -> bool:
    """Return whether the outcome of a request never depends on later requests.

    True for models that share neither device nor link, whose requests go one by one in order of
    arrival to devices and links in a certain order. Complexity: that of ``order_of``.
    """
    if clients:
        return False
    levels: dict[int, set[int]] = {}
    for source in sources:
        levels.setdefault(source.model, set()).add(source.level)
    held: set[int] = set()
    for at in sorted(levels):
        model = models[at]
        if model.template.shape[2] > 1 or len(levels[at]) > 1:
            return False
        puts_last = model.timeout_s < math.inf and model.timeout_action == "delay"
        if model.gated and (model.max_queue_size == 0 or puts_last):
            return False
        mine: set[int] = set()
        for template in np.unique(model.template).tolist():
            begin, end = layout.first[template], layout.first[template + 1]
            mine |= resources(layout, template)
            # An end after zero time alternates with the arrivals of the same instant.
            if model.gated and not (np.asarray(duration)[begin:end] > 0).all():
                return False
        if held & mine:
            return False
        held |= mine
    order = order_of(layout, duration)
    return order is not None and not order.reasons


def resources(layout: TemplateLayout, template: int) -> set[int]:
    """Return devices, and links as negative numbers, that a template's tasks hold."""
    structure, (begin, end) = layout.structure, layout.first[template : template + 2]
    found = {structure.device[task] for task in range(begin, end) if structure.device[task] >= 0}
    holds = range(structure.held_at[begin], structure.held_at[end])
    return found | {-1 - structure.held[at] for at in holds}


def _order(
    layout: TemplateLayout, template: int, duration: NDArray[np.float64]
) -> list[int] | None:
    """Return the tasks of a template in the order in which those of a single request start."""
    clock = VirtualTime(
        layout.structure, layout.links, duration, np.zeros(1), np.array([template]),
        lines=layout.first[-1], arrays=False,
    )  # fmt: skip
    clock.run()
    codes: list[int] = clock.log()[0].tolist()
    return codes if clock.over else None


def _link(
    layout: TemplateLayout,
    link: int,
    used: Sequence[Sequence[int]],
    before: Sequence[Sequence[int]],
) -> str | None:
    """Return the reason why a link may not serve in order; None if it provably does."""
    causes = [{tuple(before[task]) for task in tasks} for tasks in used if tasks]
    at_once = all(len(cause) == 1 for cause in causes)
    if at_once and (len(causes) <= 1 or all(cause == {()} for cause in causes)):
        return None
    name = layout.plan.problem.link_names[link]
    if not at_once:
        return f"link '{name}' moves values of a request that are ready at different times"
    return f"requests of several plans share link '{name}'"


def _device(
    layout: TemplateLayout,
    device: int,
    used: Sequence[Sequence[int]],
    before: Sequence[Sequence[int]],
) -> str | None:
    """Return the reason why a device may not serve in order; None if it provably does."""
    name = layout.plan.problem.devices[device]
    width = layout.structure.streams[device]
    users = [tasks for tasks in used if tasks]
    if len(users) > 1 and any(before[tasks[0]] for tasks in users):
        return f"requests of several plans share device '{name}'"
    for tasks in users:
        there = set(before[tasks[0]])
        stack = [*there]
        while stack:
            for task in before[stack.pop()]:
                if task not in there:
                    there.add(task)
                    stack.append(task)
        for task in tasks:
            if not there.issuperset(before[task]):
                return f"device '{name}' runs a request's subgraphs with others between them"
            if width == 1:
                there.add(task)
    return None
