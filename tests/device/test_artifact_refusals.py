"""Files that must not be opened: damaged, for somebody else, or made to do harm."""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from artifact_builders import (
    NPU,
    digested,
    exported,
    inputs_of,
    layout_of,
    mixed_model,
    model_in,
    parts_of,
    put_together,
    read,
    weighted_model,
    with_model,
)
from hetsim.device.artifact import file as artifact_module
from hetsim.device.artifact import trial as artifact_trial
from hetsim.device.artifact.file import import_compiled, read_artifact
from hetsim.device.artifact.header import Expected
from hetsim.device.artifact.layout import canonical_json
from hetsim.device.artifact.trial import Trial
from hetsim.device.artifact.values import ValueSpec, describe
from hetsim.errors import ArtifactError, ExecutionError, InvalidInput
from onnx_builders import make_model, op, value


@pytest.fixture(scope="module")
def good() -> bytes:
    return exported(weighted_model())


def edited(data: bytes, **fields: Any) -> bytes:
    """The file with other header fields, sizes and digest taken anew."""
    header, content, weights = parts_of(data)
    return put_together(canonical_json({**json.loads(header), **fields}), content, weights)


def test_one_flipped_bit_anywhere_is_refused() -> None:
    data = exported(make_model([op("Neg", "x", "y")], [value("x")], [value("y")]))
    for place in range(len(data)):
        for bit in range(8):
            wrong = bytearray(data)
            wrong[place] ^= 1 << bit
            with pytest.raises(ArtifactError):
                read(bytes(wrong))


def test_one_flipped_byte_in_every_part_is_refused(good: bytes) -> None:
    for place in range(0, len(good), 37):
        wrong = bytearray(good)
        wrong[place] ^= 0xFF
        with pytest.raises(ArtifactError):
            read(bytes(wrong))


def test_a_file_cut_short_anywhere_is_refused(good: bytes) -> None:
    layout = layout_of(good)
    ends = [8, 12, 16, 24, 32, 32 + layout.header, 32 + layout.header + layout.onnx]
    ends += [layout.weights_offset, layout.weights_offset + layout.weights, layout.total]
    cuts = {0, *range(64), *(end + step for end in ends for step in (-1, 0, 1))} - {layout.total}
    for end in sorted(cut for cut in cuts if cut < layout.total):
        with pytest.raises(ArtifactError, match=r"cut short|empty|no compiled"):
            read(good[:end])


def test_bytes_behind_the_end_are_refused(good: bytes) -> None:
    for extra in (b"\0", good):
        with pytest.raises(ArtifactError, match="longer than it should be"):
            read(good + extra)


def test_sizes_are_held_against_the_file_before_anything_is_read(good: bytes) -> None:
    for sizes in ((2**24, 10, 10), (100, 2**31 - 1, 0), (100, 100, 2**61), (2**32 - 1, 1, 1)):
        wrong = good[:12] + struct.pack("<IQQ", *sizes) + good[32:]
        with pytest.raises(ArtifactError, match=r"cut short|claims"):
            read(wrong)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"device": "gpu"}, "device 'npu', and this is 'gpu'"),
        ({"architecture": "npu:other"}, "architecture 'npu:small', and this is 'npu:other'"),
        ({"precision": "float32:float16"}, "precision 'graph', and this is 'float32:float16'"),
    ],
)
def test_a_file_for_another_device_is_refused(
    good: bytes, change: dict[str, str], told: str
) -> None:
    expected = Expected(replace(NPU, **change))
    with pytest.raises(ArtifactError, match=told) as caught:
        import_compiled(io.BytesIO(good), expected=expected, where="g0.hsub")
    assert caught.value.exit_code == 3
    assert caught.value.where == "g0.hsub"
    assert "compile the plan again" in str(caught.value.hint)


def test_a_file_of_other_shapes_is_refused(good: bytes) -> None:
    given, made = describe(weighted_model().graph.input), describe(weighted_model().graph.output)
    for inputs, outputs, told in (
        ((ValueSpec("x", "float32", (2, 3, 8, 8)),), made, "other inputs: it has 'x: float32"),
        ((ValueSpec("x", "float16", (1, 3, 8, 8)),), made, "other inputs"),
        (given, (*made, ValueSpec("z", "float32", ())), "other outputs: it has no 'z: float32"),
        ((), made, "which is not expected"),
    ):
        with pytest.raises(ArtifactError, match=told):
            read_artifact(io.BytesIO(good), expected=Expected(NPU, inputs, outputs))


