"""Rules of normalization, pooling, reduction, softmax, quantization, transforms and sampling."""

from __future__ import annotations

import math
from collections.abc import Mapping

from hetsim.graph.work.elementwise import EXP, LOG, POW, RANDOM, SIGMOID, SQRT
from hetsim.graph.work.products import REQUANTIZE, windowed
from hetsim.graph.work.rule import (
    NodeView,
    Product,
    Rule,
    moved_bytes,
    no_flops,
    per_input,
    per_output,
)

STANDARDIZE = 5
"""FLOP per element of mean (1), deviation (1), variance (2) and division by its root (1)."""


def _batch_norm(view: NodeView) -> int:
    """Return one product and one sum per element: a channel's four numbers fold into two."""
    training = STANDARDIZE if view.integer("training_mode", 0) else 0
    return (2 + training) * view.elements()


def _norm(weight: int, *added: int) -> Rule:
    """Return the rule of `weight` FLOP per element, plus one for each present input of `added`."""

    return Rule(
        "normalization", lambda view: (weight + sum(map(view.has, added))) * view.elements()
    )


def _group_norm(view: NodeView) -> int:
    fused = SIGMOID + 1 if view.integer("activation", 0) else 0
    skip = view.node.op_type == "SkipGroupNorm"
    return (STANDARDIZE + 2 + fused + (skip and 1 + view.has(4))) * view.elements()


def embedded_bytes(view: NodeView, rows: int) -> tuple[int, int, int]:
    """Return the bytes of a node that reads only the `rows` bytes of each table named by ids."""
    touched = {p: min(rows, view.input(p).nbytes) for p in (2, 3, 4) if view.has(p)}
    return moved_bytes(view, touched)


def _lp_root(view: NodeView) -> int:
    return 0 if view.integer("p", 2) == 1 else SQRT if view.integer("p", 2) == 2 else POW


def _lp_term(view: NodeView) -> int:
    return 2 if view.integer("p", 2) <= 2 else 2 + POW


def _roi_pool(view: NodeView) -> int:
    """Return the maximum FLOP: the elements of a region are known only in a run."""
    _, channels, height, width = view.shape(0)
    return view.shape(1)[0] * channels * height * width


def _elements_of_window(view: NodeView) -> int:
    return math.prod(view.integers("kernel_shape"))


def _reduce(weight: int, weight_out: int = 0) -> Rule:
    """Return the rule of `weight` FLOP per input element, and `weight_out` per result element."""

    return Rule(
        "reduction", lambda view: weight * view.elements() + weight_out * view.out_elements()
    )


def _top_k(view: NodeView) -> int:
    """Return the FLOP of a heap of k: one comparison per element and level."""
    axis = view.integer("axis", -1)
    k = view.output().static_shape[axis]
    return view.elements() * max(1, (k - 1).bit_length())


def _unique(view: NodeView) -> int:
    """Return the FLOP of a sort: one comparison per element and level."""
    return view.elements() * max(1, (view.elements() - 1).bit_length())


def _log_softmax(view: NodeView) -> int:
    """Return the FLOP of softmax, with a difference for the division and a logarithm per row."""
    shape = view.shape(0)
    opset = view.graph.opsets.get("", 13)
    axis = view.integer("axis", -1 if opset >= 13 else 1)
    elements = math.prod(shape)
    if opset >= 13:
        rows = math.prod(d for i, d in enumerate(shape) if i != axis % len(shape)) if shape else 1
    else:
        rows = math.prod(shape[: axis % len(shape) if axis < 0 else axis])
    return (EXP + 4) * elements + LOG * rows


def _cross_entropy(view: NodeView) -> int:
    """Return the FLOP of log-softmax of the scores, then weight and sum of one per example."""
    examples = view.elements(1)
    return (EXP + 4) * view.elements() + (LOG + 2) * examples


def _loss_bytes(view: NodeView) -> tuple[int, int, int]:
    picked = view.elements(1) * view.input(0).nbytes // max(1, view.elements())
    return moved_bytes(view, {0: picked})


DEQUANTIZE = 2
"""FLOP per element of shifting and scaling."""


def _quantized(op_class: str, weight: int, operands: int = 1) -> Rule:
    """Return the rule per output element: operands dequantized, `weight` FLOP, result quantized."""
    total = operands * DEQUANTIZE + weight + REQUANTIZE
    return Rule(op_class, lambda view: total * view.out_elements(), integer_input=0)


