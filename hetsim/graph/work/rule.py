"""What a costing rule is, and the view of a node that rules count from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hetsim.errors import ModelError
from hetsim.graph.graph import Graph, Node, Tensor

_OPS = "ops"


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node with its tensors, by position."""

    graph: Graph
    node: Node

    def has(self, position: int) -> bool:
        """Whether input `position` is given."""
        return position < len(self.node.inputs) and self.node.inputs[position] != ""

    def has_output(self, position: int) -> bool:
        """Whether output `position` is asked for."""
        return position < len(self.node.outputs) and self.node.outputs[position] != ""

    def input(self, position: int) -> Tensor:
        """Input `position`. Raises ModelError where it is absent."""
        if not self.has(position):
            raise ModelError(f"{self.node.op_type} has no input {position}", where=self._where)
        return self.graph.tensors[self.node.inputs[position]]

    def output(self, position: int = 0) -> Tensor:
        """Output `position`. Raises ModelError where it is absent."""
        if not self.has_output(position):
            raise ModelError(f"{self.node.op_type} has no output {position}", where=self._where)
        return self.graph.tensors[self.node.outputs[position]]

    def shape(self, position: int) -> tuple[int, ...]:
        """Shape of input `position` in numbers."""
        return self.input(position).static_shape

    def elements(self, position: int = 0) -> int:
        """Number of elements of input `position`."""
        return self.input(position).elements

    def out_elements(self) -> int:
        """Number of elements of the first output that is asked for."""
        return self.graph.tensors[self.node.writes[0]].elements if self.node.writes else 0

    def integer(self, name: str, default: int) -> int:
        """Integer attribute `name`."""
        value = self.node.attributes.get(name, default)
        return value if isinstance(value, int) else default

    def integers(self, name: str) -> tuple[int, ...]:
        """Attribute `name`, a list of integers; empty where it is absent."""
        value = self.node.attributes.get(name, ())
        return tuple(v for v in value if isinstance(v, int)) if isinstance(value, tuple) else ()

    def number(self, name: str, default: float) -> float:
        """Attribute `name`, a number."""
        value = self.node.attributes.get(name, default)
        return float(value) if isinstance(value, int | float) else default

    def text(self, name: str, default: str = "") -> str:
        """Attribute `name`, a string."""
        value = self.node.attributes.get(name, default)
        if isinstance(value, bytes):
            return value.decode()
        return value if isinstance(value, str) else default

    def texts(self, name: str) -> tuple[str, ...]:
        """Attribute `name`, a list of strings; empty where it is absent."""
        value = self.node.attributes.get(name, ())
        if not isinstance(value, tuple):
            return ()
        return tuple(v.decode() if isinstance(v, bytes) else str(v) for v in value)

    def constant(self, position: int) -> tuple[int, ...] | None:
        """Contents of input `position` where it is a small integer constant, else None."""
        if not self.has(position):
            return None
        return self.graph.constant_values.get(self.node.inputs[position])

    def one_number(self, position: int) -> float | None:
        """The value of input `position` where it is a constant of one number, else None."""
        if not self.has(position):
            return None
        name = self.node.inputs[position]
        whole = self.graph.constant_values.get(name, ())
        return float(whole[0]) if len(whole) == 1 else self.graph.constant_numbers.get(name)

    @property
    def _where(self) -> str:
        return f"node '{self.node.name}'"


Flops = Callable[[NodeView], int | None]
"""FLOP of a node; None where this node, of an op that mostly has a rule, has none."""

Bytes = Callable[[NodeView], tuple[int, int, int]]
"""Bytes that a node reads of activations, reads of constants, and writes."""


def moved_bytes(view: NodeView, instead: Mapping[int, int] | None = None) -> tuple[int, int, int]:
    """Count every value a node reads and writes once, as (activations, constants, written).

    Constants that are dequantized first count as the integers that are stored.

    `instead` gives the bytes that are really touched of an input, by position.
    """
    graph, node = view.graph, view.node
    touched = {node.inputs[p]: n for p, n in (instead or {}).items() if view.has(p)}
    read = constant = 0
    for name in node.reads:
        nbytes = touched[name] if name in touched else graph.tensors[name].nbytes
        if name in graph.dequantized:
            behind = sum(graph.tensors[stored].nbytes for stored in graph.dequantized[name])
            constant += nbytes * behind // max(1, graph.tensors[name].nbytes)
        elif name in graph.constants:
            constant += nbytes
        else:
            read += nbytes
    return read, constant, sum(graph.tensors[name].nbytes for name in node.writes)


def no_bytes(view: NodeView) -> tuple[int, int, int]:
    """A view: the same memory under another shape."""
    return 0, 0, 0


def no_flops(view: NodeView) -> int:
    """Moves without arithmetic."""
    return 0


@dataclass(frozen=True, slots=True)
class Rule:
    """How nodes of one op type are costed.

    Attributes
    ----------
    op_class : str
        One of ``hetsim.hardware.spec.OP_CLASSES``.
    flops : callable
    bytes : callable
    integer_input : int or None
        Position of the input whose integer type the arithmetic is done in; None where it
        is done in the type of the first floating-point value.
    dtype : callable or None
        Type that the arithmetic is done in where the node says another; None of it: as above.
    least : callable or None
        FLOP that it takes at the least, where data decide; None where `flops` says all.
    """

    op_class: str
    flops: Flops
    bytes: Bytes = moved_bytes
    integer_input: int | None = None
    least: Flops | None = None
    dtype: Callable[[NodeView], str | None] | None = None


def per_output(op_class: str, weight: int) -> Rule:
    """Return a rule of `weight` FLOP an output element."""
    return Rule(op_class, lambda view: weight * view.out_elements())


def per_input(op_class: str, weight: int) -> Rule:
    """Return a rule of `weight` FLOP an element of the first input."""
    return Rule(op_class, lambda view: weight * view.elements())


def op_key(node: Node) -> str:
    """Return the op type of `node`, with its domain before it where that is not the standard's.

    >>> op_key(Node(0, "n", "Gelu", "com.microsoft", ("x",), ("y",)))
    'com.microsoft:Gelu'
    """
    # Asked of every node many times over: the plain case first.
    domain = node.domain
    return node.op_type if not domain else key_of_op(node.op_type, domain)


def ops_of(graph: Graph) -> Mapping[str, tuple[int, ...]]:
    """Return the ids of the nodes of each op, by `op_key`; kept with the graph. O(V) at first."""
    known: Any = graph.kept.get(_OPS)
    if known is None:
        found: dict[str, list[int]] = {}
        for node in graph.nodes:
            found.setdefault(op_key(node), []).append(node.id)
        known = graph.kept[_OPS] = {key: tuple(ids) for key, ids in found.items()}
    ops: Mapping[str, tuple[int, ...]] = known
    return ops


def key_of_op(op_type: str, domain: str) -> str:
    """Return what an operator is named by, as `op_key` does of a node."""
    return op_type if domain in ("", "ai.onnx") else f"{domain}:{op_type}"
