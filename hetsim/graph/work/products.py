"""Rules of ops that multiply and accumulate: convolution, matrix product, Einsum.

1 MAC counts 2 FLOP. A bias, a summed-in tensor, and a scale factor that is not one count
1 FLOP an output element each; a fused activation counts what it counts on its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from hetsim.graph.work.elementwise import activation_flops
from hetsim.graph.work.rule import NodeView, Rule

REQUANTIZE = 4
"""FLOP an element of scaling, rounding, shifting and saturating an accumulator."""


def _fused_activation(view: NodeView) -> int | None:
    weight = activation_flops(view.text("activation"))
    return None if weight is None else weight * view.out_elements()


def _conv(weight: int = 1, added: Sequence[int] = (), requantize: int = 0) -> Rule:
    """Every output element takes one MAC an element of its filter, padding included."""

    def flops(view: NodeView) -> int | None:
        activation = _fused_activation(view)
        if activation is None:
            return None
        out = view.out_elements()
        macs = out * math.prod(view.shape(weight)[1:])
        extra = requantize + sum(view.has(position) for position in added)
        return 2 * macs + extra * out + activation

    return Rule("conv", flops, integer_input=0 if requantize else None)


def _conv_transpose(bias: int) -> Rule:
    """Every input element is spread by one MAC an element of its filter, cropped or not."""

    def flops(view: NodeView) -> int:
        macs = view.elements() * math.prod(view.shape(1)[1:])
        return 2 * macs + view.has(bias) * view.out_elements()

    return Rule("conv", flops)


def _deform_conv(view: NodeView) -> int:
    """A convolution over samples, each interpolated from 4 neighbours (8 FLOP), once."""
    out, (batch, channels, *_) = view.output().static_shape, view.shape(0)
    kernel = math.prod(view.shape(1)[2:])
    samples = batch * channels * math.prod(out[2:]) * kernel
    macs = math.prod(out) * math.prod(view.shape(1)[1:])
    mask = samples if view.has(4) else 0
    return 2 * macs + 8 * samples + mask + view.has(3) * math.prod(out)


def _causal_conv(view: NodeView) -> int | None:
    """Depthwise along time, the state before the first position counted as padding is."""
    name = view.text("activation", "none")
    activation = 0 if name in ("none", "") else activation_flops(name)
    if activation is None:
        return None
    return (2 * view.shape(1)[-1] + view.has(2) + activation) * view.out_elements()


def _gemm(c: int = 2, requantize: int = 0) -> Rule:
    def flops(view: NodeView) -> int | None:
        activation = _fused_activation(view)
        if activation is None:
            return None
        out = view.out_elements()
        shape = view.shape(0)
        depth = shape[0] if view.integer("transA", 0) else shape[1]
        scaled = view.number("alpha", 1.0) != 1.0
        total = (2 * depth + view.has(c) + scaled + requantize) * out + activation
        if view.has(c) and view.number("beta", 1.0) != 1.0:
            total += view.elements(c)
        return total

    return Rule("matmul", flops, integer_input=0 if requantize else None)


def _matmul(
    added: Sequence[int] = (), requantize: int = 0, integer_input: int | None = None
) -> Rule:
    """Batch dims broadcast, vectors count as one row or column."""

    def flops(view: NodeView) -> int | None:
        activation = _fused_activation(view)
        if activation is None:
            return None
        shape = view.shape(0)
        depth = shape[-1]
        if view.integer("transA", 0) and len(shape) > 1:
            depth = shape[0] if view.integer("transBatchA", 0) else shape[-2]
        extra = requantize + sum(view.has(position) for position in added)
        extra += view.number("alpha", 1.0) != 1.0
        return (2 * depth + extra) * view.out_elements() + activation

    return Rule("matmul", flops, integer_input=integer_input)


def _dynamic_matmul(view: NodeView) -> int:
    out = view.out_elements()
    quantized = 6 * view.elements(0)
    return quantized + (2 * view.shape(0)[-1] + 1 + view.has(4)) * out


def _matmul_nbits(view: NodeView) -> int:
    """A product, after each weight is scaled and shifted; some kernels do without the latter."""
    depth, columns = view.integer("K", 0), view.integer("N", 0)
    return _product_nbits(view) + 2 * depth * columns


def _product_nbits(view: NodeView) -> int:
    return (2 * view.integer("K", 0) + view.has(5)) * view.out_elements()


_INT8_ACTIVATIONS = 4
"""``accuracy_level`` at which activations are quantised, and the product is one of integers."""


def _type_nbits(view: NodeView) -> str | None:
    return "int8" if view.integer("accuracy_level", 0) == _INT8_ACTIVATIONS else None


def einsum_flops(equation: str, shapes: Sequence[tuple[int, ...]]) -> int:
    """FLOP of an Einsum that contracts its operands pair by pair from the left.

    A pair takes one product for each combination of the indices it has, and one sum where
    an index ends there; a lone operand takes sums alone. Dims of an ellipsis are indices
    counted from the right; a dim of one broadcasts.
    """
    terms, kept = labels_of(equation, shapes)
    sizes: dict[str, int] = {}
    for labels, shape in zip(terms, shapes, strict=True):
        for label, size in zip(labels, shape, strict=True):
            sizes[label] = max(sizes.get(label, 1), size)
    total = 0
    current = set(terms[0])
    for step in range(max(1, len(terms) - 1)):
        later = kept.union(*terms[step + 2 :])
        products = 0
        if len(terms) > 1:
            current |= set(terms[step + 1])
            products = 1
        combinations = math.prod(sizes[label] for label in current)
        sums = 1 if current - later else 0
        total += (products + sums) * combinations
        current &= later
    return total


def labels_of(equation: str, shapes: Sequence[tuple[int, ...]]) -> tuple[list[list[str]], set[str]]:
    """Return the indices of each operand of an Einsum, and those that its result keeps."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = [_labels(term, len(shape)) for term, shape in zip(left.split(","), shapes, strict=True)]
    flat = [label for labels in terms for label in labels]
    ellipsis = {label for label in flat if len(label) > 1}
    if arrow:
        return terms, set(right.replace("...", "")) | (ellipsis if "..." in right else set())
    return terms, {label for label in flat if flat.count(label) == 1} | ellipsis


