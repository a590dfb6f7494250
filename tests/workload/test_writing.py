"""A deployment that is written and read again is the same."""

from __future__ import annotations

from pathlib import Path

import pytest

import hetsim
from hetsim.workload.arrivals import Poisson
from hetsim.workload.autoscaling import Autoscaling
from hetsim.workload.deployment import DynamicBatching, Instances, QueuePolicy, Served
from hetsim.workload.files.reader import deployment_yaml

DEPLOYMENTS = [
    hetsim.Deployment((Served("zoo:resnet18"),)),
    hetsim.Deployment(
        (
            Served(
                "zoo:resnet18",
                "heft",
                batch_sizes=(1, 4, 8),
                batch_dim="batch",
                instances=(
                    Instances(2, ("gpu.0", "cpu"), "single", max_in_flight=3),
                    Instances(plan="plans/p.json"),
                ),
                routing="least_finish",
                queue_policy=QueuePolicy(8, 50, "delay"),
                priority_levels=3,
                default_priority_level=2,
                dynamic_batching=DynamicBatching(8, (2, 4), 500),
            ),
            Served(
                "nets/n.onnx",
                instances=(Instances(4),),
                autoscaling=Autoscaling(2, 4, upscaling_factor=0.5, startup_s=20.0),
            ),
            Served("nets/m.onnx", "single", loading="on_demand", routing="round_robin"),
        )
    ),
]


@pytest.mark.parametrize("deployment", DEPLOYMENTS)
@pytest.mark.parametrize("folder", [".", "out/deep"])
def test_it_is_read_again(
    deployment: hetsim.Deployment, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(folder).mkdir(parents=True, exist_ok=True)
    file = Path(folder) / "d.yaml"
    file.write_text(deployment_yaml(deployment, folder, "Found by\nhetsim."))
    assert file.read_text().startswith("# Found by\n# hetsim.\nmodels:\n")
    read = hetsim.load_deployment(file)
    streams = tuple(hetsim.Stream(one.model, one.model, Poisson(1.0)) for one in deployment.models)
    read = read.named_as(hetsim.Workload(streams, requests=1))
    if folder == ".":
        assert read == deployment
    else:
        first = [entry.plan for one in read.models for entry in one.instances if entry.plan]
        assert all(Path(plan).resolve() == Path("plans/p.json").resolve() for plan in first)
        assert [one.model for one in read.models] == [one.model for one in deployment.models]
