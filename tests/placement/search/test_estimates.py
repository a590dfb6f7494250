"""The search's estimate equals the clock where links are free of contention."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hetsim
from builders import problems
from hetsim.placement.search.drafts import (
    Draft,
    asked_of,
    draft_of,
    propose,
    refill,
    search_of,
    undo,
)
from hetsim.placement.search.estimates import Estimator
from hetsim.problem.groups import as_groups, order_groups
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem


def _draft(problem: Problem, data: st.DataObject) -> Draft:
    ranks = [data.draw(st.floats(0, 1)) for _ in range(problem.n)]
    parts = order_groups(problem.dag, range(problem.n), ranks)
    assert parts is not None
    return Draft(
        [nodes[0] for nodes in parts],
        [data.draw(st.sampled_from(np.flatnonzero(row).tolist())) for row in problem.supported],
        [data.draw(st.booleans()) for _ in range(problem.n)],
    )


@settings(max_examples=60, deadline=None)
@given(problems(max_nodes=10), st.data())
def test_estimates_equal_the_clock(problem: Problem, data: st.DataObject) -> None:
    streams = tuple(data.draw(st.integers(1, 2)) for _ in problem.devices)
    problem = replace(problem, contention="none", streams=streams)
    draft = _draft(problem, data)
    estimator = Estimator(problem)
    plan = Plan(problem, "draft", estimator.groups(draft))
    timeline = hetsim.simulate(plan)
    hetsim.check_timeline(problem, plan, timeline, bound_s=0.0)
    assert estimator.cost(draft) == pytest.approx(timeline.latency_s, rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(problems(max_nodes=10), st.data())
def test_contention_only_adds(problem: Problem, data: st.DataObject) -> None:
    problem = replace(problem, contention="fifo")
    draft = _draft(problem, data)
    free = Estimator(replace(problem, contention="none")).cost(draft)
    assert Estimator(problem).cost(draft) >= free * (1 - 1e-12)


@settings(max_examples=40, deadline=None)
@given(problems(max_nodes=10), st.data())
def test_groups_survive_a_draft(problem: Problem, data: st.DataObject) -> None:
    """A plan made a draft and back is the same plan, if groups of one device do not touch."""
    assignment = _draft(problem, data).device
    parts = order_groups(problem.dag, range(problem.n))
    assert parts is not None
    groups = as_groups(parts, assignment, problem.devices)
    estimator = Estimator(replace(problem, dispatch_s=tuple(1.0 for _ in problem.devices)))
    assert estimator.groups(draft_of(problem, groups)) == groups


@settings(max_examples=40, deadline=None)
@given(problems(max_nodes=10), st.integers(0, 1000), st.booleans())
def test_moves_keep_drafts_valid_and_can_be_taken_back(
    problem: Problem, seed: int, cuts: bool
) -> None:
    draft = Draft(list(range(problem.n)), [0] * problem.n, [False] * problem.n)
    asked = asked_of(problem, grouped=cuts, binds=False)
    search, rng = search_of(asked, 0, draft, None), random.Random(seed)
    for step in range(60):
        refill(search, rng)
        before = list(search.order), list(search.device), list(search.cut)
        changed = propose(asked, search)
        place = {v: index for index, v in enumerate(search.order)}
        assert len(place) == problem.n
        assert all(place[u] < place[v] for u, v in problem.dag.edges())
        assert all(problem.supported[v, device] for v, device in enumerate(search.device))
        if changed and step % 2:
            undo(asked, search)
        if not changed or step % 2:
            assert before == (search.order, search.device, search.cut)
