"""Large weights of an ONNX file, left in it while its graph is read and rewritten.

Parsing a whole file holds it in memory twice, and its weights are written again for ONNX Runtime
(``onnx_runtime``). Here the messages are scanned: large initializers become external data located
in the file itself, and only the rest is parsed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import onnx

from hetsim.graph.reading.external_data import refer, reference_of
from hetsim.graph.reading.onnx_types import bytes_of

LARGE_BYTES = 2**16
"""Minimum bytes of a constant to leave in the file."""

PAYS_BYTES = 2**24
"""Minimum total bytes of such constants to make it worthwhile."""

MOST_BYTES = 2**30
"""Maximum bytes of a file: larger ones are read whole. In larger files, large weights are not
folded: results are stored in the model, which is limited to 2 GiB and private to the process, while
files are shared."""

_MODEL_GRAPH, _GRAPH_INITIALIZER, _TENSOR_RAW = 7, 5, 9
_VARINT, _FIXED64, _MESSAGE, _FIXED32 = 0, 1, 2, 5
_HEAD_BYTES = 24
"""Maximum bytes of the tag and length of a field."""

_BODIES = frozenset({"If", "Loop", "Scan", "SequenceMap"})
_HALVES = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)

_Field = tuple[int, int, int, int]
"""Number, start of the tag, start of the content, and end of a field."""


class _Unread(Exception):
    """Signal to use the ordinary reader, which also reports errors in the file."""


def read_apart(path: Path) -> tuple[onnx.ModelProto, Path, os.stat_result] | None:
    """Return the model of a regular file, its large initializers as external data within it.

    Also returns the target of a link (`path` itself without one), whose folder holds the external
    data, and its state before reading.

    None if it is not worthwhile, or for another kind of file: above MOST_BYTES, with external data,
    functions, bodies, or 16-bit floats, or no model at all. O(messages).
    """
    try:
        if not PAYS_BYTES <= os.stat(path).st_size <= MOST_BYTES:
            return None
        held = path.resolve() if path.is_symlink() else path.absolute()
        with held.open("rb", buffering=4096) as file:
            found = os.fstat(file.fileno())
            return _read(file, held.name), held, found
    except (_Unread, OSError, ValueError):
        return None


def read_deferred(tensors: Iterator[onnx.TensorProto], file: BinaryIO) -> None:
    """Read the large tensors that ``read_apart`` left in its file. Raises OSError."""
    for tensor in tensors:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            length = bytes_of(tensor)
            content = os.pread(file.fileno(), length, reference_of(tensor)[1])
            if len(content) != length:
                raise OSError("it was changed while it was read")
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
            tensor.raw_data = content


def _read(file: BinaryIO, location: str) -> onnx.ModelProto:
    size = os.fstat(file.fileno()).st_size
    fields = list(_fields(file, 0, size))
    graphs = [field for field in fields if field[0] == _MODEL_GRAPH]
    if len(graphs) != 1:
        raise _Unread
    (_, begin, inside, end) = graphs[0]
    parts: list[bytes] = []
    done, large_bytes, count = inside, 0, 0
    for number, tag, content, after in _fields(file, inside, end):
        if number == _GRAPH_INITIALIZER and after - content >= LARGE_BYTES:
            made = _reference(file, content, after, location)
            if made is not None:
                parts.append(_slice(file, done, tag))
                parts.append(onnx.GraphProto(initializer=[made]).SerializeToString())
                done, count = after, count + 1
                large_bytes += bytes_of(made)
    if large_bytes < PAYS_BYTES:
        raise _Unread
    parts.append(_slice(file, done, end))
    try:
        proto = onnx.ModelProto()
        proto.ParseFromString(_slice(file, 0, begin) + _slice(file, end, size))
        proto.graph.ParseFromString(b"".join(parts))
    except Exception as error:  # protobuf's own type depends on its backend
        raise _Unread from error
    if proto.functions or any(node.op_type in _BODIES for node in proto.graph.node):
        raise _Unread
    outside = [t.data_location == onnx.TensorProto.EXTERNAL for t in proto.graph.initializer]
    if sum(outside) != count or proto.graph.sparse_initializer:
        raise _Unread
    return proto


def _reference(file: BinaryIO, begin: int, end: int, location: str) -> onnx.TensorProto | None:
    """Return a tensor with a reference instead of its raw data; None if it has none."""
    raw: _Field | None = None
    rest: list[bytes] = []
    for field in _fields(file, begin, end):
        if field[0] == _TENSOR_RAW and raw is None:
            raw = field
        elif field[3] - field[1] >= LARGE_BYTES:
            return None
        else:
            rest.append(_slice(file, field[1], field[3]))
    if raw is None or raw[3] - raw[2] < LARGE_BYTES:
        return None
    try:
        tensor = onnx.TensorProto()
        tensor.ParseFromString(b"".join(rest))
        fits = tensor.data_type not in _HALVES and raw[3] - raw[2] == bytes_of(tensor)
    except Exception as error:  # protobuf's own type, or an unknown one
        raise _Unread from error
    stated = {field.name for field, _ in tensor.ListFields()}
    if not fits or not stated <= {"dims", "data_type", "name", "doc_string"}:
        raise _Unread
    refer(tensor, location, raw[2], raw[3] - raw[2])
    return tensor


def _fields(file: BinaryIO, at: int, end: int) -> Iterator[_Field]:
    """Yield the fields of a message."""
    while at < end:
        file.seek(at)
        head = file.read(_HEAD_BYTES)
        key, used = _varint(head, 0)
        kind = key & 7
        if kind == _MESSAGE:
            length, used = _varint(head, used)
        elif kind == _VARINT:
            _, used = _varint(head, used)
            length = 0
        elif kind in (_FIXED32, _FIXED64):
            length = 4 if kind == _FIXED32 else 8
        else:
            raise _Unread
        after = at + used + length
        if after > end:
            raise _Unread
        yield key >> 3, at, at + used, after
        at = after


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number and its end position."""
    found = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        found |= (byte & 127) << shift
        if byte < 128:
            return found, at
        shift += 7
    raise _Unread


def _slice(file: BinaryIO, begin: int, end: int) -> bytes:
    file.seek(begin)
    content = file.read(end - begin)
    if len(content) != end - begin:
        raise _Unread
    return content
