"""Rules of what ONNX Runtime adds to ONNX, besides what stands with the op that it is like."""

from __future__ import annotations

import math
from collections.abc import Mapping

from hetsim.graph.work.elementwise import (
    EXP,
    GELU,
    GELU_TANH,
    SIGMOID,
    SOFTPLUS,
    SQRT,
    TANH,
)  # fmt: skip
from hetsim.graph.work.layers import RULES as LAYERS
from hetsim.graph.work.layers import STANDARDIZE
from hetsim.graph.work.movement import RULES as MOVEMENT
from hetsim.graph.work.numeric import DEQUANTIZE, fft_flops
from hetsim.graph.work.numeric import RULES as NUMERIC
from hetsim.graph.work.products import REQUANTIZE
from hetsim.graph.work.products import RULES as CONTRACTION
from hetsim.graph.work.rule import (
    NodeView,
    Rule,
    moved_bytes,
    no_flops,
    per_input,
    per_output,
)  # fmt: skip

MS = "com.microsoft"


def _distances(view: NodeView) -> int:
    """Every pair of rows: difference, square and sum an element, and a root."""
    root = SQRT if view.text("metric") == "euclidean" else 0
    return (3 * view.shape(0)[-1] + root) * view.out_elements()


def _crop(view: NodeView) -> int:
    """Bilinear samples of four neighbours, or nearest ones."""
    return (9 if view.text("mode", "bilinear") == "bilinear" else 0) * view.out_elements()


def _group_router(view: NodeView) -> int:
    """A score of each token and expert: a sigmoid, a bias, and a logarithm or a comparison."""
    scores = view.shape(0)[0] * view.elements(1)
    projected = 2 * view.shape(0)[-1] * scores if view.has(2) else 0
    return projected + (SIGMOID + EXP + 2) * scores


