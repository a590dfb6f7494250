"""The search as machine code draws, moves and weighs as it does in Python, bit for bit."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from builders import problems
from hetsim.partitioning.groups import Group
from hetsim.placement.listing.room import Room
from hetsim.placement.objective import latency_of_groups
from hetsim.placement.search import annealing, draws, estimates_kernel, kernel, moves_kernel
from hetsim.placement.search.annealing import (
    Budget,
    CompiledWalk,
    Heat,
    PythonWalk,
    rounds,
    walk,
)
from hetsim.placement.search.evaluation import Draft, Estimator, estimates_groups
from hetsim.placement.search.moves import Mover
from hetsim.placement.search.records import LIMIT
from hetsim.placement.search.tables import MARKED_FROM, asked_of, search_of, seeded
from hetsim.problem.problem import Problem
from sweeps import examples


def _made(problem: Problem, draft: Draft, *, room: Room | None = None) -> tuple[Any, Any]:
    asked = asked_of(problem, grouped=estimates_groups(problem), binds=room is not None)
    return asked, search_of(asked, len(problem.link_names), draft, room)


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


@examples(quick=30, full=200)
@given(
    problems(max_nodes=9), st.integers(0, 10**6), st.integers(1, 2), st.booleans(), st.booleans()
)
def test_moves_and_estimates_are_those_of_python(
    problem: Problem, seed: int, width: int, weighed: bool, hosted: bool
) -> None:
    """Every draw, draft, undo, memory and cost, over a few dozen moves."""
    rng = random.Random(seed)
    problem = replace(problem, streams=tuple(width for _ in problem.devices))
    if not hosted:
        problem = replace(problem, host=None)
    if weighed:
        problem = replace(
            problem,
            constants=tuple(
                hetsim.problem.parts.Constant(f"c{k}", rng.randint(1, 9), (k, problem.n - 1))
                for k in range(problem.n - 1)
            ),
            capacity_bytes=tuple(rng.randint(20, 60) for _ in problem.devices),
        )
    order = list(range(problem.n))
    device = [rng.choice(np.flatnonzero(row).tolist()) for row in problem.supported]
    draft = Draft(order, device, [rng.random() < 0.3 for _ in order])
    ours = Room(problem, draft.device) if weighed else None
    estimator = Estimator(problem)
    asked, search = _made(problem, draft, room=Room(problem, draft.device) if weighed else None)
    seeded(search, rng)
    mover = Mover(problem, draft, rng, cuts=estimator.grouped, room=ours)
    aside = random.Random(seed)
    for _ in range(40):
        undo = mover.propose()
        assert moves_kernel.propose(asked, search) == (undo is not None)
        assert search.order.tolist() == draft.order
        assert search.device.tolist() == draft.device
        assert search.cut.tolist() == draft.cut
        assert [draft.order[k] for k in search.place] == list(range(problem.n))
        if ours is not None:
            assert search.left.tolist() == ours.left
        cost = estimator.cost(draft)
        assert estimates_kernel.cost(asked, search) == cost
        # Above a limit it may be anything that is above it, too.
        search.figures[LIMIT] = limit = cost * aside.choice((0.1, 0.5, 0.9, 1.0, 1.1))
        found = estimates_kernel.cost(asked, search)
        assert found == cost if cost <= limit else limit * (1 - 1e-9) < found <= cost * (1 + 1e-9)
        search.figures[LIMIT] = np.inf
        if undo is not None and rng.random() < 0.5:
            draws.draw_share(search.twister)
            undo()
            moves_kernel.undo(asked, search)
            assert search.order.tolist() == draft.order
            assert search.device.tolist() == draft.device
            if ours is not None:
                assert search.left.tolist() == ours.left
        elif undo is not None:
            draws.draw_share(search.twister)


@pytest.mark.parametrize("stop", [1, 700, 2_000])
def test_draws_are_those_of_random(stop: int) -> None:
    rng = random.Random(stop)
    twister = np.array(rng.getstate()[1], dtype=np.int64)
    for k in range(1, stop):
        assert draws.draw_below(twister, k) == rng.randrange(k)
        assert draws.draw_share(twister) == rng.random()


def test_what_is_dropped_would_not_be_accepted() -> None:
    """The share that is drawn next is known before; what is above the limit fails its test."""
    rng, aside = random.Random(1), random.Random(2)
    twister = np.array(rng.getstate()[1], dtype=np.int64)
    dropped = 0
    for _ in range(2_000):
        known = draws.next_share(twister)
        share = draws.draw_share(twister)
        assert share == rng.random()
        assert known in (share, 0.0)
        now, heat = 10.0 ** aside.uniform(-6, 3), 10.0 ** aside.uniform(-6, 0)
        limit = kernel.dropped_from(now * heat, now, known)
        dropped += math.isfinite(limit)
        if math.isfinite(limit):
            assert limit > now
            assert share > math.exp((now - limit) / (now * heat))
            least = now - now * heat * math.log(share)
            assert limit == pytest.approx(least, rel=1e-8)
    assert 1_900 < dropped < 2_000


KINDS: dict[str, dict[str, Any]] = {
    "free": {},
    "streams": {"streams": [1, 2, 3]},
    "links": {"contention": "fifo"},
    "subgraphs": {"contention": "fifo", "dispatch_s": [0.5, 1.0, 2.0], "host": 0},
    "memory": {"dispatch_s": 0.5, "weight_bytes": [9] * 30, "capacity_bytes": [200, 150, 150]},
    "tight": {"weight_bytes": [9] * 200, "capacity_bytes": [900, 700, 700]},
}
MANY = [("free", MARKED_FROM), ("free", 200), ("streams", 200), ("tight", 200)]


@pytest.mark.parametrize(("kind", "n"), [*((kind, 30) for kind in KINDS if kind != "tight"), *MANY])
def test_a_round_is_the_same_by_either_way(kind: str, n: int) -> None:
    """Of many nodes a draft is estimated from the last mark on before its change."""
    problem = _layers(n, 3, **KINDS[kind])
    groups = tuple(Group(f"d{v % 3}", (v,)) for v in range(problem.n))
    binds = problem.capacity_bytes is not None
    seen: list[list[tuple[tuple[Group, ...], bool]]] = []
    tried: list[int] = []
    for way in (PythonWalk, CompiledWalk):
        judged: list[tuple[tuple[Group, ...], bool]] = []
        asked: list[int] = []

        def judge(groups: tuple[Group, ...], *, last: bool, judged: Any = judged) -> None:
            judged.append((groups, last))

        def holds(groups: tuple[Group, ...], asked: Any = asked) -> bool:
            asked.append(len(asked))
            return len(asked) % 3 > 0

        made = way(problem, groups, 7, holds if binds else None)
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
    for way in (PythonWalk, CompiledWalk):
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
            tried = rounds(way(problem, _single(problem), 1, None), problem, budget, judge)
        assert budget.moves is not None
        assert budget.moves <= tried <= budget.moves + 5 * 17
        assert sum(ends) == 4
        found.append((best[0], tried))
    assert found[0] == found[1]


def test_machine_code_is_for_much_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little work stays in Python; much is compiled, sooner where machine code is kept."""
    problem = _layers(20, 5)
    monkeypatch.setattr(kernel.compiled, "cache_info", lambda: type("_", (), {"currsize": 0}))

    def way(moves: int, *, kept: bool) -> type:
        monkeypatch.setattr(annealing, "is_kept", lambda *_, **__: kept)
        return type(walk(problem, _single(problem), 0, None, Budget(moves)))

    few, many = annealing.COMPILE_FROM // 20, annealing.COMPILE_ANEW_FROM // 20
    assert way(few - 1, kept=True) is PythonWalk
    assert way(few, kept=True) is CompiledWalk
    assert way(few, kept=False) is PythonWalk
    assert way(many, kept=False) is CompiledWalk


def test_a_time_limit_is_spent_in_rounds() -> None:
    """What a limit gives is a plan, no worse than the start; how good depends on the machine."""
    problem = _layers(12, 2)
    start = hetsim.simulate(hetsim.plan(problem, "heft"), trace=False).latency_s
    made = hetsim.plan(problem, "local-search", time_limit_s=0.3)
    assert hetsim.simulate(made, trace=False).latency_s <= start
