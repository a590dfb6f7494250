"""Devices: properties, configuration, ids, backends, and the rules that all of them hold."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import hetsim
from hetsim.device.device import Device, SimulatedDevice, Support
from hetsim.device.properties import PRECISION
from hetsim.errors import DeviceUnavailable, UsageError
from hetsim.graph.graph import Graph, Node, Tensor
from hetsim.graph.inputs.samples import random_inputs
from hetsim.graph.zoo import models as zoo
from hetsim.hardware.catalog import device_names
from hetsim.hardware.spec import DeviceSpec, SupportRule
from hetsim.testing import NonconformingDevice, check_device
from loaded_devices import loaded_device
from sweeps import sweep, swept

NPU = hetsim.load_device("rockchip-rk3588-npu")
CPU = hetsim.load_device("rockchip-rk3588-cpu")


def test_properties_know_whether_they_can_be_set() -> None:
    device = SimulatedDevice("npu", NPU)
    names = device.get_property("SUPPORTED_PROPERTIES")
    assert isinstance(names, tuple)
    assert {str(name) for name in names if name.mutable} == {  # type: ignore[attr-defined]
        "DEVICE_ID", "NUM_STREAMS", "PERFORMANCE_HINT", "INFERENCE_PRECISION_HINT",
        "INFERENCE_NUM_THREADS", "PERF_COUNT",
    }  # fmt: skip
    assert device.get_property("FULL_DEVICE_NAME") == NPU.full_name
    assert device.get_property("DEVICE_ARCHITECTURE") == "npu:rockchip-rk3588-npu"
    assert device.get_property("OPTIMIZATION_CAPABILITIES") == ("FP16", "INT8", "EXPORT_IMPORT")
    assert device.get_property(PRECISION) == "float16"
    assert SimulatedDevice("cpu", CPU).get_property(PRECISION) == "float32"
    device.set_property("PERFORMANCE_HINT", "THROUGHPUT")
    assert device.get_property("PERFORMANCE_HINT") == "THROUGHPUT"


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("PERFORMANCE_HNT", "LATENCY", "did you mean 'PERFORMANCE_HINT'"),
        ("PERFORMANCE_HINT", "LATENZY", "did you mean 'LATENCY'"),
        ("INFERENCE_PRECISION_HINT", "float15", "did you mean 'float16'"),
        ("NUM_STREAMS", 4, "whole number from 1 to 3"),
        ("NUM_STREAMS", True, "whole number"),
        ("DEVICE_ID", "7", "choose from: 0"),
        ("FULL_DEVICE_NAME", "x", "is read-only"),
    ],
)
def test_what_cannot_be_set(key: str, value: Any, says: str) -> None:
    device = SimulatedDevice("npu", NPU)
    with pytest.raises(UsageError, match=f"device 'npu': .*{says}"):
        device.set_property(key, value)
    model = hetsim.load_model("zoo:squeezenet")
    with pytest.raises(UsageError, match=says):
        device.compile(model, [0], {key: value})


def test_configuration_of_a_subgraph_goes_before_that_of_the_device() -> None:
    model = hetsim.load_model("zoo:squeezenet")
    inputs = random_inputs(model)
    device = SimulatedDevice("npu", NPU)
    nodes = range(4)
    half = device.compile(model, nodes).run(inputs)
    full = device.compile(model, nodes, {PRECISION: "float32"}).run(inputs)
    host = SimulatedDevice("cpu", CPU).compile(model, nodes).run(inputs)
    for name, array in host.items():
        assert np.array_equal(full[name], array)
        assert not np.array_equal(half[name], array)
        assert np.array_equal(half[name], half[name].astype(np.float16).astype(np.float32))
    device.set_property(PRECISION, "float32")
    again = device.compile(model, nodes).run(inputs)
    assert all(np.array_equal(again[name], full[name]) for name in full)


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


UNLIKE = (
    "google-edge-tpu", "intel-core-ultra-155h-npu", "nvidia-t4", "raspberry-pi-4-cpu",
    "rockchip-rk3588-npu", "snapdragon-8-gen-3-npu",
)  # fmt: skip
"""Devices of several kinds and sets of precisions."""


@sweep("name", quick=UNLIKE[::2], full=device_names())
def test_every_device_of_the_catalog_conforms(name: str) -> None:
    spec = loaded_device(name)
    check_device(lambda: SimulatedDevice("d", spec), ["zoo:squeezenet"])


FEW = ("squeezenet", "bert_small", "mobilenet_v2")


@pytest.fixture(scope="module", params=swept(quick=[FEW], full=[FEW, zoo.names()]), ids=len)
def models(request: pytest.FixtureRequest) -> list[hetsim.Model]:
    return [hetsim.load_model(f"zoo:{name}") for name in request.param]


@sweep("step", quick=[5], full=[5, 1])
def test_every_device_answers_for_every_model(models: list[hetsim.Model], step: int) -> None:
    for name in device_names()[::step]:
        check_device(SimulatedDevice, models, spec=loaded_device(name), run=False)


def test_free_memory_is_what_compiled_subgraphs_leave() -> None:
    model = hetsim.load_model("zoo:squeezenet")
    device = SimulatedDevice("cpu", CPU)
    total = device.get_property("DEVICE_TOTAL_MEM_SIZE")
    assert device.get_property("DEVICE_FREE_MEM_SIZE") == total == CPU.memory_bytes
    read = set(model.graph.nodes[0].reads) & model.graph.constants
    held = sum(model.graph.tensors[name].nbytes for name in read)
    compiled = device.compile(model, [0])
    assert device.get_property("DEVICE_FREE_MEM_SIZE") == CPU.memory_bytes - held
    assert held > 0
    del compiled
    gc.collect()
    assert device.get_property("DEVICE_FREE_MEM_SIZE") == CPU.memory_bytes


class Fusing(SimulatedDevice):
    """Its compiler turns MatMul and the Add after it into one operator."""

    def transform_graph(self, graph: Graph) -> Graph:
        nodes: list[Node] = []
        for node in graph.nodes:
            last = nodes[-1] if nodes else None
            if node.op_type == "Add" and last is not None and last.op_type == "MatMul":
                nodes[-1] = replace(
                    last,
                    op_type="Dense",
                    inputs=(*last.inputs, node.inputs[1]),
                    outputs=node.outputs,
                    origins=(*last.origins, *node.origins),
                )
            elif node.op_type != "Dropout":
                nodes.append(node)
        return replace(graph, nodes=tuple(replace(n, id=i) for i, n in enumerate(nodes)))


def fused_graph() -> Graph:
    rows = [("mm", "MatMul", "xw", "a"), ("add", "Add", "ab", "c"), ("drop", "Dropout", "c", "d"),
            ("relu", "Relu", "d", "e"), ("erf", "Erf", "e", "f")]  # fmt: skip
    nodes = tuple(
        Node(v, name, kind, "", tuple(reads), (writes,), origins=("file",))
        for v, (name, kind, reads, writes) in enumerate(rows)
    )
    tensors = {name: Tensor(name, "float32", (2, 2)) for name in "xwabcdef"}
    return Graph("g", nodes, tensors, ("x",), ("f",), frozenset({"w", "b"}), {"": 20})


@pytest.mark.parametrize("takes", ["Dense", "MatMul"])
def test_an_answer_about_fused_nodes_is_told_of_the_model_s_own(takes: str) -> None:
    rule = SupportRule(ops=frozenset({takes, "Relu"}))
    graph = fused_graph()
    device = Fusing("npu", replace(NPU, support=rule))
    support = device.query_model(graph)
    if takes == "Dense":
        # Neither is taken alone; what they become is.
        assert [match.nodes for match in support.composites] == [(0, 1)]
        assert support.taken == (True, True, False, True, False)
        assert support.reasons[1] == "op Add; taken only together with the nodes it is fused with"
    else:
        # MatMul would be taken alone, but not what it is fused into.
        assert support.composites == ()
        assert support.taken == (False, False, False, True, False)
        assert support.reasons[0] == "part of Dense on this device: op Dense"
    assert support.reasons[4] == "op Erf"
    assert graph.nodes[0].origins == ("file",)
    assert device.query_model(graph) == support


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


class Obliging(SimulatedDevice):
    """Lets everything be set."""

    def set_property(self, key: str, value: object) -> None:
        pass


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (Silent, "reasons are not given for the refused nodes alone"),
        (Moody, "a second device answers otherwise"),
        (Careless, "is wrong in float32"),
        (Obliging, "AVAILABLE_DEVICES can be set"),
    ],
)
def test_a_device_that_does_not_conform_is_told_why(kind: type[Device], says: str) -> None:
    with pytest.raises(NonconformingDevice, match=says):
        check_device(lambda: kind("npu", CPU), ["zoo:squeezenet"])
