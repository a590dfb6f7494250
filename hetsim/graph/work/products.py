"""Rules of ops that multiply and accumulate: convolution, matrix product, Einsum.

1 MAC counts 2 FLOP. A bias, a summed-in tensor, and a scale factor other than one count 1 FLOP per
output element each; a fused activation counts as a separate one.

A convolution and a matrix product are both ``groups`` products of ``rows`` x ``depth`` by
``depth`` x ``columns``. FLOPs alone do not tell a depthwise convolution from a dense one, nor a
batch of one from one of 64; these sizes do. Source: im2col, as in K. Chellapilla, S. Puri,
P. Simard, High Performance Convolutional Neural Networks for Document Processing, IWFHR 2006,
section 2.1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hetsim.graph.work.elementwise import activation_flops
from hetsim.graph.work.rule import NodeView, Product, Rule

REQUANTIZE = 4
"""FLOP per element of scaling, rounding, shifting and saturating an accumulator."""


def windowed(form: str, view: NodeView, window: Sequence[int], **sizes: int) -> Product:
    """Return the product over windows of the first input, with the node's strides and dilations."""
    return Product(
        form=form,
        window=tuple(window),
        strides=view.integers("strides") or (1,) * len(window),
        dilations=view.integers("dilations") or (1,) * len(window),
        operand_elements=view.elements(),
        **sizes,
    )


def _fused_activation(view: NodeView) -> int | None:
    weight = activation_flops(view.text("activation"))
    return None if weight is None else weight * view.out_elements()


def _conv(
    weight: int = 1,
    added: Sequence[int] = (),
    requantize: int = 0,
    integer_input: int | None = None,
) -> Rule:
    """Return the rule of one MAC per output element and filter element, padding included."""

    def flops(view: NodeView) -> int | None:
        activation = _fused_activation(view)
        if activation is None:
            return None
        out = view.out_elements()
        macs = out * math.prod(view.shape(weight)[1:])
        extra = requantize + sum(view.has(position) for position in added)
        return 2 * macs + extra * out + activation

    def product(view: NodeView) -> Product:
        channels, depth, *window = view.shape(weight)
        groups = view.integer("group", 1)
        batch, taps = view.shape(0)[0], math.prod(window)
        form = "pointwise" if taps == 1 else "dense"
        if groups > 1:
            form = "depthwise" if depth == 1 else "grouped"
        elif (
            form == "dense"
            and view.elements() == batch * depth * taps
            and not any(view.integers("pads"))
        ):
            # Each sample is one window, and each weight is used once for it.
            form = "matmul"
        rows = view.out_elements() // channels
        return windowed(
            form,
            view,
            window,
            rows=rows,
            columns=channels // groups,
            depth=depth * taps,
            groups=groups,
            positions=rows // max(1, batch),
        )

    return Rule("conv", flops, integer_input=integer_input, product=product)


def _conv_transpose(bias: int) -> Rule:
    """Return the rule of one MAC per input element and filter element, cropped or not."""

    def flops(view: NodeView) -> int:
        macs = view.elements() * math.prod(view.shape(1)[1:])
        return 2 * macs + view.has(bias) * view.out_elements()

    def product(view: NodeView) -> Product:
        depth, columns, *window = view.shape(1)
        groups = view.integer("group", 1)
        return windowed(
            "transposed",
            view,
            window,
            rows=view.elements() // depth,
            columns=columns * math.prod(window),
            depth=depth // groups,
            groups=groups,
        )

    return Rule("conv", flops, product=product)


def _deform_conv(view: NodeView) -> int:
    """Return the FLOP of a convolution over samples, each interpolated from 4 neighbours (8)."""
    out, (batch, channels, *_) = view.output().static_shape, view.shape(0)
    kernel = math.prod(view.shape(1)[2:])
    samples = batch * channels * math.prod(out[2:]) * kernel
    macs = math.prod(out) * math.prod(view.shape(1)[1:])
    mask = samples if view.has(4) else 0
    return 2 * macs + 8 * samples + mask + view.has(3) * math.prod(out)


