"""Threads, profiles and tolerances: kernels other than the plain ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hetsim
from hetsim.device import registry
from hetsim.device.device import Device, SimulatedDevice
from hetsim.device.kernels.onnx_runtime import KernelSettings
from hetsim.errors import UsageError
from hetsim.hardware.spec import Platform
from hetsim.problem.plan import Plan
from onnx_builders import make_model, op, save, value

CPU = hetsim.load_device("rockchip-rk3588-cpu")


def test_a_profile_has_the_time_of_every_kernel(tmp_path: Path) -> None:
    proto = make_model(
        [op("MatMul", "x x", "m", "product"), op("Relu", "m", "y", "rectifier")],
        [value("x", (64, 64))],
        [value("y", (64, 64))],
    )
    model = hetsim.load_model(save(proto, tmp_path))
    device = SimulatedDevice("cpu", CPU)
    with pytest.raises(UsageError, match=r"compile it with \{'PERF_COUNT': True\}"):
        device.compile(model, [0, 1]).profile()
    compiled = device.compile(model, [0, 1], {"PERF_COUNT": True})
    for _ in range(3):
        compiled.run({"x": np.ones((64, 64), np.float32)})
    times = compiled.profile()
    assert [(time.node, time.op_type, time.runs) for time in times] == [
        ("product", "MatMul", 3),
        ("rectifier", "Relu", 3),
    ]
    assert all(time.seconds >= 0 for time in times)
    assert sum(time.seconds for time in times) > 0
    with pytest.raises(UsageError, match="read the profile once"):
        compiled.profile()
    device.set_property("PERF_COUNT", True)
    assert device.compile(model, [0]).profile() == ()


def threaded(platform: Platform, threads: int) -> Platform:
    devices = {name: replace(spec, threads=threads) for name, spec in platform.devices.items()}
    return replace(platform, devices=devices)


def test_threads_are_those_of_the_description() -> None:
    device = SimulatedDevice("cpu", replace(CPU, threads=3))
    assert device.get_property("INFERENCE_NUM_THREADS") == 3
    with pytest.raises(UsageError, match="whole number from 1 to 256"):
        device.set_property("INFERENCE_NUM_THREADS", 0)


def test_several_threads_are_held_against_a_tolerance() -> None:
    model = hetsim.load_model("zoo:squeezenet")
    platform = threaded(hetsim.load_platform("laptop"), 4)
    run = hetsim.run(hetsim.plan(hetsim.Problem.of(model, platform)), executor="threads")
    assert run.tolerance == registry.THREADED
    assert run.mismatches == ()
    plain = hetsim.plan(hetsim.Problem.of(model, hetsim.load_platform("laptop")))
    assert hetsim.run(plain, executor="threads").tolerance == 0


class Approximate(Device):
    """Its sums are a little off."""

    tolerance = 1e-3
    exports = False
    factor = 1 + 1e-4

    def open(
        self,
        proto: bytes,
        weights_dir: str | None,
        outputs: Sequence[str],
        settings: KernelSettings | None = None,
    ) -> Any:
        made = super().open(proto, weights_dir, outputs, settings)
        factor = self.factor

        class Off:
            def run(self, inputs: Any) -> dict[str, Any]:
                found = made.run(inputs)
                return {name: value * np.float32(factor) for name, value in found.items()}

            def cancel(self) -> None:
                made.cancel()

        return Off()


class Wrong(Approximate):
    """Further off than it says."""

    factor = 1.1


@pytest.fixture
def off_plan(monkeypatch: pytest.MonkeyPatch) -> Any:
    def made(kind: type[Device]) -> Plan:
        monkeypatch.setattr(registry, "plugin_names", lambda group: ("off",))
        monkeypatch.setattr(registry, "load_plugin", lambda group, name: kind)
        platform = hetsim.load_platform("laptop")
        cpu = replace(platform.devices["cpu"], backend="off")
        platform = replace(platform, devices={**platform.devices, "cpu": cpu})
        model = hetsim.load_model("zoo:squeezenet")
        return hetsim.plan(hetsim.Problem.of(model, platform), "single:cpu")

    return made


def test_kernels_that_are_not_those_of_onnx_runtime(off_plan: Any) -> None:
    run = hetsim.run(off_plan(Approximate), executor="threads")
    assert (run.bitwise_equal, run.mismatches, run.tolerance) == (False, (), 1e-3)
    run = hetsim.run(off_plan(Wrong), executor="threads")
    assert run.bitwise_equal is False
    assert len(run.mismatches) == 1
