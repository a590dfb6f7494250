"""What a deployment is resolved to: plans for each batch size, on devices that hold them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import hetsim
from deployments import deployed, model_at, poisson
from hetsim.errors import OutOfMemory, UsageError, WorkloadError
from hetsim.simulation.service import resolution as batch_dim
from hetsim.simulation.service.resolution import PlanCache, resolve
from hetsim.simulation.service.serving import serve
from hetsim.simulation.serving.setup import Outcomes
from hetsim.workload.arrivals import Poisson
from hetsim.workload.deployment import DynamicBatching, Instances, Served
from onnx_builders import make_model, op, value


def test_a_batch_never_takes_less_than_one(open_: str, platform: hetsim.Platform) -> None:
    deployment = deployed(open_, batch_sizes=(1, 2, 8, 64))
    [found] = resolve(deployment, poisson(open_, 1, 1), platform)
    took_s = found.seconds[0][0]
    assert len(took_s) == 4
    assert min(took_s) == took_s[0]
    shapes = [row.problem.model.dims for row in found.plans[0][0]]  # type: ignore[union-attr]
    assert shapes == [{"batch": size} for size in (1, 2, 8, 64)]


def test_a_model_of_one_request_takes_several(
    open_: str, fixed: str, platform: hetsim.Platform
) -> None:
    sizes = (1, 2, 8, 64)
    found = [
        resolve(deployed(model, batch_sizes=sizes), poisson(model, 1, 1), platform)[0]
        for model in (fixed, open_)
    ]
    assert found[0].seconds == found[1].seconds
    shapes = [row.problem.model.dims for row in found[0].plans[0][0]]  # type: ignore[union-attr]
    assert shapes == [{}, {"x[0]": 2}, {"x[0]": 8}, {"x[0]": 64}]


def test_a_batch_dimension_may_be_one_in_the_file(
    fixed: str, platform: hetsim.Platform, tmp_path: Path
) -> None:
    named = deployed(fixed, batch_sizes=(1, 4), batch_dim="x[0]")
    alike = deployed(fixed, batch_sizes=(1, 4))
    [found], [same] = (resolve(one, poisson(fixed, 1, 1), platform) for one in (named, alike))
    assert found.seconds == same.seconds
    narrow = model_at(tmp_path, 4, width=1)
    with pytest.raises(WorkloadError, match="cannot run batches of 1, 4"):
        resolve(
            deployed(narrow, batch_sizes=(1, 4), batch_dim="x[1]"), poisson(narrow, 1, 1), platform
        )


def test_a_model_of_several_requests_takes_no_others(
    platform: hetsim.Platform, tmp_path: Path
) -> None:
    two = model_at(tmp_path, 2)
    with pytest.raises(
        WorkloadError,
        match=r"cannot run batches of 1, 2, 3, 4: .* of input 'x' is 2 in the file; export",
    ):
        serve(deployed(two, dynamic_batching=DynamicBatching(4)), poisson(two, 1, 1), platform)


def test_batch_dims_are_checked(open_: str, platform: hetsim.Platform) -> None:
    batching = DynamicBatching(4)
    with pytest.raises(WorkloadError, match="no input has a dimension 'bach'"):
        serve(deployed(open_, batch_dim="bach"), poisson(open_, 1, 1), platform)
    stream = hetsim.Stream("all", open_, Poisson(1), dims={"batch": 2})
    bound = hetsim.Workload((stream,), requests=1)
    with pytest.raises(WorkloadError, match="a stream binds 'batch' to 2"):
        serve(deployed(open_, dynamic_batching=batching), bound, platform)
    assert serve(deployed(open_), bound, platform).requests == 1


def test_a_saved_plan_serves(open_: str, platform: hetsim.Platform, tmp_path: Path) -> None:
    problem = hetsim.Problem.of(hetsim.load_model(open_, dims={"batch": 1}), platform)
    path = tmp_path / "plan.json"
    hetsim.plan(problem, "single:npu").save(path)
    entry = Instances(plan=str(path))
    batching = DynamicBatching(2)
    deployment = deployed(open_, instances=(entry,), dynamic_batching=batching)
    [found] = resolve(deployment, poisson(open_, 1, 1), platform)
    assert [plan.devices_used for plan in found.plans[0][0]] == [("npu",)] * 2
    other = deployed(model_at(tmp_path, "batch", 64), instances=(entry,))
    with pytest.raises(WorkloadError, match="the plan belongs to another model"):
        resolve(other, poisson(other.models[0].model, 1, 1), platform)


def test_replicas_of_a_plan_are_instances(
    fixed: str, platform: hetsim.Platform, tmp_path: Path, seen: list[Outcomes]
) -> None:
    deployment = deployed(fixed, strategy="multi", instances=(Instances(2),))
    [found] = resolve(deployment, poisson(fixed, 1, 1), platform)
    used = [rows[0][0].devices_used for rows in found.plans]
    assert sorted(used) == [("cpu",), ("npu",)]
    problem = hetsim.Problem.of(hetsim.load_model(fixed), platform)
    made = hetsim.plan(problem, "multi")
    took = [hetsim.simulate(one).latency_s for one in made.replicas]
    assert [rows[0][0] for rows in found.seconds] == took
    made.save(tmp_path / "multi.json")
    saved = deployed(fixed, instances=(Instances(2, plan=str(tmp_path / "multi.json")),))
    for one in (deployment, saved):
        said = serve(one, poisson(fixed, 2 / min(took), 2000), platform)
        assert len(said.models[0].instances) == 4
    first, second = seen
    assert (first.instance == second.instance).all()
    assert set(first.instance.tolist()) == {0, 1, 2, 3}


def test_devices_are_kept_to(fixed: str, platform: hetsim.Platform) -> None:
    entries = (Instances(1, ("cpu",), "auto"), Instances(1, ("npu",), "heft"))
    [found] = resolve(deployed(fixed, instances=entries), poisson(fixed, 1, 1), platform)
    assert [rows[0][0].devices_used for rows in found.plans] == [("cpu",), ("npu",)]
    with pytest.raises(UsageError, match="did you mean 'npu'"):
        resolve(
            deployed(fixed, instances=(Instances(1, ("npv",)),)), poisson(fixed, 1, 1), platform
        )


def test_a_model_that_no_device_takes_is_named(folder: Path, platform: hetsim.Platform) -> None:
    made = make_model([op("STFT", "x s - l", "y")], [value("x", (1, 64, 1))],
                      [value("y", None)], {"s": np.int64(8), "l": np.int64(16)})  # fmt: skip
    path = folder / "odd.onnx"
    onnx.save(made, path)
    deployment = deployed(str(path), strategy="heft", instances=(Instances(1, ("npu",)),))
    with pytest.raises(hetsim.Infeasible, match=r"'.*odd.onnx' in batches of 1"):
        serve(deployment, poisson(str(path), 1, 1), platform)


def test_what_does_not_fit_together_is_infeasible(folder: Path, platform: hetsim.Platform) -> None:
    models = [model_at(folder, 1, width) for width in (512, 768)]
    specs = dict(platform.devices)
    needs = 2 * 4 * 768**2 + 8 * 768
    specs["cpu"] = replace(specs["cpu"], memory_bytes=needs + 1_000_000)
    small = replace(platform, devices=specs)
    served = tuple(Served(model, "single:cpu") for model in models)
    workload = hetsim.Workload(
        tuple(hetsim.Stream(str(at), model, Poisson(1)) for at, model in enumerate(models)),
        requests=2,
    )
    for alone in range(2):
        only = hetsim.Workload((workload.streams[alone],), requests=2)
        serve(hetsim.Deployment((served[alone],)), only, small)
    with pytest.raises(OutOfMemory, match=r"need .* together, but it .*dense_1_512") as e:
        serve(hetsim.Deployment(served), workload, small)
    assert e.value.device == "cpu"
    assert e.value.needed_bytes > e.value.held_bytes == needs + 1_000_000


def test_what_nothing_asks_for_holds_its_memory(
    fixed: str, folder: Path, platform: hetsim.Platform
) -> None:
    idle = model_at(folder, 1, 768)
    served = (Served(fixed, "single:cpu"), Served(idle, "single:cpu"))
    said = serve(hetsim.Deployment(served), poisson(fixed, 10, 50), platform)
    assert [one.stability is None for one in said.models] == [False, True]
    alone = serve(deployed(fixed), poisson(fixed, 10, 50), platform)
    assert said.memory_bytes["cpu"] - alone.memory_bytes["cpu"] >= 2 * 4 * 768**2
    assert said.streams == alone.streams


def test_what_a_file_says_of_its_inputs_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    real = batch_dim.read_source
    monkeypatch.setattr(
        batch_dim, "read_source", lambda source: (read.append(source), real(source))[1]
    )
    model, made = "zoo:squeezenet", PlanCache()
    for strategy in ("single", "heft", "pipeline"):
        deployment = hetsim.Deployment((Served(model, strategy=strategy),))
        resolve(deployment, poisson(model, 1.0, 10), hetsim.load_platform("laptop"), made=made)
    assert read == [model]
