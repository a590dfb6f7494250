"""The roofline against closed forms, and fusion against its definition."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetsim.cost.model import Kernel
from hetsim.cost.prices import fused_chains
from hetsim.cost.registry import cost_model
from hetsim.cost.roofline import Roofline
from hetsim.device.device import SimulatedDevice
from hetsim.errors import UsageError
from hetsim.graph.graph import Graph, Node, Tensor
from hetsim.graph.work import Work
from hetsim.hardware.spec import DeviceSpec, SupportRule

DEVICE = DeviceSpec(
    name="test",
    kind="npu",
    full_name="Test device",
    flops_per_s={"float32": 1e9, "float16": 4e9},
    bytes_per_s=1e8,
    memory_bytes=1 << 30,
    launch_s=1e-5,
    dispatch_s=1e-4,
    streams=1,
    idle_w=1.0,
    busy_w=2.0,
    efficiency={"conv": 0.5, "default": 0.25},
    memory_efficiency=0.5,
)


def work(flops: int, moved: int, op_class: str = "conv", dtype: str = "float32") -> Work:
    return Work(flops, moved, 0, 0, op_class, dtype, True)


def test_the_larger_of_both_roofs_plus_one_launch() -> None:
    bound_by_compute = Roofline().estimate(DEVICE, Kernel((work(10**6, 100),)))
    assert bound_by_compute.compute_s == 10**6 / (1e9 * 0.5)
    assert bound_by_compute.seconds == bound_by_compute.compute_s + 1e-5
    bound_by_memory = Roofline().estimate(DEVICE, Kernel((work(10, 10**6, "pooling"),)))
    assert bound_by_memory.memory_s == 10**6 / (1e8 * 0.5)
    assert bound_by_memory.seconds == bound_by_memory.memory_s + 1e-5
    assert bound_by_memory.provenance == "roofline"


def test_borders_are_free() -> None:
    assert Roofline().estimate(DEVICE, Kernel((work(0, 0),))).seconds == 0.0


def test_execution_dtype_changes_rate_and_bytes() -> None:
    half = replace(DEVICE, execution_dtype={"float32": "float16"})
    estimate = Roofline().estimate(half, Kernel((work(10**6, 1000),)))
    assert estimate.compute_s == 10**6 / (4e9 * 0.5)
    assert estimate.memory_s == 500 / (1e8 * 0.5)


def test_integers_keep_their_width_where_floats_are_executed_in_another() -> None:
    """Of 1,000 bytes, read, written and of weights, 200 are integers: 800 / 2 + 200 move."""
    half = replace(DEVICE, execution_dtype={"float32": "float16"})
    gather = Work(0, 500, 300, 200, "movement", "float32", True, integer_bytes=200)
    assert Roofline().estimate(half, Kernel((gather,))).memory_s == 600 / (1e8 * 0.5)
    assert Roofline().estimate(DEVICE, Kernel((gather,))).memory_s == 1000 / (1e8 * 0.5)


def test_a_missing_peak_is_named() -> None:
    estimate = Roofline().estimate(DEVICE, Kernel((work(1000, 8, "elementwise", "int64"),)))
    assert estimate.compute_s == 1000 / (1e9 * 0.25)
    assert estimate.provenance == "roofline; no int64 peak, taken as float32"


def test_fused_members_add_up_and_are_launched_once() -> None:
    members = (work(10**3, 5000), work(10, 2000, "elementwise"))
    estimate = Roofline().estimate(DEVICE, Kernel(members))
    assert estimate.memory_s == 7000 / (1e8 * 0.5)
    assert estimate.launch_s == 1e-5


def test_unknown_cost_model() -> None:
    with pytest.raises(UsageError, match="did you mean 'roofline'"):
        cost_model("roofine")


def chain_graph(*ops: str, extra_reader: int | None = None) -> Graph:
    """x -> op -> op ...; `extra_reader` adds a Relu beside the reader of that node's output."""
    nodes = [
        Node(i, f"n{i}", op, "", (f"t{i}",), (f"t{i + 1}",), origins=(f"n{i}",))
        for i, op in enumerate(ops)
    ]
    outputs = [f"t{len(ops)}"]
    if extra_reader is not None:
        at = len(ops)
        nodes.append(
            Node(at, "extra", "Relu", "", (f"t{extra_reader + 1}",), ("e",), origins=("extra",))
        )
        outputs.append("e")
    names = {name for node in nodes for name in (*node.inputs, *node.outputs)}
    return Graph(
        "g",
        tuple(nodes),
        {name: Tensor(name, "float32", (4,)) for name in sorted(names)},
        ("t0",),
        tuple(outputs),
        frozenset(),
        {"": 20},
    )


FUSING = replace(DEVICE, fusions=((("Conv",), ("Relu", "Clip")), (("Conv",), ("Add",), ("Relu",))))


def test_chains_match_longest_first() -> None:
    graph = chain_graph("Conv", "Add", "Relu", "Conv", "Clip", "Conv")
    assert fused_chains(graph, FUSING, [True] * 6) == ((0, 1, 2), (3, 4))


def test_a_value_read_twice_or_given_out_is_not_hidden() -> None:
    assert fused_chains(chain_graph("Conv", "Relu", extra_reader=0), FUSING, [True] * 3) == ()
    graph = chain_graph("Conv", "Relu")
    assert fused_chains(replace(graph, outputs=("t1", "t2")), FUSING, [True] * 2) == ()


def test_an_unsupported_member_is_not_fused() -> None:
    assert fused_chains(chain_graph("Conv", "Relu"), FUSING, [True, False]) == ()


def test_query_gives_a_reason_for_every_refusal() -> None:
    graph = chain_graph("Conv", "Erf")
    rules = {
        "op Erf": SupportRule(ops=frozenset({"Conv"})),
        "op Erf ": SupportRule(except_ops=frozenset({"Erf"})),
    }
    for reason, rule in rules.items():
        support = SimulatedDevice("npu", replace(DEVICE, support=rule)).query_model(graph)
        assert support.supported == (True, False)
        assert support.reasons == {1: reason.strip()}
    halves = SupportRule(dtypes=frozenset({"float16"}))
    support = SimulatedDevice("npu", replace(DEVICE, support=halves)).query_model(graph)
    assert support.reasons == {0: "float32 tensor 't0'", 1: "float32 tensor 't1'"}
    tensors = {**graph.tensors, "t2": Tensor("t2", "float32", ("batch",))}
    static = SupportRule(static_shapes_only=True)
    device = SimulatedDevice("npu", replace(DEVICE, support=static))
    support = device.query_model(replace(graph, tensors=tensors))
    assert support.reasons == {1: "dynamic shape of tensor 't2'"}


def test_properties() -> None:
    device = SimulatedDevice("npu.0", DEVICE)
    assert device.get_property("FULL_DEVICE_NAME") == "Test device"
    supported = device.get_property("SUPPORTED_PROPERTIES")
    assert isinstance(supported, tuple)
    for key in supported:
        assert device.get_property(key) is not None
    with pytest.raises(UsageError, match="did you mean 'FULL_DEVICE_NAME'"):
        device.get_property("FULL_DEVICE_NAM")