def test_a_file_of_other_versions_is_refused(good: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    newer = digested(good[:8] + struct.pack("<I", 2) + good[12:-32])
    with pytest.raises(ArtifactError, match="format version 2, and this hetsim reads version 1"):
        read(newer)
    with pytest.raises(ArtifactError, match=r"hetsim '99\.0', and this is"):
        read(edited(good, hetsim="99.0"))
    with monkeypatch.context() as patch:
        patch.setattr(artifact_module, "__version__", "99.0")
        theirs = exported(weighted_model())
    with pytest.raises(ArtifactError, match=r"hetsim '99\.0', and this is"):
        read(theirs)
    with monkeypatch.context() as patch:
        patch.setattr(artifact_module, "onnxruntime_version", lambda: "0.1")
        theirs = exported(weighted_model())
    with pytest.raises(ArtifactError, match=r"onnxruntime '0\.1', and this is"):
        read(theirs)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"[]",
        b"{",
        b'{"a":1,"a":1}',
        b"[" * 100_000,
        b'"' * 100_000,
        b'{"a":NaN}',
        b'{"inputs":' + b"1" * 5000 + b"}",
        '{"ä":1}'.encode(),
    ],
)
def test_a_header_that_is_no_canonical_record_is_refused(good: bytes, header: bytes) -> None:
    _, content, weights = parts_of(good)
    with pytest.raises(ArtifactError, match="header"):
        read(put_together(header, content, weights))


@pytest.mark.parametrize(
    "fields",
    [
        {"schema": "hetsim-subgraph/9"},
        {"more": 1},
        {"device": 1},
        {"inputs": {}},
        {"inputs": [1]},
        {"inputs": [{"name": "x", "type": "float32"}]},
        {"inputs": [{"name": "", "type": "float32", "shape": []}]},
        {"inputs": [{"name": "x", "type": "float32", "shape": [True]}]},
        {"inputs": [{"name": "x", "type": "float32", "shape": [-1]}]},
        {"inputs": [{"name": "x", "type": "float32", "shape": [2**70]}]},
        {"outputs": [{"name": "y", "type": None, "shape": None}]},
    ],
)
def test_a_header_of_other_fields_is_refused(good: bytes, fields: dict[str, Any]) -> None:
    with pytest.raises(ArtifactError, match="header is broken"):
        read(edited(good, **fields))


def test_a_header_that_describes_another_graph_is_refused(good: bytes) -> None:
    for shape in ([1, 3, 8, 9], [1, 3, 8], ["n", 3, 8, 8], None):
        wrong = edited(good, inputs=[{"name": "x", "type": "float32", "shape": shape}])
        with pytest.raises(ArtifactError, match="other inputs than its header says"):
            read(wrong)


def test_the_onnx_part_must_be_as_it_was_written(good: bytes) -> None:
    header, content, weights = parts_of(good)
    unknown = content + b"\xfa\x3f\x01x"
    assert onnx.ModelProto.FromString(unknown).graph.name == "test"
    for wrong in (unknown, content + content, b"", b"\xff" * 40):
        with pytest.raises(ArtifactError, match="ONNX part"):
            read(put_together(header, wrong, weights))
    gap = bytearray(good[:-32])
    layout = layout_of(good)
    assert layout.padding > 0
    gap[layout.weights_offset - 1] = 1
    with pytest.raises(ArtifactError, match="between its parts"):
        read(digested(bytes(gap)))


def located(proto: onnx.ModelProto, **fields: str) -> None:
    """Point the first external weight elsewhere."""
    tensor = next(t for t in proto.graph.initializer if t.data_location == 1)
    for entry in tensor.external_data:
        entry.value = fields.get(entry.key, entry.value)


def weight(proto: onnx.ModelProto, name: str) -> onnx.TensorProto:
    return next(tensor for tensor in proto.graph.initializer if tensor.name == name)


def nested_reference(proto: onnx.ModelProto) -> None:
    tensor = onnx.TensorProto(name="k", dims=[1], data_type=1, data_location=1)
    tensor.external_data.add(key="location", value="/etc/passwd")
    proto.graph.node.append(op("Constant", "", "k", value=tensor))


def hidden_reference(proto: onnx.ModelProto) -> None:
    weight(proto, "b").external_data.add(key="location", value="/etc/passwd")


def resized(proto: onnx.ModelProto) -> None:
    weight(proto, "shape").dims[0] = 2**40


