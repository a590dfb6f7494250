"""Each op of integers as the op of floats that it does, and scales that only scale."""

from __future__ import annotations

from typing import Any

import pytest

from hetsim.cost.kernels.as_floats import as_floats
from hetsim.graph.graph import Graph
from kernel_graphs import graph_of

Told = list[tuple[str, list[str], list[str]]]
SHAPE = (1, 4, 3, 3)


def graph(nodes: Told, *, constants: str = "", outputs: str = "", **kinds: str) -> Graph:
    """Values of one shape, floats but for `kinds`; those called s... and z... are constants."""
    names = dict.fromkeys(n for _, reads, writes in nodes for n in (*reads, *writes) if n)
    small = {n: () for n in names if n[0] in "sz"}
    stored = [n for n in names if n[0] in "sz"] + constants.split()
    held = {n: {"i": "int8", "z": "uint8"}[n[0]] for n in names if n[0] in "iz"}
    return graph_of(
        [(op, reads, writes, {}) for op, reads, writes in nodes],
        dict.fromkeys(names, SHAPE) | small, constants=tuple(stored),
        dtypes=held | kinds,
        outputs=tuple(outputs.split()) or None,
    )  # fmt: skip


def told(found: Graph) -> Told:
    assert [node.id for node in found.nodes] == list(range(len(found.nodes)))
    return [(node.op_type, list(node.inputs), list(node.outputs)) for node in found.nodes]


def kinds(found: Graph, names: str) -> dict[str, str]:
    return {name: found.tensors[name].dtype for name in names.split()}


@pytest.mark.parametrize(
    ("op", "reads", "does", "operands"),
    [
        ("ConvInteger", "ia iw z1 z2", "Conv", "ia iw"),
        ("MatMulInteger", "ia iw", "MatMul", "ia iw"),
        ("MatMulIntegerToFloat", "ia iw s1 s2 z1", "MatMul", "ia iw"),
        ("DynamicQuantizeMatMul", "a iw s1 z1", "MatMul", "a iw"),
        ("QLinearConv", "ia s1 z1 iw s2 z2 s3 z3", "Conv", "ia iw"),
        ("QLinearConv", "ia s1 z1 iw s2 z2 s3 z3 ib", "Conv", "ia iw ib"),
        ("QLinearConvTranspose", "ia s1 z1 iw s2 z2 s3 z3 ib", "ConvTranspose", "ia iw ib"),
        ("QLinearMatMul", "ia s1 z1 ib s2 z2 s3 z3", "MatMul", "ia ib"),
        ("QGemm", "ia s1 z1 iw s2 z2", "Gemm", "ia iw"),
        ("QGemm", "ia s1 z1 iw s2 z2 ib", "Gemm", "ia iw ib"),
        ("QLinearAdd", "ia s1 z1 ib s2 z2 s3 z3", "Add", "ia ib"),
        ("QLinearMul", "ia s1 z1 ib s2 z2 s3 z3", "Mul", "ia ib"),
        ("QLinearWhere", "c ia s1 z1 ib s2 z2 s3 z3", "Where", "c ia ib"),
        ("QLinearLeakyRelu", "ia s1 z1 s2 z2", "LeakyRelu", "ia"),
        ("QLinearSigmoid", "ia s1 z1 s2 z2", "Sigmoid", "ia"),
        ("QLinearSoftmax", "ia s1 z1 s2 z2", "Softmax", "ia"),
        ("QLinearAveragePool", "ia s1 z1 s2 z2", "AveragePool", "ia"),
        ("QLinearGlobalAveragePool", "ia s1 z1 s2 z2", "GlobalAveragePool", "ia"),
        ("QLinearReduceMean", "ia s1 z1 s2 z2", "ReduceMean", "ia"),
        ("QLinearConcat", "s1 z1 ia s2 z2 ib s3 z3 ic s4 z4", "Concat", "ia ib ic"),
    ],
)
def test_an_op_of_integers_is_the_op_that_it_does_on_its_operands(
    op: str, reads: str, does: str, operands: str
) -> None:
    """Of the signatures of ONNX and of ONNX Runtime's contributed operators."""
    quantized = ("QuantizeLinear", ["x", "s9", "z9"], ["i9"])
    made = graph([quantized, (op, reads.split(), ["iy"])], c="bool", outputs="iy i9")
    found = as_floats(made)
    assert told(found) == [(does, operands.split(), ["iy"])]
    held = kinds(found, f"{operands} iy")
    assert held.pop("c", "bool") == "bool"
    assert set(held.values()) == {"float32"}
    assert found.outputs == ("iy", "x")


def test_conversions_are_what_they_convert() -> None:
    made = graph(
        [
            ("QuantizeLinear", ["x", "s1", "z1"], ["i1"]),
            ("DequantizeLinear", ["i1", "s1", "z1"], ["a"]),
            ("Relu", ["a"], ["b"]),
            ("DynamicQuantizeLinear", ["b"], ["i2", "scale", "zero"]),
            ("DequantizeLinear", ["i2", "scale", "zero"], ["c"]),
            ("Add", ["c", "a"], ["y"]),
        ],
        zero="uint8",
    )
    found = as_floats(made)
    assert told(found) == [("Relu", ["x"], ["b"]), ("Add", ["b", "x"], ["y"])]
    # Inputs of integers are the floats that they were.
    taken = as_floats(graph([("DequantizeLinear", ["i", "s", "z"], ["a"]), ("Relu", ["a"], ["y"])]))
    assert told(taken) == [("Relu", ["i"], ["y"])]
    assert kinds(taken, "i") == {"i": "float32"}
    # Half-precision stays what it is.
    half = graph(
        [("QuantizeLinear", ["x", "s", "z"], ["i"]), ("DequantizeLinear", ["i", "s", "z"], ["y"])],
        x="float16",
    )
    assert (told(as_floats(half)), as_floats(half).outputs) == ([], ("x",))
    assert kinds(as_floats(half), "x") == {"x": "float16"}


