"""Work of a node, the view of a node that rules read, and rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hetsim.errors import ModelError
from hetsim.graph.graph import Graph, Node, Tensor

FORMS = (
    "dense", "pointwise", "depthwise", "grouped", "transposed", "matmul", "batched", "recurrent",
    "attention", "normalization", "softmax", "pooling", "reduction", "elementwise", "movement",
    "concat", "transpose", "resize", "gather", "other",
)  # fmt: skip
"""Forms of kernels. Products first: convolutions with a window, without one (1x1), of one input
channel per group, of several, and transposed; matrix products by weights, and of two activations;
recurrent layers, step by step; attention as one op. The others are memory-bound: normalization over
channels, softmax, pooling, reductions, elementwise ops, copies (Slice, Split, Pad, Expand), of
several tensors to one (Concat), in another order (Transpose, DepthToSpace), resampling, indexed
reads, and the rest."""


@dataclass(frozen=True, slots=True)
class Product:
    """Product that a node computes, without biases and activations.

    `form` is one of `FORMS`. Each of `groups` products has `rows` positions that share its weights
    (batch times positions; the queries of attention), `columns` results at each (output channels of
    a group; keys) and sums of `depth` terms (input channels of a group times the window; the width
    of a key and a value). `window`, `strides`, `dilations` are by spatial dim, empty for a matrix
    product. `operand_elements` is the size of the rows' operand; `steps` the number of sequential
    repetitions (the length of a sequence); `positions` a convolution's `rows` per sample.
    """

    form: str
    rows: int
    columns: int
    depth: int
    groups: int
    window: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    operand_elements: int = 0
    steps: int = 1
    positions: int = 1

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all groups and steps; each is 2 FLOP."""
        return self.rows * self.columns * self.depth * self.groups * self.steps


@dataclass(frozen=True, slots=True)
class Work:
    """Work of one node, in FLOP and bytes.

    `read_bytes` are those of non-constant values, `weight_bytes` of constants, `integer_bytes` of
    values that stay integers on a device that computes floats in another type. `op_class` is one of
    ``hetsim.hardware.spec.OP_CLASSES``, `form` one of `FORMS`.

    `dtype` is the type of the arithmetic: that of the first floating-point input, else output; for
    integer products ``int8`` or ``int4`` by their first operand, whatever its sign; else that of
    the first plain operand. `rule` is False if its computation is not fully known, with the reason
    in `why`. `least` is its minimum work, if data decide and it is less.

    `product` has the sizes of a product, or of pooling windows; `unsized` is the reason why it has
    its FLOP alone, or None. `exp_elements` pass a function without a machine instruction (exp, erf,
    a root); softmax, attention and recurrent layers include theirs in their form.
    """

    flops: int
    read_bytes: int
    write_bytes: int
    weight_bytes: int
    op_class: str
    dtype: str
    rule: bool
    why: str = ""
    least: Work | None = None
    integer_bytes: int = 0
    form: str = "other"
    product: Product | None = None
    exp_elements: int = 0
    unsized: str = ""


