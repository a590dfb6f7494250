"""Rules of quantization, and of ops of a kind of their own: transforms, sampling."""

from __future__ import annotations

import math
from collections.abc import Mapping

from hetsim.graph.work.contraction import REQUANTIZE
from hetsim.graph.work.elementwise import EXP, RANDOM, SIGMOID
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


def _dft(view: NodeView) -> int | None:
    """One transform for every row along the axis, real inputs counted as complex ones."""
    shape = view.shape(0)
    if view.graph.opsets.get("", 20) < 20:
        axis = view.integer("axis", 1)
    else:
        given = view.constant(2)
        if view.has(2) and given is None:
            return None
        axis = given[0] if given else -2
    length = shape[axis]
    if view.has(1):
        stated = view.constant(1)
        if stated is None:
            return None
        length = stated[0]
    rows = math.prod(shape[:-1]) // max(1, shape[axis])
    return rows * fft_flops(length)


def _stft(view: NodeView) -> int | None:
    """A window and a transform for every frame."""
    batch, frames, bins, _ = view.output().static_shape
    length = view.shape(2)[0] if view.has(2) else None
    if length is None:
        stated = view.constant(3)
        length = stated[0] if stated else None
    if length is None:
        length = bins if not view.integer("onesided", 1) else None
    if length is None:
        return None
    return batch * frames * (fft_flops(length) + length * view.has(2))


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
    "DFT": Rule("other", _dft),
    "STFT": Rule("other", _stft),
    "Det": Rule("other", _det),
    "com.microsoft:Inverse": Rule("other", _inverse),
    "Multinomial": Rule("other", _multinomial),
}