def _quantized_reduction(view: NodeView) -> int:
    return view.elements() + (1 + REQUANTIZE) * view.out_elements()


def fft_flops(length: int) -> int:
    """Return 5 n log2 n, the customary count of a complex transform of n points."""
    return 5 * length * max(1, (length - 1).bit_length())


def _dft(view: NodeView) -> int:
    """Return the FLOP of one transform per row, reals as complex; the maximum over unknown axes."""
    return max(_dft_by_axis(view), default=0)


def _dft_least(view: NodeView) -> int:
    """Return the FLOP along the cheapest axis; transforms of reals cost half."""
    return min(_dft_by_axis(view), default=0) // (2 if view.shape(0)[-1] == 1 else 1)


def _dft_by_axis(view: NodeView) -> list[int]:
    shape, out = view.shape(0), view.output().static_shape
    axes: tuple[int, ...] = tuple(range(len(shape) - 1))
    if view.graph.opsets.get("", 20) < 20:
        axes = (view.integer("axis", 1),)
    elif not view.has(2):
        axes = (-2,)
    elif view.constant(2):
        axes = (view.constant(2) or ())[:1]
    found = []
    for axis in axes:
        stated = view.constant(1)
        # Half of a spectrum is half as long, plus two elements.
        halved = 2 * (out[axis] - 1) if view.integer("onesided", 0) else out[axis]
        length = stated[0] if stated else halved if view.has(1) else shape[axis]
        rows = math.prod(shape[:-1]) // max(1, shape[axis])
        found.append(rows * fft_flops(max(1, length)))
    return found


def _stft(view: NodeView) -> int:
    """Return the FLOP of a window and a transform per frame, of the window's or result's length."""
    batch, frames, bins, _ = view.output().static_shape
    stated = view.constant(3)
    if view.has(2):
        length = view.shape(2)[0]
    elif stated:
        length = stated[0]
    else:
        length = max(1, 2 * (bins - 1)) if view.integer("onesided", 1) else bins
    return batch * frames * (fft_flops(length) + length * view.has(2))


def _stft_least(view: NodeView) -> int:
    """Return the minimum FLOP: signals are usually real, whose transforms cost half."""
    shape = view.shape(0)
    return _stft(view) // (1 if shape[-1] == 2 and len(shape) == 3 else 2)


