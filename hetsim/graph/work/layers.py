"""Rules of normalization, pooling, reduction and softmax."""

from __future__ import annotations

import math
from collections.abc import Mapping

from hetsim.graph.work.elementwise import EXP, LOG, POW, SIGMOID, SQRT
from hetsim.graph.work.rule import NodeView, Rule, moved_bytes, per_input, per_output

STANDARDIZE = 5
"""FLOP an element of mean (1), deviation (1), variance (2) and division by its root (1)."""


def _batch_norm(view: NodeView) -> int:
    """One product and one sum an element: a channel's four numbers fold into two."""
    training = STANDARDIZE if view.integer("training_mode", 0) else 0
    return (2 + training) * view.elements()


def _norm(weight: int, added: tuple[int, ...]) -> Rule:
    def flops(view: NodeView) -> int:
        return (weight + sum(view.has(position) for position in added)) * view.elements()

    return Rule("normalization", flops)


def _lrn(view: NodeView) -> int:
    """Square, a sum over `size` channels, scale, shift, power, division."""
    return (view.integer("size", 1) + 3 + POW + 1) * view.elements()


def _group_norm(view: NodeView) -> int:
    fused = SIGMOID + 1 if view.integer("activation", 0) else 0
    skip = view.node.op_type == "SkipGroupNorm"
    return (STANDARDIZE + 2 + fused + (skip and 1 + view.has(4))) * view.elements()


def _embed_norm_flops(view: NodeView) -> int:
    tables = 2 + view.has(4)
    return (tables - 1 + STANDARDIZE + 2) * view.out_elements()


def _embed_norm_bytes(view: NodeView) -> tuple[int, int, int]:
    """Of each table only the rows that the ids name are read."""
    rows = view.output().nbytes
    touched = {p: min(rows, view.input(p).nbytes) for p in (2, 3, 4) if view.has(p)}
    return moved_bytes(view, touched)


def _pool(view: NodeView) -> int:
    """One sum or comparison for every element of the window, padding included."""
    return math.prod(view.integers("kernel_shape")) * view.out_elements()


def _lp_root(view: NodeView) -> int:
    return 0 if view.integer("p", 2) == 1 else SQRT if view.integer("p", 2) == 2 else POW


def _lp_term(view: NodeView) -> int:
    return 2 if view.integer("p", 2) <= 2 else 2 + POW


def _lp_pool(view: NodeView) -> int:
    window = math.prod(view.integers("kernel_shape"))
    return (_lp_term(view) * window + _lp_root(view)) * view.out_elements()


def _global_lp_pool(view: NodeView) -> int:
    return _lp_term(view) * view.elements() + _lp_root(view) * view.out_elements()


def _lp_norm(view: NodeView) -> int:
    return 3 * view.elements()


def _roi_pool(view: NodeView) -> int:
    """At most: how many elements a region spans is known only in a run."""
    _, channels, height, width = view.shape(0)
    return view.shape(1)[0] * channels * height * width


def _reduce(weight: int, weight_out: int = 0) -> Rule:
    """`weight` FLOP an element that is read, `weight_out` an element that results."""

    def flops(view: NodeView) -> int:
        return weight * view.elements() + weight_out * view.out_elements()

    return Rule("reduction", flops)


def _top_k(view: NodeView) -> int:
    """A heap of k: one comparison an element and level."""
    axis = view.integer("axis", -1)
    k = view.output().static_shape[axis]
    return view.elements() * max(1, (k - 1).bit_length())


def _unique(view: NodeView) -> int:
    """A sort: one comparison an element and level."""
    return view.elements() * max(1, (view.elements() - 1).bit_length())


def _softmax(extra: int) -> Rule:
    """Maximum, difference, exponential, sum, division: each an element."""
    return Rule("softmax", lambda view: (EXP + 4 + extra) * view.out_elements())


def _log_softmax(view: NodeView) -> int:
    """As softmax, with a difference for the division and a logarithm a row."""
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
    """Log-softmax of the scores, then weight and sum of one an example."""
    examples = view.elements(1)
    return (EXP + 4) * view.elements() + (LOG + 2) * examples


def _loss_bytes(view: NodeView) -> tuple[int, int, int]:
    picked = view.elements(1) * view.input(0).nbytes // max(1, view.elements())
    return moved_bytes(view, {0: picked})


def _mean_variance(view: NodeView) -> int:
    return STANDARDIZE * view.elements()


RULES: Mapping[str, Rule] = {
    "BatchNormalization": Rule("normalization", _batch_norm),
    "GroupNormalization": _norm(STANDARDIZE + 2, ()),
    "InstanceNormalization": _norm(STANDARDIZE + 2, ()),
    "LayerNormalization": _norm(STANDARDIZE + 1, (2,)),
    "LpNormalization": Rule("normalization", _lp_norm),
    "LRN": Rule("normalization", _lrn),
    "MeanVarianceNormalization": Rule("normalization", _mean_variance),
    "RMSNormalization": _norm(4, ()),
    "SimplifiedLayerNormalization": _norm(4, ()),
    "com.microsoft:SkipLayerNormalization": _norm(STANDARDIZE + 2, (3, 4)),
    "com.microsoft:SkipSimplifiedLayerNormalization": _norm(5, (3,)),
    "com.microsoft:EmbedLayerNormalization": Rule(
        "normalization", _embed_norm_flops, _embed_norm_bytes
    ),
    "com.microsoft:GroupNorm": Rule("normalization", _group_norm),
    "com.microsoft:SkipGroupNorm": Rule("normalization", _group_norm),
    "AveragePool": Rule("pooling", _pool),
    "MaxPool": Rule("pooling", _pool),
    "LpPool": Rule("pooling", _lp_pool),
    "GlobalAveragePool": per_input("pooling", 1),
    "GlobalMaxPool": per_input("pooling", 1),
    "GlobalLpPool": Rule("pooling", _global_lp_pool),
    "MaxRoiPool": Rule("pooling", _roi_pool, least=lambda view: 0),
    "com.microsoft:NhwcMaxPool": Rule("pooling", _pool),
    "ArgMax": _reduce(1),
    "ArgMin": _reduce(1),
    "CumProd": _reduce(1),
    "CumSum": _reduce(1),
    "ReduceL1": _reduce(2),
    "ReduceL2": _reduce(2, SQRT),
    "ReduceLogSum": _reduce(1, LOG),
    "ReduceLogSumExp": _reduce(EXP + 3, LOG + 1),
    "ReduceMax": _reduce(1),
    "ReduceMean": _reduce(1, 1),
    "ReduceMin": _reduce(1),
    "ReduceProd": _reduce(1),
    "ReduceSum": _reduce(1),
    "ReduceSumSquare": _reduce(2),
    "TopK": Rule("reduction", _top_k),
    "Unique": Rule("reduction", _unique),
    "Hardmax": per_output("softmax", 2),
    "LogSoftmax": Rule("softmax", _log_softmax),
    "Softmax": _softmax(0),
    "com.microsoft:BiasSoftmax": _softmax(1),
    "SoftmaxCrossEntropyLoss": Rule("softmax", _cross_entropy),
    "NegativeLogLikelihoodLoss": Rule("reduction", lambda view: 2 * view.elements(1), _loss_bytes),
}
