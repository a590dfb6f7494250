"""List strategies: valid, within memory, and what is published."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

import hetsim
from builders import problems
from hetsim.errors import OutOfMemory, UnsupportedNode, UsageError
from hetsim.placement.initial_plans import affordable
from hetsim.placement.listing.list_schedule import Listing
from hetsim.placement.listing.ranks import by_falling_rank, upward_ranks
from hetsim.problem.parts import StoredConstant
from hetsim.problem.problem import Problem
from placement_instances import CONSTRUCTIVE, constructive, model_like, played
from sweeps import examples


@examples(quick=7, full=20)
@given(model_like(problems(max_nodes=10)))
def test_every_plan_fits_or_is_refused(problem: Problem) -> None:
    for strategy in CONSTRUCTIVE:
        # What is played is checked; what does not fit must be refused as such.
        with suppress(OutOfMemory):
            played(problem, strategy)


@examples(quick=12, full=30)
@given(problems(max_nodes=12, overheads=False))
def test_the_clock_keeps_to_the_schedule(problem: Problem) -> None:
    for strategy in CONSTRUCTIVE:
        made = constructive(strategy).schedule(problem)
        for v in range(problem.n):
            seconds = problem.seconds[v, made.assignment[v]]
            assert made.end_s[v] == pytest.approx(made.start_s[v] + seconds)
        assert played(problem, strategy)[1] <= made.makespan_s + 1e-9


def test_weights_that_fit_nowhere_are_refused() -> None:
    problem = Problem.from_arrays([[9.0, 1.0]] * 4, weight_bytes=[10] * 4, capacity_bytes=[10, 25])
    for strategy in CONSTRUCTIVE:
        with pytest.raises(OutOfMemory, match=r"no assignment to devices fits.*proven"):
            hetsim.plan(problem, strategy)


def test_a_shared_weight_counts_once() -> None:
    problem = Problem.from_arrays(np.array([[9.0, 1.0]] * 3), capacity_bytes=[99, 10])
    shared = StoredConstant("w", 10, (0, 1, 2))
    problem = replace(problem, constants=(shared,))
    for strategy in CONSTRUCTIVE:
        assert played(problem, strategy)[0].devices_used == ("d1",)


def test_nodes_that_run_nowhere_are_named() -> None:
    problem = Problem.from_arrays([[1.0, 1.0], [np.inf, np.inf]])
    for strategy in (*CONSTRUCTIVE, "local-search", "exact", "auto"):
        with pytest.raises(UnsupportedNode, match="'n1'"):
            hetsim.plan(problem, strategy)
        with pytest.raises(UsageError, match="takes no argument"):
            hetsim.plan(problem, f"{strategy}:x")


def test_auto_tries_them_on_many_tasks() -> None:
    chains = Problem.from_arrays(np.ones((12_000, 2)), [(v, v + 40, 1) for v in range(11_960)])
    wide = Problem.from_arrays(np.ones((60_000, 2)))
    # So many that all of them could not be ready at once, but as narrow as before.
    long = Problem.from_arrays(np.ones((60_000, 2)), [(v, v + 40, 1) for v in range(59_960)])
    for name in ("dls", "etf"):
        assert affordable(name, chains)
        assert affordable(name, long)
        # Every task is ready from the start: each step would look at all that are left.
        assert not affordable(name, wide)
    # The others look at one task at a time, and each has its limit.
    assert affordable("heft", wide)
    assert not affordable("lookahead", chains)


def placed(problem: Problem, chosen: list[tuple[int, int]]) -> Listing:
    """A schedule of nodes on devices, in this order."""
    listing = Listing(problem)
    for node, device in chosen:
        listing.end_on(node, device)
        listing.place(node, device)
    return listing


@examples(quick=20, full=200)
@given(problems(max_nodes=7))
def test_each_node_goes_where_the_last_of_its_children_could_end_first(problem: Problem) -> None:
    order = by_falling_rank(upward_ranks(problem))
    chosen: list[tuple[int, int]] = []
    for node in order:
        scores = []
        children = [v for v in order if v in problem.dag.succs[node]]
        listing = placed(problem, chosen)
        for device in listing.able(node):
            trial = [*chosen, (node, device)]
            own = last = listing.end_on(node, device)
            for child in children:
                later = placed(problem, trial)
                there = later.best(child)
                last = max(last, later.end_on(child, there))
                trial.append((child, there))
            scores.append((last, own, device))
        chosen.append((node, min(scores)[2]))
    assert constructive("lookahead").schedule(problem) == placed(problem, chosen).schedule()
