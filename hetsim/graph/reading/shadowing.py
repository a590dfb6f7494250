"""Values of bodies that bear the name of one outside: each gets a name of its own."""

from __future__ import annotations

from collections.abc import Collection

import onnx

from hetsim.graph.reading.renaming import rename_values
from hetsim.graph.reading.structure import bodies, constant_names


def unshadow(graph: onnx.GraphProto, outer: Collection[str] = ()) -> None:
    """Rename, in place, what bodies write under a name that is taken outside of them.

    ONNX Runtime saves such models, and then refuses them. O(values of the graph and of the
    bodies, by depth).
    """
    taken = {*outer, *(value.name for value in graph.input), *constant_names(graph)}
    taken.update(name for node in graph.node for name in node.output)
    for node in graph.node:
        for body in bodies(node):
            own = {name for inner in body.node for name in inner.output if name}
            clashes = sorted(own & taken)
            if clashes:
                used = taken | own
                renamed: dict[str, str] = {}
                for name in clashes:
                    renamed[name] = name
                    while renamed[name] in used:
                        renamed[name] += "_"
                    used.add(renamed[name])
                rename_values(body, renamed)
            unshadow(body, taken)
