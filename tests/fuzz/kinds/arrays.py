"""Arrays of inputs, ``.npy`` and ``.npz``: headers, contents and the zip around them changed."""

from __future__ import annotations

import ast
import io
import shutil
import struct
import zipfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx

from fuzz import odd, texts
from fuzz.kinds.models import attention, chain, mixed_model
from fuzz.kinds.platforms import BOX, write_box

_INPUTS: dict[str, dict[str, Any]] = {
    "chain.onnx": {"x": np.ones((1, 3, 6, 6), np.float32)},
    "attention.onnx": {"x": np.ones((2, 3, 8), np.float32)},
    "mixed.onnx": {
        "flag": np.array(False),
        "h": np.ones(4, np.float16),
        "q": np.ones(4, np.int8),
        "i": np.array([2, 0, 1]),
        "s": np.array(["p", "ü"]),
    },
}
_MODELS = {"chain.onnx": chain, "attention.onnx": attention, "mixed.onnx": mixed_model}
_TYPES = (
    "'<f4'",
    "'>f4'",
    "'<f8'",
    "'<i8'",
    "'|b1'",
    "'|O'",
    "'<U3'",
    "'|S5'",
    "'<c8'",
    "'<M8[ns]'",
    "'|V4'",
    "'<f2'",
    "'<f16'",
    "[('a', '<f4'), ('b', '<i4')]",
    "'f4,(2,3)i4'",
    "'<U99999999'",
    "'<f0'",
    "'nonsense'",
    "1",
    "None",
    "[('a', [('b', '<f4')])]",
    "('<f4', (3,))",
)
_SHAPES = (
    "()",
    "(1,)",
    "(0,)",
    "(-1,)",
    "(2, 3)",
    "(1, 3, 6, 6)",
    "(4,)",
    "(1000000000000,)",
    "(9223372036854775807,)",
    "(18446744073709551616,)",
    "(4294967296, 4294967296)",
    "(1,)*40",
    "(True,)",
    "(1.5,)",
    "('a',)",
    "[1, 3]",
    "None",
    "(0, 9223372036854775807)",
    "(-1, -1)",
    "(1, 3, 6, 6, 1)",
)


class Arrays:
    """Inputs of a few models, one array changed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        write_box(root)
        for name, make in _MODELS.items():
            onnx.save(make(), root / name)

    def __call__(self, rng: Random, folder: Path) -> list[list[str]]:
        """Write inputs as one ``.npz`` and as ``.npy`` files; the verbs that take them."""
        for path in self._root.glob("*.yaml"):
            shutil.copyfile(path, folder / path.name)
        model = rng.choice(list(_MODELS))
        shutil.copyfile(self._root / model, folder / model)
        arrays = {name: _written(array) for name, array in _INPUTS[model].items()}
        changed = rng.choice(list(arrays))
        arrays[changed] = _changed(rng, arrays[changed])
        (folder / "inputs.npz").write_bytes(_zipped(rng, arrays))
        given = []
        for name, data in arrays.items():
            (folder / f"{name}.npy").write_bytes(data)
            given += ["--input", f"{name}={name}.npy"]
        on = [model, "--platform", BOX]
        return [
            ["inspect", model, "--input", "inputs.npz"],
            ["inspect", model, *given],
            ["simulate", *on, "--input", "inputs.npz"],
            ["simulate", *on, *given],
            ["run", *on, "--executor", "threads", "--timeout", "20s", "--input", "inputs.npz"],
            ["run", *on, "--executor", "threads", "--timeout", "20s", *given],
            ["inspect", "--nodes", *on, "--input", "inputs.npz", "--json"],
        ]


def _written(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def _changed(rng: Random, data: bytes) -> bytes:
    how = rng.randrange(5)
    if how < 3:
        return _other_header(rng, data)
    if how == 3:
        return texts.changed(rng, data)
    other = rng.choice(
        (
            np.array([1 + 2j]),
            np.array(["a"], object),
            np.array([b"ab"]),
            np.float64(
                max(-1e308, min(1e308, odd.number(rng, 1.0))) if rng.random() < 0.1 else 1.5
            ),
            np.zeros((0, 3), np.float32),
            np.full((1, 3, 6, 6), np.nan, np.float32),
            np.array([2**62]),
            np.array([-5, 99]),
            np.array(["\x1b[31m"]),
            np.asfortranarray(np.ones((2, 3))),
            np.zeros(3, [("a", "f4")]),
            np.ones((1, 3, 6, 6), ">f4"),
        )
    )
    stream = io.BytesIO()
    np.save(stream, other, allow_pickle=True)
    return stream.getvalue()


def _other_header(rng: Random, data: bytes) -> bytes:
    length = struct.unpack("<H", data[8:10])[0]
    header, content = data[10 : 10 + length].decode(), data[10 + length :]
    fields = ast.literal_eval(header)
    descr, order, shape = (
        repr(fields["descr"]),
        repr(fields["fortran_order"]),
        repr(fields["shape"]),
    )
    which = rng.randrange(5)
    if which == 0:
        descr = rng.choice(_TYPES)
    elif which == 1:
        shape = rng.choice(_SHAPES)
    elif which == 2:
        order = rng.choice(("True", "1", "None", "'x'"))
    elif which == 3:
        content = content[: rng.randrange(len(content) + 1)] + bytes(rng.choice((0, 0, 7)))
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"
    if which == 4:
        text = texts.changed(rng, text.encode()).decode("latin-1")
    padded = text.ljust(rng.choice((0, 118))) + "\n"
    encoded = padded.encode("latin-1", errors="replace")
    version = rng.choice((b"\x01\x00",) * 6 + (b"\x02\x00", b"\x03\x00", b"\x09\x00"))
    # The first version has two bytes for it, however long it is.
    first = version == b"\x01\x00"
    size = struct.pack("<H", len(encoded) % 2**16) if first else struct.pack("<I", len(encoded))
    return b"\x93NUMPY" + version + size + encoded + content


def _zipped(rng: Random, arrays: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    how = rng.choice(
        (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2)
    )
    with zipfile.ZipFile(stream, "w", how) as archive:
        for name, data in arrays.items():
            said = (
                f"{name}.npy"
                if rng.random() < 0.97
                else odd.text(rng, name).encode("utf-8", "replace").decode()
            )
            # What stands behind a null is no part of a name; its date is 1980, not today.
            entry = zipfile.ZipInfo(said.partition("\0")[0] or "a")
            archive.writestr(entry, data, compress_type=how)
    data = stream.getvalue()
    return texts.changed(rng, data) if rng.random() < 0.3 else data
