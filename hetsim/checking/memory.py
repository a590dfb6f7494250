"""Whether memory sufficed at every instant of a timeline, told without the clock's code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hetsim.errors import InvalidInput
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.problem.timeline import Event


def check_memory(
    problem: Problem,
    plan: Plan,
    computed: Sequence[Mapping[int, Event]],
    moved: Sequence[Mapping[tuple[str, str], Event]],
    latencies_s: Sequence[float],
) -> None:
    """Check weights and live activations against the capacities; nothing to do without them.

    A tensor is on the device that makes it from the start of its subgraph, and on one that
    it moves to from the start of the move, until all that reads or moves it from there has
    ended; an input from its request's arrival, an output on the host until its request
    ends. Within a subgraph nodes run in graph order. What goes makes room for what comes.

    Parameters
    ----------
    problem, plan : Problem, Plan
    computed, moved : sequence of mappings, by request
        Events by subgraph of the request's replica, and by tensor and device.
    latencies_s : sequence of float
        By request.

    Raises
    ------
    InvalidInput
        Naming device and instant. O(K log K) for K events, and O(V + E) a request.
    """
    if problem.capacity_bytes is None:
        return
    homes = [_home(problem, replica) for replica in plan.replicas]
    steps: list[list[tuple[float, int]]] = [[] for _ in problem.devices]
    weights = [0] * len(problem.devices)
    for constant in problem.constants:
        for device in {device_of[v] for device_of, _, _ in homes for v in constant.consumers}:
            weights[device] += constant.nbytes
    whole = plan
    for request, runs in enumerate(computed):
        plan = whole.replicas[whole.replica_of(request)]
        device_of, owner, inside = homes[whole.replica_of(request)]
        moves: dict[str, list[Event]] = {}
        for (name, _), event in moved[request].items():
            moves.setdefault(name, []).append(event)
        events = [*runs.values(), *moved[request].values()]
        over = max((event.end_s for event in events), default=0.0)
        arrival = max(over - latencies_s[request], 0.0)
        for index, event in runs.items():
            device = problem.devices.index(plan.groups[index].device)
            steps[device] += [(event.start_s, inside[index]), (event.end_s, -inside[index])]
        for value in problem.values:
            mover = moves.get(value.name, [])
            local = value.producer != GRAPH_INPUT
            made_in = owner[value.producer] if local else -1
            readers = {owner[node] for node in value.consumers} - {made_in}
            if local and not readers and not value.is_output:
                continue
            if local:
                places = [(device_of[value.producer], runs[made_in].start_s, runs[made_in].end_s)]
            elif problem.host is not None:
                places = [(problem.host, arrival, arrival)]
            else:
                continue
            places += [(problem.devices.index(m.device), m.start_s, m.end_s) for m in mover]
            for at, (device, since, until) in enumerate(places):
                ends = [until, *(m.end_s for m in mover)] if at == 0 else [until]
                ends += [
                    runs[reader].end_s
                    for reader in readers
                    if plan.groups[reader].device == problem.devices[device]
                ]
                if value.is_output and device == problem.host:
                    ends = [over]
                steps[device] += [(since, value.nbytes), (max(ends), -value.nbytes)]
    for device, changes in enumerate(steps):
        held = weights[device]
        # At one instant what goes stands before what comes.
        for when, change in [(0.0, 0), *sorted(changes)]:
            held += change
            if held > problem.capacity_bytes[device]:
                raise InvalidInput(
                    f"device '{problem.devices[device]}' holds {held} bytes at {when} s "
                    f"and has {problem.capacity_bytes[device]}",
                    where="timeline, memory",
                )


def _home(problem: Problem, plan: Plan) -> tuple[list[int], list[int], list[int]]:
    """Device and subgraph by node, and the peak inside each subgraph."""
    device_of, owner = [0] * problem.n, [0] * problem.n
    for index, group in enumerate(plan.groups):
        for node in group.nodes:
            device_of[node], owner[node] = problem.devices.index(group.device), index
    return device_of, owner, _inside(problem, plan, owner)


def _inside(problem: Problem, plan: Plan, owner: Sequence[int]) -> list[int]:
    """Peak bytes of what never leaves each subgraph."""
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
