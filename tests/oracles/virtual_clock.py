"""The virtual clock written a second time, from the rules, with sets and dictionaries.

Slow on purpose: at every instant it asks every task whether it may end or start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.plan import Plan


class Task(NamedTuple):
    """("g", index of the group, -1) or ("t", index of the value, destination device)."""

    kind: str
    number: int
    target: int


@dataclass
class Replay:
    start: dict[tuple[int, Task], float]
    end: dict[tuple[int, Task], float]
    finish: list[float]


@dataclass
class Rules:
    """What must end before what, how long it takes, what it holds."""

    seconds: dict[Task, float]
    needs: dict[Task, set[Task]]
    links: dict[Task, set[int]]
    device: dict[Task, int]
    rank: dict[Task, tuple[int, int, int]]


def home(plan: Plan, node: int) -> tuple[int, int]:
    """(group, device) of a node."""
    for index, group in enumerate(plan.groups):
        if node in group.nodes:
            return index, plan.problem.devices.index(group.device)
    raise AssertionError(f"node {node} is in no group")


def replica_of(plan: Plan, request: int) -> int:
    return plan.deal[request % len(plan.deal)] if plan.deal else 0


def rules(plan: Plan, contention: str) -> Rules:
    """Of a plan of one replica."""
    problem = plan.problem
    found = Rules({}, {}, {}, {}, {})
    for index, members in enumerate(plan.groups):
        task = Task("g", index, -1)
        device = problem.devices.index(members.device)
        found.seconds[task] = problem.group_seconds(device, members.nodes)
        found.needs[task] = set()
        found.device[task] = device
    for index, value in enumerate(problem.values):
        if value.producer == GRAPH_INPUT:
            if problem.host is None:
                continue
            sender, source = -1, problem.host
        else:
            sender, source = home(plan, value.producer)
        places = {home(plan, node) for node in value.consumers}
        targets = {device for _, device in places}
        if value.is_output and problem.host is not None:
            targets.add(problem.host)
        for target in targets - {source}:
            task = Task("t", index, target)
            route = problem.routes[source][target]
            found.seconds[task] = route.latency_s + value.nbytes / route.bytes_per_s
            found.needs[task] = {Task("g", sender, -1)} if sender >= 0 else set()
            found.links[task] = set(route.resources) if contention == "fifo" else set()
            found.rank[task] = (sender, index, target)
        for group, device in places:
            if device != source:
                found.needs[Task("g", group, -1)].add(Task("t", index, device))
            elif sender not in (-1, group):
                found.needs[Task("g", group, -1)].add(Task("g", sender, -1))
    return found


def replay(
    plan: Plan, arrivals: Sequence[float], contention: str, rank: Sequence[int] = ()
) -> Replay:
    """Requests of lower rank go first on devices, else the earlier one."""
    problem = plan.problem
    requests = range(len(arrivals))
    alone = [rules(replica, contention) for replica in plan.replicas]
    laws = [alone[replica_of(plan, r)] for r in requests]
    moves = [sorted(law.rank, key=lambda task, law=law: law.rank[task]) for law in laws]
    everything = [(r, task) for r in requests for task in [*sorted(laws[r].device), *moves[r]]]
    start: dict[tuple[int, Task], float] = {}
    due: dict[tuple[int, Task], float] = {}
    end: dict[tuple[int, Task], float] = {}
    queued: set[tuple[int, Task]] = set()
    queues: list[list[tuple[int, Task]]] = [[] for _ in problem.link_names]

    def begin(r: int, task: Task, now: float) -> None:
        start[r, task] = now
        due[r, task] = now + laws[r].seconds[task]

    def inputs_are_there(r: int, task: Task, now: float) -> bool:
        return arrivals[r] <= now and all((r, need) in end for need in laws[r].needs[task])

    def move(now: float) -> None:
        for r, task in sorted(due, key=lambda key: key[0]):
            if (r, task) not in end and due[r, task] == now:
                end[r, task] = now
                for link in laws[r].links.get(task, ()):
                    assert queues[link].pop(0) == (r, task)
        for r in requests:
            for task in moves[r]:
                if (r, task) not in queued and inputs_are_there(r, task, now):
                    queued.add((r, task))
                    for link in laws[r].links[task]:
                        queues[link].append((r, task))
        for r, task in queued:
            if (r, task) not in start and all(
                queues[k][0] == (r, task) for k in laws[r].links[task]
            ):
                begin(r, task, now)

    in_order = sorted(requests, key=lambda r: (rank[r] if rank else 0, r))

    def issue(now: float) -> None:
        for device, width in enumerate(problem.streams):
            for r in in_order:
                own = [task for task in sorted(laws[r].device) if laws[r].device[task] == device]
                for place, task in enumerate(own):
                    running = sum(
                        key not in end and laws[key[0]].device.get(key[1]) == device for key in due
                    )
                    in_turn = all((r, earlier) in start for earlier in own[:place])
                    if (
                        (r, task) not in start
                        and running < width
                        and in_turn
                        and inputs_are_there(r, task, now)
                    ):
                        begin(r, task, now)

    now = arrivals[0]
    while len(end) < len(everything):
        while True:
            while True:
                before = len(end)
                move(now)
                if len(end) == before and all(due[key] != now for key in due if key not in end):
                    break
            issue(now)
            if all(due[key] != now for key in due if key not in end):
                break
        later = [due[key] for key in due if key not in end]
        later += [arrival for arrival in arrivals if arrival > now]
        if not later:
            break
        now = min(later)
    assert len(end) == len(everything), "deadlock"
    finish = [
        max((end[r, task] for q, task in everything if q == r), default=arrivals[r])
        for r in requests
    ]
    return Replay(start, end, finish)


def bytes_at(whole: Plan, replayed: Replay, arrivals: Sequence[float], now: float) -> list[int]:
    """Bytes that each device holds at `now`, which no event may fall on; one node at a time."""
    plan = whole
    problem = plan.problem
    held = [0] * len(problem.devices)
    for constant in problem.constants:
        for device in {home(p, node)[1] for p in plan.replicas for node in constant.consumers}:
            held[device] += constant.nbytes
    replicas = plan.replicas
    for r, arrival in enumerate(arrivals):
        plan = replicas[replica_of(whole, r)]

        def started(task: Task, r: int = r) -> bool:
            return replayed.start[r, task] < now

        def ended(task: Task, r: int = r) -> bool:
            return replayed.end[r, task] < now

        for index, value in enumerate(problem.values):
            if value.producer == GRAPH_INPUT:
                if problem.host is None:
                    continue
                sender, source = -1, problem.host
            else:
                sender, source = home(plan, value.producer)
            readers = [home(plan, node) for node in value.consumers]
            if sender >= 0 and not value.is_output and all(g == sender for g, _ in readers):
                continue
            moves = {task for q, task in replayed.end if q == r and task[:2] == ("t", index)}
            for device in range(len(problem.devices)):
                users = {Task("g", group, -1) for group, d in readers if d == device}
                if device == source:
                    appeared = arrival < now if sender < 0 else started(Task("g", sender, -1))
                    users |= moves if sender < 0 else moves | {Task("g", sender, -1)}
                elif Task("t", index, device) in moves:
                    appeared = started(Task("t", index, device))
                    users |= {Task("t", index, device)}
                else:
                    continue
                needed = not all(ended(user) for user in users)
                if value.is_output and device == problem.host:
                    needed = replayed.finish[r] > now
                if appeared and needed:
                    held[device] += value.nbytes
        for index, group in enumerate(plan.groups):
            task = Task("g", index, -1)
            if started(task) and not ended(task):
                held[problem.devices.index(group.device)] += inside(plan, index)
    return held


def inside(plan: Plan, index: int) -> int:
    """Most bytes of values that never leave group `index`, over its nodes in order."""
    nodes = plan.groups[index].nodes
    most = 0
    for now in nodes:
        live = 0
        for value in plan.problem.values:
            stays = set(value.consumers) <= set(nodes) and not value.is_output
            if value.producer in nodes and stays:
                last = max(value.consumers, default=value.producer)
                live += value.nbytes if value.producer <= now <= last else 0
        most = max(most, live)
    return most
