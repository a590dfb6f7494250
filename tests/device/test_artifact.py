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
from onnx import helper, numpy_helper

import hetsim
from artifact_builders import (
    MODELS,
    NPU,
    exported,
    inputs_of,
    layout_of,
    model_in,
    parts_of,
    read,
    weighted_model,
    whole,
)
from builders import BOX
from hetsim.device.artifact.file import export, import_compiled, read_artifact
from hetsim.device.artifact.header import Expected, Identity, precision_name
from hetsim.device.artifact.trial import Trial
from hetsim.device.artifact.values import describe, parse_value
from hetsim.device.device import SimulatedDevice
from hetsim.device.kernels.onnx_runtime import CompiledSubgraph
from hetsim.errors import ArtifactError, UsageError
from hetsim.graph.extract import extract
from hetsim.graph.inputs.samples import random_inputs
from hetsim.hardware.catalog import load_device
from onnx_builders import assert_bitwise_equal, make_model, op, value

ELSEWHERE = """
import json, sys
import numpy as np
from hetsim.device.artifact.file import import_compiled
from hetsim.device.artifact.header import Expected, Identity
from hetsim.device.artifact.trial import Trial

with Trial() as trial:
    for job in json.loads(sys.stdin.read()):
        given = {k: v.astype(object) if v.dtype.kind == "U" else v
                 for k, v in np.load(job["inputs"], allow_pickle=False).items()}
        with open(job["file"], "rb") as stream:
            compiled = import_compiled(
                stream, expected=Expected(Identity(*job["identity"])), trial=trial
            )
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
        place.with_suffix(".hsub").write_bytes(data)
        plain = {k: v.astype("U") if v.dtype == object else v for k, v in inputs.items()}
        np.savez(place.with_suffix(".in.npz"), **plain)  # type: ignore[arg-type]
        self._jobs.append(
            {
                "file": str(place.with_suffix(".hsub")),
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


@pytest.mark.parametrize("name", ["squeezenet", "bert_small"])
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


def test_large_weights_lie_aligned_behind_the_graph_and_small_ones_in_it() -> None:
    data = exported(weighted_model())
    layout = layout_of(data)
    assert layout.weights_offset % 64 == 0
    assert layout.total == len(data)
    stored = {tensor.name: tensor for tensor in model_in(data).graph.initializer}
    original = {tensor.name: tensor for tensor in weighted_model().graph.initializer}
    weights = parts_of(data)[2]
    outside = {n for n, t in stored.items() if t.data_location == onnx.TensorProto.EXTERNAL}
    assert outside == {"w", "f"}
    for name in outside:
        fields = {entry.key: entry.value for entry in stored[name].external_data}
        assert fields["location"] == "weights"
        offset, length = int(fields["offset"]), int(fields["length"])
        assert offset % 64 == 0
        assert weights[offset : offset + length] == original[name].raw_data


def test_the_same_subgraph_is_the_same_bytes_and_the_model_is_left_alone() -> None:
    proto = weighted_model()
    before = proto.SerializeToString(deterministic=True)
    assert exported(proto) == exported(weighted_model())
    assert proto.SerializeToString(deterministic=True) == before


def test_weights_from_files_are_shared_as_they_were(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = rng.standard_normal((64, 64)).astype(np.float32)
    (tmp_path / "w.bin").write_bytes(bytes(100) + table.tobytes())
    proto = make_model(
        [op("MatMul", "x a", "p"), op("MatMul", "p b", "y")], [value("x", (2, 64))],
        [value("y", (2, 64))],
    )  # fmt: skip
    for name in ("a", "b"):
        tensor = proto.graph.initializer.add(name=name, dims=[64, 64], data_type=1, data_location=1)
        for key, text in (("location", "w.bin"), ("offset", "100"), ("length", str(table.nbytes))):
            tensor.external_data.add(key=key, value=text)
    data = exported(proto, weights_dir=tmp_path)
    assert layout_of(data).weights == table.nbytes
    x = rng.standard_normal((2, 64)).astype(np.float32)
    with read(data) as artifact:
        found = artifact.open().run({"x": x})
    inline = make_model(
        [op("MatMul", "x a", "p"), op("MatMul", "p b", "y")], [value("x", (2, 64))],
        [value("y", (2, 64))], {"a": table, "b": table},
    )  # fmt: skip
    assert_bitwise_equal(found, whole(inline, {"x": x}))
    (tmp_path / "w.bin").write_bytes(bytes(100))
    with pytest.raises(ArtifactError, match="16384 bytes has 0 in its file"):
        exported(proto, weights_dir=tmp_path)
    with pytest.raises(ArtifactError, match="no weights folder"):
        exported(proto)
    (tmp_path / "w.bin").unlink()
    with pytest.raises(ArtifactError, match="cannot be read"):
        exported(proto, weights_dir=tmp_path)


def test_external_data_in_a_body_is_read_into_the_graph(tmp_path: Path) -> None:
    big = np.arange(400, dtype=np.float32)
    (tmp_path / "k.bin").write_bytes(big.tobytes())
    tensor = onnx.TensorProto(name="k", dims=[400], data_type=1, data_location=1)
    tensor.external_data.add(key="location", value="k.bin")
    body = helper.make_graph(
        [op("Constant", "", "k", value=tensor), op("Add", "x k", "t")],
        "b",
        [],
        [value("t", (400,))],
    )
    other = helper.make_graph([op("Neg", "x", "n")], "o", [], [value("n", (400,))])
    proto = make_model(
        [op("If", "flag", "y", then_branch=body, else_branch=other)],
        [value("flag", (), "BOOL"), value("x", (400,))],
        [value("y", (400,))],
    )
    data = exported(proto, weights_dir=tmp_path)
    (tmp_path / "k.bin").unlink()
    with read(data) as artifact:
        found = artifact.open().run({"flag": np.array(True), "x": big})
    np.testing.assert_array_equal(found["y"], 2 * big)


def test_sparse_sequence_and_optional_values_are_described_and_come_back() -> None:
    sparse = onnx.SparseTensorProto(
        values=numpy_helper.from_array(np.array([2, 5], np.float32), "m"),
        indices=numpy_helper.from_array(np.array([1, 3])),
        dims=[2, 2],
    )
    proto = make_model(
        [op("SequenceInsert", "list x", "longer"), op("Add", "x m", "z")],
        [value("x", (2, 2))],
        [value("z", (2, 2))],
    )
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, None))
    proto.graph.input.append(helper.make_value_info("list", kind))
    proto.graph.output.append(helper.make_value_info("longer", kind))
    proto.graph.sparse_initializer.append(sparse)
    x = np.ones((2, 2), np.float32)
    with read(exported(proto)) as artifact:
        assert [v.type for v in artifact.header.inputs] == ["float32", "sequence(float32)"]
        found = artifact.open().run({"x": x, "list": [x]})
    np.testing.assert_array_equal(found["z"], [[1, 3], [1, 6]])
    assert len(found["longer"]) == 2


def test_what_is_opened_goes_on_after_its_temporary_files_are_gone() -> None:
    artifact = read(exported(weighted_model()))
    assert artifact.folder is not None
    assert {file.name for file in artifact.folder.iterdir()} == {"lock", "weights"}
    compiled = artifact.open()
    artifact.close()
    artifact.close()
    assert not artifact.folder.exists()
    assert_bitwise_equal(
        compiled.run(inputs_of("weighted")), whole(weighted_model(), inputs_of("weighted"))
    )


def test_a_stream_that_cannot_seek_will_do() -> None:
    class OneWay(io.RawIOBase):
        def __init__(self, data: bytes = b"") -> None:
            self.data = bytearray(data)

        def readable(self) -> bool:
            return True

        def writable(self) -> bool:
            return True

        def readinto(self, target: Any) -> int:
            piece = self.data[: min(len(target), 7)]
            target[: len(piece)] = piece
            del self.data[: len(piece)]
            return len(piece)

        def write(self, data: Any) -> int:
            piece = bytes(data)[:1000]
            self.data += piece
            return len(piece)

    stream = OneWay()
    export(stream, weighted_model(), weights_dir=None, identity=NPU, name="g0")  # type: ignore[arg-type]
    data = bytes(stream.data)
    assert data == exported(weighted_model())
    compiled = import_compiled(OneWay(data), expected=Expected(NPU))  # type: ignore[arg-type]
    assert compiled.input_names == ("x",)
    for wrong in (data[:-1], data + b"x"):
        with pytest.raises(ArtifactError, match=r"cut short|goes on"):
            import_compiled(OneWay(wrong), expected=Expected(NPU))  # type: ignore[arg-type]


def test_one_child_opens_many_and_is_replaced_when_it_dies() -> None:
    data = exported(weighted_model())
    with Trial() as trial, read(data) as artifact:
        for _ in range(3):
            artifact.open(trial)
        child = trial._child
        assert child is not None
        child.kill()
        child.wait()
        artifact.open(trial)
        assert trial._child is not child


def test_a_subgraph_exports_itself_where_a_device_said_how() -> None:
    proto = weighted_model()
    compiled = CompiledSubgraph(proto.SerializeToString(), None, ["y"])
    with pytest.raises(UsageError, match="no device compiled it"):
        compiled.export(io.BytesIO())
    compiled.exporter = lambda stream: export(
        stream, proto, weights_dir=None, identity=NPU, name="g0"
    )
    stream = io.BytesIO()
    compiled.export(stream)
    assert stream.getvalue() == exported(proto)


def test_values_are_described_and_read_back() -> None:
    values = describe(MODELS["mixed"]().graph.input)
    assert [str(v) for v in values] == [
        "flag: bool[]", "h: float16[4]", "q: int8[4]", "i: int64[count]", "s: string[2]",
    ]  # fmt: skip
    assert [parse_value(v.record()) for v in values] == list(values)
    assert [v.nbytes for v in values] == [1, 8, 4, 0, 0]


def test_a_device_has_an_identity_of_its_own() -> None:
    spec = load_device("intel-core-ultra-155h-npu")
    device = SimulatedDevice("npu", spec)
    own = device.identity("float32")
    assert own == Identity("npu", "npu:intel-core-ultra-155h-npu", own.precision)
    assert precision_name({}) == "graph"
    assert precision_name({"float64": "float32", "float32": "int8"}) == (
        "float32:int8,float64:float32"
    )


def test_inputs_and_outputs_can_be_asked_for() -> None:
    data = exported(weighted_model())
    given = describe(weighted_model().graph.input)
    made = describe(weighted_model().graph.output)
    read_artifact(io.BytesIO(data), expected=Expected(NPU, given, made)).close()
