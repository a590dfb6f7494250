"""Rules of ``ai.onnx.ml``: trees, linear models, support vectors, scalers and encoders.

Their numbers are stored in attributes. A sample walks each tree from its root to a leaf: two
operations per node, at most as many nodes as the tree is deep, at least as many as to its nearest
leaf; and only the stored nodes on the path are read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.graph.reading.onnx_types import are, ints_of
from hetsim.graph.work.elementwise import EXP, POW, SIGMOID, TANH
from hetsim.graph.work.movement import reads_what_it_writes
from hetsim.graph.work.rule import NodeView, Rule, moved_bytes, no_bytes, per_output

Ints = NDArray[np.int64]

NODE_BYTES = 16
"""Bytes of a node on the path of a sample: threshold, feature, and positions of its children."""

_AT_A_NODE = 2
"""Operations per node: a comparison and the step to a child."""


@dataclass(frozen=True, slots=True)
class Forest:
    """Size of an ensemble: its trees, and the sums of their depths in nodes."""

    trees: int
    deepest: int
    nearest: int


def forest(view: NodeView) -> Forest:
    """Return the size of the ensemble of a node, cached with the graph. O(tree nodes)."""
    known: Any = view.graph.kept.get(key := f"forest {view.node.id}")
    if known is None:
        known = view.graph.kept[key] = _forest(view)
    found: Forest = known
    return found


def _forest(view: NodeView) -> Forest:
    if "tree_roots" in view.node.attributes:
        return _linked(view)
    trees, ids = _ints(view, "nodes_treeids"), _ints(view, "nodes_nodeids")
    if not len(trees):
        return Forest(0, 0, 0)
    leaves = are(view.node.attributes, "nodes_modes", "LEAF")
    _, tree = np.unique(trees, return_inverse=True)
    width = int(ids.max()) + 1
    keys = tree.astype(np.int64) * width + ids
    order = np.argsort(keys, kind="stable")
    ascending = keys[order]

    def row(children: Ints) -> Ints:
        found = np.searchsorted(ascending, tree * width + children)
        return order[np.minimum(found, len(order) - 1)]

    children = np.stack(
        [row(_ints(view, "nodes_truenodeids")), row(_ints(view, "nodes_falsenodeids"))]
    )
    pointed = np.zeros(len(keys), dtype=bool)
    pointed[children[:, ~leaves].ravel()] = True
    return _measured(np.flatnonzero(~pointed), leaves, children, tree)


def _measured(roots: Ints, leaves: NDArray[np.bool_], children: Ints, tree: Ints) -> Forest:
    count = int(tree.max()) + 1
    deepest, nearest = np.zeros(count, np.int64), np.zeros(count, np.int64)
    level, depth = roots, 0
    # More nodes on a level than exist: the pointers are not a forest.
    while 0 < len(level) <= len(leaves) and depth <= len(leaves):
        at_leaf = level[leaves[level]]
        deepest[tree[at_leaf]] = depth
        first = tree[at_leaf]
        nearest[first[nearest[first] == 0]] = depth
        level = children[:, level[~leaves[level]]].ravel()
        depth += 1
    return Forest(len(roots), int(deepest.sum()), int(nearest.sum()))


def _linked(view: NodeView) -> Forest:
    """Return the forest of operator set 5: branches point to branches, or by a flag to leaves."""
    roots = _ints(view, "tree_roots")
    to = np.stack([_ints(view, "nodes_truenodeids"), _ints(view, "nodes_falsenodeids")])
    ends = np.stack([_ints(view, "nodes_trueleafs"), _ints(view, "nodes_falseleafs")]) != 0
    deepest = np.zeros(len(roots), np.int64)
    nearest = np.zeros(len(roots), np.int64)
    level, owner, depth = roots, np.arange(len(roots)), 0
    while len(level) and depth <= to.shape[1]:
        depth += 1
        stops, goes = ends[:, level], to[:, level]
        done = np.unique(np.concatenate([owner[stop] for stop in stops]))
        deepest[done] = depth
        nearest[done[nearest[done] == 0]] = depth
        owner = np.concatenate([owner[~stop] for stop in stops])
        level = np.concatenate([go[~stop] for go, stop in zip(goes, stops, strict=True)])
    return Forest(len(roots), int(deepest.sum()), int(nearest.sum()))


def _ints(view: NodeView, name: str) -> Ints:
    return ints_of(view.node.attributes, name)


def _samples(view: NodeView) -> int:
    shape = view.shape(0)
    return shape[0] if len(shape) > 1 else 1


def _trees(view: NodeView, depth: int) -> int:
    """Return the FLOP of a sample in each tree, the sum of leaves, and the transform of scores."""
    scores = view.output(len(view.node.outputs) - 1)
    after = _transformed(view) * scores.elements if scores.dtype.startswith("float") else 0
    return _samples(view) * (_AT_A_NODE * depth + forest(view).trees) + after


def _trees_bytes(view: NodeView) -> tuple[int, int, int]:
    read, constant, written = moved_bytes(view)
    way = forest(view).nearest * NODE_BYTES
    held = sum(tensor.nbytes for tensor in view.node.held)
    return read, constant + min(_samples(view) * way, max(held, way)), written


def _transformed(view: NodeView) -> int:
    """Return the FLOP per score of ``post_transform``."""
    weights = {"LOGISTIC": SIGMOID, "SOFTMAX": EXP + 4, "SOFTMAX_ZERO": EXP + 4, "PROBIT": EXP}
    return weights.get(view.text("post_transform", "NONE"), 0)


def _length(view: NodeView, name: str) -> int:
    value = view.node.attributes.get(name, ())
    return len(value) if hasattr(value, "__len__") else 0


def _linear(view: NodeView) -> int:
    """Return the FLOP of a product of each sample with the coefficients of every output."""
    scores = view.output(len(view.node.outputs) - 1).elements
    products = 2 * _samples(view) * _length(view, "coefficients")
    return products + (1 + _transformed(view)) * scores


_KERNELS: Mapping[str, tuple[int, int]] = {
    "LINEAR": (2, 0), "POLY": (2, POW + 2), "RBF": (3, EXP + 1), "SIGMOID": (2, TANH + 2),
}  # fmt: skip
"""FLOP per element of a support vector, and per vector."""


def _support_vectors(view: NodeView) -> int:
    samples = _samples(view)
    stored = _length(view, "support_vectors")
    coefficients = 2 * samples * _length(view, "coefficients")
    if not stored:
        return coefficients
    each, after = _KERNELS.get(view.text("kernel_type", "LINEAR"), (2, 0))
    vectors = stored // max(1, math.prod(view.shape(0)[1:]))
    return samples * (each * stored + after * vectors) + coefficients


def _stored_bytes(view: NodeView) -> tuple[int, int, int]:
    read, constant, written = moved_bytes(view)
    return read, constant + sum(t.nbytes for t in view.node.held if t.dtype == "float32"), written


_TREES = Rule(
    "other",
    lambda view: _trees(view, forest(view).deepest),
    _trees_bytes,
    least=lambda view: _trees(view, forest(view).nearest),
)
_LINEAR = Rule("matmul", _linear, _stored_bytes)
_VECTORS = Rule("matmul", _support_vectors, _stored_bytes)
_MOVES = Rule("data_movement")

RULES: Mapping[str, Rule] = {
    f"ai.onnx.ml:{op}": rule
    for op, rule in {
        "ArrayFeatureExtractor": Rule("gather_scatter", bytes=reads_what_it_writes),
        "Binarizer": per_output("elementwise", 1),
        "CastMap": per_output("elementwise", 1),
        "CategoryMapper": per_output("gather_scatter", 1),
        "DictVectorizer": _MOVES,
        "FeatureVectorizer": _MOVES,
        "Imputer": per_output("elementwise", 2),
        "LabelEncoder": per_output("gather_scatter", 1),
        "LinearClassifier": _LINEAR,
        "LinearRegressor": _LINEAR,
        "Normalizer": per_output("normalization", 3),
        "OneHotEncoder": per_output("data_movement", 1),
        "SVMClassifier": _VECTORS,
        "SVMRegressor": _VECTORS,
        "Scaler": per_output("elementwise", 2),
        "TreeEnsemble": _TREES,
        "TreeEnsembleClassifier": _TREES,
        "TreeEnsembleRegressor": _TREES,
        "ZipMap": Rule("data_movement", bytes=no_bytes),
    }.items()
}