@dataclass(frozen=True, slots=True)
class NodeView:
    """Node by position and name; ModelError or UnboundDimension for missing entries."""

    graph: Graph
    node: Node

    def has(self, position: int) -> bool:
        """Return whether input `position` is given."""
        return position < len(self.node.inputs) and self.node.inputs[position] != ""

    def has_output(self, position: int) -> bool:
        """Return whether output `position` is requested."""
        return position < len(self.node.outputs) and self.node.outputs[position] != ""

    def input(self, position: int) -> Tensor:
        """Return input `position`."""
        if not self.has(position):
            raise self._absent("input", position)
        return self.graph.tensors[self.node.inputs[position]]

    def output(self, position: int = 0) -> Tensor:
        """Return output `position`."""
        if not self.has_output(position):
            raise self._absent("output", position)
        return self.graph.tensors[self.node.outputs[position]]

    def shape(self, position: int) -> tuple[int, ...]:
        """Return the shape of input `position`."""
        return self.input(position).static_shape

    def elements(self, position: int = 0) -> int:
        """Return the number of elements of input `position`."""
        return self.input(position).elements

    def out_elements(self) -> int:
        """Return the number of elements of the first requested output."""
        return self.graph.tensors[self.node.writes[0]].elements if self.node.writes else 0

    def integer(self, name: str, default: int) -> int:
        """Return an integer attribute."""
        value = self.node.attributes.get(name, default)
        return value if isinstance(value, int) else default

    def integers(self, name: str) -> tuple[int, ...]:
        """Return an attribute that is a list of integers; empty if absent."""
        value = self.node.attributes.get(name, ())
        return tuple(v for v in value if isinstance(v, int)) if isinstance(value, tuple) else ()

    def number(self, name: str, default: float) -> float:
        """Return a numeric attribute."""
        value = self.node.attributes.get(name, default)
        return float(value) if isinstance(value, int | float) else default

    def text(self, name: str, default: str = "") -> str:
        """Return a text attribute."""
        value = self.node.attributes.get(name, default)
        return value if isinstance(value, str) else default

    def constant(self, position: int) -> tuple[int, ...] | None:
        """Return the contents of input `position` if it is a small integer constant, else None."""
        if not self.has(position):
            return None
        return self.graph.constant_values.get(self.node.inputs[position])

    def one_number(self, position: int) -> float | None:
        """Return the value of input `position` if it is a constant of one number, else None."""
        if not self.has(position):
            return None
        name = self.node.inputs[position]
        whole = self.graph.constant_values.get(name, ())
        return float(whole[0]) if len(whole) == 1 else self.graph.constant_numbers.get(name)

    def _absent(self, what: str, position: int) -> ModelError:
        return ModelError(
            f"{self.node.op_type} has no {what} {position}", where=f"node '{self.node.name}'"
        )


Flops = Callable[[NodeView], int | None]
"""Function to the FLOP of a node; None for a node without a rule, of an op that usually has one."""

Bytes = Callable[[NodeView], tuple[int, int, int]]
"""Function to the bytes that a node reads of activations, reads of constants, and writes."""


def moved_bytes(view: NodeView, instead: Mapping[int, int] | None = None) -> tuple[int, int, int]:
    """Return the bytes of activations, constants and results: every value once.

    Dequantized constants count as their stored integers. `instead` has the bytes actually accessed
    in an input, by position.
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
    """Return no bytes, for a view: the same memory under another shape."""
    return 0, 0, 0


def no_flops(view: NodeView) -> int:
    """Return no FLOP, for moves or nodes that may be skipped."""
    return 0


@dataclass(frozen=True, slots=True)
class Rule:
    """Cost rule of one op type: its class of ``OP_CLASSES``, FLOP and bytes.

    `integer_input` is the position of the input whose integer type the arithmetic uses; `least` the
    minimum FLOP if data decide; `dtype` that of the arithmetic if the node states another;
    `product` its sizes; `form` that of the kernel, if neither class nor product determines it.
    """

    op_class: str
    flops: Flops = no_flops
    bytes: Bytes = moved_bytes
    integer_input: int | None = None
    least: Flops | None = None
    dtype: Callable[[NodeView], str | None] | None = None
    product: Callable[[NodeView], Product | None] | None = None
    form: str = ""


def per_output(op_class: str, weight: int) -> Rule:
    """Return the rule of `weight` FLOP per output element."""
    return Rule(op_class, lambda view: weight * view.out_elements())


def per_input(op_class: str, weight: int) -> Rule:
    """Return the rule of `weight` FLOP per element of the first input."""
    return Rule(op_class, lambda view: weight * view.elements())


def op_key(node: Node) -> str:
    """Return the op type of `node`, prefixed with its domain unless that is the standard's.

    >>> op_key(Node(0, "n", "Gelu", "com.microsoft", ("x",), ("y",)))
    'com.microsoft:Gelu'
    """
    # Called many times for every node: the plain case first.
    domain = node.domain
    return node.op_type if not domain else key_of_op(node.op_type, domain)


def key_of_op(op_type: str, domain: str) -> str:
    """Return the name of an operator, as in `op_key`."""
    return op_type if domain in ("", "ai.onnx") else f"{domain}:{op_type}"


def ops_of(graph: Graph) -> Mapping[str, tuple[int, ...]]:
    """Return the ids of the nodes of each op, by `op_key`, cached with the graph. O(V) at first."""
    known: Any = graph.kept.get("ops")
    if known is None:
        found: dict[str, list[int]] = {}
        for node in graph.nodes:
            found.setdefault(op_key(node), []).append(node.id)
        known = graph.kept["ops"] = {key: tuple(ids) for key, ids in found.items()}
    ops: Mapping[str, tuple[int, ...]] = known
    return ops
