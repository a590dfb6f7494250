"""Bytes and number types of single nodes, what has a rule, and what is an error."""

from __future__ import annotations

import onnx.defs
import pytest

from hetsim.errors import ModelError, UnboundDimension
from hetsim.graph.graph import Graph, Node, Tensor
from hetsim.graph.work import graph_work, node_work, ruled_ops, uncosted
from hetsim.graph.work.control import CONTROL_FLOW
from hetsim.graph.work.runtime_ops import UNPRICED
from one_node import MS, moved, one_node, work


def test_bytes_are_operands_once_with_constants_apart():
    x, w, out = (1, 4, 8, 8), (6, 4, 3, 3), (1, 6, 6, 6)
    assert moved("Conv", [x, w], [out], constants=(1,)) == (4 * 256, 4 * 216, 4 * 216)
    assert moved("Conv", [(x, "float16"), (w, "float16")], [(out, "float16")]) == (
        2 * 256 + 2 * 216,
        0,
        2 * 216,
    )
    square = Node(0, "n", "Mul", "", ("x", "x"), ("y",), origins=("n",))
    tensors = {name: Tensor(name, "float32", (10,)) for name in "xy"}
    graph = Graph("g", (square,), tensors, ("x",), ("y",), frozenset(), {"": 20})
    assert node_work(graph, square).read_bytes == 40


@pytest.mark.parametrize("op", ["Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity"])
def test_borders_move_nothing(op):
    done = work(op, [(4, 5), ((2,), "int64")], [(20,)], constants=(1,))
    assert (done.flops, done.read_bytes, done.weight_bytes, done.write_bytes) == (0, 0, 0, 0)
    assert done.rule


def test_gather_reads_rows_not_the_table():
    table, ids = (30522, 512), ((1, 64), "int64")
    rows = 64 * 512 * 4
    assert moved("Gather", [table, ids], [(1, 64, 512)], constants=(0,)) == (64 * 8, rows, rows)
    assert moved("Gather", [table, ids], [(1, 64, 512)]) == (64 * 8 + rows, 0, rows)
    # Rows that are named again come from a cache: never more than the whole table.
    assert moved("Gather", [(2, 512), ids], [(1, 64, 512)], constants=(0,))[1] == 2 * 512 * 4


def test_only_what_is_touched_is_read():
    assert moved("Slice", [(100, 4)], [(3, 4)]) == (48, 0, 48)
    assert moved("Shape", [(100, 4)], [((2,), "int64")]) == (0, 0, 16)
    assert moved("CastLike", [(10,), ((9,), "float16")], [((10,), "float16")]) == (40, 0, 20)
    assert moved("Transpose", [(10, 4)], [(4, 10)]) == (160, 0, 160)
    assert moved("ScatterND", [(10, 4), ((1, 1), "int64"), (1, 4)], [(10, 4)]) == (184, 0, 160)


def test_dropout_passes_through_unless_training():
    assert moved("Dropout", [(10,)], [(10,)]) == (0, 0, 0)
    assert moved("Dropout", [(10,)], [(10,), ((10,), "bool")]) == (0, 0, 0)
    training = [(10,), (), ((), "bool")]
    off = moved("Dropout", training, [(10,)], constants=(1, 2), values={2: (0,)})
    assert off == (0, 0, 0)
    on = work("Dropout", training, [(10,)], constants=(1, 2), values={2: (1,)})
    assert on.flops > 0
    assert on.read_bytes == on.write_bytes == 40


def test_embedding_norm_reads_three_rows_a_token():
    ids, row = ((1, 7), "int64"), (1, 7, 16)
    inputs = [ids, ids, (1000, 16), (512, 16), (2, 16), (16,), (16,)]
    done = work("EmbedLayerNormalization", inputs, [row], domain=MS, constants=(2, 3, 4, 5, 6))
    assert done.read_bytes == 2 * 7 * 8
    assert done.weight_bytes == 4 * (7 * 16 + 7 * 16 + 2 * 16 + 16 + 16)


# Types, classes, what is not known -----------------------------------------------------------


