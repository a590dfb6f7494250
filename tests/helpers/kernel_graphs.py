"""Small graphs by hand for the tests of kernels."""

from __future__ import annotations

from hetsim.graph.graph import Graph, Node, Tensor


def graph_of(nodes, shapes, *, constants=(), outputs=None, dtypes=None):
    """A graph of (op, inputs, outputs, attributes); what none writes is an input or a constant."""
    made = tuple(
        Node(i, f"n{i}", op, "", tuple(reads), tuple(writes), attributes=attributes)
        for i, (op, reads, writes, attributes) in enumerate(nodes)
    )
    kinds = dtypes or {}
    tensors = {n: Tensor(n, kinds.get(n, "float32"), shape) for n, shape in shapes.items()}
    written = {name for node in made for name in node.writes}
    inputs = tuple(n for n in shapes if n not in written and n not in constants)
    last = tuple(outputs or made[-1].writes)
    return Graph("g", made, tensors, inputs, last, frozenset(constants), {"": 20})


def chain(*ops, shape=(1, 4, 3, 3)):
    """One node after the other; each convolution is by the same weights."""
    nodes = [
        (op, [f"v{i}", *(["w"] if op == "Conv" else [])], [f"v{i + 1}"], {})
        for i, op in enumerate(ops)
    ]
    shapes = {"w": (shape[1], shape[1], 1, 1)} | {f"v{i}": shape for i in range(len(ops) + 1)}
    return graph_of(nodes, shapes, constants=("w",))


def node(op, *reads, to="y", **attributes):
    """A node as ``graph_of`` takes it."""
    return (op, list(reads), [to], attributes)


def graph_like(nodes, shape, *, constants="w", outputs=(), dtypes=None, **shapes):
    """Values of one shape but for `shapes`; what begins with such a letter is a constant."""
    names = dict.fromkeys(name for _, reads, writes, _ in nodes for name in (*reads, *writes))
    given = {name: shape for name in names if name} | shapes
    stored = tuple(name for name in given if name and name[0] in constants)
    return graph_of(nodes, given, constants=stored, outputs=outputs or None, dtypes=dtypes)
