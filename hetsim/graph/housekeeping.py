"""Nodes without compute: identities, and reshapes of what is stored with the model."""

from __future__ import annotations

from collections.abc import Collection

from hetsim.graph.graph import Graph
from hetsim.graph.work import op_key

ALWAYS = frozenset({"Identity"})
"""Op types that move nothing and compute nothing."""

OF_CONSTANTS = frozenset(
    {"Cast", "Flatten", "Reshape", "Shape", "Size", "Squeeze", "Transpose", "Unsqueeze"}
)
"""Op types that are housekeeping where all that they read is constant."""


def housekeeping_nodes(graph: Graph, ops: Collection[str] = ()) -> frozenset[int]:
    """Find identities, reshapes of constants, and nodes of the op types `ops`. O(V + E)."""
    found: set[int] = set()
    constant = set(graph.constants)
    for node in graph.nodes:
        op = op_key(node)
        if op in ALWAYS or op in ops or (op in OF_CONSTANTS and constant.issuperset(node.reads)):
            found.add(node.id)
        if (op in ALWAYS or op in OF_CONSTANTS) and constant.issuperset(node.reads):
            constant.update(node.writes)
    return frozenset(found)
