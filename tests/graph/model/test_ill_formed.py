"""Tensors and types that nothing could read are named as the file is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import hetsim
from hetsim.errors import ModelError
from hetsim.graph.canonical.half_precision import hide, mentions_half
from odd_values import sparse, sparse_constants
from onnx_builders import make_model, op, run_whole, save, value


def _model() -> onnx.ModelProto:
    """A constant in the graph, in an attribute, in a branch and in a function."""
    k = numpy_helper.from_array(np.ones((2, 3), np.float32), "k")
    inner = helper.make_graph([op("Add", "x i", "o")], "b", [], [value("o")], [k])
    inner.initializer[0].name = "i"
    function = helper.make_function(
        "local", "F", ["a"], ["b"],
        [op("Constant", "", "c", value=k), op("Add", "a c", "b")], [helper.make_opsetid("", 20)],
    )  # fmt: skip
    return make_model(
        [
            op("Add", "x w", "s"),
            op("Constant", "", "t", value=k),
            op("If", "yes", "u", then_branch=inner, else_branch=inner),
            op("F", "u", "f", domain="local"),
            op("Sum", "s t f", "y"),
        ],
        [value("x")],
        [value("y")],
        {"w": np.ones((2, 3), np.float32), "yes": np.array(True)},
        domains={"local": 1},
        functions=[function],
    )


def _typed(tensor: onnx.TensorProto) -> None:
    tensor.ClearField("raw_data")
    tensor.float_data.extend([1.0] * 6)
    tensor.dims.append(9)


PLACES: dict[str, Callable[[onnx.ModelProto], onnx.TensorProto]] = {
    "graph": lambda proto: proto.graph.initializer[0],
    "attribute": lambda proto: proto.graph.node[1].attribute[0].t,
    "branch": lambda proto: proto.graph.node[2].attribute[1].g.initializer[0],
    "function": lambda proto: proto.functions[0].node[0].attribute[0].t,
}
FAULTS: dict[str, tuple[Callable[[onnx.TensorProto], object], str]] = {
    "type": (lambda tensor: setattr(tensor, "data_type", 99), "type 99, which there is not"),
    "segment": (lambda tensor: tensor.segment.SetInParent(), "a segment of a tensor"),
    "size": (lambda tensor: tensor.dims.append(-2), "a negative size"),
    "twice": (lambda tensor: tensor.float_data.append(1), "stored twice"),
    "few": (lambda tensor: tensor.dims.append(2**40), "fewer values than its shape has"),
    "none": (lambda tensor: tensor.ClearField("raw_data"), "fewer values than its shape has"),
    "few_typed": (_typed, "fewer values than its shape has"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_constant_that_nothing_reads(tmp_path: Path, place: str, fault: str) -> None:
    proto = _model()
    break_it, says = FAULTS[fault]
    assert hetsim.load_model(save(proto, tmp_path)).graph.nodes
    break_it(PLACES[place](proto))
    path = save(proto, tmp_path)
    with pytest.raises(ModelError, match=says) as caught:
        hetsim.load_model(path, canonical="none")
    assert caught.value.where == str(path)


@pytest.mark.parametrize("wrap", ["plain", "sequence", "optional", "map"])
def test_a_value_of_a_type_that_there_is_not(tmp_path: Path, wrap: str) -> None:
    kind = helper.make_tensor_type_proto(1, (2,))
    kind.tensor_type.elem_type = -9
    if wrap == "sequence":
        kind = helper.make_sequence_type_proto(kind)
    elif wrap == "optional":
        kind = helper.make_optional_type_proto(helper.make_sequence_type_proto(kind))
    elif wrap == "map":
        kind = helper.make_map_type_proto(77, helper.make_tensor_type_proto(1, None))
    proto = _model()
    proto.graph.input.append(onnx.ValueInfoProto(name="odd", type=kind))
    with pytest.raises(ModelError, match=r"'odd' (is of|has keys of) type (-9|77)"):
        hetsim.load_model(save(proto, tmp_path))


def test_two_constants_of_one_name(tmp_path: Path) -> None:
    proto = _model()
    proto.graph.sparse_initializer.append(sparse("w", [1.0], [0]))
    with pytest.raises(ModelError, match="two constants are called 'w'"):
        hetsim.load_model(save(proto, tmp_path))


def test_a_sparse_constant_with_other_indices(tmp_path: Path) -> None:
    proto = _model()
    one = sparse("odd", [1.0], [0])
    one.indices.data_type = onnx.TensorProto.FLOAT
    proto.graph.node[1].attribute[0].CopyFrom(helper.make_attribute("sparse_value", one))
    with pytest.raises(ModelError, match="'odd' has indices of another type"):
        hetsim.load_model(save(proto, tmp_path))


@pytest.mark.parametrize("place", ["graph", "branch", "function"])
@pytest.mark.parametrize("op_type", ["If", "Cast", "Softmax", "DequantizeLinear"])
def test_a_node_of_too_few_inputs(tmp_path: Path, op_type: str, place: str) -> None:
    proto = _model()
    body = proto.graph.node[2].attribute[0].g
    nodes = {"graph": proto.graph, "branch": body, "function": proto.functions[0]}[place].node
    nodes.append(op(op_type, "", "odd", "short"))
    least = 2 if op_type == "DequantizeLinear" else 1
    says = f"'short' .{op_type}. has 0 inputs, and its operator takes at least {least}"
    with pytest.raises(ModelError, match=says):
        hetsim.load_model(save(proto, tmp_path))


def test_two_functions_of_one_name(tmp_path: Path) -> None:
    proto = _model()
    proto.functions.append(proto.functions[0])
    with pytest.raises(ModelError, match="two functions are called 'local::F'"):
        hetsim.load_model(save(proto, tmp_path))
    proto.functions[1].overload = "other"
    assert hetsim.load_model(save(proto, tmp_path)).graph.nodes


@pytest.mark.parametrize("place", ["graph", "branch", "function"])
@pytest.mark.parametrize("more", [("u u", "o"), ("u", "o p")])
def test_a_call_with_more_than_its_function_has(
    tmp_path: Path, more: tuple[str, str], place: str
) -> None:
    proto = _model()
    other = helper.make_function(
        "local", "G", ["a"], ["b"], [op("F", "a", "b", domain="local")],
        [helper.make_opsetid("", 20), helper.make_opsetid("local", 1)],
    )  # fmt: skip
    proto.functions.append(other)
    body = proto.graph.node[2].attribute[0].g
    nodes = {"graph": proto.graph, "branch": body, "function": proto.functions[1]}[place].node
    nodes.append(op("F", *more, "odd", domain="local"))
    with pytest.raises(ModelError, match=r"'odd' calls function 'F' with .*, and it has 1 and 1"):
        hetsim.load_model(save(proto, tmp_path))


def test_an_input_of_a_type_without_elements(tmp_path: Path) -> None:
    proto = _model()
    odd = proto.graph.input.add(name="odd")
    odd.type.opaque_type.name = "thing"
    assert not mentions_half(proto)


def test_inputs_of_any_size_are_not_drawn_to_see_shapes(tmp_path: Path) -> None:
    proto = make_model(
        [op("NonZero", "x", "n"), op("Identity", "s", "t")],
        [value("x"), value("s", (2**40,), "STRING")],
        [value("n", None, "INT64"), value("t", None, "STRING")],
    )
    model = hetsim.load_model(save(proto, tmp_path), canonical="none")
    assert (
        model.unmeasured
        == f"random inputs would have {2**40 + 6} elements, which is too many to try"
    )


@pytest.mark.parametrize("level", ["none", "basic", "extended"])
def test_sparse_constants_keep_the_indices_of_onnx(tmp_path: Path, level: str) -> None:
    proto, feeds = sparse_constants()
    model = hetsim.load_model(save(proto, tmp_path), canonical=level)
    kinds = {one.indices.data_type for one in model.proto.graph.sparse_initializer}
    assert kinds == {onnx.TensorProto.INT64}
    plain = hetsim.load_model(save(proto, tmp_path), canonical="none")
    np.testing.assert_array_equal(run_whole(model, feeds)["y"], run_whole(plain, feeds)["y"])


def test_a_node_of_half_precision_without_inputs() -> None:
    proto = make_model(
        [op("Identity", "", "y")], [value("x", (2,), "FLOAT16")], [value("y", None, "FLOAT16")]
    )
    assert not hide(proto.graph, {}).nodes


@pytest.mark.parametrize("version", [0, 1])
def test_a_function_whose_version_is_another_is_not_within_itself(
    tmp_path: Path, version: int
) -> None:
    proto = _model()
    proto.opset_import[1].version = version
    # What it calls itself would be of this version.
    proto.functions[0].opset_import.append(helper.make_opsetid("local", 1))
    model = hetsim.load_model(save(proto, tmp_path), canonical="none")
    call = next(node for node in model.graph.nodes if node.op_type == "F")
    # Nothing says what a version that its function does not have would do.
    assert (call.body is None) == (version == 0)
    problem = hetsim.Problem.of(model, hetsim.load_platform("laptop"))
    assert hetsim.plan(problem, "single:cpu").problem is problem


def test_a_constant_of_more_dimensions_than_numpy_has(tmp_path: Path) -> None:
    constant = onnx.TensorProto(name="w", data_type=1, dims=[1] * 65, float_data=[1.0])
    proto = make_model([op("Add", "x w", "y")], [value("x", (1,))], [value("y", None)])
    proto.graph.initializer.append(constant)
    with pytest.raises(ModelError, match="constant 'w' has 65 dimensions, above 64"):
        hetsim.load_model(save(proto, tmp_path))
