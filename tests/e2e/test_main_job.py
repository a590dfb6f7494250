"""Every zoo model on every platform: a row for each device and strategy, and equal outputs."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

import hetsim
from hetsim.graph.inputs.samples import random_inputs
from hetsim.graph.work import graph_work, uncosted
from hetsim.graph.zoo import models as zoo
from hetsim.hardware.catalog import platform_names
from hetsim.partitioning.validator import problems_of
from oracles import timeline_check

ON_RAY = ("laptop", "workstation", "edge-box", "two-hosts")
"""Platforms that take turns, a model each, to run their first plan on Ray actors.

All other plans run on threads: every device of a plan on Ray is a process to start.
"""


@pytest.fixture(scope="module", params=zoo.names())
def model(request: pytest.FixtureRequest) -> hetsim.Model:
    return hetsim.load_model(f"zoo:{request.param}")


def test_the_catalog_has_the_promised_platforms() -> None:
    assert {*ON_RAY, "dual-gpu", "gpu-server-8"} <= set(platform_names())
    assert len(zoo.names()) == 14


@pytest.mark.slow
@pytest.mark.parametrize("platform_name", platform_names())
def test_compare_and_run(model: hetsim.Model, platform_name: str, ray_session: Any) -> None:
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
            timeline_check.check(row.plan, row.timeline)
    by_name = {row.strategy: row for row in table.rows}
    assert by_name[f"single:{problem.devices[problem.host or 0]}"].feasible
    inputs = random_inputs(model, seed=7)
    turn = ON_RAY[zoo.names().index(model.name) % len(ON_RAY)]
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
        executor: Literal["ray", "threads"] = (
            "ray" if first and platform_name == turn else "threads"
        )
        run = hetsim.run(plan, inputs, executor=executor)
        assert run.mismatches == ()
        assert run.bitwise_equal is True
        for name, array in run.outputs.items():
            assert np.isfinite(array).all(), name
            assert np.unique(array).size > 100, f"{name} is as good as constant"
        assert run.timeline.latency_s == by_name[strategy].latency_s


def test_every_node_has_work_and_a_name(model: hetsim.Model) -> None:
    assert uncosted(model.graph) == ()
    assert sum(work.flops for work in graph_work(model.graph)) > 10**8
    known = set(model.original_nodes)
    covered = set(model.folded)
    for node in model.graph.nodes:
        assert node.origins
        assert set(node.origins) <= known
        covered.update(node.origins)
    assert covered == known
