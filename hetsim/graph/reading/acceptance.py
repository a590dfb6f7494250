"""Does ONNX Runtime read a large model? Asked of one part after the other.

What it needs to open a session grows faster than linearly with the nodes and constants in it: parts
of some thousands take a fraction of the time of the whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx

from hetsim.graph.reading.onnx_runtime import probe_types
from hetsim.graph.reading.structure import captures

PART = 5_000
"""Nodes of a part."""


def check_in_parts(
    proto: onnx.ModelProto,
    weights_dir: Path | None,
    known: Mapping[str, onnx.TypeProto],
    where: str,
    libraries: Sequence[str] = (),
) -> None:
    """Raise ModelError where ONNX Runtime refuses any part of the model.

    `known` has the type of each value that a node writes; what a part reads of another is its
    input. Nodes must be in topological order. O(V + E) and a session for each PART nodes.
    """
    graph = proto.graph
    types = {**known, **{value.name: value.type for value in graph.input}}
    stored = {tensor.name: tensor for tensor in graph.initializer}
    sparse = {one.values.name: one for one in graph.sparse_initializer}
    for start in range(0, len(graph.node), PART):
        nodes = graph.node[start : start + PART]
        part = onnx.ModelProto(ir_version=proto.ir_version)
        part.opset_import.extend(proto.opset_import)
        part.functions.extend(proto.functions)
        part.graph.name = graph.name or "part"
        part.graph.node.extend(nodes)
        read = dict.fromkeys(n for node in nodes for n in (*node.input, *captures(node)) if n)
        written = dict.fromkeys(name for node in nodes for name in node.output if name)
        for name in read:
            if name in stored:
                part.graph.initializer.append(stored[name])
            elif name in sparse:
                part.graph.sparse_initializer.append(sparse[name])
            elif name not in written:
                part.graph.input.add(name=name).type.CopyFrom(types[name])
        for name in written:
            if name not in read:
                part.graph.output.add(name=name).type.CopyFrom(types[name])
        probe_types(part, weights_dir, (), where, libraries)
