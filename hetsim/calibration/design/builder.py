"""A network in the making: values with shapes, one node at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

OPSET = 18
_POOL = 1 << 16


class Builder:
    """Nodes, weights and shapes of one network.

    Weights are drawn from one small pool, repeated, and scaled so that values neither grow nor
    fade: a CPU computes with very small numbers at another speed.

    Parameters
    ----------
    name : str
    rng : numpy.random.Generator
    """

    def __init__(self, name: str, rng: np.random.Generator) -> None:
        self.name = name
        self.rng = rng
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._pool = rng.standard_normal(_POOL).astype(np.float32)
        self._nodes: list[onnx.NodeProto] = []
        self._stored: list[onnx.TensorProto] = []
        self._inputs: list[str] = []
        self.stored_elements = 0

    def value(self, *shape: int) -> str:
        """Add an input of floats."""
        name = f"in{len(self._inputs)}"
        self._inputs.append(name)
        self.shapes[name] = shape
        return name

    def weight(self, *shape: int, fan: int = 1, mean: float = 0.0) -> str:
        """Add a constant of floats: `mean`, and a deviation of one over the root of `fan`."""
        drawn = np.resize(self._pool, math.prod(shape)).reshape(shape)
        return self.stored(drawn * np.float32(1.0 / math.sqrt(fan)) + np.float32(mean))

    def stored(self, array: NDArray[Any]) -> str:
        """Add a constant."""
        name = f"w{len(self._stored)}"
        self._stored.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        self.shapes[name] = array.shape
        self.stored_elements += array.size
        return name

    def number(self, value: float) -> str:
        """Add a constant of one float, without dims."""
        return self.stored(np.array(value, np.float32))

    def node(self, op: str, inputs: Sequence[str], shape: Sequence[int], **attributes: Any) -> str:
        """Add a node of one output, of `shape`; return the output's name."""
        return self.nodes(op, inputs, (shape,), **attributes)[0]

    def nodes(
        self, op: str, inputs: Sequence[str], shapes: Sequence[Sequence[int]], **attributes: Any
    ) -> tuple[str, ...]:
        """Add a node of several outputs."""
        name = f"{op}{len(self._nodes)}"
        made = tuple(f"{name}_{index}" for index in range(len(shapes)))
        self._nodes.append(helper.make_node(op, list(inputs), made, name=name, **attributes))
        self.shapes.update(zip(made, (tuple(shape) for shape in shapes), strict=True))
        return made

    def model(self, *outputs: str) -> onnx.ModelProto:
        """Return the network, with what nobody reads beside `outputs`."""
        read = {name for node in self._nodes for name in node.input}
        loose = [name for node in self._nodes for name in node.output if name not in read]
        graph = helper.make_graph(
            self._nodes,
            self.name,
            [_typed(name, self.shapes[name]) for name in self._inputs],
            [_typed(name, self.shapes[name]) for name in dict.fromkeys((*outputs, *loose))],
            self._stored,
        )
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8
        )


def _typed(name: str, shape: Sequence[int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, list(shape))
