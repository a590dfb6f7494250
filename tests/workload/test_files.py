"""Workload and deployment files: what they say, and what is wrong with them, by line.

The first line of each file under ``broken/`` is the whole error that it must give.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import hetsim
from hetsim.errors import WorkloadError
from hetsim.hardware.files.yaml_source import read_yaml
from hetsim.workload.arrivals import KINDS, Burst, Closed, Constant, Gamma, Mmpp, Poisson, Replay
from hetsim.workload.autoscaling import Autoscaling
from hetsim.workload.deployment import (
    Deployment,
    DynamicBatching,
    Instances,
    QueuePolicy,
    Served,
)
from hetsim.workload.files.reader import (
    Sort,
    check_workload,
    deployment_yaml,
    load_deployment,
    load_workload,
    workload_schema,
)
from hetsim.workload.workload import Follows, Slo, Stream, Workload

BROKEN = Path(__file__).parent / "broken"
FILES = sorted(path.name for path in BROKEN.glob("*.yaml"))

WORKLOAD = """
seed: 7
duration_s: 600
requests: 1000
warm_up_s: 30
arrivals: {mmpp: {rates_per_s: [10, 100], sojourns_s: [5, 1]}}
streams:
  chat:
    model: zoo:bert_small
    share: 1
    slos: [p99=50.1ms, {share_on_time: 0.999, latency_ms: 80}, {percentile: 50, latency_ms: 20}]
    priority: 1
    dims: {batch: 1}
  code:
    model: models/m.onnx
    arrivals: {replay: {path: two.csv, speed_up: 2}}
    dims: {sequence: {column: ContextTokens, buckets: [128, 8192]}}
    slos: 99%<=1s
  a: {model: m.onnx, arrivals: {constant: {rate_per_s: 0}}}
  b: {model: m.onnx, arrivals: {poisson: {rate_per_s: 2.5}}}
  c: {model: m.onnx, arrivals: {gamma: {rate_per_s: 2, cv: 3}}}
  d: {model: m.onnx, arrivals: {burst: {rate_per_s: 2, size: 3, spacing: poisson}}}
  e: {model: m.onnx, arrivals: {closed: {concurrency: 4, think_time_s: 0.5, think: exponential}}}
  f: {model: m.onnx, arrivals: {closed: {concurrency: 4}}}
"""
DEPLOYMENT = """
models:
  - model: zoo:bert_small
    strategy: heft
    batch_sizes: [1, 8]
    batch_dim: batch
    instances:
      - {count: 2, devices: [npu]}
      - {devices: [cpu, gpu], strategy: chain-dp}
      - {plan: plans/p.json}
    routing: least_finish
    queue_policy: {max_queue_size: 64, default_timeout_us: 50000, timeout_action: delay}
    priority_levels: 3
    default_priority_level: 2
    dynamic_batching:
      max_batch_size: 8
      preferred_batch_size: [4, 8]
      max_queue_delay_us: 200
  - {model: m.onnx}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "two.csv").write_bytes((BROKEN / "two.csv").read_bytes())
    (tmp_path / "w.yaml").write_text(WORKLOAD)
    (tmp_path / "d.yaml").write_text(DEPLOYMENT)
    return tmp_path


def test_a_workload_says_what_comes_and_paths_start_from_its_folder(folder: Path) -> None:
    found = load_workload(folder / "w.yaml")
    model = str(folder / "m.onnx")
    assert found == Workload(
        streams=(
            Stream(
                "chat", "zoo:bert_small", share=1.0, priority=1, dims={"batch": 1},
                slos=(Slo(0.99, 0.0501), Slo(0.999, 0.08), Slo(0.5, 0.02)),
            ),
            Stream(
                "code", str(folder / "models/m.onnx"),
                Replay(str(folder / "two.csv"), 2.0, columns=("ContextTokens",)),
                dims={"sequence": Follows("ContextTokens", (128, 8192))}, slos=(Slo(0.99, 1.0),),
            ),
            Stream("a", model, Constant(0.0)),
            Stream("b", model, Poisson(2.5)),
            Stream("c", model, Gamma(2.0, 3.0)),
            Stream("d", model, Burst(2.0, 3, "poisson")),
            Stream("e", model, Closed(4, 0.5, "exponential")),
            Stream("f", model, Closed(4)),
        ),
        duration_s=600.0, requests=1000, warm_up_s=30.0, seed=7,
        arrivals=Mmpp((10.0, 100.0), (5.0, 1.0)),
    )  # fmt: skip
    assert {one.arrivals.kind for one in found.streams if one.arrivals} | {"mmpp"} == set(KINDS)


