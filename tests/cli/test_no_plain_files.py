"""What is not a regular file is refused at once, wherever a verb reads one."""

from __future__ import annotations

import io
import os
import socket
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from cli_calls import call, refused
from onnx_builders import make_model, op, save, value

PLACES = {
    "model": ("inspect", "{}"),
    "platform": ("simulate", "m.onnx", "--platform", "{}"),
    "plan": ("simulate", "{}"),
    "extension": ("inspect", "m.onnx", "--extension", "{}"),
    "library": ("inspect", "m.onnx", "--extension", "{}=bodies.onnx"),
    "inputs": ("inspect", "m.onnx", "--input", "{}"),
    "run inputs": ("run", "m.onnx", "--platform", "laptop", "--executor", "threads",
                   "--input", "{}"),
    "workload": ("simulate", "--platform", "laptop", "--workload", "{}"),
    "certificate": ("recommend", "--verify", "{}"),
    "report": ("report", "{}", "-o", "page.html"),
    "grid": ("sweep", "{}", "-o", "rows"),
    "device": ("devices", "validate", "{}"),
    "catalog": ("recommend", "--catalog", "{}", "--workload", "{}"),
    "profile": ("inspect", "--nodes", "m.onnx", "--platform", "laptop", "--profile", "cpu={}"),
}  # fmt: skip
ENDINGS = {
    "model": ".onnx", "plan": ".json", "extension": ".onnx", "library": ".so", "inputs": ".npz",
    "run inputs": ".npz", "certificate": ".json", "report": ".json", "profile": ".json",
}  # fmt: skip


def model(folder: Path) -> Path:
    return save(make_model([op("Relu", "x", "y")], [value("x")], [value("y")]), folder)


@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "socket"])
@pytest.mark.parametrize("place", PLACES)
def test_what_is_no_regular_file_is_refused(
    kind: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model(tmp_path)
    path = Path(f"it{ENDINGS.get(place, '.yaml')}")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    result = call(*(word.format(path) for word in PLACES[place]))
    assert result.exit_code in {2, 3, 4, 5}, (result.exit_code, result.output)
    assert "it." in result.output


def header(shape: tuple[int, ...], version: int = 1) -> bytes:
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode()
    size = struct.pack("<H" if version == 1 else "<I", len(text) + 1)
    return b"\x93NUMPY" + bytes([version, 0]) + size + text + b"\n"


@pytest.mark.parametrize("shape", [(2**40,), (2**62, 2**62), (2**32,), (3,), (1,)])
@pytest.mark.parametrize("version", [1, 2])
def test_arrays_of_another_size_than_they_say(
    shape: tuple[int, ...], version: int, tmp_path: Path
) -> None:
    content = header(shape, version) + b"\0" * 8
    with zipfile.ZipFile(tmp_path / "it.npz", "w") as packed:
        packed.writestr("x.npy", content)
    refused(
        call("inspect", model(tmp_path), "--input", tmp_path / "it.npz"),
        3,
        "not a .npz file of plain arrays",
    )


def test_arrays_larger_than_the_memory_once_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hetsim.graph.inputs import arrays

    monkeypatch.setattr(arrays, "memory_bytes", lambda: 2**16)
    stream = io.BytesIO()
    np.savez_compressed(stream, x=np.zeros(2**16, np.float32))
    assert len(stream.getvalue()) < 2**12
    (tmp_path / "it.npz").write_bytes(stream.getvalue())
    refused(
        call("inspect", model(tmp_path), "--input", tmp_path / "it.npz"),
        3,
        "more than half of the memory",
    )
