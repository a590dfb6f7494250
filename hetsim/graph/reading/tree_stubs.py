"""Tree ensembles as single leaves, where ONNX Runtime is asked for types and nothing is computed.

It builds an ensemble as it opens a session: seconds and several times the file for millions of
tree nodes, none of which changes a type or a shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import onnx

from hetsim.graph.reading.weights_aside import copy_but

LARGE = 2**18
"""Tree nodes from which on it takes longer than a copy of the rest of the model."""

_ENSEMBLES = frozenset({"TreeEnsembleClassifier", "TreeEnsembleRegressor"})
_LISTS = ("nodes_", "target_", "class_")
_ONE = np.zeros(1, np.int64)


def tree_nodes(nodes: Iterable[onnx.NodeProto]) -> int:
    """Tree nodes of the ensembles among `nodes` that ``with_leaves`` knows. O(nodes)."""
    return sum(
        len(attribute.ints)
        for node in nodes
        if node.op_type in _ENSEMBLES
        for attribute in node.attribute
        if attribute.name == "nodes_treeids"
    )


def with_leaves(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A copy whose large ensembles are of one leaf each; `proto` itself where it has none.

    Lists that are not of one length stay, for ONNX Runtime to complain about.
    """
    if tree_nodes(proto.graph.node) < LARGE:
        return proto
    light = onnx.ModelProto()
    copy_but(proto, light, but="graph")
    copy_but(proto.graph, light.graph, but="node")
    for node in proto.graph.node:
        if tree_nodes([node]) and _is_regular(node):
            copy_but(node, light.graph.node.add(), but="attribute")
            light.graph.node[-1].attribute.extend(_leaf(node))
        else:
            light.graph.node.append(node)
    return light


def _is_regular(node: onnx.NodeProto) -> bool:
    lengths: dict[str, set[int]] = {}
    for attribute in node.attribute:
        kind = attribute.name.partition("_")[0] + "_"
        if kind in _LISTS:
            if attribute.HasField("t"):
                return False
            length = max(len(attribute.ints), len(attribute.floats), len(attribute.strings))
            lengths.setdefault(kind, set()).add(length)
    return all(len(found) == 1 for found in lengths.values())


def _leaf(node: onnx.NodeProto) -> Iterator[onnx.AttributeProto]:
    """Attributes of one leaf, with a weight for each target or class that the ensemble has."""
    columns = {
        attribute.name.removesuffix("ids"): np.unique(np.fromiter(attribute.ints, np.int64))
        for attribute in node.attribute
        if attribute.name in ("target_ids", "class_ids")
    }
    for attribute in node.attribute:
        if not attribute.name.startswith(_LISTS):
            yield attribute
            continue
        ids = columns.get(attribute.name.partition("_")[0] + "_", _ONE)
        leaf = onnx.AttributeProto(name=attribute.name, type=attribute.type)
        if attribute.name in ("target_ids", "class_ids"):
            leaf.ints.extend(ids.tolist())
        else:
            leaf.ints.extend([0] * len(ids) * bool(attribute.ints))
        leaf.floats.extend([0.0] * len(ids) * bool(attribute.floats))
        leaf.strings.extend([b"LEAF"] * bool(attribute.strings))
        yield leaf
