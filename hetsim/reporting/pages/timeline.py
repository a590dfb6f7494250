"""A timeline as columns: what every device stream and link did, and along which path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from hetsim.base.text import Record, cut, tally
from hetsim.plans.plan import Plan
from hetsim.plans.timeline import Event, Timeline
from hetsim.reporting.pages.packing import packed
from hetsim.reporting.words.text import listed

LABEL_MOST = 200
"""Characters of what a task is called that a page holds."""

TASKS_MOST = 60_000
"""Tasks of one timeline that a page holds: those of the first requests, whole."""


def timeline_picture(
    plan: Plan,
    timeline: Timeline,
    name: str,
    *,
    events: Sequence[Event] | None = None,
    most: int = TASKS_MOST,
) -> Record:
    """Return what the timeline's view draws.

    Parameters
    ----------
    plan : Plan
    timeline : Timeline
    name : str
        What it is called where a page has several.
    events : sequence of Event, optional
        What is drawn in place of the timeline's own events, as those of a real run; they have no
        critical path.
    most : int
        Tasks that are drawn at most.

    Returns
    -------
    Record
        ``{name, strategy, clock, requests, latency_s, cut, devices, streams, tracks: [{name, kind,
        device}], labels, path, tasks}``. ``path`` has the tasks of the critical path in order.
        ``tasks`` is packed columns, an entry a task and track that it holds: ``task`` (the
        entries of one follow each other), ``track``, ``start_ns``, ``duration_ns``, ``request``,
        ``label`` (into `labels`), ``from`` and ``to`` (devices by index, -1: none), ``nbytes``,
        ``lost``. ``cut`` says what was left out; it is empty where all is there.

    Complexity: O(E log E) for E events.
    """
    drawn = timeline.events if events is None else tuple(events)
    drawn_indices, left_out = whole_requests([event.request for event in drawn], most)
    path = () if events is not None else timeline.critical_path
    tracks, of_event = _tracks(plan, [drawn[index] for index in drawn_indices])
    devices = list(plan.problem.devices)
    ends = {device: index for index, device in enumerate(devices)}
    labels: dict[str, int] = {}
    rows = []
    for index, on in zip(drawn_indices, of_event, strict=True):
        event = drawn[index]
        label = labels.setdefault(_label(plan, event), len(labels))
        start_ns = round(event.start_s * 1e9)
        values = (
            start_ns, round((event.end_s - event.start_s) * 1e9), event.request, label,
            ends.get(event.source, -1), ends.get(event.device, -1),
            event.nbytes, int(event.lost),
        )  # fmt: skip
        rows.append((on, values))
    numbers = {index: number for number, index in enumerate(drawn_indices)}
    return {
        "name": name,
        "strategy": plan.strategy,
        "clock": "virtual" if events is None else "wall",
        "requests": len(timeline.latencies_s),
        "latency_s": timeline.latency_s,
        "cut": left_out,
        "devices": devices,
        "streams": list(plan.problem.streams),
        "tracks": tracks,
        "labels": list(labels),
        "path": packed([numbers[index] for index in path if index in numbers]),
        "tasks": timeline_columns(rows),
    }


def whole_requests(requests: Sequence[int], most: int) -> tuple[list[int], str]:
    """Return which of the tasks of these requests are drawn, and what is told of the others.

    Those of the first requests, whole, as far as they are at most `most` tasks.
    """
    if len(requests) <= most:
        return list(range(len(requests))), ""
    last, kept = 0, 0
    counts = Counter(requests)
    for request in sorted(counts):
        kept += counts[request]
        if kept > most:
            break
        last = request
    indices = [index for index, request in enumerate(requests) if request <= last]
    return indices, (
        f"{len(indices)} of {len(requests)} tasks are drawn, those of the first {last + 1} "
        f"requests: more do not fit into the page"
    )


def timeline_columns(rows: Iterable[tuple[Sequence[int], Sequence[int]]]) -> Record:
    """Return tasks as packed columns; of each, the tracks that it holds and its other entries."""
    names = [
        "task", "track", "start_ns", "duration_ns", "request", "label", "from", "to", "nbytes",
        "lost",
    ]  # fmt: skip
    tasks: dict[str, list[int]] = {column: [] for column in names}
    for number, (on, values) in enumerate(rows):
        for track in on:
            for column, value in zip(names, (number, track, *values), strict=True):
                tasks[column].append(value)
    return packed(tasks, ("task", "start_ns", "request"))


def _label(plan: Plan, event: Event) -> str:
    """What a task is: a subgraph with its nodes, or a tensor."""
    if event.kind != "compute" or event.group < 0:
        return cut(event.name, LABEL_MOST)
    nodes = plan.groups[event.group].nodes
    problem = plan.problem
    ops = tally(problem.op_types[node] for node in nodes)
    first, last = problem.node_names[nodes[0]], problem.node_names[nodes[-1]]
    return subgraph_label(event.name, ops, len(nodes), first, last)


def subgraph_label(name: str, ops: Mapping[str, int], nodes: int, first: str, last: str) -> str:
    """Return what a subgraph of so many nodes is: its ops, and from which node to which."""
    between = first if nodes == 1 else f"{first} to {last}"
    return cut(f"{name}: {listed(ops, limit=3)} ({between})", LABEL_MOST)


def _tracks(plan: Plan, events: Sequence[Event]) -> tuple[list[Record], list[list[int]]]:
    """The rows that anything happens on, and those of each event.

    Device streams in the problem's order, then links; a transfer on a route without contention
    gets the row of its route.
    """
    problem = plan.problem
    used = {name for event in events for name in event.tracks}
    routes = {_route(event) for event in events if not event.tracks}
    rows: list[Record] = []
    by_name: dict[str, int] = {}

    def add(name: str, kind: str, device: str) -> None:
        by_name[name] = len(rows)
        rows.append({"name": name, "kind": kind, "device": device})

    of_device = {name: name.rpartition("/")[0] for name in used}
    for device in problem.devices:
        own = [name for name in used if of_device[name] == device]
        for name in sorted(own, key=lambda name: int(name.rpartition("/")[2])):
            add(name, "device", device)
        if not own:
            add(f"{device}/0", "device", device)
    known = [name for name in problem.link_names if name in used]
    for name in [*known, *sorted(used - set(known) - set(by_name)), *sorted(routes)]:
        if name not in by_name:
            add(name, "link", "")
    return rows, [[by_name[name] for name in event.tracks or (_route(event),)] for event in events]


def _route(event: Event) -> str:
    return f"{event.source}>{event.device}" if event.kind == "transfer" else f"{event.device}/0"
