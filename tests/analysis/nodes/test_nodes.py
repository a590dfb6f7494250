"""What is told of each node is what problem, plan and clock say, and adds up to their figures."""

from __future__ import annotations

import math
import random
from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from builders import BOX, dags, problems, random_composites
from hetsim.analysis.nodes.facts import CHOICE, Facts
from hetsim.analysis.nodes.nodes import nodes
from hetsim.analysis.what_if import missing_ops, supposed_seconds, with_nodes_on
from hetsim.errors import Infeasible, UsageError
from hetsim.graph.zoo import models as zoo
from hetsim.hardware.catalog import platform_names
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from sweeps import examples, sweep
from three_nodes import back_and_forth


def check_of_problem(facts: Facts) -> None:
    """Who takes what in how long, and why not, as the problem has it."""
    problem = facts.problem
    for told in facts.nodes:
        shared = problem.shared_seconds[told.node].tolist()
        for p, one in enumerate(told.devices):
            alone, taken = math.isfinite(problem.seconds[told.node, p]), math.isfinite(shared[p])
            assert one.device == problem.devices[p]
            assert one.takes == ("alone" if alone else "within" if taken else "no")
            assert one.seconds == (shared[p] if taken else None)
            assert one.reason == ("" if alone else problem.refusals[p][told.node])
        if problem.model is None:
            made = [value.name for value in problem.values if value.producer == told.node]
            assert sorted(told.outputs) == sorted(made)
        assert told.able == tuple(d for d, s in zip(problem.devices, shared, strict=True)
                                  if math.isfinite(s))  # fmt: skip
        if facts.wanted is None:
            least = min(shared)
            if math.isfinite(least):
                assert told.preferred_s == least
                best = [d for d, s in zip(problem.devices, shared, strict=True) if s == least]
                assert told.preferred == (told.device if told.device in best else best[0])
        else:
            assert told.preferred == facts.wanted
            assert told.supposed == (facts.wanted not in told.able)


def check_of_plan(facts: Facts) -> None:
    """Kernels and subgraphs are the plan's, shares and charges add up to what the clock plays."""
    plan, problem = facts.plan, facts.problem
    assert plan is not None
    assert [(g.device, g.nodes) for g in facts.groups] == [(g.device, g.nodes) for g in plan.groups]
    within: list[list[float]] = [[] for _ in facts.groups]
    of_kernel: list[list[float]] = [[] for _ in facts.kernels]
    for told in facts.nodes:
        assert told.group is not None
        assert told.kernel is not None
        assert told.seconds is not None
        group = facts.groups[told.group]
        assert (told.node in group.nodes, told.device, told.replica) == (
            True, group.device, group.replica
        )  # fmt: skip
        assert told.node in facts.kernels[told.kernel].nodes
        assert facts.kernels[told.kernel].group == told.group
        within[told.group].append(told.seconds)
        of_kernel[told.kernel].append(told.seconds)
    for kernel, parts in zip(facts.kernels, of_kernel, strict=True):
        assert len(parts) == len(kernel.nodes)
        assert math.fsum(parts) == pytest.approx(kernel.seconds, rel=1e-9, abs=1e-15)
    for group, parts in zip(facts.groups, within, strict=True):
        whole = group.dispatch_s + group.staged_s + math.fsum(parts)
        assert group.seconds == pytest.approx(whole, rel=1e-9, abs=1e-15)
        p = problem.devices.index(group.device)
        assert group.seconds == problem.group_seconds(p, group.nodes)
    for at, replica in enumerate(plan.replicas):
        timeline = hetsim.simulate(replica, trace=False)
        own = [group for group in facts.groups if group.replica == at]
        busy = sum(timeline.device_busy_s.values())
        assert math.fsum(group.seconds for group in own) == pytest.approx(busy, rel=1e-9)
        moved = [one for one in facts.moved if one.replica == at]
        assert len(moved) == timeline.transfers
        assert sum(one.nbytes for one in moved) == timeline.transferred_bytes
        assert math.fsum(one.seconds for one in moved) == pytest.approx(timeline.transfer_s)
        told = [node for node in facts.nodes if node.replica == at]
        charged = math.fsum(one.seconds for one in moved if one.charged)
        assert math.fsum(node.moves_s for node in told) == pytest.approx(charged)
        charged_bytes = sum(one.nbytes for one in moved if one.charged)
        assert math.fsum(node.moved_bytes for node in told) == pytest.approx(charged_bytes)
    for told in facts.nodes:
        check_cost(facts, told)


def check_cost(facts: Facts, told: Any) -> None:
    """By the definition: what it takes over what it would on the preferred device, and moves."""
    if not told.falls_back:
        assert (told.cost_s, told.moves_s, told.why) == (0.0, 0.0, "")
        assert told.device == told.preferred or told.preferred is None
        return
    assert told.device != told.preferred
    reason = next(one.reason for one in told.devices if one.device == told.preferred)
    assert told.why == (reason if told.supposed else f"{CHOICE}: {told.preferred} takes it, too")
    if told.preferred_s is None:
        assert told.cost_s is None
    else:
        assert told.cost_s == told.seconds - told.preferred_s + told.moves_s
    for one in facts.moved:
        if told.node in one.charged and told.replica == one.replica:
            assert told.device in (one.source, one.target)


def cut(problem: Problem, assignment: list[int]) -> Plan:
    made = hetsim.partition(problem, assignment=assignment)
    return Plan(problem, "by hand", made.groups)


