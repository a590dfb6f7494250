"""Every zoo model on every platform: a row for each device and strategy, and equal outputs.

Each time every model is on one platform, every platform has two models, and four plans run on Ray;
the sweep has all pairs.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import product
from typing import Any, Literal

import numpy as np
import pytest

import hetsim
from hetsim.graph.inputs.samples import random_inputs
from hetsim.graph.work import graph_work, uncosted
from hetsim.graph.zoo import models as zoo
from hetsim.hardware.catalog import platform_names
from hetsim.problem.validator import problems_of
from sweeps import sweep

ON_RAY = ("laptop", "workstation", "rock-5b", "two-hosts")
"""Platforms that take turns, a model each, to run their first plan on Ray actors.

All other plans run on threads: every device of a plan on Ray is a process to start.
"""
TURN = {name: ON_RAY[k % len(ON_RAY)] for k, name in enumerate(zoo.names())}
SMALL = {TURN[name]: name for name in ("resnet18", "bert_small", "squeezenet", "mobilenet_v2")}
"""The model that each of them runs on Ray each time."""
PAIRS = [(name, platform_names()[k % len(platform_names())]) for k, name in enumerate(zoo.names())]
"""Those of each time that do not run on Ray are of these."""


def of(pairs: Iterable[tuple[str, str]], *, on_ray: bool) -> list[tuple[str, str]]:
    """The pairs whose first plan runs on Ray, or the others."""
    return [(name, platform) for name, platform in pairs if (platform == TURN[name]) == on_ray]


ON, OFF = (of(product(zoo.names(), platform_names()), on_ray=on_ray) for on_ray in (True, False))


@lru_cache(maxsize=1)
def loaded(name: str) -> hetsim.Model:
    return hetsim.load_model(f"zoo:{name}")


def test_the_catalog_has_the_promised_platforms() -> None:
    assert {*ON_RAY, "dual-gpu", "gpu-server-8"} <= set(platform_names())
    assert len(zoo.names()) == 14
    assert set(SMALL) == set(ON_RAY)


@pytest.mark.slow
@sweep("name, platform_name", quick=of(PAIRS, on_ray=False)[::8], full=OFF)
def test_compare_and_run(name: str, platform_name: str) -> None:
    compared_and_run(name, platform_name, "threads")


@pytest.mark.slow
@sweep("name, platform_name", quick=[(name, platform) for platform, name in SMALL.items()], full=ON)
def test_compare_and_run_on_ray(name: str, platform_name: str, ray_connection: Any) -> None:
    compared_and_run(name, platform_name, "ray")


def compared_and_run(name: str, platform_name: str, first_on: Literal["ray", "threads"]) -> None:
    model = loaded(name)
    problem = hetsim.Problem.of(model, hetsim.load_platform(platform_name))
    table = hetsim.compare(problem, ["single", "hetero", "heft"])
    assert {row.strategy for row in table.rows} == {
        *(f"single:{device}" for device in problem.devices),
        "hetero",
        "heft",
    }
    latencies = [row.latency_s for row in table.rows if row.latency_s is not None]
    assert latencies == sorted(latencies)
    assert 0 < table.bound_s <= latencies[0]
    for row in table.rows:
        assert row.feasible == (row.reason is None)
        if row.plan is not None and row.timeline is not None:
            hetsim.check_timeline(problem, row.plan, row.timeline, bound_s=table.bound_s)
    by_name = {row.strategy: row for row in table.rows}
    assert by_name[f"single:{problem.devices[problem.host or 0]}"].feasible
    inputs = random_inputs(model, seed=7)
    done = None
    for strategy in ("hetero", "heft"):
        plan = by_name[strategy].plan
        assert plan is not None
        if plan.groups == done:
            continue
        first, done = done is None, plan.groups
        assert (
            problems_of(problem.dag, plan.groups, problem.devices, problem.supported.tolist()) == []
        )
        run = hetsim.run(plan, inputs, executor=first_on if first else "threads")
        assert run.mismatches == ()
        assert run.bitwise_equal is True
        for output, array in run.outputs.items():
            assert np.isfinite(array).all(), output
            assert np.unique(array).size > 100, f"{output} is as good as constant"
        assert run.timeline.latency_s == by_name[strategy].latency_s


@sweep("name", quick=zoo.names()[::9], full=zoo.names())
def test_every_node_has_work_and_a_name(name: str) -> None:
    model = loaded(name)
    assert uncosted(model.graph) == ()
    assert sum(work.flops for work in graph_work(model.graph)) > 10**8
    known = set(model.original_nodes)
    covered = set(model.folded)
    for node in model.graph.nodes:
        assert node.origins
        assert set(node.origins) <= known
        covered.update(node.origins)
    assert covered == known
