"""Tree ensembles as inference may see them: the types of their outputs without their trees.

ONNX has no inference for the ensembles of ``ai.onnx.ml`` before operator set 5, and a session of
ONNX Runtime, which knows their types, takes seconds for a large one.
"""

from __future__ import annotations

from itertools import count

import onnx
from onnx import TensorProto, helper

_CLASSIFIER, _REGRESSOR = "TreeEnsembleClassifier", "TreeEnsembleRegressor"


def is_ensemble(node: onnx.NodeProto) -> bool:
    """Whether it is an ensemble that ONNX cannot infer."""
    return node.domain == "ai.onnx.ml" and node.op_type in (_CLASSIFIER, _REGRESSOR)


def add_stand_in(graph: onnx.GraphProto, node: onnx.NodeProto) -> None:
    """Add nodes of standard ops that write what `node` writes, of the same types and shapes.

    A classifier of E classes writes a label a sample, [N], and scores [N, E]; a regressor of T
    targets [N, T] (``ai.onnx.ml``, TreeEnsembleClassifier and TreeEnsembleRegressor). Nothing
    is added where the number of columns is not stated. O(1).
    """
    attributes = {attribute.name: attribute for attribute in node.attribute}
    texts = attributes.get("classlabels_strings")
    numbers = attributes.get("classlabels_int64s")
    if node.op_type == _CLASSIFIER:
        columns = len(texts.strings) if texts is not None else 0
        columns = columns or (len(numbers.ints) if numbers is not None else 0)
        label, scores = [*node.output, "", ""][:2]
    else:
        targets = attributes.get("n_targets")
        columns = targets.i if targets is not None else 0
        label, scores = "", node.output[0]
    if columns < 1:
        return
    taken = {name for other in (*graph.node, node) for name in (*other.input, *other.output)}
    fresh = (name for n in count() if (name := f"{node.name}/{n}") not in taken)
    first, column, repeats, index = (next(fresh) for _ in range(4))
    # One number a sample, as many times as there are columns: [N, F] to [N, 1] to [N, columns].
    # ArgMax, Cast and Tile are the same in all operator sets.
    graph.node.append(helper.make_node("ArgMax", [node.input[0]], [first], axis=1, keepdims=1))
    graph.node.append(helper.make_node("Cast", [first], [column], to=TensorProto.FLOAT))
    graph.initializer.append(helper.make_tensor(repeats, TensorProto.INT64, [2], [1, columns]))
    if scores:
        graph.node.append(helper.make_node("Tile", [column, repeats], [scores]))
    if label:
        kind = TensorProto.STRING if texts is not None and texts.strings else TensorProto.INT64
        graph.node.append(helper.make_node("ArgMax", [node.input[0]], [index], axis=1, keepdims=0))
        graph.node.append(helper.make_node("Cast", [index], [label], to=kind))