DYNAMIC = [
    ("DynamicQuantizeLinear", ["x"], ["i1", "scale", "zero"]),
    ("MatMulInteger", ["i1", "iw", "zero"], ["sums"]),
    ("Cast", ["sums"], ["wide"]),
]


def test_sums_are_scaled_by_what_only_tells_how_large_they_are() -> None:
    nodes: Told = [
        *DYNAMIC, ("Mul", ["scale", "sw"], ["both"]), ("Mul", ["wide", "both"], ["m"]),
        ("Add", ["m", "b"], ["y"]),
    ]  # fmt: skip
    found = as_floats(graph(nodes, constants="iw b", sums="int32", zero="uint8"))
    assert told(found) == [("MatMul", ["x", "iw"], ["sums"]), ("Add", ["sums", "b"], ["y"])]
    assert kinds(found, "sums iw") == {"sums": "float32", "iw": "float32"}
    other = [*nodes[:4], ("Mul", ["both", "wide"], ["m"]), nodes[5]]
    again = as_floats(graph(other, constants="iw b", sums="int32", zero="uint8"))
    assert told(again) == told(found)


@pytest.mark.parametrize(
    ("scaling", "stays"),
    [
        # A product of two values, of a value with a constant, or of a scale with another value.
        (("Mul", ["x", "b"], ["m"]), ("Mul", ["x", "b"], ["m"])),
        (("Mul", ["wide", "b"], ["m"]), ("Mul", ["sums", "b"], ["m"])),
        (("Mul", ["other", "scale"], ["m"]), ("Mul", ["other", "scale"], ["m"])),
        (("Add", ["wide", "scale"], ["m"]), ("Add", ["sums", "scale"], ["m"])),
        (("Mul", ["wide", "scale"], ["m"]), None),
    ],
)
def test_what_is_no_scaling_of_sums_stays(scaling: Any, stays: Any) -> None:
    nodes: Told = [*DYNAMIC, ("Exp", ["x"], ["other"]), scaling, ("Add", ["m", "other"], ["y"])]
    found = told(as_floats(graph(nodes, constants="iw b", sums="int32", zero="uint8")))
    assert (stays in found) == (stays is not None)
    assert found[-1][1][0] == ("m" if stays else "sums")
    assert len(found) == (4 if stays else 3)


@pytest.mark.parametrize(
    ("source", "target", "kept"),
    [("int32", "float32", False), ("int32", "int64", True), ("float32", "float16", True)],
)
def test_only_casts_of_integer_sums_to_floats_go(source: str, target: str, kept: bool) -> None:
    nodes: Told = [*DYNAMIC, ("Relu", ["wide"], ["y"])]
    found = told(as_floats(graph(nodes, constants="iw", sums=source, wide=target, zero="uint8")))
    assert (("Cast", ["sums"], ["wide"]) in found) == kept
    # Of what never was quantized a cast is one.
    apart: Told = [("QuantizeLinear", ["x", "s", "z"], ["i"]), ("Cast", ["ids"], ["y"])]
    assert told(as_floats(graph(apart, ids="int64"))) == [("Cast", ["ids"], ["y"])]


def test_what_is_made_of_integers_by_other_ops_is_floats_too() -> None:
    nodes: Told = [
        ("QuantizeLinear", ["x", "s", "z"], ["i1"]), ("MaxPool", ["i1"], ["i2", "where"]),
        ("Reshape", ["i2", "shape"], ["i3"]), ("Resize", ["i3", "", "sc"], ["i4"]),
        ("DequantizeLinear", ["i4", "s", "z"], ["y"]),
    ]  # fmt: skip
    found = as_floats(graph(nodes, where="int64", shape="int64"))
    assert told(found) == [
        ("MaxPool", ["x"], ["i2", "where"]), ("Reshape", ["i2", "shape"], ["i3"]),
        ("Resize", ["i3", "", "sc"], ["i4"]),
    ]  # fmt: skip
    assert kinds(found, "i2 i3 i4 where shape") == {
        "i2": "float32", "i3": "float32", "i4": "float32", "where": "int64", "shape": "int64",
    }  # fmt: skip
    assert found.outputs == ("i4",)
    # Integers that have nothing to do with it stay.
    beside: Told = [*nodes[:1], ("Neg", ["i8"], ["i9"])]
    assert kinds(as_floats(graph(beside)), "i8 i9") == {"i8": "int8", "i9": "int8"}


@pytest.mark.parametrize(
    ("op", "stored", "kind", "floats"),
    [("Gather", True, "int8", True), ("Gather", True, "uint4", True),
     ("Gather", False, "int8", False), ("Gather", True, "int64", False),
     ("GatherElements", True, "int8", False)],
)  # fmt: skip
def test_a_stored_table_of_small_integers_is_one_of_floats(
    op: str, stored: bool, kind: str, floats: bool
) -> None:
    nodes: Told = [("QuantizeLinear", ["x", "s", "z"], ["i"]), (op, ["table", "ids"], ["rows"])]
    made = graph(nodes, constants="table" if stored else "", table=kind, ids="int64", rows=kind)
    expected = "float32" if floats else kind
    assert kinds(as_floats(made), "table rows") == {"table": expected, "rows": expected}
