"""``check_timeline``: check of a timeline against the rules, independent of the clock's code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hetsim.core import checks
from hetsim.core.text import grouped
from hetsim.errors import InvalidInput
from hetsim.placement.bounds.lower_bound import bound_of
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.problem.timeline import Event, Timeline

TOLERANCE = 1e-9
"""Rounding tolerance, relative to the makespan."""


@checks.takes(
    problem=checks.instance("hetsim.problem.problem:Problem"),
    plan=checks.instance("hetsim.problem.plan:Plan"),
    timeline=checks.instance("hetsim.problem.timeline:Timeline"),
    bound_s=checks.number(least=0),
)
def check_timeline(
    problem: Problem, plan: Plan, timeline: Timeline, *, bound_s: float | None = None
) -> None:
    """Check that `timeline` is a possible execution of `plan` on `problem`.

    All nodes run once per request, on a device that supports them, each subgraph for its duration
    and in the plan's order; no two events overlap on a stream or a link; every tensor that a device
    lacks is moved there once, for its duration, after it exists and before it is read; weights and
    live activations fit; no latency is below ``bound_of(problem)``.

    Parameters
    ----------
    problem : Problem
    plan : Plan
        Plan of `problem`, or of one with the same ids.
    timeline : Timeline
        Timeline with events.
    bound_s : float, optional
        ``bound_of(problem)``, if known, as it takes longer than all other checks.

    Raises
    ------
    InvalidInput
        For the first violated rule, with its location.

    Complexity: O((V + E) requests + K log K) for K events.
    """
    course = _Course.read(problem, plan, timeline)
    for replica in plan.replicas:
        _check_groups(problem, replica)
    if bound_s is None:
        bound_s = bound_of(problem)
    for request in range(len(timeline.latencies_s)):
        _check_computing(course, request)
        _check_moves(course, request)
    _check_tracks(course, timeline.events)
    _check_memory(course, timeline.latencies_s)
    # Last, as the bound is infinite if no plan fits the memory.
    for request, latency_s in enumerate(timeline.latencies_s):
        _check_latency(course, latency_s, request, bound_s)


@dataclass(frozen=True, slots=True)
class _Course:
    """Timeline by request; subgraphs are numbered within the request's replica."""

    problem: Problem
    plan: Plan
    device: Mapping[str, int]
    owners: Sequence[Sequence[int]]
    computed: Sequence[Mapping[int, Event]]
    moved: Sequence[Mapping[tuple[str, str], Event]]
    slack_s: float

    @classmethod
    def read(cls, problem: Problem, plan: Plan, timeline: Timeline) -> _Course:
        """Return the events by request; reject duplicates and misplaced ones."""
        count = len(timeline.latencies_s)
        if plan.groups and not timeline.events:
            raise _broken("it has no events", hint="simulate with trace=True")
        computed: list[dict[int, Event]] = [{} for _ in range(count)]
        moved: list[dict[tuple[str, str], Event]] = [{} for _ in range(count)]
        for event in timeline.events:
            if not 0 <= event.request < count:
                raise _broken(f"there is no request {event.request}", event)
            if not 0.0 <= event.start_s <= event.end_s < float("inf"):
                raise _broken(f"it lasts from {event.start_s} to {event.end_s}", event)
            if event.kind == "compute":
                group = event.group - plan.offsets[plan.replica_of(event.request)]
                if group in computed[event.request]:
                    raise _broken("the subgraph runs twice", event)
                computed[event.request][group] = event
            else:
                key = (event.name, event.device)
                if key in moved[event.request]:
                    raise _broken("the tensor is moved there twice", event)
                moved[event.request][key] = event
        owners = [_owner(problem, replica) for replica in plan.replicas]
        slack_s = TOLERANCE * max((event.end_s for event in timeline.events), default=0.0)
        device = {name: index for index, name in enumerate(problem.devices)}
        return cls(problem, plan, device, owners, computed, moved, slack_s)

    def of(self, request: int) -> tuple[Plan, Sequence[int], int]:
        """Return the replica of a request, its subgraphs by node, and their number offset."""
        index = self.plan.replica_of(request)
        return self.plan.replicas[index], self.owners[index], self.plan.offsets[index]


def _owner(problem: Problem, plan: Plan) -> list[int]:
    owner = [-1] * problem.n
    for index, group in enumerate(plan.groups):
        for node in group.nodes:
            if not 0 <= node < problem.n:
                raise _broken(f"subgraph {index} has node {node}, which does not exist")
            if owner[node] >= 0:
                raise _broken(f"node {node} runs twice, in subgraphs {owner[node]} and {index}")
            owner[node] = index
    if -1 in owner:
        raise _broken(f"node {owner.index(-1)} never runs")
    return owner


