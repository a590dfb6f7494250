"""The inference workloads of Tarnawski et al. 2020 as problems, and their paper's own rules."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from builders import CASES
from hetsim.graph.dag import joined
from hetsim.problem.parts import Staging
from hetsim.problem.problem import Problem

BYTES_PER_MS = float(2**20)
"""Resolution of transfer times: a millionth of a millisecond."""

WEIGHT_SCALE = 2**28
"""Weights are scaled up, so that activations, which those rules leave out, weigh nothing."""

UNLIMITED = 2**62


@dataclass(frozen=True)
class Workload:
    """An instance: colocated nodes, and those between them, are one node of the problem."""

    record: dict[str, Any]
    problem: Problem
    members: tuple[tuple[int, ...], ...]

    def spread(self, assignment: Sequence[int]) -> list[int]:
        """Device by node of the instance."""
        found = [-1] * len(self.record["nodes"])
        for device, members in zip(assignment, self.members, strict=True):
            for node in members:
                found[node] = device
        return found


def read(name: str) -> Workload:
    """Times are in milliseconds, as in the files: a "second" of the problem is one."""
    record = json.loads((CASES / "placement" / "tarnawski2020" / f"{name}.json").read_text())
    nodes, edges = record["nodes"], record["edges"]
    members = _classes(nodes, edges)
    place = {node: index for index, part in enumerate(members) for node in part}
    accelerators, processors = (device["count"] for device in record["devices"])
    latency = record["objective"] != "max_load"
    cpus = 1 if latency else processors
    seconds = [
        [sum(nodes[v][0] for v in part)] * accelerators
        + [_chain(nodes, edges, part) if latency else sum(nodes[v][1] for v in part)] * cpus
        for part in members
    ]
    readers: dict[int, set[int]] = {}
    for u, v in edges:
        if place[u] != place[v]:
            readers.setdefault(u, set()).add(place[v])
    per_byte = 1.0 / BYTES_PER_MS
    rates = (per_byte,) * accelerators + (0.0,) * cpus
    problem = Problem.from_arrays(
        seconds,
        tensors=[
            (place[u], round(nodes[u][3] * BYTES_PER_MS), tuple(sorted(found)))
            for u, found in sorted(readers.items())
        ],
        devices=[f"acc{i}" for i in range(accelerators)] + [f"cpu{i}" for i in range(cpus)],
        weight_bytes=[int(sum(nodes[v][2] for v in part)) * WEIGHT_SCALE for part in members],
        capacity_bytes=[(int(record["devices"][0]["memory_bytes"]) + 1) * WEIGHT_SCALE - 1]
        * accelerators
        + [UNLIMITED] * cpus,
        streams=[1] * accelerators + [len(members) if latency else 1] * cpus,
        staging=Staging(rates, rates),
        name=name,
    )
    return Workload(record, problem, members)


def _classes(nodes: list[list[Any]], edges: list[list[int]]) -> tuple[tuple[int, ...], ...]:
    """Colocation groups closed to strongly connected sets, in a topological order."""
    import networkx as nx

    first: dict[int, int] = {}
    pairs = [
        (first.setdefault(row[4], node), node)
        for node, row in enumerate(nodes)
        if row[4] is not None
    ]
    label = joined(len(nodes), pairs)
    graph = nx.DiGraph()
    graph.add_nodes_from(sorted(set(label)))
    graph.add_edges_from((label[u], label[v]) for u, v in edges if label[u] != label[v])
    whole = nx.condensation(graph)
    of_label = whole.graph["mapping"]
    found: dict[int, list[int]] = {}
    for node in range(len(nodes)):
        found.setdefault(of_label[label[node]], []).append(node)
    order = nx.lexicographical_topological_sort(whole, key=lambda c: found[c][0])
    return tuple(tuple(found[c]) for c in order)


def _chain(nodes: list[list[Any]], edges: list[list[int]], part: Sequence[int]) -> float:
    """Time of colocated nodes on processors of unlimited width that start together."""
    import networkx as nx

    graph = nx.DiGraph()
    graph.add_nodes_from(part)
    inside = set(part)
    graph.add_edges_from((u, v) for u, v in edges if u in inside and v in inside)
    finish: dict[int, float] = {}
    for v in nx.topological_sort(graph):
        finish[v] = nodes[v][1] + max((finish[u] for u in graph.predecessors(v)), default=0.0)
    return max(finish.values(), default=0.0)


def paper_max_load(record: dict[str, Any], device: Sequence[int]) -> float:
    """Largest load by the paper's rules, from the file alone; accelerators come first."""
    nodes = record["nodes"]
    accelerators = record["devices"][0]["count"]
    load = [0.0] * (accelerators + record["devices"][1]["count"])
    for v, row in enumerate(nodes):
        load[device[v]] += row[0] if device[v] < accelerators else row[1]
    moved: set[tuple[str, int, int]] = set()
    for u, v in record["edges"]:
        if device[u] != device[v]:
            moved |= {("out", u, device[u]), ("in", u, device[v])}
    for _, u, p in sorted(moved):
        if p < accelerators:
            load[p] += nodes[u][3]
    return max(load)


def paper_latency(record: dict[str, Any], device: Sequence[int]) -> float:
    """Last finish by the paper's rules; device -1 and the last are processors."""
    import networkx as nx

    nodes, edges = record["nodes"], record["edges"]
    accelerators = record["devices"][0]["count"]
    block = [
        f"a{device[v]}" if 0 <= device[v] < accelerators else f"c{v}" for v in range(len(nodes))
    ]
    graph = nx.DiGraph()
    graph.add_nodes_from(block)
    graph.add_edges_from((block[u], block[v]) for u, v in edges if block[u] != block[v])
    work: dict[str, float] = dict.fromkeys(block, 0.0)
    for v, row in enumerate(nodes):
        work[block[v]] += row[0] if block[v][0] == "a" else row[1]
    moved: set[tuple[int, str]] = set()
    for u, v in edges:
        if block[u] != block[v]:
            moved |= {(u, block[u]), (u, block[v])}
    for u, name in sorted(moved):
        if name[0] == "a":
            work[name] += nodes[u][3]
    finish: dict[str, float] = {}
    for name in nx.topological_sort(graph):
        finish[name] = work[name] + max((finish[p] for p in graph.predecessors(name)), default=0.0)
    return max(finish.values())
