"""Sparse constants whose parts are in files, wherever they stand; Constants of nothing."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import hetsim
from onnx_builders import make_model, op, run_whole, value

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


def model(place: str, location: str = "w.bin") -> onnx.ModelProto:
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
    onnx.save(model(place), path)
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
    onnx.save(model(place, location), folder / "m.onnx")
    with pytest.raises(hetsim.ModelError, match=r"lies outside the model's folder|is missing"):
        hetsim.load_model(folder / "m.onnx")


def test_sparse_constants_of_more_than_a_model_holds_are_refused(tmp_path: Path) -> None:
    proto = model("graph")
    sparse = proto.graph.node[0].attribute[0].sparse_tensor
    for part in (sparse.values, sparse.indices):
        part.dims[0] = 2**39
        del part.external_data[1:]
    onnx.save(proto, tmp_path / "m.onnx")
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(2**42)  # takes no room
    with pytest.raises(hetsim.ModelError, match="larger than 2 GiB together"):
        hetsim.load_model(tmp_path / "m.onnx")
