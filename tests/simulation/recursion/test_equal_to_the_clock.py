"""Both engines on the same random templates: equal to the last bit, or the recursion says no."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from hetsim.plans.plan import Plan
from hetsim.simulation.clock import playing as clock_playing
from hetsim.simulation.clock.playing import COMPILE_FROM, laid_out, run
from hetsim.simulation.clock.recording import Recording
from hetsim.simulation.clock.templates import tasks_of_plan
from hetsim.simulation.orders import applies
from hetsim.simulation.recursion import playing, rows
from hetsim.simulation.recursion.playing import Recursion, finishes
from oracles.clock_plans import arrivals, dealt_plans
from oracles.random_layouts import Case, Shape, layout_of, random_case
from sweeps import examples, sweep

CASES = 200
"""Seeds of a chunk. The 70 chunks are 14,000, of which more than 10,000 are played by both."""


def outcome(case: Case, pieces: int, machine_code: bool) -> str:
    """Play a case on both engines, the recursion in so many pieces, and compare the bits."""
    clock = run(*case, traced=True, machine_code=machine_code)
    engine = Recursion(case.layout, case.duration, machine_code=machine_code)
    assert applies(case.layout) == engine.doubt
    finish, begun = np.zeros(0), np.zeros(0)
    for arrival, template in zip(
        np.array_split(case.arrival, pieces), np.array_split(case.template, pieces), strict=True
    ):
        served = engine.serve(arrival, template)
        if served is None:
            assert engine.doubt is not None
            assert engine.serve(case.arrival[-1:], case.template[-1:]) is None
            return "refused"
        assert served.template.tolist() == template.tolist()
        finish, begun = np.append(finish, served.finish), np.append(begun, served.begun)
    assert finish.tobytes() == clock.finish.tobytes()
    starts = [
        clock.start[at:end].min(initial=np.inf) if end > at else came
        for at, end, came in zip(clock.entry_at, clock.entry_at[1:], case.arrival, strict=False)
    ]
    assert begun.tolist() == starts
    assert engine.ran.tolist() == np.bincount(case.template, minlength=len(engine.ran)).tolist()
    return "watched" if engine.doubt else "certain"


@pytest.mark.group("machine_code")
@sweep("chunk", quick=[0, 1], full=range(70))
@pytest.mark.parametrize("machine_code", [False, True])
def test_the_same_bits(chunk: int, machine_code: bool) -> None:
    seen = Counter(
        outcome(random_case(seed), 1 + seed % 3, machine_code)
        for seed in range(CASES * chunk, CASES * (chunk + 1))
    )
    assert seen["certain"] > CASES / 2
    assert seen["watched"] > 0
    assert seen["refused"] < CASES / 3


@sweep("chunk", quick=[0], full=range(10))
def test_the_same_bits_over_the_edges_of_blocks(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "BLOCK", 4)
    monkeypatch.setattr(playing, "BLOCK", 7)
    for seed in range(40 * chunk, 40 * (chunk + 1)):
        outcome(random_case(seed), 1, machine_code=False)


@sweep("seed", quick=[0], full=range(5))
def test_the_same_bits_of_many_requests(seed: int) -> None:
    case = random_case(3 * seed, most_requests=1)
    rng = np.random.default_rng(seed)
    arrival = rng.exponential(1.0, 40_000).cumsum()
    template = rng.integers(0, len(case.layout.first) - 1, len(arrival))
    many = Case(case.layout, case.duration, arrival, template)
    outcome(many, 2, machine_code=True)


@examples(quick=60, full=400)
@given(dealt_plans(), arrivals(most=8), st.booleans())
def test_the_same_bits_of_plans(plan: Plan, times: list[float], uneven: bool) -> None:
    tasks = tasks_of_plan(plan, plan.problem.contention)
    layout = laid_out(tasks)
    duration = np.concatenate([one.duration for one in tasks.templates])
    arrival, template = np.array(times), tasks.of_requests(len(times))
    if uneven:
        duration, arrival = duration / 3, arrival / 7
    found = finishes(layout, duration, arrival, template, machine_code=False)
    if found is None:
        assert applies(layout) is not None
    else:
        clock = run(layout, duration, arrival, template, traced=False, machine_code=False)
        assert found.tobytes() == clock.finish.tobytes()


@pytest.mark.parametrize("way", ["certain", "refused"])
def test_the_clock_takes_the_recursion_where_it_applies(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For much work without a trace, of one rank; else, and where it refuses, the heap."""
    asked = []

    def noted(*question: Any) -> Any:
        asked.append(finishes(*question))
        return asked[-1]

    monkeypatch.setattr(clock_playing, "finishes", noted)
    held = [(0,), (1,)] if way == "certain" else [(0,), (0,)]
    layout = layout_of([Shape([0], held, [[1], [], [0]])], [1], 2)
    requests = COMPILE_FROM // 3 + 1
    arrival = np.random.default_rng(0).exponential(3.0, requests).cumsum()
    question = layout, np.array([2.0, 0.5, 0.25]), arrival, np.zeros(requests, dtype=np.int64)
    heap = run(*question, traced=False, machine_code=True)
    assert not asked
    found = run(*question, traced=False)
    assert [ended is not None for ended in asked] == [way == "certain"]
    for one, other in zip(vars_of(found), vars_of(heap), strict=True):
        assert one.tobytes() == other.tobytes()
    ranked = run(*question, rank=np.zeros(requests, dtype=np.int8), traced=False)
    assert ranked.finish.tobytes() == heap.finish.tobytes()
    monkeypatch.setattr(clock_playing, "COMPILE_FROM", 1)
    run(layout, question[1], arrival[:199], question[3][:199], traced=False)
    assert len(asked) == 1
    run(layout, question[1], arrival[:200], question[3][:200], traced=False)
    assert len(asked) == 2


def vars_of(recording: Recording) -> list[NDArray[Any]]:
    return [getattr(recording, field.name) for field in fields(recording)]
