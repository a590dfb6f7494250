"""Rules of ops that ONNX Runtime adds to ONNX, and reasons why other ops have none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from hetsim.graph.work import layers, movement, products
from hetsim.graph.work.attention import LSTM_POINTWISE
from hetsim.graph.work.elementwise import EXP, GELU, GELU_TANH, SIGMOID, SOFTPLUS, SQRT, TANH
from hetsim.graph.work.layers import DEQUANTIZE, STANDARDIZE, embedded_bytes, fft_flops
from hetsim.graph.work.products import REQUANTIZE
from hetsim.graph.work.rule import NodeView, Rule, moved_bytes, no_flops, per_input, per_output

MS = "com.microsoft"


def _distances(view: NodeView) -> int:
    """Return the FLOP of every pair of rows: difference, square and sum per element, and a root."""
    root = SQRT if view.text("metric") == "euclidean" else 0
    return (3 * view.shape(0)[-1] + root) * view.out_elements()


def _group_router(view: NodeView) -> int:
    """Return the FLOP of a score per token and expert: sigmoid, bias, logarithm or comparison."""
    scores = view.shape(0)[0] * view.elements(1)
    projected = 2 * view.shape(0)[-1] * scores if view.has(2) else 0
    return projected + (SIGMOID + EXP + 2) * scores


def _gathered_bytes(view: NodeView) -> tuple[int, int, int]:
    """Return the bytes of the named rows of a quantised table, and their scales."""
    table, scales = view.input(0), view.input(2)
    bits = view.integer("bits", 4)
    rows = min(table.nbytes, view.out_elements() * bits // 8)
    share = min(scales.nbytes, max(1, rows * scales.nbytes // max(1, table.nbytes)))
    return moved_bytes(view, {0: rows, 2: share})


def _packed_rows(view: NodeView) -> tuple[int, int, int]:
    """Return the bytes of the named rows of a packed table."""
    table = view.input(0)
    row = table.nbytes // max(1, table.static_shape[0])
    return moved_bytes(view, {0: min(table.nbytes, row * view.elements(1))})


def _blocked_weights(bias: int | None) -> Rule:
    """Return the rule of a product with weights in blocks, each scaled before use."""

    def products(view: NodeView) -> int:
        added = bias is not None and view.has(bias)
        return (2 * view.shape(0)[-1] + added) * view.out_elements()

    def flops(view: NodeView) -> int:
        return products(view) + 2 * view.shape(0)[-1] * view.output().static_shape[-1]

    return Rule("matmul", flops, least=products)


def _experts(weights: tuple[int, int, int], bits: str) -> Rule:
    """Return the rule of `k` experts per token: two or three products, and an activation."""

    def flops(view: NodeView) -> int:
        tokens = math.prod(view.shape(0)[:-1])
        packed = 8 // view.integer(bits, 8) if bits else 1
        macs = sum(math.prod(view.shape(p)[1:]) * packed for p in weights if view.has(p))
        inner = view.shape(weights[0])[1]
        return tokens * view.integer("k", 1) * (2 * macs + GELU * inner)

    def bytes_(view: NodeView) -> tuple[int, int, int]:
        tokens, k = math.prod(view.shape(0)[:-1]), view.integer("k", 1)
        experts = view.shape(weights[0])[0]
        # All tokens may use the same experts, and at most all experts are read.
        touched = min(experts, k if tokens else 0)
        some = {
            p: view.input(p).nbytes * touched // experts
            for p in range(2, len(view.node.inputs))
            if view.has(p)
        }
        return moved_bytes(view, some)

    return Rule("matmul", flops, bytes_)


def _word_convolutions(view: NodeView) -> int:
    """Return the FLOP of a convolution over the letters of each word, its maximum, and a tanh."""
    words, letters = math.prod(view.shape(0)[:-1]), view.shape(0)[-1]
    filters = view.shape(1)
    window = filters[2] if len(filters) > 2 else 1
    places = max(0, letters - window + 1)
    return words * filters[0] * (places * (2 * math.prod(filters[1:]) + 1 + TANH) + 1)


def _attention_lstm(view: NodeView) -> int:
    """Return the FLOP of an LSTM whose input includes attention to a memory at every step."""
    steps, batch, _ = view.shape(0)
    directions, rows, width = view.shape(1)
    hidden = rows // 4
    cell = 2 * rows * (width + hidden) + 2 * rows * view.has(3)
    cell += LSTM_POINTWISE * hidden
    attended = 0
    if view.has(11) and view.has(9):
        memory, depth = view.shape(11)[1:]
        inner = view.shape(9)[-1]
        # Query and memory are summed, squashed and weighted; a softmax; the memory's mean.
        attended = 2 * hidden * inner + memory * (inner * (TANH + 3) + EXP + 4 + 2 * depth)
        attended += 2 * (depth + hidden) * view.shape(13)[-1] if view.has(13) else 0
    return directions * steps * batch * (cell + attended)


def _dynamic_lstm(view: NodeView) -> int:
    """Return the FLOP of LSTM with input and state quantised per step, and products scaled back."""
    steps, batch, width = view.shape(0)
    directions, hidden, rows = view.shape(2)
    quantised = (REQUANTIZE + 2) * (width + hidden)
    products = 2 * rows * (width + hidden) + 2 * DEQUANTIZE * rows
    biases = 2 * rows if view.has(3) else 0
    pointwise = LSTM_POINTWISE * hidden + (6 * hidden if view.has(7) else 0)
    return directions * steps * batch * (quantised + products + biases + pointwise)


def _at_full_length(position: int, rule: Rule) -> Rule:
    """Return `rule` with minimum 0 FLOP if input `position` has lengths below the tensors'."""
    return replace(rule, least=lambda view: 0 if view.has(position) else rule.flops(view))


