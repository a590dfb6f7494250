"""Two answers side by side: what changed by how much, what is kept, and what supposes nothing."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

import hetsim
from builders import BOX
from hetsim.analysis.comparison import check_target
from hetsim.analysis.explanation import explain
from hetsim.analysis.what_if_comparison import (
    WhatIfComparison,
    WhatIfSide,
    idle_suppositions,
    side_of,
    what_if_comparison,
)
from hetsim.errors import InvalidInput, ObjectiveMissed, UsageError
from hetsim.hardware.spec import Supposed
from hetsim.placement.objective import Objective, bottleneck, measure
from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.problem.repriced import repriced

PLATFORM = hetsim.load_platform(str(BOX))


@pytest.fixture(scope="module")
def problem() -> Problem:
    return Problem.of(hetsim.load_model("zoo:squeezenet"), PLATFORM)


def test_what_moved_is_told_by_name() -> None:
    asked = Problem.from_arrays([[1.0, 1.0]] * 2, edges=[(0, 1, 8)], devices=("a", "b"))
    whole = Plan(asked, "s", (Group("a", (0, 1)),))
    split = Plan(asked, "s", (Group("a", (0,)), Group("a", (1,))))
    was = WhatIfSide(whole, 1.0, "s", ("a",), "a")

    def moved(now: WhatIfSide) -> tuple[str, ...]:
        return WhatIfComparison(Supposed(()), "latency", was, now, None, ()).moved

    assert moved(was) == ()
    assert moved(replace(was, cost_s=9.0, energy_j=1.0)) == ()
    assert moved(replace(was, strategy="t")) == ("strategy",)
    assert moved(replace(was, devices=("a", "b"), limited_by="b")) == ("devices", "limited_by")
    assert moved(replace(was, plan=split)) == ("subgraphs",)
    dealt = [Plan.dealt([whole, split], deal, strategy="s") for deal in ([0, 1], [0, 0, 1])]
    between = WhatIfComparison(
        Supposed(()), "latency", replace(was, plan=dealt[0]), replace(was, plan=dealt[1]), None, ()
    )
    assert between.moved == ("subgraphs",)
    for one, other in ((WhatIfSide(None), was), (was, WhatIfSide(None))):
        assert WhatIfComparison(Supposed(()), "latency", one, other, None, ()).moved == ()


@pytest.mark.parametrize("objective", ["latency", "throughput"])
def test_a_side_is_what_the_clock_says_of_a_plan(problem: Problem, objective: Objective) -> None:
    plan = hetsim.plan(problem, "heft")
    side = side_of(plan, objective)
    timeline = hetsim.simulate(plan)
    assert side.cost_s == (timeline.latency_s if objective == "latency" else bottleneck(plan))
    assert side.energy_j == timeline.energy_j > 0
    assert (side.strategy, side.devices) == (plan.strategy, plan.devices_used)
    assert side.limited_by == explain(plan, objective=objective).limited_by
    assert side_of(plan, objective, "another").strategy == "another"
    bare = hetsim.plan(Problem.from_arrays([[1.0]]), "single")
    assert math.isnan(side_of(bare, objective).energy_j)
    nothing = hetsim.plan(Problem.from_arrays([[0.0]]), "single")
    assert side_of(nothing, objective).limited_by == ""


def test_a_kept_plan_is_played_on_what_is_supposed(problem: Problem) -> None:
    plan = hetsim.plan(problem, "heft")
    was = side_of(plan, "latency")
    on = repriced(problem, hetsim.what_if(PLATFORM, f"device {plan.devices_used[0]}.speed x0.5"))
    now = side_of(hetsim.plan(on, "heft"), "latency")
    found = what_if_comparison(was, now, "latency", ("idle",))
    assert on.platform is not None
    assert (found.supposed, found.idle) == (on.platform.supposed, ("idle",))
    assert (found.was, found.now, found.objective) == (was, now, "latency")
    assert found.kept is not None
    assert found.kept.cost_s == measure(replace(plan, problem=on), "latency") > was.cost_s
    assert found.change == pytest.approx(now.cost_s / was.cost_s - 1)
    assert what_if_comparison(WhatIfSide(None), now, "latency").kept is None
    with pytest.raises(UsageError, match="nothing is supposed"):
        what_if_comparison(was, was, "latency")


def test_no_plan_is_kept_without_its_devices_or_beyond_their_memory(problem: Problem) -> None:
    plan = hetsim.plan(problem, "hetero:npu,cpu")
    assert "npu" in plan.devices_used
    was = side_of(plan, "latency")
    without = repriced(problem, hetsim.what_if(PLATFORM, without=("npu",)))
    gone = side_of(hetsim.plan(without, "single:cpu"), "latency")
    assert what_if_comparison(was, gone, "latency").kept is None
    there = what_if_comparison(
        side_of(hetsim.plan(problem, "single:cpu"), "latency"), gone, "latency"
    )
    assert there.kept is not None
    on = repriced(problem, hetsim.what_if(PLATFORM, "device npu.speed x2"))
    tight = replace(on, capacity_bytes=tuple(1 if d == "npu" else 2**40 for d in on.devices))
    now = side_of(hetsim.plan(tight, "single:cpu"), "latency")
    assert what_if_comparison(was, now, "latency").kept is None


def test_a_supposition_is_idle_where_nothing_depends_on_it(problem: Problem) -> None:
    moved, alone = "device npu.speed x2", f"link {PLATFORM.links[0].name}.bandwidth x1"
    on = hetsim.what_if(PLATFORM, moved, alone)
    asked = repriced(problem, on)
    assert idle_suppositions(asked, PLATFORM) == (alone,)
    assert idle_suppositions(repriced(problem, hetsim.what_if(PLATFORM, moved)), PLATFORM) == ()
    assert idle_suppositions(problem, PLATFORM) == ()
    # One device lost, the rest is told of what is left.
    less = hetsim.what_if(PLATFORM, alone, moved.replace("npu", "cpu"), without=("npu",))
    assert idle_suppositions(repriced(problem, less), PLATFORM) == (alone,)


@pytest.mark.parametrize("what", ["power x1.5", "memory"])
def test_what_devices_share_counts_where_it_is_asked_for(what: str) -> None:
    platform = hetsim.load_platform("laptop")
    asked = Problem.of(hetsim.load_model("zoo:squeezenet"), platform)
    if what == "memory":
        assert platform.memories
        one = replace(platform.memories[0], bytes_per_s=platform.memories[0].bytes_per_s * 2)
        on = replace(platform, memories=(one, *platform.memories[1:]))
    else:
        assert platform.power_w is not None
        on = replace(platform, power_w=platform.power_w * 1.5)
    on = replace(on, supposed=Supposed(("of this test",)))
    other = replace(asked, platform=on)
    assert idle_suppositions(other, platform) == ("of this test",)
    assert idle_suppositions(other, platform, sustained=True) == ()


@pytest.mark.parametrize("objective", ["latency", "throughput"])
def test_a_target_is_met_up_to_itself(objective: Objective) -> None:
    check_target(objective, 2.0, 2.0, "here")
    check_target(objective, 1.0, 2.0, "here")
    with pytest.raises(ObjectiveMissed) as caught:
        check_target(objective, 3.0, 2.0, "here")
    each = " a request" if objective == "throughput" else ""
    assert f"{objective} 3.00 s{each} misses the target of 2.00 s (1.5x)" in str(caught.value)
    for bad in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(InvalidInput):
            check_target(objective, 1.0, bad, "here")
