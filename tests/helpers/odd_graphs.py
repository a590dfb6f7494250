"""Models of structure that ONNX allows and few exporters write, each with inputs for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

from onnx_builders import make_model, op, value

Case = tuple[onnx.ModelProto, dict[str, Any]]
F32 = np.float32
X = np.linspace(-2, 2, 6, dtype=F32).reshape(2, 3)


def body(
    nodes: list[onnx.NodeProto],
    outputs: list[onnx.ValueInfoProto],
    inputs: list[onnx.ValueInfoProto] | None = None,
    name: str = "body",
    **constants: Any,
) -> onnx.GraphProto:
    return helper.make_graph(
        nodes,
        name,
        inputs or [],
        outputs,
        [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )


def anything(name: str) -> onnx.ValueInfoProto:
    return value(name, None)


def scan() -> Case:
    """A Scan whose body captures a computed value and a weight, and scans two ways."""
    step = body(
        [
            op("Add", "carried row", "sum"),
            op("Mul", "sum outer", "scaled"),
            op("Add", "scaled w", "out"),
        ],
        [value("sum", (3,)), value("out", (3,))],
        [value("carried", (3,)), value("row", (3,))],
    )
    proto = make_model(
        [
            op("Tanh", "x", "t"),
            op("ReduceMean", "t axes", "outer", keepdims=0),
            op("ReduceMax", "x axes", "first", keepdims=0),
            op("Scan", "first t", "last rows", num_scan_inputs=1, body=step,
               scan_output_directions=[1]),
            op("Mul", "rows outer", "y"),
        ],
        [value("x")],
        [anything("y"), anything("last"), anything("outer")],
        {"w": np.full(3, 0.5, F32), "axes": np.array([0])},
    )  # fmt: skip
    return proto, {"x": X}


def loops_within_branches() -> Case:
    """A Loop in an If in a Loop; the innermost reads values and weights of every scope."""
    innermost = body(
        [op("Identity", "go2", "more2"), op("Add", "acc2 top", "s"), op("Mul", "s mid", "s2"),
         op("Sub", "s2 w", "out2")],
        [value("more2", (), "BOOL"), anything("out2")],
        [value("i2", (), "INT64"), value("go2", (), "BOOL"), value("acc2")],
    )  # fmt: skip
    then = body([op("Loop", "n - acc", "t", body=innermost)], [anything("t")])
    other = body([op("Sub", "acc other", "t"), op("Abs", "t", "e")], [anything("e")])
    outer = body(
        [
            op("Identity", "go", "more"),
            op("Sin", "acc", "mid"),
            op("Less", "i one", "early"),
            op("If", "early", "next", then_branch=then, else_branch=other),
        ],
        [value("more", (), "BOOL"), anything("next")],
        [value("i", (), "INT64"), value("go", (), "BOOL"), value("acc")],
    )
    proto = make_model(
        [
            op("Exp", "x", "top"),
            op("Neg", "x", "other"),
            op("Cos", "x", "start"),
            op("Loop", "n - start", "end", body=outer),
            op("Add", "end top", "y"),
        ],
        [value("x")],
        [anything("y")],
        {"w": np.ones(3, F32), "n": np.array(3), "one": np.array(1)},
    )
    return proto, {"x": X}


def names_in_scopes() -> Case:
    """Bodies that use the same inner names, and whose nodes are named as one outside."""
    then = body([op("Relu", "a", "t", "same"), op("Exp", "t", "r")], [anything("r")], k=np.ones(1))
    other = body([op("Neg", "a", "t", "same"), op("Sin", "t", "r")], [anything("r")], k=np.ones(2))
    proto = make_model(
        [
            op("Abs", "x", "a", "same"),
            op("If", "c", "one", "first", then_branch=then, else_branch=other),
            op("Not", "c", "d"),
            op("If", "d", "two", then_branch=then, else_branch=other),
            op("Add", "one two", "y"),
        ],
        [value("x"), value("c", (), "BOOL")],
        [anything("y")],
    )
    return proto, {"x": X, "c": np.array(True)}


def read_and_captured() -> Case:
    """Nodes that read a value several times: twice as inputs, and as input and capture."""
    grow = body(
        [op("Identity", "go", "more"), op("Add", "acc start", "next")],
        [value("more", (), "BOOL"), anything("next")],
        [value("i", (), "INT64"), value("go", (), "BOOL"), value("acc")],
    )
    proto = make_model(
        [
            op("Mul", "x x", "start"),
            op("Loop", "n - start", "end", body=grow),
            op("Concat", "end start end", "y", axis=0),
        ],
        [value("x")],
        [anything("y")],
        {"n": np.array(2)},
    )
    return proto, {"x": X}


def outputs_of_every_kind() -> Case:
    """Outputs that are read on, inputs and weights that are outputs, and an unread input."""
    proto = make_model(
        [op("Relu", "x", "h"), op("Add", "h k", "y"), op("Mul", "y h", "z")],
        [value("x"), value("spare", (4,))],
        [value("y"), value("h"), value("x"), value("k", (3,)), value("z"), value("spare", (4,))],
        {"k": np.ones(3, F32)},
    )
    return proto, {"x": X, "spare": np.arange(4, dtype=F32)}


def no_node() -> Case:
    """Nothing to compute."""
    proto = make_model(
        [], [value("x")], [value("x"), value("k", (3,))], {"k": np.arange(3, dtype=F32)}
    )
    return proto, {"x": X}


def constants_alone() -> Case:
    """Nothing to compute once Constant nodes are constants, and no input."""
    proto = make_model(
        [op("Constant", "", "y", value_floats=[1.0, 2.0]), op("Constant", "", "z", value_int=3)],
        [],
        [value("y", (2,)), value("z", (), "INT64")],
    )
    return proto, {}


def functions() -> Case:
    """Functions with attributes, in functions and bodies, with bodies that read their inputs."""
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("my", 1)]
    leak = op("LeakyRelu", "a", "b")
    leak.attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    bend = helper.make_function("my", "Bend", ["a"], ["b"], [leak], imports, ["slope"])
    pick = helper.make_function(
        "my", "Pick", ["c", "u", "v"], ["r", "s"],
        [
            op("If", "c", "r",
               then_branch=body([op("Bend", "u", "t", domain="my", slope=0.5)], [anything("t")]),
               else_branch=body([op("Sub", "u v", "e")], [anything("e")])),
            op("Bend", "r", "s", domain="my", slope=0.25),
        ],
        imports,
    )  # fmt: skip
    clip = helper.make_function(
        "my", "Cap", ["a", "low", "high"], ["b"], [op("Clip", "a low high", "b")], imports
    )
    called = body([op("Pick", "c h x", "o -", domain="my"), op("Exp", "o", "t")], [anything("t")])
    other = body([op("Bend", "h", "e", domain="my", slope=0.1)], [anything("e")])
    proto = make_model(
        [
            op("Tanh", "x", "h"),
            op("Pick", "c h x", "p q", domain="my"),
            op("If", "c", "i", then_branch=called, else_branch=other),
            op("Cap", "q - top", "k", domain="my"),
            op("Sum", "p i k", "y"),
        ],
        [value("x"), value("c", (), "BOOL")],
        [anything("y")],
        {"top": np.array(0.5, F32)},
        domains={"my": 1},
        functions=[bend, pick, clip],
    )
    return proto, {"x": X, "c": np.array(True)}


def overloads() -> Case:
    """Two functions of one name, told apart by their overload."""
    imports = [helper.make_opsetid("", 20)]
    made = [
        helper.make_function("my", "F", ["a"], ["b"], [op(kind, "a", "b")], imports, overload=kind)
        for kind in ("Exp", "Neg")
    ]
    proto = make_model(
        [
            op("F", "x", "h", domain="my", overload="Exp"),
            op("F", "h", "y", domain="my", overload="Neg"),
        ],
        [value("x")],
        [anything("y")],
        ir=10,
        domains={"my": 1},
        functions=made,
    )
    return proto, {"x": X}


def old_file() -> Case:
    """IR 3: weights are inputs, too, and nodes are out of order and without names."""
    proto = make_model(
        [op("Add", "h w", "y"), op("Mul", "x w", "h")],
        [value("w", (3,)), value("x")],
        [value("y")],
        {"w": np.arange(3, dtype=F32)},
        opset=9,
        ir=3,
    )
    return proto, {"x": X}


def absent_inputs_and_outputs() -> Case:
    """Holes among inputs and outputs, in the middle and at the end."""
    rng = np.random.default_rng(1)
    proto = make_model(
        [
            op("LSTM", "s w r - - h", "- - c", hidden_size=2),
            op("LSTM", "s w r b", "all", hidden_size=2),
            op("Clip", "all - top", "clipped"),
            op("Resize", "img - scales", "bigger", mode="nearest"),
            op("Dropout", "bigger", "same"),
            op("MaxPool", "same", "pooled where", kernel_shape=[2, 2]),
            op("ReduceSum", "where -", "total", keepdims=0),
        ],
        [value("s", (4, 1, 3)), value("img", (1, 1, 3, 3)), value("h", (1, 1, 2))],
        [anything("c"), anything("clipped"), anything("pooled"), value("total", (), "INT64")],
        {
            "w": rng.standard_normal((1, 8, 3)).astype(F32),
            "r": rng.standard_normal((1, 8, 2)).astype(F32),
            "b": rng.standard_normal((1, 16)).astype(F32),
            "top": np.array(0.1, F32),
            "scales": np.array([1, 1, 2, 2], F32),
        },
    )
    shapes = {"s": (4, 1, 3), "img": (1, 1, 3, 3), "h": (1, 1, 2)}
    return proto, {name: rng.standard_normal(shape).astype(F32) for name, shape in shapes.items()}


ODD_GRAPHS = (
    scan,
    loops_within_branches,
    names_in_scopes,
    read_and_captured,
    outputs_of_every_kind,
    no_node,
    constants_alone,
    functions,
    overloads,
    old_file,
    absent_inputs_and_outputs,
)
