"""In which order devices and links serve tasks, and where that is certain before any is played.

Both the proof and its limits stand in ``Order``.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hetsim.simulation.stuck import NEVER_START


class Structure(Protocol):
    """What waits for what and holds what, as the clock's kernel takes it."""

    @property
    def waits(self) -> Sequence[int]: ...
    @property
    def successor_at(self) -> Sequence[int]: ...
    @property
    def successors(self) -> Sequence[int]: ...
    @property
    def device(self) -> Sequence[int]: ...
    @property
    def issue_at(self) -> Sequence[int]: ...
    @property
    def issue(self) -> Sequence[int]: ...
    @property
    def streams(self) -> Sequence[int]: ...
    @property
    def held_at(self) -> Sequence[int]: ...
    @property
    def held(self) -> Sequence[int]: ...


class Layout(Protocol):
    """Templates of tasks, as ``clock.playing.Layout`` has them."""

    @property
    def plan(self) -> Any: ...
    @property
    def links(self) -> int: ...
    @property
    def first(self) -> Sequence[int]: ...
    @property
    def structure(self) -> Structure: ...


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """The tasks of all templates in the order in which every resource is to serve them.

    Resources are devices, then links. Tasks are numbered as they stand here: each of a template
    comes after all that it waits for.

    The recursion plays request after request and of each its tasks in this order: a task is
    ready when all that it waits for has ended, and starts then or when its resources are free
    of the tasks before it, whichever is later. **That is the clock's answer where every resource
    serves by request, and within a request in this order**: where it is *in order*.

    What is certain, for any times of arrival and any durations, zero among them:

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

    A resource of which that cannot be said is *watched*: the recursion looks at every task
    there whether a later task could have overtaken an earlier one, and gives up where it could.

    - A link is in order where tasks are ready in order. Of tasks that are ready at one time
      the clock queues those first whose predecessor's end it handles first, which is by
      request, then by task, where all tasks take time: then the clock has all ends of a moment
      before it when the moment begins. Within a request the order of predecessors must agree
      (``strict`` where it does not, and readiness at one time is then not taken either).
    - A device is in order where no task is ready before the latest start that had to wait for
      its inputs while a stream was free: before such a start the device would have taken it.
      What was ready sooner than a start that had to wait for a stream was behind it anyway,
      for devices take the earliest request. Subgraphs of one request wait for their turn.

    Where a task takes no time, or less than floats can tell at the times reached, ends and
    starts of one moment alternate, and only readiness at times that differ is taken.

    Attributes
    ----------
    first : int array [templates + 1]
        Tasks of template t are ``first[t] .. first[t + 1] - 1``.
    of_layout : int array [tasks]
        Which of the layout's tasks each is.
    waits_at, waits : int array [tasks + 1], [dependencies]
        Task i waits for tasks ``waits[waits_at[i]:waits_at[i + 1]]``.
    held_at, held : int array [tasks + 1], [holds]
        Resources that it holds.
    width : int array [resources]
        Streams; 1 for links.
    previous : int array [tasks]
        The task before it on its device, of the same request; -1 for none, and for transfers.
    watched : bool array [resources]
    strict : bool array [tasks]
    reasons : tuple of str
        Why resources are watched, one each, in order of the resources.
    """

    first: NDArray[np.int64]
    of_layout: NDArray[np.int64]
    waits_at: NDArray[np.int64]
    waits: NDArray[np.int64]
    held_at: NDArray[np.int64]
    held: NDArray[np.int64]
    width: NDArray[np.int64]
    previous: NDArray[np.int64]
    watched: NDArray[np.bool_]
    strict: NDArray[np.bool_]
    reasons: tuple[str, ...]


def applies(layout: Layout) -> str | None:
    """Return None where the recursion gives the clock's times whatever happens, else why not.

    Durations and arrivals do not matter: see ``Order``. Where it says a reason the recursion may
    be tried; it then either gives the clock's times or says that it does not.
    """
    found = order_of(layout, np.ones(layout.first[-1]))
    if found is None:
        return NEVER_START
    return found.reasons[0] if found.reasons else None


