"""How far work is, is told to whoever listens, in order and within its part."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.analysis.comparison import compare
from hetsim.analysis.explanation import explain
from hetsim.analysis.lint.lint import lint
from hetsim.core import deadline, progress
from hetsim.core.progress import AT_MOST, ProgressState, before, each, part, progress_to, say, stage
from hetsim.placement.planning import plan
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from sweeps import examples

Heard = list[tuple[float, str]]


def test_parts_are_nested() -> None:
    told: Heard = []
    with progress_to(lambda one: told.append((one.share, one.what))):
        with part(0.5, 1.0, "outer"):
            for name in each(["a", "b"], weight=lambda name: {"a": 1.0, "b": 3.0}[name]):
                say(0.5, f"within {name}")
        say(1.0)
    say(0.3)
    assert told == [
        (0.5, "outer"),
        (0.5, "outer, a"),
        (0.5625, "outer, a, within a"),
        (0.625, "outer, b"),
        (0.8125, "outer, b, within b"),
        (1.0, ""),
    ]


@examples(quick=20, full=100)
@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=6), st.floats(0, 0.5), st.floats(0.5, 1))
def test_shares_rise_within_their_part(weights: list[float], low: float, high: float) -> None:
    told: Heard = []
    with progress_to(lambda one: told.append((one.share, one.what))):
        for _ in each(range(len(weights)), weight=lambda k: weights[k], low=low, high=high):
            for share in (0.0, 0.3, 2.0):
                say(share)
    shares = [share for share, _ in told]
    assert shares == sorted(shares)
    assert shares[0] == low
    assert shares[-1] == pytest.approx(high)


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the clock finds it a second later."""
    seconds = count()
    monkeypatch.setattr(progress, "monotonic", lambda: float(next(seconds)))


def test_what_comes_before_a_limit_leaves_that_and_its_own_rest(ticking: None) -> None:
    told: list[ProgressState] = []
    with progress_to(told.append), part(0.5, 1.0, "all"), before(10.0):
        say(0.0, "first")
        say(0.5, "first")
        say(0.9, "first")
    # After 2 s it is half done: 2 s and the limit are left.
    assert [(one.what, one.left_s) for one in told] == [
        ("all", None),
        ("all, first", None),
        ("all, first", pytest.approx(2.0 + 10.0)),
        ("all, first", pytest.approx(3.0 / 9.0 + 10.0)),
    ]
    assert [one.share for one in told[2:]] == [
        pytest.approx(0.5 + 0.5 * 2.0 / 14.0),
        pytest.approx(0.5 + 0.5 * 3.0 / (3.0 + 3.0 / 9.0 + 10.0)),
    ]
    assert {one.words for one in told[2:]} == {AT_MOST}
    assert {one.until for one in told} == {1.0}


def test_a_stage_is_timed_by_itself(ticking: None) -> None:
    told: list[ProgressState] = []
    with progress_to(told.append):
        with stage("of planning"):
            say(0.5, "a")
            say(0.75, "b")
        with stage("of the search"):
            say(0.0, "c", 7.0, of="up to 3 W")
    assert [(one.what, one.left_s, one.of) for one in told] == [
        ("", math.inf, "of planning"),
        ("a", 2.0, "of planning"),
        ("b", 1.0, "of planning"),
        ("", math.inf, "of the search"),
        ("c", 7.0, "up to 3 W"),
    ]
    with stage(), before(1.0):
        say(0.5)


def test_a_proof_says_how_long_it_takes_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    # What comes before the proof is then not taken off the limit.
    monkeypatch.setattr(deadline, "now_s", lambda: 0.0)
    problem = Problem.from_arrays(
        [[1.0, 4.0], [4.0, 1.0], [1.0, 4.0]], edges=[(0, 1, 1), (1, 2, 1)], devices=("a", "b")
    )
    told: list[ProgressState] = []
    with progress_to(told.append):
        plan(problem, "exact", time_limit_s=40.0)
    assert told[-1] == ProgressState(0.0, "proving", 40.0, 1.0, AT_MOST)
    assert all(one.left_s is None or one.left_s >= 40.0 for one in told)
    told.clear()
    with progress_to(told.append):
        compare(problem, ["exact", "heft"], time_limit_s=40.0)
    [proving] = [one for one in told if one.what.endswith("proving")]
    # The share of the whole grows with time, up to where the next strategy begins.
    assert proving.left_s == 40.0
    assert proving.until == next(one.share for one in told if one.what == "heft") < 1.0


@pytest.mark.parametrize(
    "ask",
    [
        lambda made: lint(made.problem, "local-search", moves=64),
        explain,
    ],
)
def test_a_search_within_a_change_is_a_part_of_it(ask: Callable[[Plan], object]) -> None:
    problem = Problem.from_arrays(
        [[1.0, 4.0], [4.0, 1.0], [1.0, 4.0]], edges=[(0, 1, 1), (1, 2, 1)], devices=("a", "b")
    )
    made = plan(problem, "local-search", moves=64)
    told: Heard = []
    with progress_to(lambda one: told.append((one.share, one.what))):
        ask(made)
    shares = [share for share, _ in told]
    assert shares == sorted(shares)
    first = next(share for share, what in told if what.startswith("1 of "))
    later = [share for share, what in told if what.startswith("2 of ")]
    assert 0 <= first < min(later)
    assert max(later) < 1