def _broken(what: str, event: Event | None = None, hint: str | None = None) -> InvalidInput:
    where = "timeline"
    if event is not None:
        place = "/".join(event.tracks) or event.device
        where = f"timeline, {event.kind} '{event.name}' of request {event.request} on {place}"
    return InvalidInput(what, where=where, hint=hint)


def _check_groups(problem: Problem, plan: Plan) -> None:
    for index, group in enumerate(plan.groups):
        if group.device not in problem.devices:
            raise _broken(f"subgraph {index} is on unknown device '{group.device}'")
        lacking = problem.unsupported(problem.devices.index(group.device), group.nodes)
        if lacking:
            raise _broken(f"'{group.device}' does not support node {lacking[0]} (subgraph {index})")


def _check_computing(course: _Course, request: int) -> None:
    problem, computed = course.problem, course.computed[request]
    plan, _, _ = course.of(request)
    began: dict[str, float] = {}
    for index, group in enumerate(plan.groups):
        event = computed.get(index)
        if event is None:
            raise _broken(f"subgraph {index} never runs in request {request}")
        column = course.device[group.device]
        lanes = [f"{group.device}/{lane}" for lane in range(problem.streams[column])]
        if event.device != group.device or len(event.tracks) != 1 or event.tracks[0] not in lanes:
            raise _broken(f"the plan has it on '{group.device}', in one of {lanes}", event)
        seconds = problem.group_seconds(column, group.nodes)
        if abs(event.end_s - event.start_s - seconds) > course.slack_s:
            raise _broken(f"it takes {event.end_s - event.start_s} s, not {seconds} s", event)
        if event.start_s < began.get(group.device, 0.0) - course.slack_s:
            raise _broken("it starts before one that the plan has first", event)
        began[group.device] = event.start_s
    unknown = sorted(set(computed) - set(range(len(plan.groups))))
    if unknown:
        raise _broken(f"the plan has no subgraph {unknown[0]}", computed[unknown[0]])


def _check_moves(course: _Course, request: int) -> None:
    """Check that every tensor is available where and when it is read, and moved only for that."""
    problem = course.problem
    plan, owner, first = course.of(request)
    computed, moved = course.computed[request], course.moved[request]
    host = None if problem.host is None else problem.devices[problem.host]
    needed: set[tuple[str, str]] = set()
    for value in problem.values:
        made_s = 0.0
        if value.producer == GRAPH_INPUT:
            if host is None:
                continue
            home, sender = host, -1
        else:
            sender = owner[value.producer]
            home, made_s = plan.groups[sender].device, computed[sender].end_s
        readers = sorted({owner[node] for node in value.consumers} - {sender})
        arrived = {home: made_s}
        targets = [plan.groups[reader].device for reader in readers]
        if value.is_output and host is not None:
            targets.append(host)
        for target in targets:
            if target in arrived:
                continue
            event = moved.get((value.name, target))
            if event is None:
                raise _broken(
                    f"tensor '{value.name}' never gets to '{target}' in request {request}"
                )
            needed.add((value.name, target))
            number = -1 if sender < 0 else first + sender
            _check_move(course, event, home, number, value.nbytes, made_s)
            arrived[target] = event.end_s
        for reader in readers:
            there_s = arrived[plan.groups[reader].device]
            if computed[reader].start_s < there_s - course.slack_s:
                raise _broken(
                    f"it starts at {computed[reader].start_s} s, and its input '{value.name}' "
                    f"is there at {there_s} s",
                    computed[reader],
                )
    spare = sorted(set(moved) - needed)
    if spare:
        raise _broken("nothing needs that tensor there", moved[spare[0]])


def _check_move(
    course: _Course, event: Event, home: str, sender: int, nbytes: int, made_s: float
) -> None:
    problem = course.problem
    if (event.source, event.group, event.nbytes) != (home, sender, nbytes):
        raise _broken(
            f"it brings {event.nbytes} bytes from '{event.source}' (subgraph {event.group}), "
            f"not {nbytes} from '{home}' (subgraph {sender})",
            event,
        )
    if event.start_s < made_s - course.slack_s:
        raise _broken(f"it starts before its tensor exists, at {made_s} s", event)
    route = problem.routes[course.device[home]][course.device[event.device]]
    seconds = route.latency_s + nbytes / route.bytes_per_s
    if not abs(event.end_s - event.start_s - seconds) <= course.slack_s:
        raise _broken(f"it takes {event.end_s - event.start_s} s, not {seconds} s", event)
    links = sorted(problem.link_names[index] for index in route.resources)
    if problem.contention == "fifo" and sorted(event.tracks) != links:
        raise _broken(f"it holds {sorted(event.tracks)}, and its route is {links}", event)


