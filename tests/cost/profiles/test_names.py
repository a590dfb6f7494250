"""What runtimes call kernels is understood: fused names, added ends and beginnings, ranges."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import hetsim
from hetsim.cost.profiles.names import Names
from onnx_builders import make_model, op, save, value
from profile_builders import unit_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> hetsim.Model:
    return hetsim.load_model(save(unit_model(), tmp_path_factory.mktemp("m"), "unit.onnx"))


def spoken(model: hetsim.Model, name: str) -> list[str] | None:
    found = Names.of(model).spoken(name)
    return None if found is None else [model.graph.nodes[v].name for v in found.nodes]


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("conv1", ["conv1"]),
        ("conv1 + relu1", ["conv1", "relu1"]),
        ("conv1+relu1", ["conv1", "relu1"]),
        ("conv1,relu1", ["conv1", "relu1"]),
        ("conv1 || conv2", ["conv1", "conv2"]),
        ("fused_conv1_relu1", ["conv1", "relu1"]),
        ("fused conv1", ["conv1"]),
        ("conv1_relu1", ["conv1", "relu1"]),
        ("PWN(PWN(relu2), add)", ["relu2", "add"]),
        ("conv2 + PWN(PWN(relu2), add)", ["conv2", "relu2", "add"]),
        ("(Unnamed Layer* 3) [Shuffle] + flat", ["flat"]),
        ("Reformatting CopyNode for Input Tensor 0 to conv1 + relu1", ["conv1", "relu1"]),
        ("conv1 + relu1 input reformatter 0", ["conv1", "relu1"]),
        ("conv1_nchwc", ["conv1"]),
        ("c1_nchwc", ["conv1"]),
        ("r1_nchwc", ["relu1"]),
        ("g_mul_nchwc", ["pool"]),
        ("g_bn_nchwc", ["pool"]),
        ("conv1_token_12", ["conv1"]),
        ("conv1_kernel_time", ["conv1"]),
        ("head/MatMulAddFusion", ["head"]),
        ("head/MatMulScaleFusion/", ["head"]),
        ("conv1/WithoutBiases", ["conv1"]),
        ("convolution:conv1", ["conv1"]),
        ("node_of_c1", ["conv1"]),
        ("conv3", None),
        ("conv", None),
        ("fused_conv1_tanh1", None),
        ("SkipLayerNormalization_token_3", None),
        ("__myl_ConvRelu_myl0_3", None),
        ("", None),
        ("+", None),
        ("_" * 5000, None),
    ],
)
def test_names_are_understood(model: hetsim.Model, name: str, nodes: list[str] | None) -> None:
    assert spoken(model, name) == nodes


def test_a_range_is_one_of_the_file(model: hetsim.Model) -> None:
    for text in ("{ForeignNode[relu1...add]}", "ForeignNode[add...relu1]"):
        found = Names.of(model).spoken(text)
        assert found is not None
        assert found.between == (1, 4)
    assert Names.of(model).spoken("{ForeignNode[relu1...nowhere]}") is None


def test_pieces_are_whole_names_the_longest_first() -> None:
    names = Names({"a": (0,), "b": (1,), "a_b": (2,), "c": (3,), "b_c": (4,)}, {}, {})

    def pieced(name: str) -> tuple[int, ...] | None:
        found = names.spoken(name)
        return None if found is None else found.nodes

    assert pieced("a_b_c") == (2, 3)
    assert pieced("c_a_b") == (2, 3)
    assert pieced("b_a_c") == (0, 1, 3)
    assert pieced("a+b+c") == (0, 1, 3)
    assert pieced("a_b+c") == (2, 3)
    assert pieced("a_x_c") is None
    assert pieced("_".join("a" * 64)) == (0,)
    assert pieced("_".join("a" * 65)) is None


def test_nodes_without_a_name_go_by_their_number_among_those_that_are_no_constants(
    tmp_path: Path,
) -> None:
    number = onnx.helper.make_tensor("n", onnx.TensorProto.FLOAT, [1], [2.0])
    proto = make_model(
        [
            op("Constant", "", "c", value=number),
            op("Mul", "x c", "a"),
            op("Constant", "", "d", value=number),
            op("Mul", "a d", "y"),
        ],
        [value("x")],
        [value("y")],
    )
    model = hetsim.load_model(save(proto, tmp_path, "nameless.onnx"))
    names = Names.of(model)
    called = {index: names.spoken(f"Mul_{index}", op="Mul", index=index) for index in (0, 1, 2, 3)}
    assert {k: v.nodes for k, v in called.items() if v is not None} == {0: (0,), 1: (1,)}
    assert all(found.exact for found in called.values() if found is not None)
    # Where the number is not the runtime's own, it is the name of a node.
    plainly = names.spoken("Mul_1", op="Mul", index=7)
    assert plainly is not None
    assert plainly.nodes == (0,)


def test_names_that_the_runtime_made_up_are_no_names(tmp_path: Path) -> None:
    model = hetsim.load_model("zoo:bert_small")
    made_up = [n.name for n in model.graph.nodes if n.name not in model.original_nodes]
    reshapes = [name for name in made_up if "reshape" in name]
    assert reshapes
    names = Names.of(model)
    assert not any(names.spoken(name) for name in reshapes)
    # One that is named after a node of the file is its own.
    fused = next(node for node in model.graph.nodes if node.name.endswith("/MatMulAddFusion"))
    found = names.spoken(fused.name)
    assert found is not None
    assert found.nodes == (fused.id,)
