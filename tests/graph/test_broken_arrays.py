"""Files of arrays whose header, contents or packing are broken are refused by name."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from hetsim.errors import RequestError
from hetsim.graph.inputs.files import read_npy, read_npz

GOOD = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3), }"
HEADERS = {
    "does not end": "{'descr': '<f4', 'shape': (1, 3), ",
    "brackets": "(" * 60,
    "beyond 64 bits": GOOD.replace("1,", "18446744073709551616,"),
    "negative": GOOD.replace("1,", "-1,"),
    "type": GOOD.replace("<f4", "nonsense"),
    "objects": GOOD.replace("<f4", "|O"),
    "no dictionary": "3",
    "other keys": "{'a': 1}",
}


def npy(header: str, content: bytes = bytes(12)) -> bytes:
    text = header.encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content


@pytest.mark.parametrize("fault", HEADERS)
def test_a_broken_header(tmp_path: Path, fault: str) -> None:
    one, packed = tmp_path / "a.npy", tmp_path / "a.npz"
    one.write_bytes(npy(HEADERS[fault]))
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.npy", npy(HEADERS[fault]))
    with pytest.raises(RequestError) as of_one:
        read_npy(one, str(one))
    with pytest.raises(RequestError) as of_packed:
        read_npz(packed)
    assert (of_one.value.where, of_packed.value.where) == (str(one), str(packed))


@pytest.mark.parametrize("how", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_packing_that_is_broken_anywhere(tmp_path: Path, how: int) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", how) as archive:
        archive.writestr("a.npy", npy(GOOD))
    whole = stream.getvalue()
    path = tmp_path / "a.npz"
    path.write_bytes(whole)
    assert read_npz(path)["a"].shape == (1, 3)
    refused = 0
    for at in range(0, len(whole), 3):
        for bit in (0, 7):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << bit)]) + whole[at + 1 :])
            try:
                np.testing.assert_array_equal(read_npz(path).popitem()[1], np.zeros((1, 3)))
            except RequestError:
                refused += 1
    # Some bits are dates and names.
    assert refused > len(whole) / 6
