"""What nothing could read is named as the file is read: tensors, types, functions, sparse parts."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import hetsim
from hetsim.errors import ModelError
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
    with pytest.raises(ModelError, match="two constants are named 'w'"):
        hetsim.load_model(save(proto, tmp_path))


def test_a_sparse_constant_with_other_indices(tmp_path: Path) -> None:
    proto = _model()
    one = sparse("odd", [1.0], [0])
    one.indices.data_type = onnx.TensorProto.FLOAT
    proto.graph.node[1].attribute[0].CopyFrom(helper.make_attribute("sparse_value", one))
    with pytest.raises(ModelError, match="'odd' has indices that are not int64"):
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
    with pytest.raises(ModelError, match="two functions are named 'local::F'"):
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


def test_inputs_of_any_size_are_not_drawn_to_see_shapes(tmp_path: Path) -> None:
    proto = make_model(
        [op("NonZero", "x", "n"), op("Identity", "s", "t")],
        [value("x"), value("s", (2**40,), "STRING")],
        [value("n", None, "INT64"), value("t", None, "STRING")],
    )
    model = hetsim.load_model(save(proto, tmp_path), canonical="none")
    assert (
        model.unmeasured == f"random inputs would have {2**40 + 6} elements, too many to generate"
    )


@pytest.mark.parametrize("level", ["none", "basic", "extended"])
def test_sparse_constants_keep_the_indices_of_onnx(tmp_path: Path, level: str) -> None:
    proto, feeds = sparse_constants()
    model = hetsim.load_model(save(proto, tmp_path), canonical=level)
    kinds = {one.indices.data_type for one in model.proto.graph.sparse_initializer}
    assert kinds == {onnx.TensorProto.INT64}
    plain = hetsim.load_model(save(proto, tmp_path), canonical="none")
    np.testing.assert_array_equal(run_whole(model, feeds)["y"], run_whole(plain, feeds)["y"])


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


IMPORTS = [helper.make_opsetid("", 20), helper.make_opsetid("f", 1)]


def chain(depth: int, calls: int) -> list[onnx.FunctionProto]:
    """F0 calls F1 so often, that F2, and so on; the last is a Relu."""
    found = []
    for level in range(depth):
        name, domain = (f"F{level + 1}", "f") if level < depth - 1 else ("Relu", "")
        ports = ["a", *(f"t{call}" for call in range(calls - 1)), "b"]
        nodes = [op(name, a, b, domain=domain) for a, b in pairwise(ports)]
        found.append(helper.make_function("f", f"F{level}", ["a"], ["b"], nodes, IMPORTS))
    return found


def calling(functions: list[onnx.FunctionProto]) -> onnx.ModelProto:
    nodes = [op("F0", "x", "y", domain="f")]
    return make_model(nodes, [value("x")], [value("y")], functions=functions, domains={"f": 1})


@pytest.mark.parametrize(
    ("depth", "calls", "says"),
    [
        (101, 1, "are nested more than 100 deep"),
        (2_550, 1, "are nested more than 100 deep"),  # overran ONNX Runtime's stack
        (30, 2, "expand to more than 1000000 nodes"),  # hung
        (3, 101, "expand to more than 1000000 nodes"),
    ],
)
@pytest.mark.parametrize("where", ["model", "extension", "library"])
def test_functions_that_unfold_to_too_much_are_refused(
    depth: int, calls: int, says: str, where: str, tmp_path: Path
) -> None:
    functions = chain(depth, calls)
    onnx.save(calling(functions), tmp_path / "bodies.onnx")
    onnx.save(calling(functions if where == "model" else []), tmp_path / "model.onnx")
    (tmp_path / "ops.so").write_bytes(b"")
    bodies = str(tmp_path / "bodies.onnx")
    library = f"{tmp_path / 'ops.so'}={bodies}"
    given = {"model": (), "extension": (bodies,), "library": (library,)}[where]
    with pytest.raises(ModelError, match=says):
        hetsim.load_model(tmp_path / "model.onnx", extensions=given)


def test_functions_that_call_themselves_are_refused(tmp_path: Path) -> None:
    first, second = chain(2, 1)
    second.node[0].op_type, second.node[0].domain = "F0", "f"
    onnx.save(calling([first, second]), tmp_path / "model.onnx")
    with pytest.raises(ModelError, match=r"function 'F\d' calls itself"):
        hetsim.load_model(tmp_path / "model.onnx")


def test_functions_of_functions_are_read(tmp_path: Path) -> None:
    onnx.save(calling(chain(5, 3)), tmp_path / "model.onnx")
    assert {node.op_type for node in hetsim.load_model(tmp_path / "model.onnx").graph.nodes} == {
        "Relu"
    }
    onnx.save(calling(chain(30, 1)), tmp_path / "deep.onnx")
    assert len(hetsim.load_model(tmp_path / "deep.onnx").graph.nodes) == 1


COUNT = 4096
X = np.zeros((2, 3), np.float32)


def stored(location: str) -> onnx.NodeProto:
    """A Constant of as many ones as there are, each at its place in a row of twice as many."""
    parts = []
    for name, dtype, offset in (("v", onnx.TensorProto.FLOAT, 0), ("i", onnx.TensorProto.INT64, 4)):
        part = onnx.TensorProto(name=name, data_type=dtype, dims=[COUNT])
        part.data_location = onnx.TensorProto.EXTERNAL
        part.external_data.add(key="location", value=location)
        part.external_data.add(key="offset", value=str(offset * COUNT))
        parts.append(part)
    node = op("Constant", "", "c")
    node.attribute.append(helper.make_attribute("sparse_value", onnx.SparseTensorProto(
        values=parts[0], indices=parts[1], dims=[2 * COUNT])))  # fmt: skip
    return node


def sparse_model(place: str, location: str = "w.bin") -> onnx.ModelProto:
    nodes = [stored(location), op("ReduceSum", "c", "s", keepdims=0), op("Add", "x s", "y")]
    if place == "graph":
        return make_model(nodes, [value("x")], [value("y")])
    if place == "branch":
        body = helper.make_graph(nodes, "b", [], [value("y")])
        choice = op("If", "go", "z", then_branch=body, else_branch=body)
        ask = [op("ReduceMax", "x", "most", keepdims=0), op("Cast", "most", "go", to=9)]
        return make_model([*ask, choice], [value("x")], [value("z")])
    function = helper.make_function("f", "F", ["x"], ["y"], nodes, [helper.make_opsetid("", 20)])
    return make_model(
        [op("F", "x", "y", domain="f")], [value("x")], [value("y")],
        domains={"f": 1}, functions=[function],
    )  # fmt: skip


@pytest.mark.parametrize("place", ["graph", "branch", "function"])
def test_parts_of_sparse_constants_are_beside_the_model(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    path = tmp_path / "here" / "m.onnx"
    onnx.save(sparse_model(place), path)
    content = np.ones(COUNT, np.float32).tobytes() + np.arange(COUNT).tobytes()
    path.with_name("w.bin").write_bytes(content)
    # What lies in the folder that the process is in is nobody's weights.
    (tmp_path / "w.bin").write_bytes(b"\0" * len(content))
    monkeypatch.chdir(tmp_path)
    found = hetsim.load_model(path)
    (out,) = run_whole(found, {"x": X}).values()
    assert np.array_equal(out, X + COUNT)
    path.with_name("w.bin").write_bytes(content + b"\0")
    assert hetsim.load_model(path).sha256 != found.sha256


@pytest.mark.parametrize("place", ["graph", "branch", "function"])
@pytest.mark.parametrize("location", ["../w.bin", "sub/link.bin", "gone.bin", "pipe"])
def test_parts_of_sparse_constants_elsewhere_are_refused(
    place: str, location: str, tmp_path: Path
) -> None:
    folder = tmp_path / "here"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "w.bin").write_bytes(b"\0" * 12 * COUNT)
    (folder / "sub" / "link.bin").symlink_to(tmp_path / "w.bin")
    os.mkfifo(folder / "pipe")
    onnx.save(sparse_model(place, location), folder / "m.onnx")
    with pytest.raises(ModelError, match=r"is outside the model's folder|is missing"):
        hetsim.load_model(folder / "m.onnx")


def test_sparse_constants_of_more_than_a_model_holds_are_refused(tmp_path: Path) -> None:
    proto = sparse_model("graph")
    sparse = proto.graph.node[0].attribute[0].sparse_tensor
    for part in (sparse.values, sparse.indices):
        part.dims[0] = 2**39
        del part.external_data[1:]
    onnx.save(proto, tmp_path / "m.onnx")
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(2**42)  # takes no room
    with pytest.raises(ModelError, match="exceed 2 GiB together"):
        hetsim.load_model(tmp_path / "m.onnx")
