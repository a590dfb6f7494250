"""Composites that devices run whole, found in ONNX models and counted by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import hetsim
from hetsim.graph.graph import Graph
from hetsim.graph.patterns.matching import Match, find_matches
from hetsim.graph.patterns.pattern import check_names
from hetsim.graph.patterns.text import parse_pattern
from hetsim.graph.work import op_key
from onnx_builders import load, make_model, op, value

UNITS = {
    "gelu": "Mul(Mul($x, Add(Erf(Div($x, const)), const)), const)",
    "gelu_tanh": """
        Mul(
            Mul($x, const),
            Add(Tanh(Mul(Add($x, Mul(Pow($x, const), const)), const)), const)
        )""",
    "layer_norm": """
        Add(
            Mul(Div($d:Sub($x, ReduceMean($x)), Sqrt(Add(ReduceMean(Pow($d, *)), const))), const),
            const
        )""",
    "silu": "Mul($x, Sigmoid($x))",
    "conv_bn_relu": "Relu?(BatchNormalization?(Conv[group=1](*, const)))",
    "qdq_conv": """
        QuantizeLinear(
            Relu?(Conv(DequantizeLinear, DequantizeLinear(const, const, const))),
            const,
            const[dtype=int8/uint8]
        )""",
    "attention": "MatMul(Softmax(Add(Mul(MatMul, const), *)), *)",
    "linear": "Gelu?(Add(MatMul(*, const), const))",
    "qkv": "$s:Split; Reshape($s); Reshape($s.1); Reshape($s.2)",
    "conv_clip": "Clip?(Conv(*, const), const, const)",
    "depthwise": "Conv[group!=1]",
}


def matches(graph: Graph, name: str) -> tuple[Match, ...]:
    pattern = parse_pattern(name, UNITS[name])
    check_names(pattern)
    return find_matches(graph, [pattern]).found


def op_types(graph: Graph, match: Match) -> list[str]:
    return [op_key(graph.nodes[node]) for node in match.nodes]


def small(folder: Path, nodes: list[onnx.NodeProto], outputs: str, **constants: object) -> Graph:
    """The graph of a model on an input x of shape (1, 4, 6, 6)."""
    proto = make_model(
        nodes,
        [value("x", (1, 4, 6, 6))],
        [value(name, None) for name in outputs.split()],
        constants,
    )
    return load(proto, folder, canonical="none").graph


def number(entry: float) -> np.ndarray:
    return np.array(entry, np.float32)


def test_gelu_by_erf(tmp_path: Path) -> None:
    graph = small(
        tmp_path,
        [
            op("Div", "x root", "a"),
            op("Erf", "a", "b"),
            op("Add", "one b", "c"),
            op("Mul", "x c", "d"),
            op("Mul", "half d", "y"),
            # The same ops, but on another value in one place.
            op("Div", "x root", "a2"),
            op("Erf", "a2", "b2"),
            op("Add", "b2 one", "c2"),
            op("Mul", "y c2", "d2"),
            op("Mul", "d2 half", "z"),
        ],
        "y z",
        root=number(2**0.5),
        one=number(1),
        half=number(0.5),
    )
    (match,) = matches(graph, "gelu")
    assert {name for node in match.nodes for name in graph.nodes[node].writes} == set("abcdy")
    assert match.constants == ("half", "one", "root")


def test_layer_norm_by_its_parts(tmp_path: Path) -> None:
    nodes = [
        op("ReduceMean", "x axes", "mean"),
        op("Sub", "x mean", "d"),
        op("Pow", "d two", "p"),
        op("ReduceMean", "p axes", "var"),
        op("Add", "var eps", "e"),
        op("Sqrt", "e", "s"),
        op("Div", "d s", "n"),
        op("Mul", "n scale", "g"),
        op("Add", "g bias", "y"),
    ]
    constants = {
        "axes": np.array([-1], np.int64),
        "two": number(2),
        "eps": number(1e-5),
        "scale": np.ones(6, np.float32),
        "bias": np.ones(6, np.float32),
    }
    graph = small(tmp_path, nodes, "y", **constants)
    (match,) = matches(graph, "layer_norm")
    assert match.nodes == tuple(range(9))
    assert match.constants == ("bias", "eps", "scale")
    assert matches(small(tmp_path, nodes, "y d", **constants), "layer_norm") == ()


def test_silu(tmp_path: Path) -> None:
    graph = small(
        tmp_path,
        [
            op("Sigmoid", "x", "a"),
            op("Mul", "a x", "b"),
            op("Sigmoid", "b", "c"),
            op("Mul", "b c", "d"),
            op("Sigmoid", "d", "e"),
            op("Mul", "x e", "y"),
        ],
        "y",
    )
    assert [match.nodes for match in matches(graph, "silu")] == [(0, 1), (2, 3)]


def test_conv_bn_relu_and_its_shorter_forms(tmp_path: Path) -> None:
    norm = "s s s s"
    graph = small(
        tmp_path,
        [
            op("Conv", "x w", "a", pads=[1] * 4),
            op("BatchNormalization", f"a {norm}", "b"),
            op("Relu", "b", "c"),
            op("Conv", "c w", "d", pads=[1] * 4, group=1),
            op("BatchNormalization", f"d {norm}", "e"),
            op("Conv", "e v", "f", group=4),
            op("Relu", "f", "g"),
            op("Conv", "g w", "h"),
            op("Relu", "h", "i"),
            op("Add", "i h", "y"),
        ],
        "y",
        w=np.ones((4, 4, 3, 3), np.float32),
        v=np.ones((4, 1, 1, 1), np.float32),
        s=np.ones(4, np.float32),
    )
    assert [match.nodes for match in matches(graph, "conv_bn_relu")] == [(0, 1, 2), (3, 4), (7,)]


def test_quantised_units(tmp_path: Path) -> None:
    graph = small(
        tmp_path,
        [
            op("QuantizeLinear", "x s z", "q"),
            op("DequantizeLinear", "q s z", "a"),
            op("DequantizeLinear", "w s wz", "b"),
            op("Conv", "a b", "c"),
            op("Relu", "c", "d"),
            op("QuantizeLinear", "d s z", "e"),
            op("DequantizeLinear", "e s z", "y"),
        ],
        "y",
        w=np.ones((4, 4, 3, 3), np.int8),
        s=number(0.1),
        z=np.array(0, np.uint8),
        wz=np.array(0, np.int8),
    )
    (match,) = matches(graph, "qdq_conv")
    assert match.nodes == (1, 2, 3, 4, 5)
    assert match.constants == ("s", "w", "wz", "z")


@pytest.fixture(scope="module")
def gpt2() -> Graph:
    return hetsim.load_model("zoo:gpt2_6layer", canonical="none").graph


@pytest.fixture(scope="module")
def bert() -> Graph:
    return hetsim.load_model("zoo:bert_small", canonical="none").graph


@pytest.fixture(scope="module")
def mobilenet() -> Graph:
    return hetsim.load_model("zoo:mobilenet_v2", canonical="none").graph


def test_gpt2_has_one_of_each_a_layer(gpt2: Graph) -> None:
    gelus = matches(gpt2, "gelu_tanh")
    assert len(gelus) == 6
    assert all(sorted(op_types(gpt2, match)) == sorted(
        ["Mul", "Pow", "Mul", "Add", "Mul", "Tanh", "Add", "Mul"]) for match in gelus
    )  # fmt: skip
    attentions = matches(gpt2, "attention")
    assert [op_types(gpt2, m) for m in attentions] == [
        ["MatMul", "Mul", "Add", "Softmax", "MatMul"]
    ] * 6
    assert [op_types(gpt2, m) for m in matches(gpt2, "qkv")] == [["Split"] + ["Reshape"] * 3] * 6
    assert matches(gpt2, "gelu") == ()


def test_bert_linears_are_those_found_by_walking_from_each_matmul(bert: Graph) -> None:
    readers = bert.consumers()
    walked = []
    for node in bert.nodes:
        if node.op_type != "MatMul" or node.inputs[1] not in bert.constants:
            continue
        (add,) = (bert.nodes[reader] for reader in readers[node.outputs[0]])
        assert add.op_type == "Add"
        unit = [node.id, add.id]
        after = [bert.nodes[reader] for reader in readers[add.outputs[0]]]
        if [other.op_type for other in after] == ["Gelu"]:
            unit.append(after[0].id)
        walked.append(tuple(unit))
    found = matches(bert, "linear")
    assert [match.nodes for match in found] == sorted(walked)
    assert sum(len(match.nodes) == 3 for match in found) == 4
    assert all(len(match.constants) == 2 for match in found)
    assert len(matches(bert, "attention")) == 4


def test_mobilenet_convs(mobilenet: Graph) -> None:
    found = matches(mobilenet, "conv_clip")
    assert sum(op_types(mobilenet, match) == ["Conv", "Clip"] for match in found) == 35
    assert sum(op_types(mobilenet, match) == ["Conv"] for match in found) == 52 - 35
    assert sorted(node for match in found for node in match.nodes) == [
        node.id for node in mobilenet.nodes if node.op_type in ("Conv", "Clip")
    ]
    assert len(matches(mobilenet, "depthwise")) == 17