def _det(view: NodeView) -> int:
    """Return the FLOP of LU: 2/3 n^3 per matrix, rounded up, plus the product of the diagonal."""
    *batch, n, _ = view.shape(0)
    return math.prod(batch) * (-(-2 * n**3 // 3) + n)


def _multinomial(view: NodeView) -> int:
    """Return the FLOP of the distribution's running sum, then a sample and search per result."""
    classes = view.shape(0)[-1]
    search = max(1, (classes - 1).bit_length())
    return (EXP + 3) * view.elements() + (RANDOM + search) * view.out_elements()


def _window(view: NodeView) -> Product:
    """Return the product of pooling: each result has its own window."""
    window = view.integers("kernel_shape")
    sizes = {"rows": view.out_elements(), "columns": 1, "depth": math.prod(window), "groups": 1}
    return windowed("pooling", view, window, **sizes)


_GROUP_NORM = Rule("normalization", _group_norm)
# One sum or comparison for every element of the window, padding included.
_POOL = Rule(
    "pooling", lambda view: _elements_of_window(view) * view.out_elements(), product=_window
)
_REDUCE = _reduce(1)

RULES: Mapping[str, Rule] = {
    "BatchNormalization": Rule("normalization", _batch_norm, form="elementwise"),
    "GroupNormalization": _norm(STANDARDIZE + 2),
    "InstanceNormalization": _norm(STANDARDIZE + 2),
    "LayerNormalization": _norm(STANDARDIZE + 1, 2),
    "LpNormalization": _norm(3),
    # Square, a sum over `size` channels, scale, shift, power, division.
    "LRN": Rule(
        "normalization", lambda view: (view.integer("size", 1) + 4 + POW) * view.elements()
    ),
    "MeanVarianceNormalization": _norm(STANDARDIZE),
    "RMSNormalization": _norm(4),
    "SimplifiedLayerNormalization": _norm(4),
    "com.microsoft:SkipLayerNormalization": _norm(STANDARDIZE + 2, 3, 4),
    "com.microsoft:SkipSimplifiedLayerNormalization": _norm(5, 3),
    # Mostly the rows that it reads.
    "com.microsoft:EmbedLayerNormalization": Rule(
        "normalization",
        lambda view: (1 + view.has(4) + STANDARDIZE + 2) * view.out_elements(),
        lambda view: embedded_bytes(view, view.output().nbytes),
        form="gather",
    ),
    "com.microsoft:GroupNorm": _GROUP_NORM,
    "com.microsoft:SkipGroupNorm": _GROUP_NORM,
    **dict.fromkeys(("AveragePool", "MaxPool", "com.microsoft:NhwcMaxPool"), _POOL),
    "LpPool": Rule(
        "pooling",
        lambda view: (
            (_lp_term(view) * _elements_of_window(view) + _lp_root(view)) * view.out_elements()
        ),
        product=_window,
    ),
    "GlobalAveragePool": per_input("pooling", 1),
    "GlobalMaxPool": per_input("pooling", 1),
    "GlobalLpPool": Rule(
        "pooling",
        lambda view: _lp_term(view) * view.elements() + _lp_root(view) * view.out_elements(),
    ),
    "MaxRoiPool": Rule("pooling", _roi_pool, least=no_flops),
    **dict.fromkeys(
        (
            "ArgMax",
            "ArgMin",
            "CumProd",
            "CumSum",
            "ReduceMax",
            "ReduceMin",
            "ReduceProd",
            "ReduceSum",
        ),
        _REDUCE,
    ),
    "ReduceL1": _reduce(2),
    "ReduceL2": _reduce(2, SQRT),
    "ReduceLogSum": _reduce(1, LOG),
    "ReduceLogSumExp": _reduce(EXP + 3, LOG + 1),
    "ReduceMean": _reduce(1, 1),
    "ReduceSumSquare": _reduce(2),
    "TopK": Rule("reduction", _top_k),
    "Unique": Rule("reduction", _unique),
    "Hardmax": per_output("softmax", 2),
    "LogSoftmax": Rule("softmax", _log_softmax),
    # Maximum, difference, exponential, sum, division: each per element.
    "Softmax": per_output("softmax", EXP + 4),
    "com.microsoft:BiasSoftmax": per_output("softmax", EXP + 5),
    "SoftmaxCrossEntropyLoss": Rule("softmax", _cross_entropy),
    "NegativeLogLikelihoodLoss": Rule("reduction", lambda view: 2 * view.elements(1), _loss_bytes),
    "QuantizeLinear": per_output("quantize", REQUANTIZE),
    "DequantizeLinear": per_output("quantize", DEQUANTIZE),
    "DynamicQuantizeLinear": per_input("quantize", REQUANTIZE + 2),
    "com.microsoft:QuantizeLinear": per_output("quantize", REQUANTIZE),
    "com.microsoft:DequantizeLinear": per_output("quantize", DEQUANTIZE),
    "com.microsoft:QLinearAdd": _quantized("elementwise", 1, operands=2),
    "com.microsoft:QLinearMul": _quantized("elementwise", 1, operands=2),
    "com.microsoft:QLinearLeakyRelu": _quantized("elementwise", 2),
    "com.microsoft:QLinearSigmoid": _quantized("transcendental", SIGMOID),
    "com.microsoft:QLinearSoftmax": _quantized("softmax", EXP + 4),
    "com.microsoft:QLinearAveragePool": Rule(
        "pooling",
        lambda view: (_elements_of_window(view) + REQUANTIZE) * view.out_elements(),
        integer_input=0,
        product=_window,
    ),
    "com.microsoft:QLinearGlobalAveragePool": Rule(
        "pooling", _quantized_reduction, integer_input=0
    ),
    "com.microsoft:QLinearReduceMean": Rule("reduction", _quantized_reduction, integer_input=0),
    "DFT": Rule("other", _dft, least=_dft_least),
    "STFT": Rule("other", _stft, least=_stft_least),
    "Det": Rule("other", _det),
    "com.microsoft:Inverse": Rule("other", lambda view: 2 * view.elements() * view.shape(0)[-1]),
    "Multinomial": Rule("other", _multinomial),
}
