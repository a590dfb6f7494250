"""What every timeline must hold, checked from its events alone."""

from __future__ import annotations

from itertools import pairwise

from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.plan import Plan
from hetsim.problem.timeline import Event, Timeline


def check(plan: Plan, timeline: Timeline) -> None:
    """Assert the rules of the clock for one request of `plan`."""
    problem = plan.problem
    owner = {node: index for index, group in enumerate(plan.groups) for node in group.nodes}
    compute = {event.group: event for event in timeline.events if event.kind == "compute"}
    moves = {
        (event.name, event.device): event for event in timeline.events if event.kind == "transfer"
    }
    assert sorted(compute) == list(range(len(plan.groups)))
    assert len(compute) + len(moves) == len(timeline.events)

    starts = [event.start_s for event in timeline.events]
    assert starts == sorted(starts)
    assert min(starts) >= 0
    for index, event in compute.items():
        group = plan.groups[index]
        device = problem.devices.index(group.device)
        assert event.device == group.device
        assert event.end_s == event.start_s + problem.group_seconds(device, group.nodes)

    by_track: dict[str, list[Event]] = {}
    for event in timeline.events:
        for track in event.tracks:
            by_track.setdefault(track, []).append(event)
    for events in by_track.values():
        assert all(a.end_s <= b.start_s for a, b in pairwise(events))

    host = None if problem.host is None else problem.devices[problem.host]
    longest = [0.0] * len(plan.groups)
    end_of_outputs = 0.0
    for value in sorted(problem.values, key=lambda value: owner.get(value.producer, -1)):
        home = host
        made_s = path_s = 0.0
        if value.producer != GRAPH_INPUT:
            sender = owner[value.producer]
            home, made_s = plan.groups[sender].device, compute[sender].end_s
            path_s = longest[sender] + compute[sender].end_s - compute[sender].start_s
        readers = {owner[node] for node in value.consumers} - {owner.get(value.producer)}
        for reader in readers:
            device = plan.groups[reader].device
            there_s, long_s = made_s, path_s
            if home is not None and device != home:
                move = moves[value.name, device]
                assert (move.source, move.nbytes) == (home, value.nbytes)
                assert move.start_s >= made_s
                there_s, long_s = move.end_s, path_s + move.end_s - move.start_s
            assert compute[reader].start_s >= there_s
            longest[reader] = max(longest[reader], long_s)
        if value.is_output and host is not None:
            back = moves[value.name, host].end_s if home != host else made_s
            end_of_outputs = max(end_of_outputs, back)
    assert timeline.latency_s >= end_of_outputs
    assert timeline.latency_s >= max(longest, default=0.0) * (1 - 1e-12)
    assert timeline.latency_s == max((event.end_s for event in timeline.events), default=0.0)

    if len(plan.groups) == 1 and all(len(event.tracks) < 2 for event in moves.values()):
        inputs = [event for event in moves.values() if event.group < 0]
        outputs = [event for event in moves.values() if event.group >= 0]
        if len(inputs) <= 1 and len(outputs) <= 1:
            total = 0.0
            for event in (*inputs, compute[0], *outputs):
                route = 0.0
                if event.kind == "transfer":
                    source = problem.devices.index(event.source)
                    target = problem.devices.index(event.device)
                    route = problem.routes[source][target].seconds(event.nbytes)
                else:
                    device = problem.devices.index(event.device)
                    route = problem.group_seconds(device, plan.groups[0].nodes)
                total += route
            assert timeline.latency_s == total
