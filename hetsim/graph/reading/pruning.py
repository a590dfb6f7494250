"""What no output of a model depends on, taken out of it."""

from __future__ import annotations

import onnx

from hetsim.graph.reading.structure import bodies, captures, replace


def prune(proto: onnx.ModelProto) -> None:
    """Drop, in place, what does not count for the outputs. O(V + E).

    These are nodes that no output depends on, optional outputs and constants that nobody
    reads, and imports of domains without a node. Nodes must be in topological order.
    """
    graph = proto.graph
    read = {value.name for value in graph.output}
    alive: list[onnx.NodeProto] = []
    for node in reversed(graph.node):
        if read.intersection(name for name in node.output if name):
            alive.append(node)
            read.update(node.input)
            read.update(captures(node))
    if len(alive) != len(graph.node):
        replace(graph.node, alive[::-1])
    versions = {entry.domain: entry.version for entry in proto.opset_import}
    for node in graph.node:
        _drop_outputs(node, read, versions.get(node.domain, 1))
    if any(tensor.name not in read for tensor in graph.initializer):
        replace(graph.initializer, [t for t in graph.initializer if t.name in read])
    kept = [s for s in graph.sparse_initializer if s.values.name in read]
    if len(kept) != len(graph.sparse_initializer):
        replace(graph.sparse_initializer, kept)
    used = _domains(proto)
    replace(proto.opset_import, [entry for entry in proto.opset_import if entry.domain in used])


def _drop_outputs(node: onnx.NodeProto, read: set[str], version: int) -> None:
    """Without its name an optional output (a Dropout's mask) is not computed at all."""
    unread = [i for i, name in enumerate(node.output) if name and name not in read]
    if not unread:
        return
    try:
        declared = onnx.defs.get_schema(node.op_type, version, node.domain).outputs
    except onnx.defs.SchemaError:
        return
    for i in unread:
        if (
            i < len(declared)
            and declared[i].option == onnx.defs.OpSchema.FormalParameterOption.Optional
        ):
            node.output[i] = ""
    while node.output and not node.output[-1]:
        node.output.pop()


def _domains(proto: onnx.ModelProto) -> set[str]:
    """Domains in use. ONNX Runtime's saved models import every one that it knows."""
    used = {""}
    pending = [proto.graph]
    while pending:
        for node in pending.pop().node:
            used.add(node.domain)
            pending.extend(bodies(node))
    for function in proto.functions:
        used.update(entry.domain for entry in function.opset_import)
        used.update((function.domain, *(node.domain for node in function.node)))
    return used
