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
from dataclasses import dataclass

from hetsim.errors import ModelError
from hetsim.graph.graph import Graph, Node
from hetsim.graph.work import op_key
from hetsim.graph.work.rule import NodeView

FORMS = ("dense", "pointwise", "depthwise", "grouped", "transposed", "matmul", "batched")
"""Kinds of products. Convolutions: with a window, without one (1x1), one input channel a group,
several of them, and transposed. Matrix products: by weights, and of two activations."""


@dataclass(frozen=True, slots=True)
class Product:
    """The product that a node computes, biases and activations left out.

    Attributes
    ----------
    form : str
        One of `FORMS`.
    rows : int
        Positions that share the weights of a group: batch times what is computed at each place.
    columns : int
        Results at each of them, a group: output channels.
    depth : int
        Terms of each sum: input channels a group, times the window.
    groups : int
        Products of that size, each with operands of its own.
    window, strides, dilations : tuple of int
        Of a convolution, a spatial dim each; empty for a matrix product.
    """

    form: str
    rows: int
    columns: int
    depth: int
    groups: int
    window: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all groups; each is 2 FLOP."""
        return self.rows * self.columns * self.depth * self.groups


def product_of(graph: Graph, node: Node) -> Product | None:
    """Return the product that `node` computes; None where its op is not one. O(rank).

    Raises
    ------
    UnboundDimension
        Where a shape is not known in numbers.
    ModelError
        Where the shapes do not fit the op.
    """
    measure = _PRODUCTS.get(op_key(node))
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


def measured_ops() -> tuple[str, ...]:
    """Return the op types that `product_of` measures, sorted, domain first as ``op_key`` has it."""
    return tuple(sorted(_PRODUCTS))


def _conv(weight: int = 1) -> Callable[[NodeView], Product]:
    def measure(view: NodeView) -> Product:
        channels, depth, *window = view.shape(weight)
        groups = view.integer("group", 1)
        form = "pointwise" if math.prod(window) == 1 else "dense"
        if groups > 1:
            form = "depthwise" if depth == 1 else "grouped"
        return Product(
            form=form,
            rows=view.out_elements() // channels,
            columns=channels // groups,
            depth=depth * math.prod(window),
            groups=groups,
            window=tuple(window),
            strides=view.integers("strides") or (1,) * len(window),
            dilations=view.integers("dilations") or (1,) * len(window),
        )

    return measure


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
    )


def _form(view: NodeView, left: int, right: int) -> str:
    names = (view.node.inputs[left], view.node.inputs[right])
    stored = any(name in view.graph.constants or name in view.graph.dequantized for name in names)
    return "matmul" if stored else "batched"


def _gemm(right: int = 1) -> Callable[[NodeView], Product]:
    def measure(view: NodeView) -> Product:
        rows, columns = view.output().static_shape
        depth = view.shape(0)[0 if view.integer("transA", 0) else 1]
        return Product(_form(view, 0, right), rows, columns, depth, 1)

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
            return Product(form, groups * rows, columns, depth, 1)
        if math.prod(a) == depth * rows:
            return Product(form, groups * columns, rows, depth, 1)
        return Product(form, rows, columns, depth, groups)

    return measure


def _matmul_nbits(view: NodeView) -> Product:
    columns = view.integer("N", 0)
    rows = view.out_elements() // columns
    return Product("matmul", rows, columns, view.integer("K", 0), 1)


_PRODUCTS: Mapping[str, Callable[[NodeView], Product]] = {
    "Conv": _conv(),
    "ConvInteger": _conv(),
    "QLinearConv": _conv(weight=3),
    "DeformConv": _conv(),
    "ConvTranspose": _conv_transpose,
    "Gemm": _gemm(),
    "MatMul": _matmul(),
    "MatMulInteger": _matmul(),
    "QLinearMatMul": _matmul(right=3),
    "com.microsoft:FusedConv": _conv(),
    "com.microsoft:NhwcConv": _conv(),
    "com.microsoft:NhwcFusedConv": _conv(),
    "com.microsoft:QLinearConv": _conv(weight=3),
    "com.microsoft:ConvTransposeWithDynamicPads": _conv_transpose,
    "com.microsoft:FusedGemm": _gemm(),
    "com.microsoft:QGemm": _gemm(right=3),
    "com.microsoft:FusedMatMul": _matmul(),
    "com.microsoft:TransposeMatMul": _matmul(),
    "com.microsoft:FusedMatMulActivation": _matmul(),
    "com.microsoft:MatMulIntegerToFloat": _matmul(),
    "com.microsoft:DynamicQuantizeMatMul": _matmul(),
    "com.microsoft:MatMulNBits": _matmul_nbits,
}
