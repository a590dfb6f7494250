"""What a request still has to do on the virtual clock: all of a plan, or what a failure left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hetsim.partitioning.groups import Group
from hetsim.plans.plan import Plan
from hetsim.problem.parts import GRAPH_INPUT, Contention
from hetsim.simulation.clock.templates import PlanTasks, Template, tasks_of_plan
from hetsim.simulation.failures.rests import Held, Rest, Task

Name = tuple[str, int, int]
"""A task while it is laid out: ("runs", place, 0), ("group", g, 0) or ("move", value, target)."""


class Version:
    """A plan as tasks, a layout a replica; versions follow one another as devices are lost."""

    def __init__(self, plan: Plan, version: int, contention: Contention) -> None:
        self.plan = plan
        self.plan_tasks: PlanTasks = tasks_of_plan(plan, contention)
        self.layouts = [
            Layout(template, version, contention) for template in self.plan_tasks.templates
        ]

    def layout_of(self, groups: Sequence[Group], replica: int) -> Layout:
        """Return the layout of the replica of these groups, or else of `replica`."""
        for layout in self.layouts:
            if layout.plan.groups == groups:
                return layout
        return self.layouts[replica]

    def uses(self, device: int) -> bool:
        """Whether some replica runs anything on a device."""
        return any(device in template.group_device for template in self.plan_tasks.templates)


class Layout:
    """A template as tasks with what they read and give, O(V + E)."""

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
        """Return all that a request has to do that has just come."""
        template = self.template
        seconds = template.duration.tolist()
        tasks = [self._subgraph(g) for g in range(template.groups)]
        for index, transfer in enumerate(template.transfers, start=template.groups):
            tasks.append(
                Task(
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
        host = self.plan.problem.host
        held = {} if host is None else {value: frozenset({host}) for value in self.inputs}
        return Rest(
            self.plan.groups,
            held,
            frozenset(),
            tuple(tasks),
            template.predecessors,
            (),
            (True,) * len(tasks),
        )

    def rest(self, held: Held, computed: frozenset[int], running: Sequence[Task]) -> Rest:
        """Lay out anew what a request still has to do while `running` are under way.

        A value is taken from where it is, or will be when a task under way ends; what is
        nowhere is computed again, with all that this needs. Where nothing counts, the request
        is over.
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
        # By (value, target): where from, and the task after which it is there.
        moves: dict[tuple[int, int], tuple[int, Name | None]] = {}
        waiting: dict[Name, dict[Name, None]] = {}

        def bring(value: int, target: int) -> Name | None:
            """The task after which `value` is on `target`; None where it is there."""
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
        found: dict[Name, Task] = {("runs", k, 0): task for k, task in enumerate(running)}
        found |= {("group", g, 0): self._subgraph(g) for g in sorted(needed)}
        found |= self._transfers(moves, found)
        # Those under way stand first among equals.
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
        found: Mapping[Name, Task],
    ) -> dict[Name, Task]:
        """Return transfers in the order of (sending subgraph, value, destination)."""
        problem = self.plan.problem

        def sender(maker: Name | None) -> int:
            task = found[maker] if maker is not None and maker[0] != "move" else None
            ours = task is not None and task.device >= 0 and task.version == self.version
            return task.group if task is not None and ours else -1

        ordered = sorted((sender(maker), *place) for place, (_, maker) in moves.items())
        made: dict[Name, Task] = {}
        for index, (group, value, target) in enumerate(ordered, start=self.template.groups):
            source = moves[value, target][0]
            route = problem.routes[source][target]
            made["move", value, target] = Task(
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
        running: Iterable[Task],
        coming: Iterable[tuple[int, int]],
        due: Iterable[int],
    ) -> set[int]:
        """Return the subgraphs that have to run, again or for the first time."""
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
        """Return the task that makes or brings a value, if it is not there yet, and the place."""
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

    def _subgraph(self, group: int) -> Task:
        device = self.template.group_device[group]
        return Task(
            self.version,
            group,
            float(self.template.duration[group]),
            device,
            self.template.first_group + group,
            gives=tuple((value, device) for value in self.gives[group]),
            ends=self.ends[group],
        )