def _gathered_bytes(view: NodeView) -> tuple[int, int, int]:
    """Of a quantised table the rows that are named, and their scales."""
    table, scales = view.input(0), view.input(2)
    bits = view.integer("bits", 4)
    rows = min(table.nbytes, view.out_elements() * bits // 8)
    share = min(scales.nbytes, max(1, rows * scales.nbytes // max(1, table.nbytes)))
    return moved_bytes(view, {0: rows, 2: share})


def _packed_rows(view: NodeView) -> tuple[int, int, int]:
    """Of a packed table the rows that are named."""
    table = view.input(0)
    row = table.nbytes // max(1, table.static_shape[0])
    return moved_bytes(view, {0: min(table.nbytes, row * view.elements(1))})


def _embedding_bytes(view: NodeView) -> tuple[int, int, int]:
    """Of each quantised table only the rows that the ids name."""
    rows = view.output().elements
    touched = {p: min(rows, view.input(p).nbytes) for p in (2, 3, 4) if view.has(p)}
    return moved_bytes(view, touched)


def _blocked_weights(bias: int | None) -> Rule:
    """A product with weights that are stored in blocks, each scaled before it is used."""

    def depth_and_columns(view: NodeView) -> tuple[int, int]:
        return view.shape(0)[-1], view.output().static_shape[-1]

    def products(view: NodeView) -> int:
        depth, _ = depth_and_columns(view)
        added = bias is not None and view.has(bias)
        return (2 * depth + added) * view.out_elements()

    def flops(view: NodeView) -> int:
        depth, columns = depth_and_columns(view)
        return products(view) + 2 * depth * columns

    return Rule("matmul", flops, least=products)


def _experts(weights: tuple[int, int, int], bits: str) -> Rule:
    """`k` experts for every token: two or three products, and an activation between them."""

    def flops(view: NodeView) -> int:
        tokens = math.prod(view.shape(0)[:-1])
        packed = 8 // view.integer(bits, 8) if bits else 1
        macs = sum(math.prod(view.shape(p)[1:]) * packed for p in weights if view.has(p))
        inner = view.shape(weights[0])[1]
        return tokens * view.integer("k", 1) * (2 * macs + GELU * inner)

    def bytes_(view: NodeView) -> tuple[int, int, int]:
        tokens, k = math.prod(view.shape(0)[:-1]), view.integer("k", 1)
        experts = view.shape(weights[0])[0]
        # All tokens may go to the same experts, and no more are read than there are.
        touched = min(experts, k if tokens else 0)
        some = {
            p: view.input(p).nbytes * touched // experts
            for p in range(2, len(view.node.inputs))
            if view.has(p)
        }
        return moved_bytes(view, some)

    return Rule("matmul", flops, bytes_)


def _word_convolutions(view: NodeView) -> int:
    """A convolution along the characters of every word, its maximum, and a tanh."""
    words, letters = math.prod(view.shape(0)[:-1]), view.shape(0)[-1]
    filters = view.shape(1)
    window = filters[2] if len(filters) > 2 else 1
    places = max(0, letters - window + 1)
    return words * filters[0] * (places * (2 * math.prod(filters[1:]) + 1 + TANH) + 1)


def _attention_lstm(view: NodeView) -> int:
    """An LSTM whose input is joined by what it attends to in a memory at every step."""
    steps, batch, _ = view.shape(0)
    directions, rows, width = view.shape(1)
    hidden = rows // 4
    cell = 2 * rows * (width + hidden) + 2 * rows * view.has(3)
    cell += (3 * SIGMOID + 2 * TANH + 4) * hidden
    attended = 0
    if view.has(11) and view.has(9):
        memory, depth = view.shape(11)[1:]
        inner = view.shape(9)[-1]
        # Query and memory are summed, squashed and weighed; a softmax; the memory's mean.
        attended = 2 * hidden * inner + memory * (inner * (TANH + 3) + EXP + 4 + 2 * depth)
        attended += 2 * (depth + hidden) * view.shape(13)[-1] if view.has(13) else 0
    return directions * steps * batch * (cell + attended)


def _dynamic_lstm(view: NodeView) -> int:
    """As LSTM, its input and state quantised at every step, and its products scaled back."""
    steps, batch, width = view.shape(0)
    directions, hidden, rows = view.shape(2)
    quantised = (REQUANTIZE + 2) * (width + hidden)
    products = 2 * rows * (width + hidden) + 2 * DEQUANTIZE * rows
    biases = 2 * rows if view.has(3) else 0
    pointwise = (3 * SIGMOID + 2 * TANH + 4) * hidden + (6 * hidden if view.has(7) else 0)
    return directions * steps * batch * (quantised + products + biases + pointwise)


def _nothing(view: NodeView) -> int:
    return 0


def _at_full_length(position: int, flops: Rule) -> Rule:
    """Lengths that come as an input may be shorter than the tensors are."""
    return Rule(
        flops.op_class,
        flops.flops,
        flops.bytes,
        flops.integer_input,
        lambda view: _nothing(view) if view.has(position) else flops.flops(view),
    )


def _real_fft(view: NodeView) -> int:
    """One transform a row; the longer of input and output is the row of real numbers."""
    dims = view.integer("signal_ndim", 1)
    longer = max(view.shape(0), view.output().static_shape, key=math.prod)
    points = [size for size in longer if size != 2][-dims:] or [1]
    rows = math.prod(longer) // max(1, 2 * math.prod(points))
    return max(1, rows) * fft_flops(math.prod(points))


def _all_inputs(view: NodeView) -> int:
    return sum(view.elements(p) for p in range(len(view.node.inputs)) if view.has(p))


def _branches(extra: int) -> Rule:
    def flops(view: NodeView) -> int:
        return (2 * view.integer("num_branches", 1) + extra) * view.out_elements()

    return Rule("elementwise", flops)


_NCHWC = {
    "AveragePool": LAYERS["AveragePool"],
    "Conv": CONTRACTION[f"{MS}:FusedConv"],
    "GlobalAveragePool": LAYERS["GlobalAveragePool"],
    "GlobalMaxPool": LAYERS["GlobalMaxPool"],
    "MaxPool": LAYERS["MaxPool"],
    "ReorderInput": Rule("data_movement", no_flops),
    "ReorderOutput": Rule("data_movement", no_flops),
    "Upsample": MOVEMENT["Upsample"],
}
"""Channels in blocks: the counts of the ops that they stand for, padding to whole blocks too."""

_ALL = {**CONTRACTION, **LAYERS, **MOVEMENT, **NUMERIC}
_NHWC = (
    "AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "DepthToSpace",
    "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "GridSample", "InstanceNormalization",
    "LRN", "LpPool", "MaxPool", "MaxUnpool", "QLinearConv", "Resize", "SpaceToDepth",
)  # fmt: skip
"""Channels last: what counts does not depend on the order of the dims."""

_COPIES = (
    "BiasDropout", "BitmaskBiasDropout", "BitmaskDropout", "NGramRepeatBlock", "RemovePadding",
    "RestorePadding", "SampleOp", "UnfoldTensor",
)  # fmt: skip

_OPTIMISERS = {"Adagrad": 4, "Adam": 6, "Momentum": 3}
"""FLOP an element of what they put out: new weights, and what they keep beside these."""


def _optimiser(weight: int) -> Rule:
    def flops(view: NodeView) -> int:
        outputs = (p for p in range(len(view.node.outputs)) if view.has_output(p))
        return weight * sum(view.output(p).elements for p in outputs)

    return Rule("elementwise", flops)


RULES: Mapping[str, Rule] = {
    **{f"ai.onnx.preview.training:{op}": _optimiser(n) for op, n in _OPTIMISERS.items()},
    **{f"com.microsoft.nchwc:{op}": rule for op, rule in _NCHWC.items()},
    **{f"com.ms.internal.nhwc:{op}": _ALL[op] for op in _NHWC},
    "com.ms.internal.nhwc:QLinearConvTranspose": Rule(
        "conv",
        lambda view: (
            2 * view.elements() * math.prod(view.shape(3)[1:])
            + (REQUANTIZE + view.has(8)) * view.out_elements()
        ),
        integer_input=0,
    ),
    "com.ms.internal.nhwc:QLinearAveragePool": NUMERIC[f"{MS}:QLinearAveragePool"],
    "Affine": per_output("elementwise", 2),
    "Crop": MOVEMENT["Slice"],
    "DynamicSlice": MOVEMENT["Slice"],
    "GivenTensorFill": Rule("data_movement", no_flops),
    "ImageScaler": per_output("elementwise", 2),
    "MemcpyFromHost": Rule("data_movement", no_flops),
    "MemcpyToHost": Rule("data_movement", no_flops),
    "ParametricSoftplus": per_output("transcendental", SOFTPLUS + 2),
    "Scale": per_output("elementwise", 1),
    "ScaledTanh": per_output("transcendental", TANH + 2),
    **{f"{MS}:{op}": Rule("data_movement", no_flops) for op in _COPIES},
    f"{MS}:AttnLSTM": _at_full_length(4, Rule("recurrent", _attention_lstm)),
    f"{MS}:BifurcationDetector": per_input("other", 1),
    f"{MS}:BranchwiseRMSNorm": per_output("normalization", 4),
    f"{MS}:CDist": Rule("matmul", _distances),
    f"{MS}:ComplexMul": per_output("elementwise", 3),
    f"{MS}:ComplexMulConj": per_output("elementwise", 3),
    f"{MS}:CropAndResize": Rule("resize", _crop),
    f"{MS}:DequantizeBFP": per_output("quantize", DEQUANTIZE),
    f"{MS}:DequantizeWithOrder": per_output("quantize", DEQUANTIZE),
    f"{MS}:DynamicQuantizeLSTM": _at_full_length(
        4, Rule("recurrent", _dynamic_lstm, integer_input=1)
    ),
    f"{MS}:DynamicTimeWarping": per_input("other", 4),
    f"{MS}:EngramGate": per_output("normalization", STANDARDIZE + SIGMOID),
    f"{MS}:GatedAdd": per_output("elementwise", 2),
    f"{MS}:GatedRMSNorm": per_output("normalization", 5 + SIGMOID),
    f"{MS}:GatherBlockQuantized": Rule(
        "gather_scatter", lambda view: DEQUANTIZE * view.out_elements(), _gathered_bytes
    ),
    f"{MS}:GatherPacked": Rule(
        "gather_scatter", lambda view: DEQUANTIZE * view.out_elements(), _packed_rows
    ),
    f"{MS}:GemmFastGelu": Rule(
        "matmul",
        lambda view: (2 * view.shape(0)[-1] + view.has(2) + GELU_TANH) * view.out_elements(),
    ),
    f"{MS}:GemmFloat8": CONTRACTION["Gemm"],
    f"{MS}:GemmaRotaryEmbedding": Rule(
        "elementwise", lambda view: 3 * (view.elements(1) + view.elements(3))
    ),
    f"{MS}:HyperConnectionPostMix": _branches(2),
    f"{MS}:HyperConnectionPreMix": _branches(0),
    f"{MS}:Irfft": Rule("other", _real_fft),
    f"{MS}:IsAllFinite": Rule("reduction", _all_inputs),
    f"{MS}:LinearAttentionGate": per_output("transcendental", SOFTPLUS + EXP + 3),
    f"{MS}:MatMulBlockQuantizedFp4Weight": _blocked_weights(5),
    f"{MS}:MatMulBlockQuantizedFp8Weight": _blocked_weights(4),
    f"{MS}:MatMulBnb4": _blocked_weights(None),
    f"{MS}:MatMulFpQ4": _blocked_weights(None),
    f"{MS}:MoEGroupRouter": Rule("reduction", _group_router),
    f"{MS}:MatMulInteger16": Rule("matmul", CONTRACTION["MatMulInteger"].flops, integer_input=0),
    f"{MS}:MatMulNBitsMlp": Rule(
        "matmul",
        lambda view: (4 * view.shape(0)[-1] + SIGMOID + 2) * view.out_elements(),
    ),
    f"{MS}:MatMulNBitsQkv": Rule(
        "matmul",
        lambda view: sum(
            2 * view.shape(0)[-1] * view.output(p).elements for p in range(3) if view.has_output(p)
        ),
    ),
    f"{MS}:MaxpoolWithMask": LAYERS["MaxPool"],
    f"{MS}:MoE": _experts((2, 4, 6), ""),
    f"{MS}:MRotaryEmbedding": Rule("elementwise", lambda view: 3 * view.elements()),
    f"{MS}:MulInteger": per_output("elementwise", 3),
    f"{MS}:MurmurHash3": per_output("other", 10),
    f"{MS}:NGramHashMapping": per_output("other", 4),
    f"{MS}:QEmbedLayerNormalization": Rule(
        "normalization",
        lambda view: (2 + STANDARDIZE + 2 + 3 * DEQUANTIZE) * view.out_elements(),
        _embedding_bytes,
    ),
    f"{MS}:QLinearWhere": Rule(
        "elementwise",
        lambda view: (1 + DEQUANTIZE + REQUANTIZE) * view.out_elements(),
        integer_input=1,
    ),
    f"{MS}:QMoE": _experts((2, 5, 8), "expert_weight_bits"),
    f"{MS}:QOrderedGelu": per_output("transcendental", GELU + DEQUANTIZE + REQUANTIZE),
    f"{MS}:QOrderedLayerNormalization": per_output(
        "normalization", STANDARDIZE + 2 + DEQUANTIZE + REQUANTIZE
    ),
    f"{MS}:QOrderedMatMul": Rule(
        "matmul",
        lambda view: (2 * view.shape(0)[-1] + REQUANTIZE + view.has(5)) * view.out_elements(),
        integer_input=0,
    ),
    f"{MS}:QuantizeBFP": per_input("quantize", REQUANTIZE),
    f"{MS}:QuantizeWithOrder": per_output("quantize", REQUANTIZE),
    f"{MS}:ReduceSumInteger": per_input("reduction", 1),
    f"{MS}:RelativePositionBias": Rule("gather_scatter", no_flops, MOVEMENT["Slice"].bytes),
    f"{MS}:Rfft": Rule("other", _real_fft),
    f"{MS}:ScaledSiLU": per_output("transcendental", SIGMOID + 3),
    f"{MS}:SparseToDenseMatMul": Rule("matmul", CONTRACTION["MatMul"].flops, least=_nothing),
    f"{MS}:TorchEmbedding": MOVEMENT["Gather"],
    f"{MS}:Unique": LAYERS["Unique"],
    f"{MS}:VarlenNGramHashMapping": per_output("other", 4),
    f"{MS}:WordConvEmbedding": Rule("conv", _word_convolutions),
}
