"""Models from files and from memory: dims, names, order, external weights."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.external_data_helper import convert_model_to_external_data

from hash_seeds import SEEDS, printed_here, printed_under
from hetsim.errors import InvalidInput, ModelError, UnboundDimension, UsageError
from hetsim.graph.loading import load_model, model_of
from hetsim.graph.reading import onnx_runtime, session
from onnx_builders import (
    assert_bitwise_equal,
    check_consistent,
    function_model,
    load,
    make_model,
    op,
    run_whole,
    save,
    value,
)

RELU = [op("Relu", "x", "y", "r")]


def test_plain_model(tmp_path: Path) -> None:
    proto = make_model(
        [op("Gemm", "x w b", "h", "fc", alpha=0.5, transB=1), op("Relu", "h", "y")],
        [value("x")],
        [value("y", (2, 4))],
        {"w": np.ones((4, 3), np.float32), "b": np.ones(4, np.float32)},
    )
    path = save(proto, tmp_path)
    model = load_model(str(path))
    check_consistent(model)
    assert (model.name, model.source, model.canonical) == ("m", str(path), "basic")
    assert model.weights_dir is None
    assert model.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert model.original_nodes == ("fc", "Relu_1")
    assert model.folded == ()
    assert model.graph.inputs == ("x",)
    assert model.graph.outputs == ("y",)
    assert model.graph.constants == {"w", "b"}
    assert model.graph.tensors["h"].shape == (2, 4)
    assert model.graph.tensors["h"].dtype == "float32"
    assert model.graph.nodes[0].attributes["alpha"] == 0.5
    assert model.graph.opsets == {"": 20}
    assert list(tmp_path.iterdir()) == [path]


def test_symbolic_dims_stay_until_bound(tmp_path: Path) -> None:
    proto = make_model(
        [op("Concat", "x x", "h", axis=1), op("Relu", "h", "y")],
        [value("x", ("batch", "length", 4))],
        [value("y", None)],
    )
    path = save(proto, tmp_path)
    free = load_model(path)
    assert free.graph.tensors["x"].shape == ("batch", "length", 4)
    assert free.graph.tensors["y"].shape == ("batch", None, 4)
    with pytest.raises(UnboundDimension, match="--dim batch=N") as caught:
        _ = free.graph.tensors["y"].nbytes
    assert caught.value.dims == ("batch",)
    by_name = load_model(path, dims={"batch": 2, "length": 5})
    by_shape = load_model(path, shapes={"x": [2, 5, 4]})
    for model in (by_name, by_shape):
        check_consistent(model)
        assert model.graph.tensors["x"].shape == (2, 5, 4)
        assert model.graph.tensors["y"].shape == (2, 10, 4)
    assert by_name.dims == {"batch": 2, "length": 5}
    assert by_shape.shapes == {"x": (2, 5, 4)}
    partly = load_model(path, dims={"length": 5})
    assert partly.graph.tensors["y"].shape == ("batch", 10, 4)


def test_a_shape_binds_the_same_name_elsewhere(tmp_path: Path) -> None:
    proto = make_model(
        [op("Add", "a b", "y")], [value("a", ("n", 3)), value("b", ("n", 3))], [value("y", None)]
    )
    model = load(proto, tmp_path, shapes={"a": (7, 3)})
    assert model.graph.tensors["b"].shape == (7, 3)


def test_a_shape_gives_rank_and_open_dims(tmp_path: Path) -> None:
    proto = make_model(
        [op("Relu", "a", "u"), op("Relu", "b", "v")],
        [value("a", None), value("b", (None, -1))],
        [value("u", None), value("v", None)],
    )
    free = load(proto, tmp_path)
    assert free.graph.tensors["u"].shape is None
    assert free.graph.tensors["v"].shape == (None, None)
    model = load(proto, tmp_path, shapes={"a": (2,), "b": (3, 4)})
    assert model.graph.tensors["u"].shape == (2,)
    assert model.graph.tensors["v"].shape == (3, 4)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"dims": {"bach": 2}}, "did you mean 'batch'"),
        ({"dims": {"*": 0}}, "cannot be 0"),
        ({"dims": {"batch": -1}}, "cannot be -1"),
        ({"dims": {"batch": 2**63}}, "cannot be 9223372036854775808"),
        ({"dims": {"batch": 10**5000}}, "cannot be <int>"),
        ({"dims": {"batch": 1.5}}, "is 1.5, not a whole number"),
        ({"dims": {"batch": True}}, "is True, not a whole number"),
        ({"shapes": {"z": (1, 3)}}, "no input named 'z'"),
        ({"shapes": {"x": (1, 3, 1)}}, "give 2 numbers"),
        ({"shapes": {"x": (1, 4)}}, "contradicts"),
        ({"shapes": {"x": (-1, 3)}}, "cannot be -1"),
        ({"shapes": {"x": (2**64, 3)}}, "cannot be 18446744073709551616"),
        ({"shapes": {"x": 3}}, "is 3, not a list"),
        ({"dims": {"batch": 2}, "shapes": {"x": (3, 3)}}, "'batch' is bound to 2"),
        ({"shapes": {"x": (2, 3), "z2": (4, 3)}}, "'batch' is bound to 2"),
        ({"shapes": {"s": (2,)}}, "is not a tensor"),
        ({"canonical": "basics"}, "did you mean 'basic'"),
    ],
)
def test_wrong_options(tmp_path: Path, options: dict[str, Any], says: str) -> None:
    sequence = onnx.ValueInfoProto(name="s")
    sequence.type.sequence_type.elem_type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    proto = make_model(
        [op("Relu", "x", "y"), op("Relu", "z2", "y2"), op("SequenceLength", "s", "n")],
        [value("x", ("batch", 3)), value("z2", ("batch", 3)), sequence],
        [value("y", None), value("y2", None), value("n", (), "INT64")],
    )
    # What is of the wrong kind is InvalidInput, what names or sizes do not fit is UsageError.
    kind = InvalidInput if ", not a" in says else UsageError
    with pytest.raises(kind, match=says.replace("(", r"\(")) as caught:
        load(proto, tmp_path, **options)
    assert "\n" not in str(caught.value)


def test_dims_cannot_be_bound_where_all_are_fixed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="all dimensions of its inputs are fixed"):
        load(make_model(RELU, [value("x")], [value("y")]), tmp_path, dims={"n": 1})


def test_stale_types_are_inferred_anew(tmp_path: Path) -> None:
    proto = make_model(
        [op("Relu", "x", "h"), op("Relu", "h", "y")], [value("x", ("n", 3))], [value("y", (1, 3))]
    )
    proto.graph.value_info.append(value("h", (1, 3)))
    for level in ("none", "basic"):
        model = load(proto, tmp_path, dims={"n": 6}, canonical=level)
        assert model.graph.tensors["h"].shape == (6, 3)
        assert model.graph.tensors["y"].shape == (6, 3)


def test_an_unsorted_file_is_sorted_stably(tmp_path: Path) -> None:
    nodes = [op("Relu", "b", "y", "third"), op("Neg", "x", "z", "free"), op("Abs", "x", "b", "a")]
    proto = make_model(nodes, [value("x")], [value("y"), value("z")])
    model = load(proto, tmp_path, canonical="none")
    assert [node.name for node in model.graph.nodes] == ["free", "a", "third"]
    check_consistent(model)


def test_names_are_unique_and_kept(tmp_path: Path) -> None:
    nodes = [
        op("Relu", "x", "a"),
        op("Relu", "a", "b", "Relu_0"),
        op("Relu", "b", "c", "twice"),
        op("Relu", "c", "d", "twice"),
        op("Relu", "d", "y", "Relu_3"),
    ]
    model = load(make_model(nodes, [value("x")], [value("y")]), tmp_path, canonical="none")
    assert model.original_nodes == ("Relu_0_", "Relu_0", "twice", "Relu_3_", "Relu_3")
    assert [(node.op, node.outputs) for node in model.file_nodes] == [
        ("Relu", (name,)) for name in "abcdy"
    ]
    check_consistent(model)


@pytest.mark.parametrize("level", ["none", "basic", "extended"])
def test_it_is_the_model_of_the_file(tmp_path: Path, level: Any) -> None:
    proto = function_model()
    before = proto.SerializeToString()
    inside, stored = model_of(proto, name="m", canonical=level), load(proto, tmp_path)
    stored = load_model(tmp_path / "m.onnx", canonical=level)
    assert proto.SerializeToString() == before
    check_consistent(inside)
    assert inside.graph == stored.graph
    assert inside.proto == stored.proto
    assert (inside.name, inside.source, inside.sha256) == ("m", "m", stored.sha256)


def large(folder: Path) -> onnx.ModelProto:
    """Two layers, each behind a transposed weight of 40 kB in a file."""
    rng = np.random.default_rng(0)
    proto = make_model(
        [
            op("Transpose", "w", "wt", "turn", perm=[1, 0]),
            op("MatMul", "x wt", "h", "mm"),
            op("MatMul", "h v", "y", "mm2"),
        ],
        [value("x", (2, 100))],
        [value("y", None)],
        {name: rng.standard_normal((100, 100)).astype(np.float32) for name in "wv"},
    )
    convert_model_to_external_data(proto, location="w.bin", size_threshold=0)
    onnx.save(proto, folder / "large.onnx")
    return onnx.load(folder / "large.onnx", load_external_data=False)


def test_external_weights_are_looked_for_in_the_folder_given(tmp_path: Path) -> None:
    proto = large(tmp_path)
    model = model_of(proto, weights_dir=tmp_path, canonical="none")
    assert model.weights_dir == tmp_path.resolve()
    x = {"x": np.ones((2, 100), np.float32)}
    stored = load_model(tmp_path / "large.onnx", canonical="none")
    assert_bitwise_equal(run_whole(model, x), run_whole(stored, x))
    with pytest.raises(ModelError, match="their folder is not given"):
        model_of(proto)
    with pytest.raises(ModelError, match=r"'w\.bin' of tensor '\w' is missing"):
        model_of(proto, weights_dir=tmp_path / "elsewhere")


def test_what_is_no_complete_model_is_refused() -> None:
    with pytest.raises(ModelError, match="it is empty"):
        model_of(onnx.ModelProto())
    with pytest.raises(ModelError, match="it has no graph"):
        model_of(onnx.ModelProto(ir_version=9))


def test_large_constants_are_not_folded_where_there_are_too_many_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large(tmp_path)
    kinds = [node.op_type for node in load_model(tmp_path / "large.onnx").graph.nodes]
    assert kinds == ["MatMul", "MatMul"]
    monkeypatch.setattr(onnx_runtime, "MOST_BYTES", 50_000)
    monkeypatch.setattr(session, "_LARGE_CONSTANT_BYTES", 10_000)
    model = load_model(tmp_path / "large.onnx")
    assert [node.op_type for node in model.graph.nodes] == ["Transpose", "MatMul", "MatMul"]
    assert model.proto.ByteSize() < 2000
    x = {"x": np.ones((2, 100), np.float32)}
    stored = load_model(tmp_path / "large.onnx", canonical="none")
    assert_bitwise_equal(run_whole(model, x), run_whole(stored, x))


def external_model(folder: Path, elements: int = 4096) -> Path:
    proto = make_model(
        [op("Add", "x w", "h", "a"), op("Reshape", "h s", "y", "b")],
        [value("x", (elements,))],
        [value("y", None)],
        {"w": np.arange(elements, dtype=np.float32), "s": np.array([2, elements // 2])},
    )
    onnx.save(
        proto, folder / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0
    )
    return folder / "m.onnx"


@pytest.mark.parametrize("level", ["none", "basic"])
def test_large_external_weights_stay_on_disk(tmp_path: Path, level: str) -> None:
    path = external_model(tmp_path)
    before = sorted(p.name for p in tmp_path.iterdir())
    model = load_model(path, canonical=level)
    check_consistent(model)
    assert model.weights_dir == tmp_path.resolve()
    external = {t.name for t in model.proto.graph.initializer if t.data_location == 1}
    assert external == {"w"}
    assert model.graph.constant_values == {"s": (2, 2048)}
    assert model.graph.tensors["y"].shape == (2, 2048)
    assert sorted(p.name for p in tmp_path.iterdir()) == before
    x = np.ones(4096, np.float32)
    expected = (np.arange(4096, dtype=np.float32) + 1).reshape(2, 2048)
    np.testing.assert_array_equal(run_whole(model, {"x": x})["y"], expected)
    digest = hashlib.sha256(path.read_bytes())
    digest.update(f"\0w.bin\0{(tmp_path / 'w.bin').stat().st_size}".encode())
    assert model.sha256 == digest.hexdigest()


def test_weights_with_another_name_are_refused_as_onnx_does(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    path = external_model(tmp_path / "model")
    (tmp_path / "elsewhere").hardlink_to(tmp_path / "model" / "w.bin")
    with pytest.raises(onnx.checker.ValidationError, match="multiple hard links"):
        onnx.load(path)
    with pytest.raises(ModelError, match=r"'w\.bin' of tensor 'w' has 2 hard links.*; .* cp "):
        load_model(path)
    (tmp_path / "elsewhere").unlink()
    assert load_model(path).weights_dir == tmp_path / "model"


SCRIPT = """
import hashlib
from hetsim.graph.loading import load_model
model = load_model('zoo:bert_small', canonical='extended')
text = repr((model.graph.nodes, model.graph.tensors, model.folded)).encode()
print(hashlib.sha256(text + model.proto.SerializeToString()).hexdigest())
"""


@pytest.mark.sweep
@pytest.mark.parametrize("seed", SEEDS)
def test_the_hash_seed_does_not_matter(seed: int) -> None:
    assert printed_under(seed, SCRIPT) == printed_here(SCRIPT)
