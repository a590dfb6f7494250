"""Which product a node computes, and of what sizes: what the speed of a kernel depends on.

A convolution and a matrix product are both ``groups`` products of ``rows`` x ``depth`` by
``depth`` x ``columns``. FLOPs alone do not tell a depthwise convolution from a dense one, nor a
batch of one from one of 64; these sizes do.

Source: im2col, as in K. Chellapilla, S. Puri, P. Simard, High Performance Convolutional Neural
Networks for Document Processing, IWFHR 2006, section 2.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from hetsim.errors import ModelError
from hetsim.graph.graph import Graph, Node
from hetsim.graph.work.attention_recurrence import PRODUCTS as ATTENTION_RECURRENCE
from hetsim.graph.work.product import Product
from hetsim.graph.work.products import labels_of
from hetsim.graph.work.rule import NodeView, op_key


def product_of(graph: Graph, node: Node) -> Product | None:
    """Return the product that `node` computes; None where its op is not one. O(rank).

    Raises
    ------
    UnboundDimension
        Where a shape is not known in numbers.
    ModelError
        Where the shapes do not fit the op.
    """
    measure = PRODUCTS.get(op_key(node))
    if measure is None:
        return None
    try:
        return measure(NodeView(graph, node))
    except (ArithmeticError, LookupError, ValueError) as error:
        raise ModelError(
            f"the shapes of its operands do not fit {node.op_type}",
            where=f"node '{node.name}'",
            hint="check the model with onnx.checker",
        ) from error


def as_product(view: NodeView, form: str, flops: int) -> Product:
    """Return a product of that many FLOP, for what is one of sizes that are not told.

    Each element of the result is as deep a sum as that takes.
    """
    out = max(1, view.out_elements())
    shape = view.graph.tensors[view.node.writes[0]].static_shape if view.node.writes else ()
    columns = max(1, shape[-1]) if shape else 1
    return Product(form, out // columns, columns, max(1, flops // (2 * out)), 1)


def _conv(weight: int = 1) -> Callable[[NodeView], Product]:
    def measure(view: NodeView) -> Product:
        channels, depth, *window = view.shape(weight)
        groups = view.integer("group", 1)
        operand = view.elements()
        form = "pointwise" if math.prod(window) == 1 else "dense"
        if groups > 1:
            form = "depthwise" if depth == 1 else "grouped"
        elif form == "dense" and _one_window(view, operand, depth, window):
            form = "matmul"
        rows = view.out_elements() // channels
        return Product(
            form=form,
            rows=rows,
            columns=channels // groups,
            depth=depth * math.prod(window),
            groups=groups,
            window=tuple(window),
            strides=view.integers("strides") or (1,) * len(window),
            dilations=view.integers("dilations") or (1,) * len(window),
            operand_elements=operand,
            positions=rows // max(1, view.shape(0)[0]),
        )

    return measure


def _one_window(view: NodeView, operand: int, depth: int, window: list[int]) -> bool:
    """Whether each sample is one window, padding aside: each weight is used once for it."""
    return operand == view.shape(0)[0] * depth * math.prod(window) and not any(
        view.integers("pads")
    )


def _conv_transpose(view: NodeView) -> Product:
    """The product whose results are then added up where their windows overlap."""
    depth, columns, *window = view.shape(1)
    groups = view.integer("group", 1)
    return Product(
        form="transposed",
        rows=view.elements() // depth,
        columns=columns * math.prod(window),
        depth=depth // groups,
        groups=groups,
        window=tuple(window),
        strides=view.integers("strides") or (1,) * len(window),
        dilations=view.integers("dilations") or (1,) * len(window),
        operand_elements=view.elements(),
    )


def _causal_conv(view: NodeView) -> Product:
    """Depthwise along time."""
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


def _pool(view: NodeView) -> Product:
    """Each result on its own, of a window of its own."""
    window = view.integers("kernel_shape")
    return Product(
        form="pooling",
        rows=view.out_elements(),
        columns=1,
        depth=math.prod(window),
        groups=1,
        window=window,
        strides=view.integers("strides") or (1,) * len(window),
        dilations=view.integers("dilations") or (1,) * len(window),
        operand_elements=view.elements(),
    )


def _resize(view: NodeView) -> Product:
    """Of each result the elements around it that it is made of, along each dim."""
    taps = _TAPS.get(view.text("mode"), 1)
    return Product(
        form="resize",
        rows=1,
        columns=1,
        depth=1,
        groups=1,
        window=(taps, taps),
        strides=(1, 1),
        dilations=(1, 1),
        operand_elements=view.elements(),
    )


_TAPS: Mapping[str, int] = {"linear": 2, "bilinear": 2, "cubic": 4}


def _form(view: NodeView, left: int, right: int) -> str:
    names = (view.node.inputs[left], view.node.inputs[right])
    stored = any(name in view.graph.constants or name in view.graph.dequantized for name in names)
    return "matmul" if stored else "batched"


def _matrices(form: str, rows: int, columns: int, depth: int, groups: int = 1) -> Product:
    return Product(form, rows, columns, depth, groups, operand_elements=rows * depth * groups)


def _gemm(right: int = 1) -> Callable[[NodeView], Product]:
    def measure(view: NodeView) -> Product:
        rows, columns = view.output().static_shape
        depth = view.shape(0)[0 if view.integer("transA", 0) else 1]
        return _matrices(_form(view, 0, right), rows, columns, depth)

    return measure


def _matmul(right: int = 1) -> Callable[[NodeView], Product]:
    """An operand that all matrices of the other share makes them one product of more rows."""

    def measure(view: NodeView) -> Product:
        a, b = view.shape(0), view.shape(right)
        depth = a[-1]
        if view.integer("transA", 0) and len(a) > 1:
            depth = a[0] if view.integer("transBatchA", 0) else a[-2]
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

    return measure


def _matmul_nbits(view: NodeView) -> Product:
    columns = view.integer("N", 0)
    rows = view.out_elements() // columns
    return _matrices("matmul", rows, columns, view.integer("K", 0))


def _einsum(view: NodeView) -> Product | None:
    """Of two operands: indices of both in the result are groups, of both in none the depth."""
    if len(view.node.inputs) != 2:
        return None
    terms, kept = labels_of(view.text("equation"), [view.shape(0), view.shape(1)])
    sizes: dict[str, int] = {}
    for position, labels in enumerate(terms):
        for label, size in zip(labels, view.shape(position), strict=True):
            sizes[label] = max(sizes.get(label, 1), size)
    left, right = (set(labels) for labels in terms)

    def count(labels: set[str]) -> int:
        return math.prod(sizes[label] for label in labels)

    both = left & right
    return _matrices(
        _form(view, 0, 1),
        count(left - right),
        count(right - left),
        count(both - kept),
        count(both & kept),
    )


_BLOCKED, _CHANNELS_LAST = "com.microsoft.nchwc", "com.ms.internal.nhwc"
_DOMAINS = ("", f"{_BLOCKED}:", f"{_CHANNELS_LAST}:")

PRODUCTS: Mapping[str, Callable[[NodeView], Product | None]] = {
    **ATTENTION_RECURRENCE,
    **{f"{domain}{op}": _pool for domain in _DOMAINS for op in ("AveragePool", "MaxPool")},
    **dict.fromkeys(
        ("LpPool", f"{_CHANNELS_LAST}:LpPool", "com.microsoft:NhwcMaxPool",
         "com.microsoft:QLinearAveragePool"),
        _pool,
    ),
    **dict.fromkeys(("Resize", "Upsample", f"{_CHANNELS_LAST}:Resize"), _resize),
    f"{_BLOCKED}:Conv": _conv(),
    f"{_CHANNELS_LAST}:Conv": _conv(),
    f"{_CHANNELS_LAST}:ConvTranspose": _conv_transpose,
    f"{_CHANNELS_LAST}:QLinearConv": _conv(weight=3),
    "Conv": _conv(),
    "ConvInteger": _conv(),
    "QLinearConv": _conv(weight=3),
    "DeformConv": _conv(),
    "ConvTranspose": _conv_transpose,
    "CausalConvWithState": _causal_conv,
    "Einsum": _einsum,
    "Gemm": _gemm(),
    "MatMul": _matmul(),
    "MatMulInteger": _matmul(),
    "QLinearMatMul": _matmul(right=3),
    "com.microsoft:CausalConvWithState": _causal_conv,
    "com.microsoft:FusedConv": _conv(),
    "com.microsoft:NhwcConv": _conv(),
    "com.microsoft:NhwcFusedConv": _conv(),
    "com.microsoft:QLinearConv": _conv(weight=3),
    "com.microsoft:ConvTransposeWithDynamicPads": _conv_transpose,
    "com.microsoft:FusedGemm": _gemm(),
    "com.microsoft:QGemm": _gemm(right=3),
    "com.microsoft:GemmFastGelu": _matmul(),
    "com.microsoft:GemmFloat8": _gemm(),
    "com.microsoft:MatMulInteger16": _matmul(),
    "com.microsoft:SparseToDenseMatMul": _matmul(),
    "com.microsoft:FusedMatMul": _matmul(),
    "com.microsoft:TransposeMatMul": _matmul(),
    "com.microsoft:FusedMatMulActivation": _matmul(),
    "com.microsoft:MatMulIntegerToFloat": _matmul(),
    "com.microsoft:DynamicQuantizeMatMul": _matmul(),
    "com.microsoft:MatMulNBits": _matmul_nbits,
}  # fmt: skip
"""How the sizes of a product are read off a node, by op as ``op_key`` names it."""