def typed(proto: onnx.ModelProto, entries: int, *, of: int = 16) -> None:
    """Store the elements of a weight one by one, but as many as said."""
    tensor = weight(proto, "b")
    tensor.dims[0] = of
    tensor.ClearField("raw_data")
    tensor.float_data.extend([0.0] * entries)


def padded(proto: onnx.ModelProto) -> None:
    weight(proto, "b").raw_data += b"\0" * 4


def sparse_outside(proto: onnx.ModelProto) -> None:
    proto.graph.sparse_initializer.add(
        values=numpy_helper.from_array(np.ones(1, np.float32), "sp"),
        indices=numpy_helper.from_array(np.array([4])),
        dims=[2, 2],
    )


def sparse_huge(proto: onnx.ModelProto) -> None:
    sparse_outside(proto)
    proto.graph.sparse_initializer[0].dims[:] = [2**30, 2**30]


def endless_function(proto: onnx.ModelProto) -> None:
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("f", 1)]
    for name, other in (("A", "B"), ("B", "A")):
        proto.functions.append(
            helper.make_function(
                "f", name, ["a"], ["b"], [op(other, "a", "b", domain="f")], imports
            )
        )


def doubling_functions(proto: onnx.ModelProto) -> None:
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("f", 1)]
    for level in range(40):
        called = f"F{level + 1}" if level < 39 else "Neg"
        domain = "f" if level < 39 else ""
        nodes = [op(called, "a", "m", domain=domain), op(called, "m", "b", domain=domain)]
        proto.functions.append(helper.make_function("f", f"F{level}", ["a"], ["b"], nodes, imports))
    proto.graph.node.append(op("F0", "x", "unused", domain="f"))
    proto.opset_import.append(helper.make_opsetid("f", 1))


def foreign_op_in_a_body(proto: onnx.ModelProto) -> None:
    body = helper.make_graph([op("Spawn", "", "t", domain="evil")], "b", [], [value("t")])
    proto.graph.node.append(op("If", "flag", "z", then_branch=body, else_branch=body))


HARM: dict[str, tuple[Callable[[onnx.ModelProto], Any], str]] = {
    "absolute": (lambda p: located(p, location="/etc/passwd"), "outside the file"),
    "upwards": (lambda p: located(p, location="../weights"), "outside the file"),
    "own name in a folder": (lambda p: located(p, location="./weights"), "outside the file"),
    "memory": (
        lambda p: located(p, location="*/_ORT_MEM_ADDR_/*", offset="4096"), "outside the file"
    ),
    "past the end": (lambda p: located(p, offset="1048576"), "where none belong"),
    "negative offset": (lambda p: located(p, offset="-64"), "its reference says"),
    "long offset": (lambda p: located(p, offset="9" * 5000), "its reference says"),
    "length": (lambda p: located(p, length="99999999999"), "its reference says"),
    "two lengths": (
        lambda p: weight(p, "w").external_data.add(key="length", value="1"), "is broken"
    ),
    "nested": (nested_reference, "refers to a file"),
    "hidden": (hidden_reference, "refers to a file"),
    "resized": (resized, "has not the bytes"),
    "too few entries": (lambda p: typed(p, 1, of=17), "has not the bytes"),
    "too many entries": (lambda p: typed(p, 3 * 16), "has not the bytes"),
    "too many bytes": (padded, "has not the bytes"),
    "negative": (lambda p: weight(p, "shape").dims.append(-2), "negative dimension"),
    "stored twice": (lambda p: weight(p, "b").float_data.append(1), "stored twice"),
    "unknown type": (lambda p: setattr(weight(p, "b"), "data_type", 99), "99"),
    "sparse index": (sparse_outside, "index outside"),
    "sparse size": (sparse_huge, "elements"),
    "custom op": (lambda p: p.graph.node.append(op("Spawn", "x", "z", domain="evil")), "Spawn"),
    "op in a body": (foreign_op_in_a_body, "Spawn"),
    "context": (
        lambda p: p.graph.node.append(op("EPContext", "x", "z", domain="com.microsoft")),
        "EPContext",
    ),
    "recursion": (endless_function, "calls itself"),
    "unfolding": (doubling_functions, "unfold"),
    "metadata": (lambda p: p.metadata_props.add(key="a", value="b"), "metadata_props"),
    "training": (lambda p: p.training_info.add(), "training_info"),
    "no version": (lambda p: p.ClearField("opset_import"), "no version"),
    "unused weights": (lambda p: p.graph.initializer.remove(weight(p, "f")), "section of"),
    "two of a name": (lambda p: setattr(weight(p, "b"), "name", "w"), "one name"),
}  # fmt: skip


