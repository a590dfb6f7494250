"""What a request still has to do: nothing less, and nothing more, than what is nowhere any more."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.plan import Plan
from hetsim.simulation.clock.templates import template_of
from hetsim.simulation.failures.recovery import RecoveryTask, Rest, TaskLayout
from oracles.clock_plans import plans
from sweeps import examples


def layout_of(plan: Plan) -> TaskLayout:
    return TaskLayout(template_of(plan, plan.problem.contention), 3, plan.problem.contention)


def reads(plan: Plan, group: int) -> list[int]:
    """Values that a subgraph reads from outside; inputs come from nowhere without a host."""
    nodes = set(plan.groups[group].nodes)
    return [
        index
        for index, value in enumerate(plan.problem.values)
        if value.producer not in nodes
        and nodes.intersection(value.consumers)
        and not (value.producer == GRAPH_INPUT and plan.problem.host is None)
    ]


def gives(plan: Plan, group: int) -> list[int]:
    """Values that others read, or the caller gets."""
    nodes = set(plan.groups[group].nodes)
    return [
        index
        for index, value in enumerate(plan.problem.values)
        if value.producer in nodes and (value.is_output or not nodes.issuperset(value.consumers))
    ]


def sinks(plan: Plan, group: int) -> set[int]:
    """Nodes that nobody reads from, and of which the caller gets nothing."""
    used = {value.producer for value in plan.problem.values if value.consumers or value.is_output}
    return set(plan.groups[group].nodes) - used


def needed(plan: Plan, there: set[int], computed: set[int], due: list[int]) -> set[int]:
    """Subgraphs without which something that is due is nowhere."""
    owner = {node: g for g, group in enumerate(plan.groups) for node in group.nodes}
    found: set[int] = set()

    def run(group: int) -> None:
        if group not in found:
            found.add(group)
            for value in reads(plan, group):
                make(value)

    def make(value: int) -> None:
        if value not in there:
            run(owner[plan.problem.values[value].producer])

    for value in due:
        make(value)
    for group in range(len(plan.groups)):
        if sinks(plan, group) - computed:
            run(group)
    return found


def check(plan: Plan, rest: Rest, held: dict[int, set[int]], computed: set[int]) -> None:
    """Play the tasks as far as each waits for those before it, and look at what was made."""
    problem, host = plan.problem, plan.problem.host
    running = {place: rest.tasks[place] for place in rest.under_way}
    coming = {given for task in running.values() for given in task.gives}
    there = {value for value, places in held.items() if places} | {value for value, _ in coming}
    ran = computed.union(*(task.ends for task in running.values()))
    outputs = [
        index
        for index, value in enumerate(problem.values)
        if value.is_output and (host is not None or value.producer != GRAPH_INPUT)
    ]
    due = [
        value
        for value in outputs
        if not (held.get(value) if host is None else host in held.get(value, ()))
    ]
    groups = needed(plan, there, ran, due)
    new = [task for place, task in enumerate(rest.tasks) if place not in running]
    mine = {task.index: task for task in new if task.device >= 0}
    assert set(mine) == groups
    assert [(t.version, t.index) for t in rest.tasks] == sorted(
        (t.version, t.index) for t in rest.tasks
    )
    for group, task in mine.items():
        device = problem.devices.index(plan.groups[group].device)
        assert (task.version, task.device, task.group) == (3, device, group)
        assert task.seconds == problem.group_seconds(device, plan.groups[group].nodes)
        assert sorted(task.gives) == [(value, device) for value in gives(plan, group)]
        assert set(task.ends) == sinks(plan, group)
    # Where each value is once a task has ended, by those that it waits for, however far back.
    behind: dict[int, set[tuple[int, int]]] = {}

    def brought(place: int) -> set[tuple[int, int]]:
        """What is there as a task begins for those that ended before it."""
        if place not in behind:
            behind[place] = set()
            for before in rest.before[place]:
                behind[place] |= {*rest.tasks[before].gives, *brought(before)}
        return behind[place]

    moved: set[tuple[int, int]] = set()
    for place, task in enumerate(rest.tasks):
        if place in running:
            assert rest.before[place] == ()
            continue
        known = brought(place) | {(value, at) for value, places in held.items() for at in places}
        if task.device >= 0:
            assert {(value, task.device) for value in reads(plan, task.index)} <= known
            continue
        assert (task.value, task.source) in known
        assert task.source != task.target
        assert (task.value, task.target) not in moved | coming
        assert task.target not in held.get(task.value, ())
        moved.add((task.value, task.target))
        wanted = {(value, mine[g].device) for g in groups for value in reads(plan, g)}
        wanted |= {(value, host) for value in due if host is not None}
        assert (task.value, task.target) in wanted
        size = problem.values[task.value].nbytes
        route = problem.routes[task.source][task.target]
        assert task.seconds == route.seconds(size)
        assert task.resources == (route.resources if problem.contention == "fifo" else ())
        assert task.gives == ((task.value, task.target),)
        # From where it is the nearest; else from where it will be; else from where it is made.
        places = held.get(task.value) or {at for value, at in coming if value == task.value}
        if places:
            least = min(problem.routes[at][task.target].seconds(size) for at in places)
            assert task.source in places
            assert route.seconds(size) == least
    made = {given for task in rest.tasks for given in task.gives}
    for value in outputs:
        at = {place for other, place in made if other == value} | held.get(value, set())
        assert at if host is None else host in at
    # The request is over with what it needs: what it waits for, and what nobody reads from.
    followed = {before for waits in rest.before for before in waits}
    for place, task in enumerate(rest.tasks):
        delivers = any(value in due and (host is None or at == host) for value, at in task.gives)
        counts = place not in running or place in followed or bool(task.ends) or delivers
        assert rest.counts[place] == counts


@examples(quick=15, full=600)
@given(plans(), st.data())
def test_what_is_left_is_what_is_nowhere(plan: Plan, data: st.DataObject) -> None:
    problem = plan.problem
    layout = layout_of(plan)
    fresh = layout.fresh()
    devices = list(range(len(problem.devices)))
    held: dict[int, set[int]] = {}
    for index, value in enumerate(problem.values):
        if value.producer != GRAPH_INPUT or problem.host is not None:
            held[index] = set(data.draw(st.lists(st.sampled_from(devices), max_size=2)))
        if value.producer == GRAPH_INPUT and problem.host is not None:
            held[index].add(problem.host)
    held = {value: places for value, places in held.items() if places}
    every = sorted(set().union(*(sinks(plan, g) for g in range(len(plan.groups)))))
    computed = set(data.draw(st.lists(st.sampled_from(every)))) if every else set()
    tasks = data.draw(st.lists(st.sampled_from(fresh.tasks), unique=True, max_size=3))
    # What is there already is on its way to nobody.
    running: list[RecoveryTask] = []
    for task in tasks:
        taken = {given for other in running for given in other.gives}
        if not taken & set(task.gives) and not any(at in held.get(v, ()) for v, at in task.gives):
            running.append(task)
    rest = layout.rest(
        {value: frozenset(places) for value, places in held.items()}, frozenset(computed), running
    )
    assert [rest.tasks[place] for place in rest.under_way] == running
    assert rest.groups == plan.groups
    check(plan, rest, held, computed)
