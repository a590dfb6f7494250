"""Workloads for real on devices and by clocks that are exact: what is simulated, bit for bit."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import hetsim
from deployments import model_at
from exact_devices import exact
from hetsim.core.text import to_json
from hetsim.errors import ExecutionError, UsageError, WorkloadError
from hetsim.execution.serving.load_test import LoadTest
from hetsim.execution.serving.serve import load_test
from hetsim.execution.transports.ray_connection import RayConnection
from hetsim.execution.worker import DeviceWorker
from hetsim.reporting.tables.load_test import load_test_record
from hetsim.reporting.tables.service_record import service_record
from hetsim.reporting.tables.verdicts import verdict_of
from hetsim.workload.arrivals import Closed, Poisson
from hetsim.workload.deployment import DynamicBatching, Instances, QueuePolicy, Served
from onnx_builders import make_model, op, value
from platforms import CPU_AND_NPU
from sweeps import sweep

RATE = 20_000.0
"""Requests a second: about what the pair carries, so that some wait."""


def workload(model: str, requests: int = 60, **changes: object) -> hetsim.Workload:
    arrivals = changes.pop("arrivals", Poisson(RATE))
    stream = hetsim.Stream("all", model, arrivals, slos=(hetsim.Slo(0.5, 1e-3),))  # type: ignore[arg-type]
    return hetsim.Workload((stream,), requests=requests, **changes)  # type: ignore[arg-type]


def for_real(
    served: Served | hetsim.Deployment,
    asked: hetsim.Workload,
    platform: hetsim.Platform,
    **options: object,
) -> LoadTest:
    """For real, however late this machine is."""
    deployment = hetsim.Deployment((served,)) if isinstance(served, Served) else served
    return load_test(deployment, asked, platform, late_share=math.inf, **options)  # type: ignore[arg-type]


def same(found: LoadTest) -> None:
    """What was measured is what was simulated, and every answer is right."""
    simulated, measured = (
        json.loads(to_json(service_record(side))) for side in (found.simulated, found.measured)
    )
    for record in (simulated, measured):
        # Summed in another order: that of the calls.
        for use in (*record["devices"].values(), *record["links"].values()):
            del use["utilization_interval"]
            use |= {key: float(f"{value:.9g}") for key, value in use.items() if value is not None}
        for key in ("energy_j", "energy_per_1000_on_time_j"):
            record[key] = float(f"{record[key]:.9g}")
    for key, told in simulated.items():
        assert told == measured[key], key
    assert to_json(simulated) == to_json(measured)
    assert found.outputs is not None
    assert found.outputs.mismatches == ()
    answered = sum(stream.answered for stream in found.simulated.streams)
    assert found.outputs.answered == found.outputs.compared == answered > 0
    assert found.host.sent.max_s == found.host.answered.max_s == found.host.overrun_s == 0.0


CHANGES: list[dict[str, object]] = [
    {"queue_policy": QueuePolicy(2, 150, "reject")},
    {"dynamic_batching": DynamicBatching(4, (), 200), "batch_sizes": (1, 2, 4)},
    {"dynamic_batching": DynamicBatching(3, (2,), 0), "routing": "least_finish"},
    {"queue_policy": QueuePolicy(0, 100, "delay"), "routing": "round_robin"},
    {},
]


@sweep(
    "changes",
    quick=CHANGES[1:2],
    full=CHANGES,
    ids=["rejected", "batched", "preferred", "delayed", "alone"],
)
def test_exact_devices_are_the_simulation(
    changes: dict[str, object],
    model: str,
    cut: str,
    platform: hetsim.Platform,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = exact(monkeypatch)
    instances = (Instances(2, plan=cut), Instances(1, devices=("cpu",), strategy="single:cpu"))
    served = Served(model, instances=instances, **changes)  # type: ignore[arg-type]
    found = for_real(served, workload(model), platform, emulate=True)
    same(found)
    [stream] = found.measured.streams
    assert {device for device, _ in calls} == {"cpu", "npu"}
    assert found.emulated
    if "dynamic_batching" in changes:
        assert stream.batch > 1
    else:
        assert found.outputs is not None
        assert found.outputs.alone == found.outputs.compared
    assert stream.answered + stream.full + stream.expired == 60
    assert (stream.answered < 60) == (changes == {"queue_policy": QueuePolicy(2, 150, "reject")})


def test_clients_and_several_models(
    model: str,
    cut: str,
    platform: hetsim.Platform,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exact(monkeypatch)
    other = model_at(tmp_path, 1, width=16)
    slos = (hetsim.Slo(0.9, 1.0),)
    streams = (
        hetsim.Stream("clients", model, Closed(3, 1e-4, "exponential"), slos=slos),
        hetsim.Stream("rare", model, Poisson(RATE / 20), slos=slos, priority=1),
        hetsim.Stream("words", other, Poisson(RATE / 5), slos=slos),
    )
    levels = {"priority_levels": 2, "default_priority_level": 2}
    first = Served(model, instances=(Instances(plan=cut),), **levels)
    deployment = hetsim.Deployment((first, Served(other, "single:cpu")))
    found = for_real(deployment, hetsim.Workload(streams, requests=80), platform, emulate=True)
    same(found)
    assert [stream.requests > 0 for stream in found.measured.streams] == [True] * 3


def test_answers_that_are_not_right_are_told(
    model: str, cut: str, platform: hetsim.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact(monkeypatch)
    run = DeviceWorker.run

    def wrong(self: DeviceWorker, version: int, request: int, *given: object) -> tuple[object, ...]:
        timing, *sent = run(self, version, request, *given)  # type: ignore[arg-type]
        if request == 7:
            sent = [np.nextafter(one, np.float32(np.inf)) for one in sent]
        return (timing, *sent)

    monkeypatch.setattr(DeviceWorker, "run", wrong)
    served = Served(model, instances=(Instances(plan=cut),))
    found = for_real(served, workload(model, 20), platform, emulate=True)
    assert found.outputs is not None
    [told] = found.outputs.mismatches
    assert "batch 7 of 1" in told
    assert found.outputs.alone == 19


def test_on_threads_emulated(model: str, cut: str, platform: hetsim.Platform) -> None:
    served = Served(model, instances=(Instances(plan=cut),))
    how = {"emulate": True, "executor": "threads", "time_scale": 1000.0}
    found = for_real(served, workload(model, 10), platform, **how)
    [measured], [simulated] = found.measured.streams, found.simulated.streams
    assert measured.answered == 10
    assert found.outputs is not None
    assert found.outputs.alone == 10
    # Nothing is early, and what is late is told.
    assert measured.mean_s >= simulated.mean_s
    late_s = 10 * found.host.answered.mean_s + found.host.overrun_s
    assert found.host.calls == 20
    assert late_s > 0


def test_on_ray(
    ray_connection: RayConnection, model: str, cut: str, platform: hetsim.Platform
) -> None:
    batching = DynamicBatching(2, (), 1000)
    served = Served(model, instances=(Instances(plan=cut),), dynamic_batching=batching)
    found = for_real(served, workload(model, 40, arrivals=Poisson(1000.0)), platform)
    assert found.executor == "ray"
    assert found.measured.streams[0].answered == 40
    assert found.outputs is not None
    assert found.outputs.compared == 40
    assert found.outputs.mismatches == ()


INTERRUPTED = """
import signal, sys, threading
from hetsim.execution.worker import DeviceWorker
from hetsim.execution.serving.serve import load_test
from hetsim.workload.arrivals import Poisson
from hetsim.workload.deployment import Instances, Served
import hetsim

