"""Models that are in memory: as those from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.external_data_helper import convert_model_to_external_data

from hetsim.errors import ModelError, UsageError
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
    value,
)


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


def test_dims_are_bound_and_wrong_options_refused() -> None:
    proto = make_model([op("Relu", "x", "y")], [value("x", ("n", 3))], [value("y", None)])
    assert model_of(proto, dims={"n": 5}).graph.tensors["y"].shape == (5, 3)
    assert model_of(proto, shapes={"x": (2, 3)}).graph.tensors["y"].shape == (2, 3)
    with pytest.raises(UsageError, match="did you mean 'none'"):
        model_of(proto, canonical="non")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no input has a dimension named 'm'"):
        model_of(proto, dims={"m": 5})


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
    with pytest.raises(ModelError, match="it is not said where; give the folder"):
        model_of(proto)
    with pytest.raises(ModelError, match=r"'w\.bin' of tensor '\w' is missing"):
        model_of(proto, weights_dir=tmp_path / "elsewhere")


def test_what_is_no_complete_model_is_refused() -> None:
    with pytest.raises(ModelError, match="it is empty"):
        model_of(onnx.ModelProto())
    with pytest.raises(ModelError, match="it holds no graph"):
        model_of(onnx.ModelProto(ir_version=9))


def test_large_constants_are_not_folded_where_there_are_too_many_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large(tmp_path)
    kinds = [node.op_type for node in load_model(tmp_path / "large.onnx").graph.nodes]
    assert kinds == ["MatMul", "MatMul"]
    monkeypatch.setattr(onnx_runtime, "_MANY_BYTES", 50_000)
    monkeypatch.setattr(session, "_LARGE_CONSTANT_BYTES", 10_000)
    model = load_model(tmp_path / "large.onnx")
    assert [node.op_type for node in model.graph.nodes] == ["Transpose", "MatMul", "MatMul"]
    assert model.proto.ByteSize() < 2000
    x = {"x": np.ones((2, 100), np.float32)}
    stored = load_model(tmp_path / "large.onnx", canonical="none")
    assert_bitwise_equal(run_whole(model, x), run_whole(stored, x))