def order_of(layout: Layout, duration: NDArray[np.float64]) -> Order | None:
    """Return the tasks in order, or None where some subgraph never starts.

    `duration` [tasks] only says which of several orders of one request's transfers is looked
    for: that of a request alone. Complexity: O((tasks + dependencies)
    (log tasks + devices)).
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
    order: list[int] = []
    for template in range(len(first) - 1):
        found = _order(layout, template, before, holds, duration.tolist())
        if found is None:
            return None
        order += found
    place = {task: at for at, task in enumerate(order)}
    width = [*structure.streams, *[1] * layout.links]
    used: list[list[list[int]]] = [[[] for _ in first[1:]] for _ in width]
    for template in range(len(first) - 1):
        for task in order[first[template] : first[template + 1]]:
            for resource in holds[task]:
                used[resource][template].append(task)
    reasons: dict[int, str] = {}
    strict = np.zeros(len(order), dtype=np.bool_)
    previous = np.full(len(order), -1, dtype=np.int64)
    for resource, tasks in enumerate(used):
        if resource < devices:
            reason = _device(layout, resource, tasks, before)
        else:
            reason = _link(layout, resource - devices, tasks, before)
        for task, following in chain.from_iterable(map(pairwise, tasks)):
            if resource < devices:
                previous[place[following]] = place[task]
            else:
                strict[place[following]] |= not _handled_first(task, following, before)
        if reason:
            reasons[resource] = reason
    waits_at, waits = rows_of([[place[task] for task in before[at]] for at in order])
    held_at, held = rows_of([holds[task] for task in order])
    return Order(
        first=np.array(first, dtype=np.int64),
        of_layout=np.array(order, dtype=np.int64),
        waits_at=waits_at,
        waits=waits,
        held_at=held_at,
        held=held,
        width=np.array(width, dtype=np.int64),
        watched=np.array([resource in reasons for resource in range(len(width))], dtype=np.bool_),
        previous=previous,
        strict=strict,
        reasons=tuple(reasons.values()),
    )


def rows_of(rows: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where each row begins, and its entries, put end to end."""
    at = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return at, np.array([entry for row in rows for entry in row], dtype=np.int64)


def _order(
    layout: Layout,
    template: int,
    before: Sequence[Sequence[int]],
    holds: Sequence[Sequence[int]],
    duration: Sequence[float],
) -> list[int] | None:
    """The tasks of a template as a request alone is ready for them, in turn on every device."""
    structure = layout.structure
    devices = len(structure.streams)
    begin, beyond = layout.first[template], layout.first[template + 1]
    pending = {task: len(before[task]) for task in range(begin, beyond)}
    turn = [structure.issue_at[template * devices + d] for d in range(devices)]
    last = [structure.issue_at[template * devices + d + 1] for d in range(devices)]
    streams = [[0.0] * width for width in (*structure.streams, *[1] * layout.links)]
    end: dict[int, float] = {}
    able: list[tuple[float, int]] = []

    def offer(task: int) -> None:
        """Put a task up where it waits for nothing and it is its turn."""
        device = structure.device[task]
        if not pending[task] and (device < 0 or structure.issue[turn[device]] == task):
            heapq.heappush(able, (max((end[other] for other in before[task]), default=0.0), task))

    for task in pending:
        offer(task)
    while able:
        ready, task = heapq.heappop(able)
        start = max([ready, *(min(streams[resource]) for resource in holds[task])])
        end[task] = start + duration[task]
        for resource in holds[task]:
            streams[resource].remove(min(streams[resource]))
            streams[resource].append(end[task])
        device = structure.device[task]
        if device >= 0:
            turn[device] += 1
            if turn[device] < last[device]:
                offer(structure.issue[turn[device]])
        for at in range(structure.successor_at[task], structure.successor_at[task + 1]):
            follower = structure.successors[at]
            pending[follower] -= 1
            offer(follower)
    return list(end) if len(end) == len(pending) else None


def _handled_first(task: int, following: int, before: Sequence[Sequence[int]]) -> bool:
    """Whether of two transfers of a request that are ready at one time the first queues first."""
    if before[task] == before[following]:
        return task < following
    return bool(before[following]) and max(before[task], default=-1) < min(before[following])


def _link(
    layout: Layout, link: int, used: Sequence[Sequence[int]], before: Sequence[Sequence[int]]
) -> str | None:
    """Why a link may not serve in order; None where it does for certain."""
    causes = [{tuple(before[task]) for task in tasks} for tasks in used if tasks]
    at_once = all(len(cause) == 1 for cause in causes)
    if at_once and (len(causes) <= 1 or all(cause == {()} for cause in causes)):
        return None
    name = layout.plan.problem.link_names[link]
    if not at_once:
        return f"link '{name}' moves values of a request that are there at unlike times"
    return f"requests of several replicas meet at link '{name}'"


def _device(
    layout: Layout, device: int, used: Sequence[Sequence[int]], before: Sequence[Sequence[int]]
) -> str | None:
    """Why a device may not serve in order; None where it does for certain."""
    name = layout.plan.problem.devices[device]
    width = layout.structure.streams[device]
    users = [tasks for tasks in used if tasks]
    if len(users) > 1 and any(before[tasks[0]] for tasks in users):
        return f"requests of several replicas meet at device '{name}'"
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