def _causal_conv(view: NodeView) -> int | None:
    """Return the FLOP of a depthwise convolution along time, with its state as padding."""
    name = view.text("activation", "none")
    activation = 0 if name in ("none", "") else activation_flops(name)
    if activation is None:
        return None
    return (2 * view.shape(1)[-1] + view.has(2) + activation) * view.out_elements()


def _causal_product(view: NodeView) -> Product:
    channels, tap = view.shape(1)[0], view.shape(1)[-1]
    rows = view.out_elements() // channels
    return Product(
        form="depthwise",
        rows=rows,
        columns=1,
        depth=tap,
        groups=channels,
        window=(tap,),
        strides=(1,),
        dilations=(1,),
        operand_elements=view.elements(),
        positions=rows // max(1, view.shape(0)[0]),
    )


def _form(view: NodeView, left: int, right: int) -> str:
    names = (view.node.inputs[left], view.node.inputs[right])
    stored = any(name in view.graph.constants or name in view.graph.dequantized for name in names)
    return "matmul" if stored else "batched"


def _matrices(form: str, rows: int, columns: int, depth: int, groups: int = 1) -> Product:
    return Product(form, rows, columns, depth, groups, operand_elements=rows * depth * groups)


def _gemm(c: int = 2, requantize: int = 0, right: int = 1) -> Rule:
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

    def product(view: NodeView) -> Product:
        rows, columns = view.output().static_shape
        depth = view.shape(0)[0 if view.integer("transA", 0) else 1]
        return _matrices(_form(view, 0, right), rows, columns, depth)

    return Rule("matmul", flops, integer_input=0 if requantize else None, product=product)


def _depth(view: NodeView) -> int:
    shape = view.shape(0)
    if view.integer("transA", 0) and len(shape) > 1:
        return shape[0] if view.integer("transBatchA", 0) else shape[-2]
    return shape[-1]


def _matmul(
    added: Sequence[int] = (),
    requantize: int = 0,
    integer_input: int | None = None,
    right: int = 1,
) -> Rule:
    """Return the rule of a matrix product: batch dims broadcast, vectors are a row or column."""

    def flops(view: NodeView) -> int | None:
        activation = _fused_activation(view)
        if activation is None:
            return None
        extra = requantize + sum(view.has(position) for position in added)
        extra += view.number("alpha", 1.0) != 1.0
        return (2 * _depth(view) + extra) * view.out_elements() + activation

    def product(view: NodeView) -> Product:
        """Return the product; an operand shared by all matrices makes it one with more rows."""
        a, b, depth = view.shape(0), view.shape(right), _depth(view)
        out = list(view.output().static_shape)
        columns = out.pop() if len(b) > 1 else 1
        rows = out.pop() if len(a) > 1 else 1
        groups = math.prod(out)
        form = _form(view, 0, right)
        if math.prod(b) == depth * columns:
            return _matrices(form, groups * rows, columns, depth)
        if math.prod(a) == depth * rows:
            return _matrices(form, groups * columns, rows, depth)
        return _matrices(form, rows, columns, depth, groups)

    return Rule("matmul", flops, integer_input=integer_input, product=product)


def _least_nbits(view: NodeView) -> int:
    return (2 * view.integer("K", 0) + view.has(5)) * view.out_elements()


