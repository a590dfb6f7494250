"""Remaining tasks of requests on the virtual clock: a whole plan, or the rest after a failure."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetsim.problem.groups import Group
from hetsim.problem.parts import GRAPH_INPUT, Contention
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.rules import Structure
from hetsim.simulation.clock.templates import (
    PlanTasks,
    Template,
    TemplatePart,
    structure_of,
    tasks_of_plan,
)

WAITS, HAS_ENDED, IS_RUNNING = 0, 1, 2

Ints = NDArray[np.int64]


class InFlight(NamedTuple):
    """Requests in flight.

    By request and task of the widest template: `progress` is WAITS, HAS_ENDED or IS_RUNNING,
    `stream` that of a running task.
    """

    request: Ints
    template: Ints
    progress: NDArray[np.int8]
    stream: Ints

    def some(self, which: NDArray[np.bool_]) -> InFlight:
        """Return a selection of them."""
        parts = self.request[which], self.template[which], self.progress[which], self.stream[which]
        return InFlight(*parts)


def alike(numbers: Sequence[Ints], progress: NDArray[np.int8]) -> tuple[Ints, Ints]:
    """Return the first row of each class of equal rows, in row order, and each row's class.

    Complexity: O(bytes of all rows).
    """
    columns = [np.asarray(one, np.int64).reshape(-1, 1).view(np.int8) for one in numbers]
    rows = np.ascontiguousarray(np.hstack([*columns, progress]))
    texts = rows.view(f"V{rows.shape[1]}").ravel()
    _, first, kind = np.unique(texts, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return first[order], np.argsort(order)[kind]


Held = Mapping[int, frozenset[int]]
"""Devices that hold a value."""


@dataclass(frozen=True, slots=True)
class RecoveryTask:
    """Subgraph or transfer of a request.

    Tasks of a request are ordered by `version` and `index`, also if they end at once. `device` is
    that of a subgraph, -1 for a transfer, which moves `value` from `source` to `target` and holds
    the links `resources`. `group` is a subgraph counted over all replicas, for a transfer its
    sender, -1 if there is none any more. When it ends, values are available as `gives`, (value,
    device); `ends` are a subgraph's nodes without readers.
    """

    version: int
    index: int
    seconds: float
    device: int
    group: int
    value: int = -1
    source: int = -1
    target: int = -1
    resources: tuple[int, ...] = ()
    gives: tuple[tuple[int, int], ...] = ()
    ends: tuple[int, ...] = ()

    def needs(self, device: int) -> bool:
        """Return whether it is lost with a device."""
        return device in (self.device, self.source, self.target)


@dataclass(frozen=True, slots=True, eq=False)
class Rest:
    """Remaining tasks of a request from some time on: a template for the clock.

    `groups` are those of its replica, and `computed` the nodes without readers that have run.
    `tasks` are by (version, index), including those running at that time, which are `under_way`, in
    the given order. By task: `before` has those that must end first, and `counts` whether the
    request waits for it.
    """

    groups: tuple[Group, ...]
    held: Held
    computed: frozenset[int]
    tasks: tuple[RecoveryTask, ...]
    before: tuple[tuple[int, ...], ...]
    under_way: tuple[int, ...]
    counts: tuple[bool, ...]


def runs_again(before: Rest, progress: NDArray[np.int8], after: Rest) -> bool:
    """Return whether an ended task has to run again; `progress` as in ``InFlight``."""
    ran = {
        (task.version, task.index)
        for task, done in zip(before.tasks, progress.tolist(), strict=False)
        if done == HAS_ENDED and task.device >= 0
    }
    return any(
        (task.version, task.index) in ran
        for at, task in enumerate(after.tasks)
        if task.device >= 0 and at not in after.under_way
    )


def leftovers(rest: Rest, running: Sequence[RecoveryTask]) -> Rest:
    """Return the rest of a finished request: running tasks that nothing waits for."""
    order = sorted(range(len(running)), key=lambda k: (running[k].version, running[k].index))
    none: tuple[tuple[int, ...], ...] = ((),) * len(running)
    return Rest(
        rest.groups,
        rest.held,
        rest.computed,
        tuple(running[k] for k in order),
        none,
        tuple(order.index(k) for k in range(len(running))),
        (False,) * len(running),
    )


class Rests:
    """Rests by number; those in use are the clock's templates.

    `used` [templates] are laid out, and `first` [templates + 1] are the offsets of their tasks.
    """

    def __init__(self, streams: Sequence[int]) -> None:
        self.known: list[Rest] = []
        self.used: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.first: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
        self._streams = streams
        self._number_of: dict[Hashable, int] = {}
        self._parts: list[TemplatePart] = []

    def number(self, key: Hashable, make: Callable[[], Rest]) -> int:
        """Return the number of the rest with this key, creating it if needed."""
        if key not in self._number_of:
            rest = make()
            self._number_of[key] = len(self.known)
            self.known.append(rest)
            self._parts.append(
                TemplatePart(
                    [t.device if t.device >= 0 else -1 - t.target for t in rest.tasks],
                    rest.before,
                    [task.resources for task in rest.tasks],
                    rest.under_way,
                )
            )
        return self._number_of[key]

    def lay_out(self, used: NDArray[np.int64]) -> tuple[Structure, NDArray[np.float64]]:
        """Return the structure of the given rests for the clock, and seconds by task.

        Running tasks that nothing waits for have NaN seconds.
        """
        numbers = used.tolist()
        structure = structure_of([self._parts[number] for number in numbers], self._streams)
        self.used, self.first = used, np.array(structure.first, dtype=np.int64)
        rests = [self.known[number] for number in numbers]
        seconds = [
            task.seconds if counts else math.nan
            for rest in rests
            for task, counts in zip(rest.tasks, rest.counts, strict=True)
        ]
        return structure, np.array(seconds, dtype=np.float64)


Name = tuple[str, int, int]
"""Key of a task during layout: ("runs", place, 0), ("group", g, 0) or ("move", value, target)."""


class Version:
    """Plan as tasks with one layout per replica; each loss of devices adds a version."""

    def __init__(self, plan: Plan, version: int, contention: Contention) -> None:
        self.plan = plan
        self.plan_tasks: PlanTasks = tasks_of_plan(plan, contention)
        self.layouts = [
            TaskLayout(template, version, contention) for template in self.plan_tasks.templates
        ]

    def layout_of(self, groups: Sequence[Group], replica: int) -> TaskLayout:
        """Return the layout with these groups, or else that of `replica`."""
        for layout in self.layouts:
            if layout.plan.groups == groups:
                return layout
        return self.layouts[replica]

    @property
    def devices(self) -> set[int]:
        """Devices that some replica uses."""
        return {device for one in self.plan_tasks.templates for device in one.group_device}


class TaskLayout:
    """Template as tasks with their inputs and outputs. O(V + E)."""

    def __init__(self, template: Template, version: int, contention: Contention) -> None:
        self.plan = plan = template.plan
        self.version = version
        self.template = template
        self._fifo = contention == "fifo"
        problem = plan.problem
        owner, groups = self.template.owner, self.template.groups
        self.reads: list[list[int]] = [[] for _ in range(groups)]
        self.gives: list[list[int]] = [[] for _ in range(groups)]
        busy_nodes = [False] * problem.n
        self.inputs: list[int] = []
        self.outputs: list[int] = []
        for index, value in enumerate(problem.values):
            maker = -1 if value.producer == GRAPH_INPUT else owner[value.producer]
            readers = sorted({owner[node] for node in value.consumers} - {maker})
            if maker >= 0:
                if value.consumers or value.is_output:
                    busy_nodes[value.producer] = True
                if readers or value.is_output:
                    self.gives[maker].append(index)
            elif problem.host is None:
                continue
            else:
                self.inputs.append(index)
            if value.is_output and (problem.host is not None or maker >= 0):
                self.outputs.append(index)
            for reader in readers:
                self.reads[reader].append(index)
        self.ends = [
            tuple(node for node in group.nodes if not busy_nodes[node]) for group in plan.groups
        ]

    def fresh(self) -> Rest:
        """Return all tasks of a request that has just arrived."""
        host = self.plan.problem.host
        held = {} if host is None else {value: frozenset({host}) for value in self.inputs}
        return self.rest(held, frozenset(), ())

    def rest(self, held: Held, computed: frozenset[int], running: Sequence[RecoveryTask]) -> Rest:
        """Return the remaining tasks of a request while `running` are in progress.

        A value is taken from where it is, or will be when a running task ends; values available
        nowhere are recomputed, with everything they need. If nothing counts, the request is over.
        """
        problem = self.plan.problem
        coming: dict[tuple[int, int], Name] = {}
        for place, task in enumerate(running):
            for given in task.gives:
                coming.setdefault(given, ("runs", place, 0))
        due = [value for value in self.outputs if not self._delivered(held, value)]
        needed = self._needed(held, computed, running, coming, due)
        counted: set[Name] = {("runs", k, 0) for k, task in enumerate(running) if task.ends}
        counted |= {("group", g, 0) for g in needed}
        # By (value, target): source, and the task after which the value is there.
        moves: dict[tuple[int, int], tuple[int, Name | None]] = {}
        waiting: dict[Name, dict[Name, None]] = {}

        def bring(value: int, target: int) -> Name | None:
            """Return the task after which `value` is on `target`; None if it is already there."""
            if target in held.get(value, ()):
                return None
            if (value, target) in coming:
                counted.add(coming[value, target])
                return coming[value, target]
            name = ("move", value, target)
            if (value, target) in moves:
                return name
            maker, source = self._source(held, coming, value, target)
            if source == target:
                return maker
            moves[value, target] = source, maker
            counted.add(name)
            if maker is not None:
                counted.add(maker)
                waiting[name] = {maker: None}
            return name

        for g in sorted(needed):
            device = self.template.group_device[g]
            before = [bring(value, device) for value in self.reads[g]]
            waiting[("group", g, 0)] = dict.fromkeys(name for name in before if name is not None)
        for value in due:
            if problem.host is not None:
                bring(value, problem.host)
            else:
                counted.update(name for (made, _), name in coming.items() if made == value)
        found: dict[Name, RecoveryTask] = {("runs", k, 0): task for k, task in enumerate(running)}
        found |= {("group", g, 0): self._subgraph(g) for g in sorted(needed)}
        found |= self._transfers(moves, found)
        # Running tasks come first among equals.
        names = sorted(found, key=lambda name: (found[name].version, found[name].index))
        place_of = {name: place for place, name in enumerate(names)}
        return Rest(
            self.plan.groups,
            held,
            computed,
            tuple(found[name] for name in names),
            tuple(tuple(place_of[other] for other in waiting.get(name, ())) for name in names),
            tuple(place_of["runs", k, 0] for k in range(len(running))),
            tuple(name in counted for name in names),
        )

    def _transfers(
        self,
        moves: Mapping[tuple[int, int], tuple[int, Name | None]],
        found: Mapping[Name, RecoveryTask],
    ) -> dict[Name, RecoveryTask]:
        """Return transfers in the order of (sending subgraph, value, destination)."""
        problem = self.plan.problem

        def sender(maker: Name | None) -> int:
            task = found[maker] if maker is not None and maker[0] != "move" else None
            ours = task is not None and task.device >= 0 and task.version == self.version
            return task.group if task is not None and ours else -1

        ordered = sorted((sender(maker), *place) for place, (_, maker) in moves.items())
        made: dict[Name, RecoveryTask] = {}
        for index, (group, value, target) in enumerate(ordered, start=self.template.groups):
            source = moves[value, target][0]
            route = problem.routes[source][target]
            made["move", value, target] = RecoveryTask(
                self.version,
                index,
                route.seconds(problem.values[value].nbytes),
                -1,
                group,
                value,
                source,
                target,
                route.resources if self._fifo else (),
                ((value, target),),
            )
        return made

    def _needed(
        self,
        held: Held,
        computed: frozenset[int],
        running: Iterable[RecoveryTask],
        coming: Iterable[tuple[int, int]],
        due: Iterable[int],
    ) -> set[int]:
        """Return the subgraphs that must run, for the first time or again."""
        owner, values = self.template.owner, self.plan.problem.values
        there = {value for value, places in held.items() if places}
        there |= {value for value, _ in coming}
        done = computed.union(*(task.ends for task in running))
        pending = [owner[values[value].producer] for value in due if value not in there]
        pending += [g for g, ends in enumerate(self.ends) if not done.issuperset(ends)]
        found: set[int] = set()
        while pending:
            g = pending.pop()
            if g not in found:
                found.add(g)
                pending += [
                    owner[values[value].producer]
                    for value in self.reads[g]
                    if value not in there and values[value].producer != GRAPH_INPUT
                ]
        return found

    def _source(
        self, held: Held, coming: Mapping[tuple[int, int], Name], value: int, target: int
    ) -> tuple[Name | None, int]:
        """Return the task that makes or brings a value, None if it is available, and its device."""
        problem = self.plan.problem
        routes, size = problem.routes, problem.values[value].nbytes
        places = sorted(held.get(value, ()))
        if places:
            return None, min(places, key=lambda place: routes[place][target].seconds(size))
        arriving = sorted(place for made, place in coming if made == value)
        if arriving:
            place = min(arriving, key=lambda place: routes[place][target].seconds(size))
            return coming[value, place], place
        g = self.template.owner[problem.values[value].producer]
        return ("group", g, 0), self.template.group_device[g]

    def _delivered(self, held: Held, value: int) -> bool:
        places = held.get(value, ())
        host = self.plan.problem.host
        return bool(places) if host is None else host in places

    def _subgraph(self, group: int) -> RecoveryTask:
        device = self.template.group_device[group]
        return RecoveryTask(
            self.version,
            group,
            float(self.template.duration[group]),
            device,
            self.template.first_group + group,
            gives=tuple((value, device) for value in self.gives[group]),
            ends=self.ends[group],
        )


Replan = Callable[[Plan, tuple[str, ...]], Plan]
"""Function that returns a plan without the given devices."""


class InstanceStates:
    """Instances of all models, and the templates of their batches.

    An instance is *gone* if one of its plans uses a permanently lost device, *down* if one uses a
    device that will return, and otherwise *stands*. Batches go to standing instances; if a model
    has none, to those that are down, where they wait; if all are gone, they are replanned on the
    remaining devices, by `replan`.

    `plans` are by template, `templates` by model and instance. `versions` are the current ones by
    template, `instances` those of each model, numbered over all models. By device, `stopped` and
    `down` say whether it has stopped, and whether that is known; devices `lost` never return.
    """

    def __init__(
        self,
        plans: Sequence[Plan],
        templates: Sequence[Sequence[Sequence[int]]],
        contention: Contention,
        replan: Replan,
    ) -> None:
        self._plans = plans
        self._contention: Contention = contention
        self._replan = replan
        self._names = plans[0].problem.devices
        self.versions = [Version(plan, 0, contention) for plan in plans]
        self._replanned = 0
        self._templates = [mine for instances in templates for mine in instances]
        numbers = iter(range(len(self._templates)))
        self.instances = [[next(numbers) for _ in instances] for instances in templates]
        self._uses = [self._used(instance) for instance in range(len(self._templates))]
        self.stopped = [False] * len(self._names)
        self.down = [False] * len(self._names)
        self.lost: list[str] = []

    def gone(self, instance: int) -> bool:
        """Return whether an instance can never work again unchanged."""
        return self._any_lost(self._uses[instance])

    def lose(self, device: int) -> list[int]:
        """Mark a device as permanently lost; return the templates whose plans change.

        Raises
        ------
        Infeasible
            If no device remains that can do the work.
        """
        self.lost.append(self._names[device])
        changed: list[int] = []
        for instances in self.instances:
            if not all(self.gone(instance) for instance in instances):
                continue
            for instance in instances:
                for template in self._templates[instance]:
                    if self._any_lost(self.versions[template].devices):
                        plan = self._replan(self._plans[template], tuple(self.lost))
                        self._replanned += 1
                        self.versions[template] = Version(plan, self._replanned, self._contention)
                        changed.append(template)
                self._uses[instance] = self._used(instance)
        return changed

    def taking(self, model: int) -> list[int]:
        """Return the instances of a model that get batches."""
        alive = [instance for instance in self.instances[model] if not self.gone(instance)]
        up = [instance for instance in alive if not self._meets(instance, self.down)]
        return up or alive

    def serves(self, model: int) -> bool:
        """Return whether some instance of a model works."""
        return any(
            not self.gone(instance) and not self._meets(instance, self.stopped)
            for instance in self.instances[model]
        )

    def whole(self, model: int) -> bool:
        """Return whether all remaining instances of a model work."""
        return all(
            not self._meets(instance, self.stopped)
            for instance in self.instances[model]
            if not self.gone(instance)
        )

    def _any_lost(self, devices: Iterable[int]) -> bool:
        return any(self._names[device] in self.lost for device in devices)

    def _meets(self, instance: int, which: Sequence[bool]) -> bool:
        return any(which[device] for device in self._uses[instance])

    def _used(self, instance: int) -> set[int]:
        return set().union(*(self.versions[one].devices for one in self._templates[instance]))


LayoutFor = Callable[[Rest, int], TaskLayout]


class Continuation(NamedTuple):
    """Continuation of a request.

    `rest` is the number of its rest, -1 for none; `over`, whether the request is over. `places` has
    the index in the rest of each continuing task, by its previous index.
    """

    rest: int
    over: bool
    places: dict[int, int]


def continuations(
    flight: InFlight,
    rests: Rests,
    layout_for: LayoutFor,
    dealt: NDArray[np.int64],
    device: int,
) -> tuple[list[Continuation], NDArray[np.int64]]:
    """Return the distinct ways in which requests continue without a device, and each one's index.

    A device number beyond all devices means no loss. `layout_for` returns the plan of a request's
    continuation from its rest and its number in `dealt`. Complexity: O(tasks in flight), plus V + E
    of the plan per distinct continuation.
    """
    rest = rests.used[flight.template]
    first, way = alike((rest, dealt), flight.progress)
    ways = [
        _continuation(
            rests, layout_for, int(rest[row]), int(dealt[row]), flight.progress[row], device
        )
        for row in first.tolist()
    ]
    return ways, way


def _continuation(
    rests: Rests,
    layout_for: LayoutFor,
    number: int,
    dealt: int,
    progress: NDArray[np.int8],
    device: int,
) -> Continuation:
    """Return the continuation of a request without what it had on a device."""
    rest = rests.known[number]
    state = progress[: len(rest.tasks)].tolist()
    running = [
        place
        for place, task in enumerate(rest.tasks)
        if state[place] == IS_RUNNING and not task.needs(device)
    ]
    tasks = tuple(rest.tasks[place] for place in running)
    over = False
    found: Rest | None = None
    if any(counted and done != HAS_ENDED for counted, done in zip(rest.counts, state, strict=True)):
        layout = layout_for(rest, dealt)
        held, computed = _progress(layout.plan.problem, rest, state, device)
        key = (layout, frozenset(held.items()), computed, tasks)
        number = rests.number(key, lambda: layout.rest(held, computed, tasks))
        found = rests.known[number]
        over = not any(found.counts)
    if found is None or over:
        if not tasks:
            return Continuation(-1, over, {})
        number = rests.number(("left", tasks), lambda: leftovers(rest, tasks))
        found = rests.known[number]
    return Continuation(number, over, dict(zip(running, found.under_way, strict=True)))


def _progress(
    problem: Problem, rest: Rest, state: Sequence[int], device: int
) -> tuple[dict[int, frozenset[int]], frozenset[int]]:
    """Return each value's devices without a lost one, and the nodes without readers that ran."""
    held = {value: set(places) for value, places in rest.held.items()}
    computed = set(rest.computed)
    for task, done in zip(rest.tasks, state, strict=True):
        if done == HAS_ENDED:
            computed.update(task.ends)
            for value, place in task.gives:
                held.setdefault(value, set()).add(place)
    for value, places in held.items():
        # Inputs, and outputs that have arrived, are with the caller.
        caller = device == problem.host and (
            problem.values[value].producer == GRAPH_INPUT or problem.values[value].is_output
        )
        if not caller:
            places.discard(device)
    kept = {value: frozenset(places) for value, places in held.items() if places}
    return kept, frozenset(computed)
