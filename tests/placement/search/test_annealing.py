"""Annealing and its estimates: what the clock says, and the same compiled."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from builders import problems
from hetsim.placement.objective import latency_of_groups
from hetsim.placement.search import annealing
from hetsim.placement.search.annealing import Budget, Heat, Walk, note, rounds
from hetsim.placement.search.drafts import (
    CRITICAL,
    ENDED,
    MARKED_FROM,
    Draft,
    SearchProblem,
    SearchState,
    asked_of,
    draft_of,
    estimates_groups,
    propose,
    refill,
    search_of,
    undo,
)
from hetsim.placement.search.estimates import (
    cost,
    groups_of,
    least_of_move,
    look_ahead,
    resume,
    settle,
)
from hetsim.problem.groups import Group, as_groups, order_groups
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from sweeps import examples, sweep


def _layers(n: int, seed: int, **given: Any) -> Problem:
    rng = random.Random(seed)
    wide = max(3, n // 8)
    edges = {
        (rng.randrange(v // wide * wide - wide, v // wide * wide), v)
        for v in range(wide, n)
        for _ in range(2)
    }
    return hetsim.Problem.from_arrays(
        np.random.default_rng(seed).uniform(1.0, 20.0, (n, 3)),
        edges=[(u, v, rng.randint(1, 20)) for u, v in sorted(edges)],
        latency_s=0.5,
        bytes_per_s=1.0,
        **given,
    )


def _single(problem: Problem) -> tuple[Group, ...]:
    return tuple(
        Group(problem.devices[int(row.argmax())], (v,)) for v, row in enumerate(problem.supported)
    )


KINDS: dict[str, dict[str, Any]] = {
    "free": {},
    "streams": {"streams": [1, 2, 3]},
    "links": {"contention": "fifo"},
    "subgraphs": {"contention": "fifo", "dispatch_s": [0.5, 1.0, 2.0], "host": 0},
    "memory": {"dispatch_s": 0.5, "weight_bytes": [9] * 30, "capacity_bytes": [200, 150, 150]},
    "tight": {"weight_bytes": [9] * 200, "capacity_bytes": [900, 700, 700]},
}
MANY = [("free", MARKED_FROM), ("free", 200), ("streams", 200), ("tight", 200)]


ROUNDS = [*((kind, 30) for kind in KINDS if kind != "tight"), *MANY]


@sweep("kind, n", quick=ROUNDS[::2], full=ROUNDS)
def test_a_round_is_the_same_compiled(kind: str, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many nodes a draft is estimated from the last mark on before its change."""
    monkeypatch.setattr(annealing, "PLAYED", 10 * n)
    problem = _layers(n, 3, **KINDS[kind])
    groups = tuple(Group(f"d{v % 3}", (v,)) for v in range(problem.n))
    binds = problem.capacity_bytes is not None
    seen: list[list[tuple[tuple[Group, ...], bool]]] = []
    tried: list[int] = []
    for compiled in (False, True):
        judged: list[tuple[tuple[Group, ...], bool]] = []
        asked: list[int] = []

        def judge(groups: tuple[Group, ...], *, last: bool, judged: Any = judged) -> None:
            judged.append((groups, last))

        def lacks(groups: tuple[Group, ...], asked: Any = asked) -> list[int] | None:
            asked.append(len(asked))
            return ([5, 0, 0], [0, 0, 0], [0, 0, 0], None)[len(asked) % 4]

        made = Walk(problem, groups, 7, lacks if binds else None, compiled=compiled)
        # Draws go on from round to round.
        tried += [made.round(Budget(moves), Heat(), judge) for moves in (0, 600)]
        assert (len(asked) > 1) == binds
        seen.append(judged)
    assert tried[:2] == tried[2:]
    assert seen[0] == seen[1]
    assert len(seen[0]) > 4


