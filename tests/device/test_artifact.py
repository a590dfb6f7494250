"""Compiled subgraphs as files: what comes out of another process, and what a file holds."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import hetsim
from builders import BOX
from compiled_models import (
    MODELS,
    NPU,
    exported,
    inputs_of,
    opened,
    sealed,
    stated,
    weighted_model,
    whole,
)
from hetsim.device.artifact import Identity, export, import_compiled
from hetsim.device.device import SimulatedDevice
from hetsim.device.kernels.onnx_runtime import CompiledSubgraph
from hetsim.errors import ArtifactError
from hetsim.graph.extract import extract
from hetsim.graph.inputs.samples import random_inputs
from onnx_builders import assert_bitwise_equal, op
from sweeps import sweep

ELSEWHERE = """
import json, sys
import numpy as np
from hetsim.device.artifact import Identity, import_compiled

for job in json.loads(sys.stdin.read()):
    given = {k: v.astype(object) if v.dtype.kind == "U" else v
             for k, v in np.load(job["inputs"], allow_pickle=False).items()}
    with open(job["file"], "rb") as stream:
        compiled = import_compiled(stream, identity=Identity(*job["identity"]))
    found = compiled.run(given)
    np.savez(job["outputs"], **{k: v.astype("U") if v.dtype == object else v
                                for k, v in found.items()})
"""


class Elsewhere:
    """Another process that imports files and runs them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._jobs: list[dict[str, Any]] = []

    def add(self, data: bytes, identity: Identity, inputs: dict[str, Any]) -> None:
        """Ask for the outputs of a file."""
        place = self._folder / str(len(self._jobs))
        place.with_suffix(".onnx").write_bytes(data)
        plain = {k: v.astype("U") if v.dtype == object else v for k, v in inputs.items()}
        np.savez(place.with_suffix(".in.npz"), **plain)  # type: ignore[arg-type]
        self._jobs.append(
            {
                "file": str(place.with_suffix(".onnx")),
                "inputs": str(place.with_suffix(".in.npz")),
                "outputs": str(place.with_suffix(".out.npz")),
                "identity": [identity.device, identity.architecture, identity.precision],
            }
        )

    def outputs(self) -> list[dict[str, Any]]:
        """Run all that was asked for, in one new process."""
        done = subprocess.run(
            [sys.executable, "-c", ELSEWHERE],
            input=json.dumps(self._jobs),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found = []
        for job in self._jobs:
            arrays = dict(np.load(job["outputs"], allow_pickle=False))
            found.append(
                {k: v.astype(object) if v.dtype.kind == "U" else v for k, v in arrays.items()}
            )
        return found


@pytest.fixture
def elsewhere(tmp_path: Path) -> Elsewhere:
    return Elsewhere(tmp_path)


def test_another_process_computes_the_same_bits(elsewhere: Elsewhere) -> None:
    for name, build in MODELS.items():
        elsewhere.add(exported(build()), NPU, inputs_of(name))
    for (name, build), found in zip(MODELS.items(), elsewhere.outputs(), strict=True):
        assert_bitwise_equal(found, whole(build(), inputs_of(name)))


@sweep("name", quick=["squeezenet"], full=["squeezenet", "bert_small"])
def test_every_subgraph_of_a_zoo_model_comes_back(name: str, elsewhere: Elsewhere) -> None:
    model = hetsim.load_model(f"zoo:{name}")
    problem = hetsim.Problem.of(model, hetsim.load_platform(BOX))
    plan = hetsim.plan(problem, "hetero")
    assert problem.platform is not None
    folder = None if model.weights_dir is None else str(model.weights_dir)
    values: dict[str, Any] = dict(random_inputs(model, 5))
    wanted = []
    for index, group in enumerate(plan.groups):
        part = extract(model, group.nodes)
        device = SimulatedDevice(group.device, problem.platform.devices[group.device])
        identity = device.identity("float32")
        stream = io.BytesIO()
        export(
            stream, part.proto, weights_dir=model.weights_dir, identity=identity, name=f"g{index}"
        )
        elsewhere.add(stream.getvalue(), identity, {key: values[key] for key in part.inputs})
        compiled = CompiledSubgraph(part.proto.SerializeToString(), folder, part.outputs)
        wanted.append(compiled.run(values))
        values.update(wanted[-1])
    assert len(plan.groups) > 1
    for found, due in zip(elsewhere.outputs(), wanted, strict=True):
        assert_bitwise_equal(found, due)


@pytest.fixture(scope="module")
def good() -> bytes:
    return exported(weighted_model())


def test_one_flipped_byte_anywhere_is_refused(good: bytes) -> None:
    for place in range(0, len(good), max(1, len(good) // 300)):
        wrong = bytearray(good)
        wrong[place] ^= 1
        with pytest.raises(ArtifactError) as caught:
            opened(bytes(wrong))
        assert caught.value.exit_code == 3


def test_what_is_not_the_whole_file_is_refused(good: bytes) -> None:
    unknown = good + b"\xfa\x3f\x01x"
    for wrong in (b"", b"\xff" * 40, good[:-1], good[: len(good) // 2], good + good, unknown):
        with pytest.raises(ArtifactError, match=r"damaged|not a compiled subgraph"):
            opened(wrong)


@pytest.mark.parametrize(
    ("identity", "told"),
    [
        (Identity("gpu", NPU.architecture), "device 'npu', but this is 'gpu'"),
        (Identity("npu", "npu:other"), "architecture 'npu:small', but this is 'npu:other'"),
        (Identity("npu", NPU.architecture, "float32:float16"), "precision 'graph'"),
    ],
)
def test_a_file_for_another_device_is_refused(identity: Identity, told: str, good: bytes) -> None:
    with pytest.raises(ArtifactError, match=told):
        import_compiled(io.BytesIO(good), identity=identity)


def test_a_file_of_other_versions_is_refused(good: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hetsim.device.artifact.__version__", "9.9")
    with pytest.raises(ArtifactError, match=r"compiled for hetsim '.*', but this is '9.9'"):
        opened(good)


def elsewhere_in_a_file(proto: onnx.ModelProto) -> None:
    tensor = onnx.TensorProto(name="k", dims=[1], data_type=1, data_location=1)
    tensor.external_data.add(key="location", value="/etc/passwd")
    proto.graph.node.append(op("Constant", "", "k", value=tensor))


def endless_function(proto: onnx.ModelProto) -> None:
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("f", 1)]
    for name, other in (("A", "B"), ("B", "A")):
        nodes = [op(other, "a", "b", domain="f")]
        proto.functions.append(helper.make_function("f", name, ["a"], ["b"], nodes, imports))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (elsewhere_in_a_file, "in external files"),
        (endless_function, "calls itself"),
        (lambda p: p.graph.initializer[0].dims.append(-2), "negative size"),
        (lambda p: p.graph.node.append(op("Spawn", "x", "z", domain="evil")), "refuses"),
        (lambda p: setattr(p.graph.node[1], "op_type", "Nonsense"), "refuses.*Nonsense"),
    ],
)
def test_a_graph_that_may_do_harm_is_refused(change: Any, told: str, good: bytes) -> None:
    proto = stated(good)
    change(proto)
    with pytest.raises(ArtifactError, match=told):
        opened(sealed(proto))
