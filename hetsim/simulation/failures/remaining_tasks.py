"""What a request still has to do on the virtual clock: all of a plan, or what a failure left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hetsim.partitioning.groups import Group
from hetsim.plans.plan import Plan
from hetsim.problem.parts import GRAPH_INPUT, Contention
from hetsim.simulation.clock.templates import PlanTasks, Template, tasks_of_plan


@dataclass(slots=True, eq=False)
class Task:
    """A subgraph or a transfer of one request.

    Attributes
    ----------
    request, version, index : int
        Its place among all tasks; ends at one instant are taken in this order.
    seconds : float
    device : int
        Where a subgraph runs; -1 for a transfer.
    group : int
        The subgraph, counted over all replicas; of a transfer the one that sends it, -1 where
        none does any more.
    value, source, target : int
        Of a transfer.
    resources : tuple of int
        Links that a transfer holds.
    gives : tuple of (int, int)
        Values that are there when it ends, each with its device.
    ends : tuple of int
        Of a subgraph: its nodes that nobody reads from.
    waits : int
        Tasks that must end first.
    followers : list of Task
        Those that wait for it.
    counts : bool
        Whether its request is not done before it is.
    behind : int
        Links at which a transfer that can start is not first.
    start, end : float
    stream : int
    lost : bool
        Whether a failure cut it off.
    """

    request: int
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
    waits: int = 0
    followers: list[Task] = field(default_factory=list)
    counts: bool = True
    behind: int = 0
    start: float = -1.0
    end: float = -1.0
    stream: int = 0
    lost: bool = False

    def wait_for(self, other: Task) -> None:
        """Start no sooner than `other` ends."""
        self.waits += 1
        other.followers.append(self)


@dataclass(slots=True, eq=False)
class Progress:
    """A request under way.

    Attributes
    ----------
    held : dict of int to set of int
        Devices that hold a value.
    groups : tuple of Group
        Of the replica that it runs.
    computed : set of int
        Nodes that nobody reads from and that have run.
    turns : list of list of Task
        By device: subgraphs not yet started, the next one last.
    remaining : int
        Tasks that count and have not ended.
    running : dict of Task to None
        Started and not ended, in the order of their start.
    """

    held: dict[int, set[int]]
    groups: tuple[Group, ...]
    computed: set[int] = field(default_factory=set)
    turns: list[list[Task]] = field(default_factory=list)
    remaining: int = 0
    running: dict[Task, None] = field(default_factory=dict)


class Version:
    """A plan as tasks, a layout a replica; versions follow one another as devices are lost."""

    def __init__(self, plan: Plan, version: int, contention: Contention) -> None:
        self.plan = plan
        self.plan_tasks: PlanTasks = tasks_of_plan(plan, contention)
        self.layouts = [
            Layout(template, version, contention) for template in self.plan_tasks.templates
        ]

    def fresh(self, request: int) -> tuple[Progress, list[Task]]:
        """Return a request that has just come; see ``Layout.fresh``."""
        return self.layouts[self.plan.replica_of(request)].fresh(request)

    def rest(self, request: int, progress: Progress) -> list[Task]:
        """Lay out anew what a request has to do: on its replica, where that is left."""
        for layout in self.layouts:
            if layout.plan.groups == progress.groups:
                return layout.rest(request, progress)
        return self.layouts[self.plan.replica_of(request)].rest(request, progress)

    def uses(self, device: int) -> bool:
        """Whether some replica runs anything on a device."""
        return any(device in template.group_device for template in self.plan_tasks.templates)


class Layout:
    """A template as tasks of each request, O(V + E)."""

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

    def fresh(self, request: int) -> tuple[Progress, list[Task]]:
        """Return a request that has just come, and those of its transfers that can start."""
        template = self.template
        seconds = template.duration.tolist()
        tasks = [self._subgraph(request, g, seconds[g]) for g in range(template.groups)]
        for index, transfer in enumerate(template.transfers, start=template.groups):
            tasks.append(
                Task(
                    request,
                    self.version,
                    index,
                    seconds[index],
                    -1,
                    transfer.group if transfer.group < 0 else template.first_group + transfer.group,
                    transfer.value,
                    transfer.source,
                    transfer.target,
                    transfer.resources,
                    ((transfer.value, transfer.target),),
                )
            )
        for task, before in zip(tasks, template.predecessors, strict=True):
            for earlier in before:
                task.wait_for(tasks[earlier])
        host = self.plan.problem.host
        held = {} if host is None else {value: {host} for value in self.inputs}
        progress = Progress(held, self.plan.groups)
        self._queue(progress, tasks[: template.groups])
        progress.remaining = len(tasks)
        return progress, [task for task in tasks[template.groups :] if not task.waits]

    def rest(self, request: int, progress: Progress) -> list[Task]:
        """Lay out anew what a request still has to do; return its transfers that can start.

        A value is taken from where it is, or will be when a task under way ends; what is
        nowhere is computed again, with all that this needs.
        """
        template, problem = self.template, self.plan.problem
        progress.groups = self.plan.groups
        coming: dict[tuple[int, int], Task] = {}
        for task in progress.running:
            task.followers.clear()
            task.counts = False
            for place in task.gives:
                coming.setdefault(place, task)
        due = [value for value in self.outputs if not self._delivered(progress, value)]
        needed = self._needed(progress, coming, due)
        seconds = template.duration
        tasks = {g: self._subgraph(request, g, float(seconds[g])) for g in sorted(needed)}
        moves: dict[tuple[int, int], Task] = {}
        waiting: list[tuple[Task, Task]] = []

        def bring(value: int, target: int) -> Task | None:
            """The task after which `value` is on `target`; None where it is there."""
            if target in progress.held.get(value, ()):
                return None
            found = coming.get((value, target), moves.get((value, target)))
            if found is not None:
                found.counts = True
                return found
            maker, source = self._source(progress, coming, tasks, value, target)
            if source == target:
                return maker
            ours = maker is not None and maker.device >= 0 and maker.version == self.version
            route = problem.routes[source][target]
            move = moves[value, target] = Task(
                request,
                self.version,
                -1,
                route.seconds(problem.values[value].nbytes),
                -1,
                maker.group if maker is not None and ours else -1,
                value,
                source,
                target,
                route.resources if self._fifo else (),
                ((value, target),),
            )
            if maker is not None:
                maker.counts = True
                waiting.append((move, maker))
            return move

        for g, task in tasks.items():
            before = [bring(value, task.device) for value in self.reads[g]]
            waiting += [(task, earlier) for earlier in dict.fromkeys(before) if earlier is not None]
        for value in due:
            if problem.host is not None:
                bring(value, problem.host)
            for (made, _), task in coming.items():
                task.counts |= problem.host is None and made == value
        for later, earlier in waiting:
            later.wait_for(earlier)
        ordered = sorted(moves.values(), key=lambda move: (move.group, move.value, move.target))
        for index, move in enumerate(ordered, start=template.groups):
            move.index = index
        self._queue(progress, tasks.values())
        under_way = sum(task.counts for task in progress.running)
        progress.remaining = len(tasks) + len(ordered) + under_way
        return [move for move in ordered if not move.waits]

    def _needed(
        self, progress: Progress, coming: dict[tuple[int, int], Task], due: Sequence[int]
    ) -> set[int]:
        owner, values = self.template.owner, self.plan.problem.values
        there = {value for value, places in progress.held.items() if places}
        there |= {value for value, _ in coming}
        under_way = {node for task in progress.running for node in task.ends}
        pending = [owner[values[value].producer] for value in due if value not in there]
        pending += [
            g
            for g, ends in enumerate(self.ends)
            if any(node not in progress.computed and node not in under_way for node in ends)
        ]
        for task in progress.running:
            task.counts = bool(task.ends)
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
        self,
        progress: Progress,
        coming: dict[tuple[int, int], Task],
        tasks: dict[int, Task],
        value: int,
        target: int,
    ) -> tuple[Task | None, int]:
        """Return the task that makes or brings a value, if it is not there yet, and the place."""
        problem = self.plan.problem
        routes, size = problem.routes, problem.values[value].nbytes
        places = sorted(progress.held.get(value, ()))
        if places:
            return None, min(places, key=lambda place: routes[place][target].seconds(size))
        arriving = sorted(place for made, place in coming if made == value)
        if arriving:
            place = min(arriving, key=lambda place: routes[place][target].seconds(size))
            return coming[value, place], place
        maker = tasks[self.template.owner[problem.values[value].producer]]
        return maker, maker.device

    def _delivered(self, progress: Progress, value: int) -> bool:
        places = progress.held.get(value, ())
        host = self.plan.problem.host
        return bool(places) if host is None else host in places

    def _subgraph(self, request: int, group: int, seconds: float) -> Task:
        device = self.template.group_device[group]
        gives = tuple((value, device) for value in self.gives[group])
        ends = self.ends[group]
        number = self.template.first_group + group
        return Task(request, self.version, group, seconds, device, number, gives=gives, ends=ends)

    def _queue(self, progress: Progress, tasks: Iterable[Task]) -> None:
        progress.turns = [[] for _ in self.plan.problem.devices]
        for task in tasks:
            progress.turns[task.device].append(task)
        for turn in progress.turns:
            turn.reverse()
