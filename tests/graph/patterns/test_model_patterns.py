"""Composites that devices run whole, found in ONNX models and counted by hand."""

from __future__ import annotations

import hetsim
from hetsim.graph.graph import Graph
from hetsim.graph.patterns.matching import Match, find_matches
from hetsim.graph.patterns.parser import parse_pattern
from hetsim.graph.patterns.pattern import check_names
from hetsim.graph.work import op_key

UNITS = {
    "gelu": "Mul(Mul($x, Add(Erf(Div($x, const)), const)), const)",
    "gelu_tanh": """
        Mul(
            Mul($x, const),
            Add(Tanh(Mul(Add($x, Mul(Pow($x, const), const)), const)), const)
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


def zoo(name: str) -> Graph:
    return hetsim.load_model(f"zoo:{name}", canonical="none").graph


def test_gpt2_has_one_of_each_a_layer() -> None:
    gpt2 = zoo("gpt2_6layer")
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


def test_bert_linears_are_those_found_by_walking_from_each_matmul() -> None:
    bert = zoo("bert_small")
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


def test_mobilenet_convs() -> None:
    mobilenet = zoo("mobilenet_v2")
    found = matches(mobilenet, "conv_clip")
    assert sum(op_types(mobilenet, match) == ["Conv", "Clip"] for match in found) == 35
    assert sum(op_types(mobilenet, match) == ["Conv"] for match in found) == 52 - 35
    assert sorted(node for match in found for node in match.nodes) == [
        node.id for node in mobilenet.nodes if node.op_type in ("Conv", "Clip")
    ]
    assert len(matches(mobilenet, "depthwise")) == 17