def test_dtype_is_that_of_the_arithmetic():
    def dtype(*args, **options):
        return work(*args, **options).dtype

    assert dtype("Add", [((3,), "float16")] * 2, [((3,), "float16")]) == "float16"
    assert dtype("Gather", [(9, 3), ((2,), "int64")], [(2, 3)]) == "float32"
    assert dtype("Gather", [((9, 3), "int32"), ((2,), "int64")], [((2, 3), "int32")]) == "int32"
    assert dtype("Where", [((3,), "bool"), ((3,), "int64"), ((3,), "int64")], [(3,)]) == "float32"
    assert dtype("Equal", [((3,), "int64")] * 2, [((3,), "bool")]) == "int64"
    assert dtype("DequantizeLinear", [((3,), "uint8"), ()], [(3,)]) == "float32"
    scalar = ()
    quantized = [
        ((1, 2, 4, 4), "uint8"),
        scalar,
        ((), "uint8"),
        ((3, 2, 1, 1), "int8"),
        scalar,
        ((), "int8"),
        scalar,
        ((), "uint8"),
    ]
    assert dtype("QLinearConv", quantized, [((1, 3, 4, 4), "uint8")]) == "int8"
    joined = [(), ((), "uint8"), ((3,), "uint8"), (), ((), "uint8")]
    assert dtype("QLinearConcat", joined, [((3,), "uint8")], domain=MS) == "int8"
    product = [((2, 3), "uint8"), ((3, 4), "uint8")]
    assert dtype("MatMulInteger", product, [((2, 4), "int32")]) == "int8"


def named(domain, op):
    return op if domain in ("", "ai.onnx") else f"{domain}:{op}"


def test_every_op_has_a_rule_or_a_reason():
    """All that the installed onnx and onnxruntime know, in all versions and domains."""
    from onnxruntime.capi import onnxruntime_pybind11_state as runtime

    standard = onnx.defs.get_all_schemas_with_history()
    known = {named(s.domain, s.name) for s in (*standard, *runtime.get_all_operator_schema())}
    kernels = {
        named(k.domain, k.op_name)
        for k in runtime.get_all_opkernel_def()
        if k.provider == "CPUExecutionProvider"
    }
    ruled = set(ruled_ops())
    assert not ruled & (set(UNPRICED) | CONTROL_FLOW)
    # FlexAttention is priced by the function that the standard gives for it.
    missing = known - ruled - set(UNPRICED) - CONTROL_FLOW - {"ai.onnx.preview:FlexAttention"}
    assert missing == set()
    # New in 1.32; older runtimes have none.
    new = {f"com.microsoft:{op}" for op in ("GatedDeltaNet", "VarlenCausalConvWithState")}
    assert kernels - ruled - CONTROL_FLOW - new == {
        "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit",
        *(f"com.microsoft:{op}" for op in (
            "BeamSearch", "GreedySearch", "Sampling", "Tokenizer", "WhisperBeamSearch",
        )),
    }  # fmt: skip


def test_op_without_a_rule_is_costed_by_bytes_and_listed():
    graph = one_node("Wobble", [(10,), (3,)], [(5,)], domain="my.ops", constants=(1,))
    (done,) = graph_work(graph)
    assert (done.flops, done.rule, done.op_class) == (0, False, "other")
    assert (done.read_bytes, done.weight_bytes, done.write_bytes) == (40, 12, 20)
    assert uncosted(graph) == ("my.ops:Wobble",)
    assert uncosted(one_node("Relu", [(1,)], [(1,)])) == ()
    loop = one_node("Loop", [((), "int64")], [(5,)])
    assert uncosted(loop) == ("Loop",)
    assert graph_work(loop)[0].op_class == "control_flow"


def test_captured_values_count_as_read():
    node = Node(0, "n", "If", "", ("c",), ("y",), captures=("x", "w"), origins=("n",))
    tensors = {n: Tensor(n, "float32", (10,)) for n in "xyw"} | {"c": Tensor("c", "bool", ())}
    graph = Graph("g", (node,), tensors, ("c", "x"), ("y",), frozenset("w"), {"": 20})
    done = node_work(graph, node)
    assert (done.read_bytes, done.weight_bytes, done.write_bytes) == (41, 40, 40)


def test_unbound_dims_are_an_error_that_names_the_flag():
    with pytest.raises(UnboundDimension, match="--dim batch=N") as caught:
        work("Relu", [(("batch", 3), "float32")], [(("batch", 3), "float32")])
    assert caught.value.exit_code == 3


def test_shapes_that_do_not_fit_are_an_error():
    with pytest.raises(ModelError, match="do not fit Gemm"):
        work("Gemm", [(3,), (3, 4)], [(1, 4)])
    with pytest.raises(ModelError, match="Conv has no input 1"):
        work("Conv", [(1, 2, 3, 3)], [(1, 2, 3, 3)])