def test_a_deployment_says_who_serves(folder: Path) -> None:
    assert load_deployment(str(folder / "d.yaml")) == Deployment(
        (
            Served(
                "zoo:bert_small", "heft", (1, 8), "batch",
                instances=(
                    Instances(2, ("npu",)),
                    Instances(1, ("cpu", "gpu"), "chain-dp"),
                    Instances(1, plan=str(folder / "plans/p.json")),
                ),
                routing="least_finish",
                queue_policy=QueuePolicy(64, 50_000, "delay"),
                priority_levels=3, default_priority_level=2,
                dynamic_batching=DynamicBatching(8, (4, 8), 200),
            ),
            Served(str(folder / "m.onnx")),
        )
    )  # fmt: skip


def sort_of(name: str) -> Sort:
    return "workload" if name.startswith("workload") else "deployment"


def refused(name: str) -> WorkloadError:
    load: Any = load_workload if sort_of(name) == "workload" else load_deployment
    with pytest.raises(WorkloadError) as caught:
        load(name)
    return caught.value


@pytest.mark.parametrize("name", FILES)
def test_error_is_the_one_written_on_top_with_its_line_and_the_first_of_a_check(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(BROKEN)
    expected = Path(name).read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
    error = refused(name)
    assert str(error) == expected
    assert error.exit_code == 3
    assert error.where is not None
    file, line = error.where.rsplit(":", 1)
    assert 1 <= int(line) <= max(1, len(Path(file).read_text(encoding="utf-8").splitlines()))
    checked = check_workload(name)
    assert checked.found is None
    assert checked.sort in (sort_of(name), None)
    assert (checked.errors[0].what, checked.errors[0].where) == (error.what, error.where)
    assert ("more on line" in str(error)) <= (len(checked.errors) > 1)


def test_a_file_of_something_else_is_told_what_it_may_be(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("host: cpu\n")
    (error,) = check_workload(str(path)).errors
    assert "describes neither a workload nor a deployment; a workload has 'streams'" in str(error)
    (error,) = check_workload(str(tmp_path / "none.yaml")).errors
    assert "none.yaml: no such file" in str(error)


@cache
def check(sort: Sort) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(workload_schema(sort))


def test_the_schema_accepts_what_is_read() -> None:
    both = jsonschema.Draft202012Validator(workload_schema())
    for sort, text in (("workload", WORKLOAD), ("deployment", DEPLOYMENT)):
        check(sort).validate(yaml.safe_load(text))
        both.validate(yaml.safe_load(text))


UNSAYABLE = {
    "deployment_batch_sizes_too_small.yaml", "deployment_plan_and_strategy.yaml",
    "deployment_preferred_above_maximum.yaml", "deployment_scaled_below_the_least.yaml",
    "deployment_scaled_beyond_instances.yaml", "deployment_served_twice.yaml",
    "deployment_without_levels.yaml", "workload_bucket_too_small.yaml",
    "workload_buckets_descend.yaml", "workload_closed_shared.yaml",
    "workload_dims_without_trace.yaml", "workload_mmpp_of_two_lengths.yaml",
    "workload_no_end.yaml", "workload_percentile_100.yaml", "workload_rate_nan.yaml",
    "workload_share_of_nothing.yaml", "workload_shares_beyond_one.yaml",
    "workload_slo_without_unit.yaml", "workload_trace_empty.yaml", "workload_trace_missing.yaml",
    "workload_trace_unknown_column.yaml", "workload_trace_unsorted.yaml",
    "workload_warm_up_too_long.yaml",
}  # fmt: skip
"""What relates two values, is told in short, or is in a trace; the loader says these."""


@pytest.mark.parametrize("name", FILES)
def test_the_schema_refuses_what_a_schema_can(name: str) -> None:
    try:
        data = read_yaml(BROKEN / name).data
    except Exception:
        return
    assert check(sort_of(name)).is_valid(data) == (name in UNSAYABLE)


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
