"""A quantized network as the float network that it was made from: case by case, and as a whole."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from figure_builders import kin_record
from hetsim.cost.kernels.float_equivalent import as_floats
from hetsim.cost.kernels.networks import KernelTable, network_table
from hetsim.cost.kernels.similarity import SAME, Likeness, traits_of
from hetsim.graph.graph import Graph
from hetsim.graph.loading import load_model, model_of
from hetsim.graph.model import Model
from hetsim.graph.zoo import models as zoo
from hetsim.hardware.kin import TRAITS
from kernel_graphs import chain, graph_of
from quantizing import as_quantized
from sweeps import sweep


def sample(graph: Graph) -> dict[str, np.ndarray]:
    """One value of each input."""
    random = np.random.default_rng(1)
    shapes = {name: graph.tensors[name].static_shape for name in graph.inputs}
    return {
        name: random.integers(0, 2, shape)
        if graph.tensors[name].dtype == "int64"
        else random.random(shape, dtype=np.float32)
        for name, shape in shapes.items()
    }


@cache
def quantized_model(name: str, form: str) -> Model:
    """A network of the zoo, quantized."""
    feeds = [sample(load_model(f"zoo:{name}").graph)]
    proto = as_quantized(zoo.materialise(name), form, feeds, signed=True)
    return model_of(proto, name=name)


def quantized(name: str, form: str) -> Graph:
    """The graph of a network of the zoo, quantized."""
    return quantized_model(name, form).graph


def same(a: KernelTable, b: KernelTable) -> bool:
    """Whether the kernels of two tables are the same."""
    return all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for name in ("elements", "stored", "counts")
    ) and (a.io_elements, a.io_stored) == (b.io_elements, b.io_stored)


@sweep("name, form", quick=[("squeezenet", "qdq")], full=[
    ("squeezenet", "qdq"), ("squeezenet", "qoperator"), ("bert_small", "dynamic"),
])  # fmt: skip
def test_kernels_are_those_of_the_floats_that_it_was_made_from(name: str, form: str) -> None:
    floats, integers = load_model(f"zoo:{name}").graph, quantized(name, form)
    assert not same(network_table(integers), network_table(floats))
    assert same(network_table(as_floats(integers)), network_table(floats))


@sweep("name, form", quick=[("squeezenet", "qdq"), ("resnet18", "qoperator")], full=[
    ("squeezenet", "qdq"), ("resnet18", "qdq per channel"), ("resnet18", "qoperator"),
    ("bert_small", "qdq"),
])  # fmt: skip
def test_a_kin_knows_a_quantized_network_again(name: str, form: str) -> None:
    # The order of the nodes says which of two convolutions a sum joins, and tools change it; what
    # ONNX Runtime folds of floats it leaves of integers.
    kin = kin_record([("anet", 1, 1, 0.0, [9.0] * len(TRAITS))])
    floats, integers = load_model(f"zoo:{name}").graph, quantized(name, form)
    place = traits_of(network_table(floats), 1, kin)
    found = traits_of(network_table(as_floats(integers)), 1, kin)
    assert np.linalg.norm(found - place) < SAME / 2
    known = Likeness.of(kin_record([("known", 1, 9, 0.3, place.tolist())]))
    assert known.of_table(network_table(as_floats(integers)), 1).same
    assert not known.of_table(network_table(integers), 1).same


def test_what_is_not_quantized_stays_the_very_graph() -> None:
    graph = chain("Relu", "Sigmoid")
    assert as_floats(graph) is graph


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