stage, model, cut, platform = sys.argv[1:]
real, first, told = getattr(DeviceWorker, stage), threading.Lock(), []

def interrupted(self, *given):
    done = real(self, *given)
    if first.acquire(blocking=False):
        told.append(stage)
        signal.raise_signal(signal.SIGINT)
    return done

setattr(DeviceWorker, stage, interrupted)
# Whoever started this may have had Ctrl-C ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
before = set(threading.enumerate())
stream = hetsim.Stream("all", model, Poisson(20000.0))
try:
    load_test(
        hetsim.Deployment((Served(model, instances=(Instances(plan=cut),)),)),
        hetsim.Workload((stream,), requests=60),
        hetsim.load_platform(platform),
        executor="threads",
    )
except KeyboardInterrupt:
    left = [thread.name for thread in set(threading.enumerate()) - before]
    print(f"interrupted as it does: {told}, left: {left}")
"""


@sweep("stage", quick=["run"], full=["load", "run"])
def test_ctrl_c_leaves_no_thread(stage: str, model: str, cut: str, tmp_path: Path) -> None:
    # In a process of its own, which Ctrl-C ends where it is not handled.
    path = tmp_path / "pair.yaml"
    path.write_text(CPU_AND_NPU)
    words = [sys.executable, "-c", INTERRUPTED, stage, model, cut, str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout == f"interrupted as it does: ['{stage}'], left: []\n", done.stderr


def test_kernels_slower_than_what_they_stand_for(
    model: str, cut: str, platform: hetsim.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = hetsim.Deployment((Served(model, instances=(Instances(plan=cut),)),))
    how = {"emulate": True, "executor": "threads", "time_scale": 1e-3}
    with pytest.raises(ExecutionError, match=r"is too slow: .* use --time-scale \d"):
        hetsim.serve(deployment, workload(model), platform, **how)


def test_what_cannot_be_batched_is_refused(
    platform: hetsim.Platform, tmp_path: Path, model: str
) -> None:
    made = make_model(
        [op("ReduceSum", "x", "y"), op("Reshape", "x flat", "z")],
        [value("x", ("batch", 4))],
        [value("y", (1, 1)), value("z", (None,))],
        {"flat": np.array([-1])},
    )
    path = tmp_path / "sum.onnx"
    onnx.save(made, path)
    batching = DynamicBatching(2, (), 100_000)
    # Of all requests together: each is right as a whole, and nobody's own.
    served = Served(str(path), "single:cpu", dynamic_batching=batching)
    found = for_real(served, workload(str(path), 8), platform, executor="threads")
    assert found.outputs is not None
    assert found.outputs.mismatches == ()
    assert found.outputs.alone == 0
    assert found.outputs.off is not None
    assert found.outputs.off > 0.1
    told = verdict_of(load_test_record(found))
    assert f"(others differ by up to {found.outputs.off:.2g} of the largest value)" in told
    by_turns = hetsim.Deployment((Served(model, "single:cpu", loading="on_demand"),))
    with pytest.raises(UsageError, match=r"loading on_demand .* omit loading"):
        hetsim.serve(by_turns, workload(model, 8), platform)
    served = Served(model, "single:cpu", batch_sizes=(2,), dynamic_batching=batching)
    with pytest.raises(WorkloadError, match=r"batch_sizes begin at 2: .*; add 1 to batch_sizes"):
        for_real(served, workload(model, 8), platform, executor="threads")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"time_scale": 2.0}, "time_scale needs emulate"),
        ({"time_scale": -1.0, "emulate": True}, "time_scale is -1"),
        ({"time_scale": math.nan, "emulate": True}, "time_scale is nan"),
        ({"executor": "spark"}, "there is no executor 'spark'"),
        ({"timeout_s": 0.0}, "timeout_s is 0 s"),
    ],
)
def test_options_that_make_no_sense(
    options: dict[str, object], says: str, model: str, platform: hetsim.Platform
) -> None:
    deployment = hetsim.Deployment((Served(model, "single:cpu"),))
    with pytest.raises(UsageError, match=says):
        hetsim.serve(deployment, workload(model), platform, **options)  # type: ignore[arg-type]
