"""What would move an answer is what the clock says of the changed platform, kept and anew."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import onnx
import pytest

import hetsim
from cli.conftest import tiny_model
from hetsim.analysis import sensitivity
from hetsim.analysis.sensitivity import EACH, levers, sensitivities, served_sensitivities
from hetsim.errors import OutOfMemory, UsageError
from hetsim.hardware.spec import Link, Platform
from hetsim.placement.objective import judge
from hetsim.placement.planning import again
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.problem.repriced import repriced
from hetsim.simulation.service.resolution import ModelOptions, kept_on
from hetsim.simulation.service.serving import serve
from hetsim.workload.arrivals import Poisson
from hetsim.workload.deployment import Deployment, DynamicBatching, Instances, Served
from hetsim.workload.workload import Stream, Workload

PLATFORM = hetsim.load_platform("rock-5b")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("model") / "tiny.onnx"
    onnx.save(tiny_model("batch"), path)
    return path


@pytest.fixture(scope="module")
def plan(source: Path) -> Plan:
    return hetsim.plan(Problem.of(hetsim.load_model(source, dims={"batch": 2}), PLATFORM), "heft")


@pytest.mark.parametrize("objective", ["latency", "throughput"])
def test_each_share_is_that_of_the_changed_problem(plan: Plan, objective: str) -> None:
    weighed = hetsim.placement.objective.check_objective(objective)
    found = sensitivities(plan, objective=weighed)
    assert found.value_s == judge(plan, weighed)
    assert {one.change for one in found.changes} == set(levers(PLATFORM))
    for one in found.changes:
        problem = repriced(plan.problem, hetsim.what_if(PLATFORM, one.change))
        kept = judge(replace(plan, problem=problem), weighed)
        anew = judge(again(plan, problem), weighed)
        assert one.kept == kept / found.value_s - 1
        least = min(kept, anew) / found.value_s - 1
        assert one.anew == least if one.strategy == "heft" else one.anew < least
        # A plan that is kept is never slower on hardware that is never slower.
        assert one.kept <= 1e-12
    most = [one.most for one in found.changes]
    assert all(first <= then + 1e-9 for first, then in itertools.pairwise(most))


def test_no_dear_strategy_plans_anew_for_throughput(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dear(*_: object) -> Plan:
        raise AssertionError("a dear strategy plans again")

    monkeypatch.setattr(sensitivity, "again", dear)
    platform = hetsim.load_platform("dual-gpu")
    problem = Problem.of(hetsim.load_model(source, dims={"batch": 2}), platform)
    plan = replace(hetsim.plan(problem, "multi"), strategy="auto")
    assert len(plan.replicas) > 1
    found = sensitivities(plan, objective="throughput")
    for one in found.changes:
        changed = repriced(problem, hetsim.what_if(platform, one.change))
        anew_s = judge(hetsim.plan(changed, "multi"), "throughput")
        assert one.anew <= anew_s / found.value_s - 1 + 1e-12


def test_an_instance_of_arrays_has_no_figures() -> None:
    problem = Problem.from_arrays([[1.0]])
    with pytest.raises(UsageError, match="of no platform"):
        sensitivities(hetsim.plan(problem, "single"))


def asked_of(source: Path) -> tuple[Deployment, Workload]:
    batching = DynamicBatching(max_batch_size=4, max_queue_delay_us=50)
    served = Served(str(source), strategy="heft", batch_sizes=(1, 4), dynamic_batching=batching)
    stream = Stream("requests", str(source), Poisson(10_000.0))
    return Deployment((served,)), Workload((stream,), requests=100, seed=1)


def test_plans_that_are_kept_where_nothing_changed_are_themselves(source: Path) -> None:
    deployment, workload = asked_of(source)
    service = serve(deployment, workload, PLATFORM, machine_code=False)
    again_ = kept_on(service.resolved, PLATFORM)
    for was, now in zip(service.resolved, again_, strict=True):
        assert now.seconds == was.seconds
        for before, after in zip(was.plans[0][0], now.plans[0][0], strict=True):
            assert after.groups == before.groups
            assert after.problem.fingerprint == before.problem.fingerprint


def test_under_load_the_arrivals_are_the_same(source: Path) -> None:
    deployment, workload = asked_of(source)
    service = serve(deployment, workload, PLATFORM, machine_code=False)
    (found,) = served_sensitivities(service, deployment, PLATFORM, ModelOptions())
    assert found.figure == "p99 of requests"
    for one in found.changes[:3]:
        on = hetsim.what_if(PLATFORM, one.change)
        now = serve(deployment, workload, on, machine_code=False)
        (after,) = [each for each in now.streams[0].percentiles if each.percentile == 99.0]
        assert one.anew == after.estimate_s / found.value_s - 1
        assert not math.isnan(one.kept)


def test_a_saved_plan_is_kept_and_never_made_anew(source: Path, plan: Plan, tmp_path: Path) -> None:
    """Of the platform as it is: what a tenth more gives is what the plan itself gains by it."""
    plan.save(tmp_path / "plan.json")
    served = Served(str(source), instances=(Instances(plan=str(tmp_path / "plan.json")),))
    deployment = Deployment((served,))
    stream = Stream("requests", str(source), Poisson(1_000.0))
    workload = Workload((stream,), requests=60, seed=1)
    service = serve(deployment, workload, PLATFORM, machine_code=False)
    (found,) = served_sensitivities(service, deployment, PLATFORM, ModelOptions())
    assert len(found.changes) == len(levers(PLATFORM))
    assert all(math.isnan(one.anew) and one.most == one.kept for one in found.changes)
    (used,) = {f"device {name}.speed +10%" for name in plan.devices_used[:1]}
    (moved,) = [one for one in found.changes if one.change == used]
    assert moved.kept < -0.01


READ = hetsim.load_platform("rock-5b")
CPU = READ.devices["cpu"]
LINK = READ.links[0]


def platform(devices: list[str], links: list[Link]) -> Platform:
    return replace(READ, devices=dict.fromkeys(devices, CPU), links=tuple(links))


def link(name: str, latency_s: float = 0.0, of: str = "") -> Link:
    return replace(LINK, name=name, latency_s=latency_s, of=of)


def test_each_device_and_link_has_its_levers_up_to_six() -> None:
    few = platform(["a", "b.0", "b.1"], [link("l"), link("m", 1e-6)])
    assert levers(few) == (
        "device a.speed +10%", "device b.0.speed +10%", "device b.1.speed +10%",
        "link l.bandwidth +10%", "link m.bandwidth +10%", "link m.latency -10%",
    )  # fmt: skip
    assert levers(few, ["a", "b.1"])[0] == "device b.0.speed +10%"
    assert not any("device" in change for change in levers(few, ["a", "b.0", "b.1"]))
    for count in (EACH, EACH + 1):
        names = [f"g.{k}" for k in range(count)]
        found = levers(platform(names, []))
        expected = names if count == EACH else ["g"]
        assert found == tuple(f"device {name}.speed +10%" for name in expected)
        links = [link(f"l.{k}", of="kind") for k in range(count)]
        wide = [change for change in levers(platform(["a"], links)) if "bandwidth" in change]
        expected = [one.name for one in links] if count == EACH else ["kind"]
        assert wide == [f"link {name}.bandwidth +10%" for name in expected]


def test_what_is_told_goes_by_what_it_saves_and_all_is_told_of() -> None:
    model = hetsim.load_model("zoo:squeezenet")
    plan = hetsim.plan(Problem.of(model, READ), "hetero:npu,cpu")
    said: list[str] = []
    found = sensitivities(plan, tell=said.append)
    assert said == list(levers(READ))
    assert (found.figure, found.value_s) == ("latency", hetsim.simulate(plan).latency_s)
    places = [said.index(one.change) for one in found.changes]
    for (one, at), (other, then) in pairwise(zip(found.changes, places, strict=True)):
        gap = other.most - one.most
        assert gap > -1e-9
        if abs(gap) < 1e-12:
            assert at < then
    assert sensitivities(plan, objective="throughput").figure == "time a request"


def test_what_fits_no_longer_is_told_last_without_a_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(plan: Plan, problem: Problem) -> Plan:
        raise OutOfMemory("full")

    monkeypatch.setattr(sensitivity, "again", full)
    plan = hetsim.plan(Problem.of(hetsim.load_model("zoo:squeezenet"), READ), "single:cpu")
    found = sensitivities(plan)
    assert all(one.most == one.anew <= one.kept for one in found.changes)
    # A search goes on from the plan for latency alone.
    found = sensitivities(plan, objective="throughput")
    assert all(one.anew == one.kept for one in found.changes)
    assert {one.strategy for one in found.changes} == {"single:cpu"}
    with pytest.raises(UsageError, match="did you mean 'latency'"):
        sensitivities(plan, objective="latncy")  # type: ignore[arg-type]
