"""Values of a graph under other names, also where bodies in it read them."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from hetsim.graph.reading.structure import bodies, constant_names


def rename_values(graph: onnx.GraphProto, renamed: Mapping[str, str]) -> None:
    """Rename, in place, the constants of a graph and what its nodes write; inputs stay.

    A body that has a value of its own under an old name keeps it. O(values, by depth).
    """
    for tensor in graph.initializer:
        tensor.name = renamed.get(tensor.name, tensor.name)
    for sparse in graph.sparse_initializer:
        sparse.values.name = renamed.get(sparse.values.name, sparse.values.name)
    for node in graph.node:
        for names in (node.input, node.output):
            for port, name in enumerate(names):
                names[port] = renamed.get(name, name)
        for body in bodies(node):
            own = {value.name for value in body.input} | constant_names(body).keys()
            own.update(name for inner in body.node for name in inner.output)
            rename_values(body, {old: new for old, new in renamed.items() if old not in own})
    for values in (graph.output, graph.value_info):
        for value in values:
            value.name = renamed.get(value.name, value.name)
