"""Large weights are left in the file while it is read, and the model is that of the whole."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import hetsim
from hetsim.errors import ModelError
from hetsim.graph.reading import lazy_weights, onnx_file, onnx_runtime
from hetsim.graph.reading.lazy_weights import read_apart
from onnx_builders import make_model, op, value

SIDE = 160


def saved(path: Path, change: Callable[[onnx.ModelProto], None] | None = None) -> Path:
    """Write a chain of products, one weight read through a transposition that is folded."""
    drawn = np.random.default_rng(1)
    names = [f"w{k}" for k in range(4)]
    nodes, before = [op("Transpose", "w0", "t", "turn")], "x"
    for name in ("t", *names[1:]):
        nodes.append(op("MatMul", f"{before} {name}", f"by_{name}", name))
        before = f"by_{name}"
    proto = make_model(
        nodes,
        [value("x", (2, SIDE))],
        [value(before, (2, SIDE))],
        {name: drawn.random((SIDE, SIDE), dtype=np.float32) for name in names},
        opset=17,
    )
    if change is not None:
        change(proto)
    path.write_bytes(proto.SerializeToString())
    return path


@pytest.fixture(autouse=True)
def pays_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (lazy_weights, onnx_runtime):
        monkeypatch.setattr(module, "PAYS_BYTES", 4 * SIDE * SIDE)


@pytest.mark.parametrize("level", ["none", "basic", "extended"])
def test_the_model_is_that_of_the_file_read_as_a_whole(
    level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path / "chain.onnx")
    read = read_apart(path)
    assert read is not None
    assert read[0].ByteSize() < path.stat().st_size / 100
    left = hetsim.load_model(path, canonical=level)  # type: ignore[arg-type]
    monkeypatch.setattr(onnx_file, "read_apart", lambda path: None)
    whole = hetsim.load_model(path, canonical=level)  # type: ignore[arg-type]
    assert left.stored.ByteSize() < whole.proto.ByteSize()
    assert left.proto.SerializeToString() == whole.proto.SerializeToString()
    assert (left.sha256, left.weights_dir) == (whole.sha256, whole.weights_dir)
    assert [node.origins for node in left.graph.nodes] == [n.origins for n in whole.graph.nodes]
    assert left.graph.tensors == whole.graph.tensors


@pytest.mark.parametrize("link", ["hub/snapshot/model.onnx", "model.onnx"])
def test_weights_behind_a_link_are_left_in_the_file_that_it_leads_to(
    link: str, tmp_path: Path
) -> None:
    (tmp_path / "hub" / "snapshot").mkdir(parents=True)
    held = saved(tmp_path / "hub" / "5feceb66")
    named = tmp_path / link
    named.symlink_to(os.path.relpath(held, named.parent))
    by_link, itself = hetsim.load_model(named), hetsim.load_model(held)
    assert by_link.stored == itself.stored
    assert by_link.stored.ByteSize() < held.stat().st_size / 3
    assert by_link.name == named.stem
    assert by_link.sha256 == itself.sha256
    assert by_link.proto.SerializeToString() == itself.proto.SerializeToString()


def test_weights_of_a_file_that_has_changed_are_not_read(tmp_path: Path) -> None:
    path = saved(tmp_path / "chain.onnx")
    model = hetsim.load_model(path)
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(ModelError, match="it was changed after it was read"):
        _ = model.proto
    with pytest.raises(ModelError, match="it was changed after it was read"):
        _ = model.sha256
