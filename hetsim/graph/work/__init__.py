"""FLOP and bytes of every node, as exact integers.

Conventions
-----------
- 1 multiply-accumulate is 2 FLOP. Biases, comparisons, logic and integer arithmetic count
  1 an element; functions without a machine instruction count the fixed weights of
  ``hetsim.graph.work.elementwise``. Work on padding is counted, as the definitions have it.
- Bytes are those that a node run alone moves: each value that it reads and each that it
  writes once. Views move none; gathers read the rows they name, not the table.
- A call of a function is costed by the body that it stands for.
- An op without a rule is costed by its bytes, with 0 FLOP and ``rule=False``, and
  `uncosted` names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hetsim.errors import ModelError
from hetsim.graph.graph import ITEM_BITS, Graph, Node
from hetsim.graph.work import contraction, elementwise, layers, movement, numeric, sequence
from hetsim.graph.work.rule import NodeView, Rule, moved_bytes

__all__ = ["Work", "graph_work", "node_work", "op_key", "ruled_ops", "uncosted"]


@dataclass(frozen=True, slots=True)
class Work:
    """What one node does.

    Attributes
    ----------
    flops : int
    read_bytes : int
        Of values that are not constants.
    write_bytes : int
    weight_bytes : int
        Of constants.
    op_class : str
        One of ``hetsim.hardware.spec.OP_CLASSES``.
    dtype : str
        Element type that the arithmetic is done in: that of the first floating-point
        input, else output; for integer products ``int8`` or ``int4`` by their first
        operand, whatever its sign; else that of the first plain operand.
    rule : bool
        False where no rule is known and `flops` is 0 for that reason.
    """

    flops: int
    read_bytes: int
    write_bytes: int
    weight_bytes: int
    op_class: str
    dtype: str
    rule: bool


_RULES: Mapping[str, Rule] = {
    **elementwise.RULES,
    **contraction.RULES,
    **layers.RULES,
    **movement.RULES,
    **sequence.RULES,
    **numeric.RULES,
}

_CONTROL_FLOW = frozenset({"If", "Loop", "Scan", "SequenceMap"})


def node_work(graph: Graph, node: Node) -> Work:
    """Return what `node` does. O(inputs + outputs).

    Raises
    ------
    UnboundDimension
        Where a shape that the count needs is not known in numbers.
    ModelError
        Where the shapes do not fit the op.
    """
    key = op_key(node)
    rule = _RULES.get(key)
    if rule is None and node.body is not None:
        return _body_work(graph, node, node.body)
    view = NodeView(graph, node)
    flops: int | None = None
    try:
        if rule is not None:
            flops = rule.flops(view)
        moved = moved_bytes(view) if rule is None or flops is None else rule.bytes(view)
    except (ArithmeticError, LookupError, ValueError) as error:
        raise ModelError(
            f"the shapes of its operands do not fit {key}: {_shapes(graph, node)}",
            where=f"node '{node.name}'",
            hint="check the model with onnx.checker",
        ) from error
    if rule is not None:
        op_class = rule.op_class
    else:
        op_class = "control_flow" if key in _CONTROL_FLOW else "other"
    read, constant, written = moved
    return Work(
        flops=flops or 0,
        read_bytes=read,
        write_bytes=written,
        weight_bytes=constant,
        op_class=op_class,
        dtype=_dtype(graph, node, rule),
        rule=flops is not None,
    )


def _body_work(graph: Graph, node: Node, body: Graph) -> Work:
    """The work of a function's body: run node by node, or as the one kernel of a library."""
    inner = graph_work(body)
    if node.custom:
        read, constant, written = moved_bytes(NodeView(graph, node))
    else:
        read = sum(work.read_bytes for work in inner)
        constant = sum(work.weight_bytes for work in inner)
        written = sum(work.write_bytes for work in inner)
    heaviest = max(inner, key=lambda work: (work.flops, work.read_bytes), default=None)
    return Work(
        flops=sum(work.flops for work in inner),
        read_bytes=read,
        write_bytes=written,
        weight_bytes=constant,
        op_class="other" if heaviest is None else heaviest.op_class,
        dtype=_dtype(graph, node, None) if heaviest is None else heaviest.dtype,
        rule=all(work.rule for work in inner),
    )


def graph_work(graph: Graph) -> tuple[Work, ...]:
    """Return the work of every node, by id. O(V + E); raises as `node_work` does."""
    return tuple(node_work(graph, node) for node in graph.nodes)


def uncosted(graph: Graph) -> tuple[str, ...]:
    """Return the op types in `graph` of which some node has no rule, sorted.

    Outside the standard domain they are written ``domain:OpType``.
    """
    return tuple(sorted({op_key(n) for n in graph.nodes if not node_work(graph, n).rule}))


def ruled_ops() -> tuple[str, ...]:
    """Return the op types that have a rule, sorted, as `uncosted` writes them."""
    return tuple(sorted(_RULES))


def op_key(node: Node) -> str:
    """Return the op type of `node`, with its domain before it where that is not the standard's.

    >>> op_key(Node(0, "n", "Gelu", "com.microsoft", ("x",), ("y",)))
    'com.microsoft:Gelu'
    """
    if node.domain in ("", "ai.onnx"):
        return node.op_type
    return f"{node.domain}:{node.op_type}"


def _dtype(graph: Graph, node: Node, rule: Rule | None) -> str:
    if rule is not None and rule.integer_input is not None:
        dtype = graph.tensors[node.inputs[rule.integer_input]].dtype
        if dtype in ITEM_BITS and "float" not in dtype:
            return f"int{ITEM_BITS[dtype]}"
    found = [graph.tensors[name].dtype for name in (*node.reads, *node.writes)]
    plain = [dtype for dtype in found if dtype in ITEM_BITS]
    floating = [dtype for dtype in plain if "float" in dtype or "complex" in dtype]
    integers = [dtype for dtype in plain if dtype != "bool"]
    return (floating or integers or plain or found or ["bool"])[0]


def _shapes(graph: Graph, node: Node) -> str:
    tensors = (graph.tensors.get(name) for name in node.inputs if name)
    return ", ".join(str(tensor.shape) if tensor else "unknown" for tensor in tensors)