def _labels(term: str, rank: int) -> list[str]:
    before, dots, after = term.partition("...")
    if not dots:
        return list(term)
    hidden = rank - len(before) - len(after)
    return [*before, *(f"dim -{i}" for i in range(hidden, 0, -1)), *after]


def _einsum(view: NodeView) -> int:
    shapes = [view.shape(position) for position in range(len(view.node.inputs))]
    return einsum_flops(view.text("equation"), shapes)


RULES: Mapping[str, Rule] = {
    "Conv": _conv(added=(2,)),
    "ConvInteger": Rule("conv", _conv().flops, integer_input=0),
    "QLinearConv": _conv(weight=3, added=(8,), requantize=REQUANTIZE),
    "ConvTranspose": _conv_transpose(bias=2),
    "DeformConv": Rule("conv", _deform_conv),
    "CausalConvWithState": Rule("conv", _causal_conv),
    "Gemm": _gemm(),
    "MatMul": _matmul(),
    "MatMulInteger": _matmul(integer_input=0),
    "QLinearMatMul": _matmul(requantize=REQUANTIZE, integer_input=0),
    "Einsum": Rule("matmul", _einsum),
    "com.microsoft:FusedConv": _conv(added=(2, 3)),
    "com.microsoft:NhwcConv": _conv(added=(2,)),
    "com.microsoft:NhwcFusedConv": _conv(added=(2, 3)),
    "com.microsoft:QLinearConv": _conv(weight=3, added=(8,), requantize=REQUANTIZE),
    "com.microsoft:ConvTransposeWithDynamicPads": _conv_transpose(bias=3),
    "com.microsoft:CausalConvWithState": Rule("conv", _causal_conv),
    "com.microsoft:FusedGemm": _gemm(),
    "com.microsoft:QGemm": _gemm(c=6, requantize=REQUANTIZE),
    "com.microsoft:FusedMatMul": _matmul(),
    "com.microsoft:TransposeMatMul": _matmul(),
    "com.microsoft:FusedMatMulActivation": _matmul(),
    "com.microsoft:MatMulIntegerToFloat": _matmul(added=(6,), requantize=1, integer_input=0),
    "com.microsoft:DynamicQuantizeMatMul": Rule("matmul", _dynamic_matmul, integer_input=1),
    "com.microsoft:MatMulNBits": Rule(
        "matmul", _matmul_nbits, least=_product_nbits, dtype=_type_nbits
    ),
}