def _real_fft(view: NodeView) -> int:
    """Return one transform per row; the longer of input and output is the row of reals."""
    dims = view.integer("signal_ndim", 1)
    longer = max(view.shape(0), view.output().static_shape, key=math.prod)
    points = [size for size in longer if size != 2][-dims:] or [1]
    rows = math.prod(longer) // max(1, 2 * math.prod(points))
    return max(1, rows) * fft_flops(math.prod(points))


def _branches(extra: int) -> Rule:
    return Rule(
        "elementwise",
        lambda view: (2 * view.integer("num_branches", 1) + extra) * view.out_elements(),
    )


_OPTIMISERS = {"Adagrad": 4, "Adam": 6, "Momentum": 3}
"""FLOP per element of their outputs: new weights, and their own state."""


def _optimiser(weight: int) -> Rule:
    def flops(view: NodeView) -> int:
        outputs = (p for p in range(len(view.node.outputs)) if view.has_output(p))
        return weight * sum(view.output(p).elements for p in outputs)

    return Rule("elementwise", flops)


_LIKE: Mapping[str, Rule] = {**products.RULES, **layers.RULES, **movement.RULES}
"""Rules of ONNX ops, used for ops of the runtime that are like them."""

# Channels in blocks: the counts of the ONNX ops, including padding to whole blocks.
_NCHWC: Mapping[str, Rule] = {
    **{op: _LIKE[op] for op in ("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool")},
    "Conv": _LIKE[f"{MS}:FusedConv"],
    "ReorderInput": Rule("data_movement", form="transpose"),
    "ReorderOutput": Rule("data_movement", form="transpose"),
    "Upsample": replace(_LIKE["Upsample"], product=None),
}

# Channels last: the counts do not depend on the order of the dims.
_NHWC: Mapping[str, Rule] = {
    **{
        op: _LIKE[op]
        for op in (
            "AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "DepthToSpace",
            "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "GridSample",
            "InstanceNormalization", "LRN", "LpPool", "MaxPool", "MaxUnpool", "QLinearConv",
            "Resize", "SpaceToDepth",
        )
    },
    "QLinearAveragePool": replace(_LIKE[f"{MS}:QLinearAveragePool"], product=None),
    "QLinearConvTranspose": Rule(
        "conv",
        lambda view: (
            2 * view.elements() * math.prod(view.shape(3)[1:])
            + (REQUANTIZE + view.has(8)) * view.out_elements()
        ),
        integer_input=0,
    ),
}  # fmt: skip

_OLD: Mapping[str, Rule] = {
    **dict.fromkeys(("Crop", "DynamicSlice"), _LIKE["Slice"]),
    **dict.fromkeys(("GivenTensorFill", "MemcpyFromHost", "MemcpyToHost"), Rule("data_movement")),
    "Affine": per_output("elementwise", 2),
    "ImageScaler": per_output("elementwise", 2),
    "ParametricSoftplus": per_output("transcendental", SOFTPLUS + 2),
    "Scale": per_output("elementwise", 1),
    "ScaledTanh": per_output("transcendental", TANH + 2),
}

