"""Layout conversions between kernels: channel orders that a runtime changes.

Some CPU runtimes keep images with channels in blocks of a vector's width between kernels written
for it, and in plain order for all others. Between kernels of different kinds, a value is copied
from one order to the other, which takes as long as a pointwise convolution on it. The kinds follow
ONNX Runtime's NCHWc transformer on CPUs, by its conditions on nodes; source: its documentation of
graph optimizations, "Layout Optimizations", and the profiles of 374 networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hetsim.graph.graph import Graph, Node
from hetsim.graph.work import Work, op_key
from hetsim.graph.work.rule import Product

COPIES = frozenset({"ReorderInput", "ReorderOutput"})
"""Op types of these copies in a profile."""

_ALIGNED = 4
"""Divisor of input and output channels of a blocked convolution."""

_POOLS = frozenset({"MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"})
_FUNCTIONS = frozenset({"Relu", "Sigmoid", "Tanh"})
_WITHIN = frozenset({"LeakyRelu", "Clip", "HardSigmoid"})
"""Functions without blocked kernels, which are applied within a convolution."""

_SUMS = frozenset({"Add", "Mul", "Sum"})
_SCALES = frozenset({"BatchNormalization", "Mul"})


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy of a value from one channel order to the other for a node.

    `elements` of the copy include the channels that pad the last block.
    """

    node: int
    elements: int


def copies_of(graph: Graph, block: int) -> tuple[Copy, ...]:
    """Return the copies that a runtime with blocks of `block` channels makes in a run."""
    return _LayoutSearch(graph, block).found()


def copy_work(elements: int, block: int) -> Work:
    """Return the work of a copy of `elements` floats into blocks of `block` channels, or back."""
    nbytes = 4 * elements
    sizes = Product("movement", 1, 1, 1, block)
    return Work(
        0, nbytes, nbytes, 0, "data_movement", "float32", True, form="movement", product=sizes
    )


class _LayoutSearch:
    """State of each value: available in blocks, and in plain order."""

    def __init__(self, graph: Graph, block: int) -> None:
        self.graph = graph
        self.block = block
        self.makers = graph.producers()
        self.readers = graph.consumers()
        self.stored = graph.constants | graph.dequantized.keys()
        self.blocked: set[str] = set()
        self.copied: dict[tuple[str, bool], Copy] = {}

    def found(self) -> tuple[Copy, ...]:
        """Return the copies, in order of the nodes."""
        for node in self.graph.nodes:
            values = [name for name in node.reads if name not in self.stored]
            if self._in_blocks(node, values):
                plain = self._reads_plain(node)
                for name in values:
                    if name in self.blocked and plain:
                        self._copy(name, self.makers[name], filled=False)
                    if name not in self.blocked and not plain:
                        self._copy(name, node.id, filled=True)
                self.blocked.update(node.writes[:1])
            else:
                for name in values:
                    if name in self.blocked:
                        self._copy(name, self.makers[name], filled=False)
        for name in self.graph.outputs:
            if name in self.blocked:
                self._copy(name, self.makers[name], filled=False)
        return tuple(self.copied.values())

    def _copy(self, name: str, node: int, *, filled: bool) -> None:
        key = name, filled
        if key not in self.copied:
            elements = self.graph.tensors[name].elements
            channels = self._channels(name)
            if filled and channels:
                elements = elements // channels * -(-channels // self.block) * self.block
            self.copied[key] = Copy(node, elements)

    def _in_blocks(self, node: Node, values: Sequence[str]) -> bool:
        """Return whether the runtime has a blocked kernel for `node` here."""
        op = op_key(node)
        if not values or len(self._shape(values[0])) != 4 or len(node.writes) != 1:
            return False
        if op == "Conv":
            return self._convolution(node)
        if op in _POOLS:
            there = values[0] in self.blocked or op in ("MaxPool", "AveragePool")
            return there and self._channels(values[0]) % self.block == 0
        if not all(name in self.blocked for name in values):
            return False
        if op in _SCALES and len(values) == 1:
            return op == "BatchNormalization" or self._by_channel(node)
        if op in _FUNCTIONS:
            return True
        if op in _WITHIN:
            return self._ends_convolution(values[0], node)
        if op == "Mul" and self._gate(values):
            return True
        if op in _SUMS:
            shapes = {self._shape(name) for name in node.inputs}
            return len(values) == len(node.inputs) > 1 and len(shapes) == 1
        if op == "Concat":
            return node.attributes.get("axis") == 1 and all(
                self._channels(name) % self.block == 0 for name in values
            )
        return op in ("Resize", "Upsample")

    def _convolution(self, node: Node) -> bool:
        weight = node.inputs[1]
        shape = self._shape(weight)
        floats = self.graph.tensors[weight].dtype == "float32"
        if weight not in self.stored or len(shape) != 4 or not floats:
            return False
        columns, depth = shape[:2]
        groups = _groups(node)
        if groups == 1:
            return depth < self.block or depth % _ALIGNED == 0
        if columns % _ALIGNED:
            return False
        if depth == 1 and columns == groups:
            return True
        return depth % self.block == 0 and columns // groups % self.block == 0

    def _ends_convolution(self, name: str, node: Node) -> bool:
        """Return whether `node` is part of the convolution producing `name`, alone or as a gate."""
        maker = self.graph.nodes[self.makers[name]]
        after_sum = op_key(node) == "HardSigmoid" and op_key(maker) == "Add"
        if op_key(maker) != "Conv" and not after_sum:
            return False
        others = [v for v in self.readers[name] if v != node.id]
        if op_key(node) != "HardSigmoid":
            return not others
        return len(others) == 1 and {name, node.writes[0]} == {*self.graph.nodes[others[0]].inputs}

    def _gate(self, values: Sequence[str]) -> bool:
        """Return whether a product is the end of a gate within a convolution."""
        made = [self.graph.nodes[self.makers[name]] for name in values]
        return any(op_key(one) == "HardSigmoid" and one.inputs[0] in values for one in made)

    def _reads_plain(self, node: Node) -> bool:
        """Return whether it is a convolution that reads an image's few channels in plain order."""
        if op_key(node) != "Conv" or _groups(node) != 1:
            return False
        return self._shape(node.inputs[1])[1] < self.block

    def _by_channel(self, node: Node) -> bool:
        """Return whether it multiplies each channel by a constant."""
        constants = [name for name in node.inputs if name in self.stored]
        if len(constants) != 1:
            return False
        shape = self._shape(constants[0])
        channels = self._channels(next(n for n in node.inputs if n not in self.stored))
        return len(shape) >= 3 and shape[-2:] == (1, 1) and shape[-3] == channels

    def _shape(self, name: str) -> tuple[int, ...]:
        return self.graph.tensors[name].static_shape

    def _channels(self, name: str) -> int:
        shape = self._shape(name)
        return shape[1] if len(shape) > 1 else 0


def _groups(node: Node) -> int:
    groups = node.attributes.get("group", 1)
    return groups if isinstance(groups, int) else 1
