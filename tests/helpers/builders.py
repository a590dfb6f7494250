"""Random graphs, problems and plans for property tests."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from hetsim.graph.dag import Dag
from hetsim.problem.parts import GRAPH_INPUT, Evidence
from hetsim.problem.problem import Problem

CASES = Path(__file__).parents[1] / "cases"
BOX = CASES / "box" / "box.yaml"
"""A platform whose npu and dsp lack ops, and not the same."""


@st.composite
def dags(draw: st.DrawFn, max_nodes: int = 14) -> Dag:
    """DAGs with short and long edges, isolated nodes included."""
    n = draw(st.integers(1, max_nodes))
    pairs = [(u, v) for v in range(n) for u in range(v)]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=2 * n)) if pairs else []
    return Dag.from_edges(n, edges)


@st.composite
def colourings(draw: st.DrawFn, max_nodes: int, most: int = 4) -> tuple[Dag, list[int]]:
    """A DAG, and one of 1 to `most` kinds by node."""
    dag = draw(dags(max_nodes))
    kinds = draw(st.integers(1, most))
    return dag, draw(st.lists(st.integers(0, kinds - 1), min_size=dag.n, max_size=dag.n))


def drawn_tasks(
    draw: st.DrawFn, max_nodes: int, max_devices: int, eighths: st.SearchStrategy[float]
) -> tuple[Dag, NDArray[np.float64], list[tuple[int, int, tuple[int, ...]]]]:
    """A DAG, seconds by node and device, of which the first supports every node, and tensors."""
    dag = draw(dags(max_nodes))
    count = draw(st.integers(1, max_devices))
    seconds = np.array([[draw(eighths) for _ in range(count)] for _ in range(dag.n)])
    for v in range(dag.n):
        for p in range(1, count):
            if draw(st.integers(0, 4)) == 0:
                seconds[v, p] = np.inf
    tensors: list[tuple[int, int, tuple[int, ...]]] = [
        (u, draw(st.integers(0, 16)), dag.succs[u]) for u in range(dag.n)
    ]
    sources = tuple(v for v in range(dag.n) if not dag.preds[v])
    return dag, seconds, [*tensors, (-1, draw(st.integers(0, 16)), sources)]


@st.composite
def problems(
    draw: st.DrawFn, max_nodes: int = 8, max_devices: int = 3, *, overheads: bool = True
) -> Problem:
    """Problems in which the first device, the host, supports every node.

    Times are small multiples of 1/8, so that sums are exact in floating point.
    """
    eighths = st.integers(0, 40).map(lambda k: k / 8)
    _, seconds, tensors = drawn_tasks(draw, max_nodes, max_devices, eighths)
    count = seconds.shape[1]
    return Problem.from_arrays(
        seconds,
        tensors=tensors,
        latency_s=draw(eighths),
        bytes_per_s=draw(st.sampled_from([1.0, 4.0, 16.0])),
        dispatch_s=[draw(eighths) for _ in range(count)] if overheads else 0.0,
        host=0 if overheads else None,
        contention=draw(st.sampled_from(["none", "fifo"])) if overheads else "none",
    )


def layered(problem: Problem, times: int) -> Problem:
    """The problem so many times in a row: each reads of the last node of the one before it."""
    n = problem.n
    values = [
        replace(
            value,
            name=f"{value.name}.{k}",
            producer=value.producer + k * n if value.producer >= 0 or k else GRAPH_INPUT,
            consumers=tuple(v + k * n for v in value.consumers),
        )
        for k in range(times)
        for value in problem.values
    ]
    names = tuple(f"{name}.{k}" for k in range(times) for name in problem.node_names)
    return replace(
        problem,
        seconds=np.tile(problem.seconds, (times, 1)),
        values=tuple(values),
        node_names=names,
        op_types=problem.op_types * times,
        origins=tuple((name,) for name in names),
    )


def off_by(problem: Problem, *sds: float) -> Problem:
    """The problem whose devices are off by these, over and over."""
    count = len(problem.devices)
    evidence = [
        Evidence(name, name, "estimate", sds[p % len(sds)])
        for p, name in enumerate(problem.devices)
    ]
    return replace(problem, evidence=tuple(evidence[:count]))


def placement_case(name: str) -> tuple[Problem, dict[str, Any]]:
    """A published makespan instance and its record."""
    record = json.loads((CASES / "placement" / f"{name}.json").read_text())
    problem = Problem.from_arrays(
        np.array(record["nodes"], dtype=float),
        edges=[tuple(edge) for edge in record["edges"]],
        devices=[device["name"] for device in record["devices"]],
        latency_s=record["latency"],
        bytes_per_s=record["bandwidth"],
        name=record["name"],
    )
    return problem, record


def random_composites(
    rng: random.Random, dag: Dag, devices: int
) -> Iterator[tuple[int, list[int], float]]:
    """Connected sets of two to four nodes, disjoint on each device; not all are convex."""
    for device in range(devices):
        free = set(range(dag.n))
        for start in rng.sample(range(dag.n), dag.n // 6):
            members = [start]
            while len(members) < rng.randint(2, 4):
                near = {w for v in members for w in (*dag.succs[v], *dag.preds[v])}
                fresh = sorted(near.difference(members))
                if not fresh:
                    break
                members.append(rng.choice(fresh))
            if len(members) > 1 and free.issuperset(members):
                free.difference_update(members)
                yield device, members, 0.5
