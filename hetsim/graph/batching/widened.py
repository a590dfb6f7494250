"""A model of one request at a time, changed so that it takes several at once.

Exporters fix the batch at 1 unless told otherwise: in the inputs, in the shapes that reshapes
give, in constants that stand beside each request. Operator by operator it is shown along which
axis requests follow each other and that none meets another (``rules``); what is fixed at one
request is changed to several.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from hetsim.errors import ModelError, UnboundDimension
from hetsim.graph.batching.rules import RULES
from hetsim.graph.batching.step import Edits, MixedError, Step
from hetsim.graph.graph import Graph, Node


@dataclass(slots=True)
class _Writer:
    """Writes edits into a model; constants that several nodes want alike are added once."""

    graph: onnx.GraphProto
    weights_dir: Path | None
    size: int
    taken: set[str]
    stored: dict[str, onnx.TensorProto]
    added: dict[tuple[object, ...], str] = field(default_factory=dict)

    def edit(self, node: onnx.NodeProto, edits: Edits) -> None:
        """Write what is asked of one node."""
        if edits.reshape is not None:
            shape = self._numbers(edits.reshape)
            data = node.input[0]
            node.op_type = "Reshape"
            del node.input[:], node.attribute[:]
            node.input.extend((data, shape))
        for place, sizes in edits.sizes.items():
            node.input[place] = self._numbers(sizes)
        for place, axis in edits.tiled.items():
            node.input[place] = self._tiled(node.input[place], axis)

    def _numbers(self, sizes: tuple[int, ...]) -> str:
        if sizes not in self.added:
            self._add(sizes, "shape", np.array(sizes, dtype=np.int64))
        return self.added[sizes]

    def _tiled(self, name: str, axis: int) -> str:
        if (name, axis) not in self.added:
            base = "" if self.weights_dir is None else str(self.weights_dir)
            array = onnx.numpy_helper.to_array(self.stored[name], base)
            times = [self.size if at == axis else 1 for at in range(array.ndim)]
            self._add((name, axis), name, np.tile(array, times))
        return self.added[name, axis]

    def _add(self, key: tuple[object, ...], stem: str, array: NDArray[Any]) -> None:
        name = f"{stem} of {self.size} requests"
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        self.added[key] = name
        self.graph.initializer.append(onnx.numpy_helper.from_array(array, name))


def widen(
    proto: onnx.ModelProto,
    graph: Graph,
    inputs: Collection[str],
    size: int,
    weights_dir: Path | None,
    where: str,
) -> None:
    """Let a model take several requests, in place; types of values are to be inferred anew.

    Parameters
    ----------
    proto : onnx.ModelProto
    graph : Graph
        The same, all of its shapes known.
    inputs : collection of str
        Those whose first dimension is 1 for one request.
    size : int
        Requests, 2 or more.
    weights_dir : Path or None
        Folder of its external data.
    where : str
        For messages.

    Raises
    ------
    ModelError
        Where requests meet in a node, or nothing shows that they do not.

    Complexity: linear in the graph, and in the constants that each request has a copy of.
    """
    axes = dict.fromkeys(inputs, 0)
    taken = {*graph.tensors, *(tensor.name for tensor in proto.graph.initializer)}
    stored = {tensor.name: tensor for tensor in proto.graph.initializer}
    writer = _Writer(proto.graph, weights_dir, size, taken, stored)
    for node, written in zip(graph.nodes, proto.graph.node, strict=True):
        if any(name in axes for name in (*node.inputs, *node.captures)):
            step = Step(graph, node, axes, size, stored)
            found = _axes(step, node, where)
            writer.edit(written, step.edits)
            axes.update(zip((name for name in node.outputs), found, strict=False))
            axes.pop("", None)
    for value in proto.graph.input:
        if value.name in axes:
            value.type.tensor_type.shape.dim[0].dim_value = size
    for value in proto.graph.output:
        value.type.tensor_type.ClearField("shape")
    del proto.graph.value_info[:]


def _axes(step: Step, node: Node, where: str) -> tuple[int, ...]:
    """By output: the axis along which requests follow each other."""
    key = f"{node.domain}:{node.op_type}" if node.domain else node.op_type
    rule = RULES.get(key)
    try:
        if rule is None or node.custom:
            raise MixedError("nothing is known of how it treats them")
        if any(name not in node.inputs for name in node.captures):
            raise MixedError("it has a body")
        found = rule(step)
    except MixedError as mixed:
        raise _refused(node, str(mixed), where) from None
    except UnboundDimension as error:
        raise _refused(node, error.what, where) from None
    return (found,) * len(node.outputs) if isinstance(found, int) else found


def _refused(node: Node, why: str, where: str) -> ModelError:
    return ModelError(
        f"it takes one request at a time, and several cannot be told apart in {node.op_type} "
        f"'{node.name}': {why}",
        where=where,
        hint="export the model with an open batch dimension",
    )
