"""Weights in files: the same model, and no folder left behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from hetsim.device.kernels.onnx_runtime import CompiledSubgraph
from hetsim.errors import ExecutionError
from hetsim.execution.weights import extents_of, run_folder, staged
from hetsim.graph.loading import load_model
from onnx_builders import make_model, op, save, value


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HETSIM_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def arrays_of(proto: onnx.ModelProto, folder: Path | None) -> dict[str, np.ndarray]:
    return {
        tensor.name: numpy_helper.to_array(tensor, str(folder or ""))
        for tensor in proto.graph.initializer
    }


@pytest.fixture(params=["inline", "external", "float_data"])
def path(request: pytest.FixtureRequest, tmp_path: Path, diamond: onnx.ModelProto) -> Path:
    target = tmp_path / "user" / "diamond.onnx"
    target.parent.mkdir()
    if request.param == "external":
        # One weight only, in a folder of its own below the model's.
        (target.parent / "data").mkdir()
        tensor = diamond.graph.initializer[0]
        (target.parent / "data" / "w.bin").write_bytes(b"\1" * 4096 + tensor.raw_data)
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="data/w.bin")
        tensor.external_data.add(key="offset", value="4096")
    elif request.param == "float_data":
        for tensor in diamond.graph.initializer:
            floats = np.frombuffer(tensor.raw_data, np.float32)
            tensor.ClearField("raw_data")
            tensor.float_data.extend(floats.tolist())
    onnx.save(diamond, target)
    return target


def test_a_staged_model_has_the_same_weights_in_files(path: Path, cache: Path) -> None:
    model = load_model(path, canonical="none")
    before = arrays_of(model.proto, model.weights_dir)
    with staged(model) as inside:
        assert all(t.data_location == TensorProto.EXTERNAL for t in inside.proto.graph.initializer)
        assert len(inside.proto.SerializeToString()) < 4000
        after = arrays_of(inside.proto, inside.weights_dir)
        assert list(inside.proto.graph.node) == list(model.proto.graph.node)
        x = {"x": np.random.default_rng(1).standard_normal((8, 64)).astype(np.float32)}
        results = [
            CompiledSubgraph(
                m.proto.SerializeToString(),
                None if m.weights_dir is None else str(m.weights_dir),
                m.graph.outputs,
            ).run(x)
            for m in (model, inside)
        ]
        assert len(extents_of(inside.proto)) == 3
    assert list((cache / "runs").iterdir()) == []
    assert sorted(before) == sorted(after) == ["w0", "w1", "w2"]
    for name, array in before.items():
        assert array.tobytes() == after[name].tobytes()
    for name, array in results[0].items():
        assert array.tobytes() == results[1][name].tobytes()


def test_weights_in_the_body_of_a_node_are_found_and_redirected(tmp_path: Path) -> None:
    numbers = np.arange(4096, dtype=np.float32)
    inner = TensorProto(name="inner", data_type=TensorProto.FLOAT, dims=[4096])
    inner.data_location = TensorProto.EXTERNAL
    inner.external_data.add(key="location", value="inner.bin")
    (tmp_path / "inner.bin").write_bytes(numbers.tobytes())
    branches = {
        f"{name}_branch": helper.make_graph(
            [op("Add", "x inner", f"{name}_out")], name, [], [value(f"{name}_out", [4096])], [inner]
        )
        for name in ("then", "else")
    }
    proto = make_model(
        [op("If", "yes", "y", "if", **branches), op("Mul", "y outer", "z", "mul")],
        [value("x", [4096]), value("yes", [], "BOOL")],
        [value("z", [4096])],
        {"outer": numbers},
    )
    model = load_model(save(proto, tmp_path, "if.onnx"), canonical="none")
    with staged(model) as inside:
        compiled = CompiledSubgraph(
            inside.proto.SerializeToString(), str(inside.weights_dir), ("z",)
        )
        found = compiled.run({"x": np.ones(4096, np.float32), "yes": np.array(True)})
        assert len(extents_of(inside.proto)) == 2
    np.testing.assert_array_equal(found["z"], (numbers + 1) * numbers)


def test_a_cache_that_cannot_be_written_is_replaced_by_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HETSIM_CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with run_folder() as folder:
        assert folder.parent == tmp_path
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    with pytest.raises(ExecutionError, match="HETSIM_CACHE_DIR"), run_folder():
        pass
