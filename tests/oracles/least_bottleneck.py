"""The least bottleneck of small problems by brute force, from the definitions alone.

Nothing here is from ``hetsim.placement``: what a subgraph computes, starts, fetches and stores,
and what each link carries, is added up from the problem's records.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem
from oracles.fewest_groups import acyclic as in_order

INF = float("inf")


def busiest(problem: Problem, owner: Sequence[int], device: Sequence[int]) -> float:
    """Seconds a request of the busiest device or link; inf where unsupported or too large.

    `owner` is the group of a node, `device` the device of a group. Weights count as memory.
    """
    count = len(problem.devices)
    groups: dict[int, set[int]] = {}
    for v, g in enumerate(owner):
        groups.setdefault(g, set()).add(v)
    host, staging = problem.host, problem.staging
    busy = [0.0] * count
    for g, nodes in groups.items():
        p = device[g]
        seconds = problem.dispatch_s[p]
        left = set(nodes)
        for kernel in problem.fused:
            if kernel.device == p and nodes >= set(kernel.nodes):
                alone = sum(float(problem.seconds[v, p]) for v in kernel.nodes)
                if kernel.seconds <= alone:
                    seconds += kernel.seconds
                    left -= set(kernel.nodes)
        seconds += sum(float(problem.seconds[v, p]) for v in left)
        if staging is not None:
            ends = staging.ends and host is not None
            for value in problem.values:
                inside = value.producer in nodes
                outside = not nodes >= set(value.consumers)
                if inside and (outside or (value.is_output and ends)):
                    seconds += value.nbytes * staging.store_s_per_byte[p]
                given = value.producer == GRAPH_INPUT
                if not inside and nodes & set(value.consumers) and not (given and not ends):
                    seconds += value.nbytes * staging.fetch_s_per_byte[p]
        busy[p] += seconds
    loads = [seconds / streams for seconds, streams in zip(busy, problem.streams, strict=True)]
    if problem.contention == "fifo":
        links = [0.0] * len(problem.link_names)
        for value in problem.values:
            source = host if value.producer == GRAPH_INPUT else device[owner[value.producer]]
            if source is None:
                continue
            targets = {device[owner[v]] for v in value.consumers}
            if value.is_output and host is not None:
                targets.add(host)
            for target in targets - {source}:
                route = problem.routes[source][target]
                for link in route.resources:
                    links[link] += route.latency_s + value.nbytes / route.bytes_per_s
        loads += links
    if problem.capacity_bytes is not None:
        for p, capacity in enumerate(problem.capacity_bytes):
            there = {v for v, g in enumerate(owner) if device[g] == p}
            if sum(c.nbytes for c in problem.constants if there & set(c.consumers)) > capacity:
                return INF
    return max(loads, default=0.0)


def acyclic(problem: Problem, owner: Sequence[int]) -> bool:
    """Whether the groups can stand in an order."""
    feeds = [
        (value.producer, v)
        for value in problem.values
        if value.producer != GRAPH_INPUT
        for v in value.consumers
    ]
    return in_order(owner, feeds)


def least_bottlenecks(problem: Problem) -> tuple[float, float]:
    """Return the least of contiguous stages, one a device, and the least of all plans.

    All plans: every assignment, each device's nodes in every set of subgraphs. More subgraphs
    never lower a load, so that only those are taken apart whose devices feed each other.
    """
    count = len(problem.devices)
    contiguous = anyhow = INF
    tangled: list[tuple[float, tuple[int, ...]]] = []
    for assignment in itertools.product(range(count), repeat=problem.n):
        load = busiest(problem, assignment, range(count))
        if load >= contiguous:
            continue
        if acyclic(problem, assignment):
            contiguous = load
        else:
            tangled.append((load, assignment))
    anyhow = contiguous
    for load, assignment in sorted(tangled):
        if load >= anyhow:
            break
        members = [[v for v in range(problem.n) if assignment[v] == p] for p in range(count)]
        for parts in itertools.product(*(_set_partitions(nodes) for nodes in members)):
            owner = [0] * problem.n
            device: list[int] = []
            for p, groups in enumerate(parts):
                for nodes in groups:
                    for v in nodes:
                        owner[v] = len(device)
                    device.append(p)
            if acyclic(problem, owner):
                anyhow = min(anyhow, busiest(problem, owner, device))
    return contiguous, anyhow


def _set_partitions(nodes: Sequence[int]) -> list[list[list[int]]]:
    if not nodes:
        return [[]]
    found = []
    for rest in _set_partitions(nodes[1:]):
        found.append([[nodes[0]], *rest])
        found += [
            [*rest[:index], [nodes[0], *rest[index]], *rest[index + 1 :]]
            for index in range(len(rest))
        ]
    return found
