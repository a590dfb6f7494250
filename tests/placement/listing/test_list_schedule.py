"""List schedules: ranks, slots and ready pairs against independent answers."""

from __future__ import annotations

import itertools
from dataclasses import replace
from statistics import median
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import problems
from full_problems import full_problems
from hetsim.core import compile_threshold
from hetsim.errors import OutOfMemory
from hetsim.placement.listing.list_schedule import (
    Listing,
    Schedule,
    takes,
)
from hetsim.placement.listing.ranks import (
    by_falling_rank,
    downward_ranks,
    mean_route,
    mean_seconds,
    static_levels,
    upward_ranks,
)
from hetsim.placement.strategies.list_scheduling import Cpop, optimistic_costs, schedule_pairs
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem
from placement_instances import constructive, model_like
from sweeps import examples


def told(problem: Problem, name: str) -> Schedule | str:
    """The schedule, or why there is none."""
    try:
        return constructive(name).schedule(problem)
    except OutOfMemory as error:
        return str(error)


@pytest.mark.group("machine_code")
@examples(quick=15, full=600)
@given(model_like(problems(max_nodes=14)))
def test_schedules_are_the_same_compiled(problem: Problem) -> None:
    for name in ("heft", "cpop", "peft"):
        plain = told(problem, name)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(compile_threshold, "pays", lambda *_, **__: True)
            assert told(problem, name) == plain


@pytest.mark.group("machine_code")
@examples(quick=4, full=30)
@given(model_like(problems(max_nodes=10)), st.data())
def test_the_best_pair_is_next(problem: Problem, data: st.DataObject) -> None:
    """From the definition, pair by pair; machine code or not, with memory and without."""
    levels, medians = static_levels(problem)
    worth = [level + median for level, median in zip(levels, medians, strict=True)]
    rank = list(range(problem.n))[::-1]
    able = [np.flatnonzero(row).tolist() for row in problem.supported]
    homes = [data.draw(st.sampled_from([-1, *devices])) for devices in able]
    asked: list[dict[str, Any]] = [{"worth": worth}, {"rank": rank}]
    given = [(replace(problem, capacity_bytes=None), None), (problem, None), (problem, homes)]
    for options, (left, kept) in itertools.product(asked, given):
        told = pairs_of(left, kept, options)
        for machine_code in (False, True):
            if told is None:
                with pytest.raises(OutOfMemory):
                    schedule_pairs(left, kept, **options, machine_code=machine_code)
                continue
            made = schedule_pairs(left, kept, **options, machine_code=machine_code)
            pairs = zip(made.assignment, made.start_s, made.end_s, strict=True)
            assert [*pairs] == told


def pairs_of(
    problem: Problem, homes: list[int] | None, options: dict[str, Any]
) -> list[tuple[int, float, float]] | None:
    """Device, start and end by node; None where a node that is ready finds no device."""
    made, count = [(0, 0.0, 0.0)] * problem.n, len(problem.devices)
    listing = Listing(problem, homes)
    free = [[0.0] * streams for streams in problem.streams]
    left = set(range(problem.n))
    while left:
        pairs = []
        for v in sorted(left):
            if not left.isdisjoint(problem.dag.preds[v]):
                continue
            able = [p for p in range(count) if takes(listing.lists, v, p)]
            if not able:
                return None
            for p in able:
                begin = max(listing.lists.ready[v * count + p], min(free[p]))
                near = any(made[u][0] == p for u in problem.dag.preds[v])
                length = problem.shared_seconds[v, p]
                end = begin + (length if near else length + problem.dispatch_s[p])
                first = "rank" in options
                key = (end, options["rank"][v]) if first else (end - options["worth"][v], v)
                pairs.append((key, p, v, begin, end))
        _, p, v, begin, end = min(pairs)
        made[v] = (p, begin, end)
        free[p][free[p].index(min(free[p]))] = end
        lists = listing.lists
        lists.stream[v], lists.begin[v], lists.end[v] = 0, begin, end
        listing.place(v, p)
        left.remove(v)
    return made


INF = float("inf")


def means(problem: Problem) -> list[float]:
    return [
        float(np.mean([problem.shared_seconds[v, p] for p in np.flatnonzero(row)]))
        if (row := problem.supported[v]).any()
        else 0.0
        for v in range(problem.n)
    ]


def mean_travel(problem: Problem, nbytes: int) -> float:
    count = len(problem.devices)
    ways = [problem.routes[p][q] for p in range(count) for q in range(count) if p != q]
    return float(np.mean([way.seconds(nbytes) for way in ways])) if ways else 0.0


def graph(problem: Problem, weights: list[float], *, transfers: bool) -> nx.DiGraph:
    """Each node's time lies on an edge within it; transfers between nodes and with the host."""
    made = nx.DiGraph()

    def way(u: object, v: object, seconds: float) -> None:
        known = made.get_edge_data(u, v, {"weight": 0.0})["weight"]
        made.add_edge(u, v, weight=max(known, seconds if transfers else 0.0))

    for v, seconds in enumerate(weights):
        made.add_edge(("in", v), ("out", v), weight=seconds)
        made.add_edge("begin", ("in", v), weight=0.0)
        made.add_edge(("out", v), "end", weight=0.0)
    for value in problem.values:
        seconds = mean_travel(problem, value.nbytes)
        if value.producer != GRAPH_INPUT:
            for v in value.consumers:
                way(("out", value.producer), ("in", v), seconds)
            if problem.host is not None and (value.is_output or not value.consumers):
                way(("out", value.producer), "end", seconds)
        elif problem.host is not None:
            for v in value.consumers:
                way("begin", ("in", v), seconds)
    return made