def test_rounds_use_the_budget_and_are_the_same_each_time() -> None:
    problem = _layers(20, 5, contention="fifo", dispatch_s=0.5)
    found: list[tuple[float, int]] = []
    for compiled in (False, True):
        best = [float("inf")]
        ends: list[bool] = []

        def judge(
            groups: tuple[Group, ...], *, last: bool, best: Any = best, ends: Any = ends
        ) -> None:
            best[0] = min(best[0], latency_of_groups(problem, groups, "draft"))
            ends.append(last)

        budget = Budget(annealing.ROUND * problem.n // 10)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(annealing, "ROUND", annealing.ROUND // 40)
            tried = rounds(
                Walk(problem, _single(problem), 1, None, compiled=compiled), problem, budget, judge
            )
        assert budget.moves is not None
        assert budget.moves <= tried <= budget.moves + 5 * 17
        assert sum(ends) == 4
        found.append((best[0], tried))
    assert found[0] == found[1]


def _draft(problem: Problem, data: st.DataObject) -> Draft:
    ranks = [data.draw(st.floats(0, 1)) for _ in range(problem.n)]
    parts = order_groups(problem.dag, range(problem.n), ranks)
    assert parts is not None
    return Draft(
        [nodes[0] for nodes in parts],
        [data.draw(st.sampled_from(np.flatnonzero(row).tolist())) for row in problem.supported],
        [data.draw(st.booleans()) for _ in range(problem.n)],
    )


def _begun(problem: Problem, draft: Draft) -> tuple[SearchProblem, SearchState]:
    """A problem and a draft of it as a search has them."""
    asked = asked_of(problem, grouped=estimates_groups(problem), binds=False)
    return asked, search_of(asked, len(problem.link_names), draft, None, marks=False)


@examples(quick=15, full=60)
@given(problems(max_nodes=10), st.data())
def test_estimates_equal_the_clock(problem: Problem, data: st.DataObject) -> None:
    streams = tuple(data.draw(st.integers(1, 2)) for _ in problem.devices)
    problem = replace(problem, contention="none", streams=streams)
    draft = _draft(problem, data)
    asked, search = _begun(problem, draft)
    plan = Plan(problem, "draft", groups_of(problem, asked, search))
    timeline = hetsim.simulate(plan)
    hetsim.check_timeline(problem, plan, timeline, bound_s=0.0)
    assert cost(asked, search) == pytest.approx(timeline.latency_s, rel=1e-12)


@examples(quick=15, full=40)
@given(problems(max_nodes=10), st.data())
def test_groups_survive_a_draft(problem: Problem, data: st.DataObject) -> None:
    """A plan made a draft and back is the same plan, if groups of one device do not touch."""
    assignment = _draft(problem, data).device
    parts = order_groups(problem.dag, range(problem.n))
    assert parts is not None
    groups = as_groups(parts, assignment, problem.devices)
    problem = replace(problem, dispatch_s=tuple(1.0 for _ in problem.devices))
    asked, search = _begun(problem, draft_of(problem, groups))
    assert groups_of(problem, asked, search) == groups


@examples(quick=15, full=40)
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


@sweep("kind", quick=[{}], full=[{}, {"streams": [1, 2, 3]}, {"host": 0}])
def test_no_draft_is_shorter_than_what_its_move_says(kind: dict[str, Any]) -> None:
    """Many are exactly as long: the path through the node that moved is their longest."""
    problem = _layers(MARKED_FROM, 4, **kind)
    draft = Draft(list(range(problem.n)), [v % 3 for v in range(problem.n)], [False] * problem.n)
    asked = asked_of(problem, grouped=False, binds=False)
    search, rng = search_of(asked, 0, draft, None), random.Random(5)
    note(asked, search)
    known = equal = 0
    for step in range(1_500):
        look_ahead(asked, search)
        assert search.counts[CRITICAL] > 0
        refill(search, rng)
        if not propose(asked, search):
            continue
        least, found = least_of_move(asked, search), cost(asked, search)
        assert least <= found
        known += least > 0.0
        equal += least > found * (1.0 - 1e-6)
        if step % 4 == 0:
            settle(asked, search)
        else:
            assert search.counts[ENDED]
            resume(search, asked.nodes)
            undo(asked, search)
    assert known > 500
    assert equal > 100