def _check_latency(course: _Course, latency_s: float, request: int, bound_s: float) -> None:
    events = [*course.computed[request].values(), *course.moved[request].values()]
    first = min((event.start_s for event in events), default=0.0)
    last = max((event.end_s for event in events), default=0.0)
    if latency_s < last - first - course.slack_s:
        raise _broken(
            f"the latency of request {request} is {latency_s} s, and it takes {last - first} s"
        )
    if latency_s < bound_s - course.slack_s:
        raise _broken(
            f"the latency of request {request} is {latency_s} s, below the bound of {bound_s} s"
        )


def _check_tracks(course: _Course, events: Sequence[Event]) -> None:
    held = grouped((track, event) for event in events for track in event.tracks)
    for track, users in sorted(held.items()):
        in_order = sorted(users, key=lambda event: (event.start_s, event.end_s))
        for before, after in pairwise(in_order):
            if after.start_s < before.end_s - course.slack_s:
                raise _broken(
                    f"it overlaps '{before.name}' of request {before.request} on {track}, "
                    f"which ends at {before.end_s} s",
                    after,
                )


def _check_memory(course: _Course, latencies_s: Sequence[float]) -> None:
    """Check weights and live activations against the capacities, if there are any.

    A tensor is on its producing device from the start of its subgraph, and on a target of a move
    from the start of the move, until all that reads or moves it from there has ended; an input from
    its request's arrival, an output on the host until its request ends. Within a subgraph nodes run
    in graph order. Memory freed at an instant is available to allocations at the same instant.

    Raises InvalidInput with device and time. O(K log K) for K events, and O(V + E) per request.
    """
    problem = course.problem
    if problem.capacity_bytes is None:
        return
    steps: list[list[tuple[float, int]]] = [[] for _ in problem.devices]
    weights = [0] * len(problem.devices)
    for constant in problem.constants:
        for device in {
            course.device[replica.groups[owner[node]].device]
            for replica, owner in zip(course.plan.replicas, course.owners, strict=True)
            for node in constant.consumers
        }:
            weights[device] += constant.nbytes
    peaks = [
        _inside(problem, *one) for one in zip(course.plan.replicas, course.owners, strict=True)
    ]
    for request, runs in enumerate(course.computed):
        plan, owner, _ = course.of(request)
        inside = peaks[course.plan.replica_of(request)]
        device_of = [course.device[group.device] for group in plan.groups]
        moves = grouped((name, event) for (name, _), event in course.moved[request].items())
        events = [*runs.values(), *course.moved[request].values()]
        over = max((event.end_s for event in events), default=0.0)
        arrival = max(over - latencies_s[request], 0.0)
        for index, event in runs.items():
            steps[device_of[index]] += [
                (event.start_s, inside[index]), (event.end_s, -inside[index])
            ]  # fmt: skip
        for value in problem.values:
            mover = moves.get(value.name, [])
            local = value.producer != GRAPH_INPUT
            made_in = owner[value.producer] if local else -1
            readers = {owner[node] for node in value.consumers} - {made_in}
            if local and not readers and not value.is_output:
                continue
            if local:
                places = [(device_of[made_in], runs[made_in].start_s, runs[made_in].end_s)]
            elif problem.host is not None:
                places = [(problem.host, arrival, arrival)]
            else:
                continue
            places += [(course.device[m.device], m.start_s, m.end_s) for m in mover]
            for at, (device, since, until) in enumerate(places):
                ends = [until, *(m.end_s for m in mover)] if at == 0 else [until]
                ends += [runs[reader].end_s for reader in readers if device_of[reader] == device]
                if value.is_output and device == problem.host:
                    ends = [over]
                steps[device] += [(since, value.nbytes), (max(ends), -value.nbytes)]
    for device, changes in enumerate(steps):
        held = weights[device]
        # At one instant, releases precede allocations.
        for when, change in [(0.0, 0), *sorted(changes)]:
            held += change
            if held > problem.capacity_bytes[device]:
                raise InvalidInput(
                    f"device '{problem.devices[device]}' holds {held} bytes at {when} s "
                    f"and has {problem.capacity_bytes[device]}",
                    where="timeline, memory",
                )


def _inside(problem: Problem, plan: Plan, owner: Sequence[int]) -> list[int]:
    """Return the peak bytes of values internal to each subgraph."""
    made = [0] * problem.n
    gone = [0] * problem.n
    for value in problem.values:
        if value.producer == GRAPH_INPUT or value.is_output:
            continue
        if all(owner[node] == owner[value.producer] for node in value.consumers):
            made[value.producer] += value.nbytes
            gone[max(value.consumers, default=value.producer)] += value.nbytes
    peaks: list[int] = []
    for group in plan.groups:
        live = peak = 0
        for node in group.nodes:
            live += made[node]
            peak = max(peak, live)
            live -= gone[node]
        peaks.append(peak)
    return peaks