def _product_nbits(view: NodeView) -> Product:
    columns = view.integer("N", 0)
    return _matrices("matmul", view.out_elements() // columns, columns, view.integer("K", 0))


_INT8_ACTIVATIONS = 4
"""``accuracy_level`` from which activations are quantised, and the product is one of integers."""


Labels = tuple[list[list[str]], set[str], dict[str, int]]


def _labels(view: NodeView) -> Labels:
    """Return the indices of each Einsum operand, those of its result, and their sizes."""
    shapes = [view.shape(position) for position in range(len(view.node.inputs))]
    left, arrow, right = view.text("equation").replace(" ", "").partition("->")
    terms: list[list[str]] = []
    for term, shape in zip(left.split(","), shapes, strict=True):
        before, dots, after = term.partition("...")
        hidden = len(shape) - len(before) - len(after) if dots else 0
        terms.append([*before, *(f"dim -{i}" for i in range(hidden, 0, -1)), *after])
    flat = [label for labels in terms for label in labels]
    ellipsis = {label for label in flat if len(label) > 1}
    if arrow:
        kept = set(right.replace("...", "")) | (ellipsis if "..." in right else set())
    else:
        kept = {label for label in flat if flat.count(label) == 1} | ellipsis
    sizes: dict[str, int] = {}
    for labels, shape in zip(terms, shapes, strict=True):
        for label, size in zip(labels, shape, strict=True):
            sizes[label] = max(sizes.get(label, 1), size)
    return terms, kept, sizes


def _einsum(view: NodeView) -> int:
    """Return the FLOP of contracting operands pair by pair from the left.

    A pair takes one product per combination of its indices, and one sum if an index ends there; a
    single operand takes only sums.
    """
    terms, kept, sizes = _labels(view)
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


def _einsum_product(view: NodeView) -> Product | None:
    """Return the product of two operands: common indices are groups, or depth if contracted."""
    if len(view.node.inputs) != 2:
        return None
    terms, kept, sizes = _labels(view)
    left, right = (set(labels) for labels in terms)
    both = left & right

    def count(labels: set[str]) -> int:
        return math.prod(sizes[label] for label in labels)

    return _matrices(
        _form(view, 0, 1),
        count(left - right),
        count(right - left),
        count(both - kept),
        count(both & kept),
    )


_CAUSAL = Rule("conv", _causal_conv, product=_causal_product)
_QUANTIZED = _conv(weight=3, added=(8,), requantize=REQUANTIZE, integer_input=0)
_MATMUL = _matmul()

RULES: Mapping[str, Rule] = {
    "Conv": _conv(added=(2,)),
    "ConvInteger": _conv(integer_input=0),
    "QLinearConv": _QUANTIZED,
    "ConvTranspose": _conv_transpose(bias=2),
    "DeformConv": Rule("conv", _deform_conv, product=_conv().product),
    "CausalConvWithState": _CAUSAL,
    "Gemm": _gemm(),
    "MatMul": _MATMUL,
    "MatMulInteger": _matmul(integer_input=0),
    "QLinearMatMul": _matmul(requantize=REQUANTIZE, integer_input=0, right=3),
    "Einsum": Rule("matmul", _einsum, product=_einsum_product),
    "com.microsoft:FusedConv": _conv(added=(2, 3)),
    "com.microsoft:NhwcConv": _conv(added=(2,)),
    "com.microsoft:NhwcFusedConv": _conv(added=(2, 3)),
    "com.microsoft:QLinearConv": _QUANTIZED,
    "com.microsoft:ConvTransposeWithDynamicPads": _conv_transpose(bias=3),
    "com.microsoft:CausalConvWithState": _CAUSAL,
    "com.microsoft:FusedGemm": _gemm(),
    "com.microsoft:QGemm": _gemm(c=6, requantize=REQUANTIZE, right=3),
    "com.microsoft:FusedMatMul": _MATMUL,
    "com.microsoft:TransposeMatMul": _MATMUL,
    "com.microsoft:FusedMatMulActivation": _MATMUL,
    "com.microsoft:MatMulIntegerToFloat": _matmul(added=(6,), requantize=1, integer_input=0),
    "com.microsoft:DynamicQuantizeMatMul": replace(
        _MATMUL,
        flops=lambda view: (
            6 * view.elements(0) + (2 * view.shape(0)[-1] + 1 + view.has(4)) * view.out_elements()
        ),
        integer_input=1,
    ),
    "com.microsoft:MatMulNBits": Rule(
        "matmul",
        # After each weight is scaled and shifted; some kernels skip the latter.
        lambda view: _least_nbits(view) + 2 * view.integer("K", 0) * view.integer("N", 0),
        least=_least_nbits,
        dtype=lambda view: (
            "int8" if view.integer("accuracy_level", 0) == _INT8_ACTIVATIONS else None
        ),
        product=_product_nbits,
    ),
}
