"""Gains are those of planning anew; costs are what the plan is made of."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from builders import BOX, problems
from hetsim.analysis.lint.finders import borders_of
from hetsim.analysis.lint.lint import FINDERS, Finding, Lint, lint
from hetsim.analysis.nodes.nodes import nodes
from hetsim.errors import UsageError
from hetsim.graph.zoo import models as zoo
from hetsim.hardware.catalog import platform_names
from hetsim.partitioning.affinity import Affinity, Exclusion
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.templates import template_of
from proving import check_proved
from sweeps import examples, sweep


def of(model: str, platform: str, **asked: Any) -> Problem:
    return Problem.of(hetsim.load_model(f"zoo:{model}"), hetsim.load_platform(platform), **asked)


def all_of(found: Lint) -> tuple[Finding, ...]:
    return (*found.findings, *found.others)


@sweep(
    "model, platform",
    quick=[("zfnet512", "rock-5b")],
    full=[*product(zoo.names(), platform_names())],
)
def test_every_gain_is_that_of_planning_anew(model: str, platform: str) -> None:
    problem = of(model, platform)
    found = lint(problem)
    check_proved(found)
    check_costs(found)


@examples(quick=3, full=200)
@given(problems(max_nodes=7), st.sampled_from(["latency", "throughput"]))
def test_every_gain_on_arrays(problem: Problem, objective: Any) -> None:
    found = lint(problem, "heft" if objective == "latency" else "chain-dp", objective=objective)
    check_proved(found)
    check_costs(found)


HOW: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"execute": {"npu": "int8"}}, {}),
    ({"pessimistic": True}, {"device": "npu"}),
    ({}, {"max_devices": 2}),
    ({}, {"pins": {"n0": "cpu"}}),
]


@sweep("asked, options", quick=[HOW[0]], full=HOW)
def test_what_is_asked_holds_before_and_after(
    asked: dict[str, Any], options: dict[str, Any]
) -> None:
    found = lint(of("squeezenet", str(BOX), **asked), **options)
    check_proved(found, **asked)
    assert {one.device for one in all_of(found) if one.kind == "precision"} <= (
        {"npu"} if "device" in options else {"npu", "dsp"}
    )


def check_costs(found: Lint) -> None:
    """By its own account: nodes where they are, borders of subgraphs, routes."""
    problem, plan = found.problem, found.plan
    if plan is None:
        assert all(one.cost_s is None for one in all_of(found))
        return
    ids = {name: v for v, name in enumerate(problem.node_names)}
    for one in all_of(found):
        assert one.cost_s is not None
        members = {ids[name] for name in one.nodes}
        origins = {name for v in members for name in problem.origins[v]}
        assert set(one.file_nodes) == origins
        if one.kind.startswith("refused-"):
            device = one.change.takes[0][0]
            p = problem.devices.index(device)
            assert not problem.runnable[list(members), p].any()
            told = nodes(plan, device=device)
            account = [node.cost_s or 0.0 for node in told.nodes if node.node in members]
            assert one.cost_s == pytest.approx(math.fsum(account) / told.replicas, abs=1e-12)
            assert set(one.change.takes[0][1]) == members
        elif one.kind in ("tiny", "to-and-fro") and not plan.sizes:
            borders = borders_of(problem, template_of(plan, problem.contention))
            those = [border for border in borders if members.issuperset(border.nodes)]
            assert those
            for border in those:
                if one.kind == "tiny":
                    assert border.dispatch_s + border.moves_s > border.work_s
                else:
                    assert border.reads_from & border.writes_to
        elif one.kind == "split":
            moved_s = [hetsim.simulate(replica).transfer_s for replica in plan.replicas]
            shares = [share / len(plan.period) for share in plan.shares]
            assert one.cost_s == pytest.approx(math.fsum(np.multiply(moved_s, shares)))
            (device,) = {device for _, device in one.change.pins}
            assert not problem.unsupported(problem.device_index(device), range(problem.n))
        elif one.kind == "link":
            timeline = hetsim.simulate(plan)
            a, _, b = one.device.partition(" and ")
            between = [
                event.end_s - event.start_s
                for event in timeline.events
                if event.kind == "transfer" and {event.source, event.device} == {a, b}
            ]
            assert plan.sizes or one.cost_s == pytest.approx(math.fsum(between))
        for name, device in one.change.pins:
            assert problem.runnable[ids[name], problem.devices.index(device)]


def test_a_platform_that_cannot_run_it_is_told_what_it_lacks() -> None:
    found = lint(of("inception_v1", "rockchip-rk3588-npu"))
    check_proved(found)
    assert found.before_s is None
    assert "LRN" in found.why
    (first,) = found.findings
    assert (first.kind, first.nodes, first.gain_s) == ("refused-op", ("n3", "n8"), math.inf)
    assert math.isfinite(first.after_s)


@pytest.mark.sweep
def test_a_float_model_on_a_device_of_integers() -> None:
    found = lint(of("mobilenet_v2", "edge-tpu"))
    (first,) = found.findings
    assert (first.kind, first.change.execute) == ("precision", (("tpu", "int8"),))
    assert first.gain > 0.4
    check_proved(found)


@sweep("model", quick=["resnet18"], full=["resnet18", "resnet50"])
def test_weights_beyond_the_chip_cost_what_streaming_them_takes(model: str) -> None:
    found = lint(of(model, "edge-tpu", execute={"tpu": "int8"}))
    check_proved(found, execute={"tpu": "int8"})
    (weights,) = [one for one in all_of(found) if one.kind == "weights"]
    (change,) = weights.change.what_if
    assert change.startswith("tpu.kernels.weights_on_chip_mib x")
    assert weights.cost_s is not None
    assert weights.gain_s > 0
    # What the plan itself gains is what is streamed no more.
    assert found.plan is not None
    kept = hetsim.simulate(
        type(found.plan)(
            Problem.of(
                found.problem.model, hetsim.what_if(found.problem.platform, change),
                execute={"tpu": "int8"},
            ),
            "kept", found.plan.groups,
        ),
        trace=False,
    ).latency_s  # fmt: skip
    assert found.before_s is not None
    assert found.before_s - kept == pytest.approx(weights.cost_s, rel=1e-6)


def test_devices_that_are_alike_are_looked_at_as_one() -> None:
    problem = Problem.from_arrays(
        [[5.0, 1.0, 1.0], [5.0, np.inf, np.inf], [5.0, 1.0, 1.0]],
        edges=[(0, 1, 8), (1, 2, 8)], devices=("cpu", "gpu.0", "gpu.1"), bytes_per_s=8.0, host=0,
    )  # fmt: skip
    for device in (None, "gpu"):
        (one,) = [f for f in all_of(lint(problem, device=device)) if f.kind == "refused-other"]
        assert one.device == "gpu"
        assert one.change.takes == (("gpu.0", (1,)), ("gpu.1", (1,)))
    (one,) = [f for f in all_of(lint(problem, device="gpu.1")) if f.kind == "refused-other"]
    assert (one.device, one.change.takes) == ("gpu.1", (("gpu.1", (1,)),))


@pytest.mark.sweep
def test_a_split_that_does_not_pay_is_told() -> None:
    found = lint(of("inception_v1", "gpu-server-8"))
    kinds = {one.kind: one for one in found.findings}
    assert kinds["precision"].change.execute == (("gpu", "float16"),)
    alone = {
        name: hetsim.simulate(hetsim.plan(found.problem, f"single:{name}")).latency_s
        for name in ("cpu", "gpu.0")
    }
    best = min(alone, key=lambda name: alone[name])
    assert {device for _, device in kinds["split"].change.pins} == {best}
    assert kinds["split"].after_s == pytest.approx(alone[best])


def test_every_change_is_tried_once_and_told() -> None:
    said: list[str] = []
    found = lint(of("zfnet512", str(BOX)), tell=said.append, affinity=Affinity({"n0": "cpu"}))
    total = int(said[0].split()[2].rstrip(":"))
    assert [line.split(":")[0] for line in said] == [f"{n} of {total}" for n in range(1, total + 1)]
    assert found.plan is not None
    assert found.plan.options["pins"] == '{"n0":"cpu"}'
    assert len(FINDERS) == 7


def test_no_pin_is_suggested_against_an_exclusion() -> None:
    problem = Problem.from_arrays(
        [[1.0, 5.0], [1.0, 5.0]], edges=[(0, 1, 8)], devices=("a", "b"), bytes_per_s=8.0
    )
    found = lint(problem, exclude=(Exclusion("a", nodes=(problem.node_names[0],)),))
    pins = [pin for one in all_of(found) if one.after_s is not None for pin in one.change.pins]
    assert pins
    assert (problem.node_names[0], "a") not in pins


def test_nothing_is_found_where_one_device_does_all() -> None:
    problem = Problem.from_arrays([[1.0], [1.0]], edges=[(0, 1, 8)])
    found = lint(problem)
    assert (found.findings, found.others, found.before_s) == ((), (), 2.0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"device": "npx"}, "npu"),
        ({"strategy": "hefd"}, "heft"),
        ({"objective": "speed"}, "latency"),
        ({"max_device": 1}, "max_devices"),
    ],
)
def test_what_is_not_there_is_refused(options: dict[str, Any], said: str) -> None:
    problem = Problem.from_arrays([[1.0, 1.0]], devices=("cpu", "npu"))
    with pytest.raises(UsageError, match=said):
        lint(problem, **options)
