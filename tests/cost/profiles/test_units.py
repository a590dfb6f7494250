"""Which kernels are a device's own, which only copy or convert, and what their words mean."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetsim.cost.profiles.formats import TimedKernel
from hetsim.cost.profiles.matching import (
    Claims,
    dense_class,
    elements_of,
    is_conversion,
    is_copy,
    is_opaque,
    own,
    parts_of,
)
from hetsim.graph.dag import Dag
from hetsim.graph.graph import Tensor
from kernel_graphs import chain


def kernel(name: str = "n", op: str = "", unit: str = "") -> TimedKernel:
    return TimedKernel(name, 1.0, 1.0, 1.0, op, unit)


CPUS = ("CPU", "CPUExecutionProvider", "XnnpackExecutionProvider", "DnnlExecutionProvider",
        "ACLExecutionProvider", "ArmNNExecutionProvider")  # fmt: skip


@pytest.mark.parametrize("cpu", CPUS)
def test_of_several_units_a_processor_has_those_of_processors_and_others_the_rest(cpu: str) -> None:
    kernels = (kernel(unit=cpu), kernel(unit="NPU"), kernel(unit=""), kernel(unit="GPU"))
    assert own(kernels, "cpu") == (True, False, True, False)
    for kind in ("npu", "gpu"):
        assert own(kernels, kind) == (False, True, True, True)
    # One unit, or none: whoever gives the profile says whose it is.
    for alone in (kernels[:1] * 2, kernels[2:3], kernels[1:3], kernels[:1] + kernels[2:3]):
        for kind in ("cpu", "npu"):
            assert own(alone, kind) == (True,) * len(alone)


@pytest.mark.parametrize(
    ("name", "op", "copies"),
    [("a", "MemcpyFromHost", True), ("a", "MemcpyToHost", True), ("a", "Memcpy", True),
     ("x [HostToDeviceCopy]", "", True), ("[DeviceToHostCopyAsync]", "", True),
     ("Memcpy", "Relu", False), ("HostToDeviceCopy", "", False), ("a", "Copy", False)],
)  # fmt: skip
def test_copies_between_host_and_device_are_told_by_op_or_name(
    name: str, op: str, copies: bool
) -> None:
    assert is_copy(kernel(name, op)) == copies


@pytest.mark.parametrize(
    ("op", "kind"),
    [("Conv", "conv"), ("FusedConv", "conv"), ("Conv2d", "conv"), ("Convolution", "conv"),
     ("DEPTHWISE_CONV_2D", "conv"), ("MatMul", "matmul"), ("FusedMatMul", "matmul"),
     ("Gemm", "matmul"), ("FULLY_CONNECTED", "matmul"), ("InnerProduct", "matmul"),
     ("Attention", "attention"), ("MultiHeadAttention", "attention"), ("fused_mha", "attention"),
     ("LSTM", "recurrent"), ("GRU", "recurrent"), ("RNN", "recurrent"), ("Relu", None),
     ("", None), ("Softmax", None)],
)  # fmt: skip
def test_the_words_of_runtimes_for_dense_work(op: str, kind: str | None) -> None:
    assert dense_class(kernel("Conv", op)) == kind


def test_conversions_go_by_op_type_and_compiled_parts_by_name_or_type() -> None:
    for op in ("ReorderInput", "ReorderOutput", "Cast", "Transpose", "Reshape", "Reformat"):
        assert is_conversion(kernel(op=op))
    assert not is_conversion(kernel("Cast", "Relu"))
    assert not is_conversion(kernel("Reshape", ""))
    for text in ("__myl_Fc_myl0_1", "{ForeignNode[a...b]}", "TRTKernel_graph_1", "DmlFusedNode_0_1",
                 "NNAPI_3", "CoreML_12", "EPContext_0", "subgraph_4"):  # fmt: skip
        assert is_opaque(kernel(text))
        assert is_opaque(kernel("n", text))
    for text in ("conv1", "my_subgraph_4", "aNNAPI_1", ""):
        assert not is_opaque(kernel(text, text))


def claims(count: int = 4) -> Claims:
    graph = chain(*["Relu"] * count)
    dag = Dag.from_edges(count, graph.edges())
    kernels = [kernel()] * 2
    return Claims(graph, dag, ["elementwise"] * count, kernels, [[], []],
                  [[] for _ in range(count)], set(), set())  # fmt: skip


def test_a_node_is_free_that_no_kernel_has_and_no_other_unit_ran() -> None:
    found = claims()
    found.claim(1, (2, 0, 2))
    found.claim(0, (2,))
    found.claim(0, (2,))
    assert (found.nodes, found.homes) == ([[2], [2, 0]], [[1], [], [1, 0], []])
    found.elsewhere.add(3)
    assert [found.free(v) for v in range(4)] == [False, True, False, False]


def test_sizes_are_known_where_shapes_are_numbers_and_no_run_told_them() -> None:
    graph = chain("Relu", shape=(2, 3, 5))
    assert elements_of(graph, 0) == 30
    for tensor, count in (
        (Tensor("v1", "float32", ()), 1), (Tensor("v1", "float32", (0, 7)), 0),
        (Tensor("v1", "float32", ("n", 3)), None), (Tensor("v1", "float32", None), None),
        (Tensor("v1", "float32", (2, 3), measured=True), None),
    ):  # fmt: skip
        other = replace(graph, tensors={**graph.tensors, "v1": tensor})
        assert elements_of(other, 0) == count


def test_parts_are_what_hangs_together_among_the_nodes_alone() -> None:
    dag = Dag.from_edges(6, [(0, 1), (1, 2), (0, 3), (3, 4)])
    assert sorted(parts_of(dag, (0, 2, 3, 4, 5))) == [(0, 3, 4), (2,), (5,)]
    assert sorted(parts_of(dag, (4, 2, 1))) == [(1, 2), (4,)]
    assert parts_of(dag, ()) == []
