"""Searches and ``auto`` are never worse than where they start, and their proofs hold."""

from __future__ import annotations

import builtins
from typing import Any

import pytest
from hypothesis import given

import hetsim
from builders import problems
from hetsim.errors import NotInstalled, UnsupportedNode, UsageError
from hetsim.placement.initial_plans import expand
from hetsim.placement.objective import measure
from hetsim.placement.strategies import auto
from hetsim.problem.problem import Problem
from placement_instances import CONSTRUCTIVE, case, model_like, played
from sweeps import examples


def _singles(problem: Problem, objective: Any) -> list[float]:
    found = []
    for name in expand(problem):
        try:
            found.append(measure(hetsim.plan(problem, name), objective))
        except UnsupportedNode:
            continue
    return found


@examples(quick=3, full=20)
@given(problems(max_nodes=10))
def test_auto_and_search_are_never_worse_than_a_device_alone(problem: Problem) -> None:
    for objective in ("latency", "throughput"):
        bar = min(_singles(problem, objective))
        for strategy, options in (
            ("local-search", {"moves": 100}),
            ("auto", {"search": False}),
        ):
            plan = hetsim.plan(problem, strategy, objective=objective, **options)
            hetsim.check_timeline(problem, plan, hetsim.simulate(plan), bound_s=0.0)
            assert measure(plan, objective) <= bar


@examples(quick=3, full=8)
@given(problems(max_nodes=6, max_devices=2))
def test_gaps_hold_with_dispatch_and_contention(problem: Problem) -> None:
    plan, latency = played(problem, "exact")
    assert latency <= min(_singles(problem, "latency"))
    if plan.reason == "proven optimal":
        for strategy in (*CONSTRUCTIVE, "local-search", "hetero"):
            assert latency <= played(problem, strategy)[1] * (1 + 1e-9)
    else:
        known = ("optimality gap at most", "proven optimal among", "nothing proven")
        assert plan.reason.startswith(known)


def test_gaps_are_told_where_time_runs_out() -> None:
    problem, optimum = case("random20/rand-n25-p3-ccr5.0-s1")
    # Beside much other work nothing is known after the first of these.
    for time_limit_s in (0.5, 4.0, 32.0):
        plan, latency = played(problem, "exact", time_limit_s=time_limit_s)
        if plan.reason != "nothing proven":
            break
    if plan.reason.startswith("proven optimal"):  # a machine quicker than any of today
        assert latency == pytest.approx(optimum)
        return
    assert plan.reason.startswith("optimality gap at most")
    stated = float(plan.reason.partition("at most ")[2].partition("%")[0]) / 100
    assert optimum >= latency / (1 + stated + 0.0006)


def test_without_the_extra_there_is_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("ortools"):
            raise ModuleNotFoundError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    problem = Problem.from_arrays([[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(NotInstalled, match=r"pip install 'hetsim\[exact\]'"):
        hetsim.plan(problem, "exact")
    plan, latency = played(problem, "auto")
    assert latency == 1.0
    assert "exact" in plan.reason.partition("not tried: ")[2]


@examples(quick=3, full=20)
@given(model_like(problems(max_nodes=6)))
def test_what_auto_shows_to_be_the_best_is_what_it_finds_otherwise(problem: Problem) -> None:
    plan = hetsim.plan(problem, "auto")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auto, "_proved", lambda problem, found: False)
        assert hetsim.plan(problem, "auto").groups == plan.groups


def test_options_are_checked() -> None:
    problem = Problem.from_arrays([[1.0, 2.0]])
    for strategy, options, complaint in (
        ("local-search", {"moves": 3, "time_limit_s": 1.0}, "both 'moves' and 'time_limit_s'"),
        ("local-search", {"moves": -1}, "moves is -1"),
        ("local-search", {"objective": "latencies"}, "did you mean 'latency'"),
        ("exact", {"time_limit_s": 0}, "time_limit_s is 0"),
        ("exact", {"moves": 3}, "no option 'moves'"),
    ):
        with pytest.raises(UsageError, match=complaint):
            hetsim.plan(problem, strategy, **options)
    wide = Problem.from_arrays([[1.0, 2.0]] * 300)
    with pytest.raises(UsageError, match="takes up to 200 tasks"):
        hetsim.plan(wide, "exact")
