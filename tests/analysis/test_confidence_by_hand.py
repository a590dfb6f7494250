"""How sure plans are, on draws that are written by hand: every share and quantile counted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from hetsim.analysis.confidence import (
    EVENTS_MOST,
    Draws,
    confidence_by_plan,
    cost_samples,
    costs_over,
    interval,
    quantiles,
    spread,
)
from hetsim.placement.objective import Objective
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from sweeps import examples

PROBLEM = Problem.from_arrays([[2.0, 2.0]], devices=("a", "b"))
ALONE = {name: hetsim.plan(PROBLEM, f"single:{name}") for name in "ab"}


def draws(factors: list[tuple[float, float]]) -> Draws:
    count = len(factors)
    return Draws(np.array(factors), np.ones((count, 2, 2)), np.zeros((count, 2)))


def hazen(numbers: list[float], share: float) -> float:
    """The k-th of n ordered numbers is the quantile of (k + 1/2) / n, and lines between them."""
    ordered = sorted(numbers)
    at = min(max(share * len(ordered) - 0.5, 0.0), len(ordered) - 1.0)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    if at == low:
        return ordered[low]
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


FACTORS = st.lists(
    st.tuples(*[st.sampled_from((0.5, 0.5 * (1 + 1e-12), 1.0, 1.5, 4.0))] * 2),
    min_size=1,
    max_size=25,
)


@examples(quick=15, full=400)
@given(FACTORS, st.sampled_from(["latency", "throughput"]))
def test_every_figure_is_counted_draw_by_draw(
    factors: list[tuple[float, float]], objective: Objective
) -> None:
    found = confidence_by_plan(cost_samples(ALONE, draws(factors), objective), "a")
    costs: dict[str, list[float]] = {
        name: [2.0 * each[p] for each in factors] for p, name in enumerate("ab")
    }
    best = [min(pair) for pair in zip(costs["a"], costs["b"], strict=True)]
    count = len(factors)

    def beyond(mine: list[float], others: list[float]) -> list[float]:
        """What it costs more, but for what is none."""
        return [
            cost - other if cost > other * (1 + 1e-9) else 0.0
            for cost, other in zip(mine, others, strict=True)
        ]

    for name, told in found.items():
        mine = costs[name]
        regret, loss = beyond(mine, best), beyond(mine, costs["a"])
        relative = [more / other for more, other in zip(regret, best, strict=True)]
        lost = [more / other for more, other in zip(loss, costs["a"], strict=True)]
        ups = [other / cost for cost, other in zip(mine, costs["a"], strict=True)]
        assert (told.cost_s.low, told.cost_s.high) == pytest.approx(
            (hazen(mine, 0.1), hazen(mine, 0.9))
        )
        assert told.speedup is not None
        assert (told.speedup.low, told.speedup.high) == pytest.approx(
            (hazen(ups, 0.1), hazen(ups, 0.9))
        )
        assert told.best == pytest.approx(sum(more == 0 for more in regret) / count)
        assert told.pays == pytest.approx(sum(more == 0 for more in loss) / count)
        assert told.regret_mean_s == pytest.approx(sum(regret) / count)
        assert told.regret_p90_s == pytest.approx(hazen(regret, 0.9))
        assert told.regret_mean == pytest.approx(sum(relative) / count)
        assert told.regret_p90 == pytest.approx(hazen(relative, 0.9))
        assert told.loss_mean == pytest.approx(sum(lost) / count)
        assert told.loss_p90 == pytest.approx(hazen(lost, 0.9))
    without = confidence_by_plan(cost_samples(ALONE, draws(factors), objective), None)["b"]
    assert (without.speedup, without.pays, without.loss_mean, without.loss_p90) == (None,) * 4
    assert without.best == found["b"].best


def test_nothing_beside_nothing_is_equal_and_beside_something_without_measure() -> None:
    free = Problem.from_arrays([[0.0, 3.0]], devices=("a", "b"))
    plans = {name: hetsim.plan(free, f"single:{name}") for name in "ab"}
    found = confidence_by_plan(cost_samples(plans, draws([(1.0, 1.0)] * 4), "latency"), "a")
    a, b = found["a"], found["b"]
    assert a.speedup == interval(np.ones(4))
    assert (a.best, a.regret_mean, a.pays, a.loss_mean) == (1.0, 0.0, 1.0, 0.0)
    assert b.speedup == interval(np.zeros(4))
    assert (b.best, b.regret_mean_s, b.pays) == (0.0, 3.0, 0.0)
    assert math.isinf(b.regret_mean)
    assert math.isinf(b.loss_p90 or 0.0)
    other = confidence_by_plan(cost_samples(plans, draws([(1.0, 1.0)] * 4), "latency"), "b")["a"]
    assert other.speedup is not None
    assert math.isinf(other.speedup.low)
    assert confidence_by_plan(cost_samples({}, draws([(1.0, 1.0)]), "latency"), None) == {}


def test_equal_plans_are_played_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from hetsim.analysis import confidence

    played: list[Plan] = []

    def counted(plan: Plan, *rest: Any) -> Any:
        played.append(plan)
        return costs_over(plan, *rest)

    monkeypatch.setattr(confidence, "costs_over", counted)
    again = hetsim.plan(PROBLEM, "single:a")
    drawn = draws([(1.0, 2.0), (3.0, 1.0)])
    found = confidence_by_plan(cost_samples({**ALONE, "c": again}, drawn, "latency"), "a")
    assert len(played) == 2
    assert found["c"] == found["a"]


def test_quantiles_of_what_is_infinite_are_so_from_the_last_finite_number_on() -> None:
    shares = [0.0, 0.1, 0.25, 0.3, 0.5, 0.7, 0.75, 0.9, 1.0]
    for numbers in ([1.0, math.inf], [3.0, math.inf, 1.0, math.inf, 2.0], [math.inf] * 3):
        count = len(numbers)
        expected = []
        for share in shares:
            at = min(max(share * count - 0.5, 0.0), count - 1.0)
            beyond = math.ceil(at) >= sum(map(math.isfinite, numbers))
            expected.append(math.inf if beyond else hazen(numbers, share))
        assert quantiles(np.array(numbers), shares) == pytest.approx(expected)
    # A device that takes no time beside others that take some.
    unsure = Problem.from_arrays([[0.0, 3.0]], devices=("a", "b"), sd=0.3)
    sure = {row.strategy: row.sure for row in hetsim.compare(unsure, ["single"], samples=9).rows}
    assert sure["single:b"] is not None
    assert math.isinf(sure["single:b"].regret_p90)


def test_a_spread_is_none_where_nothing_is_drawn_or_it_would_be_too_much() -> None:
    unsure = Problem.from_arrays([[2.0, 2.0]], devices=("a", "b"), sd=0.2)
    plan = hetsim.plan(unsure, "single:a")
    assert spread(hetsim.plan(PROBLEM, "single:a")) is None
    assert spread(plan, samples=0) is None
    found = spread(plan, (0.0, 0.0), samples=9, draw_seed=4)
    assert found is not None
    assert (found.draws, found.draw_seed) == (9, 4)
    # The second waits for the first: their mean is three quarters of the end of both.
    for end in ("low", "high"):
        mean, last = getattr(found.latency_s, end), getattr(found.makespan_s, end)
        assert mean == pytest.approx(0.75 * last)
    # One task a request: so many requests and draws, and no more.
    requests = 1000
    for count, fine in ((EVENTS_MOST // requests, True), (EVENTS_MOST // requests + 1, False)):
        if not fine:
            assert spread(plan, (0.0,) * requests, samples=count) is None
