"""What would move an answer is what the clock says of the changed platform, kept and anew."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

import hetsim
from cli.conftest import tiny_model
from hetsim.analysis.sensitivity import levers, sensitivities, served_sensitivities
from hetsim.errors import UsageError
from hetsim.placement.objective import measure
from hetsim.placement.planning import again
from hetsim.plans.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.problem.repriced import repriced
from hetsim.service.asked import Asked
from hetsim.service.keeping import kept_on
from hetsim.service.serving import serve
from hetsim.workloads.arrivals.poisson import Poisson
from hetsim.workloads.deployment import Deployment, DynamicBatching, Instances, Served
from hetsim.workloads.workload import Stream, Workload

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
    assert found.value_s == measure(plan, weighed)
    assert {one.change for one in found.changes} == set(levers(PLATFORM))
    for one in found.changes:
        problem = repriced(plan.problem, hetsim.what_if(PLATFORM, one.change))
        kept = measure(replace(plan, problem=problem), weighed)
        anew = measure(again(plan, problem), weighed)
        assert one.kept == kept / found.value_s - 1
        assert one.anew == anew / found.value_s - 1
        # A plan that is kept is never slower on hardware that is never slower.
        assert one.kept <= 1e-12
    most = [one.most for one in found.changes]
    assert all(first <= then + 1e-9 for first, then in itertools.pairwise(most))


def test_one_device_that_does_all_is_all_there_is(source: Path) -> None:
    problem = Problem.of(hetsim.load_model(source, dims={"batch": 2}), PLATFORM)
    found = sensitivities(hetsim.plan(problem, "single:cpu"))
    (moved,) = [one for one in found.changes if one.kept != 0]
    assert moved.change == "device cpu.speed +10%"
    assert moved.kept == pytest.approx(1 / 1.1 - 1, rel=1e-9)


def test_many_devices_are_changed_by_kind() -> None:
    server = hetsim.load_platform("gpu-server-8")
    found = levers(server)
    assert found[:2] == ("device cpu.speed +10%", "device gpu.speed +10%")
    kinds = {link.of for link in server.links}
    assert {change.split()[1].rpartition(".")[0] for change in found[2:]} == kinds
    for change in found:
        hetsim.what_if(server, change)
    assert levers(server, ["gpu.3"])[1].startswith("link ")
    assert levers(PLATFORM, ["npu"])[1] == "device gpu.speed +10%"


def test_an_instance_of_arrays_has_no_figures() -> None:
    problem = Problem.from_arrays([[1.0]])
    with pytest.raises(UsageError, match="of no platform"):
        sensitivities(hetsim.plan(problem, "single"))


def asked_of(source: Path) -> tuple[Deployment, Workload]:
    batching = DynamicBatching(max_batch_size=4, max_queue_delay_us=50)
    served = Served(str(source), strategy="heft", batch_sizes=(1, 4), dynamic_batching=batching)
    stream = Stream("requests", str(source), Poisson(10_000.0))
    return Deployment((served,)), Workload((stream,), requests=300, seed=1)


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
    (found,) = served_sensitivities(service, deployment, PLATFORM, Asked(), machine_code=False)
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
    (found,) = served_sensitivities(service, deployment, PLATFORM, Asked(), machine_code=False)
    assert len(found.changes) == len(levers(PLATFORM))
    assert all(math.isnan(one.anew) and one.most == one.kept for one in found.changes)
    (used,) = {f"device {name}.speed +10%" for name in plan.devices_used[:1]}
    (moved,) = [one for one in found.changes if one.change == used]
    assert moved.kept < -0.01
