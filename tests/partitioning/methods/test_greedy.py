"""Greedy selection: the design page's example, a literal version of the page, validity."""

from __future__ import annotations

import numpy as np
from hypothesis import given

import hetsim
from builders import colourings
from hetsim.graph.dag import Dag
from hetsim.partitioning.methods import greedy
from hetsim.partitioning.scans import SplitGroup
from hetsim.problem.groups import order_groups
from hetsim.problem.problem import Problem
from oracles.hetero_greedy import PageGreedy
from sweeps import examples

PAGE = Dag.from_edges(7, [(0, 1), (1, 2), (1, 3), (2, 4), (3, 4), (4, 5), (5, 6)])
PAGE_DEVICES = [0, 0, 0, 1, 0, 0, 0]


def test_groups_of_the_page() -> None:
    assert greedy.merge(PAGE, PAGE_DEVICES) == [0, 0, 2, 3, 2, 2, 2]


def test_mutually_dependent_subgraphs_are_split_and_named() -> None:
    # p(0) u(1) v(2) a1(3) b1(4) b2(5) a2(6) r(7): {u, a1, a2, r} feeds {v, b1, b2} by a1 > b1
    # and is fed by it through b2 > a2.
    edges = [(0, 1), (0, 2), (1, 3), (3, 4), (2, 4), (2, 5), (5, 6), (1, 6), (6, 7)]
    dag = Dag.from_edges(8, edges)
    device_of = [0, 0, 1, 0, 1, 1, 0, 0]
    page = PageGreedy(dag, device_of)
    assert page.selected == [(1, 3, 6, 7), (0,), (2, 4, 5)]
    assert order_groups(dag, page.labels()) is None
    labels, repaired = greedy.solve(dag, device_of)
    assert repaired == (SplitGroup((2, 4, 5), ((2, 5), (4,))),)
    assert order_groups(dag, labels) is not None
    assert greedy.merge_with_notes(dag, device_of) == (labels, (
        "1 group of the published method depended on each other in a circle and was split",
    ))  # fmt: skip
    problem = Problem.from_arrays(np.ones((8, 2)), [(u, v, 1) for u, v in edges])
    made = hetsim.partition(problem, "greedy", assignment=device_of)
    assert made.notes == greedy.merge_with_notes(dag, device_of)[1]
    assert hetsim.partition(problem, "compact", assignment=device_of).notes == ()
    twice = Dag.from_edges(16, edges + [(u + 8, v + 8) for u, v in edges])
    assert greedy.merge_with_notes(twice, device_of * 2)[1] == (
        "2 groups of the published method depended on each other in a circle and were split",
    )
    assert greedy.merge_with_notes(dag, [0] * 8) == ([0] * 8, ())


def published(solved: tuple[list[int], tuple[SplitGroup, ...]]) -> list[int]:
    """The labels before repair."""
    labels = list(solved[0])
    for split in solved[1]:
        for node in split.nodes:
            labels[node] = split.nodes[0]
    return labels


@examples(quick=40, full=300)
@given(colourings(18))
def test_same_subgraphs_as_the_page_read_literally(coloured: tuple[Dag, list[int]]) -> None:
    dag, device_of = coloured
    page = PageGreedy(dag, device_of)
    solved = greedy.solve(dag, device_of)
    assert published(solved) == page.labels()
    assert bool(solved[1]) == (order_groups(dag, page.labels()) is None)
