"""Files: external weights, digests, the same model every time; types between their spellings."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import onnx
import pytest

from hash_seeds import QUICK, SEEDS, printed_here, printed_under
from hetsim.errors import ModelError
from hetsim.graph.loading import load_model
from onnx_builders import (
    check_consistent,
    function_model,
    load,
    make_model,
    op,
    open_exactly,
    run_whole,
    value,
)
from sweeps import sweep

RELU = [op("Relu", "x", "y", "r")]


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


def test_loading_twice_gives_the_same(tmp_path: Path) -> None:
    one, two = load(function_model(), tmp_path), load(function_model(), tmp_path)
    assert one.graph == two.graph
    assert one.proto.SerializeToString(deterministic=True) == two.proto.SerializeToString(
        deterministic=True
    )


SCRIPT = """
import hashlib
from hetsim.graph.loading import load_model
model = load_model('zoo:bert_small', canonical='extended')
text = repr((model.graph.nodes, model.graph.tensors, model.folded)).encode()
print(hashlib.sha256(text + model.proto.SerializeToString()).hexdigest())
"""


@sweep("seed", quick=QUICK, full=SEEDS)
def test_the_hash_seed_does_not_matter(seed: int) -> None:
    assert printed_under(seed, SCRIPT) == printed_here(SCRIPT)


def test_the_canonical_model_opens_at_every_level(tmp_path: Path) -> None:
    for level in ("none", "basic", "extended"):
        model = load(function_model(), tmp_path, canonical=level)
        assert open_exactly(model.proto, None).get_outputs()[0].shape == [2, 3]
