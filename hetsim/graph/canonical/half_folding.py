"""Constants of 16-bit floats folded: ONNX Runtime leaves those that it has no kernel for."""

from __future__ import annotations

from pathlib import Path

import onnx

from hetsim.errors import ModelError
from hetsim.graph.canonical.fold_limits import too_much
from hetsim.graph.reading.extension import Custom
from hetsim.graph.reading.onnx_runtime import open_session
from hetsim.graph.reading.structure import bodies, constant_names, replace
from hetsim.graph.shapes.data_dependence import RANDOM

_KEPT = frozenset({"DequantizeLinear"})
"""Ops whose constant inputs say more than their result: integers are what devices store."""


def fold_constants(
    proto: onnx.ModelProto, weights_dir: Path | None, where: str, custom: Custom
) -> None:
    """Replace, in place, what is computed of constants alone by what ONNX Runtime computes.

    Nodes must be in topological order. Where the runtime refuses them, or they take
    more than can be had, all stay. O(V + E), and
    the arithmetic.
    """
    graph = proto.graph
    constant = set(constant_names(graph))
    folded: list[onnx.NodeProto] = []
    kept: list[onnx.NodeProto] = []
    for node in graph.node:
        alone = not node.domain and node.op_type not in RANDOM | _KEPT
        given = [name for name in node.input if name]
        if alone and given and constant.issuperset(given) and not bodies(node):
            constant.update(node.output)
            folded.append(node)
        else:
            kept.append(node)
    made = {name for node in folded for name in node.output if name}
    if not folded or any(value.name in made for value in graph.output):
        return
    read = {name for node in kept for name in node.input}
    part = onnx.ModelProto(ir_version=proto.ir_version, opset_import=proto.opset_import)
    part.graph.name = "constants"
    part.graph.node.extend(folded)
    wanted = {name for node in folded for name in node.input}
    part.graph.initializer.extend(t for t in graph.initializer if t.name in wanted)
    if any(bodies(node) for node in kept):
        read |= made
    names = sorted(made & read)
    for name in names:
        part.graph.output.add(name=name)
    if too_much(part, unknown=True):
        return
    try:
        session = open_session(part, weights_dir, "none", where, libraries=custom.libraries)
        values = session.run(names, {})
        tensors = [
            onnx.numpy_helper.from_array(value, name)
            for name, value in zip(names, values, strict=True)
        ]
    except (ModelError, RuntimeError, TypeError, AttributeError):
        return
    replace(graph.node, kept)
    graph.initializer.extend(tensors)