@examples(quick=12, full=400)
@given(problems(), st.data())
def test_every_plan_adds_up(problem: Problem, data: st.DataObject) -> None:
    assignment = [
        data.draw(st.sampled_from(np.flatnonzero(problem.supported[v]).tolist()))
        for v in range(problem.n)
    ]
    device = data.draw(st.sampled_from([None, *problem.devices]))
    told = nodes(cut(problem, assignment), device=device)
    check_of_problem(told)
    check_of_plan(told)
    assert [problem.devices.index(str(node.device)) for node in told.nodes] == assignment
    alone = nodes(problem, device=device)
    check_of_problem(alone)
    assert {node.device for node in alone.nodes} == {None}
    assert all(node.cost_s is None for node in alone.nodes)


@examples(quick=10, full=100)
@given(dags(14), st.integers(0, 10**6))
def test_nodes_of_one_kernel_share_its_time(dag: Any, seed: int) -> None:
    rng = random.Random(seed)
    seconds = [[rng.choice([0.0, 1.0, 2.0, 3.0]) for _ in range(2)] for _ in range(dag.n)]
    composites = list(random_composites(rng, dag, 2))
    for device, members, _ in composites:
        if device and rng.random() < 0.5:
            seconds[members[0]][device] = math.inf
    problem = Problem.from_arrays(
        seconds, edges=[(u, v, 8) for u, v in dag.edges()], composites=composites,
        bytes_per_s=4.0, host=0, dispatch_s=0.5,
    )  # fmt: skip
    told = nodes(hetsim.plan(problem, "heft"))
    check_of_problem(told)
    check_of_plan(told)
    whole = {one.nodes for one in problem.fused}
    assert all(one.nodes in whole for one in told.kernels if len(one.nodes) > 1)


def test_a_node_that_no_device_wants_is_charged_its_transfers() -> None:
    problem = back_and_forth()
    told = nodes(cut(problem, [1, 0, 1]), device="npu")
    first, middle, last = told.nodes
    assert (first.cost_s, last.cost_s) == (0.0, 0.0)
    # On the npu it is supposed to take a quarter, as the others do.
    assert (middle.supposed, middle.preferred_s, middle.seconds) == (True, 1.5, 6.0)
    assert (middle.moves_s, middle.moved_bytes) == (1.0 + 2.0, 24)
    assert middle.cost_s == 6.0 - 1.5 + 3.0
    assert middle.why == "inf in seconds"
    # By itself it is best on the one device that takes it: what moves is nobody's fault.
    assert [node.cost_s for node in nodes(cut(problem, [1, 0, 1])).nodes] == [0.0] * 3
    with pytest.raises(UsageError, match="npu"):
        nodes(problem, device="np")


def test_nothing_is_told_of_an_empty_problem() -> None:
    told = nodes(Problem.from_arrays(np.zeros((0, 2))))
    assert (told.nodes, told.groups, told.moved) == ((), (), ())


def test_what_a_refused_node_would_take_is_the_devices_own_estimate() -> None:
    model = hetsim.load_model("zoo:inception_v1")
    problem = Problem.of(model, hetsim.load_platform("rock-5b"))
    npu = problem.device_index("npu")
    told = nodes(problem, device="npu")
    refused = [node for node in told.nodes if node.supposed]
    assert Counter(node.op for node in refused) == {"LRN": 2}
    assert [node.why for node in refused] == ["op LRN"] * 2
    estimates = supposed_seconds(problem, npu, [node.node for node in refused])
    assert [node.preferred_s for node in refused] == estimates
    # It is what the search for changes has always supposed.
    (missing,) = [one for one in missing_ops(problem) if one.device == npu]
    taken = with_nodes_on(problem, npu, missing.nodes)
    assert taken.seconds[list(missing.nodes), npu].tolist() == estimates


def test_replicas_are_told_apart() -> None:
    problem = Problem.from_arrays(
        [[2.0, 1.0, 1.0]] * 4, edges=[(0, 1, 4), (1, 2, 4), (2, 3, 4)],
        devices=("cpu", "gpu.0", "gpu.1"), bytes_per_s=8.0,
    )  # fmt: skip
    told = nodes(hetsim.plan(problem, "multi:gpu.0,gpu.1"))
    check_of_problem(told)
    check_of_plan(told)
    assert told.replicas == 2
    assert len(told.nodes) == 8
    assert [node.device for node in told.nodes] == ["gpu.0"] * 4 + ["gpu.1"] * 4
    assert all(len(standing) == 2 for standing in told.standing_for.values())


@pytest.mark.parametrize("execute", [{}, {"npu": "int8"}])
def test_staging_and_patterns_of_a_real_platform(execute: dict[str, str]) -> None:
    model = hetsim.load_model("zoo:squeezenet")
    problem = Problem.of(model, hetsim.load_platform(str(BOX)), execute=execute)
    told = nodes(hetsim.plan(problem, "heft"), device="npu")
    check_of_problem(told)
    check_of_plan(told)


@sweep(
    "model, platform",
    quick=[("mobilenet_v2", "laptop")],
    full=[*product(zoo.names(), platform_names())],
)
def test_every_model_on_every_platform(model: str, platform: str) -> None:
    read = hetsim.load_model(f"zoo:{model}")
    problem = Problem.of(read, hetsim.load_platform(platform))
    for device in (None, problem.devices[-1]):
        check_of_problem(nodes(problem, device=device))
        for strategy in ("heft", "hetero"):
            try:
                made = hetsim.plan(problem, strategy)
            except Infeasible:
                continue
            told = nodes(made, device=device)
            check_of_problem(told)
            check_of_plan(told)
            names = {name for node in told.nodes for name in node.origins}
            folded = {name for name, standing in told.standing_for.items() if not standing}
            assert folded == set(read.folded)
            assert names | folded == {node.name for node in read.file_nodes}
