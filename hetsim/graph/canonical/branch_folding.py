"""An If whose condition is constant, replaced by the branch that it takes.

ONNX Runtime does so too, and fails on some models whose shapes are bound: it looks into the
branch that is not taken. Here that branch is gone before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from hetsim.graph.canonical.fold_limits import too_much
from hetsim.graph.reading.onnx_runtime import open_session
from hetsim.graph.reading.renaming import rename_values
from hetsim.graph.reading.structure import bodies, constant_names, replace
from hetsim.graph.shapes.data_dependence import RANDOM

_MOST_NODES = 1000
"""Nodes that a condition may take to work out."""


def fold_branches(proto: onnx.ModelProto, where: str, libraries: Sequence[str] = ()) -> bool:
    """Replace each If of the graph whose condition depends on constants alone, in place.

    The nodes of a branch are named ``{If}/{branch}/{node}``. Returns whether there was one.
    O(V + E) a level of nesting.
    """
    folded = False
    while found := _decided(proto, where, libraries):
        folded = True
        taken = {value for node in proto.graph.node for value in (*node.input, *node.output)}
        taken.update(value.name for value in proto.graph.input)
        taken |= constant_names(proto.graph).keys()
        nodes: list[onnx.NodeProto] = []
        for node in proto.graph.node:
            if node.name in found:
                nodes.extend(_branch(proto.graph, node, found[node.name], taken))
            else:
                nodes.append(node)
        replace(proto.graph.node, nodes)
    return folded


def _decided(proto: onnx.ModelProto, where: str, libraries: Sequence[str]) -> dict[str, bool]:
    """Which Ifs have a constant condition, and what it is, by node name."""
    graph = proto.graph
    choices = [node for node in graph.node if node.op_type == "If" and not node.domain]
    if not choices:
        return {}
    stored = {
        tensor.name: tensor
        for tensor in graph.initializer
        if tensor.data_location != onnx.TensorProto.EXTERNAL
    }
    producers = {name: node for node in graph.node for name in node.output if name}
    behind: dict[str, list[str]] = {}
    for node in choices:
        names = _ancestors(node.input[0], producers, stored)
        if names is not None:
            behind[node.input[0]] = names
    if not behind:
        return {}
    needed = {name for names in behind.values() for name in names}
    small = onnx.ModelProto(ir_version=proto.ir_version, opset_import=proto.opset_import)
    small.functions.extend(proto.functions)
    small.graph.name = "conditions"
    small.graph.node.extend(n for n in graph.node if needed.intersection(n.output))
    read = {name for node in small.graph.node for name in node.input} | behind.keys()
    small.graph.initializer.extend(t for name, t in stored.items() if name in read)
    for condition in behind:
        value = onnx.helper.make_tensor_value_info(condition, onnx.TensorProto.BOOL, None)
        small.graph.output.append(value)
    if too_much(small, unknown=True):
        return {}
    session = open_session(small, None, "none", where, libraries=libraries)
    values = dict(zip(behind, session.run(list(behind), {}), strict=True))
    return {
        node.name: bool(np.asarray(values[node.input[0]]).reshape(-1)[0])
        for node in choices
        if node.input[0] in values
    }


def _ancestors(
    name: str, producers: Mapping[str, onnx.NodeProto], stored: Mapping[str, onnx.TensorProto]
) -> list[str] | None:
    """All values behind `name`; None where one of them is not constant."""
    found: dict[str, None] = {}
    pending = [name]
    while pending:
        value = pending.pop()
        if value in found or not value:
            continue
        node = producers.get(value)
        if node is None:
            if value not in stored:
                return None
            continue
        if node.op_type in RANDOM or bodies(node) or len(found) > _MOST_NODES:
            return None
        found.update(dict.fromkeys(name for name in node.output if name))
        pending.extend(node.input)
    return list(found)


def _branch(
    graph: onnx.GraphProto, node: onnx.NodeProto, condition: bool, taken: set[str]
) -> list[onnx.NodeProto]:
    """The nodes that do what `node` does; constants of the branch go to `graph`."""
    attribute = "then_branch" if condition else "else_branch"
    body = onnx.GraphProto()
    body.CopyFrom(next(a.g for a in node.attribute if a.name == attribute))
    prefix = f"{node.name}/{attribute}/"
    inner = constant_names(body).keys() | {n for x in body.node for n in x.output if n}
    renamed: dict[str, str] = {}
    for value, output in zip(body.output, node.output, strict=True):
        if output and value.name in inner and value.name not in renamed:
            renamed[value.name] = output
    for name in sorted(inner - renamed.keys()):
        fresh = name
        while fresh in taken:
            fresh = f"{prefix}{fresh}" if fresh == name else f"{fresh}_"
        taken.add(fresh)
        renamed[name] = fresh
    rename_values(body, renamed)
    for tensor in body.initializer:
        graph.initializer.append(tensor)
    for sparse in body.sparse_initializer:
        graph.sparse_initializer.append(sparse)
    for position, own in enumerate(body.node):
        own.name = prefix + (own.name or f"{own.op_type}_{position}")
    nodes = list(body.node)
    for value, output in zip(body.output, node.output, strict=True):
        if output and value.name != output:
            name = f"{prefix}{output}"
            nodes.append(onnx.helper.make_node("Identity", [value.name], [output], name=name))
    return nodes
