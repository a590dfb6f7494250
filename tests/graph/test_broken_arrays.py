"""Files of arrays whose header, contents or packing are broken are refused by name."""

from __future__ import annotations

import io
import math
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import hetsim
from hetsim.errors import RequestError
from hetsim.execution.program import given_inputs
from hetsim.graph.graph import Tensor
from hetsim.graph.inputs.arrays import read_npy, read_npz
from onnx_builders import make_model, op, save, value
from sweeps import sweep

GOOD = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3), }"
HEADERS = {
    "does not end": "{'descr': '<f4', 'shape': (1, 3), ",
    "brackets": "(" * 60,
    "exceeds 64 bits": GOOD.replace("1,", "18446744073709551616,"),
    "negative": GOOD.replace("1,", "-1,"),
    "type": GOOD.replace("<f4", "nonsense"),
    "objects": GOOD.replace("<f4", "|O"),
    "no dictionary": "3",
    "other keys": "{'a': 1}",
}


ANY = {"a": None}
MIB = 2**20


def packed(*entries: tuple[str, bytes], how: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", how) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return stream.getvalue()


def npy(header: str, content: bytes = bytes(12)) -> bytes:
    text = header.encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content


@pytest.mark.parametrize("fault", HEADERS)
def test_a_broken_header(tmp_path: Path, fault: str) -> None:
    one, several = tmp_path / "a.npy", tmp_path / "a.npz"
    one.write_bytes(npy(HEADERS[fault]))
    several.write_bytes(packed(("a.npy", npy(HEADERS[fault]))))
    with pytest.raises(RequestError) as of_one:
        read_npy(one, str(one))
    with pytest.raises(RequestError) as of_packed:
        read_npz(several, ANY)
    assert (of_one.value.where, of_packed.value.where) == (str(one), str(several))


def test_bfloat16_is_read_as_the_model_states_it(tmp_path: Path) -> None:
    x = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    np.savez(tmp_path / "a.npz", a=x)
    read = read_npz(tmp_path / "a.npz", {"a": Tensor("a", "bfloat16", (2,))})["a"]
    assert (read.dtype, read.tobytes()) == (x.dtype, x.tobytes())


def test_packing_that_is_broken_anywhere(tmp_path: Path) -> None:
    whole = packed(("a.npy", npy(GOOD)))
    path = tmp_path / "a.npz"
    path.write_bytes(whole)
    assert read_npz(path, ANY)["a"].shape == (1, 3)
    refused = 0
    for at in range(0, len(whole), 3):
        for bit in (0, 7):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << bit)]) + whole[at + 1 :])
            try:
                np.testing.assert_array_equal(read_npz(path, ANY)["a"], np.zeros((1, 3)))
            except RequestError:
                refused += 1
    # Some bits are dates and names.
    assert refused > len(whole) / 6


def floats(*shape: int) -> bytes:
    return npy(GOOD.replace("1, 3", ", ".join(map(str, shape)) + ","), bytes(4 * math.prod(shape)))


LIE = floats(2, 2)
BOMBS: dict[str, tuple[Callable[[], bytes], str]] = {
    "name": (lambda: packed(("a.npy", LIE), ("bomb.npy", floats(16 * MIB))), "no input 'bomb'"),
    "no array": (lambda: packed(("bomb", bytes(64 * MIB))), "no input 'bomb'"),
    "rank": (lambda: packed(("a.npy", floats(16 * MIB))), "has 1 dimensions, but .* reads 2"),
    "size": (lambda: packed(("a.npy", floats(2, 8 * MIB))), r"the model reads \[2, 2\]"),
    "dtype": (lambda: packed(("a.npy", npy(GOOD.replace("f4", "f8"), bytes(24)))), "is float64"),
    "method": (
        lambda: packed(("a.npy", floats(16 * MIB)), how=zipfile.ZIP_BZIP2), "not a .npz file",
    ),
    "declared size": (
        lambda: packed(("a.npy", LIE + bytes(64 * MIB))).replace(
            struct.pack("<I", len(LIE) + 64 * MIB), struct.pack("<I", len(LIE))
        ),
        "not a .npz file",
    ),
}  # fmt: skip


@sweep("bomb", quick=[*BOMBS][::7], full=BOMBS)
def test_what_the_model_does_not_read_is_not_unpacked(tmp_path: Path, bomb: str) -> None:
    made, said = BOMBS[bomb]
    path = tmp_path / "a.npz"
    path.write_bytes(made())
    assert path.stat().st_size < MIB
    nodes = [op("Neg", "a", "y"), op("Neg", "b", "z")]
    proto = make_model(nodes, [value("a", (2, 2)), value("b")], [value("y"), value("z")])
    model = save(proto, tmp_path)
    for read in (
        lambda: hetsim.load_model(model, inputs=path),
        lambda: given_inputs(hetsim.load_model(model), path, 0),
    ):
        tracemalloc.start()
        try:
            with pytest.raises(RequestError, match=said):
                read()
            assert tracemalloc.get_traced_memory()[1] < 16 * MIB
        finally:
            tracemalloc.stop()


def test_an_array_that_comes_twice(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with pytest.warns(UserWarning, match="Duplicate name"):
        path.write_bytes(packed(("a.npy", npy(GOOD)), ("a.npy", npy(GOOD))))
    with pytest.raises(RequestError, match="'a' appears twice"):
        read_npz(path, ANY)
