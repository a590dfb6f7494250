"""How far work is, is told to whoever listens, in order and within its part."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.analysis.comparing import compare
from hetsim.analysis.explanation import explain
from hetsim.analysis.linting.lint import lint
from hetsim.base.going import each, heard_by, part, say
from hetsim.placement.planning import plan
from hetsim.plans.plan import Plan
from hetsim.problem.problem import Problem

Told = list[tuple[float, str]]


def test_nobody_listens() -> None:
    say(0.5, "it")
    with part(0.2, 0.4, "it"):
        assert list(each([1, 2])) == [1, 2]


def test_parts_are_nested() -> None:
    told: Told = []
    with heard_by(lambda share, what: told.append((share, what))):
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


def test_an_error_leaves_its_part() -> None:
    told: Told = []
    with heard_by(lambda share, what: told.append((share, what))):
        with pytest.raises(ZeroDivisionError), part(0.2, 0.4, "it"):
            raise ZeroDivisionError
        say(0.5)
    assert told[-1] == (0.5, "")


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=6), st.floats(0, 0.5), st.floats(0.5, 1))
def test_shares_rise_within_their_part(weights: list[float], low: float, high: float) -> None:
    told: Told = []
    with heard_by(lambda share, what: told.append((share, what))):
        for _ in each(range(len(weights)), weight=lambda k: weights[k], low=low, high=high):
            for share in (0.0, 0.3, 2.0):
                say(share)
    shares = [share for share, _ in told]
    assert shares == sorted(shares)
    assert shares[0] == low
    assert shares[-1] == pytest.approx(high)


def test_a_comparison_says_how_far_it_is_and_answers_the_same() -> None:
    problem = Problem.from_arrays(
        [[1.0, 4.0], [4.0, 1.0], [1.0, 4.0]], edges=[(0, 1, 1), (1, 2, 1)], devices=("a", "b")
    )
    told: Told = []
    with heard_by(lambda share, what: told.append((share, what))):
        heard = compare(problem, ["single", "heft", "local-search"], moves=64)
    shares = [share for share, _ in told]
    assert shares == sorted(shares)
    assert 0 <= shares[0] < shares[-1] <= 1
    names = {what.partition(",")[0] for _, what in told}
    assert {"heft", "local-search"} <= names
    quiet = compare(problem, ["single", "heft", "local-search"], moves=64)
    assert [row.cost_s for row in heard.rows] == [row.cost_s for row in quiet.rows]


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
    told: Told = []
    with heard_by(lambda share, what: told.append((share, what))):
        ask(made)
    shares = [share for share, _ in told]
    assert shares == sorted(shares)
    first = next(share for share, what in told if what.startswith("1 of "))
    later = [share for share, what in told if what.startswith("2 of ")]
    assert 0 <= first < min(later)
    assert max(later) < 1
