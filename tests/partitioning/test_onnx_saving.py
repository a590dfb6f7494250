"""Models on disk run where they were written, and a failed write leaves nothing behind."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest

from hetsim.errors import InvalidInput, ModelError, OutOfRoom
from hetsim.graph.loading import load_model
from hetsim.graph.model import Model
from hetsim.graph.reading.external_data import copy_without
from hetsim.partitioning.onnx_export import save
from onnx_builders import assert_bitwise_equal, load, make_model, op, open_exactly, value
from small_files import small_files

FLOAT = np.float32


def plain() -> onnx.ModelProto:
    return make_model(
        [op("Add", "x w", "h", "add"), op("Mul", "h k", "y", "mul")],
        [value("x", (5000,))],
        [value("y", (5000,))],
        {"w": np.linspace(0, 1, 5000, dtype=FLOAT), "k": np.linspace(2, 3, 5000, dtype=FLOAT)},
    )


def external(folder: Path, location: str = "sub/w.bin") -> Model:
    (folder / location).parent.mkdir(parents=True, exist_ok=True)
    onnx.save(
        plain(), folder / "m.onnx", save_as_external_data=True, location=location, size_threshold=0
    )
    return load_model(folder / "m.onnx", canonical="none")


def outputs(path: Path) -> dict[str, np.ndarray]:
    session = open_exactly(onnx.load(path, load_external_data=False), path.parent)
    return {"y": session.run(["y"], {"x": np.arange(5000, dtype=FLOAT)})[0]}


def files(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_weights_come_along(tmp_path: Path) -> None:
    model = external(tmp_path / "in")
    there = tmp_path / "new" / "folder"
    for name in ("a.onnx", "b.onnx"):
        path = save(model.proto, there / name, model.weights_dir)
        onnx.checker.check_model(path, full_check=True)
        assert_bitwise_equal(outputs(path), outputs(tmp_path / "in" / "m.onnx"))
    assert files(there) == ["a.onnx", "b.onnx", "sub/w.bin"]
    onnx.checker.check_model(tmp_path / "in" / "m.onnx", full_check=True)


def test_inline_weights_stay_below_the_limit(tmp_path: Path) -> None:
    model = load(plain(), tmp_path)
    save(model.proto, tmp_path / "out" / "m.onnx", None)
    assert files(tmp_path / "out") == ["m.onnx"]


def test_inline_weights_move_out_above_the_limit(tmp_path: Path) -> None:
    model = load(plain(), tmp_path, canonical="none")
    before = model.proto.SerializeToString()
    path = save(model.proto, tmp_path / "out" / "m.onnx", None, inline_limit_bytes=30_000)
    assert files(tmp_path / "out") == ["m.onnx", "m.onnx.weights"]
    assert path.stat().st_size < 2000
    onnx.checker.check_model(path, full_check=True)
    stored = onnx.load(path, load_external_data=False).graph.initializer
    offsets = [int(e.value) for t in stored for e in t.external_data if e.key == "offset"]
    assert offsets == [0, 20480]
    assert_bitwise_equal(outputs(path), outputs(tmp_path / "m.onnx"))
    assert model.proto.SerializeToString() == before
    again = load_model(path)
    assert again.graph.constants == model.graph.constants


def test_both_kinds_of_weights(tmp_path: Path) -> None:
    model = external(tmp_path / "in", "m.onnx.weights")
    extra = onnx.numpy_helper.from_array(np.linspace(2, 3, 5000, dtype=FLOAT), "k")
    kept = [t for t in model.proto.graph.initializer if t.name != "k"]
    proto = copy_without(model.proto, graph=("initializer",))
    proto.graph.initializer.extend([*kept, extra])
    path = save(proto, tmp_path / "out" / "m.onnx", model.weights_dir, inline_limit_bytes=0)
    assert files(tmp_path / "out") == ["m.onnx", "m.onnx.weights", "m.onnx.weights_"]
    onnx.checker.check_model(path, full_check=True)
    assert_bitwise_equal(outputs(path), outputs(tmp_path / "in" / "m.onnx"))


def test_other_weights_are_not_replaced(tmp_path: Path) -> None:
    model = external(tmp_path / "in", "w.bin")
    out = tmp_path / "out"
    out.mkdir()
    (out / "w.bin").write_bytes(b"mine")
    with pytest.raises(InvalidInput, match="another file exists at"):
        save(model.proto, out / "m.onnx", model.weights_dir)
    assert files(out) == ["w.bin"]
    assert (out / "w.bin").read_bytes() == b"mine"
    (out / "w.bin").unlink()
    (out / "w.bin").symlink_to(tmp_path / "in" / "w.bin")
    with pytest.raises(InvalidInput, match="another file exists at"):
        save(model.proto, out / "m.onnx", model.weights_dir)


def test_a_model_does_not_take_the_place_of_its_weights(tmp_path: Path) -> None:
    model = external(tmp_path / "in", "w.bin")
    with pytest.raises(InvalidInput, match="another file exists at"):
        save(model.proto, tmp_path / "out" / "w.bin", model.weights_dir)
    with pytest.raises(InvalidInput, match="another file exists at"):
        save(model.proto, tmp_path / "in" / "w.bin", model.weights_dir)
    assert (tmp_path / "in" / "w.bin").stat().st_size >= 40_000


def test_missing_weights(tmp_path: Path) -> None:
    model = external(tmp_path / "in", "w.bin")
    with pytest.raises(ModelError, match="no weights folder"):
        save(model.proto, tmp_path / "out" / "m.onnx", None)
    (tmp_path / "in" / "w.bin").unlink()
    with pytest.raises(ModelError, match="is missing"):
        save(model.proto, tmp_path / "out" / "m.onnx", model.weights_dir)
    assert files(tmp_path / "out") == []


@pytest.mark.parametrize("location", ["../w.bin", "/w.bin"])
def test_weights_outside_the_folder(tmp_path: Path, location: str) -> None:
    proto = plain()
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    with pytest.raises(ModelError, match="outside"):
        save(proto, tmp_path / "out" / "m.onnx", tmp_path)


@pytest.mark.parametrize("limit", [2**31, 0])
def test_a_failed_write_leaves_nothing(tmp_path: Path, limit: int) -> None:
    model = external(tmp_path / "in", "w.bin")
    proto = copy_without(model.proto, graph=())
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(20000, FLOAT), "unused"))
    out = tmp_path / "out"
    out.mkdir()
    (out / "m.onnx").write_bytes(b"older")
    (out / "m.onnx.weights").write_bytes(b"older weights")
    # The model's own weights, of 40,000 bytes, are copied, and then taken away again.
    with small_files(50_000), pytest.raises(OutOfRoom, match="the file size limit"):
        save(proto, out / "m.onnx", model.weights_dir, inline_limit_bytes=limit)
    assert files(out) == ["m.onnx", "m.onnx.weights"]
    assert (out / "m.onnx").read_bytes() == b"older"
    assert (out / "m.onnx.weights").read_bytes() == b"older weights"


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="cannot write"):
        save(plain(), tmp_path / "file" / "m.onnx", None)
    (tmp_path / "folder").mkdir()
    with pytest.raises(InvalidInput, match="it is a folder"):
        save(plain(), tmp_path / "folder", None)
    assert os.listdir(tmp_path / "folder") == []