@pytest.mark.parametrize("harm", HARM)
def test_a_graph_that_may_do_harm_is_refused_before_it_is_opened(
    harm: str, good: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(*_: object, **__: object) -> None:
        raise AssertionError("it reached ONNX Runtime")

    monkeypatch.setattr("onnxruntime.InferenceSession", opened)
    change, told = HARM[harm]
    proto = model_in(good)
    change(proto)
    with pytest.raises(ArtifactError, match="ONNX part is refused: .*" + told):
        read(with_model(good, proto))


def test_a_name_that_is_no_text_is_refused(good: bytes) -> None:
    header, content, weights = parts_of(good)
    place = content.index(b"Relu")
    wrong = content[:place] + b"\xff\xfe\xfd\xfc" + content[place + 4 :]
    with pytest.raises(ArtifactError, match="no text"):
        read(put_together(header, wrong, weights))


def test_what_must_not_be_opened_cannot_be_exported() -> None:
    proto = make_model([op("Spawn", "x", "y", domain="evil")], [value("x")], [value("y")])
    with pytest.raises(ArtifactError, match="cannot be exported: operator 'Spawn'"):
        exported(proto)
    untyped = make_model([op("Neg", "x", "y")], [value("x")], [value("y", dtype="")])
    with pytest.raises(ArtifactError, match="cannot be exported: value 'y'"):
        exported(untyped)


def test_a_model_that_ends_the_process_that_opens_it_is_refused() -> None:
    data = exported(mixed_model())
    proto = model_in(data)
    # More outputs than the op divides into: some versions of ONNX Runtime abort over it.
    split = next(node for node in proto.graph.node if node.op_type == "Split")
    split.output.append("third")
    wrong = read(with_model(data, proto))
    with Trial() as trial, wrong, pytest.raises(ArtifactError, match=r"breaks|refuses"):
        wrong.open(trial)
    with Trial() as trial, read(data) as artifact:
        compiled = artifact.open(trial)
    assert compiled.run(inputs_of("mixed"))["n"]


def test_a_child_that_dies_refuses_the_file(good: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [sys.executable, "-c", "import os; os.abort()"]
    monkeypatch.setattr(
        artifact_trial, "started", lambda *given, **how: subprocess.Popen(words, **how)
    )
    with read(good) as artifact, pytest.raises(ArtifactError, match="breaks when it opens it"):
        artifact.open()


def test_a_child_imports_nothing_from_the_folder_it_is_started_in(
    good: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "json.py").write_text("raise ImportError('not this one')")
    monkeypatch.chdir(tmp_path)
    with read(good) as artifact:
        assert artifact.open().input_names == ("x",)


def test_a_model_that_the_runtime_refuses_is_refused(good: bytes) -> None:
    proto = model_in(good)
    proto.graph.node[1].op_type = "Nonsense"
    wrong = read(with_model(good, proto))
    with wrong, pytest.raises(ArtifactError, match=r"refuses the subgraph: .*Nonsense"):
        wrong.open()


def test_a_model_that_takes_too_long_to_open_is_refused(good: bytes) -> None:
    with read(good) as artifact, Trial(timeout_s=0.0) as trial:
        with pytest.raises(ArtifactError, match="takes too long") as caught:
            artifact.open(trial)
        assert caught.value.exit_code == 3


def test_no_child_no_import(good: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with read(good) as artifact, pytest.raises(ExecutionError, match="can be started"):
        artifact.open()


def test_nothing_is_left_behind_by_a_refusal(
    good: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    wrong = good[:-1] + bytes([good[-1] ^ 1])
    with pytest.raises(ArtifactError, match="damaged"):
        read(wrong)
    assert os.listdir(tmp_path) == []
    with read(good) as artifact:
        assert len(os.listdir(tmp_path)) == 1
        del artifact
    assert os.listdir(tmp_path) == []
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(ExecutionError, match="cannot be written"):
        read(good)


def test_a_stream_that_fails_is_an_error_of_its_own(good: bytes, tmp_path: Path) -> None:
    class Failing(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(InvalidInput, match="Input/output error"):
        read_artifact(Failing(good), expected=Expected(NPU))
    closed = (tmp_path / "closed").open("wb")
    closed.close()
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_artifact(closed, expected=Expected(NPU))


def test_the_digest_is_that_of_all_before_it(good: bytes) -> None:
    assert hashlib.sha256(good[:-32]).digest() == good[-32:]
    with read(good) as artifact:
        assert artifact.sha256 == good[-32:].hex()
