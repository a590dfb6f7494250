"""The ONNX part of a compiled subgraph's file: large weights out of it, references in it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import onnx

from hetsim.device.artifact.layout import (
    ALIGNMENT,
    CHUNK_BYTES,
    CONTAINER,
    ONNX_LIMIT_BYTES,
)
from hetsim.device.artifact.onnx_check import nbytes_of, tensors_of_model
from hetsim.errors import ArtifactError

INLINE_BELOW_BYTES = 1024
"""Weights smaller than this stay in the graph: ONNX Runtime may need them to infer shapes."""

_MODEL_FIELDS = ("ir_version", "opset_import", "functions")
_GRAPH_FIELDS = ("name", "node", "input", "output", "value_info")
_EXTERNAL = onnx.TensorProto.EXTERNAL
_Piece = Callable[[], Iterator[bytes]]


class SharedWeights:
    """A file of weights that several models refer to; each is in it once.

    Parameters
    ----------
    stream : BinaryIO
        Written to from its start.

    Attributes
    ----------
    nbytes : int
        Written so far.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()
        self._offsets: dict[object, int] = {}
        self.nbytes = 0

    @property
    def sha256(self) -> str:
        """Of what was written so far."""
        return self._digest.hexdigest()

    def add(self, key: object, nbytes: int, read: _Piece) -> int:
        """Write what `read` gives where there is nothing of `key` yet; return its offset.

        Raises ArtifactError where it is not of `nbytes`.
        """
        if key not in self._offsets:
            self._write(bytes(-self.nbytes % ALIGNMENT))
            offset = self._offsets[key] = self.nbytes
            for chunk in read():
                self._write(chunk)
            _check_length(nbytes, self.nbytes - offset)
        return self._offsets[key]

    def _write(self, data: bytes) -> None:
        self._stream.write(data)
        self._digest.update(data)
        self.nbytes += len(data)