_PER_OUTPUT: Mapping[str, Mapping[str, int]] = {
    "normalization": {
        "BranchwiseRMSNorm": 4, "EngramGate": STANDARDIZE + SIGMOID, "GatedRMSNorm": 5 + SIGMOID,
        "QOrderedLayerNormalization": STANDARDIZE + 2 + DEQUANTIZE + REQUANTIZE,
    },
    "elementwise": {"ComplexMul": 3, "ComplexMulConj": 3, "GatedAdd": 2, "MulInteger": 3},
    "quantize": {
        "DequantizeBFP": DEQUANTIZE, "DequantizeWithOrder": DEQUANTIZE,
        "QuantizeWithOrder": REQUANTIZE,
    },
    "transcendental": {
        "LinearAttentionGate": SOFTPLUS + EXP + 3, "QOrderedGelu": GELU + DEQUANTIZE + REQUANTIZE,
        "ScaledSiLU": SIGMOID + 3,
    },
    "other": {"MurmurHash3": 10, "NGramHashMapping": 4, "VarlenNGramHashMapping": 4},
}  # fmt: skip
"""FLOP per output element, by class and op."""

_MICROSOFT: Mapping[str, Rule] = {
    **{
        op: per_output(op_class, weight)
        for op_class, ops in _PER_OUTPUT.items()
        for op, weight in ops.items()
    },
    **dict.fromkeys(
        (
            "BiasDropout",
            "BitmaskBiasDropout",
            "BitmaskDropout",
            "NGramRepeatBlock",
            "RemovePadding",
            "RestorePadding",
            "SampleOp",
            "UnfoldTensor",
        ),
        Rule("data_movement"),
    ),
    "AttnLSTM": _at_full_length(4, Rule("recurrent", _attention_lstm)),
    "BifurcationDetector": per_input("other", 1),
    "CDist": Rule("matmul", _distances),
    # Bilinear samples of four neighbours, or nearest ones.
    "CropAndResize": Rule(
        "resize",
        lambda view: 9 * (view.text("mode", "bilinear") == "bilinear") * view.out_elements(),
    ),
    "DynamicQuantizeLSTM": _at_full_length(4, Rule("recurrent", _dynamic_lstm, integer_input=1)),
    "DynamicTimeWarping": per_input("other", 4),
    "GatherBlockQuantized": Rule(
        "gather_scatter", lambda view: DEQUANTIZE * view.out_elements(), _gathered_bytes
    ),
    "GatherPacked": Rule(
        "gather_scatter", lambda view: DEQUANTIZE * view.out_elements(), _packed_rows
    ),
    "GemmFastGelu": replace(
        _LIKE["MatMul"],
        flops=lambda view: (2 * view.shape(0)[-1] + view.has(2) + GELU_TANH) * view.out_elements(),
    ),
    "GemmFloat8": _LIKE["Gemm"],
    "GemmaRotaryEmbedding": Rule(
        "elementwise", lambda view: 3 * (view.elements(1) + view.elements(3))
    ),
    "HyperConnectionPostMix": _branches(2),
    "HyperConnectionPreMix": _branches(0),
    "Irfft": Rule("other", _real_fft),
    "IsAllFinite": Rule(
        "reduction",
        lambda view: sum(view.elements(p) for p in range(len(view.node.inputs)) if view.has(p)),
    ),
    "MatMulBlockQuantizedFp4Weight": _blocked_weights(5),
    "MatMulBlockQuantizedFp8Weight": _blocked_weights(4),
    "MatMulBnb4": _blocked_weights(None),
    "MatMulFpQ4": _blocked_weights(None),
    "MatMulInteger16": _LIKE["MatMulInteger"],
    "MatMulNBitsMlp": Rule(
        "matmul", lambda view: (4 * view.shape(0)[-1] + SIGMOID + 2) * view.out_elements()
    ),
    "MatMulNBitsQkv": Rule(
        "matmul",
        lambda view: sum(
            2 * view.shape(0)[-1] * view.output(p).elements for p in range(3) if view.has_output(p)
        ),
    ),
    "MaxpoolWithMask": replace(_LIKE["MaxPool"], product=None),
    "MoE": _experts((2, 4, 6), ""),
    "MoEGroupRouter": Rule("reduction", _group_router),
    "MRotaryEmbedding": per_input("elementwise", 3),
    "QEmbedLayerNormalization": Rule(
        "normalization",
        lambda view: (2 + STANDARDIZE + 2 + 3 * DEQUANTIZE) * view.out_elements(),
        lambda view: embedded_bytes(view, view.output().elements),
        form="gather",
    ),
    "QLinearWhere": Rule(
        "elementwise",
        lambda view: (1 + DEQUANTIZE + REQUANTIZE) * view.out_elements(),
        integer_input=1,
    ),
    "QMoE": _experts((2, 5, 8), "expert_weight_bits"),
    "QOrderedMatMul": Rule(
        "matmul",
        lambda view: (2 * view.shape(0)[-1] + REQUANTIZE + view.has(5)) * view.out_elements(),
        integer_input=0,
    ),
    "QuantizeBFP": per_input("quantize", REQUANTIZE),
    "ReduceSumInteger": per_input("reduction", 1),
    "RelativePositionBias": Rule("gather_scatter", bytes=movement.reads_what_it_writes),
    "Rfft": Rule("other", _real_fft),
    "SparseToDenseMatMul": replace(_LIKE["MatMul"], least=no_flops),
    "TorchEmbedding": _LIKE["Gather"],
    "Unique": _LIKE["Unique"],
    "WordConvEmbedding": Rule("conv", _word_convolutions),
}

