"""FLOP and bytes of every node, as exact integers.

Conventions
-----------
- 1 multiply-accumulate is 2 FLOP. Biases, comparisons, logic and integer arithmetic count
  1 an element; functions without a machine instruction count the fixed weights of
  ````work.elementwise``. Work on padding is counted, as the definitions have it.
- Bytes are those that a node run alone moves: each value that it reads and each that it
  writes once. Views move none; gathers read the rows they name, not the table.
- A call of a function is costed by the body that it stands for, control flow by the graphs
  that it runs (``hetsim.graph.work.control``), and an op without a rule by what the standard
  says in other ops.
- What data decide is costed at the most that it can be, with `least` beside it.
- An op of which nothing says what it computes is costed by its bytes, with ``rule=False`` and
  the reason, and `uncosted` names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hetsim.errors import HetsimError, ModelError, UnboundDimension
from hetsim.graph.graph import ITEM_BITS, Graph, Node
from hetsim.graph.work import (
    attention,
    elementwise,
    layers,
    machine_learning,
    movement,
    products,
    runtime_ops,
)
from hetsim.graph.work.control import ControlPaths, ways
from hetsim.graph.work.rule import (
    NodeView,
    Product,
    Rule,
    Work,
    key_of_op,
    moved_bytes,
    op_key,
    ops_of,
)

__all__ = [
    "Work",
    "graph_work",
    "key_of_op",
    "node_work",
    "op_key",
    "ops_of",
    "ruled_ops",
    "uncosted",
]

_RULES: Mapping[str, Rule] = {
    **elementwise.RULES,
    **products.RULES,
    **layers.RULES,
    **movement.RULES,
    **attention.RULES,
    **machine_learning.RULES,
    **runtime_ops.RULES,
}

_PRODUCTS: Mapping[str, str] = {
    "conv": "matmul", "matmul": "matmul", "attention": "attention", "recurrent": "recurrent",
}  # fmt: skip
"""Op classes that are products, with the form of kernels of unknown sizes."""

_FORMS: Mapping[str, str] = {
    **_PRODUCTS,
    "normalization": "normalization", "softmax": "softmax", "pooling": "pooling",
    "reduction": "reduction", "elementwise": "elementwise", "transcendental": "elementwise",
    "quantize": "elementwise", "data_movement": "movement", "resize": "resize",
    "gather_scatter": "gather", "control_flow": "other", "other": "other",
}  # fmt: skip

_SIMPLE_POWERS = frozenset({-1.0, 1.0, 2.0, 3.0})
"""Exponents that kernels compute as products or a division."""

_WITH_ACTIVATION = frozenset({"com.microsoft:GemmFastGelu", "com.microsoft:MatMulNBitsMlp"})
"""Products with a function like exp that no attribute names."""

_KEPT = "works"

_UNKNOWN = "its computation is unknown"
_NO_SIZES = "the sizes of its product are unknown"
_WHOLE = "it is one fused kernel of a function, whose arithmetic is not one product"
_UNDECIDED = "its computation depends on data, or on an attribute that is unknown"


def node_work(graph: Graph, node: Node) -> Work:
    """Return the work of `node`: none if it dequantizes constants. O(inputs + outputs).

    Cached after ``graph_work``. Raises UnboundDimension if a required shape is not known in
    numbers, ModelError if the shapes do not fit the op.
    """
    known: Any = graph.kept.get(_KEPT)
    if known is not None and node.id < len(known) and graph.nodes[node.id] is node:
        work: Work = known[node.id]
        return work
    return _counted(graph, node)


def _counted(graph: Graph, node: Node) -> Work:
    inside = ways(graph, node)
    if inside is not None:
        return _work_inside(graph, node, inside)
    key = op_key(node)
    rule = _RULES.get(key)
    if rule is None and node.body is not None:
        return _whole_work(graph, node, node.body)
    if graph.dequantized and node.writes and graph.dequantized.keys() >= set(node.writes):
        return Work(0, 0, 0, 0, "quantize", graph.tensors[node.writes[0]].dtype, True)
    view = NodeView(graph, node)
    flops: int | None = None
    least: int | None = None
    try:
        if rule is not None:
            flops = rule.flops(view)
            least = None if rule.least is None else rule.least(view)
        moved = moved_bytes(view) if rule is None or flops is None else rule.bytes(view)
    except (ArithmeticError, LookupError, ValueError) as error:
        raise ModelError(
            f"the shapes of its operands do not fit {key}: {_shapes(graph, node)}",
            where=f"node '{node.name}'",
            hint="check the model with onnx.checker",
        ) from error
    read, constant, written = moved
    op_class = "other" if rule is None else rule.op_class
    why = "" if flops is not None else _UNDECIDED
    if rule is None:
        why = runtime_ops.UNPRICED.get(key, _UNKNOWN)
    product, unsized = _product(view, rule, least or flops or 0)
    work = Work(
        flops=flops or 0,
        read_bytes=read,
        write_bytes=written,
        weight_bytes=constant,
        op_class=op_class,
        dtype=_dtype(graph, node, rule),
        rule=flops is not None,
        why=why,
        integer_bytes=min(constant, _integer_bytes(graph, node)) if constant else 0,
        form=product.form if product else (rule and rule.form) or _FORMS[op_class],
        product=product,
        exp_elements=_exp_elements(view, key, op_class),
        unsized=unsized,
    )
    if least is not None and least < work.flops:
        return replace(work, least=replace(work, flops=least))
    return work


def _product(view: NodeView, rule: Rule | None, flops: int) -> tuple[Product | None, str]:
    """Return the product that a node computes (or its FLOP alone), and why sizes are unknown."""
    if rule is None:
        return None, ""
    why = _NO_SIZES
    try:
        found = rule.product(view) if rule.product is not None else None
    except ModelError as error:
        found, why = None, error.what
    except (ArithmeticError, LookupError, ValueError):
        # Empty sizes, e.g. without channels, are no product.
        found, why = None, f"the shapes of its operands do not fit {view.node.op_type}"
    if found is not None:
        return found, ""
    if rule.op_class not in _PRODUCTS or not flops:
        return None, ""
    # Each result element is a sum whose depth follows from the FLOP.
    out = max(1, view.out_elements())
    shape = view.graph.tensors[view.node.writes[0]].static_shape if view.node.writes else ()
    columns = max(1, shape[-1]) if shape else 1
    form, depth = _PRODUCTS[rule.op_class], max(1, flops // (2 * out))
    return Product(form, out // columns, columns, depth, 1), why


def _exp_elements(view: NodeView, key: str, op_class: str) -> int:
    """Return the elements that pass a function like exp, as a separate or fused op."""
    if op_class == "transcendental":
        simple = key == "Pow" and view.one_number(1) in _SIMPLE_POWERS
        return 0 if simple else view.out_elements()
    if op_class in _PRODUCTS and op_class != "recurrent":
        name = view.text("activation")
        within = key in _WITH_ACTIVATION or name in elementwise.TRANSCENDENTAL
        return view.out_elements() if within or name in elementwise.SILU else 0
    # A fractional power of a sum, one per element.
    return view.out_elements() if view.node.op_type == "LRN" else 0


def _work_inside(graph: Graph, node: Node, inside: ControlPaths) -> Work:
    """Return the work of the most expensive graph that a node may run, and of the cheapest."""
    is_call = node.body is not None
    why = inside.unknown
    sums: list[Work] = []
    others: list[Work] = []
    for into, runs in ((sums, inside.runs), (others, inside.instead)):
        for body, turns in runs:
            try:
                into.append(_sum(graph_work(body), turns))
            except HetsimError as error:
                why = why or _inside(error)
    if not sums:
        read, constant, written = moved_bytes(NodeView(graph, node))
        dtype = _dtype(graph, node, None)
        return Work(0, read, written, constant, "control_flow", dtype, False, why)
    most = max(sums, key=_size)
    least = min((work.least or work for work in (*sums, *others)), key=_size)
    why = why or next((work.why for work in (*sums, *others) if work.why), "")
    return replace(
        most,
        op_class=most.op_class if is_call else "control_flow",
        rule=not why,
        why=why,
        least=None if least == replace(most, least=None) else least,
    )


def _inside(error: HetsimError) -> str:
    """Return the reason why a graph inside a node is not priced."""
    if isinstance(error, UnboundDimension):
        return (
            f"inside it, the shape of {error.where} is open: --input FILE.npz measures it in a run"
        )
    return f"inside it, {error}"


def _size(work: Work) -> tuple[int, int]:
    return work.flops, work.read_bytes + work.write_bytes + work.weight_bytes


def _sum(works: Sequence[Work], turns: float) -> Work:
    """Return the work of the nodes of a graph that runs `turns` times."""

    def total(parts: Sequence[Work]) -> Work:
        heaviest = max(parts, key=_size, default=None)
        return Work(
            flops=round(turns * sum(work.flops for work in parts)),
            read_bytes=round(turns * sum(work.read_bytes for work in parts)),
            write_bytes=round(turns * sum(work.write_bytes for work in parts)),
            weight_bytes=round(turns * sum(work.weight_bytes for work in parts)),
            op_class="other" if heaviest is None else heaviest.op_class,
            dtype="float32" if heaviest is None else heaviest.dtype,
            rule=all(work.rule for work in parts),
            why=next((work.why for work in parts if not work.rule), ""),
            integer_bytes=round(turns * sum(work.integer_bytes for work in parts)),
            unsized=next((work.unsized for work in parts if work.unsized), ""),
        )

    most = total(works)
    if all(work.least is None for work in works):
        return most
    return replace(most, least=total([work.least or work for work in works]))


def _whole_work(graph: Graph, node: Node, body: Graph) -> Work:
    """Return the work of one kernel for all of `body`: its arithmetic, and the node's own bytes."""
    read, constant, written = moved_bytes(NodeView(graph, node))
    try:
        inner = _sum(graph_work(body), 1)
    except UnboundDimension as error:
        dtype = _dtype(graph, node, None)
        return Work(0, read, written, constant, "other", dtype, False, _inside(error))

    def alone(work: Work) -> Work:
        return replace(
            work,
            read_bytes=read,
            weight_bytes=constant,
            write_bytes=written,
            integer_bytes=min(constant, work.integer_bytes),
            unsized=_WHOLE if work.flops else "",
        )

    return replace(alone(inner), least=None if inner.least is None else alone(inner.least))


