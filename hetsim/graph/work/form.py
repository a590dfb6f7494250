"""What a node's kernel is: which form, and how many elements pass functions like exp."""

from __future__ import annotations

from collections.abc import Mapping

from hetsim.graph.work.elementwise import TRANSCENDENTAL
from hetsim.graph.work.rule import NodeView

FORMS = (
    "dense", "pointwise", "depthwise", "grouped", "transposed", "matmul", "batched", "recurrent",
    "attention", "normalization", "softmax", "pooling", "reduction", "elementwise", "movement",
    "concat", "transpose", "resize", "gather", "other",
)  # fmt: skip
"""What kernels are told apart by. The first are products, as ``graph.work.geometry`` has them:
convolutions with a window, without one (1x1), one input channel a group, several of them, and
transposed; matrix products by weights, and of two activations; recurrent layers, step by step;
attention as one op. The others are bound by what they move: normalization over channels, softmax,
pooling, reductions, elementwise ops, copies (Slice, Split, Pad, Expand), of several tensors to one
(Concat), in another order (Transpose, DepthToSpace), resampling, indexed reads, and the rest."""

PRODUCTS: Mapping[str, str] = {
    "conv": "matmul", "matmul": "matmul", "attention": "attention", "recurrent": "recurrent",
}  # fmt: skip
"""Classes of ops that are products: the form of those of which no more is known."""

_BY_CLASS: Mapping[str, str] = {
    **PRODUCTS,
    "normalization": "normalization", "softmax": "softmax", "pooling": "pooling",
    "reduction": "reduction", "elementwise": "elementwise", "transcendental": "elementwise",
    "quantize": "elementwise", "data_movement": "movement", "resize": "resize",
    "gather_scatter": "gather", "control_flow": "other", "other": "other",
}  # fmt: skip

_NHWC = "com.ms.internal.nhwc"
_BY_OP: Mapping[str, str] = {
    **dict.fromkeys(("Concat", "com.microsoft:QLinearConcat"), "concat"),
    **dict.fromkeys(
        ("Transpose", "DepthToSpace", "SpaceToDepth", f"{_NHWC}:DepthToSpace",
         f"{_NHWC}:SpaceToDepth", "com.microsoft.nchwc:ReorderInput",
         "com.microsoft.nchwc:ReorderOutput"),
        "transpose",
    ),
    # Two numbers a channel: nothing is added up.
    **dict.fromkeys(("BatchNormalization", f"{_NHWC}:BatchNormalization"), "elementwise"),
    # Most of it is the rows that it reads.
    **dict.fromkeys(
        ("com.microsoft:EmbedLayerNormalization", "com.microsoft:QEmbedLayerNormalization"),
        "gather",
    ),
    "com.microsoft:RelativePositionBias": "gather",
}  # fmt: skip
"""Ops whose form their class does not tell."""

_SIMPLE_POWERS = frozenset({-1.0, 1.0, 2.0, 3.0})
"""Exponents that kernels know as products or a division."""

_SILU = frozenset({"SiLU", "silu", "swish"})


def form_of(key: str, op_class: str) -> str:
    """Return the form of an op that is no product, as ``op_key`` names it."""
    return _BY_OP.get(key) or _BY_CLASS[op_class]


def exp_elements(view: NodeView, key: str, op_class: str) -> int:
    """Count elements that pass a function like exp, as an op of their own or within one."""
    if op_class == "transcendental":
        simple = key == "Pow" and view.one_number(1) in _SIMPLE_POWERS
        return 0 if simple else view.out_elements()
    if op_class in PRODUCTS and op_class != "recurrent":
        name = view.text("activation")
        within = key in _WITH_ACTIVATION or name in TRANSCENDENTAL or name in _SILU
        return view.out_elements() if within else 0
    if key in _WITH_POWER:
        return view.out_elements()
    return 0


_WITH_POWER = frozenset({"LRN", "com.ms.internal.nhwc:LRN"})
"""Normalizations that divide by a broken power of a sum, one an element."""

_WITH_ACTIVATION = frozenset({"com.microsoft:GemmFastGelu", "com.microsoft:MatMulNBitsMlp"})
