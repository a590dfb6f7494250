"""FLOP and bytes of single ops, against loops, equivalent nodes and definitions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import onnx.defs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.errors import ModelError, UnboundDimension
from hetsim.graph.graph import Graph, Node, Tensor
from hetsim.graph.work import graph_work, node_work, ruled_ops, uncosted
from hetsim.graph.work.control import CONTROL_FLOW
from hetsim.graph.work.runtime_ops import UNPRICED
from one_node import MS, flops, moved, one_node, small, work
from sweeps import examples

# Contractions against the loops of their definitions -----------------------------------------


def naive_conv_macs(channels, filters, size, kernel, group, stride, pad):
    """Count the innermost statement of a grouped convolution, batch 1."""
    count = 0
    positions = [range(0, s + 2 * pad - k + 1, stride) for s, k in zip(size, kernel, strict=True)]
    for _filter in range(filters):
        for _position in itertools.product(*positions):
            for _channel in range(channels // group):
                for _tap in itertools.product(*map(range, kernel)):
                    count += 1
    return count, tuple(len(p) for p in positions)


@examples(quick=45, full=100)
@given(
    st.data(),
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(1, 2),
    st.integers(0, 2),
    st.booleans(),
)
def test_conv_counts_every_mac(data, rank, group, stride, pad, bias):
    channels, filters = group * data.draw(small), group * data.draw(st.integers(1, 3))
    kernel = tuple(data.draw(st.integers(1, 2)) for _ in range(rank))
    size = tuple(data.draw(st.integers(k, 4)) for k in kernel)
    macs, spatial = naive_conv_macs(channels, filters, size, kernel, group, stride, pad)
    inputs = [(1, channels, *size), (filters, channels // group, *kernel)]
    out = (1, filters, *spatial)
    expected = 2 * macs + bias * math.prod(out)
    if bias:
        inputs.append((filters,))
    assert flops("Conv", inputs, [out], group=group) == expected
    if not bias:
        integers = [(inputs[0], "uint8"), (inputs[1], "int8")]
        done = work("ConvInteger", integers, [(out, "int32")], group=group)
        assert (done.flops, done.dtype, done.op_class) == (expected, "int8", "conv")


@given(st.data(), st.integers(1, 2), st.integers(1, 3))
def test_conv_transpose_spreads_every_input_element(data, group, stride):
    per_group, out_group, kernel, size = (data.draw(small) for _ in range(4))
    channels, filters = group * per_group, group * out_group
    count = 0
    for _channel, _position in itertools.product(range(channels), range(size)):
        for _filter, _tap in itertools.product(range(filters // group), range(kernel)):
            count += 1
    out = (1, filters, (size - 1) * stride + kernel)
    inputs = [(1, channels, size), (channels, filters // group, kernel)]
    assert flops("ConvTranspose", inputs, [out], group=group) == 2 * count
    with_bias = flops("ConvTranspose", [*inputs, (filters,)], [out], group=group)
    assert with_bias == 2 * count + math.prod(out)


@given(small, small, small, st.booleans(), st.booleans(), st.booleans())
def test_gemm_is_the_same_under_transposes(m, k, n, transposed_a, transposed_b, bias):
    count = sum(1 for _ in itertools.product(range(m), range(n), range(k)))
    a = (k, m) if transposed_a else (m, k)
    b = (n, k) if transposed_b else (k, n)
    inputs = [a, b, (n,)] if bias else [a, b]
    options = {"transA": int(transposed_a), "transB": int(transposed_b)}
    assert flops("Gemm", inputs, [(m, n)], **options) == 2 * count + bias * m * n
    assert flops("Gemm", inputs, [(m, n)], alpha=0.5, **options) == 2 * count + (bias + 1) * m * n
    fused = flops("FusedGemm", inputs, [(m, n)], domain=MS, activation="Relu", **options)
    assert fused == 2 * count + (bias + 1) * m * n


@examples(quick=50, full=100)
@given(st.data(), small, small, small)
def test_matmul_broadcasts_batches(data, m, k, n):
    batch = data.draw(st.lists(small, max_size=2))
    a_batch = [d if data.draw(st.booleans()) else 1 for d in batch]
    b_batch = batch[data.draw(st.integers(0, len(batch))) :]
    a_batch[: len(batch) - len(b_batch)] = batch[: len(batch) - len(b_batch)]
    out = np.matmul(np.ones((*a_batch, m, k)), np.ones((*b_batch, k, n))).shape
    count = math.prod(out) * k
    assert flops("MatMul", [(*a_batch, m, k), (*b_batch, k, n)], [out]) == 2 * count
    transposed = flops(
        "FusedMatMul", [(*a_batch, k, m), (*b_batch, k, n)], [out], domain=MS, transA=1
    )
    assert transposed == 2 * count


@examples(quick=65, full=100)
@given(small, small, small, small)
def test_einsum_equals_the_nodes_it_stands_for(b, i, j, k):
    def einsum(equation, shapes, out):
        return flops("Einsum", shapes, [out], equation=equation)

    product = flops("MatMul", [(b, i, j), (b, j, k)], [(b, i, k)])
    assert einsum("...ij,...jk->...ik", [(b, i, j), (b, j, k)], (b, i, k)) == product
    assert einsum("ij,jk", [(i, j), (j, k)], (i, k)) == product // b
    assert einsum("...ij,...jk", [(b, i, j), (1, j, k)], (b, i, k)) == product
    chained = 2 * i * j * k + 2 * i * k * b
    assert einsum("ij,jk,kl->il", [(i, j), (j, k), (k, b)], (i, b)) == chained
    assert einsum("ij,ij->ij", [(i, j), (i, j)], (i, j)) == flops("Mul", [(i, j)] * 2, [(i, j)])
    assert einsum("ij->ji", [(i, j)], (j, i)) == flops("Transpose", [(i, j)], [(j, i)])
    assert einsum("ij->i", [(i, j)], (i,)) == flops("ReduceSum", [(i, j)], [(i,)])


@examples(quick=65, full=100)
@given(small, small, small, small, small)
def test_attention_is_its_two_products_and_the_softmax_between(b, h, rows, columns, width):
    scores = (b, h, rows, columns)
    parts = (
        flops("MatMul", [(b, h, rows, width), (b, h, width, columns)], [scores])
        + flops("Mul", [scores, ()], [scores])
        + flops("Softmax", [scores], [scores])
        + flops("MatMul", [scores, (b, h, columns, width)], [(b, h, rows, width)])
    )
    masked = parts + flops("Add", [scores, scores], [scores])
    q4, kv4 = (b, h, rows, width), (b, h, columns, width)
    q3, kv3 = (b, rows, h * width), (b, columns, h * width)
    heads = {"q_num_heads": h, "kv_num_heads": h}
    assert flops("Attention", [q4, kv4, kv4], [q4]) == parts
    assert flops("Attention", [q3, kv3, kv3], [q3], **heads) == parts
    assert flops("Attention", [q3, kv3, kv3, (rows, columns)], [q3], **heads) == masked
    assert flops("MultiHeadAttention", [q3, kv3, kv3], [q3], domain=MS, num_heads=h) == parts
    per_head = flops("MultiHeadAttention", [q3, kv4, kv4], [q3], domain=MS, num_heads=h)
    assert per_head == parts
    past = (b, h, 5, width)
    later = flops("Attention", [q4, kv4, kv4, None, past, past], [q4])
    longer = (b, h, columns + 5, width)
    assert later == flops("Attention", [q4, longer, longer], [q4])


@given(small, small, small, small)
def test_fused_attention_adds_the_projection(b, rows, heads, width):
    depth, hidden = 3, heads * width
    x, out = (b, rows, depth), (b, rows, hidden)
    fused = flops(
        "Attention", [x, (depth, 3 * hidden), (3 * hidden,)], [out], domain=MS, num_heads=heads
    )
    projection = flops(
        "Gemm", [(b * rows, depth), (depth, 3 * hidden), (3 * hidden,)], [(b * rows, 3 * hidden)]
    )
    core = flops("MultiHeadAttention", [out] * 3, [out], domain=MS, num_heads=heads)
    assert fused == projection + core
    grouped = flops(
        "GroupQueryAttention", [out] * 3, [out], domain=MS, num_heads=heads, kv_num_heads=heads
    )
    assert grouped == core


@examples(quick=35, full=100)
@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@given(small, small, small, small, st.integers(1, 2))
def test_recurrent_products(op, gates, steps, batch, width, hidden, directions):
    inputs = [
        (steps, batch, width),
        (directions, gates * hidden, width),
        (directions, gates * hidden, hidden),
    ]
    out = (steps, directions, batch, hidden)
    count = 0
    for _ in itertools.product(range(directions), range(steps), range(batch)):
        count += gates * hidden * width + gates * hidden * hidden
    plain = flops(op, inputs, [out])
    pointwise, rest = divmod(plain - 2 * count, math.prod(out))
    assert rest == 0
    assert pointwise > gates
    biased = flops(op, [*inputs, (directions, 2 * gates * hidden)], [out])
    assert biased - plain == 2 * gates * math.prod(out)


@given(small, small, st.integers(1, 3), st.integers(1, 3))
def test_pooling_visits_the_window(channels, out, height, width):
    count = sum(1 for _ in itertools.product(range(channels * out * out), range(height * width)))
    shape = (1, channels, out, out)
    for op in ("MaxPool", "AveragePool"):
        assert flops(op, [(1, channels, 9, 9)], [shape], kernel_shape=(height, width)) == count
    assert flops("GlobalAveragePool", [shape], [(1, channels, 1, 1)]) == math.prod(shape)


def test_fused_nodes_cost_what_their_parts_cost():
    x, w, bias, out = (1, 4, 8, 8), (6, 4, 3, 3), (6,), (1, 6, 6, 6)
    conv = flops("Conv", [x, w, bias], [out])
    for activation in ("Relu", "Clip", "Sigmoid", "HardSigmoid", "LeakyRelu", "Tanh"):
        fused = flops("FusedConv", [x, w, bias], [out], domain=MS, activation=activation)
        assert fused == conv + flops(activation, [out], [out])
    with_sum = flops("FusedConv", [x, w, bias, out], [out], domain=MS, activation="Relu")
    assert with_sum == conv + flops("Add", [out] * 2, [out]) + flops("Relu", [out], [out])
    rows = (2, 5, 16)
    layer_norm = flops("LayerNormalization", [rows, (16,), (16,)], [rows])
    skip = flops("SkipLayerNormalization", [rows, rows, (16,), (16,)], [rows], domain=MS)
    assert skip == layer_norm + flops("Add", [rows] * 2, [rows])
    bias_gelu = flops("BiasGelu", [rows, (16,)], [rows], domain=MS)
    assert bias_gelu == flops("Gelu", [rows], [rows]) + flops("Add", [rows] * 2, [rows])
    tanh_gelu = flops("Gelu", [rows], [rows], approximate="tanh")
    assert flops("FastGelu", [rows], [rows], domain=MS) == tanh_gelu
    softmax = flops("Softmax", [rows], [rows])
    assert flops("BiasSoftmax", [rows, rows], [rows], domain=MS) > softmax
    unknown = work("FusedConv", [x, w], [out], domain=MS, activation="Wobble")
    assert (unknown.flops, unknown.rule, unknown.op_class) == (0, False, "conv")


def test_elementwise_counts_results_not_operands():
    assert flops("Add", [(4, 1), (1, 5)], [(4, 5)]) == 20
    assert flops("Sum", [(5,)] * 4, [(5,)]) == 3 * 5
    assert flops("Mean", [(5,)] * 4, [(5,)]) == 4 * 5
    assert flops("Sum", [(5,)], [(5,)]) == 0
    assert flops("Where", [((5,), "bool"), (5,), (5,)], [(5,)]) == 5
    assert flops("ReduceSum", [(4, 5)], [(4, 1)]) == 20
    assert flops("BatchNormalization", [(2, 3, 4)] + [(3,)] * 4, [(2, 3, 4)]) == 2 * 24


def test_resize_counts_neighbours_in_the_resized_dims():
    x, twice = (1, 3, 8, 8), (1, 3, 16, 16)
    assert flops("Resize", [x, None, (4,)], [twice], mode="nearest") == 0
    assert flops("Resize", [x, None, (4,)], [twice], mode="linear") == 2 * 4 * math.prod(twice)
    assert flops("Resize", [x, None, (4,)], [twice], mode="cubic") == 2 * 16 * math.prod(twice)
    assert flops("Resize", [x, None, (4,)], [(1, 3, 16, 8)], mode="linear") == 2 * 2 * 3 * 16 * 8


def test_log_softmax_has_one_logarithm_a_row():
    shape = (3, 4, 5)
    per_element = flops("LogSoftmax", [shape], [shape]) - 60 * 20
    by_middle = flops("LogSoftmax", [shape], [shape], axis=1) - 60 * 20
    flattened = flops("LogSoftmax", [shape], [shape], axis=1, opset=11) - 60 * 20
    assert (per_element, by_middle, flattened) == (16 * 12, 16 * 15, 16 * 3)


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
