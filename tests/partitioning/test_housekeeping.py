"""Nodes without compute, by what each way to treat them says, told again with sets and paths."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

import hetsim
from hetsim.errors import InvalidInput, UsageError
from hetsim.partitioning.housekeeping import Housekeeping, follow, strip
from hetsim.partitioning.regions import Regions, annotate
from hetsim.problem.problem import Problem
from sweeps import sweep

DEVICES = ("npu", "gpu", "cpu")
CPU = 2


def cases(seed: int, count: int) -> Iterator[tuple[random.Random, Regions, list[int], set[int]]]:
    """Regions, a device by node that offers it, and the housekeeping nodes."""
    rng = random.Random(seed)
    for _ in range(count):
        n = rng.randint(1, 12)
        share = rng.choice((0.15, 0.3, 0.5))
        readers = {u: [v for v in range(u + 1, n) if rng.random() < share] for u in range(n)}
        tensors: list[tuple[int, int, list[int]]] = [(-1, 4, [0])]
        for u in range(n):
            tensors.append((u, 4, readers[u]))
            if rng.random() < 0.15 and readers[u]:
                tensors.append((u, 4, []))
        seconds = np.where(np.array([[rng.random() for _ in DEVICES] for _ in range(n)]) < 0.8, 1.0,
                           np.inf)  # fmt: skip
        seconds[:, CPU] = [1.0 if rng.random() < 0.9 else np.inf for _ in range(n)]
        seconds[~np.isfinite(seconds).any(axis=1), 0] = 1.0
        problem = Problem.from_arrays(seconds, tensors=tensors, devices=DEVICES, host=CPU)
        # One value that is read may be given back as well.
        at = rng.randrange(len(problem.values))
        if problem.values[at].producer >= 0 and rng.random() < 0.5:
            values = list(problem.values)
            values[at] = replace(values[at], is_output=True)
            problem = replace(problem, values=tuple(values))
        regions = annotate(problem)
        assignment = [rng.choice(np.flatnonzero(regions.alone[v]).tolist()) for v in range(n)]
        yield rng, regions, assignment, set(rng.sample(range(n), rng.randint(0, n)))


@sweep("seed", quick=[0], full=range(20))
def test_followers_go_where_what_they_read_is_made_or_where_it_is_read(seed: int) -> None:
    met: dict[str, int] = {}
    for _, regions, assignment, idle in cases(seed, 300):
        problem = regions.problem
        placed, reasons = follow(regions, assignment, CPU, idle)
        whole = nx.DiGraph()
        whole.add_nodes_from(range(problem.n))
        whole.add_edges_from(problem.dag.edges())
        expected, why = list(assignment), dict[int, set[str]]()
        for island in nx.weakly_connected_components(whole.subgraph(idle)):
            read = [v for v in problem.values if island & set(v.consumers)
                    and v.producer >= 0 and v.producer not in idle]  # fmt: skip
            made = [v for v in problem.values if v.producer in island]
            sources = {assignment[value.producer] for value in read}
            targets = {assignment[w] for value in made for w in set(value.consumers) - idle}
            leaving = [value.name for value in read if value.is_output]
            goal, said = None, {"its neighbours are on several devices"}
            if not sources and not targets:
                said = {"no neighbours"}
            if leaving:
                said = {f"its input '{name}' is an output of the model" for name in leaving}
            else:
                for one in (sources, targets):
                    if goal is None and len(one) == 1:
                        (goal,) = one
            if goal is not None and not all(regions.alone[v, goal] for v in island):
                said = {f"{DEVICES[goal]}: inf in seconds"}
                goal = None
            met[min(said) if goal is None else "goes"] = 1
            for v in island:
                if goal is not None:
                    expected[v] = goal
                elif regions.alone[v, CPU]:
                    expected[v] = CPU
                    why[v] = {f"housekeeping: {each}" for each in said}
        assert placed == expected
        assert reasons.keys() == why.keys()
        assert all(reasons[v] in why[v] for v in why)
    assert len(met) >= 5


@sweep("seed", quick=[0], full=range(20))
def test_the_edge_of_a_group_is_where_no_computing_node_of_it_is_before_or_behind(
    seed: int,
) -> None:
    stripped = kept = 0
    for rng, regions, assignment, idle in cases(seed, 300):
        problem = regions.problem
        labels = [rng.randrange(1, 3) // 2 for _ in range(problem.n)]
        inside = nx.DiGraph()
        inside.add_nodes_from(range(problem.n))
        inside.add_edges_from((u, v) for u, v in problem.dag.edges() if labels[u] == labels[v])
        expected = []
        for v in sorted(idle):
            between = (nx.ancestors(inside, v) - idle) and (nx.descendants(inside, v) - idle)
            if assignment[v] != CPU and regions.alone[v, CPU] and not between:
                expected.append(v)
            kept += bool(between)
        assert strip(regions, labels, assignment, CPU, idle) == expected
        stripped += len(expected)
    assert min(stripped, kept) > 20


def test_which_nodes_are_meant() -> None:
    problem = Problem.from_arrays([[1.0]] * 3, edges=[(0, 1, 4), (1, 2, 4)])
    assert Housekeeping().of(problem) == frozenset()
    assert Housekeeping(nodes=frozenset({2, 0})).of(problem) == {0, 2}
    assert Housekeeping(ops=frozenset({"Task"})).of(problem) == {0, 1, 2}
    with pytest.raises(InvalidInput, match="housekeeping ops"):
        Housekeeping(ops=frozenset({"Tusk"})).of(problem)
    model = hetsim.load_model("zoo:bert_small")
    real = hetsim.Problem.of(model, hetsim.load_platform("laptop"))
    few = Housekeeping().of(real)
    more = Housekeeping(ops=frozenset({"Softmax"})).of(real)
    softmax = {v for v, kind in enumerate(real.op_types) if kind == "Softmax"}
    assert more == few | softmax > few
    for nodes in ({3}, {-1}):
        with pytest.raises(InvalidInput, match="nodes of housekeeping"):
            Housekeeping(nodes=frozenset(nodes)).check(problem)
        if nodes == {3}:
            Housekeeping(nodes=frozenset(nodes)).check()
    with pytest.raises(UsageError, match=r"unknown mode 'folow' .*did you mean 'follow'"):
        Housekeeping("folow").check()  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="unknown mode 'x' of housekeeping nodes; "):
        Housekeeping("x").check()  # type: ignore[arg-type]