def graph_work(graph: Graph) -> tuple[Work, ...]:
    """Return the work of every node, by id, cached with the graph.

    O(V + E) at first; raises as `node_work`.
    """
    known: Any = graph.kept.get(_KEPT)
    if known is None:
        known = graph.kept[_KEPT] = tuple(_counted(graph, node) for node in graph.nodes)
    works: tuple[Work, ...] = known
    return works


def uncosted(graph: Graph) -> tuple[str, ...]:
    """Return the op types in `graph`, sorted, that have a node without a rule."""
    return tuple(sorted({op_key(n) for n in graph.nodes if not node_work(graph, n).rule}))


def ruled_ops() -> tuple[str, ...]:
    """Return the op types that have a rule, sorted, as `uncosted` writes them."""
    return tuple(sorted(_RULES))


def _dtype(graph: Graph, node: Node, rule: Rule | None) -> str:
    stated = rule.dtype(NodeView(graph, node)) if rule is not None and rule.dtype else None
    if stated is not None:
        return stated
    if rule is not None and rule.integer_input is not None:
        dtype = graph.tensors[node.inputs[rule.integer_input]].dtype
        if dtype in ITEM_BITS and "float" not in dtype:
            return f"int{ITEM_BITS[dtype]}"
    found = [graph.tensors[name].dtype for name in (*node.reads, *node.writes)]
    plain = [dtype for dtype in found if dtype in ITEM_BITS]
    floating = [dtype for dtype in plain if "float" in dtype or "complex" in dtype]
    integers = [dtype for dtype in plain if dtype != "bool"]
    return (floating or integers or plain or found or ["bool"])[0]


def _integer_bytes(graph: Graph, node: Node) -> int:
    """Return the bytes of stored integers, and 8- or 4-bit floats, behind the inputs of `node`."""
    stored: dict[str, None] = {}
    for name in node.reads:
        if name in graph.dequantized:
            stored.update(dict.fromkeys(graph.dequantized[name]))
        elif name in graph.constants:
            stored[name] = None
    tensors = (graph.tensors[name] for name in stored)
    return sum(
        tensor.nbytes
        for tensor in tensors
        if "float" not in tensor.dtype or tensor.dtype.startswith(("float8", "float4"))
    )


def _shapes(graph: Graph, node: Node) -> str:
    tensors = (graph.tensors.get(name) for name in node.inputs if name)
    return ", ".join(str(tensor.shape) if tensor else "unknown" for tensor in tensors)
