"""Rules of quantization, and of ops of a kind of their own: transforms, sampling."""

from __future__ import annotations

import math
from collections.abc import Mapping

from hetsim.graph.work.elementwise import EXP, RANDOM, SIGMOID
from hetsim.graph.work.products import REQUANTIZE
from hetsim.graph.work.rule import NodeView, Rule, per_input, per_output

DEQUANTIZE = 2
"""FLOP an element of shifting and scaling."""


def _quantized(op_class: str, weight: int, operands: int = 1) -> Rule:
    """Each operand dequantized, `weight` FLOP, the result quantized; all an output element."""
    total = operands * DEQUANTIZE + weight + REQUANTIZE
    return Rule(op_class, lambda view: total * view.out_elements(), integer_input=0)


def _quantized_pool(view: NodeView) -> int:
    window = math.prod(view.integers("kernel_shape"))
    return (window + REQUANTIZE) * view.out_elements()


def _quantized_reduction(view: NodeView) -> int:
    return view.elements() + (1 + REQUANTIZE) * view.out_elements()


def fft_flops(length: int) -> int:
    """5 n log2 n, the customary count of a complex transform of n points."""
    return 5 * length * max(1, (length - 1).bit_length())


def _dft(view: NodeView) -> int:
    """One transform for every row along the axis, real inputs counted as complex ones.

    An axis that comes with the data may be any of them: the dearest counts.
    """
    return max(_dft_by_axis(view), default=0)


def _dft_least(view: NodeView) -> int:
    """The cheapest axis; a transform of real numbers can be had for half."""
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
        # One half of a spectrum is as long as both would be, by two elements.
        halved = 2 * (out[axis] - 1) if view.integer("onesided", 0) else out[axis]
        length = stated[0] if stated else halved if view.has(1) else shape[axis]
        rows = math.prod(shape[:-1]) // max(1, shape[axis])
        found.append(rows * fft_flops(max(1, length)))
    return found


def _stft(view: NodeView) -> int:
    """A window and a transform for every frame; as long as the window, or as the result says."""
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
    """Signals are real as a rule, and their transforms are to be had for half."""
    shape = view.shape(0)
    return _stft(view) // (1 if shape[-1] == 2 and len(shape) == 3 else 2)


def _det(view: NodeView) -> int:
    """LU factorization: 2/3 n^3 a matrix, rounded up, and the product of the diagonal."""
    *batch, n, _ = view.shape(0)
    return math.prod(batch) * (-(-2 * n**3 // 3) + n)


def _inverse(view: NodeView) -> int:
    *batch, n, _ = view.shape(0)
    return math.prod(batch) * 2 * n**3


def _multinomial(view: NodeView) -> int:
    """The distribution's running sum, then a draw and a search for each sample."""
    classes = view.shape(0)[-1]
    search = max(1, (classes - 1).bit_length())
    return (EXP + 3) * view.elements() + (RANDOM + search) * view.out_elements()


RULES: Mapping[str, Rule] = {
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
    "com.microsoft:QLinearAveragePool": Rule("pooling", _quantized_pool, integer_input=0),
    "com.microsoft:QLinearGlobalAveragePool": Rule(
        "pooling", _quantized_reduction, integer_input=0
    ),
    "com.microsoft:QLinearReduceMean": Rule("reduction", _quantized_reduction, integer_input=0),
    "DFT": Rule("other", _dft, least=_dft_least),
    "STFT": Rule("other", _stft, least=_stft_least),
    "Det": Rule("other", _det),
    "com.microsoft:Inverse": Rule("other", _inverse),
    "Multinomial": Rule("other", _multinomial),
}