def longest(made: nx.DiGraph, first: object, last: object) -> float:
    between = nx.descendants(made, first) & nx.ancestors(made, last) | {first, last}
    part = made.subgraph(between)
    known = {first: 0.0}
    for node in nx.topological_sort(part):
        if node != first:
            known[node] = max(
                known[u] + part.edges[u, node]["weight"] for u in part.predecessors(node)
            )
    return known[last]


@examples(quick=15, full=300)
@given(problems(max_nodes=9))
def test_ranks_are_the_longest_mean_ways_in_and_out(problem: Problem) -> None:
    weights = means(problem)
    assert mean_seconds(problem) == pytest.approx(weights)
    latency_s, per_byte_s = mean_route(problem)
    assert latency_s + 7 * per_byte_s == pytest.approx(mean_travel(problem, 7))
    made = graph(problem, weights, transfers=True)
    up, down = upward_ranks(problem), downward_ranks(problem)
    for v in range(problem.n):
        assert up[v] == pytest.approx(longest(made, ("in", v), "end"))
        assert down[v] == pytest.approx(longest(made, "begin", ("in", v)))
    levels, medians = static_levels(problem)
    able = [problem.shared_seconds[v][problem.supported[v]].tolist() for v in range(problem.n)]
    assert medians == pytest.approx([median(row) if row else 0.0 for row in able])
    bare = graph(problem, medians, transfers=False)
    for v in range(problem.n):
        assert levels[v] == pytest.approx(longest(bare, ("in", v), "end"))


@examples(quick=10, full=200)
@given(full_problems(max_nodes=6, max_devices=3))
def test_optimistic_costs_are_those_of_the_best_way_out(problem: Problem) -> None:
    """The longest over readers of the least over their devices, transfers on average."""
    count = len(problem.devices)
    table = optimistic_costs(problem)

    def cost(v: int, p: int) -> float:
        found = 0.0
        for value in problem.values:
            if value.producer != v:
                continue
            if value.is_output and problem.host not in (None, p):
                assert problem.host is not None
                found = max(found, problem.routes[p][problem.host].seconds(value.nbytes))
            for w in value.consumers:
                least = INF
                for q in range(count):
                    own = problem.shared_seconds[w, q] if problem.supported[w, q] else INF
                    way = mean_travel(problem, value.nbytes) if p != q else 0.0
                    least = min(least, cost(w, q) + own + way)
                found = max(found, least)
        return found

    for v in range(problem.n):
        assert table[v] == pytest.approx([cost(v, p) for p in range(count)])


def test_the_critical_path_goes_to_the_device_that_runs_it_quickest() -> None:
    # The path is 0, 1, 3: 6 s on the second device, 9 s on the first; node 2 is beside it.
    edges = [(0, 1, 4), (0, 2, 1), (1, 3, 4), (2, 3, 1)]
    seconds = np.array([[1.0, 2.0], [7.0, 2.0], [1.0, 4.0], [1.0, 2.0]])
    problem = Problem.from_arrays(seconds, edges, bytes_per_s=4.0)
    assert Cpop().schedule(problem).assignment == (1, 1, 0, 1)
    # One takes not all of it: that which takes most, then the quickest; the rest goes elsewhere.
    lacking = seconds.copy()
    lacking[3, 1] = lacking[1, 0] = INF
    some = Problem.from_arrays(lacking, edges, bytes_per_s=4.0)
    assert Cpop().schedule(some).assignment == (0, 1, 0, 0)
    lacking[0, 0] = INF
    most = Problem.from_arrays(lacking, edges, bytes_per_s=4.0)
    assert Cpop().schedule(most).assignment[:2] == (1, 1)
    # Of equals the first.
    alike = Problem.from_arrays(np.ones((3, 2)), [(0, 1, 1), (1, 2, 1)])
    assert Cpop().schedule(alike).assignment == (0, 0, 0)


@examples(quick=20, full=200)
@given(problems(max_nodes=8))
def test_nodes_of_equal_rank_go_by_id_and_no_device_could_end_a_node_sooner(
    problem: Problem,
) -> None:
    """``heft`` by the definition: by rank, each where it ends first beside those before it."""
    # What takes no time would fit a gap of none, which is forgotten.
    problem = replace(problem, seconds=problem.seconds + 0.125)
    made = constructive("heft").schedule(problem)
    order = by_falling_rank(upward_ranks(problem))
    busy: list[list[tuple[float, float]]] = [[] for _ in problem.devices]
    host = problem.host
    for v in order:
        best: tuple[float, float, int] | None = None
        for p in np.flatnonzero(problem.supported[v]).tolist():
            ready, back, near = 0.0, 0.0, False
            for value in problem.values:
                given = value.producer == GRAPH_INPUT
                source = host if given else made.assignment[value.producer]
                if v in value.consumers and source is not None:
                    end = 0.0 if given else made.end_s[value.producer]
                    way = problem.routes[source][p].seconds(value.nbytes) if source != p else 0.0
                    ready = max(ready, end + way)
                    near = near or (not given and source == p)
                if value.producer == v and value.is_output and host not in (None, p):
                    assert host is not None
                    back = max(back, problem.routes[p][host].seconds(value.nbytes))
            takes = float(problem.shared_seconds[v, p])
            takes += 0.0 if near else problem.dispatch_s[p]
            starts = sorted({ready, *(end for _, end in busy[p] if end > ready)})
            begin = next(
                at for at in starts if all(at + takes <= a or b <= at for a, b in busy[p] if a < b)
            )
            key = (begin + takes + back, begin, p)
            best = key if best is None else min(best, key)
        assert best is not None
        _, begin, p = best
        assert made.assignment[v] == p
        assert made.start_s[v] == pytest.approx(begin)
        busy[p].append((made.start_s[v], made.end_s[v]))