@dataclass(slots=True)
class PackedModel:
    """A model in two parts: the graph, and the bytes of its large weights.

    Attributes
    ----------
    proto : onnx.ModelProto
        Its large weights are references to ``weights``, offsets from the section's start.
    weights_bytes : int
        Size of the section.
    """

    proto: onnx.ModelProto
    weights_bytes: int = 0
    _pieces: list[tuple[int, int, _Piece]] = field(default_factory=list)

    def write_weights(self, write: Callable[[bytes], None]) -> None:
        """Hand the section to `write` piece by piece; one tensor is in memory at a time.

        Raises ArtifactError where a weights file is missing or shorter than it was.
        """
        at = 0
        for offset, nbytes, read in self._pieces:
            write(bytes(offset - at))
            at = offset
            for chunk in read():
                write(chunk)
                at += len(chunk)
            _check_length(nbytes, at - offset)

    def add(self, nbytes: int, read: _Piece) -> int:
        """Reserve room for `nbytes` that `read` gives; return the offset."""
        offset = -(-self.weights_bytes // ALIGNMENT) * ALIGNMENT
        self._pieces.append((offset, nbytes, read))
        self.weights_bytes = offset + nbytes
        return offset


def pack(
    proto: onnx.ModelProto, weights_dir: Path | None, shared: SharedWeights | None = None
) -> PackedModel:
    """Take the large weights out of a model.

    Initializers of 1 KiB and more, and those that are in files already, become references;
    two that share a place in a file still do. What else refers to a file is read into the
    graph. Doc strings of the model, its metadata and the like are left behind.

    Parameters
    ----------
    proto : onnx.ModelProto
        Not changed.
    weights_dir : Path or None
        Folder that its external data is relative to.
    shared : SharedWeights, optional
        Where the large weights go, instead of a section of the model's own.

    Raises
    ------
    ArtifactError
        Where a weights file is missing, or a reference is broken.

    Complexity: linear in the graph and the weights that stay in it.
    """
    packed = PackedModel(onnx.ModelProto())
    target = packed.proto
    for name in _MODEL_FIELDS:
        _copy_field(proto, target, name)
    target.graph.SetInParent()
    for name in _GRAPH_FIELDS:
        _copy_field(proto.graph, target.graph, name)
    target.graph.sparse_initializer.extend(proto.graph.sparse_initializer)
    placed: dict[tuple[str, int], int] = {}
    for tensor in proto.graph.initializer:
        entry = target.graph.initializer.add()
        nbytes = nbytes_of(tensor)
        if tensor.data_location == _EXTERNAL:
            read = _file_piece(tensor, nbytes, weights_dir)
            place = _place(tensor)
            if shared is not None:
                offset = shared.add((str(weights_dir), *place, nbytes), nbytes, read)
            elif place in placed:
                offset = placed[place]
            else:
                offset = placed[place] = packed.add(nbytes, read)
            _refer(entry, tensor, offset, nbytes)
        elif len(tensor.raw_data) >= INLINE_BELOW_BYTES:
            read = _inline_piece(tensor)
            if shared is not None:
                offset = shared.add(hashlib.sha256(tensor.raw_data).digest(), nbytes, read)
            else:
                offset = packed.add(nbytes, read)
            _refer(entry, tensor, offset, nbytes)
        else:
            entry.CopyFrom(tensor)
    for tensor in tensors_of_model(target):
        if tensor.data_location == _EXTERNAL and not _refers_to_container(tensor):
            data = b"".join(_file_piece(tensor, nbytes_of(tensor), weights_dir)())
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
            tensor.raw_data = data
    return packed


def relocated(proto: onnx.ModelProto, location: str, base: int) -> onnx.ModelProto:
    """Return `proto` with its references to ``weights`` pointing into a file instead.

    `location` is relative to a weights folder; the section starts at byte `base` of it.
    """
    moved = onnx.ModelProto()
    moved.CopyFrom(proto)
    for tensor in moved.graph.initializer:
        if tensor.data_location == _EXTERNAL:
            for entry in tensor.external_data:
                if entry.key == "location":
                    entry.value = location
                elif entry.key == "offset":
                    entry.value = str(int(entry.value) + base)
    return moved


def serialised(proto: onnx.ModelProto, name: str) -> bytes:
    """Return the bytes of a packed model. Raises ArtifactError above 2 GiB; `name` is its own."""
    try:
        content: bytes = proto.SerializeToString(deterministic=True)
    except Exception as error:  # protobuf's own type depends on its backend
        raise ArtifactError(
            f"larger than 2 GiB without its large weights: {' '.join(str(error).split())}",
            where=name,
        ) from error
    if len(content) > ONNX_LIMIT_BYTES:
        raise ArtifactError("larger than 2 GiB without its large weights", where=name)
    return content


def _check_length(nbytes: int, found: int) -> None:
    if found != nbytes:
        raise ArtifactError(
            f"a weight of {nbytes} bytes has {found} in its file",
            hint="load the model anew: its weights file changed",
        )


def _refer(entry: onnx.TensorProto, tensor: onnx.TensorProto, offset: int, nbytes: int) -> None:
    entry.name = tensor.name
    entry.data_type = tensor.data_type
    entry.dims.extend(tensor.dims)
    entry.data_location = _EXTERNAL
    for key, value in (("location", CONTAINER), ("offset", offset), ("length", nbytes)):
        entry.external_data.add(key=key, value=str(value))


def _refers_to_container(tensor: onnx.TensorProto) -> bool:
    return _place(tensor)[0] == CONTAINER


def _place(tensor: onnx.TensorProto) -> tuple[str, int]:
    fields = {entry.key: entry.value for entry in tensor.external_data}
    try:
        return str(fields["location"]), int(fields.get("offset") or 0)
    except (KeyError, ValueError):
        raise ArtifactError(
            f"the external data reference of tensor '{tensor.name}' is broken: {fields}",
            hint="save the model anew with its external data",
        ) from None


def _inline_piece(tensor: onnx.TensorProto) -> _Piece:
    return lambda: iter((tensor.raw_data,))


def _file_piece(tensor: onnx.TensorProto, nbytes: int, weights_dir: Path | None) -> _Piece:
    location, offset = _place(tensor)
    if weights_dir is None:
        raise ArtifactError(
            f"tensor '{tensor.name}' is in file '{location}', and no weights folder was given",
            hint="give the folder that the model was read from",
        )
    path = weights_dir / location

    def read() -> Iterator[bytes]:
        left = nbytes
        try:
            with path.open("rb") as stream:
                stream.seek(offset)
                while left and (chunk := stream.read(min(left, CHUNK_BYTES))):
                    left -= len(chunk)
                    yield chunk
        except OSError as error:
            raise ArtifactError(
                f"the weights cannot be read: {error.strerror or error}", where=str(path)
            ) from error

    return read


def _copy_field(source: Any, target: Any, name: str) -> None:
    value = getattr(source, name)
    if hasattr(value, "extend"):
        getattr(target, name).extend(value)
    elif source.HasField(name):
        setattr(target, name, value)
