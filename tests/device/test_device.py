"""Devices: what is there, and the rules that all of them hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import hetsim
from hetsim.device.device import Device, SimulatedDevice, Support
from hetsim.errors import DeviceUnavailable
from hetsim.graph.graph import Graph
from hetsim.graph.zoo import models as zoo
from hetsim.hardware.catalog import device_names
from hetsim.hardware.spec import DeviceSpec
from hetsim.testing import NonconformingDevice, check_device
from loaded_devices import loaded_device
from sweeps import sweep, swept

NPU = hetsim.load_device("rockchip-rk3588-npu")
CPU = hetsim.load_device("rockchip-rk3588-cpu")


class NeedsDriver(Device):
    """A device whose driver is never there."""

    def unavailable(self) -> tuple[str, str] | None:
        return "the driver is not loaded", "load it"


class PlannedOnly(NeedsDriver):
    """The same, for planning without the device."""

    simulate = True


def test_an_unavailable_device_says_what_to_do() -> None:
    with pytest.raises(DeviceUnavailable, match="device 'npu': the driver is not loaded; load it"):
        NeedsDriver("npu", NPU)
    assert PlannedOnly("npu", NPU).query_model(hetsim.load_model("zoo:squeezenet").graph)


def unlike() -> list[str]:
    """A device of each kind and set of precisions."""
    found: dict[object, str] = {}
    for name in device_names():
        spec = loaded_device(name)
        found.setdefault((spec.kind, spec.backend, *sorted(spec.flops_per_s)), name)
    return list(found.values())


@sweep("name", quick=unlike()[::3], full=device_names())
def test_every_device_of_the_catalog_conforms(name: str) -> None:
    spec = loaded_device(name)
    check_device(lambda: SimulatedDevice("d", spec), ["zoo:squeezenet"])


FEW = ("squeezenet", "bert_small", "mobilenet_v2")


@pytest.fixture(scope="module", params=swept(quick=[FEW], full=[FEW, zoo.names()]), ids=len)
def models(request: pytest.FixtureRequest) -> list[hetsim.Model]:
    return [hetsim.load_model(f"zoo:{name}") for name in request.param]


@pytest.mark.slow
@pytest.mark.parametrize("name", device_names())
def test_every_device_answers_for_every_model(name: str, models: list[hetsim.Model]) -> None:
    check_device(SimulatedDevice, models, spec=loaded_device(name), run=False)


class Silent(SimulatedDevice):
    """Refuses a node without a reason."""

    def query_model(self, graph: Graph) -> Support:
        support = super().query_model(graph)
        return replace(support, supported=(False, *support.supported[1:]))


class Moody(SimulatedDevice):
    """Answers otherwise the second time."""

    made = 0

    def __init__(self, name: str, spec: DeviceSpec) -> None:
        super().__init__(name, spec)
        Moody.made += 1
        self.turn = Moody.made

    def query_model(self, graph: Graph) -> Support:
        support = super().query_model(graph)
        reasons = dict(support.reasons)
        if self.turn % 2:
            reasons[0] = "not today"
        supported = tuple(v not in reasons for v in range(len(graph.nodes)))
        return replace(support, supported=supported, reasons=reasons)


class Careless(SimulatedDevice):
    """Computes something else."""

    def open(
        self, proto: bytes, weights_dir: str | None, outputs: Any, settings: Any = None
    ) -> Any:
        compiled = super().open(proto, weights_dir, outputs, settings)

        class Wrong:
            def run(self, inputs: Any) -> dict[str, Any]:
                return {name: value * 2 for name, value in compiled.run(inputs).items()}

        return Wrong()


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (Silent, "reasons are not given for the refused nodes alone"),
        (Moody, "a second device answers otherwise"),
        (Careless, "is wrong in float32"),
    ],
)
def test_a_device_that_does_not_conform_is_told_why(kind: type[Device], says: str) -> None:
    with pytest.raises(NonconformingDevice, match=says):
        check_device(lambda: kind("npu", CPU), ["zoo:squeezenet"])
