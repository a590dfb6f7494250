"""The zoo: every model is there, runs, says something, and is written safely."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest

from hetsim.errors import ModelError, OutOfRoom
from hetsim.graph.zoo import models as zoo
from hetsim.graph.zoo.random_weights import plan_fill
from sweeps import sweep


@cache
def entries():
    return {entry.name: entry for entry in zoo.describe()}


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HETSIM_CACHE_DIR", str(tmp_path))
    return tmp_path


def random_inputs(entry, seed):
    generator = np.random.default_rng(seed)
    return {
        tensor.name: generator.standard_normal(tensor.shape, dtype=np.float32)
        if tensor.dtype == "float32"
        else generator.integers(0, 30000, tensor.shape, dtype=tensor.dtype)
        for tensor in entry.inputs
    }


def test_names_and_descriptions():
    assert zoo.names() == tuple(entries())
    assert len(zoo.names()) == 14
    for entry in entries().values():
        assert entry.licence == "Apache-2.0"
        assert all(isinstance(d, int) and d > 0 for t in entry.inputs for d in t.shape)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        # torchvision's counts; the BatchNormalization statistics are constants here as well.
        ("resnet50", 25_557_032 + 2 * 26_560),
        ("vgg19", 143_667_240),
        ("squeezenet", 1_235_496),
        # Grouped convolutions as in the paper of 2012, hence fewer than torchvision's alexnet.
        ("alexnet", 60_965_224),
    ],
)
def test_parameters_are_those_of_the_architecture(name, parameters):
    assert entries()[name].parameters == parameters


@sweep("name", quick=["bert_small", "shufflenet", "squeezenet"], full=zoo.names())
def test_outputs_are_finite_and_depend_on_the_input(name):
    import onnxruntime as ort

    path = zoo.materialise(name)
    onnx.checker.check_model(str(path))
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    entry = entries()[name]
    assert [value.name for value in session.get_inputs()] == [t.name for t in entry.inputs]
    first, second = (session.run(None, random_inputs(entry, seed))[0] for seed in (1, 2))
    assert np.isfinite(first).all()
    assert len(np.unique(first)) > 100
    assert np.ptp(first) > 1e-4
    assert first.max() < 100
    assert np.abs(first - second).max() > 1e-5
    if first.max() <= 1 and abs(first.sum() - 1) < 1e-3:
        assert first.max() < 0.9, "a softmax that always answers one class hides errors"


@sweep("name", quick=["bert_small", "shufflenet"], full=zoo.names())
def test_filled_model_keeps_the_topology(name):
    source = onnx.load(zoo.source_path(name), load_external_data=False)
    filled = plan_fill(source, "w.bin")
    kept = [n for n in source.graph.node if n.op_type != "ConstantOfShape"]
    assert list(filled.proto.graph.node) == kept
    assert len(kept) == entries()[name].nodes
    assert list(filled.proto.opset_import) == list(source.opset_import)
    assert list(filled.proto.graph.output) == list(source.graph.output)
    # The weights file: aligned, ascending, without overlap, and only what is large.
    end = 0
    for offset, tensor in filled.external:
        assert offset % 4096 == 0
        assert end <= offset < end + 4096
        assert tensor.elements * 4 >= 1024
        end = offset + 4 * tensor.elements
    for tensor in filled.proto.graph.initializer:
        external = tensor.data_location == onnx.TensorProto.EXTERNAL
        assert external or onnx.numpy_helper.to_array(tensor).shape == tuple(tensor.dims)


@pytest.mark.sweep
def test_same_bytes_under_any_hash_seed(tmp_path):
    contents = []
    for seed in ("0", "1"):
        cache = tmp_path / seed
        code = "from hetsim.graph.zoo import models; print(models.materialise('shufflenet'))"
        environment = {**os.environ, "PYTHONHASHSEED": seed, "HETSIM_CACHE_DIR": str(cache)}
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        folder = Path(done.stdout.strip()).parent
        contents.append({file.name: file.read_bytes() for file in folder.iterdir()})
    assert contents[0] == contents[1]
    assert set(contents[0]) == {"shufflenet.onnx", "shufflenet.weights.bin", "shufflenet.json"}


def test_materialise_writes_once(own_cache):
    path = zoo.materialise("squeezenet")
    assert own_cache in path.parents
    before = path.stat()
    assert zoo.materialise("squeezenet") == path
    after = path.stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


@pytest.mark.parametrize("suffix", [".onnx", ".weights.bin", ".json"])
@pytest.mark.parametrize("damage", ["truncated", "deleted", "garbage"])
def test_broken_entry_is_written_anew(own_cache, suffix, damage):
    path = zoo.materialise("squeezenet")
    whole = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    victim = path.parent / f"squeezenet{suffix}"
    if damage == "truncated":
        victim.write_bytes(victim.read_bytes()[: victim.stat().st_size // 2])
    elif damage == "garbage":
        victim.write_bytes(b"[]")
    else:
        victim.unlink()
    assert zoo.materialise("squeezenet") == path
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == whole


WRITER = """
import json, sys, time
from pathlib import Path
import numpy, onnx
from hetsim.graph.zoo import models
here, other = map(Path, sys.argv[1:])
here.touch()
while not other.exists():
    time.sleep(1e-3)
path = models.materialise("shufflenet")
sizes = json.loads(path.with_suffix(".json").read_text())
assert all((path.parent / name).stat().st_size == size for name, size in sizes.items())
"""


@pytest.mark.sweep
def test_two_processes_at_once(tmp_path):
    environment = {**os.environ, "HETSIM_CACHE_DIR": str(tmp_path / "cache")}
    ready = [str(tmp_path / name) for name in "ab"]
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, *names], env=environment)
        for names in (ready, ready[::-1])
    ]
    assert [writer.wait() for writer in writers] == [0, 0]
    (folder,) = (tmp_path / "cache/zoo").iterdir()
    assert len(list(folder.iterdir())) == 3


def test_cache_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("HETSIM_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(ModelError, match="set HETSIM_CACHE_DIR"):
        zoo.materialise("squeezenet")


def test_failed_write_leaves_nothing(own_cache, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hetsim.graph.zoo.random_weights.fill", full)
    with pytest.raises(OutOfRoom, match="the disk is full"):
        zoo.materialise("squeezenet")
    assert not [p for p in own_cache.rglob("*") if p.is_file()]
    assert not list(own_cache.rglob(".squeezenet*"))


def test_cache_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("HETSIM_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert zoo.cache_dir() == tmp_path / "hetsim"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert zoo.cache_dir() == tmp_path / "home" / ".cache" / "hetsim"
