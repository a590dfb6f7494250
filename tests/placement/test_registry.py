"""Strategies by name: what there is, what it takes, and what is said where there is none."""

from __future__ import annotations

import pytest

import hetsim
from hetsim.core.entries import PROMISES
from hetsim.errors import PluginError, UsageError
from hetsim.placement import registry
from hetsim.placement.registry import (
    OWN,
    Strategy,
    promises_of,
    resolve,
    solved,
    strategies,
    strategy_class,
    strategy_names,
)
from hetsim.placement.strategies.baselines import Hetero, Single
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem


def test_every_name_has_a_class_and_a_record() -> None:
    names = strategy_names()
    assert names == tuple(sorted(names))
    assert set(OWN) <= set(names)
    for name in OWN:
        made = strategy_class(name)
        assert made.__name__.lower() == name.replace("-", "")
        assert strategy_class(f"{name}:argument") is made
        assert hasattr(resolve(name), "solve")
    assert [entry.name for entry in strategies()] == list(names)
    for entry in strategies():
        assert entry.usage.partition("[")[0].partition(":")[0] == entry.name
        assert entry.summary
        assert promises_of(entry.name) == promises_of(f"{entry.name}:x") == entry.promises
        assert set(entry.promises) <= set(PROMISES)


def test_a_name_may_have_an_argument_and_options() -> None:
    assert resolve("hetero:npu, cpu") == Hetero(priority=("npu", "cpu"))
    assert resolve("hetero", {"method": "stage"}) == Hetero(method="stage")
    assert resolve("single:npu") == Single("npu")
    assert resolve("single") == Single("")


def test_what_there_is_not_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="no strategy 'hefd'; did you mean 'heft'"):
        strategy_class("hefd:x")
    with pytest.raises(UsageError, match="no strategy ''"):
        resolve("")
    with pytest.raises(
        UsageError, match="strategy 'hetero' has no option 'methd'; did you mean 'method'"
    ):
        resolve("hetero:npu", {"methd": "stage"})
    with pytest.raises(UsageError, match="strategy 'heft' takes no argument"):
        resolve("heft:x")
    for text in ("local-search:x", "ideal-dp:x"):
        with pytest.raises(UsageError, match=f"strategy '{text[:-2]}' takes no argument"):
            resolve(text)
    for text in ("hetero:npu,,cpu", "hetero:,"):
        with pytest.raises(UsageError, match="empty device name"):
            resolve(text)
    with pytest.raises(UsageError, match="twice"):
        resolve("hetero:npu,npu")
    for text in ("multi:a,,b", "multi:a,a", "pipeline:a,a"):
        with pytest.raises(UsageError, match="no list of different devices"):
            resolve(text)


class Nothing:
    """Solves to what is no plan."""

    def solve(self, problem: Problem) -> Plan:
        """Return none."""
        return None  # type: ignore[return-value]


def test_only_a_plan_of_another_package_is_looked_at() -> None:
    problem = Problem.from_arrays([[1.0]])
    made: Strategy = Nothing()
    assert solved("heft", made, problem) is None
    with pytest.raises(PluginError, match="theirs"):
        solved("theirs:x", made, problem)
    plan = hetsim.plan(problem, "heft")
    assert registry._asked("heft", "solve", lambda: plan) is plan
