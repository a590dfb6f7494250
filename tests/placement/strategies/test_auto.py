"""Strategy auto: never worse than a device alone, and what it says."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np

import hetsim
from hetsim.core.progress import ProgressState, progress_to
from hetsim.graph.zoo import models as zoo
from hetsim.hardware.catalog import platform_names
from hetsim.placement.coarsening import coarsen
from hetsim.placement.initial_plans import prepared
from hetsim.problem.parts import FusedKernel
from hetsim.problem.problem import Problem
from sweeps import sweep


def test_what_nothing_can_beat_is_said_to_be_so() -> None:
    words = ", and no plan can be faster"
    chain = Problem.from_arrays([[1.0, 4.0]] * 3, [(0, 1, 1), (1, 2, 1)])
    found = hetsim.plan(chain, "auto", search=False)
    # A longest path of one subgraph: nothing else was tried.
    assert found.reason.endswith(words)
    assert "not tried" not in found.reason
    assert found.devices_used == ("d0",)
    # Two side by side take less than one after another; one device could be beaten.
    apart = Problem.from_arrays([[1.0, 1.0]] * 2)
    one = Problem.from_arrays([[1.0]] * 2, [(0, 1, 1)])
    for problem, objective in ((apart, "latency"), (one, "throughput")):
        made = hetsim.plan(problem, "auto", search=False, objective=objective)  # type: ignore[arg-type]
        assert words not in made.reason
        assert made.reason.startswith(f"the best for {objective} of ")
    assert len(hetsim.plan(apart, "auto", search=False).devices_used) == 2


def layers() -> Problem:
    """Three layers of two nodes that read all of the layer before."""
    rng = np.random.default_rng(5)
    edges = [(2 * k + a, 2 * k + 2 + b, 2) for k in range(2) for a in range(2) for b in range(2)]
    return Problem.from_arrays(rng.uniform(1.0, 9.0, (6, 3)), edges, bytes_per_s=1.0)


def test_of_a_few_free_tasks_the_best_plan_is_proven_before_any_search() -> None:
    heard: list[ProgressState] = []
    with progress_to(heard.append):
        found = hetsim.plan(layers(), "auto")
    assert not any(told.what.startswith("local-search") for told in heard)
    assert "no plan can be faster by more than 0.01 %" in found.reason
    searched = hetsim.plan(layers(), "exact")
    assert searched.reason.startswith("proven optimal")
    latencies = [hetsim.simulate(plan, trace=False).latency_s for plan in (found, searched)]
    assert latencies[0] <= latencies[1] * (1 + 1e-4)


def test_a_shortcut_runs_beside_its_branch_though_its_kernel_would_fuse_the_sum() -> None:
    problem = Problem.from_arrays(
        [[1.0, 0.5], [4.0, 2.0], [4.0, 2.0], [2.5, 2.0], [1.0, 0.5]],
        [(0, 1, 1), (1, 2, 1), (0, 3, 1), (2, 4, 1), (3, 4, 1)],
        devices=("cpu", "gpu"),
        latency_s=0.01,
        dispatch_s=0.01,
    )
    problem = replace(problem, fused=(FusedKernel(1, (3, 4), 2.2),))
    assert coarsen(problem).members == ((0,), (1, 2), (3, 4))
    assert coarsen(problem, joins_apart=True).members == ((0,), (1, 2), (3,), (4,))
    found = hetsim.plan(problem, "auto")
    timeline = hetsim.simulate(found)
    hetsim.check_timeline(problem, found, timeline)
    assert ("cpu", (3,)) in [(group.device, group.nodes) for group in found.groups]
    assert timeline.latency_s < hetsim.simulate(hetsim.plan(problem, "heft")).latency_s


def left_out(reason: str) -> set[str]:
    return set(reason.partition("not tried: ")[2].split(", "))


def test_the_best_plan_is_improved_on_where_it_splits_tasks_too() -> None:
    # The GPU lacks Gelu, which is one task with the product before it.
    problem = Problem.of(hetsim.load_model("zoo:bert_small"), hetsim.load_platform("khadas-vim4"))
    split = hetsim.plan(problem, "hetero")
    assert prepared(problem).gathered(split.groups) is None
    latencies = [hetsim.simulate(plan).latency_s for plan in (hetsim.plan(problem, "auto"), split)]
    assert latencies[0] < latencies[1] * 0.95


def test_auto_names_all_that_it_left_out() -> None:
    problem = layers()
    quick = hetsim.plan(problem, "auto", search=False)
    # Without capacities there is nothing to split by; the others search, or plan for loads.
    assert left_out(quick.reason) == {"exact", "ideal-dp", "pipeline", "slice"}
    roomy = replace(problem, capacity_bytes=(99, 99, 99))
    found = hetsim.plan(roomy, "auto", search=False)
    assert left_out(found.reason) == {"exact", "ideal-dp", "slice"}


def test_auto_tells_how_far_it_is() -> None:
    heard: list[ProgressState] = []
    with progress_to(heard.append):
        hetsim.plan(replace(layers(), contention="fifo", dispatch_s=(1.0,) * 3), "auto")
    # Other strategies one after another, then the search from the best.
    last = max(k for k, told in enumerate(heard) if not told.what.startswith("local-search"))
    assert all(0.1 <= told.share <= 0.36 for told in heard[:last])
    after = [told.share for told in heard if told.what.startswith("local-search")]
    assert after == sorted(after)
    assert 0.35 <= after[0] <= after[-1] <= 0.95


THIRDS = range(3)
"""Platforms are taken each third, from each of the first three: two of three each time."""


@sweep("name, third", quick=[("squeezenet", 2)], full=product(zoo.names(), THIRDS))
def test_auto_is_never_worse_than_a_device_alone(name: str, third: int) -> None:
    model = hetsim.load_model(f"zoo:{name}")
    for platform_name in platform_names()[third :: len(THIRDS)]:
        problem = hetsim.Problem.of(model, hetsim.load_platform(platform_name))
        plan = hetsim.plan(problem, "auto", search=False)
        timeline = hetsim.simulate(plan)
        bound_s = hetsim.lower_bound(problem)
        hetsim.check_timeline(problem, plan, timeline, bound_s=bound_s)
        alone = hetsim.plan(problem, "single")
        assert bound_s <= timeline.latency_s <= hetsim.simulate(alone).latency_s, platform_name
