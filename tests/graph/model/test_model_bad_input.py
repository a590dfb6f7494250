"""Files that are no model, or none that can be used: one line each, nothing left behind."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import onnx
import pytest
from onnx import helper

from hetsim.errors import InvalidInput, ModelError, UsageError
from hetsim.graph.loading import load_model, read_source
from hetsim.graph.reading import onnx_file
from onnx_builders import make_model, op, save, value

PLAIN = make_model([op("Relu", "x", "y", "r")], [value("x")], [value("y")])
LEVELS = ("none", "basic", "extended")


def refused(path: Path | str, *parts: str, level: Any = "basic") -> str:
    """The message that loading ends with: a ModelError of one line that holds `parts`."""
    with pytest.raises(ModelError) as caught:
        load_model(path, canonical=level)
    text = str(caught.value)
    assert "\n" not in text
    assert caught.value.hint
    assert caught.value.exit_code == (2 if "no such file" in parts else 3)
    for part in parts:
        assert part in text, text
    return text


def test_missing_file(tmp_path: Path) -> None:
    refused(tmp_path / "m.onnx", "no such file", "there is no .onnx file in")
    save(PLAIN, tmp_path, "model.onnx")
    refused(tmp_path / "modl.onnx", "no such file", "did you mean 'model.onnx'?")
    refused(tmp_path / "model.onx", "no such file", "did you mean 'model.onnx'?")
    refused(tmp_path / "absent" / "m.onnx", "no such file", "does not exist")


def test_folder(tmp_path: Path) -> None:
    refused(tmp_path, "it is a folder")
    refused("", "it is a folder")


def test_name_with_a_null_byte() -> None:
    with pytest.raises(InvalidInput, match="a path without a null byte"):
        load_model("a\0b.onnx")
    with pytest.raises(InvalidInput, match="cannot be read: embedded null byte"):
        read_source("a\0b.onnx")


def test_a_zoo_name_without_its_prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refused("resnet50", "no such file", "did you mean 'zoo:resnet50'?")
    with pytest.raises(UsageError, match="did you mean 'resnet50'"):
        load_model("zoo:resnet51")


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(PLAIN, tmp_path)

    def deny(_: Path) -> BinaryIO:
        # Root reads whatever the mode says, so the mode alone would not test this everywhere.
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(onnx_file, "open_regular", deny)
    refused(path, "cannot be read: Permission denied", "permissions")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"This is a text file.\nIt has two lines.\n",
        b"{}",
        np.random.default_rng(0).bytes(5000),
        b"\x00" * 100,
        b"\x08\x09",
    ],
    ids=["empty", "text", "json", "random", "zeros", "no-graph"],
)
def test_not_onnx(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    refused(path, "not an ONNX model")


def test_truncated_at_any_byte(tmp_path: Path) -> None:
    content = PLAIN.SerializeToString()
    path = tmp_path / "m.onnx"
    for length in range(len(content)):
        path.write_bytes(content[:length])
        refused(path)


def external(folder: Path, change: Callable[[onnx.TensorProto, Path], None]) -> Path:
    """A model with 16 KiB of external weights, damaged by `change`."""
    folder.mkdir(exist_ok=True)
    proto = make_model(
        [op("Add", "x w", "y", "a")], [value("x", (4096,))], [value("y", None)],
        {"w": np.ones(4096, np.float32)},
    )  # fmt: skip
    path = folder / "m.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    stored = onnx.load(path, load_external_data=False)
    change(stored.graph.initializer[0], folder)
    path.write_bytes(stored.SerializeToString())
    return path


def put(key: str, text: str) -> Callable[[onnx.TensorProto, Path], None]:
    def change(tensor: onnx.TensorProto, folder: Path) -> None:
        kept = {e.key: e.value for e in tensor.external_data} | {key: text}
        del tensor.external_data[:]
        for name, entry in kept.items():
            if entry:
                tensor.external_data.add(key=name, value=entry)

    return change


def remove(tensor: onnx.TensorProto, folder: Path) -> None:
    (folder / "w.bin").unlink()


def cut(tensor: onnx.TensorProto, folder: Path) -> None:
    os.truncate(folder / "w.bin", 100)


def become_link(tensor: onnx.TensorProto, folder: Path) -> None:
    (folder / "w.bin").rename(folder.parent / "elsewhere.bin")
    (folder / "w.bin").symlink_to(folder.parent / "elsewhere.bin")


def become_pipe(tensor: onnx.TensorProto, folder: Path) -> None:
    (folder / "w.bin").unlink()
    os.mkfifo(folder / "w.bin")


def become_folder(tensor: onnx.TensorProto, folder: Path) -> None:
    (folder / "w.bin").unlink()
    (folder / "w.bin").mkdir()


@pytest.mark.parametrize("level", ["none", "basic"])
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (remove, "'w.bin' of tensor 'w' is missing"),
        (become_folder, "is missing"),
        (cut, "has 100 bytes"),
        (become_link, "outside the model's folder"),
        (put("location", "/etc/hostname"), "outside the model's folder"),
        (put("location", "../inside/w.bin"), "outside the model's folder"),
        (put("location", "sub/../../w.bin"), "outside the model's folder"),
        (put("location", ""), "is broken"),
        (put("location", "a\0b"), "external data"),
        (put("location", "*/_ORT_MEM_ADDR_/*"), "is an address in memory"),
        (become_pipe, "is missing"),
        (put("offset", "many"), "is broken"),
        (put("offset", "-4"), "at offset -4"),
        (put("offset", "8"), "needs bytes 8 to 16392"),
        (put("length", "100"), "says 100 bytes"),
    ],
)
def test_broken_external_data(
    tmp_path: Path, change: Callable[[onnx.TensorProto, Path], None], says: str, level: str
) -> None:
    refused(external(tmp_path / "inside", change), says, level=level)


def test_a_link_within_the_folder_is_followed(tmp_path: Path) -> None:
    def link(tensor: onnx.TensorProto, folder: Path) -> None:
        (folder / "w.bin").rename(folder / "real.bin")
        (folder / "w.bin").symlink_to("real.bin")

    path = external(tmp_path / "inside", link)
    assert load_model(path).graph.constants == {"w"}
    (tmp_path / "alias").symlink_to(tmp_path / "inside")
    assert load_model(tmp_path / "alias" / "m.onnx").weights_dir == (tmp_path / "inside").resolve()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("opset", "ir", "domains", "says"),
    [
        (99, 9, {}, "opset 99 of domain ai.onnx"),
        (20, 99, {}, "IR version 99"),
        (20, 9, {"ai.onnx.ml": 77}, "opset 77 of domain ai.onnx.ml"),
    ],
)
def test_newer_than_the_runtime(
    tmp_path: Path, opset: int, ir: int, domains: dict[str, int], says: str, level: str
) -> None:
    proto = make_model(
        [op("Relu", "x", "y")], [value("x")], [value("y")], opset=opset, ir=ir, domains=domains
    )
    text = refused(save(proto, tmp_path), says, "ONNX Runtime", "reads at most", level=level)
    assert "or install a newer onnxruntime" in text


def two(first: onnx.NodeProto, second: onnx.NodeProto, **options: Any) -> onnx.ModelProto:
    return make_model([first, second], [value("x")], [value("y", None, "")], **options)


def no_opsets() -> onnx.ModelProto:
    proto = onnx.ModelProto()
    proto.CopyFrom(PLAIN)
    del proto.opset_import[:]
    return proto


def in_a_body() -> onnx.ModelProto:
    body = helper.make_graph([op("Neg", "ghost", "b")], "b", [], [value("b", None)])
    return make_model(
        [op("If", "c", "y", "choose", then_branch=body, else_branch=body)],
        [value("c", (), "BOOL")],
        [value("y", None)],
    )


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("proto", "says"),
    [
        (two(op("Relu", "x", "h"), op("Frobnicate", "h", "y", "odd")),
         ["unknown op 'Frobnicate'", "opset 20", "node 'odd'"]),
        (two(op("Relu", "x", "h"), op("Thing", "h", "y", "odd", domain="acme"),
             domains={"acme": 1}),
         ["unknown op 'Thing'", "domain 'acme'", "node 'odd'"]),
        (two(op("Relu", "x", "h"), op("Thing", "h", "y", "odd", domain="acme")),
         ["op 'Thing' is of domain 'acme'", "imports no version", "node 'odd'"]),
        (two(op("Relu", "x", "h"), op("Nope", "h", "y", "odd", domain="com.microsoft"),
             domains={"com.microsoft": 1}),
         ["unknown op 'Nope'", "domain 'com.microsoft'", "node 'odd'"]),
        (two(op("Add", "x b", "a", "one"), op("Relu", "a", "b", "two")),
         ["no node computes output 'y'"]),
        (two(op("Add", "x b", "y", "one"), op("Relu", "y", "b", "two")),
         ["its nodes form a cycle: one -> two -> one"]),
        (two(op("Relu", "x", "y", "one"), op("Neg", "x", "y", "two")),
         ["value 'y' has two producers", "node 'one' and node 'two'"]),
        (two(op("Relu", "x", "x", "one"), op("Neg", "x", "y", "two")),
         ["value 'x' has two producers", "an input and node 'one'"]),
        (two(op("Relu", "ghost", "h", "one"), op("Neg", "h", "y", "two")),
         ["value 'ghost' is read, and nothing gives it", "node 'one'"]),
        (in_a_body(), ["value 'ghost' is read", "node 'choose'"]),
        (make_model([op("Relu", "x", "h")], [value("x")], []), ["the graph has no output"]),
        (no_opsets(), ["it declares no operator set"]),
        (two(op("Relu", "x", "h"), op("MatMul", "h h", "y", "mm")),
         ["refuses the model", "mm", "Incompatible dimensions"]),
        (two(op("Relu", "x", "h"), op("Relu", "h", "y", "odd", flavour=3)),
         ["refuses the model", "flavour"]),
        (two(op("Cast", "x", "h", to=onnx.TensorProto.INT16), op("Relu", "h", "y", "odd")),
         ["has no CPU kernel for Relu", "node 'odd'"]),
        (two(op("Relu", "x", "h"), op("Relu", "h", "y", "odd"), opset=5),
         ["has no CPU kernel for Relu", "newer opset"]),
        (two(op("Cast", "x", "h", to=onnx.TensorProto.FLOAT16), op("SwiGLU", "h h", "y"),
             opset=28),
         ["has no CPU kernel for Swish", "newer opset"]),
        (make_model([op("StringNormalizer", "x", "y", case_change_action="UPPER", locale="zz_ZZ")],
                    [value("x", (3,), "STRING")], [value("y", None, "STRING")]),
         ["refuses the model: Failed to construct locale", "install necessary language-pack"]),
        (two(op("Constant", "", "h", "odd"), op("Relu", "h", "y")),
         ["a Constant needs exactly one value attribute", "node 'odd'"]),
    ],
)  # fmt: skip
def test_broken_graphs(tmp_path: Path, proto: onnx.ModelProto, says: list[str], level: str) -> None:
    path = save(proto, tmp_path)
    refused(path, str(path), *says, level=level)


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch, folder = tmp_path / "scratch", tmp_path / "models"
    scratch.mkdir()
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    good = save(PLAIN, folder, "good.onnx")
    bad = save(two(op("Relu", "x", "h"), op("Frobnicate", "h", "y")), folder, "bad.onnx")
    load_model(good)
    refused(bad)
    assert sorted(p.name for p in folder.iterdir()) == ["bad.onnx", "good.onnx"]
    assert list(scratch.iterdir()) == []


def test_no_room_for_the_optimised_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    path = save(PLAIN, tmp_path)
    refused(path, "cannot be written", "TMPDIR", "--canonical none")
    assert load_model(path, canonical="none").graph.nodes


def _nested(depth: int) -> bytes:
    """A model of an If within an If and so on, as bytes: protobuf does not write them either."""

    def sized(data: bytes) -> bytes:
        size, left = b"", len(data)
        while left > 127:
            size, left = size + bytes([left & 127 | 128]), left >> 7
        return size + bytes([left]) + data

    def field(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2]) + sized(data)

    def body(name: bytes, graph: bytes) -> bytes:
        return field(5, field(1, name) + b"\xa0\x01\x05" + field(6, graph))

    other = helper.make_graph([op("Neg", "x", "y")], "other", [], [value("y")])
    graph = other.SerializeToString()
    for _ in range(depth):
        node = field(1, b"c") + field(2, b"y") + field(4, b"If")
        node += body(b"then_branch", graph) + body(b"else_branch", other.SerializeToString())
        graph = field(1, node) + field(2, b"g") + field(12, value("y").SerializeToString())
    for entry in (value("x"), value("c", (), "BOOL")):
        graph += field(11, entry.SerializeToString())
    return b"\x08\x09" + field(7, graph) + field(8, b"\x10\x11")


def test_a_model_that_is_nested_too_deep_says_how_deep_it_may_be(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(_nested(31))
    assert load_model(path, canonical="none").graph.nodes
    path.write_bytes(_nested(32))
    refused(path, "cannot be parsed", "nested at most 31 deep")
