"""``auto`` beside every strategy asked alone, on random problems."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import hetsim
from hetsim.errors import Infeasible, UsageError
from hetsim.placement.objective import Objective, judge, measure
from hetsim.placement.registry import option_types
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from sweeps import sweep
from throughput_problems import small

FULL = 1_000
"""Problems in the sweep."""


def asked_alone(problem: Problem, objective: Objective, **limits: Any) -> dict[str, Plan]:
    """The plan of each strategy that has one, for `objective` where it has a choice."""
    names = [entry.name for entry in hetsim.strategies()]
    names += [f"single:{device}" for device in problem.devices]
    names += ["chain-dp:latency", "chain-dp:throughput"]
    found: dict[str, Plan] = {}
    for name in names:
        if name == "auto":
            continue
        known = option_types(name)
        options = {key: value for key, value in limits.items() if key in known}
        if "objective" in known:
            options["objective"] = objective
        try:
            found[name] = hetsim.plan(problem, name, **options)
        except (Infeasible, UsageError):
            # It finds no plan of its kind, or needs memory that the problem does not tell.
            continue
    return found


def check(problem: Problem, objective: Objective, **limits: Any) -> None:
    alone = asked_alone(problem, objective, **limits)
    try:
        cost = judge(hetsim.plan(problem, "auto", objective=objective, **limits), objective)
    except Infeasible:
        assert not alone
        return
    most = limits.get("max_devices", len(problem.devices))
    better = {
        name: found
        for name, plan in alone.items()
        if len(plan.devices_used) <= most
        and (found := judge(plan, objective)) < cost * (1.0 - 1e-9)
    }
    assert not better, f"{problem.name}: auto has {cost}"


@sweep("seed", quick=[5], full=range(FULL))
def test_no_strategy_keeps_fewer_seconds_a_request(seed: int) -> None:
    check(small(seed), "throughput")


@sweep("seed", quick=[5], full=range(FULL))
def test_no_strategy_has_a_lower_latency(seed: int) -> None:
    check(small(seed), "latency")


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(1, FULL, 5))
@pytest.mark.parametrize("objective", ["latency", "throughput"])
def test_no_strategy_is_better_with_few_devices(seed: int, objective: Objective) -> None:
    check(small(seed), objective, max_devices=2)


def test_what_is_kept_decides_and_not_the_busiest_device_or_link() -> None:
    """A split whose busiest link works 2 s a request, of which 2.9 s are kept: one device has 2.85.

    All inputs cross the only link before the first value comes back, and until then the first
    device has nothing to do.
    """
    made = Problem.from_arrays(
        [[0.95, 1.9], [1.9, float("inf")]],
        tensors=[(-1, 1, (0,)), (0, 1, (1,)), (1, 0, ())],
        host=0,
        bytes_per_s=1.0,
        contention="fifo",
    )
    bus = tuple(
        tuple(replace(route, resources=(0,) if p != q else ()) for q, route in enumerate(row))
        for p, row in enumerate(made.routes)
    )
    problem = replace(made, routes=bus, link_names=("bus",))
    split = hetsim.plan(problem, "slice")
    assert measure(split, "throughput") == pytest.approx(2.0)
    assert judge(split, "throughput") == pytest.approx(2.9)
    assert judge(hetsim.plan(problem, "single"), "throughput") == pytest.approx(2.85)
    check(problem, "throughput")
