"""The work of a graph of one node."""

from __future__ import annotations

from hypothesis import strategies as st

from hetsim.graph.graph import Graph, Node, Tensor
from hetsim.graph.work import graph_work
from hetsim.hardware.spec import OP_CLASSES

MS = "com.microsoft"
small = st.integers(1, 4)


def one_node(op, inputs, outputs, *, domain="", constants=(), values=None, opset=20, **attributes):
    """A graph of one node; operands are shapes, (shape, dtype) pairs, or None where absent."""

    def tensor(prefix, position, operand):
        if operand is None:
            return None
        shape, dtype = operand if operand and isinstance(operand[-1], str) else (operand, "float32")
        return Tensor(f"{prefix}{position}", dtype, tuple(shape))

    ins = [tensor("in", i, operand) for i, operand in enumerate(inputs)]
    outs = [tensor("out", i, operand) for i, operand in enumerate(outputs)]
    node = Node(
        0,
        "the node",
        op,
        domain,
        tuple(t.name if t else "" for t in ins),
        tuple(t.name if t else "" for t in outs),
        attributes=attributes,
        origins=("the node",),
    )
    return Graph(
        "one",
        (node,),
        {t.name: t for t in (*ins, *outs) if t},
        tuple(t.name for i, t in enumerate(ins) if t and i not in constants),
        tuple(t.name for t in outs if t),
        frozenset(f"in{i}" for i in constants),
        {"": opset},
        {f"in{i}": tuple(v) for i, v in (values or {}).items()},
    )


def work(op, inputs, outputs, **options):
    (done,) = graph_work(one_node(op, inputs, outputs, **options))
    assert done.op_class in OP_CLASSES
    return done


def flops(op, inputs, outputs, **options):
    done = work(op, inputs, outputs, **options)
    assert done.rule
    return done.flops


def moved(op, inputs, outputs, **options):
    done = work(op, inputs, outputs, **options)
    return done.read_bytes, done.weight_bytes, done.write_bytes
