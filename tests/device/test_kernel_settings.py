"""Threads and tolerances: kernels other than the plain ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import hetsim
from hetsim.device import registry
from hetsim.device.device import Device
from hetsim.device.kernels.onnx_runtime import KernelSettings
from hetsim.hardware.spec import Platform
from hetsim.problem.plan import Plan

CPU = hetsim.load_device("rockchip-rk3588-cpu")


def threaded(platform: Platform, threads: int) -> Platform:
    devices = {name: replace(spec, threads=threads) for name, spec in platform.devices.items()}
    return replace(platform, devices=devices)


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