RULES: Mapping[str, Rule] = {
    **_OLD,
    **{f"{MS}:{op}": rule for op, rule in _MICROSOFT.items()},
    **{f"com.microsoft.nchwc:{op}": rule for op, rule in _NCHWC.items()},
    **{f"com.ms.internal.nhwc:{op}": rule for op, rule in _NHWC.items()},
    **{f"ai.onnx.preview.training:{op}": _optimiser(n) for op, n in _OPTIMISERS.items()},
}

_REASONS: Mapping[str, tuple[str, ...]] = {
    "it processes strings, whose sizes are known only in a run": (
        "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit",
        "com.microsoft:Tokenizer",
    ),
    "the size of its decoded output is known only in a run": ("ImageDecoder",),
    "the data decide how often its bodies run": (
        "com.microsoft:BeamSearch", "com.microsoft:GreedySearch", "com.microsoft:Sampling",
        "com.microsoft:WhisperBeamSearch",
    ),
    "it holds a binary program for one device, which hetsim cannot read": (
        "com.microsoft:EPContext", "com.microsoft:Snpe",
    ),
    "it stands for a plugin of TensorRT": (
        "DisentangledAttention_TRT", "EfficientNMS_TRT", "MultilevelCropAndResize_TRT",
        "PyramidROIAlign_TRT",
    ),
    "ONNX Runtime has kernels for it only on GPUs, and hetsim has no rule for it yet": (
        "com.microsoft:DecoderAttention", "com.microsoft:DecoderMaskedSelfAttention",
        "com.microsoft:ConvStateReplay", "com.microsoft:DynamicSparseAttention",
        "com.microsoft:GatedDeltaNetStateReplay",
        "com.microsoft:GatedRelativePositionBias", "com.microsoft:HyperConnectionLowRankMix",
        "com.microsoft:LongformerAttention", "com.microsoft:Mamba2Verify",
        "com.microsoft:MatMulNBitsQLoRA", "com.microsoft:MatMulPacked", "com.microsoft:MoEPacked",
        "com.microsoft:PackedAttention", "com.microsoft:PackedMultiHeadAttention",
        "com.microsoft:PackedSparseAttentionIndexer",
        "com.microsoft:PackedSparseAttentionIndexerMerge", "com.microsoft:PagedAttention",
        "com.microsoft:QOrderedAttention", "com.microsoft:QOrderedLongformerAttention",
        "com.microsoft:RMSNormRotary", "com.microsoft:RouterGateUpProj",
        "com.microsoft:SparseAttentionIndexer", "com.microsoft:SparsePagedAttention",
        "com.microsoft:SpeculativePrefixCommit", "com.microsoft:SwiGLU",
    ),
    "ONNX Runtime has a CPU kernel for it only from 1.32 on, and hetsim has no rule for it yet": (
        "com.microsoft:GatedDeltaNet", "com.microsoft:VarlenCausalConvWithState",
    ),
    "no runtime has a kernel for it": ("GRUUnit", "ai.onnx.preview.training:Gradient"),
}  # fmt: skip

UNPRICED: Mapping[str, str] = {op: why for why, ops in _REASONS.items() for op in ops}
"""Reason for the lack of a rule, by op as named by ``op_key``."""
